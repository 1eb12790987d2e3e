"""``deepfls evaluate``: measure a model on a table that holds its targets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from deepfls.cli import settings as s
from deepfls.cli.errors import UsageError
from deepfls.cli.output import Output, shown, started_processes
from deepfls.cli.training import refuse_without_stream


def evaluate(
    model: Annotated[Path, s.MODEL_ARGUMENT],
    data: Annotated[str, s.DATA_ARGUMENT],
    target: s.TrueValues = None,
    stream: s.Stream = None,
    nulls: s.Nulls = None,
    coverage: Annotated[
        float | None,
        s.option("--coverage", "Of the intervals to measure; that of the training by default.", s.DATA, metavar="SHARE"),
    ] = None,
    quiet: s.Quiet = False,
    json: s.Json = False,
    debug: s.Debug = False,
) -> None:
    """Measure a model on a table: RMSE, MAE and R² of numbers, accuracy and log loss of classes.

    Of a model that was trained with --coverage the intervals or sets are measured too.
    """
    output = Output(quiet=quiet, json=json)
    if coverage is not None and not 0.0 < coverage < 1.0:
        raise UsageError(f"--coverage must be greater than 0 and less than 1, got {coverage}.")
    with output.shown_warnings():
        if stream or started_processes() > 1:
            from deepfls.cli.stream import evaluate_stream

            if coverage is not None:
                raise UsageError("--coverage must come without --stream: intervals are measured on tables in memory.")
            evaluate_stream(model, data, target or [], nulls or "error", output)
            return
        refuse_without_stream({"nulls": nulls})
        _run(model, data, target or [], coverage, output)


def _run(path: Path, source: str, target: list[str], coverage: float | None, output: Output) -> None:
    from deepfls.cli.interval_scores import interval_scores_of, json_interval_scores, print_interval_scores
    from deepfls.cli.models import open_data, open_model
    from deepfls.cli.scores import json_scores, print_scores, scores_of
    from deepfls.data.layout import targets
    from deepfls.data.tables import find_files

    find_files(source)
    with output.working("measuring"):
        model = open_model(path, targets=target)
        if not model.layout.targets:
            raise UsageError("--target must be given for a model that was trained in Python.")
        table = open_data(source, model)
        table.require(model.layout.targets, why=" to compare with")
        y = targets(table, model.layout, classes=model.classes is not None)
        x = model.inputs(table)
        scores = scores_of(model, x, y)
        covered = []
        if coverage is not None or model.estimator.calibration_ is not None:
            covered.append(("", interval_scores_of(model, x, y, coverage)))
    output.line(shown(path.name, "bold"), " on ", shown(source, "bold"), f": {table.n_rows:,} rows")
    output.line()
    print_scores(output, [("", scores)])
    if covered:
        output.line()
    print_interval_scores(output, covered, parts=True)
    output.result(
        {
            "command": "evaluate",
            "model": str(path),
            "data": [str(file) for file in table.files],
            "task": "regression" if model.classes is None else "classification",
            "rows": table.n_rows,
            "scores": json_scores(scores),
            "intervals": json_interval_scores(covered[0][1]) if covered else None,
        }
    )
