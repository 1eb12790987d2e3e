"""The command ``deepfls``."""

from __future__ import annotations

from typing import Annotated

import typer

from deepfls import __version__
from deepfls.cli import demo, evaluate, explain, export, predict, train
from deepfls.cli.options import SettingsCommand
from deepfls.cli.output import OneLineGroup

app = typer.Typer(
    name="deepfls",
    cls=OneLineGroup,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Learn fuzzy systems (Type-1, Interval Type-2, General Type-2) from tables, and use them.",
)
app.command(cls=SettingsCommand)(train.train)
app.command()(predict.predict)
app.command()(evaluate.evaluate)
app.command()(explain.explain)
app.command()(explain.report)
app.command()(explain.simplify)
app.command()(export.export)
app.command("import")(export.import_model)
app.command()(demo.demo)


@app.callback(invoke_without_command=True)
def _root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, metavar="")
    ] = False,
) -> None:
    if version:
        typer.echo(f"deepfls {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def main() -> None:
    """Entry point of the command."""
    app()
