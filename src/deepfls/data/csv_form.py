"""The form of a text table: encoding, delimiter, lines above the header, and names of columns that no header gives."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import csv as arrow_csv

from deepfls.data.written import DECIMALS, MISSING_TEXTS, are_codes, is_missing_text, number_of

# Texts in a column of numbers that mean a missing value.
NULL_TEXTS = [form for text in MISSING_TEXTS for form in dict.fromkeys((text, text.upper(), text.title()))] + ["NaN", "#NA"]
_DELIMITERS = (",", ";", "\t", "|")
# Bytes at the start of a file that contain its header, rows that are compared with it, and lines that may be above it.
_HEAD, _COMPARED, _ABOVE = 1 << 20, 5, 10
# Rows whose texts are looked at before they are parsed.
_LOOKED_AT = 500
# The first line of a file that states the delimiter for Excel.
_EXCEL_DELIMITER = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
# Numbers that may have points for thousands, and those that surely have a decimal comma.
_MAYBE_THOUSANDS = re.compile(r"[+-]?\d{1,3}(\.\d{3})*")
_DECIMAL_COMMA = re.compile(r"[+-]?\d[\d.]*,(\d{1,2}|\d{4,})")
# First bytes of files that are not text tables, and what to do with them.
_OTHER_FILES = (
    (b"PAR1", "is a Parquet file: rename it to end in .parquet"),
    (b"PK\x03\x04", "is an Excel workbook or a zip archive: rename the one to end in .xlsx, or unpack the other"),
    (b"\x1f\x8b", "is compressed by gzip: rename it to end in .csv.gz"),
    (b"\xd0\xcf\x11\xe0", "is an Excel workbook of an old version, or with a password: save the sheet as CSV"),
)
# First characters of text files that are not tables, and what to do with them.
_OTHER_TEXTS = (
    (("<!doctype html", "<html", "<table"), "is a web page: download the table itself, or save it as CSV"),
    (("<?xml",), "is an XML file: save the table as CSV"),
    (('{"', "{\n", "[{", "[\n"), "is a JSON file: save the table as CSV"),
)


class TableError(ValueError):
    """A table that cannot be used; the message is one sentence for the user."""


class CsvForm(NamedTuple):
    """How a text table is to be read."""

    delimiter: str
    encoding: str = "utf8"
    skip: int = 0  # lines above the header, or above the first row where there are ``names``
    names: tuple[str, ...] | None = None  # of all columns, where the header does not give them
    texts: tuple[str, ...] = ()  # columns of digits that are read as text: codes, and numbers with points for thousands

    def options(self, types: Mapping[str, Any] | None = None, *, one_thread: bool, **reading: Any) -> dict[str, Any]:
        """The options of pyarrow's readers; in one thread values may have line breaks. ``types`` are those of columns."""
        reading |= {"encoding": self.encoding, "skip_rows": self.skip, "column_names": self.names}
        return {
            "read_options": arrow_csv.ReadOptions(use_threads=not one_thread, **reading),
            "parse_options": arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=one_thread),
            "convert_options": arrow_csv.ConvertOptions(column_types=types, null_values=NULL_TEXTS),
        }


def open_csv_form(path: Path, label: str) -> tuple[Any, CsvForm]:
    """What pyarrow is to read, the path or a buffer, and its form; a :class:`TableError` for a file that is not a table."""
    compressed = path.name.lower().endswith(".gz")
    with path.open("rb") as file:
        first = file.read(8)
    if compressed and first and not first.startswith(b"\x1f\x8b"):
        raise TableError(f"{label} is not compressed by gzip: rename it to end in {path.suffixes[-2:][0]}.")
    with pa.input_stream(path) as stream:  # decompresses .gz
        head = stream.read(_HEAD)
    return _formed(path, head, label, tabs=path.name.lower().endswith((".tsv", ".tsv.gz")))


def sheet_form(rows: Sequence[Sequence[str]], label: str) -> tuple[Any, CsvForm]:
    """The same for the cells of a spreadsheet."""
    width = max(map(len, rows), default=0)
    n_titles = next((place for place, row in enumerate(rows[: _ABOVE + 1]) if sum(map(bool, row)) > 1), 0)
    _warn_of_lines_above(n_titles, label)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([*row, *[""] * (width - len(row))] for row in rows[n_titles:])
    content = text.getvalue().encode()
    return _formed(pa.py_buffer(content), content[:_HEAD], label, tabs=False)


