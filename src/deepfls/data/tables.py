"""Tables from files: CSV or Parquet to columns in memory, with every way a file can be wrong worded for its owner."""

from __future__ import annotations

import difflib
import glob
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

CSV_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET_ENDINGS = (".parquet", ".pq")
# What is shown of one name, and how many names of a list.
_SHOWN_CHARACTERS, _SHOWN_NAMES = 80, 5
# Bytes at the start of a CSV that hold its header.
_HEAD = 1 << 20
# pandas writes an unnamed row index to Parquet under such a name: it is no column of the user's.
PANDAS_INDEX = re.compile(r"__index_level_\d+__")


class TableError(ValueError):
    """A table that cannot be used as it is; the message is one sentence for the person who has it."""


def quoted(name: object) -> str:
    """A name as it stands in a message: quoted, shortened, and free of control characters.

    Examples
    --------
    >>> print(quoted("a" + chr(27)))
    'a\\x1b'
    """
    text = str(name)
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…")


def listed(names: Iterable[object]) -> str:
    """Quoted names with commas, the later ones of a long list as their number."""
    names = list(names)
    rest = len(names) - _SHOWN_NAMES
    return ", ".join(map(quoted, names[:_SHOWN_NAMES])) + (f" and {rest} more" if rest > 0 else "")


def nearest(name: str, options: Iterable[str]) -> str:
    """A closing hint `` Did you mean 'x'?``, or nothing; letter case and outer blanks do not count as differences."""
    # Not the one in `_checks`: that file imports torch, and a mistyped name should not wait for it.
    plain = {option.strip().casefold(): option for option in options}
    found = difflib.get_close_matches(str(name).strip().casefold(), plain, n=1, cutoff=0.6)
    return f" Did you mean {quoted(plain[found[0]])}?" if found else ""


@dataclass(frozen=True)
class DataTable:
    """Columns in memory and where they came from.

    Attributes
    ----------
    table : pyarrow.Table
        Its column names are distinct and it has at least one row.
    label : str
        The file or pattern as given, quoted for messages.
    files, sizes : tuple
        The files read, and the number of rows of each.
    """

    table: pa.Table
    label: str
    files: tuple[Path, ...]
    sizes: tuple[int, ...]

    @property
    def names(self) -> list[str]:
        return list(self.table.schema.names)

    @property
    def n_rows(self) -> int:
        return int(self.table.num_rows)

    def place(self, row: int) -> str:
        """A row, counted from 0, as people find it: counted from 1 without the header, in the file that holds it."""
        if len(self.files) == 1:
            return f"data row {row + 1}"
        for file, size in zip(self.files, self.sizes, strict=True):
            if row < size:
                return f"data row {row + 1} of {quoted(file.name)}"
            row -= size
        raise IndexError(row)

    def column(self, name: str) -> pa.ChunkedArray:
        return self.table.column(name)

    def require(self, names: Iterable[str], why: str = "") -> None:
        """Refuse names that are no columns of the table."""
        missing = [name for name in dict.fromkeys(names) if name not in self.names]
        if not missing:
            return
        hint = nearest(missing[0], self.names)
        if not hint and all(_is_number(name) for name in self.names):
            hint = " Its first row must hold the names of the columns."
        elif not hint:
            hint = f" Its columns are {listed(self.names)}."
        raise TableError(f"{self.label} has no column {listed(missing)}{why}.{hint}")


def read_table(path: str | Path, *, text_columns: Collection[str] = ()) -> DataTable:
    """Read a CSV or Parquet file, or all files that match a pattern, into memory.

    Parameters
    ----------
    path : str or Path
        A file, or a pattern such as ``"parts/*.parquet"`` that matches files of the same columns.
    text_columns : collection of str
        Columns of a CSV to take as text even where they look like numbers.

    Returns
    -------
    DataTable

    Raises
    ------
    TableError
        With one sentence that says what is wrong with which file.
    """
    files = find_files(path)
    label = quoted(path)
    tables = [_read_file(file, text_columns) for file in files]
    table = tables[0] if len(tables) == 1 else _joined(tables, files)
    if table.num_rows == 0:
        raise TableError(f"{label} must have rows, got column names only.")
    return DataTable(table, label, tuple(files), tuple(t.num_rows for t in tables))


def find_files(path: str | Path) -> list[Path]:
    """The file of that name or, if there is none, the files that match it as a pattern, sorted."""
    file = Path(path)
    if file.is_dir():
        raise TableError(f'{quoted(path)} is a folder: give a file, or a quoted pattern such as "{file.name}/*.csv".')
    if file.exists():
        return [file]
    if glob.has_magic(str(path)):
        found = sorted(Path(name) for name in glob.glob(str(path), recursive=True) if Path(name).is_file())  # noqa: PTH207  # takes absolute patterns
        if not found:
            raise TableError(f"No file matches {quoted(path)}.")
        return found
    near = [entry.name for entry in file.parent.iterdir() if entry.is_file()] if file.parent.is_dir() else []
    raise TableError(f"There is no file {quoted(path)}.{nearest(file.name, near)}")


def _read_file(path: Path, text_columns: Collection[str]) -> pa.Table:
    name = path.name.lower()
    label = quoted(path)
    if not name.endswith(CSV_ENDINGS + PARQUET_ENDINGS):
        hint = ": save the sheet as CSV" if name.endswith((".xls", ".xlsx", ".ods")) else ""
        raise TableError(f"{label} must end in {', '.join(CSV_ENDINGS + PARQUET_ENDINGS)}{hint}.")
    try:
        table = _read_parquet(path, label) if name.endswith(PARQUET_ENDINGS) else _read_csv(path, label, text_columns)
        names = list(table.schema.names)
    except UnicodeDecodeError:
        raise TableError(f"{label} must be UTF-8 text: save it in that encoding.") from None
    except (pa.ArrowException, OSError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise TableError(f"{label} cannot be read: {reason.rstrip('.')}.") from error
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1] if len(set(names)) < len(names) else []
    if twice:
        raise TableError(f"{label} must have distinct column names, got {listed(twice)} more than once.")
    return table


