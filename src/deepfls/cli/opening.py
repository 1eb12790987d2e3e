"""Models and tables as commands open and write them, and the error of a target that is not given."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from deepfls._checks.arguments import listed, quoted
from deepfls._checks.values import Array
from deepfls._files import write_whole
from deepfls.cli.output import CommandOutput, UsageError
from deepfls.data.frames import as_text, kind_of, raw_table
from deepfls.data.layout import has_targets, learn_layout, table_decimal, with_targets
from deepfls.data.learning import ColumnSettings, learn_columns
from deepfls.data.tables import DELIMITED, ENDINGS, DataTable, TableError, find_files, no_such_file, read_table
from deepfls.estimators.table_model import TableModel, layout_of

if TYPE_CHECKING:
    from deepfls.data.parquet import ParquetFiles

# Endings of tables that can be written.
_WRITTEN = (".csv", ".parquet", ".pq")


class TableRows(NamedTuple):
    """A table, its inputs as the estimator takes them, and the true values or None."""

    table: DataTable
    x: Any
    y: Array | None


@dataclass(frozen=True)
class Model(TableModel):
    """A loaded model and its file."""

    path: Path

    def table(self, source: str) -> DataTable:
        """Read a table into memory."""
        return read_table(source, text_columns=self.text_columns)

    def read(self, source: str, *, need_targets: bool = False, nulls: str = "drop", all_rows: bool = False) -> TableRows:
        """A table, its inputs, and the true values if the table has them; ``need_targets`` requires them.

        Rows without a true value are left out then, or an error where ``nulls`` is "error". With ``all_rows`` they stay, so
        that rows count as in the file, and their true value is None.
        """
        table = self.table(source)
        names = self.layout.targets
        if not names:
            named = tuple(getattr(self.estimator, "target_names_", ()))
            names = named if set(named) <= set(table.names) else ()
        if need_targets:
            check_targets_named(names)
            table.require(names, why=" to compare with")
        model = replace(self, layout=replace(self.layout, targets=names))
        if not names or not set(names) <= set(table.names):
            return TableRows(table, model.inputs(table), None)
        if not all_rows:
            table = with_targets(table, model.layout, nulls, trains=False)
            return TableRows(table, model.inputs(table), model.targets(table))
        known = has_targets(table, model.layout, trains=False)
        y = np.full((table.n_rows, len(names)), None, dtype=object)
        if known.any():
            y[known] = model.targets(table.filtered(known)).reshape(-1, len(names))
        return TableRows(table, model.inputs(table), y)

    def stream(self, source: str, extra: Sequence[str], output: CommandOutput) -> tuple[ParquetFiles, list[str]]:
        """The files of a table to be read by row groups, and the columns to read: those of the model and ``extra``."""
        from deepfls.data.parquet import ParquetFiles

        files = ParquetFiles(source, text_columns=self.text_columns, bar=output.bars)
        columns = self.estimator.columns_
        used = columns.used_names if columns.named else []
        named = [*used, *extra]
        DataTable(files.schema.empty_table(), files.label, (), ()).require(named, why=" that is needed")
        files.check_alike(named)
        features = used or [name for name in files.names if name not in extra]
        return files, list(dict.fromkeys([*features, *extra]))


def open_model(path: Path, *, targets: Sequence[str] = ()) -> Model:
    """Load a model file; ``targets`` name the target columns of a model that was not trained on a table."""
    if not path.is_file():
        raise TableError(no_such_file(path, "model file"))
    if path.name.lower().endswith(ENDINGS):
        raise TableError(f"{quoted(path)} is a table: give the model file, such as model.fls, first.")
    from deepfls import load

    estimator = load(path)
    layout = layout_of(estimator)
    if len(set(targets)) < len(targets):
        raise UsageError(f"--target must be given once for every column, got {listed(targets)}.")
    if layout.targets and targets and len(targets) != len(layout.targets):
        raise UsageError(f"--target must be given {len(layout.targets)} times for this model, got {len(targets)}.")
    if targets:
        layout = replace(layout, targets=tuple(targets))
    return Model(estimator, layout, path)


def check_targets_named(names: Sequence[str]) -> None:
    """Require the names of the columns of true values."""
    if not names:
        raise UsageError("--target must be given for a model that was trained in Python.")


def check_output(out: Path | None, *, force: bool, inputs: Sequence[Path | str] = ()) -> None:
    """Refuse, before any work, inputs that do not exist, and an output that is a folder, exists or is one of them."""
    # A model file, a Path, that is no file is reported when it is opened.
    read = [file for source in inputs if not isinstance(source, Path) or source.is_file() for file in find_files(source)]
    if out is None:
        return
    if str(out) == "-":
        raise UsageError("--out must be a file, got - for standard output.")
    if out.exists() and not out.is_file():
        raise UsageError(f"--out must be a file, got the {'folder' if out.is_dir() else 'device'} {quoted(out)}.")
    if not out.parent.is_dir():
        raise UsageError(f"--out must be in a folder that exists, got {quoted(out)}.")
    if not os.access(out.parent, os.W_OK):
        raise UsageError(f"--out must be in a folder where you may write, got {quoted(out)}.")
    if out.exists() and any(out.samefile(file) for file in read):
        raise UsageError(f"--out must not be a file that is read, got {quoted(out)}.")
    if out.exists() and not force:
        raise UsageError(f"{quoted(out)} already exists: replace it with --force, or give another --out.")


def check_model_ending(out: Path) -> None:
    """Refuse the ending of a table or of rules for a model file, which no command would read as a model."""
    if out.name.lower().endswith((*ENDINGS, ".fis")):
        raise UsageError(f"--out must be a model file, such as {out.with_suffix('.fls').name}, got {str(out)!r}.")


def check_ending(out: Path) -> None:
    """Require the ending of a table that can be written."""
    if not out.name.lower().endswith(_WRITTEN):
        raise UsageError(f"--out must end in {', '.join(_WRITTEN)}, got {str(out)!r}.")


# Kinds of columns with types that arrow does not write to a CSV file.
_AS_TEXT = ("text", "bytes", "nested")


def write_table(out: Path, table: pa.Table) -> None:
    """Write a table to a CSV or Parquet file, completely or not at all."""
    from pyarrow import parquet

    sink = io.BytesIO()
    if out.name.lower().endswith(".csv"):
        sink.write(csv_bytes(table))
    else:
        parquet.write_table(table, sink)
    write_whole(out, sink.getvalue())


def csv_bytes(table: pa.Table) -> bytes:
    """A table as CSV with as few quotes as its content allows; numbers read back exactly."""
    header, body = io.StringIO(), io.BytesIO()
    csv.writer(header, lineterminator="\n").writerow(table.schema.names)
    types = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in table.schema]
    columns = [column.cast(kind) for column, kind in zip(table.columns, types, strict=True)]
    # What CSV cannot hold, such as lists, is written as its text.
    columns = [as_text(column) if kind_of(column) in _AS_TEXT else column for column in columns]
    types = [column.type for column in columns]
    special = any(
        pc.any(pc.match_substring_regex(column, '[",\r\n]')).as_py()
        for column, kind in zip(columns, types, strict=True)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind)
    )
    options = arrow_csv.WriteOptions(include_header=False, quoting_style="needed" if special else "none")
    arrow_csv.write_csv(pa.Table.from_arrays(columns, names=table.schema.names), body, options)
    return header.getvalue().encode() + body.getvalue()


# Rows and columns that are tried as a target.
_ROWS, _TRIED = 10_000, 20


def check_target_given(given: Mapping[str, Any]) -> None:
    """Require ``--target``. The error lists the columns and ends with a command that can be copied."""
    if "target" in given:
        return
    if "://" in given["data"]:
        raise UsageError("--target, the column to predict, must be given. See 'deepfls train --help'.")
    table = read_table(given["data"])
    if len(table.names) < 2:
        got = f"{listed(table.names)} alone" + ("" if table.names[0].isidentifier() else f"; {DELIMITED}")
        raise TableError(f"{table.label} must have a column to predict and another one to learn from, got {got}.")
    target = _last_target(table)
    if target is None:
        raise TableError(f"{table.label} must have a column of numbers or classes to predict, got {listed(table.names)}.")
    option = f"--target={target}" if target.startswith("-") else f"--target {shlex.quote(target)}"
    command = f"deepfls train {shlex.quote(given['data'])} {option}"
    columns = f"{listed(table.names)} of {table.label}"
    raise UsageError(f"--target must name the column to predict, one of {columns}; for example: {command}")


def _last_target(table: DataTable) -> str | None:
    """The last column that can be learned from the others: the target is often the last one."""
    some = replace(table, table=table.table.slice(0, _ROWS))
    decimal = table_decimal(some)
    tried = [name for name in reversed(table.names) if name and name.isprintable()][:_TRIED]
    for name in tried:
        with warnings.catch_warnings(), contextlib.suppress(ValueError):
            warnings.simplefilter("ignore")
            layout = learn_layout(some, [name], decimal=decimal)
            with_targets(some, layout)
            features = raw_table(some.table.select(layout.features), layout.features)
            learn_columns(features, ColumnSettings(decimal=decimal), named=True)
            return name
    return None
