"""``deepfls simplify``: a model with fewer rules, and what that costs on a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepfls.cli import settings as s
from deepfls.cli.output import Output, shown


def simplify(
    model: Annotated[Path, s.MODEL_ARGUMENT],
    data: Annotated[str, s.DATA_ARGUMENT],
    out: Annotated[
        Path,
        typer.Option("--out", help="Model file to write.", rich_help_panel=s.OUTPUT, metavar="FILE", show_default=False),
    ],
    tolerance: Annotated[
        float,
        typer.Option("--tolerance", help="Largest relative increase of the error.", rich_help_panel=s.MODEL, min=0.0),
    ] = 0.01,
    target: s.TrueValues = None,
    force: s.Force = False,
    quiet: s.Quiet = False,
    json: s.Json = False,
    debug: s.Debug = False,
) -> None:
    """Merge and prune the rules of a model as long as its error on a table allows, and save the simpler model."""
    output = Output(quiet=quiet, json=json)
    with output.shown_warnings():
        _run(model, data, out, tolerance, target or [], output, force=force)


def _run(path: Path, source: str, out: Path, tolerance: float, target: list[str], output: Output, *, force: bool) -> None:
    from deepfls.cli.models import check_output, open_model
    from deepfls.cli.rows import rows_of
    from deepfls.data.tables import find_files

    find_files(source)
    check_output(out, force=force, inputs=[path, source] if path.exists() else [source])
    with output.working("simplifying"):
        model = open_model(path, targets=target)
        rows = rows_of(model, source, need_targets=True)
        fewer, report = model.estimator.simplify(rows.x, rows.y, tolerance=tolerance)
        fewer.save(out)
    output.text(f"{report}\n")
    output.line("Saved ", shown(out, "bold"))
    output.result({"command": "simplify", "model": str(path), "simpler": str(out), **report.to_dict()})
