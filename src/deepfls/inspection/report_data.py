"""What the page is given: the system, ranges, and what is known of training and data, as plain values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from deepfls import metrics
from deepfls._checks import check_same_length, check_targets_of
from deepfls.estimators.base import FLSEstimator
from deepfls.inspection.canvas import input_span
from deepfls.inspection.explanation import reference_row
from deepfls.inspection.plain import Array, PlainSystem
from deepfls.inspection.rules import outputs_of

# Numbers of the data that a page carries, in rows to call up, and points of a learning curve.
_SAMPLE_NUMBERS, _SAMPLE_ROWS = 20_000, 200
_CURVE_POINTS = 300
_METHODS = {
    "km": "Karnik-Mendel, the middle of the set",
    "nt": "Nie-Tan",
    "bmm": "Begian-Melek-Mendel",
    "sm": "simplified mean",
}
_FOOTPRINTS = {"h": "heights", "s": "widths", "hs": "heights and widths"}


def payload_of(estimator: FLSEstimator, X: Any = None, y: Any = None) -> dict[str, Any]:
    """The content of the page for a fitted estimator, with data where there are any."""
    s = PlainSystem.of(estimator)
    x = None if X is None else estimator._validated_x(X, reset=False)
    spans = np.array([input_span(s, m) for m in range(s.n_features)]).T
    low, high = _output_spans(estimator, s)
    start = [_rounded(v, *spans[:, m]) for m, v in enumerate(reference_row(estimator, s).tolist())]
    constant = np.zeros(s.n_features, dtype=bool) if s.input_range is None else s.input_range[0] == s.input_range[1]
    interval = s.kind == "it2"
    return {
        "kind": s.kind,
        "tnorm": s.tnorm,
        "uncertainty": s.uncertainty,
        "type_reduction": s.type_reduction,
        "mix": None if s.mix is None else s.mix.tolist(),
        "classifies": s.classes is not None,
        "inputs": {
            "names": list(s.feature_names),
            "low": spans[0].tolist(),
            "high": spans[1].tolist(),
            "start": start,
            "constant": constant.tolist(),
        },
        "outputs": {"names": list(s.output_names), "low": low.tolist(), "high": high.tolist()},
        "centers": s.centers.tolist(),
        "lower_sigmas": s.lower_sigmas.tolist() if interval else None,
        "upper_sigmas": s.upper_sigmas.tolist(),
        "log_heights": s.log_heights.tolist() if "h" in s.uncertainty else None,
        "intercepts": s.intercepts.tolist(),
        "slopes": s.slopes.tolist() if s.order == 1 else None,
        "shares": None if s.rule_shares is None else s.rule_shares.tolist(),
        "settings": _settings(estimator, s),
        "history": _history(estimator),
        "data": None if x is None else _data(s, x, y),
    }


def _rounded(value: float, low: float, high: float) -> float:
    """A starting value with no more decimals than a thousandth of the range needs."""
    decimals = max(0, math.ceil(-math.log10((high - low) / 1000)))
    return round(value, decimals)


def _output_spans(estimator: FLSEstimator, s: PlainSystem) -> tuple[Array, Array]:
    """Scales of the gauges: where the rules stand and, for numbers, where the targets lie."""
    centers = s.centers if s.input_range is None else np.clip(s.centers, *s.input_range)
    reached = s.output(centers)
    low, high = reached.y_left.min(axis=0), reached.y_right.max(axis=0)
    if s.classes is None and estimator.scaling == "standard":
        shift, scale = estimator.y_scaling_.shift, estimator.y_scaling_.scale
        low, high = np.minimum(low, shift - 2 * scale), np.maximum(high, shift + 2 * scale)
    if s.classes is not None:  # scores are compared with each other
        low, high = np.full_like(low, low.min()), np.full_like(high, high.max())
    margin = np.where(high > low, 0.05 * (high - low), np.maximum(np.abs(low), 1.0) * 0.1)
    return low - margin, high + margin


def _settings(estimator: FLSEstimator, s: PlainSystem) -> list[list[str]]:
    tnorm = "product of the grades" if s.tnorm == "product" else "geometric mean of the grades (htsk)"
    facts = [
        ["sets", "Interval Type-2" if s.kind == "it2" else "Type-1"],
        ["rules", f"{s.n_rules:,}"],
        ["inputs", f"{s.n_features:,}"],
        ["firing", tnorm],
        ["consequents", "linear" if s.order == 1 else "constant"],
    ]
    if s.kind == "it2":
        facts += [["uncertain", _FOOTPRINTS[s.uncertainty]], ["type reduction", _METHODS[s.type_reduction]]]
    epochs = len(estimator.history_)
    loss = estimator.loss if isinstance(estimator.loss, str) else "own loss"
    return [*facts, ["training", f"{epochs:,} epoch{'s' * (epochs != 1)}, loss {loss}, ended by {estimator.stopped_by_}"]]


def _history(estimator: FLSEstimator) -> list[dict[str, float | None]]:
    rows = estimator.history_
    step = max(1, -(-len(rows) // _CURVE_POINTS))
    thinned = [*rows[:-1:step], *rows[-1:]]
    names = ("epoch", "loss", "validation_loss")
    return [{name: _finite(row[name]) for name in names if name in row} for row in thinned]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _data(s: PlainSystem, x: Array, y: Any) -> dict[str, Any]:
    """Summary of the rows, measures where the true values are known, and some rows to call up."""
    count = max(1, min(_SAMPLE_ROWS, _SAMPLE_NUMBERS // s.n_features, len(x)))
    chosen = np.sort(np.random.default_rng(0).permutation(len(x))[:count])
    truth = None
    if y is not None:
        check_same_length(x, y)
        truth = np.asarray(y).reshape(-1, 1) if s.classes is not None else check_targets_of(y, len(x), s.n_outputs)
    return {
        "rows": len(x),
        "summary": {
            "least": x.min(axis=0).tolist(),
            "largest": x.max(axis=0).tolist(),
            "mean": x.mean(axis=0).tolist(),
            "spread": x.std(axis=0).tolist(),
        },
        "metrics": [] if truth is None else _measures(s, x, truth),
        "sample": x[chosen].tolist(),
        "places": (chosen + 1).tolist(),
        "truth": None if truth is None else [[_plain(v) for v in row] for row in truth[chosen].tolist()],
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, float) else str(value)


def _measures(s: PlainSystem, x: Array, truth: Array) -> list[dict[str, Any]]:
    from sklearn.metrics import accuracy_score, mean_absolute_error, r2_score, root_mean_squared_error

    outputs = outputs_of(s, x)
    if s.classes is not None:
        odds = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        labels = truth[:, 0]
        values = {
            "accuracy": accuracy_score(labels, s.classes[outputs.argmax(axis=1)]),
            "log loss": metrics.log_loss(labels, odds / odds.sum(axis=1, keepdims=True), s.classes),
        }
        return [{"name": "all classes", "values": {name: _finite(v) for name, v in values.items()}}]
    rows = []
    for k, name in enumerate(s.output_names):
        pair = truth[:, k], outputs[:, k]
        values = {"RMSE": root_mean_squared_error(*pair), "MAE": mean_absolute_error(*pair), "R²": r2_score(*pair)}
        rows.append({"name": name, "values": {measure: _finite(v) for measure, v in values.items()}})
    return rows
