"""Measures of the intervals or sets of a model on rows, for tables and for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deepfls.cli.models import Model
from deepfls.cli.output import Output, finite, name_cell
from deepfls.data.layout import Array

# Coverages whose ends make the grid of quantiles for the CRPS, up to the largest that the calibration can promise.
_GRID = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
_HEADINGS = {
    "picp": "covered",
    "mean_width": "mean width",
    "pinaw": "PINAW",
    "interval_score": "interval score",
    "crps": "CRPS",
    "set_size": "classes in a set",
}
_DECIMALS = {"covered": 4, "PINAW": 4, "classes in a set": 3, "rows": 0}
IntervalScores = dict[str, dict[str, Any]]


def interval_scores_of(model: Model, x: Any, y: Array, coverage: float | None = None) -> IntervalScores:
    """Measures by target at a coverage, that of the training by default.

    For numbers coverage (PICP), widths, interval score, pinball losses of both ends, CRPS, and the coverage by decile of
    the width and by group; for classes coverage and size of the sets.
    """
    import numpy as np
    from sklearn.metrics import mean_pinball_loss

    from deepfls import metrics

    estimator: Any = model.estimator
    calibration = estimator.calibration_
    if coverage is None and calibration is not None:
        coverage = calibration.coverage
    if model.classes is not None:
        sets = estimator.predict_set(x, coverage=coverage)
        hit = (sets & (y[:, None] == model.classes[None, :])).any(axis=1)
        measured = {"nominal": coverage, "picp": float(hit.mean()), "set_size": float(sets.sum(axis=1).mean())}
        return {model.target_names[0]: measured}
    truth = y.reshape(len(y), -1)
    lower, upper = (end.reshape(len(y), -1) for end in estimator.predict_interval(x, coverage=coverage))
    assert coverage is not None  # predict_interval refuses a model without one
    levels, quantiles = _quantile_grid(model, x, truth.shape)
    groups = _group_names(model, x)
    tail = 0.5 * (1.0 - coverage)
    scores: IntervalScores = {}
    for place, name in enumerate(model.target_names):
        ends = truth[:, place], lower[:, place], upper[:, place]
        scores[name] = {
            "nominal": coverage,
            "picp": metrics.picp(*ends),
            "mean_width": metrics.mean_width(*ends[1:]),
            "pinaw": metrics.pinaw(*ends),
            "interval_score": metrics.interval_score(*ends, coverage),
            "pinball_lower": mean_pinball_loss(ends[0], ends[1], alpha=tail),
            "pinball_upper": mean_pinball_loss(ends[0], ends[2], alpha=1.0 - tail),
            **({"crps": metrics.crps(ends[0], quantiles[:, :, place], levels)} if len(levels) else {}),
            "by_width": [part._asdict() for part in metrics.coverage_by_width(*ends)],
            "by_group": [] if groups is None else [p._asdict() for p in metrics.coverage_by_group(*ends, np.array(groups))],
        }
    return scores


def _quantile_grid(model: Model, x: Any, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Levels and quantiles (rows, levels, outputs) from the ends of intervals; none of an uncalibrated model."""
    import numpy as np

    estimator: Any = model.estimator
    calibration = estimator.calibration_
    coverages = [c for c in _GRID if c <= calibration.largest_coverage] if calibration.method != "none" else []
    if not coverages:
        return np.empty(0), np.empty((*shape[:1], 0, *shape[1:]))
    ends = [[end.reshape(shape) for end in estimator.predict_interval(x, coverage=c)] for c in coverages]
    columns = [*(pair[0] for pair in reversed(ends)), estimator.predict(x).reshape(shape), *(pair[1] for pair in ends)]
    tails = 0.5 * (1.0 - np.array(coverages))
    return np.concatenate([tails[::-1], [0.5], 1.0 - tails]), np.stack(columns, axis=1)


def _group_names(model: Model, x: Any) -> list[str] | None:
    """The group of each row, by the values of the inputs that were grouped by."""
    from deepfls.estimators.calibration import group_name

    estimator: Any = model.estimator
    columns = list(estimator.calibration_.group_columns)
    if not columns:
        return None
    return [group_name(values) for values in estimator._validated_x(x, reset=False)[:, columns]]


def print_interval_scores(output: Output, groups: Sequence[tuple[str, IntervalScores]], *, parts: bool = False) -> None:
    """A table of measures by target and group of rows; with ``parts`` also the coverage by width and by group."""
    if not groups:
        return
    first = next(iter(groups[0][1].values()))
    measures = [name for name in _HEADINGS if name in first]
    output.line(f"{'Sets' if 'set_size' in first else 'Intervals'} for a coverage of {first['nominal']:g}")
    output.line()
    rows: list[list[Any]] = []
    for target in groups[0][1]:
        for place, (group, scores) in enumerate(groups):
            name = name_cell(target) if place == 0 else ""
            rows.append([name, *([group] if group else []), *(float(scores[target][measure]) for measure in measures)])
    grouped = bool(groups[0][0])
    head = ["target", *(["rows"] if grouped else []), *(_HEADINGS[measure] for measure in measures)]
    output.table(head, rows, _DECIMALS)
    output.line()
    for kind, title in (("by_width", "tenth by width"), ("by_group", "group")):
        for target, measured in groups[0][1].items():
            if parts and measured.get(kind):
                lines = [
                    [name_cell(target), name_cell(part["part"]), part["coverage"], part["width"], float(part["n_rows"])]
                    for part in measured[kind]
                ]
                output.table(["target", title, "covered", "mean width", "rows"], lines, _DECIMALS)
                output.line()


def json_interval_scores(scores: IntervalScores) -> Mapping[str, Any]:
    """The measures as JSON takes them."""
    return {
        target: {name: finite(value) if isinstance(value, float) else value for name, value in measured.items()}
        for target, measured in scores.items()
    }
