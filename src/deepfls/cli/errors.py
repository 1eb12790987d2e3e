"""How commands end: one readable line and an exit code, or a traceback with ``--debug``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from deepfls.cli.output import print_error

ERROR, USAGE, INTERRUPT = 1, 2, 130

# The base of all errors of the option parser; typer exports its subclass only, and has moved it between versions.
_ParserError: type[Exception] = typer.BadParameter.__mro__[2]


class UsageError(Exception):
    """A command that was called in a way that cannot work."""


class OneLineGroup(TyperGroup):
    """A group of commands whose errors are one line on standard error."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and leave the process with its exit code."""
        args = sys.argv[1:] if args is None else list(args)
        # Read here because the parser itself may be what fails.
        debug = "--debug" in args
        try:
            code = super().main(args, prog_name or "deepfls", complete_var, False, windows_expand_args, **extra)
        except BrokenPipeError:
            # The reader of a pipe, such as `head`, has enough. What Python flushes at exit must go somewhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = ERROR
        except Exception as error:
            if debug and not isinstance(error, UsageError | _ParserError):
                raise
            code = _code_of(error)
            if not getattr(error, "told", False):  # by another process
                print_error(_sentence(error))
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # typer's context is click's
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print_error("interrupted.", label="Stopped")
            raise typer.Exit(INTERRUPT) from None


def _code_of(error: Exception) -> int:
    return USAGE if isinstance(error, UsageError | _ParserError) else ERROR


def _sentence(error: Exception) -> str:
    """What went wrong, in one line."""
    if isinstance(error, _ParserError):
        text: str = error.format_message()  # type: ignore[attr-defined]  # every error of the parser has it
        command = getattr(getattr(error, "ctx", None), "command_path", "deepfls")
        text = text if text.endswith((".", "?")) else f"{text}."
        return f"{text} See '{command} --help'."
    if isinstance(error, MemoryError):
        return "There is not enough memory for this: use fewer rows, columns or rules."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename!r}." if error.filename else f"{error.strerror}."
    # NotFittedError is a ValueError.
    if isinstance(error, UsageError | ValueError | TypeError | OSError) and str(error):
        return str(error)
    return f"Unexpected {type(error).__name__}: {str(error).rstrip('.')}. Run again with --debug to see where."
