"""``deepfls explain``: the rules of a model, their effect on a table, and the reasons of one prediction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepfls.cli import options as o
from deepfls.cli.output import CommandOutput, UsageError

if TYPE_CHECKING:
    from deepfls.cli.opening import Model, TableRows

_FORMATS = ("text", "table", "markdown")


@o.command
def explain(
    output: CommandOutput,
    model: Annotated[Path, o.MODEL_ARGUMENT],
    data: Annotated[str | None, typer.Argument(help="Table to measure rules and inputs on.", metavar="[DATA]")] = None,
    row: Annotated[int | None, o.option("Explain the prediction of this row of DATA, from 1.", min=1)] = None,
    target: o.TrueValues = None,
    top: Annotated[int | None, o.output_option("Rules to show.", "all", min=1)] = None,
    digits: Annotated[int, o.output_option("Significant digits.", "4", min=1, max=17)] = 4,
    exact: Annotated[bool, o.flag("--exact", text="All digits: the text reproduces every prediction.")] = False,
    drop: Annotated[bool, o.flag("--drop", text="Leave out sets wider than the data, and print the effect.")] = False,
    format: Annotated[str, o.output_option("text, table or markdown.", "text")] = "text",  # noqa: A002  # the option
) -> None:
    """Show the rules of a model in the units of its data, those that fire most first.

    With DATA, also the effect of every rule and input on it; with --row, the reasons of the prediction for a row.
    """
    from deepfls.cli.opening import open_model
    from deepfls.data.tables import find_files

    o.check_choice("--format", format, _FORMATS)
    if data is None and (row is not None or target):
        raise UsageError(f"{'--row' if row is not None else '--target'} must be given with DATA.")
    if data is not None:
        find_files(data)
    with output.working("reading"):
        opened = open_model(model, targets=target or [])
        rows = None if data is None else opened.read(data)
    if row is not None and rows is not None:
        content = _explain_row(opened, rows, row, digits, output)
    else:
        content = _explain_rules(opened, rows, top, None if exact else digits, format, output, drop=drop)
    output.result({"command": "explain", "model": str(model), **content})


def _explain_rules(
    model: Model,
    rows: TableRows | None,
    top: int | None,
    digits: int | None,
    form: str,
    output: CommandOutput,
    *,
    drop: bool,
) -> dict[str, Any]:
    from deepfls.inspection import content

    x, y = (None, None) if rows is None else rows[1:]
    with output.working("measuring"):
        rules = model.estimator.rules(x, y, drop=drop).top(top)
        usage = None if rows is None else model.estimator.explain_data(x, y)
    if form == "table":
        output.show(rules, digits)
        if rules.effect is not None:
            output.text(f"{rules.effect}\n")
    else:
        output.text(rules.render(form, digits=digits))
    if usage is not None:
        output.text("\n" + usage.to_text())
    return {**content(rules), "usage": None if usage is None else usage.to_dict()}


def _explain_row(model: Model, rows: TableRows, row: int, digits: int, output: CommandOutput) -> dict[str, Any]:
    table, x, y = rows
    if row > table.n_rows:
        raise UsageError(f"--row must be at most {table.n_rows}, the rows of {table.label}, got {row}.")
    explanation = model.estimator.explain(x.slice(row - 1, 1) if hasattr(x, "slice") else x[row - 1 : row])
    truth = None if y is None else y[row - 1 : row].ravel().tolist()
    output.text(explanation.to_text(digits=digits))
    if truth is not None:
        output.text(f"True: {', '.join(map(str, truth))}\n")
    return {"row": row, "true": truth, **explanation.to_dict()}
