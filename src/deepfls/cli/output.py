"""What commands print: results on standard output, bars, warnings and errors on standard error.

Names from files and arguments are never markup and never control the terminal: they are shown through :func:`shown`.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

# Characters of a name in a table, where numbers need the room.
_NAME_WIDTH = 40
# Significant digits of the smallest number of a column.
_DIGITS = 4


def printable(text: object) -> str:
    """Text with every control character as its escape, so that it cannot act on the terminal.

    Examples
    --------
    >>> print(printable("red" + chr(27) + "[31m"))
    red\\x1b[31m
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def shown(name: object, style: str = "", width: int | None = None) -> Text:
    """A name as rich text: printable, never markup, shortened to ``width``."""
    from rich.text import Text

    text = printable(name)
    if width is not None and len(text) > width:
        text = text[: width - 1] + "…"
    return Text(text, style=style)


def started_processes() -> int:
    """How many processes torchrun started, 1 without it; told without importing torch."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def _follows() -> bool:
    """Whether another process is the one that speaks."""
    return started_processes() > 1 and int(os.environ.get("RANK") or 0) > 0


def print_error(sentence: str, label: str = "Error") -> None:
    """One line on standard error."""
    from rich.console import Console
    from rich.text import Text

    line = Text.assemble((f"{label}: ", "bold red"), printable(" ".join(sentence.split())))
    Console(stderr=True, highlight=False, soft_wrap=True).print(line)


class Output:
    """Where a command speaks, according to ``--quiet`` and ``--json``. Of many processes only the first does."""

    def __init__(self, *, quiet: bool, json: bool) -> None:
        from rich.console import Console

        quiet, json = (True, False) if _follows() else (quiet, json)
        self.quiet = quiet
        self.json = json
        self.silent = quiet or json
        self._out = Console(highlight=False)
        self.warnings: list[str] = []

    @property
    def bars(self) -> bool:
        """Whether progress bars are shown: to people only."""
        return not self.quiet and sys.stderr.isatty()

    def line(self, *parts: str | Text, style: str = "") -> None:
        """A line for people; strings among the parts are our own words, names are :func:`shown`."""
        from rich.text import Text

        if not self.silent:
            self._out.print(Text.assemble(*parts, style=style), soft_wrap=True)

    def table(
        self, head: Sequence[str], rows: Sequence[Sequence[Text | str | float]], decimals: Mapping[str, int] | None = None
    ) -> None:
        """A table for people: names to the left, numbers to the right under each other.

        ``decimals`` fixes the number of decimals of columns by their heading.
        """
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        if self.silent:
            return
        columns = [list(column) for column in zip(*rows, strict=True)]
        table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
        for name, column in zip(head, columns, strict=True):
            numeric = all(isinstance(value, float) for value in column)
            table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
            if numeric:
                fixed = (decimals or {}).get(name)
                column[:] = aligned(column) if fixed is None else [f"{value:.{fixed}f}" for value in column]
        for row in zip(*columns, strict=True):
            table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
        self._out.print(table)

    def text(self, text: str) -> None:
        """Lines for people that are laid out already; names in them have no control characters."""
        from rich.text import Text

        if not self.silent:
            self._out.print(Text(text), soft_wrap=True, end="")

    def show(self, thing: Any, digits: int | None) -> None:
        """Something that makes a table of rich, as wide as the terminal."""
        if not self.silent:
            self._out.print(thing.to_table(digits))

    def result(self, content: Mapping[str, Any]) -> None:
        """The one JSON object of a run with ``--json``."""
        if self.json:
            print(json.dumps({**content, "warnings": self.warnings}, default=_plain, ensure_ascii=True))

    def working(self, task: str) -> contextlib.AbstractContextManager[object]:
        """A spinner on standard error while something takes its time."""
        from rich.console import Console

        return Console(stderr=True).status(task) if self.bars else contextlib.nullcontext()

    @contextlib.contextmanager
    def shown_warnings(self) -> Iterator[None]:
        """Warnings of the library as one line each on standard error, and in the JSON object."""
        with warnings.catch_warnings():
            warnings.resetwarnings()
            # What developers of libraries tell each other is no concern of the user.
            for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning):
                warnings.simplefilter("ignore", category)
            warnings.showwarning = self._warn  # restored with the filters
            yield

    def _warn(self, message: Warning | str, *_: Any, **__: Any) -> None:
        from rich.console import Console
        from rich.text import Text

        sentence = printable(" ".join(str(message).split()))
        self.warnings.append(sentence)
        if not self.quiet:
            line = Text.assemble(("Warning: ", "bold yellow"), sentence)
            Console(stderr=True, highlight=False, soft_wrap=True).print(line)


def name_cell(name: object) -> Text:
    """A name for a table."""
    return shown(name, width=_NAME_WIDTH)


def aligned(values: Sequence[float]) -> list[str]:
    """Numbers with the same number of decimals, four digits of the smallest, so that their points stand in line.

    Examples
    --------
    >>> aligned([3.14159, 123.456])
    ['3.142', '123.456']
    """
    sizes = [abs(value) for value in values if value != 0 and math.isfinite(value)]
    if not sizes or min(sizes) < 1e-4 or max(sizes) >= 1e9:
        return [f"{value:.{_DIGITS}g}" for value in values]
    decimals = max(0, _DIGITS - 1 - math.floor(math.log10(min(sizes))))
    return [f"{value:,.{decimals}f}" for value in values]


def finite(value: float) -> float | None:
    """A number as JSON takes it: None for NaN and infinity."""
    return value if math.isfinite(value) else None


def _plain(value: Any) -> Any:
    """NumPy scalars and arrays for JSON."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