def _warn_of_lines_above(count: int, label: str) -> None:
    if count:
        lines_are = f"{count} lines of {label} are" if count > 1 else f"line of {label} is"
        warnings.warn(f"The first {lines_are} left out, as a title or comment above the names of columns.", stacklevel=7)


def _formed(source: Any, head: bytes, label: str, *, tabs: bool) -> tuple[Any, CsvForm]:
    encoding = _encoding(head, label)
    text = head.decode(encoding, errors="ignore").removeprefix("\ufeff")
    lines = re.split(r"\r\n|\n|\r", text)
    complete = lines if len(head) < _HEAD else lines[:-1] or lines
    filled = [place for place, line in enumerate(complete) if line.strip()]
    if not filled:
        raise TableError(f"{label} is empty.")
    for starts, words in _OTHER_TEXTS:
        if text.lstrip()[:20].lower().startswith(starts):
            raise TableError(f"{label} {words}.")
    told = _EXCEL_DELIMITER.fullmatch(complete[filled[0]])
    filled = filled[1:] if told is not None else filled
    if not filled:
        raise TableError(f"{label} must have rows, got a line that names the delimiter only.")
    shown = [complete[place] for place in filled[: _ABOVE + _COMPARED + 1]]
    if _is_spaced(shown) and not tabs:
        with pa.input_stream(source) as stream:
            whole = stream.read().decode(encoding)
        rows = csv.reader((line.strip() for line in whole.splitlines()), delimiter=" ", skipinitialspace=True)
        return sheet_form([row for row in rows if row], label)
    above = 0 if tabs or told is not None else _n_above(shown)
    shown = shown[above:]
    if len(head) < _HEAD and len(filled) - above == 1:
        raise TableError(f"{label} must have rows, got column names only.")
    delimiter = "\t" if tabs else told[1] if told is not None else _delimiter(shown[:_COMPARED])
    _warn_of_lines_above(above, label)
    skip = filled[above] if above or told is not None else 0
    names = _names(shown[: _COMPARED + 1], delimiter, label)
    has_header = names is None or names != _numbered(len(names))
    looked_at = [complete[place] for place in filled[above : above + _LOOKED_AT]]
    texts = _columns_of_text(looked_at, delimiter, names, has_header=has_header)
    skip = skip if names is None else filled[above] + has_header
    return source, CsvForm(delimiter, encoding, skip, names, texts)


def _columns_of_text(
    lines: Sequence[str], delimiter: str, names: Sequence[str] | None, *, has_header: bool
) -> tuple[str, ...]:
    """Columns of digits that must be read as text: codes with leading zeros, and 1.304 for 1304 beside decimal commas."""
    try:
        rows = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return ()
    header = rows[0] if names is None else names
    rows = [row for row in rows[has_header:] if len(row) == len(header)]
    found: dict[str, bool] = {}
    has_commas = False
    for name, cells in zip(header, zip(*rows, strict=True), strict=False):
        known = {cell.strip() for cell in cells if not is_missing_text(cell, None)}
        is_thousands = bool(known) and all(map(_MAYBE_THOUSANDS.fullmatch, known)) and any("." in cell for cell in known)
        has_commas |= (
            bool(known)
            and all(number_of(cell, ",") is not None for cell in known)
            and any(map(_DECIMAL_COMMA.fullmatch, known))
        )
        if is_thousands or are_codes(known):
            found[name] = is_thousands
    return tuple(name for name, is_thousands in found.items() if has_commas or not is_thousands)


def without_comments(source: Any, form: CsvForm) -> tuple[pa.Buffer, int]:
    """A text table without the lines below its header that are blank or begin with #, and the number of these lines."""
    with pa.input_stream(source) as stream:
        lines = stream.read().decode(form.encoding, errors="replace").splitlines(keepends=True)
    kept = [k for k, line in enumerate(lines) if k <= form.skip or not (line.isspace() or line.lstrip().startswith("#"))]
    return pa.py_buffer("".join(lines[k] for k in kept).encode(form.encoding)), len(lines) - len(kept)


