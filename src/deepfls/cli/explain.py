"""``deepfls explain``: the rules of a model, what they do on a table, and why a row gets its prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from deepfls.cli import settings as s
from deepfls.cli.errors import UsageError
from deepfls.cli.output import Output

_FORMATS = ("text", "table", "markdown")


def explain(
    model: Annotated[Path, s.MODEL_ARGUMENT],
    data: Annotated[
        str | None, typer.Argument(help="CSV or Parquet file to measure rules and inputs on.", metavar="[DATA]")
    ] = None,
    row: Annotated[
        int | None, s.option("--row", "Explain the prediction of this row of DATA, from 1.", s.DATA, metavar="N", min=1)
    ] = None,
    target: s.TrueValues = None,
    top: Annotated[int | None, s.option("--top", "Rules to show; all by default.", s.OUTPUT, metavar="N", min=1)] = None,
    digits: Annotated[
        int, typer.Option("--digits", help="Significant digits.", rich_help_panel=s.OUTPUT, metavar="N", min=1, max=17)
    ] = 4,
    exact: Annotated[bool, s.flag("--exact", text="All digits: the text reproduces every prediction.")] = False,
    drop: Annotated[bool, s.flag("--drop", text="Leave out sets wider than the data, and say what that costs.")] = False,
    format: Annotated[  # noqa: A002  # the name of the option
        str, typer.Option("--format", help="text, table or markdown.", rich_help_panel=s.OUTPUT, metavar="NAME")
    ] = "text",
    quiet: s.Quiet = False,
    json: s.Json = False,
    debug: s.Debug = False,
) -> None:
    """Show the rules of a model in the units of its data, those that fire most first.

    With DATA also how much every rule and input does on it, and with --row why a row gets its prediction.
    """
    output = Output(quiet=quiet, json=json)
    if format not in _FORMATS:
        raise UsageError(f"--format must be one of {', '.join(_FORMATS)}, got {format!r}.")
    if data is None and (row is not None or target):
        raise UsageError(f"{'--row' if row is not None else '--target'} must come with DATA.")
    with output.shown_warnings():
        if row is not None and data is not None:
            _explain_row(model, data, row, target or [], digits, output)
        else:
            _explain_rules(model, data, target or [], top, None if exact else digits, drop, format, output)


def _explain_rules(
    path: Path,
    source: str | None,
    target: list[str],
    top: int | None,
    digits: int | None,
    drop: bool,
    form: str,
    output: Output,
) -> None:
    from deepfls.cli.models import open_model
    from deepfls.cli.rows import rows_of
    from deepfls.data.tables import find_files
    from deepfls.inspection import content

    if source is not None:
        find_files(source)
    usage = None
    with output.working("reading"):
        model = open_model(path, targets=target)
        estimator: Any = model.estimator
        x, y = (None, None) if source is None else rows_of(model, source)[1:]
        rules = estimator.rules(x, y, drop=drop).top(top)
        if x is not None:
            usage = estimator.explain_data(x, y)
    if form == "table":
        output.show(rules, digits)
        if rules.effect is not None:
            output.text(f"{rules.effect}\n")
    else:
        output.text(rules.render(form, digits=digits))
    if usage is not None:
        output.text("\n" + usage.to_text())
    output.result(
        {
            "command": "explain",
            "model": str(path),
            **content(rules),
            "usage": None if usage is None else usage.to_dict(),
        }
    )


def _explain_row(path: Path, source: str, row: int, target: list[str], digits: int, output: Output) -> None:
    from deepfls.cli.models import open_model
    from deepfls.cli.rows import one_row, rows_of
    from deepfls.data.tables import find_files

    find_files(source)
    with output.working("reading"):
        model = open_model(path, targets=target)
        table, x, y = rows_of(model, source)
        if row > table.n_rows:
            raise UsageError(f"--row must be at most {table.n_rows}, the rows of {table.label}, got {row}.")
        explanation = model.estimator.explain(one_row(x, row - 1))
    truth = None if y is None else [value.item() if hasattr(value, "item") else value for value in y[row - 1 : row].ravel()]
    output.text(explanation.to_text(digits=digits))
    if truth is not None:
        output.text(f"True: {', '.join(map(str, truth))}\n")
    output.result({"command": "explain", "model": str(path), "row": row, "true": truth, **explanation.to_dict()})
