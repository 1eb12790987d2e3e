"""``deepfls bench``: speed and memory, each number beside its target."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepfls.cli import options as s
from deepfls.cli.output import CommandOutput as Output
from deepfls.cli.output import UsageError, print_error

if TYPE_CHECKING:
    from deepfls.bench.questions import Question
    from deepfls.bench.rows import Row

MEASURE = "Measure"
_HEAD = ["work", "value", "unit", "target", "holds"]
_QUICK = "Quick: fewer sizes and short windows, a look and no result."


def option(flag: str, text: str, panel: str, **more: Any) -> Any:
    """An option whose default is not shown."""
    return typer.Option(flag, help=text, rich_help_panel=panel, show_default=False, **more)


def bench(
    quick: Annotated[bool, option("--quick", "Fewer sizes, short windows: about a minute.", MEASURE, metavar="")] = False,
    only: Annotated[
        str | None,
        option("--only", "Questions, separated by commas; docs/speed.md lists them.", MEASURE, metavar="NAMES"),
    ] = None,
    peers: Annotated[
        bool,
        option("--peers", "Compare with other packages too, in an environment made for them.", MEASURE, metavar=""),
    ] = False,
    json_file: Annotated[Path | None, option("--json", "Write a list of rows.", s.OUTPUT, metavar="FILE")] = None,
    markdown: Annotated[
        Path | None, option("--markdown", "Write the tables into a section of this file.", s.OUTPUT, metavar="FILE")
    ] = None,
    quiet: bool = False,
    debug: bool = False,
) -> None:
    """Measure speed and memory on this machine, each number beside its target.

    Numbers are ratios within one run, or counts, where they can be. A miss is shown as one and is no error.
    """
    from deepfls.bench.questions import DEFAULT, QUESTIONS

    output = Output(quiet=quiet, json=False)
    names = chosen("--only", only, tuple(QUESTIONS)) if only is not None else list(DEFAULT)
    if peers and "peers" not in names:
        names.append("peers")
    for path in (json_file, markdown):
        if path is not None and not path.parent.is_dir():
            raise FileNotFoundError(f"the folder of {str(path)!r} must exist.")
    if quick:
        output.line(_QUICK)
    rows: list[Row] = []
    interrupted = False
    try:
        with output.shown_warnings():
            _ask([QUESTIONS[name] for name in names], quick, output, rows, _saver(json_file, quick))
    except KeyboardInterrupt:
        interrupted = True
    judged = [row for row in rows if row.holds is not None]
    if judged:
        output.line(f"{sum(row.holds is True for row in judged)} of {len(judged)} targets hold.")
    if markdown is not None and rows:
        command = " ".join(["deepfls bench", *(["--quick"] if quick else []), "--only", ",".join(names)])
        _write_markdown(markdown, rows, quick, command)
    if interrupted:
        print_error("interrupted; what was finished is above.", label="Stopped")
        raise KeyboardInterrupt


def _saver(path: Path | None, quick: bool) -> Callable[[list[Row]], None]:
    from deepfls._files import write_whole

    def save(rows: list[Row]) -> None:
        if path is not None:
            plain = [{**row.plain(), "quick": quick} for row in rows]
            write_whole(path, (json.dumps(plain, indent=1) + "\n").encode())

    return save


def _ask(
    questions: list[Question], quick: bool, output: Output, rows: list[Row], save: Callable[[list[Row]], None]
) -> None:
    """Fill ``rows`` question by question. What was finished is printed and saved, also where Ctrl-C ends the work."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from deepfls.bench.timing import warm_up

    console = Console(stderr=True, highlight=False)

    def say(text: str) -> None:
        if not output.quiet:
            console.print(text, markup=False, soft_wrap=True)

    warm_up(say)
    for question in questions:
        found: list[Row] = []
        try:
            with Progress(
                SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True,
                disable=not output.bars,
            ) as bar:  # fmt: skip
                task = bar.add_task(question.name)
                for row in question.measure(quick=quick, say=say):
                    found.append(row)
                    bar.update(task, description=f"{question.name}: {len(found)} measured")
        finally:
            if found:
                rows += found
                save(rows)
                _print_table(question, found, output)


def _cells(row: Row) -> list[str]:
    holds = {True: "yes", False: "NO", None: ""}[row.holds]
    return [row.work, row.shown_value(), row.unit, "" if row.target is None else str(row.target), holds]


def _print_table(question: Question, rows: list[Row], output: Output) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from deepfls.cli.output import printable

    if output.silent:
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(_HEAD):
        # What a row was measured on may be a reason of a peer's installer, which has no bound: it wraps.
        table.add_column(name, justify="right" if name in ("value", "target") else "left", no_wrap=place > 0)
    styles = {True: "green", False: "bold red", None: ""}
    for row in rows:
        *cells, holds = (printable(cell) for cell in _cells(row))
        table.add_row(*(Text(cell) for cell in cells), Text(holds, style=styles[row.holds]))
    output.line()
    output.line(f"{question.name}: {question.title}. {question.method}", style="bold")
    Console(highlight=False).print(table)


def _write_markdown(path: Path, rows: list[Row], quick: bool, command: str) -> None:
    from deepfls.bench.questions import QUESTIONS
    from deepfls.cli.output import printable
    from deepfls.cli.sections import hardware, markdown_table, write_section

    parts = [f"## Speed\n\nWritten by `{command} --markdown RESULTS.md`; docs/speed.md tells how. M inputs, P rules."]
    if quick:
        parts.append(_QUICK)
    for name, question in QUESTIONS.items():
        cells = [[printable(cell).replace("|", "\\|") for cell in _cells(row)] for row in rows if row.question == name]
        if cells:
            parts.append(f"**{question.title}** (`{name}`). {question.method}\n\n{markdown_table(_HEAD, cells)}")
    write_section(path, "speed", "\n\n".join([*parts, hardware()]))


def chosen(option: str, text: str, known: Sequence[str]) -> list[str]:
    """Names separated by commas, each one of ``known``, none twice."""
    from deepfls._checks import check_option

    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError(f"{option} must name at least one of {', '.join(known)}.")
    return list(dict.fromkeys(check_option(option, name, known) for name in names))