def check_signature(head: bytes, label: str, besides: bytes | None = None) -> None:
    """Refuse a file that begins like one of another format."""
    for start, words in _OTHER_FILES:
        if head.startswith(start) and not (besides is not None and start.startswith(besides)):
            raise TableError(f"{label} {words}.")


def _encoding(head: bytes, label: str) -> str:
    """utf8, or the encoding that the first bytes of a text file show; a guess gives a warning."""
    check_signature(head, label)
    if head.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "utf-32"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in head:
        some = head[:4096]
        for encoding, zeros, others in (("utf-16-le", some[1::2], some[::2]), ("utf-16-be", some[::2], some[1::2])):
            if zeros.count(0) > 0.8 * len(zeros) and not others.count(0):
                return encoding
        raise TableError(f"{label} is not a text file: save the table as CSV in UTF-8.")
    try:
        head[: head.rfind(b"\n") + 1 or None].decode()
    except UnicodeDecodeError:
        warnings.warn(f"{label} is not UTF-8 text and is read as Windows-1252.", stacklevel=7)
        return "cp1252"
    return "utf8"


def _counts(lines: Sequence[str], mark: str) -> list[int]:
    return [re.sub(r'"[^"]*"', "", line).count(mark) for line in lines]


def _is_spaced(lines: Sequence[str]) -> bool:
    """Whether columns are separated by blanks: no other mark, and the same number of words, at least two, in every line."""
    if any(sum(_counts(lines, mark)) for mark in _DELIMITERS) or len(lines) < 2:
        return False
    widths = [len(row) for row in csv.reader((line.strip() for line in lines), delimiter=" ", skipinitialspace=True)]
    return min(widths[1:]) == max(widths[1:]) > 1 and widths[1] - widths[0] in (0, 1)


def _delimiter(lines: Sequence[str]) -> str:
    """The most frequent mark in the header, of those that the first rows have as often; of equals the first, a comma."""
    counts = {mark: _counts(lines, mark) for mark in _DELIMITERS}
    alike = [mark for mark in _DELIMITERS if len(set(counts[mark])) == 1]
    best = max(alike or _DELIMITERS, key=lambda mark: counts[mark][0])
    return best if counts[best][0] else next((mark for mark in _DELIMITERS if counts[mark][0]), ",")


def _n_above(lines: Sequence[str]) -> int:
    """Lines above the header: comments, titles in one cell, titles without the mark of all lines below."""
    n_comments = next((place for place, line in enumerate(lines) if not line.lstrip().startswith("#")), 0)
    if n_comments:
        last, below = lines[n_comments - 1], lines[n_comments : n_comments + _COMPARED]
        is_header = any(set(_counts([last], mark)) == set(_counts(below, mark)) != {0} for mark in _DELIMITERS)
        return n_comments - is_header
    for mark in _DELIMITERS:  # titles as Excel saves them, with the delimiters of empty cells
        rows = [next(csv.reader([line], delimiter=mark), []) for line in lines]
        n_titles = next((place for place, row in enumerate(rows) if sum(map(bool, map(str.strip, row))) > 1), 0)
        if n_titles and all(len(row) > 2 for row in rows) and all(_number(cell) is None for cell in rows[n_titles]):
            return n_titles
    first = lines[: _COMPARED + 1]
    if any(mark in first[0] and len(set(_counts(first, mark))) == 1 for mark in _DELIMITERS):
        return 0  # a header: it has a mark as often as the rows, which may have another mark in their numbers
    for n_above in range(1, min(len(lines) - 2, _ABOVE) + 1):
        above, below = lines[:n_above], lines[n_above : n_above + _COMPARED]
        for mark in _DELIMITERS:
            is_table = len(set(_counts(below, mark))) == 1 and not any(_counts(above, mark))
            if is_table and mark in below[0] and not any('"' in line for line in above):
                return n_above if all(_number(cell) is None for cell in below[0].split(mark)) else 0
    return 0


