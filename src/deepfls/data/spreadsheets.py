"""The first sheet of an Excel workbook (.xlsx), read within bounds."""

from __future__ import annotations

import contextlib
import io
import zipfile
import zlib
from collections.abc import Iterator
from typing import NamedTuple


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
    """The first sheet: values of formulas, "" for an empty cell. ValueError where the file is no workbook."""
    with opened_archive(content, max_unpacked):
        pass
    from openpyxl import load_workbook  # here: keeps the import of this file light

    try:
        with contextlib.closing(load_workbook(io.BytesIO(content), read_only=True, data_only=True)) as book:
            if not book.worksheets:
                raise ValueError("it has no sheet")
            sheet = book.worksheets[0]
            name, n_sheets = str(sheet.title), len(book.worksheets)
            sheet.reset_dimensions()  # the size stated in a file may be wrong
            cells = sheet.iter_rows(max_row=max_rows, max_col=max_columns, values_only=True)
            filled = (row for row in cells if row.count(None) < len(row))
            rows = [["" if cell is None else str(cell).strip() for cell in row] for row in filled]
    except Exception as error:  # openpyxl does not catch the errors of its parsers
        raise ValueError(f"the spreadsheet is damaged: {' '.join(str(error).split())[:200]}") from error
    ends = [max((place for place, cell in enumerate(row, start=1) if cell), default=0) for row in rows]
    return Sheet([row[:end] for row, end in zip(rows, ends, strict=True) if end], name, n_sheets)
