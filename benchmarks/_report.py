"""Results of a benchmark: rows beside their targets, tables, JSON files and sections of RESULTS.md."""

from __future__ import annotations

import argparse
import json
import math
import operator
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deepfls import __version__
from deepfls._checks.arguments import check_option
from deepfls._files import write_whole

INTERRUPTED = 130
_SENSES: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge}
_HEAD = ["work", "value", "unit", "target", "holds"]
_QUICK = "Quick: fewer sizes and short windows. The numbers are a first look and no result."


# Rows beside their targets


@dataclass(frozen=True)
class Target:
    """Limit of a number: at most (``<=``) or at least (``>=``)."""

    sense: str
    limit: float

    def holds(self, value: float) -> bool:
        return _SENSES[self.sense](value, self.limit)

    def __str__(self) -> str:
        return f"{self.sense} {self.limit:,.10g}"


@dataclass(frozen=True)
class Row:
    """One measured number. ``value`` is None if it could not be measured; ``work`` then contains the reason."""

    work: str
    value: float | None
    unit: str
    target: Target | None = None

    @property
    def holds(self) -> bool | None:
        """Whether the target is met; None without a target or a value."""
        if self.target is None or self.value is None:
            return None
        return math.isfinite(self.value) and self.target.holds(self.value)

    def as_json(self) -> dict[str, Any]:
        value = self.value if self.value is not None and math.isfinite(self.value) else None
        target = None if self.target is None else str(self.target)
        return {"work": self.work, "value": value, "unit": self.unit, "target": target, "holds": self.holds}

    def shown_value(self) -> str:
        """The value in four digits; whole numbers and numbers from 1,000 on without decimals."""
        if self.value is None:
            return "-"
        if self.value == round(self.value) or abs(self.value) >= 1000:
            return f"{self.value:,.0f}"
        digits = max(0, 3 - math.floor(math.log10(abs(self.value))))
        return f"{self.value:.{min(digits, 6)}f}"

    def cells(self) -> list[str]:
        holds = {True: "yes", False: "NO", None: ""}[self.holds]
        return [self.work, self.shown_value(), self.unit, "" if self.target is None else str(self.target), holds]


def answer(
    script: str,
    doc: str | None,
    title: str,
    method: str,
    measure: Callable[[bool], Iterator[Row]],
    arguments: Sequence[str] | None = None,
) -> int:
    """Command line of a script that measures rows beside targets; returns the exit code.

    Rows that were measured before Ctrl-C or an error are printed and written. A missed target is no error.
    """
    name = Path(script).stem
    parser = option_parser(doc, "json", "markdown")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and short windows: a first look, no result")
    given = parser.parse_args(arguments)
    rows: list[Row] = []
    code = 0
    try:
        with Console(stderr=True).status(name) as status:
            for row in measure(given.quick):
                rows.append(row)
                status.update(f"{name}: {len(rows)} measured")
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        _publish(name, title, method, rows, given)
    return code


def _publish(name: str, title: str, method: str, rows: list[Row], given: argparse.Namespace) -> None:
    print(f"{name}: {title}. {method}", *([_QUICK] if given.quick else []), sep="\n")
    print_table(_HEAD, [row.cells() for row in rows], left=("work", "unit", "holds"))
    judged = [row.holds for row in rows if row.holds is not None]
    if judged:
        print(f"{sum(judged)} of {len(judged)} targets hold.")
    if given.json and rows:
        write_json(given.json, [{"question": name, **row.as_json(), "quick": given.quick} for row in rows])
    if given.markdown and rows:
        intro = f"{method}{' ' + _QUICK if given.quick else ''}"
        command = f"{name}.py{' --quick' if given.quick else ''}"
        table = markdown_table(_HEAD, [row.cells() for row in rows])
        write_results(given.markdown, name, title, command, intro, table)


# Options


def option_parser(doc: str | None, *files: str) -> argparse.ArgumentParser:
    """Parser whose help is the docstring of a script, with the options ``--json`` and ``--markdown`` named in ``files``."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    helps = {"json": "write the results to this file", "markdown": "write the tables into a section of this file"}
    for name in files:
        parser.add_argument(f"--{name}", type=new_file, metavar="FILE", help=helps[name])
    return parser


def new_file(text: str) -> Path:
    """Option type: a file to write, in a folder that exists."""
    if not Path(text).parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder of {text!r} must exist.")
    return Path(text)


def positive(text: str) -> int:
    """Option type: a whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive whole number, got {text!r}.")
    return int(text)


