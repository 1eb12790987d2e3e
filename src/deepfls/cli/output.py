"""What commands print and how they end: results on standard output; bars, warnings and errors on standard error.

Names from files and arguments are never markup and never control the terminal: :func:`shown` makes them safe. An error is
one line and an exit code, or a traceback with ``--debug``.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from deepfls._checks.arguments import nearest, printable, quoted

ERROR, USAGE, INTERRUPT = 1, 2, 130
# Options of earlier versions and their names today.
RENAMED = {
    "--rules": "--n-rules",
    "--reduction": "--type-reduction",
    "--loss-option": "--loss-options",
    "--optimizer-option": "--optimizer-options",
    "--validation": "--validation-fraction",
    "--seed": "--random-state",
}
# Options that have no use any more, with the reason.
GONE = {"--one-hot": "text columns are categories without it"}
# Similarity from which a mistyped option is taken for another one.
_SIMILAR = 0.65
# Characters of a name in a table; the rest of the line is for numbers.
NAME_WIDTH = 40
# Characters of the widest table.
_WIDEST = 1_000
# Significant digits of the smallest number of a column.
_DIGITS = 4
# The base class of all errors of the option parser; typer exports only a subclass, and has moved it between versions.
_ParserError: type[Exception] = typer.BadParameter.__mro__[2]


class UsageError(Exception):
    """A command was called with options that cannot work."""


def option_of(name: str) -> str:
    """The option of a parameter."""
    return "--" + name.replace("_", "-")


# An argument of Python in a message, such as kind='t1', margin=None or plane=, or the same with its option behind it.
_ARGUMENT = re.compile(r"""(?<![\w-])([a-z_]+)=(?:['"]([^'"]*)['"]|(\w+(?:\.\d+)?)|(?![\w'"\[({]))""")
# Arguments and methods that options do not name.
_OTHER_NAMES = {
    "; warm_start=False starts anew": "; training without --start starts anew",
    "warm_start=True": "--start",
    "with group_calibration=None": "without --group-calibration",
    "predict_interval": "Intervals",
    "predict_set": "Sets of classes",
    "predict_quantiles": "Quantiles",
}
# The name of an argument alone, which the underscore distinguishes from a word.
_BARE = re.compile(r"(?<!\S)[a-z]+(?:_[a-z]+)+(?=[\s.,;)]|$)")
_WITH_OPTION = re.compile(r"\b[a-z_]+=(?:\[[^]]*\]|\S+) \((--[a-z][^)]*)\)")


def in_options(text: str, names: Collection[str]) -> str:
    """A message of the library with the options of the command line in place of arguments of Python.

    Examples
    --------
    >>> in_options("train with kind='t1', or margin=None; decimal=',' (--decimal ,) decides.", ["kind", "margin"])
    'train with --kind t1, or --margin none; --decimal , decides.'
    >>> in_options("train with refit=False or kind='t1'.", ["kind", "refit"])
    'train with --no-refit or --kind t1.'
    >>> in_options("hold more out with calibration_fraction.", ["calibration_fraction"])
    'hold more out with --calibration-fraction.'
    """

    def option_for(found: re.Match[str]) -> str:
        value = found[2] or (found[3] or "").replace("None", "none")
        if value in ("True", "False"):
            return option_of(found[1] if value == "True" else f"no_{found[1]}") if found[1] in names else found[0]
        return f"{option_of(found[1])} {value}".rstrip() if found[1] in names else found[0]

    for name, words in _OTHER_NAMES.items():
        text = text.replace(name, words)
    named = _ARGUMENT.sub(option_for, _WITH_OPTION.sub(r"\1", text))
    return _BARE.sub(lambda found: option_of(found[0]) if found[0] in names else found[0], named)


def shown(name: object, style: str = "", width: int | None = None) -> Text:
    """A name as rich text: printable, never markup, shortened to ``width``."""
    text = printable(name)
    if width is not None and len(text) > width:
        text = text[: width - 1] + "…"
    return Text(text, style=style)


def started_processes() -> int:
    """Number of processes that torchrun started, 1 without it; read without importing torch."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def print_error(sentence: str, label: str = "Error", style: str = "bold red") -> None:
    """Print one line on standard error."""
    line = Text.assemble((f"{label}: ", style), printable(" ".join(sentence.split())))
    Console(stderr=True, highlight=False, soft_wrap=True).print(line)


class CommandOutput:
    """Output of a command, according to ``--quiet`` and ``--json``. Of several processes only the first one prints."""

    def __init__(self, *, quiet: bool, json: bool = False, worded: Callable[[str], str] = str) -> None:
        if started_processes() > 1 and int(os.environ.get("RANK") or 0) > 0:
            quiet, json = True, False
        self.quiet = quiet
        self.json = json
        self.silent = quiet or json
        self.worded = worded  # a message of the library in the words of the command line
        self._out = Console(highlight=False)
        self.warnings: list[str] = []

    @property
    def bars(self) -> bool:
        """True if progress bars are shown: on a terminal only."""
        return not self.quiet and sys.stderr.isatty()

    def line(self, *parts: str | Text, style: str = "") -> None:
        """Print a line; names among the parts must have passed :func:`shown`."""
        if not self.silent:
            self._out.print(Text.assemble(*parts, style=style), soft_wrap=True)

    def table(
        self, head: Sequence[str], rows: Sequence[Sequence[Text | str | float]], decimals: Mapping[str, int] | None = None
    ) -> None:
        """Print a table: names to the left, numbers to the right with their points in line.

        ``decimals`` fixes the number of decimals of columns by their heading. A column of numbers may have empty cells.
        """
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        if self.silent:
            return
        columns = []
        table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
        for name, column in zip(head, zip(*rows, strict=True), strict=True):
            numbers = [value for value in column if isinstance(value, float)]
            numeric = all(isinstance(value, float) or value == "" for value in column)
            table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
            fixed = (decimals or {}).get(name)
            texts = iter(aligned(numbers) if fixed is None else [f"{value:,.{fixed}f}" for value in numbers])
            cells = [next(texts) if isinstance(value, float) else value for value in column]
            columns.append([Text(cell) if isinstance(cell, str) else cell for cell in cells])
        for row in zip(*columns, strict=True):
            table.add_row(*row)
        # As wide as its numbers need, also on a narrower terminal, where rich would cut them off.
        Console(highlight=False, width=_WIDEST).print(table)

    def text(self, text: str) -> None:
        """Print lines that are already formatted and have no control characters."""
        if not self.silent:
            self._out.print(Text(text), soft_wrap=True, end="")

    def show(self, thing: Any, digits: int | None) -> None:
        """Print an object that makes a rich table, as wide as the terminal."""
        if not self.silent:
            self._out.print(thing.to_table(digits))

    def result(self, content: Mapping[str, Any]) -> None:
        """Print the JSON object of a run with ``--json``."""
        if self.json:
            print(json.dumps(_for_json({**content, "warnings": self.warnings}), default=str, allow_nan=False))

    def working(self, task: str) -> contextlib.AbstractContextManager[object]:
        """Show a spinner on standard error."""
        return Console(stderr=True).status(task) if self.bars else contextlib.nullcontext()

    @contextlib.contextmanager
    def shown_warnings(self) -> Iterator[None]:
        """Print warnings of the library as one line each on standard error, and keep them for the JSON object."""
        with warnings.catch_warnings():
            warnings.resetwarnings()
            # These categories address developers of libraries, not users.
            for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning):
                warnings.simplefilter("ignore", category)
            warnings.showwarning = self._warn  # restored with the filters
            yield

    def _warn(self, message: Warning | str, *_: Any, **__: Any) -> None:
        sentence = printable(" ".join(self.worded(str(message)).split()))
        if sentence in self.warnings:
            return  # the same rows are read again, for the ends of intervals for example
        self.warnings.append(sentence)
        if not self.quiet:
            print_error(sentence, "Warning", "bold yellow")


def _for_json(value: Any) -> Any:
    """Plain values in place of NumPy's, and None in place of NaN and infinity, which JSON does not have."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _for_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_for_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def aligned(values: Sequence[float]) -> list[str]:
    """Numbers with the same number of decimals, four digits of the smallest, so that their decimal points are aligned.

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


class OneLineGroup(TyperGroup):
    """A group of commands whose errors are one line on standard error."""

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, *_: Any, **extra: Any) -> Any:
        """Run a command and leave the process with its exit code."""
        args = sys.argv[1:] if args is None else list(args)
        # Read here, because the option parser itself may fail.
        debug = "--debug" in args
        if sys.stderr is None:  # closed by the caller
            sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  # until the process ends
        if isinstance(sys.stdout, io.TextIOWrapper):  # an encoding without a character, such as ², shows ? in its place
            sys.stdout.reconfigure(errors="replace")
        try:
            code = super().main(args, prog_name or "deepfls", **{**extra, "standalone_mode": False})
        except BrokenPipeError:
            # The reader of the pipe, such as `head`, has closed it. Python flushes standard output at exit: to nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = ERROR
        except Exception as error:
            usage = isinstance(error, UsageError | _ParserError)
            if debug and not usage:
                raise
            code = USAGE if usage else ERROR
            if not getattr(error, "reported_by_leader", False):
                print_error(_sentence(error))
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # typer's context is click's
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print_error("interrupted.", label="Stopped")
            raise typer.Exit(INTERRUPT) from None


def _sentence(error: Exception) -> str:
    """The error in one line."""
    if isinstance(error, _ParserError):
        context = getattr(error, "ctx", None)
        unknown = getattr(error, "option_name", "") if hasattr(error, "possibilities") else ""
        text = _unknown_option(unknown, context) if unknown else str(error.format_message())  # type: ignore[attr-defined]  # all have it
        text = re.sub(r"( Did you mean [^?]*\?)\1", r"\1", text)  # older versions of typer repeat the hint of click
        text = text if text.endswith((".", "?")) else f"{text}."
        if "unexpected extra argument" in text:
            text += (
                " An option takes one value, so repeat it for several; put quotes around a pattern or a name with blanks."
            )
        return f"{text} See '{getattr(context, 'command_path', 'deepfls')} --help'."
    if isinstance(error, UnicodeEncodeError):
        return f"Names of files and columns must be UTF-8 text, got {quoted(error.object)}: rename it."
    if isinstance(error, MemoryError):
        return "There is not enough memory: use fewer rows, columns or rules."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename!r}." if error.filename else f"{error.strerror}."
    # NotFittedError is a ValueError.
    if isinstance(error, UsageError | ValueError | TypeError | OSError) and str(error):
        return str(error)
    return f"Unexpected {type(error).__name__}: {str(error).rstrip('.')}. Run again with --debug to see where."


def _unknown_option(name: str, context: typer.Context | None) -> str:
    """The error of an option that a command does not have, with the nearest one that it has."""
    parameters = [] if context is None else context.command.params
    known = [option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)]
    if name in GONE:
        return f"{name} is no longer needed: {GONE[name]}."
    if RENAMED.get(name) in known:
        return f"{name} is now called {RENAMED[name]}."
    plain = {option.lstrip("-"): option for option in known if option.startswith("--")}
    near = nearest(name.lstrip("-"), plain, _SIMILAR)
    return f"There is no option {name}." + (f" Did you mean {plain[near]}?" if near else "")
