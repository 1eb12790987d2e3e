"""``deepfls report``: an interactive page about a model, in one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepfls.cli import options as o
from deepfls.cli.output import CommandOutput, UsageError, shown


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
    if card and out.suffix.lower() not in (".html", ".md"):
        raise UsageError(f"--out must end in .html or .md with --card, got {str(out)!r}.")
    if data is None and target:
        raise UsageError("--target must be given with DATA.")
    check_output(out, force=force, inputs=[model] if data is None else [model, data])
    with output.working("writing"):
        opened = open_model(model, targets=target or [])
        x, y = (None, None) if data is None else opened.read(data)[1:]
        write = opened.estimator.to_card if card else opened.estimator.to_report
        size = write(out, x, y, title=title or model.stem).stat().st_size
    output.line("Wrote ", shown(out, "bold"), f": {size / 1e6:.2f} MB.{'' if card else ' Open it in a browser.'}")
    output.result({"command": "report", "model": str(model), "report": str(out), "bytes": size})
