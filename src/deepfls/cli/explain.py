"""``deepfls explain``, ``report`` and ``simplify``: the rules of a model, a page about it, and a model of fewer rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from deepfls._checks.arguments import counted, printable
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
    from deepfls.cli.opening import check_ending, check_output, open_model, write_table

    o.check_choice("--format", format, _FORMATS)
    if data is None and (row is not None or target):
        raise UsageError(f"{'--row' if row is not None else '--target'} must be given with DATA.")
    if out is not None:
        if data is None or row is not None:
            raise UsageError("--out must be given with DATA and without --row.")
        check_ending(out)
    of_rules = {"--top": top is not None, "--exact": exact, "--drop": drop, "--format": format != "text"}
    first = next((name for name, is_given in of_rules.items() if is_given), None)
    if first is not None and (row is not None or out is not None):
        other = "--out" if row is None else "--row"
        raise UsageError(f"{first} must be given without {other}, because it is about the rules.")
    check_output(out, force=force, inputs=[model] if data is None else [model, data])
    with output.working("reading"):
        opened = open_model(model, targets=target or [])
        rows = None if data is None else opened.read(data, all_rows=row is not None or out is not None)
    x: Any = None if rows is None else rows.x
    y = None if rows is None else rows.y
    content: dict[str, Any]
    if out is not None:
        from deepfls.inspection.pushes import arrow_table, explained_rows

        with output.working("explaining"):
            columns = explained_rows(opened.estimator, x)
            columns["row"] = columns["row"] + 1  # as --row counts
            write_table(out, arrow_table(columns))
        content = {"pushes": str(out), "lines": len(columns["row"])}
        output.line(f"Wrote {counted(content['lines'], 'line')} to ", shown(out, "bold"))
    elif row is not None and rows is not None:
        if row > rows.table.n_rows:
            raise UsageError(f"--row must be at most {rows.table.n_rows}, the rows of {rows.table.label}, got {row}.")
        explanation = opened.estimator.explain(x.slice(row - 1, 1) if hasattr(x, "slice") else x[row - 1 : row])
        truth = None if y is None or None in y[row - 1] else y[row - 1].tolist()
        output.text(explanation.to_text(digits=digits))
        if truth is not None:
            output.text(f"True: {printable(', '.join(map(str, truth)))}\n")
        content = {"row": row, "true": truth, **explanation.to_dict()}
    else:
        from deepfls.inspection.rules import content as rules_content

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


@o.command
def report(
    output: CommandOutput,
    model: Annotated[Path, o.MODEL_ARGUMENT],
    data: Annotated[str | None, typer.Argument(help="Table to measure and summarise.", metavar="[DATA]")] = None,
    out: Annotated[Path | None, o.output_option("HTML file to write.", "MODEL.html")] = None,
    card: Annotated[
        bool, o.flag("--card", text="Write a model card, one page to print; as Markdown to a .md file.")
    ] = False,
    title: Annotated[str | None, o.output_option("Heading of the page.", "the name of MODEL")] = None,
    target: o.TrueValues = None,
    force: o.Force = False,
) -> None:
    """Write an interactive page about a model: one HTML file that computes predictions itself and needs no network."""
    from deepfls.cli.opening import check_output, open_model

    out = model.with_suffix(".html") if out is None else out
    if data is None and target:
        raise UsageError("--target must be given with DATA.")
    check_output(out, force=force, inputs=[model] if data is None else [model, data])
    endings = (".html", ".md") if card else (".html", ".htm")
    if out.suffix.lower() not in endings:
        kind = "with --card" if card else "without --card"
        raise UsageError(f"--out must end in {' or '.join(endings)} {kind}, got {str(out)!r}.")
    with output.working("writing"):
        opened = open_model(model, targets=target or [])
        x, y = (None, None) if data is None else opened.read(data)[1:]
        write = opened.estimator.to_card if card else opened.estimator.to_report
        size = write(out, x, y, title=title or model.stem).stat().st_size
    output.line("Wrote ", shown(out, "bold"), f": {size / 1e3:,.0f} kB.{'' if card else ' Open it in a browser.'}")
    output.result({"command": "report", "model": str(model), "report": str(out), "bytes": size})


@o.command
def simplify(
    output: CommandOutput,
    model: Annotated[Path, o.MODEL_ARGUMENT],
    data: Annotated[str, o.DATA_ARGUMENT],
    out: Annotated[Path, o.output_option("Model file to write.")],
    tolerance: Annotated[float, o.option("Largest relative increase of the error.", "0.01", min=0.0)] = 0.01,
    target: o.TrueValues = None,
    force: o.Force = False,
) -> None:
    """Merge and prune the rules of a model while its error on a table stays within a tolerance, and save the result."""
    from deepfls.cli.opening import check_model_ending, check_output, open_model

    check_model_ending(out)
    check_output(out, force=force, inputs=[model, data])
    with output.working("simplifying"):
        opened = open_model(model, targets=target or [])
        rows = opened.read(data, need_targets=True)
        with o.errors_by_option(("tolerance",)):
            fewer, effect = opened.estimator.simplify(rows.x, rows.y, tolerance=tolerance)
        fewer.save(out)
    output.text(f"{effect}\n")
    output.line("Saved ", shown(out, "bold"))
    output.result({"command": "simplify", "model": str(model), "simpler": str(out), **effect.to_dict()})
