"""The cells of a spreadsheet's first sheet as text, with the standard library only.

An ``.xlsx`` file is a zip archive of XML parts. Sizes are bounded before anything is unpacked, and parts that could declare
entities are refused, so a hostile file costs little.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from xml.etree import ElementTree

# A part of the spreadsheets read here unpacks to about 3 MB.
MAX_BYTES = 16 << 20
MAX_COLUMNS = 100


def zip_member(content: bytes, name: str) -> bytes:
    """Bytes of the file ``name``, in whatever folder of a zip archive.

    Parameters
    ----------
    content : bytes
        The archive.
    name : str
        The member, with or without the folders above it.

    Returns
    -------
    bytes
        The unpacked member, at most :data:`MAX_BYTES`.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            found = [info for info in archive.infolist() if f"/{info.filename}".endswith(f"/{name}")]
            if not found:
                raise ValueError(f"the archive has no {name!r}")
            if found[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{name!r} is packed in a way that is not supported")
            if found[0].file_size > MAX_BYTES:
                raise ValueError(f"{name!r} unpacks to {found[0].file_size:,} bytes, more than {MAX_BYTES:,}")
            # Never yields more than the size stated: zipfile stops there and compares the checksum.
            return archive.read(found[0])
    # RuntimeError: encrypted; NotImplementedError: a newer kind of archive; OSError, EOFError: it ends too early.
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, NotImplementedError) as error:
        raise ValueError(f"the zip archive is damaged: {str(error) or 'it ends too early'}") from error


def first_sheet(content: bytes) -> list[list[str]]:
    """The rows of the first sheet; a cell that holds nothing is an empty string, and empty rows are left out.

    Parameters
    ----------
    content : bytes
        The ``.xlsx`` file.

    Returns
    -------
    list of list of str
        Numbers as they are written in the file; a row ends at its last cell that holds something.
    """
    sheet = next(_xml(content, "xl/workbook.xml").iterfind(".//{*}sheets/{*}sheet"), None)
    if sheet is None:
        raise ValueError("the workbook has no sheet")
    relation = next((value for key, value in sheet.attrib.items() if key.endswith("}id")), None)
    targets = {part.get("Id"): part.get("Target", "") for part in _xml(content, "xl/_rels/workbook.xml.rels")}
    if relation not in targets:
        raise ValueError("the workbook does not say where its first sheet is")
    part = posixpath.normpath(posixpath.join("/xl", targets[relation])).lstrip("/")
    sheet_data = _xml(content, part)
    strings = _shared_strings(content) if sheet_data.find(".//{*}c[@t='s']") is not None else []
    rows = (_row(row, strings) for row in sheet_data.iterfind("{*}sheetData/{*}row"))
    return [row for row in rows if row]


def _xml(content: bytes, part: str) -> ElementTree.Element:
    text = zip_member(content, part)
    # Entities need a document type, which spreadsheets never have; a NUL betrays UTF-16, where the search would miss it.
    if b"<!DOCTYPE" in text or b"\0" in text:
        raise ValueError(f"{part!r} declares a document type or is not UTF-8")
    try:
        return ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # LookupError: an unknown encoding
        raise ValueError(f"{part!r} is not well-formed XML: {error}") from error


def _shared_strings(content: bytes) -> list[str]:
    items = _xml(content, "xl/sharedStrings.xml").iterfind("{*}si")
    return [_text(item) for item in items]


def _text(item: ElementTree.Element) -> str:
    """Plain text, or the runs of formatted text."""
    return "".join(part.text or "" for part in (*item.iterfind("{*}t"), *item.iterfind("{*}r/{*}t")))


def _row(row: ElementTree.Element, strings: list[str]) -> list[str]:
    cells: list[str] = []
    column = -1
    for cell in row.iterfind("{*}c"):
        # A cell without a reference stands right of the one before it.
        column = _column(cell.get("r", "")) if "r" in cell.attrib else column + 1
        value = _value(cell, strings).strip()
        if not value:
            continue
        if not len(cells) <= column < MAX_COLUMNS:
            raise ValueError(f"cell {cell.get('r', '')[:20]!r} stands out of order or beyond column {MAX_COLUMNS}")
        cells += [""] * (column - len(cells)) + [value]
    return cells


def _column(reference: str) -> int:
    """0 for ``A1``, 27 for ``AB9``."""
    match = re.fullmatch(r"([A-Z]{1,3})[0-9]{1,7}", reference)
    if match is None:
        raise ValueError(f"{reference[:20]!r} is no cell")
    column = 0
    for letter in match[1]:
        column = 26 * column + ord(letter) - ord("A") + 1
    return column - 1


def _value(cell: ElementTree.Element, strings: list[str]) -> str:
    if cell.get("t") == "inlineStr":
        inline = cell.find("{*}is")
        return "" if inline is None else _text(inline)
    value = cell.findtext("{*}v") or ""
    if cell.get("t") != "s":
        return value
    if not value.isdecimal() or len(value) > 9 or int(value) >= len(strings):
        raise ValueError(f"cell {cell.get('r', '')[:20]!r} names string {value[:20]!r}, which is not there")
    return strings[int(value)]
