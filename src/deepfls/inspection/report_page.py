"""The report page: a template, a style sheet, plain JavaScript and the system as JSON in one file that loads nothing.

A content security policy names the hashes of the one script and the one style sheet, so that nothing else in the file can
run or load, whatever a name contains. Names enter the page as JSON and as escaped text, never as markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deepfls import __version__, metrics
from deepfls._checks.arguments import counted
from deepfls._checks.values import Array, softmax
from deepfls._files import user_path, write_whole
from deepfls.functional.constants import LOG_FLOOR, TOLERANCE, max_sweeps
from deepfls.inspection import plain_model, words
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.plain_model import AnyModel, PlainModel

if TYPE_CHECKING:
    from deepfls.estimators.base import FLSEstimator

# Each script uses only those before it.
_NAMES = ("inference", "dom", "inputs", "outputs", "pushes", "rules", "response", "records", "app")
_SCRIPTS = tuple(f"{name}.js" for name in _NAMES)
# Largest sample of the data in a page, in numbers and in rows, and largest number of points of a learning curve.
_SAMPLE_NUMBERS, _SAMPLE_ROWS = 20_000, 200
_CURVE_POINTS = 300
# Conditions of all rules together that the sentences of a page may have, about.
_CONDITIONS = 4_000
_METHODS = {
    "km": "Karnik-Mendel, the middle of the set",
    "nt": "Nie-Tan",
    "bmm": "Begian-Melek-Mendel",
    "sm": "simplified mean",
}
# Width of a set that was left out, as a number that JSON has.
_NO_WIDTH = 1e150
# Measures that are shares, which read as percentages.
SHARES = ("accuracy", "covered")
_SUMMARY: dict[str, Callable[..., Array]] = {
    "least": np.ma.min,
    "largest": np.ma.max,
    "mean": np.ma.mean,
    "spread": np.ma.std,
}
_FOOTPRINTS = {"h": "heights", "s": "widths", "hs": "heights and widths"}


def write_report(
    estimator: FLSEstimator, path: str | os.PathLike[str], X: Any = None, y: Any = None, *, title: str | None = None
) -> Path:
    """Write the page of a fitted estimator; :meth:`FLSRegressor.to_report` has the parameters."""
    target = user_path(path)
    # A name read from JSON may hold half a surrogate pair, which UTF-8 cannot encode.
    write_whole(target, report_html(estimator, X, y, title=title).encode("utf-8", "xmlcharrefreplace"))
    return target


def report_html(estimator: FLSEstimator, X: Any = None, y: Any = None, *, title: str | None = None) -> str:
    """The page of a fitted estimator as text."""
    from markupsafe import Markup

    content = json.dumps(payload_of(estimator, X, y), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # A script element ends at "</script" and changes its meaning at "<!--"; escaping every bracket covers both.
    for character in "<>&":
        content = content.replace(character, f"\\u{ord(character):04x}")
    script = '"use strict";\n(() => {\n' + "\n".join(map(_read, _SCRIPTS)) + "})();\n"
    style = _read("page.css")
    s = PlainModel.of(estimator)
    return words.rendered(
        "page.html",
        title=title or title_of(s),
        subtitle=words.system_line(s),
        version=__version__,
        interval=s.kind != "t1",
        classifies=s.classes is not None,
        payload=Markup(content),  # escaped above
        script=Markup(script),  # a file of this package
        style=Markup(style),  # a file of this package
        script_hash=_hash(script),
        style_hash=_hash(style),
    )


def title_of(s: AnyModel) -> str:
    """The names of the first outputs, where no title is given."""
    names = [*s.output_names[:3], *(["others"] * (s.n_outputs > 3))]
    return words.listed(names)


def _read(name: str) -> str:
    text = resources.files("deepfls.inspection").joinpath("page_files", name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def payload_of(estimator: FLSEstimator, X: Any = None, y: Any = None) -> dict[str, Any]:
    """The content of the page as plain values: system, constants, ranges, settings, training, and the data if given."""
    s = PlainModel.of(estimator)
    x = plain_model.rows_given(estimator, X, y)
    spans = np.array([s.input_span(m) for m in range(s.n_features)]).T
    low, high = _output_spans(estimator, s)
    reference = plain_model.reference_row(estimator, s)
    start = [_rounded(v, *spans[:, m]) for m, v in enumerate(reference.tolist())]
    groups = estimator.columns_.groups
    for column, first, end in groups:  # the most frequent category
        start[first:end] = min(column.codes.tolist(), key=lambda code: math.dist(code, start[first:end]))
    constant = np.zeros(s.n_features, dtype=bool) if s.input_range is None else s.input_range[0] == s.input_range[1]
    importances = getattr(estimator, "feature_importances_", None)
    calibration = plain_model.calibration_of(estimator)
    usual = getattr(estimator, "familiar_firing_", None)
    most = max(system.n_rules for system in s.systems)
    n_shown = int(np.clip(_CONDITIONS // (most * len(s.systems)), 3, 12))
    inputs = set(plain_model.most_important(estimator, n_shown))
    return {
        "systems": [{**_system_values(system), **_rule_values(system, inputs)} for system in s.systems],
        "system_shares": list(s.shares),
        "bounds": None if s.bounds is None else np.clip(s.bounds, -_NO_WIDTH, _NO_WIDTH).tolist(),
        "familiar": None if usual is None else usual.tolist(),
        "constants": {"log_floor": LOG_FLOOR, "tolerance": TOLERANCE, "max_sweeps": max_sweeps(most)},
        "classifies": s.classes is not None,
        "inputs": {
            "names": list(s.feature_names),
            "low": spans[0].tolist(),
            "high": spans[1].tolist(),
            "start": start,
            "reference": reference.tolist(),
            "constant": constant.tolist(),
            "missing": estimator.missing == "auto",
            "groups": [
                {"name": c.name, "first": first, "categories": list(c.categories), "codes": c.codes.tolist()}
                for c, first, _ in groups
            ],
            "ranked": None if importances is None else plain_model.most_important(estimator, s.n_features),
        },
        "outputs": {"names": list(s.output_names), "low": low.tolist(), "high": high.tolist()},
        "coverage": None if calibration is None else calibration.coverage,
        "interval": _interval(estimator),
        "settings": settings_of(estimator, s),
        "history": _history(estimator),
        "data": None if x is None else _data(estimator, s, x, y),
    }


def _system_values(s: PlainSystem) -> dict[str, Any]:
    """Options and parameters of a system; the sets of conditions that were left out are so wide that their grade is 1."""

    def widths(sigmas: Array) -> list[list[float]]:
        return np.where(np.isfinite(sigmas), sigmas, _NO_WIDTH).tolist()

    return {
        "kind": s.kind,
        "tnorm": s.tnorm,
        "uncertainty": s.uncertainty,
        "type_reduction": s.type_reduction,
        "mix": None if s.mix is None else s.mix.tolist(),
        "alphas": None if s.alphas is None else s.alphas.tolist(),
        "centers": s.centers.tolist(),
        "lower_sigmas": None if s.kind == "t1" else widths(s.lower_sigmas),
        "upper_sigmas": widths(s.upper_sigmas),
        "log_heights": s.log_heights.tolist() if "h" in s.uncertainty else None,
        "intercepts": s.intercepts.tolist(),
        "slopes": s.slopes.tolist() if s.order == 1 else None,
    }


def _rule_values(s: PlainSystem, inputs: set[int]) -> dict[str, Any]:
    """What the page shows of the rules of a system beside their parameters; sentences have the given inputs."""
    groups = [] if s.columns is None else s.columns.groups
    categories, sentences = [], []
    for rule in range(s.n_rules):
        found = words.clauses(s, rule, 4)
        said = {clause.feature: clause for clause in found if clause.word != words.ALMOST_ANY}
        categories.append([said[first].numbers if first in said else "any" for _, first, _ in groups])
        told = [clause for clause in found if clause.feature in inputs]
        sentences.append(
            {
                "conditions": [[c.name, c.word, c.numbers] for c in told if c.feature in said],
                "any": [c.name for c in told if c.feature not in said],
                "more": len(found) - len(told),
                "outputs": words.short_consequent_texts(s, rule, 4, len(inputs)),
            }
        )
    return {
        "active": np.isfinite(s.upper_sigmas).tolist(),
        "terms": None if s.terms is None else words.set_words(s),
        "note": words.SAME if words.says_the_same(s) else "",
        "categories": categories,
        "sentences": sentences,
        "vocabulary": words.vocabulary(s, 4),
        "shares": None if s.rule_shares is None else s.rule_shares.tolist(),
    }


def _interval(estimator: FLSEstimator) -> dict[str, Any] | None:
    """What the page needs to compute calibrated intervals anywhere; None where it has none, or only those of its rows."""
    calibration = plain_model.calibration_of(estimator)
    if calibration is None or calibration.method != "cqr" or calibration.group_columns:
        return None
    part = getattr(estimator, "interval_model_", None)
    s = PlainModel.of(estimator if part is None else part)
    gain, reach = plain_model.gain_and_reach(calibration, s)
    return {
        "gain": gain.tolist(),
        "reach": reach.tolist(),
        "systems": None if part is None else list(map(_system_values, s.systems)),
    }


def _rounded(value: float, low: float, high: float) -> float:
    """A starting value with no more decimals than a thousandth of the range needs."""
    decimals = max(0, math.ceil(-math.log10((high - low) / 1000)))
    return round(value, decimals)


def _output_spans(estimator: FLSEstimator, s: AnyModel) -> tuple[Array, Array]:
    """Scales of the gauges: the outputs at the centers of the rules and, for numbers, the range of the targets."""
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


def settings_of(estimator: FLSEstimator, model: PlainModel) -> list[list[str]]:
    s = model.systems[0]
    tnorm = "product of the grades" if s.tnorm == "product" else "geometric mean of the grades (htsk)"
    facts = [
        ["sets", words.KIND_NAMES[s.kind]],
        ["rules", f"{model.n_rules:,}" + (f" in {len(model.systems)} systems" if len(model.systems) > 1 else "")],
        ["inputs", f"{len(words.read_inputs(s.feature_names, s.columns)):,}"],
        ["firing", tnorm],
        ["consequents", "linear" if s.order == 1 else "constant"],
    ]
    if s.alphas is not None:
        facts += [["planes of the crisp output", ", ".join(f"α = {alpha:g}" for alpha in s.alphas)]]
    if s.kind == "it2":
        facts += [["uncertain", _FOOTPRINTS[s.uncertainty]], ["type reduction", _METHODS[s.type_reduction]]]
    loss = estimator.loss if isinstance(estimator.loss, str) else "own loss"
    epochs = counted(len(estimator.history_), "epoch")
    facts.append(["training", f"{epochs}, loss {loss}, ended by {estimator.stopped_by_}"])
    chosen = getattr(estimator, "chosen_", None)
    if chosen is not None:
        facts.append(["chosen on held-out rows", f"{epochs}, {counted(s.n_rules, 'rule')}{_mixture(chosen)}"])
    return facts


def _mixture(chosen: dict[str, Any]) -> str:
    """How much of the trained system and of a linear model the THEN parts hold; empty for the system alone."""
    own, line = (
        ", ".join(dict.fromkeys(f"{share:.2f}" for share in chosen[key])) for key in ("system_share", "line_share")
    )
    return "" if (own, line) == ("1.00", "0.00") else f"; {own} times the trained system plus {line} times a linear model"


def _history(estimator: FLSEstimator) -> list[dict[str, float | None]]:
    rows = estimator.history_
    step = max(1, -(-len(rows) // _CURVE_POINTS))
    thinned = [*rows[:-1:step], *rows[-1:]]
    names = ("epoch", "loss", "validation_loss")
    return [{name: words.finite_or_none(row[name]) for name in names if name in row} for row in thinned]


def _data(estimator: FLSEstimator, s: AnyModel, x: Array, y: Any) -> dict[str, Any]:
    """Summary and sample of the rows; error measures if the true values are given."""
    count = max(1, min(_SAMPLE_ROWS, _SAMPLE_NUMBERS // s.n_features, len(x)))
    chosen = np.sort(np.random.default_rng(0).permutation(len(x))[:count])
    known, truth, told = np.ma.masked_invalid(x), None, None
    if y is not None:
        truth = plain_model.true_values(s, x, y)
        shown = truth.reshape(len(x), -1)[chosen].tolist()
        told = [[v if isinstance(v, float) else str(v) for v in row] for row in shown]
    calibrated = (
        None if plain_model.calibration_of(estimator) is None else plain_model.calibrated_rows(estimator, x[chosen])
    )
    return {
        "rows": len(x),
        "summary": {name: _finite(np.ma.filled(f(known, axis=0), np.nan)) for name, f in _SUMMARY.items()},
        "metrics": [] if truth is None else measures_of(estimator, s, x, truth),
        "intervals": None if calibrated is None or estimator._classifies else calibrated.tolist(),
        "sets": None if calibrated is None or not estimator._classifies else calibrated.tolist(),
        "sample": [_finite(row) for row in x[chosen]],
        "places": (chosen + 1).tolist(),
        "truth": told,
    }


def _finite(values: Array) -> list[Any]:
    """Numbers for JSON: None in place of those of a column without known values."""
    return [words.finite_or_none(value) for value in values.tolist()]


def measures_of(estimator: FLSEstimator, s: AnyModel, x: Array, truth: Array) -> list[dict[str, Any]]:
    """Error measures for rows x and their true values; with calibrated intervals also their coverage and width."""
    from sklearn.metrics import accuracy_score, mean_absolute_error, r2_score, root_mean_squared_error

    outputs = plain_model.outputs_of(s, x)
    if s.classes is not None:
        accuracy = accuracy_score(np.ravel(truth), s.classes[outputs.argmax(axis=1)])
        log_loss = metrics.log_loss(np.ravel(truth), softmax(outputs), s.classes)
        return [{"name": "all classes", "values": {"accuracy": accuracy, "log loss": words.finite_or_none(log_loss)}}]
    measures = {"RMSE": root_mean_squared_error, "MAE": mean_absolute_error}
    measures |= {"R²": r2_score} if len(truth) > 1 else {}  # undefined for one row
    found: list[dict[str, Any]] = [
        {"name": name, "values": {key: words.finite_or_none(f(truth[:, k], outputs[:, k])) for key, f in measures.items()}}
        for k, name in enumerate(s.output_names)
    ]
    if plain_model.calibration_of(estimator) is not None:
        ends = plain_model.calibrated_rows(estimator, x)
        for k, row in enumerate(found):
            within = (ends[:, 0, k] <= truth[:, k]) & (truth[:, k] <= ends[:, 1, k])
            width = float(np.ptp(ends[:, :, k], axis=1).mean())
            row["values"] |= {"covered": float(within.mean()), "width": width}
    return found
