"""The error of ``deepfls train`` without ``--target``: the columns of the table, and a command that works."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deepfls.cli.output import UsageError

if TYPE_CHECKING:
    from deepfls.data.tables import DataTable

# Rows and columns that are tried as a target.
_ROWS, _TRIED = 10_000, 20


def check_target_given(given: Mapping[str, Any]) -> None:
    """Require ``--target``. The error lists the columns and ends with a command that can be copied."""
    if "target" in given:
        return
    if "://" in given["data"]:
        raise UsageError("--target, the column to predict, must be given. See 'deepfls train --help'.")
    from deepfls.data.tables import TableError, listed, read_table

    table = read_table(given["data"])
    if len(table.names) < 2:
        raise TableError(
            f"{table.label} must have a column to predict and another one to learn from, got {listed(table.names)} alone."
        )
    target = _last_target(table)
    if target is None:
        raise TableError(f"{table.label} must have a column of numbers or classes to predict, got {listed(table.names)}.")
    option = f"--target={target}" if target.startswith("-") else f"--target {shlex.quote(target)}"
    command = f"deepfls train {shlex.quote(given['data'])} {option}"
    columns = f"{listed(table.names)} of {table.label}"
    raise UsageError(f"--target must name the column to predict, one of {columns}; for example: {command}")


def _last_target(table: DataTable) -> str | None:
    """The last column that can be learned from the others; targets often stand there."""
    from dataclasses import replace

    from deepfls.data.layout import learn_layout, with_targets
    from deepfls.data.learning import ColumnSettings, learn_columns
    from deepfls.data.raw import raw_table

    some = replace(table, table=table.table.slice(0, _ROWS))
    tried = [name for name in reversed(table.names) if name and name.isprintable()][:_TRIED]
    for name in tried:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                layout = learn_layout(some, [name])
                with_targets(some, layout)
                learn_columns(raw_table(some.table.select(layout.features), layout.features), ColumnSettings(), named=True)
            except ValueError:
                continue
        return name
    return None