def _read_parquet(path: Path, label: str) -> pa.Table:
    from pyarrow import parquet

    if path.stat().st_size == 0:
        raise TableError(f"{label} is empty.")
    try:
        table = parquet.ParquetFile(path).read()
    except pa.ArrowInvalid:
        raise TableError(f"{label} is not a Parquet file, or it is damaged.") from None
    return table.select([i for i, name in enumerate(table.schema.names) if not PANDAS_INDEX.fullmatch(name)])


def _read_csv(path: Path, label: str, text_columns: Collection[str]) -> pa.Table:
    from pyarrow import csv

    with pa.input_stream(path) as stream:  # decompresses .gz
        head = stream.read(_HEAD)
    if head.startswith(b"PAR1"):
        raise TableError(f"{label} is a Parquet file: rename it to end in .parquet.")
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n") if head.strip() else []
    header = next((line for line in lines if line.strip()), None)
    if header is None:
        raise TableError(f"{label} is empty.")
    if header.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise TableError(f"{label} must be UTF-8 text: save it in that encoding.")
    if len(head) < _HEAD and sum(1 for line in lines if line.strip()) == 1:
        raise TableError(f"{label} must have rows, got column names only.")
    wrong: list[Any] = []

    def note(row: Any) -> str:
        wrong.append(row)
        return "error"

    def read(careful: bool) -> pa.Table:
        return csv.read_csv(
            path,
            read_options=csv.ReadOptions(use_threads=not careful),
            parse_options=csv.ParseOptions(
                delimiter=delimiter_of(path, header), newlines_in_values=careful, invalid_row_handler=note
            ),
            convert_options=csv.ConvertOptions(column_types={name: pa.string() for name in text_columns}),
        )

    try:
        return read(careful=False)
    except pa.ArrowInvalid:
        wrong.clear()
    # In one thread pyarrow knows row numbers, and takes line breaks inside quotes wherever its blocks end.
    try:
        return read(careful=True)
    except pa.ArrowInvalid:
        if not wrong:
            raise
        row = wrong[0]
        raise TableError(
            f"{label} must have {row.expected_columns} columns in every row as in its header, "
            f"got {row.actual_columns} in data row {row.number - 1}."
        ) from None


def delimiter_of(path: Path, header: bytes) -> str:
    """A comma, unless the name or a header without commas says otherwise."""
    if path.name.lower().endswith((".tsv", ".tsv.gz")):
        return "\t"
    if b"," in header:
        return ","
    return ";" if b";" in header else "\t" if b"\t" in header else ","


def _joined(tables: Sequence[pa.Table], files: Sequence[Path]) -> pa.Table:
    """Tables of the same columns one under the other, in the column order of the first."""
    names = tables[0].schema.names
    for table, file in zip(tables, files, strict=True):
        missing = [name for name in names if name not in table.schema.names]
        added = [name for name in table.schema.names if name not in names]
        if missing or added:
            difference = f"no column {listed(missing)}" if missing else f"a column {listed(added)} besides"
            raise TableError(f"{quoted(file)} must have the columns of {quoted(files[0])}, got {difference}.")
    # Dictionaries differ from file to file, and a file without rows knows no types.
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
    # Permissive: whole numbers in one file join fractions in another.
    return pa.concat_tables([part for part, _ in parts], promote_options="permissive") if parts else tables[0]


def _decoded(table: pa.Table) -> pa.Table:
    """Categories as plain text."""
    fields = [field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in table.schema]
    return table.cast(pa.schema(fields)).replace_schema_metadata(None)


# Kinds of columns, and how messages call what they hold.
KINDS = {
    "number": "numbers",
    "boolean": "true and false",
    "text": "text",
    "category": "categories",
    "date": "dates or times",
    "empty": "no values",
    "bytes": "bytes that are not UTF-8 text",
    "nested": "lists or records",
}


def kind_of(column_type: pa.DataType) -> str:
    """One of :data:`KINDS`."""
    types = pa.types
    if types.is_integer(column_type) or types.is_floating(column_type) or types.is_decimal(column_type):
        return "number"
    if types.is_boolean(column_type):
        return "boolean"
    if types.is_dictionary(column_type):
        return "category"
    if types.is_string(column_type) or types.is_large_string(column_type) or str(column_type) == "string_view":
        return "text"
    if types.is_temporal(column_type):
        return "date"
    if types.is_null(column_type):
        return "empty"
    if types.is_binary(column_type) or types.is_large_binary(column_type) or types.is_fixed_size_binary(column_type):
        return "bytes"
    return "nested"


def first_row(mask: pa.ChunkedArray) -> int:
    """Index of the first true element, -1 without one."""
    return int(pc.index(mask, pa.scalar(True)).as_py())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def first_text(column: pa.ChunkedArray) -> tuple[int, str, float]:
    """Row and value of the first text that is no number, and the share of distinct values that are numbers."""
    values = [value for value in column.cast(pa.string()).unique().to_pylist() if value is not None]
    texts = [value for value in values if not _is_number(value)]
    if not texts:
        return -1, "", 1.0
    row = int(pc.index(column.cast(pa.string()), pa.scalar(texts[0])).as_py())
    return row, texts[0], 1.0 - len(texts) / len(values)