def positives(text: str) -> list[int]:
    """Option type: whole numbers from 1 on, separated by commas, each once."""
    try:
        return list(dict.fromkeys(positive(part.strip()) for part in text.split(",")))
    except argparse.ArgumentTypeError:
        message = f"must be positive whole numbers separated by commas, got {text!r}."
        raise argparse.ArgumentTypeError(message) from None


def names_among(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Option type: some of the known names, separated by commas, each once."""

    def names(text: str) -> list[str]:
        try:
            return list(dict.fromkeys(check_option("each name", name.strip(), known) for name in text.split(",")))
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return names


# Cells: a model on a split of a set


def cell_parser(doc: str | None, sets: Sequence[str], models: Sequence[str], n_splits: int) -> argparse.ArgumentParser:
    """Parser of a script whose cells :func:`measured_cells` measures."""
    parser = option_parser(doc, "markdown")
    add = parser.add_argument
    add("--data-dir", type=Path, required=True, metavar="DIR", help="folder with the tables")
    add("--splits", type=positive, default=n_splits)
    add("--sets", type=names_among(sets), default=list(sets))
    add("--models", type=names_among(models), default=list(models))
    add("--cells", type=new_file, metavar="FILE", help="JSON file of finished cells, read and written")
    add("--finished", action="store_true", help="measure nothing, report the splits finished by all models")
    add("--workers", type=positive, default=1)
    return parser


def measured_cells(
    given: argparse.Namespace, measure: Callable[[str, int, str, Path], dict[str, Any]]
) -> tuple[list[dict[str, Any]], set[tuple[str, int]]]:
    """All cells, finished before or now, and the splits (set, number) that all models of this run have finished.

    Means over different splits are not comparable. ``measure`` gets set, split, model and the folder with the tables.
    """
    cells = json.loads(given.cells.read_text(encoding="utf-8")) if given.cells and given.cells.exists() else []
    done = {key_of(cell) for cell in cells}
    wanted = [(name, split, model) for split in range(given.splits) for name in given.sets for model in given.models]
    todo = [] if given.finished else [key for key in wanted if key not in done]
    with ProcessPoolExecutor(given.workers) as pool:
        jobs = [pool.submit(measure, *key, given.data_dir) for key in todo]
        for place, job in enumerate(as_completed(jobs), start=1):
            cells.append(job.result())
            done.add(key_of(cells[-1]))
            print(f"{place}/{len(jobs)}", *key_of(cells[-1]), file=sys.stderr)
            if given.cells:
                write_json(given.cells, cells)
    return cells, {key[:2] for key in wanted if all((*key[:2], model) in done for model in given.models)}


def key_of(cell: dict[str, Any]) -> tuple[str, int, str]:
    return cell["set"], cell["split"], cell["model"]


# Tables and files


def print_table(head: Sequence[str], *groups: Sequence[Sequence[str]], left: Sequence[str] = ()) -> None:
    """Print a table, a line between two groups of rows. Columns named in ``left`` are aligned to the left."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(head):
        table.add_column(name, justify="left" if name in left else "right", no_wrap=place > 0)
    styles = {"yes": "green", "NO": "bold red"}
    for rows in groups:
        table.add_section()
        for row in rows:
            table.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
    Console(highlight=False).print(table)


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, first column to the left and the others to the right."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|---|" + "---:|" * (len(head) - 1), *lines[1:]])


def write_json(path: Path, content: Any) -> None:
    write_whole(path, (json.dumps(content, indent=1) + "\n").encode())


def write_results(path: Path, section: str, title: str, command: str, intro: str, *parts: str, foot: str = "") -> None:
    """Write a section with its title, the command that measured it, an introduction, tables, and the machine."""
    head = f"### {title}\n\nWritten by `python benchmarks/{command} --markdown RESULTS.md`. {intro}"
    write_section(path, section, "\n\n".join([head, *parts, f"{hardware()} {foot}".strip()]))


def write_section(path: Path, name: str, text: str) -> None:
    """Put ``text`` between the marks of the section ``name``, or at the end of the file if it has no such section."""
    begin, end = f"<!-- {name}: written by a command, not by hand -->", f"<!-- end of {name} -->"
    section = f"{begin}\n\n{text.strip()}\n\n{end}"
    content = path.read_text(encoding="utf-8") if path.exists() else ""
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if pattern.search(content):
        content = pattern.sub(lambda _: section, content)
    else:
        content = f"{content.rstrip()}\n\n{section}\n".lstrip()
    write_whole(path, content.encode())


def hardware() -> str:
    """One line on the machine and the versions, for the foot of a section."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text(encoding="utf-8", errors="replace"))
        processor = found.group(1).strip() if found else processor
    versions = (
        f"Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}, deepfls {__version__}"
    )
    return f"{processor}, {os.cpu_count()} cores, {platform.system()}; {versions}."
