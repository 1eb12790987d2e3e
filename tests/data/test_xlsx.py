"""The first sheet of a spreadsheet, read from archives written here by hand; hostile ones cost little."""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Mapping

import numpy as np
import pytest

from deepfls.data import xlsx
from deepfls.data.xlsx import first_sheet, zip_member

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
WORKBOOK = (
    f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>'
    '<sheet name="First" sheetId="7" r:id="rId9"/><sheet name="Second" sheetId="1" r:id="rId1"/></sheets></workbook>'
)
# The first sheet of the workbook is not the first part of the archive.
RELS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="rId1" Target="worksheets/sheet1.xml"/><Relationship Id="rId9" Target="worksheets/sheet2.xml"/>'
    "</Relationships>"
)
STRINGS = f'<sst xmlns="{MAIN}"><si><t>AT</t></si><si><r><t>P</t></r><r><t>E</t></r></si></sst>'


def sheet(rows: str) -> str:
    return f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>'


def archive(parts: Mapping[str, str | bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in parts.items():
            file.writestr(name, text)
    return stream.getvalue()


def workbook(rows: str, **changed: str | bytes) -> bytes:
    parts: dict[str, str | bytes] = {
        "xl/workbook.xml": WORKBOOK,
        "xl/_rels/workbook.xml.rels": RELS,
        "xl/sharedStrings.xml": STRINGS,
        "xl/worksheets/sheet1.xml": sheet("<row><c><v>-1</v></c></row>"),
        "xl/worksheets/sheet2.xml": sheet(rows),
    }
    named = {"workbook": "xl/workbook.xml", "rels": "xl/_rels/workbook.xml.rels", "strings": "xl/sharedStrings.xml"}
    named["sheet"] = "xl/worksheets/sheet2.xml"
    return archive({**parts, **{named[key]: value for key, value in changed.items()}})


def test_first_sheet_reads_shared_inline_and_plain_cells() -> None:
    rows = (
        '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>V</t></is></c>'
        '<c r="C1" t="s"><v>1</v></c></row>'
        '<row r="2"><c r="A2"><v>14.96</v></c><c r="B2" t="str"><v> 41.76 </v></c><c r="C2"><v>4.6326E2</v></c></row>'
    )
    assert first_sheet(workbook(rows)) == [["AT", "V", "PE"], ["14.96", "41.76", "4.6326E2"]]


def test_first_sheet_places_cells_by_reference_or_in_sequence() -> None:
    rows = '<row><c r="A1"><v>1</v></c><c r="C1"><v>3</v></c></row><row><c><v>1</v></c><c><v>2</v></c></row>'
    assert first_sheet(workbook(rows)) == [["1", "", "3"], ["1", "2"]]


def test_first_sheet_leaves_out_styled_cells_and_rows_that_hold_nothing() -> None:
    rows = '<row><c r="A1"><v>1</v></c><c r="B1" s="4"/><c r="XFD1" s="4"/></row><row/><row><c r="A3" s="1"/></row>'
    assert first_sheet(workbook(rows)) == [["1"]]


def test_first_sheet_needs_no_shared_strings_when_no_cell_names_one() -> None:
    parts = {
        "xl/workbook.xml": WORKBOOK,
        "xl/_rels/workbook.xml.rels": RELS.replace('"worksheets/sheet2', '"/xl/worksheets/sheet2'),
        "xl/worksheets/sheet2.xml": sheet("<row><c><v>5</v></c></row>"),
    }
    assert first_sheet(archive(parts)) == [["5"]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('<row><c r="B1"><v>2</v></c><c r="A1"><v>1</v></c></row>', "out of order"),
        ('<row><c r="XFD1"><v>2</v></c></row>', "beyond column 100"),
        ('<row><c r="$A$1"><v>2</v></c></row>', "is no cell"),
        ('<row><c r="A1" t="s"><v>2</v></c></row>', "names string '2', which is not there"),
        ('<row><c r="A1" t="s"><v>-1</v></c></row>', "names string '-1'"),
        ('<row><c r="A1" t="s"><v>00000000000</v></c></row>', "names string"),
        ("<row>", "is not well-formed XML"),
    ],
)
def test_first_sheet_refuses_cells_that_make_no_sense(rows: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        first_sheet(workbook(rows))


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    + f"]>{sheet('<row><c><v>&i;</v></c></row>')}"
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_first_sheet_refuses_entities(encoding: str) -> None:
    with pytest.raises(ValueError, match="declares a document type or is not UTF-8"):
        first_sheet(workbook("", sheet=BOMB.encode(encoding)))


def test_first_sheet_refuses_a_workbook_without_sheets() -> None:
    with pytest.raises(ValueError, match="the workbook has no sheet"):
        first_sheet(workbook("", workbook=f'<workbook xmlns="{MAIN}"/>'))
    with pytest.raises(ValueError, match="does not say where its first sheet is"):
        first_sheet(workbook("", rels="<Relationships/>"))
    with pytest.raises(ValueError, match=r"has no 'xl/workbook.xml'"):
        first_sheet(archive({"readme.txt": "no spreadsheet"}))


def test_first_sheet_stays_within_the_archive() -> None:
    with pytest.raises(ValueError, match="has no 'etc/passwd'"):
        first_sheet(workbook("", rels=RELS.replace("worksheets/sheet2.xml", "../../../etc/passwd")))


def test_zip_member_is_found_in_any_folder() -> None:
    content = archive({"other/notFolds.xlsx": b"no", "CCPP/Folds.xlsx": b"yes"})
    assert zip_member(content, "Folds.xlsx") == b"yes"


def test_zip_member_refuses_what_unpacks_to_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match=r"'a' unpacks to 1,001 bytes, more than 1,000"):
        zip_member(archive({"a": b"0" * 1001}), "a")


def test_zip_member_yields_no_more_than_the_size_stated() -> None:
    content = archive({"a": b"0" * 5000})
    lying = content.replace((5000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    assert lying != content
    with pytest.raises(ValueError, match="the zip archive is damaged"):
        zip_member(lying, "a")


def test_zip_member_refuses_other_packing() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_BZIP2) as file:
        file.writestr("a", "text")
    with pytest.raises(ValueError, match="packed in a way that is not supported"):
        zip_member(stream.getvalue(), "a")


def test_damaged_workbooks_raise_nothing_but_value_errors() -> None:
    whole = workbook('<row><c r="A1" t="s"><v>0</v></c></row>')
    random = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole[: random.integers(len(whole)) if random.random() < 0.2 else None])
        for _ in range(random.integers(1, 4) if damaged else 0):
            damaged[random.integers(len(damaged))] = random.integers(256)
        with contextlib.suppress(ValueError):
            assert first_sheet(bytes(damaged)) == [["AT"]]
