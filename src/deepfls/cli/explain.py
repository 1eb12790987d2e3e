"""``deepfls explain``: the rules of a model, their effect on a table, and the reasons of one prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from deepfls._checks.arguments import counted
from deepfls.cli import options as o
from deepfls.cli.output import CommandOutput, UsageError, shown

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
    out: Annotated[Path | None, o.output_option("CSV or Parquet file for the pushes of all rows of DATA.")] = None,
    force: o.Force = False,
) -> None:
    """Show the rules of a model in the units of its data, those that fire most first.

    With DATA, also the effect of every rule and input on it; with --row, the reasons of the prediction for a row; with
    --out, a file with the push of every input in every row, its strongest rule and its familiarity.
    """
    from deepfls.cli.opening import check_output, open_model
    from deepfls.cli.predict import check_ending, write_table
    from deepfls.data.tables import find_files

    o.check_choice("--format", format, _FORMATS)
    if data is None and (row is not None or target):
        raise UsageError(f"{'--row' if row is not None else '--target'} must be given with DATA.")
    if out is not None:
        if data is None or row is not None:
            raise UsageError("--out must be given with DATA and without --row.")
        check_ending(out)
        check_output(out, force=force, inputs=[model, data])
    if data is not None:
        find_files(data)
    with output.working("reading"):
        opened = open_model(model, targets=target or [])
        rows = None if data is None else opened.read(data, all_rows=row is not None or out is not None)
    from deepfls.inspection.rules import content as rules_content

    x: Any = None if rows is None else rows.x
    y = None if rows is None else rows.y
    content: dict[str, Any]
    if out is not None:
        from deepfls.inspection.pushes import arrow_table, explained_rows

        with output.working("explaining"):
            columns = explained_rows(opened.estimator, x)
            columns["row"] = columns["row"] + 1  # as --row counts
            write_table(out, arrow_table(columns))
        n_rows = len(columns["row"])
        output.line(f"Wrote {counted(n_rows, 'line')} to ", shown(out, "bold"))
        output.result({"command": "explain", "model": str(model), "pushes": str(out), "lines": n_rows})
        return
    if row is not None and rows is not None:
        if row > rows.table.n_rows:
            raise UsageError(f"--row must be at most {rows.table.n_rows}, the rows of {rows.table.label}, got {row}.")
        explanation = opened.estimator.explain(x.slice(row - 1, 1) if hasattr(x, "slice") else x[row - 1 : row])
        truth = None if y is None or None in y[row - 1] else y[row - 1].tolist()
        output.text(explanation.to_text(digits=digits))
        if truth is not None:
            output.text(f"True: {', '.join(map(str, truth))}\n")
        content = {"row": row, "true": truth, **explanation.to_dict()}
    else:
        with output.working("measuring"):
            rules = opened.estimator.rules(x, y, drop=drop).top(top)
            usage = None if rows is None else opened.estimator.explain_data(x, y)
        shown_digits = None if exact else digits
        if format == "table":
            output.show(rules, shown_digits)
            if rules.effect is not None:
                output.text(f"{rules.effect}\n")
        else:
            output.text(rules.render(format, digits=shown_digits))
        if usage is not None:
            output.text("\n" + usage.to_text())
        content = {**rules_content(rules), "usage": None if usage is None else usage.to_dict()}
    output.result({"command": "explain", "model": str(model), **content})
