"""``deepfls evaluate``: measure a model on a table that holds its targets; ``deepfls train`` measures in the same way."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deepfls._checks.arguments import counted, left_out, listed, quoted
from deepfls.cli import options as o
from deepfls.cli.output import NAME_WIDTH, CommandOutput, UsageError, shown, started_processes

if TYPE_CHECKING:
    from deepfls._checks.values import Array
    from deepfls.cli.opening import Model
    from deepfls.training.distributed import Group

# Measures by target.
Scores = dict[str, dict[str, Any]]
# Coverages whose ends make the grid of quantiles for the CRPS, up to the largest that the calibration can promise.
_GRID = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
_HEADINGS = {
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "accuracy": "accuracy",
    "log_loss": "log loss",
    "picp": "covered",
    "mean_width": "mean width",
    "pinaw": "PINAW",
    "interval_score": "interval score",
    "crps": "CRPS",
    "set_size": "classes in a set",
}
# Shares have a fixed number of decimals; the size of the other numbers chooses theirs.
_DECIMALS = {"R²": 4, "accuracy": 4, "covered": 4, "PINAW": 4, "classes in a set": 3, "rows": 0}


@o.command
def evaluate(
    output: CommandOutput,
    model: Annotated[Path, o.MODEL_ARGUMENT],
    data: Annotated[str, o.DATA_ARGUMENT],
    target: o.TrueValues = None,
    stream: o.Stream = None,
    nulls: o.Nulls = None,
    coverage: Annotated[float | None, o.option("Coverage of the intervals to measure.", "that of the training")] = None,
) -> None:
    """Measure a model on a table: RMSE, MAE and R² of numbers, accuracy and log loss of classes.

    The intervals or sets of a model that was trained with --coverage are measured too.
    """
    if coverage is not None and not 0.0 < coverage < 1.0:
        raise UsageError(f"--coverage must be greater than 0 and less than 1, got {coverage}.")
    streamed = bool(stream) or started_processes() > 1
    if streamed and coverage is not None:
        raise UsageError("--coverage must be given without --stream: intervals are measured on tables in memory.")
    nulls = o.check_choice("--nulls", nulls or "drop", o.NULLS)
    from deepfls.cli.opening import check_targets_named, open_model
    from deepfls.data.tables import find_files

    if not streamed:
        find_files(data)
    with output.working("starting"):  # importing torch takes seconds
        from deepfls.training.distributed import process_group
    intervals: Scores | None = None
    with process_group() as group:
        with group.together():
            opened = open_model(model, targets=target or [])
            check_targets_named(opened.layout.targets)
        with output.working("measuring"):
            if streamed:
                files, n_rows, scores = _measure_stream(opened, data, nulls, group, output)
            else:
                rows = opened.read(data, need_targets=True, nulls=nulls)
                assert rows.y is not None
                files, n_rows = list(map(str, rows.table.files)), rows.table.n_rows
                scores = scores_of(opened, [(rows.x, rows.y)], group)
                if coverage is not None or opened.estimator.calibration_ is not None:
                    intervals = interval_scores_of(opened, rows.x, rows.y, coverage)
        if not group.leads:
            return
        output.line(shown(model.name, "bold"), " on ", shown(data, "bold"), f": {counted(n_rows, 'row')}")
        output.line()
        print_scores(output, {"": scores})
        if intervals is not None:
            output.line()
            print_interval_scores(output, {"": intervals})
            _print_parts(output, intervals)
        output.result(
            {
                "command": "evaluate",
                "model": str(model),
                "data": files,
                "task": opened.task,
                "rows": n_rows,
                "processes": group.size,
                "scores": scores,
                "intervals": intervals,
            }
        )


def _measure_stream(
    model: Model, source: str, nulls: str, group: Group, output: CommandOutput
) -> tuple[list[str], int, Scores]:
    """Files, number of rows and measures of a table that is read by row groups, each by one of the processes."""
    import torch

    from deepfls.data.layout import with_targets
    from deepfls.estimators.table_model import tables_of

    with group.together():
        files, columns = model.stream(source, model.layout.targets, output)
    counts = torch.zeros(2, dtype=torch.int64)  # rows that are measured, rows without a target

    def chunks() -> Iterator[tuple[Any, Array]]:
        for data in tables_of(files, range(group.rank, len(files.groups), group.size), columns):
            known = with_targets(data, model.layout, nulls, is_part=True, trains=False)
            counts.add_(torch.tensor([known.n_rows, data.n_rows - known.n_rows]))
            if known.n_rows:
                yield model.inputs(known), model.targets(known)

    scores = scores_of(model, chunks(), group)
    n_rows, n_left_out = group.total(counts).tolist()
    if n_left_out and group.leads:
        warnings.warn(f"{left_out(n_left_out, 'a target')}.", stacklevel=2)
    return list(files.files), n_rows, scores


def scores_of(model: Model, chunks: Iterable[tuple[Any, Array]], group: Group) -> Scores:
    """RMSE, MAE and R² of numbers, accuracy and log loss of classes, over the chunks (x, y) of all processes."""
    from deepfls.data.tables import TableError
    from deepfls.estimators.table_model import ClassScores, NumberScores, merged_scores

    names, classes = model.target_names, model.classes
    scores: dict[str, Any] = {name: NumberScores() if classes is None else ClassScores(classes) for name in names}
    with group.together():
        for x, y in chunks:
            if len(y) == 0:
                continue
            if classes is None:
                predicted, truth = model.estimator.predict(x).reshape(len(y), -1), y.reshape(len(y), -1)
                for place, name in enumerate(names):
                    scores[name].update(truth[:, place], predicted[:, place])
            else:
                scores[names[0]].update(y, model.estimator.predict_proba(x))
    merged_scores(scores, group)
    if not scores[names[0]].n_rows:
        raise TableError(f"The table must have rows with a target, got no value in column {quoted(names[0])}.")
    unknown = [value for score in scores.values() for value in getattr(score, "unknown", [])]
    if unknown and group.leads:
        warnings.warn(f"The model has no class {listed(unknown)}: rows of it count as wrong.", stacklevel=2)
    return {name: score.values() for name, score in scores.items()}


def interval_scores_of(model: Model, x: Any, y: Array, coverage: float | None = None) -> Scores:
    """Measures of the intervals or sets at a coverage, that of the training by default.

    For numbers coverage (PICP), widths, interval score, pinball losses of both ends, CRPS, and the coverage by decile of
    the width and by group; for classes coverage and size of the sets.
    """
    import numpy as np
    from sklearn.metrics import mean_pinball_loss

    from deepfls import metrics
    from deepfls.estimators.calibration import group_name

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
    columns, table = calibration.group_columns, estimator.columns_
    groups = [group_name(row, columns, table) for row in estimator._known_x(x)[:, columns]] if columns else None
    tail = 0.5 * (1.0 - coverage)
    scores: Scores = {}
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


def print_scores(output: CommandOutput, parts: Mapping[str, Scores]) -> None:
    """Print a table of measures: one row per target and part of the rows, such as train and test."""
    first = next(iter(parts.values()))
    measures = [name for name in _HEADINGS if name in next(iter(first.values()))]
    rows: list[list[Any]] = []
    for target in first:
        for place, (part, scores) in enumerate(parts.items()):
            name = shown(target, width=NAME_WIDTH) if place == 0 else ""
            rows.append([name, *([part] if part else []), *(float(scores[target][measure]) for measure in measures)])
    head = ["target", *(["rows"] if "" not in parts else []), *(_HEADINGS[measure] for measure in measures)]
    output.table(head, rows, _DECIMALS)


def print_interval_scores(output: CommandOutput, parts: Mapping[str, Scores]) -> None:
    """Print a table of measures of intervals or sets under a heading."""
    first = next(iter(next(iter(parts.values())).values()))
    output.line(f"{'Sets' if 'set_size' in first else 'Intervals'} for a coverage of {first['nominal']:g}")
    output.line()
    print_scores(output, parts)
    output.line()


def _print_parts(output: CommandOutput, scores: Scores) -> None:
    """Print the coverage by width and by group."""
    for kind, title in (("by_width", "tenth by width"), ("by_group", "group")):
        for target, measured in scores.items():
            rows: list[list[Any]] = []
            for part in measured.get(kind, ()):
                names = [shown(name, width=NAME_WIDTH) for name in (target, part["part"])]
                rows.append([*names, *(float(part[name]) for name in ("coverage", "width", "n_rows"))])
            if rows:
                output.table(["target", title, "covered", "mean width", "rows"], rows, _DECIMALS)
                output.line()