def _names(lines: Sequence[str], delimiter: str, label: str) -> tuple[str, ...] | None:
    """Names of the columns where the first line does not give all of them, or gives none; None where it does."""
    if any(line.count('"') % 2 for line in lines):  # a line break in quotes
        return None
    written, *rows = csv.reader(lines, delimiter=delimiter)
    header = [name.strip() for name in written]
    if header[0].startswith("#"):
        return (header[0].lstrip("# "), *header[1:])
    if _is_data(header):
        warnings.warn(
            f"The first line of {label} holds values, so its columns are called 'column_1' to 'column_{len(header)}'.",
            stacklevel=7,
        )
        return _numbered(len(header))
    if rows and all(len(row) == len(header) + 1 for row in rows):
        if not any(row[-1].strip() for row in rows):
            return (*header, "")  # a delimiter at the end of every row
        first = [row[0].strip() for row in rows]
        if first == [str(k + 1) for k in range(len(rows))] or all(_number(cell) is None for cell in first):
            return ("", *header)  # names of rows, as R writes them
    return None if header == written else tuple(header)


def _numbered(n_columns: int) -> tuple[str, ...]:
    return tuple(f"column_{place}" for place in range(1, n_columns + 1))


def _is_data(header: Sequence[str]) -> bool:
    """Whether a first line holds values: fractions, or numbers alone, that do not count up as years or wavelengths do."""
    numbers = [found for cell in header if (found := _number(cell)) is not None]
    if not numbers or len(header) < 2:
        return False
    steps = {round(after - before, 9) for before, after in itertools.pairwise(numbers)}
    if len(steps) == 1 and (len(numbers) > 2 or steps == {1.0}) and 0.0 not in steps:
        return False
    fractions = any(re.search(r"\d[.,]\d|^-", cell) for cell in header if _number(cell) is not None)
    return len(numbers) == len(header) or fractions


def _number(cell: str) -> float | None:
    return next((found for mark in DECIMALS if (found := number_of(cell, mark)) is not None), None)


class Sheet(NamedTuple):
    """Cells of a sheet as text without empty rows, its name, and the number of sheets of the workbook."""

    rows: list[list[str]]
    name: str
    n_sheets: int


@contextlib.contextmanager
def opened_archive(content: bytes, max_unpacked: int) -> Iterator[zipfile.ZipFile]:
    """An opened zip archive of bounded size; zipfile unpacks no more bytes than the stated sizes."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            n_bytes = sum(member.file_size for member in archive.infolist())
            if n_bytes > max_unpacked:
                raise ValueError(f"the zip archive unpacks to {n_bytes:,} bytes, more than {max_unpacked:,}")
            yield archive
    # RuntimeError: encrypted; NotImplementedError: unknown compression; OSError, EOFError: truncated.
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, NotImplementedError) as error:
        raise ValueError(f"the zip archive is damaged: {str(error) or 'it ends too early'}") from error


def first_sheet(
    content: bytes, *, max_rows: int = 1_048_576, max_columns: int = 16_384, max_unpacked: int = 1 << 30
) -> Sheet:
    """The first sheet with a table: values of formulas, "" for an empty cell. ValueError for other files."""
    with opened_archive(content, max_unpacked):
        pass
    from openpyxl import load_workbook  # here: keeps the import of this file light

    try:
        with contextlib.closing(load_workbook(io.BytesIO(content), read_only=True, data_only=True)) as book:
            if not book.worksheets:
                raise ValueError("it has no sheet")
            found = []
            # Hidden sheets hold what other sheets look up, such as the values of lists.
            for sheet in [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"] or book.worksheets:
                sheet.reset_dimensions()  # the size stated in a file may be wrong
                cells = sheet.iter_rows(max_row=max_rows, max_col=max_columns, values_only=True)
                filled = (row for row in cells if row.count(None) < len(row))
                rows = [["" if cell is None else str(cell).strip() for cell in row] for row in filled]
                found.append(Sheet(rows, str(sheet.title), len(book.worksheets)))
                if sum(sum(map(bool, row)) > 1 for row in rows) > 1:
                    break  # a cover page has no two rows of several cells
            else:
                found = found[:1]
    except Exception as error:  # openpyxl does not catch the errors of its parsers
        raise ValueError(f"the spreadsheet is damaged: {' '.join(str(error).split())[:200]}") from error
    ends = [max((place for place, cell in enumerate(row, start=1) if cell), default=0) for row in found[-1].rows]
    return found[-1]._replace(rows=[row[:end] for row, end in zip(found[-1].rows, ends, strict=True) if end])
