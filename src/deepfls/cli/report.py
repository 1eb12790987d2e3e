"""``deepfls report``: a page to explore a model with, in one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepfls.cli import settings as s
from deepfls.cli.errors import UsageError
from deepfls.cli.output import Output, shown


def report(
    model: Annotated[Path, s.MODEL_ARGUMENT],
    data: Annotated[
        str | None, typer.Argument(help="CSV or Parquet file to measure and summarise.", metavar="[DATA]")
    ] = None,
    out: Annotated[
        Path | None, s.option("--out", "HTML file to write; MODEL.html by default.", s.OUTPUT, metavar="FILE")
    ] = None,
    title: Annotated[str | None, s.option("--title", "Heading of the page.", s.OUTPUT, metavar="TEXT")] = None,
    target: s.TrueValues = None,
    force: s.Force = False,
    quiet: s.Quiet = False,
    json: s.Json = False,
    debug: s.Debug = False,
) -> None:
    """Write a page to explore a model with: one HTML file that computes by itself and needs no network."""
    output = Output(quiet=quiet, json=json)
    out = model.with_suffix(".html") if out is None else out
    if data is None and target:
        raise UsageError("--target must come with DATA.")
    with output.shown_warnings():
        _run(model, data, out, title, target or [], output, force=force)


def _run(
    path: Path, source: str | None, out: Path, title: str | None, target: list[str], output: Output, *, force: bool
) -> None:
    from deepfls.cli.models import check_output, open_model
    from deepfls.cli.rows import rows_of

    sources: list[Path | str] = [path] if path.exists() else []
    check_output(out, force=force, inputs=sources if source is None else [*sources, source])
    with output.working("writing"):
        model = open_model(path, targets=target)
        x, y = (None, None) if source is None else rows_of(model, source)[1:]
        size = model.estimator.to_report(out, x, y, title=title or path.stem).stat().st_size
    output.line("Wrote ", shown(out, "bold"), f": {size / 1e6:.2f} MB. Open it in a browser.")
    output.result({"command": "report", "model": str(path), "report": str(out), "bytes": size})
