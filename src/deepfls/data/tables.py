"""CSV and Parquet files as columns in memory. An unusable file raises :class:`TableError`, one sentence for the user."""

from __future__ import annotations

import contextlib
import glob
import itertools
import re
import shlex
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from deepfls._checks.arguments import counted, did_you_mean, listed, nearest, quoted
from deepfls._checks.values import Array
from deepfls._files import user_path
from deepfls.data.csv_form import CsvForm, check_signature, first_sheet, open_csv_form, sheet_form, without_comments
from deepfls.data.csv_form import TableError as TableError
from deepfls.data.frames import KINDS, kind_of, number_array

CSV_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".dat", ".data")
PARQUET_ENDINGS = (".parquet", ".pq")
ENDINGS = (*CSV_ENDINGS, *PARQUET_ENDINGS, ".xlsx")
_HINTS = {
    **dict.fromkeys((".xls", ".xlsm", ".xlsb", ".ods", ".numbers"), "save the sheet as CSV"),
    **dict.fromkeys((".zip", ".gz", ".bz2", ".xz", ".zst", ".7z", ".tar"), "unpack it"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson", ".sav", ".dta", ".rds", ".db", ".sqlite"), "write it as CSV"),
    **dict.fromkeys((".feather", ".arrow", ".orc", ".h5", ".pkl"), "write it as Parquet"),
    "": "rename it to end in .csv if columns are separated by commas or other marks",
}
DELIMITED = "columns are separated by commas, semicolons, tabs, bars or blanks"
# Entries of the folders in a folder that are looked at for a table.
_MOST_ENTRIES = 10_000
# Similarity from which a mistyped column or file is taken for another one.
_NEAR, _NEAR_FILE = 0.7, 0.8
# Rows in which a name is looked for that no column has, and the begin of an address.
_ROWS_OF_NAMES, _ADDRESS = 100, re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
# pandas writes an unnamed row index to Parquet under such a name. It is not a column of the user.
PANDAS_INDEX = re.compile(r"__index_level_\d+__")
# pyarrow's message for a row of another length than the header. The number of the row counts the header; only a read in one
# thread gives it.
_RAGGED_ROW = re.compile(r"CSV parse error: Row #(\d+): Expected (\d+) columns, got (\d+)")
# Its message for a text in a column that has begun with numbers or dates.
_OTHER_VALUE = re.compile(r"In CSV column #(\d+): .*conversion error to ([a-z]+).*: invalid value '(.*)'", re.DOTALL)


@dataclass(frozen=True)
class DataTable:
    """Columns in memory and the files they were read from."""

    table: pa.Table  # with distinct column names and at least one row
    label: str  # the path or pattern as given, quoted for messages
    files: tuple[Path, ...]
    sizes: tuple[int, ...]  # rows of each file
    rows: Array | None = None  # numbers of the rows in the files, where some were left out

    @property
    def names(self) -> list[str]:
        return list(self.table.schema.names)

    @property
    def n_rows(self) -> int:
        return int(self.table.num_rows)

    def place(self, row: int) -> str:
        """Where to find row ``row`` (from 0): its number from 1 without the header, and its file if there are several."""
        row = row if self.rows is None else int(self.rows[row])
        if len(self.files) == 1:
            return f"data row {row + 1}"
        ends = np.cumsum(self.sizes)
        number = int(np.searchsorted(ends, row, side="right"))
        return f"data row {row + 1 - ends[number] + self.sizes[number]} of {quoted(self.files[number].name)}"

    def column(self, name: str) -> pa.ChunkedArray:
        return self.table.column(name)

    def known(self, names: Sequence[str]) -> Array:
        """Which rows have neither a null nor a NaN in these columns, (rows,)."""
        found = np.ones(self.n_rows, dtype=bool)
        for name in names:
            column = self.column(name)
            is_floating = pa.types.is_floating(column.type)
            if column.null_count or is_floating:
                found &= number_array(pc.is_null(column, nan_is_null=is_floating)) == 0
        return found

    def filtered(self, kept: Array) -> DataTable:
        """The table with these rows (rows,) alone."""
        if kept.all():
            return self
        rows = np.flatnonzero(kept) if self.rows is None else self.rows[kept]
        return replace(self, table=self.table.filter(kept), rows=rows)

    def require(self, names: Iterable[str], why: str = "") -> None:
        """Raise an error for names that are not columns of the table."""
        missing = [name for name in dict.fromkeys(names) if name not in self.names]
        if not missing:
            return
        parts = [part.strip() for part in missing[0].split(",")]
        if len(parts) > 1 and set(parts) <= set(self.names):
            raise TableError(f"{self.label} has no column {listed(missing)}{why}. Name {listed(parts)} one by one.")
        hint = did_you_mean(missing[0], self.names, _NEAR) or self._place_of_name(missing[0])
        if not hint and all(is_number(name) for name in self.names):
            hint = " Its first row must hold the names of the columns."
        elif not hint and len(self.names) == 1:
            hint = f" Its only column is {listed(self.names)}; {DELIMITED}."
        elif not hint:
            hint = f" Its columns are {listed(self.names)}."
        raise TableError(f"{self.label} has no column {listed(missing)}{why}.{hint}")

    def _place_of_name(self, name: str) -> str:
        """The hint where a cell holds a name that no column has: a header further down, or rows for columns."""
        head = self.table.slice(0, _ROWS_OF_NAMES)
        cells = [column.to_pylist() for column in head.columns]
        found = next((row for row in range(head.num_rows) if any(column[row] == name for column in cells)), None)
        if found is None:
            return ""
        row = [str(column[found]) for column in cells if column[found] not in (None, "")]
        if len(row) > 1 and len(set(row)) == len(row) and not any(map(is_number, row)):
            return (
                f" It stands in data row {found + 1}: leave out the lines above, so that the names of columns come first."
            )
        return (
            " It stands in the first column: exchange the rows and columns of the table first." if name in cells[0] else ""
        )


def read_table(path: str | Path, *, text_columns: Collection[str] = ()) -> DataTable:
    """Read a CSV or Parquet file, or files of the same columns by a pattern such as ``"parts/*.parquet"``, into memory.

    ``text_columns`` of a CSV are read as text even if they look like numbers. A :class:`TableError` names the file and its
    fault in one sentence.
    """
    files = find_files(path)
    label = quoted(path)
    tables = [_read_file(file, text_columns) for file in files]
    table = tables[0] if len(tables) == 1 else _joined(tables, files)
    if table.num_rows == 0:
        raise TableError(f"{label} must have rows, got column names only.")
    return DataTable(table, label, tuple(files), tuple(t.num_rows for t in tables))


def find_files(path: str | Path) -> list[Path]:
    """The file of that name or, if it does not exist, the sorted files that match it as a pattern."""
    file = user_path(path)
    if _ADDRESS.match(str(path)):
        raise TableError(of_address(str(path)))
    if str(path) in ("-", "/dev/stdin") or file.is_fifo():
        raise TableError("A table cannot be read from standard input or a pipe: write it to a file, and give that file.")
    if file.is_dir():
        held = [entry.name.lower() for entry in file.iterdir() if entry.is_file()]
        endings = [ending for ending in ENDINGS if any(name.endswith(ending) for name in held)]
        if not endings:
            held_below = itertools.islice(file.rglob("*"), _MOST_ENTRIES)
            inner = next((entry for entry in held_below if entry.name.lower().endswith(ENDINGS)), None)
            if inner is not None:
                ending = next(ending for ending in ENDINGS if inner.name.lower().endswith(ending))
                pattern = shlex.quote(str(file / "**" / f"*{ending}"))
                raise TableError(f"{quoted(path)} is a folder of folders: give a file, or all files in them as {pattern}.")
            raise TableError(f"{quoted(path)} is a folder without tables: give a file that ends in {', '.join(ENDINGS)}.")
        pattern = shlex.quote(str(file / f"*{endings[0]}"))
        raise TableError(f"{quoted(path)} is a folder: give one of its files, or all of them as {pattern}.")
    if file.exists():
        return [file]
    if glob.has_magic(str(path)):
        found = sorted(Path(name) for name in glob.glob(str(file), recursive=True) if Path(name).is_file())  # noqa: PTH207  # takes absolute patterns
        if not found:
            raise TableError(f"No file matches {quoted(path)}.")
        return found
    raise TableError(no_such_file(file))


def of_address(path: str) -> str:
    """The error of an address in place of a file."""
    more = "" if path.lower().startswith("http") else "; --stream reads Parquet files from there"
    return f"{quoted(path)} is an address, and tables are read from files: download it, and give that file{more}."


def no_such_file(path: Path, what: str = "file") -> str:
    """The error of a file that does not exist, with the nearest name in its folder."""
    names = [entry.name for entry in path.parent.iterdir() if entry.is_file()] if path.parent.is_dir() else []
    near = nearest(path.name, names, _NEAR_FILE)
    hint = "" if near is None else f" Did you mean {str(path.with_name(near))!r}?"
    return f"There is no {what} {quoted(path)}.{hint}"


def hint_for(path: str | Path, *, stream: bool = False) -> str:
    """What to do with a file of this ending, after a colon; "" where it may be anything."""
    ending = Path(path).suffix.lower()
    if stream and ending in ("", ".xlsx"):  # a file without an ending is read as Parquet
        return ": save the sheet as CSV" if ending else ""
    return f": {_HINTS[ending]}" if ending in _HINTS else ""


def _read_file(path: Path, text_columns: Collection[str]) -> pa.Table:
    name = path.name.lower()
    label = quoted(path)
    if not name.endswith(ENDINGS):
        raise TableError(f"{label} must end in {', '.join(ENDINGS)}{hint_for(path)}.")
    with file_errors(label):
        if name.endswith(PARQUET_ENDINGS):
            table = _read_parquet(path, label)
        else:
            source, form = (_open_sheet if name.endswith(".xlsx") else open_csv_form)(path, label)
            table = _parsed(source, form, label, text_columns)
        names = list(table.schema.names)  # decodes the header
    # Delimiters at the end of every line, and empty columns of a sheet, make columns without a name and values.
    kept = [k for k, name in enumerate(names) if name or table.schema.field(k).type != pa.null()]
    if len(kept) < len(names):
        table = table.select(kept)
        names = [names[k] for k in kept]
    return table if len(set(names)) == len(names) else table.rename_columns(_distinct(names, label))


def _distinct(names: Sequence[str], label: str) -> list[str]:
    """Distinct names of columns: a repeated name gets a number."""
    found: list[str] = []
    for place, name in enumerate(names, start=1):
        made, count = name, 1
        while made in found or (count > 1 and made in names):
            count += 1
            made = f"{name}_{count}" if name else f"column_{place}"
        found.append(made)
    new = [made for made, name in zip(found, names, strict=True) if made != name]
    warnings.warn(f"{label} has several columns of the same name: the later ones are called {listed(new)}.", stacklevel=5)
    return found


@contextlib.contextmanager
def file_errors(label: str, action: str = "read") -> Iterator[None]:
    """Turn errors of pyarrow and of the operating system into a :class:`TableError`."""
    try:
        yield
    except UnicodeDecodeError:
        raise TableError(f"{label} must be UTF-8 text: save it in that encoding.") from None
    except (pa.ArrowException, OSError) as error:
        ragged = _RAGGED_ROW.match(str(error))
        if ragged is not None:
            row, expected, got = map(int, ragged.groups())
            advice = "correct that row, or remove it"
            if row == 2 and got > expected:  # the first data row
                advice = "name every column; if its numbers have decimal commas, save it with semicolons between columns"
            raise TableError(
                f"{label} must have {counted(expected, 'column')} in every row as in its header, got {got} in data row "
                f"{row - 1}: {advice}."
            ) from None
        other = _OTHER_VALUE.match(str(error))
        if other is not None:
            place, kind, value = int(other[1]) + 1, other[2], other[3].split("\n")[0]
            kind = {"double": "numbers", "bool": "true and false"}.get(kind, "dates")
            rule = f"must hold {kind} in column {place}, as its first rows do"
            raise TableError(f"{label} {rule}, got {quoted(value)}: correct that value.") from None
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise TableError(f"{label} cannot be {action}: {reason.rstrip('.')}.") from error


def _read_parquet(path: Path, label: str) -> pa.Table:
    from pyarrow import parquet

    if path.stat().st_size == 0:
        raise TableError(f"{label} is empty.")
    try:
        table = parquet.ParquetFile(path).read()
    except pa.ArrowInvalid:
        with path.open("rb") as file:
            head = file.read(1000)
        is_text = not head.startswith(b"PAR1") and not set(head) & set(range(9))  # no control characters
        what = "is a text file: rename it to end in .csv" if is_text else "is not a Parquet file, or it is damaged"
        raise TableError(f"{label} {what}.") from None
    return table.select([i for i, name in enumerate(table.schema.names) if not PANDAS_INDEX.fullmatch(name)])


def _open_sheet(path: Path, label: str) -> tuple[Any, CsvForm]:
    """The first sheet of a workbook as CSV, and its form."""
    content = path.read_bytes()
    if not content:
        raise TableError(f"{label} is empty.")
    check_signature(content, label, besides=b"PK")
    if not content.startswith(b"PK"):
        raise TableError(f"{label} is not an Excel workbook: give its content the ending that it has.")
    try:
        sheet = first_sheet(content)
    except ValueError as error:
        raise TableError(f"{label} cannot be read: {error}.") from error
    if sheet.n_sheets > 1:
        sheets = f"{sheet.n_sheets} sheets, of which {quoted(sheet.name)} is read"
        warnings.warn(f"{label} has {sheets}; save another one as CSV to use it.", stacklevel=4)
    return sheet_form(sheet.rows, label)


def _parsed(source: Any, form: CsvForm, label: str, text_columns: Collection[str]) -> pa.Table:
    types = {name: pa.string() for name in (*text_columns, *form.texts)}
    # No invalid_row_handler: pyarrow's threads release it after the read returns. A release during the shutdown of the
    # interpreter aborts the process.
    with contextlib.suppress(pa.ArrowInvalid):
        return csv.read_csv(source, **form.options(types, one_thread=False))
    # One thread counts the rows for the message, and accepts line breaks in quotes at the end of a block.
    options = form.options(types, one_thread=True)
    try:
        return csv.read_csv(source, **options)
    except pa.ArrowInvalid:
        rest, n_left_out = without_comments(source, form)
        if n_left_out == 0:
            raise
        table = csv.read_csv(rest, **options)
        lines, are = ("line", "is") if n_left_out == 1 else ("lines", "are")
        warnings.warn(f"{n_left_out:,} blank or comment {lines} of {label} {are} left out.", stacklevel=5)
        return table


def _joined(tables: Sequence[pa.Table], files: Sequence[Path]) -> pa.Table:
    """Tables of the same columns, concatenated in the column order of the first."""
    names = tables[0].schema.names
    for table, file in zip(tables, files, strict=True):
        missing = [name for name in names if name not in table.schema.names]
        added = [name for name in table.schema.names if name not in names]
        if missing or added:
            difference = f"no column {listed(missing)}" if missing else f"a column {listed(added)} besides"
            raise TableError(f"{quoted(file)} must have the columns of {quoted(files[0])}, got {difference}.")
    # Dictionaries differ between files, and a file without rows has no types.
    parts = [(_decoded(table.select(names)), file) for table, file in zip(tables, files, strict=True) if table.num_rows]
    for name in names:
        typed = [(kind_of(part.schema.field(name).type), file) for part, file in parts]
        typed = [(kind, file) for kind, file in typed if kind != "empty"]
        other = next(((kind, file) for kind, file in typed if kind != typed[0][0]), None)
        if other is not None:
            raise TableError(
                f"Column {quoted(name)} must hold the same in every file, got {KINDS[typed[0][0]]} in "
                f"{quoted(typed[0][1])} and {KINDS[other[0]]} in {quoted(other[1])}."
            )
    # Permissive: integers in one file and fractions in another become fractions.
    return pa.concat_tables([part for part, _ in parts], promote_options="permissive") if parts else tables[0]


def _decoded(table: pa.Table) -> pa.Table:
    """The table with dictionary columns as text."""
    fields = [field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in table.schema]
    return table.cast(pa.schema(fields)).replace_schema_metadata(None)


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
