"""``deepfls simplify``: a model with fewer rules, and the increase of its error on a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from deepfls.cli import options as o
from deepfls.cli.output import CommandOutput, shown


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
    from deepfls.cli.opening import check_output, open_model
    from deepfls.data.tables import find_files

    find_files(data)
    check_output(out, force=force, inputs=[model, data])
    with output.working("simplifying"):
        opened = open_model(model, targets=target or [])
        rows = opened.read(data, need_targets=True)
        fewer, report = opened.estimator.simplify(rows.x, rows.y, tolerance=tolerance)
        fewer.save(out)
    output.text(f"{report}\n")
    output.line("Saved ", shown(out, "bold"))
    output.result({"command": "simplify", "model": str(model), "simpler": str(out), **report.to_dict()})
