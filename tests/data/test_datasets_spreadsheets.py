"""Spreadsheets and archives of named data sets: what is read, and that a damaged or hostile file is one clear error."""

from __future__ import annotations

import contextlib
import datetime
import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest

from dataset_cases import Array, archive, as_xlsx, as_zip, joined, made_table
from deepfls.data import datasets
from deepfls.data.datasets import load_dataset

pytestmark = pytest.mark.usefixtures("small_sets")


def load_sheet(folder: Path, content: bytes) -> Array:
    (folder / "ENB2012_data.xlsx").write_bytes(content)
    return joined(load_dataset("enb", data_dir=folder))


def enb_workbook(change: Callable[[Any], None]) -> bytes:
    """The made set "enb" as a workbook whose first sheet was changed."""
    return as_xlsx("enb", made_table("enb"), lambda book: change(book.worksheets[0]))


def with_part(part: str, change: Callable[[str], str | bytes]) -> bytes:
    """The made set "enb" as a workbook with one changed XML part."""
    with zipfile.ZipFile(io.BytesIO(as_xlsx("enb", made_table("enb")))) as file:
        members = {name: file.read(name) for name in file.namelist()}
    changed = change(members[part].decode())
    return archive({**members, part: changed if isinstance(changed, bytes) else changed.encode()})


SHEET = "xl/worksheets/sheet1.xml"


def test_spreadsheet_gives_texts_of_numbers_integers_and_calculated_values(tmp_path: Path) -> None:
    expected = made_table("enb")
    expected[0, :3] = [41.76, 7, 2]
    content = enb_workbook(lambda sheet: [sheet.cell(2, 1, " 41.76 "), sheet.cell(2, 2, 7), sheet.cell(2, 3, "=1+1")])
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    # openpyxl writes no value beside a formula, as a spreadsheet program does.
    members[SHEET] = re.sub(rb"<f>1\+1</f><v ?/>|<f>1\+1</f><v></v>", b"<f>1+1</f><v>2</v>", members[SHEET])
    np.testing.assert_array_equal(load_sheet(tmp_path, archive(members)), expected)


def test_spreadsheet_ignores_styles_empty_rows_and_a_wrong_stated_size(tmp_path: Path) -> None:
    def change(sheet: Any) -> None:
        sheet.insert_rows(3, amount=2)
        sheet["N2"].font = sheet["B100"].font = openpyxl.styles.Font(bold=True)

    with zipfile.ZipFile(io.BytesIO(enb_workbook(change))) as file:
        members = {name: file.read(name) for name in file.namelist()}
    members[SHEET] = re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1"', members[SHEET])
    np.testing.assert_array_equal(load_sheet(tmp_path, archive(members)), made_table("enb"))


@pytest.mark.parametrize(
    ("value", "got"),
    [
        (None, "''"),
        ("#DIV/0!", "'#DIV/0!'"),
        (True, "'True'"),
        (datetime.datetime(2020, 1, 2), "'2020-01-02 00:00:00'"),
        ("=1+1", "''"),
    ],
    ids=["empty", "error", "boolean", "date", "formula without a value"],
)
def test_spreadsheet_cell_that_is_no_number_is_refused_by_place(value: Any, got: str, tmp_path: Path) -> None:
    def change(sheet: Any) -> None:
        sheet.cell(4, 2).value = value

    with pytest.raises(ValueError, match=rf"must hold finite numbers, got {re.escape(got)} in data row 3, column 'X2'\.$"):
        load_sheet(tmp_path, enb_workbook(change))


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True))
    + '<!ENTITY z "&j;&j;&j;&j;">]><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    '<row><c t="str"><v>&z;</v></c></row></sheetData></worksheet>'
)


@pytest.mark.parametrize(
    "content",
    [
        with_part(SHEET, lambda text: text.replace("</row>", "", 1)),
        with_part(SHEET, lambda text: re.sub('t="n"><v>[^<]*<', 't="s"><v>999<', text, count=1)),
        with_part(SHEET, lambda text: text.replace('r="A1"', 'r="$$"')),
        with_part(SHEET, lambda text: BOMB),
        with_part(SHEET, lambda text: BOMB.encode("utf-16")),
        with_part("xl/workbook.xml", lambda text: re.sub("<sheets>.*</sheets>", "<sheets/>", text)),
        archive({"readme.txt": b"no spreadsheet"}),
    ],
    ids=["tags", "string", "cell name", "entities", "entities in UTF-16", "no sheet", "no workbook"],
)
def test_spreadsheet_that_makes_no_sense_is_one_error(content: bytes, tmp_path: Path) -> None:
    message = r"ENB2012_data\.xlsx' cannot be read as the data set 'enb' \(the spreadsheet is damaged: [^\n]+\)\.$"
    with pytest.raises(ValueError, match=message):
        load_sheet(tmp_path, content)


def test_spreadsheet_is_read_from_its_archive_only(tmp_path: Path) -> None:
    outside = with_part("xl/_rels/workbook.xml.rels", lambda text: text.replace(f"/{SHEET}", "/../../etc/passwd"))
    with pytest.raises(ValueError, match=r"must have the columns .*, got 'text'\.$"):  # the other sheet
        load_sheet(tmp_path, outside)


def test_spreadsheet_ignores_distant_cells(tmp_path: Path) -> None:
    expected = made_table("enb")
    np.testing.assert_array_equal(load_sheet(tmp_path, enb_workbook(lambda sheet: sheet.cell(1_048_576, 2, 1.0))), expected)
    np.testing.assert_array_equal(load_sheet(tmp_path, enb_workbook(lambda sheet: sheet.cell(2, 16_384, 1.0))), expected)


def test_archive_of_too_many_bytes_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "_MAX_UNPACKED", 1000)
    with pytest.raises(ValueError, match=r"\(the zip archive unpacks to [0-9,]+ bytes, more than 1,000\)\.$"):
        load_sheet(tmp_path, as_xlsx("enb", made_table("enb")))


def test_archive_with_a_wrong_stated_size_is_refused(tmp_path: Path) -> None:
    content = archive({"CCPP/Folds5x2_pp.xlsx": b"0" * 5000})
    (tmp_path / "CCPP.zip").write_bytes(content.replace((5000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(ValueError, match="the zip archive is damaged"):
        load_dataset("ccpp", data_dir=tmp_path)


def test_archive_without_the_workbook_is_refused(tmp_path: Path) -> None:
    (tmp_path / "CCPP.zip").write_bytes(archive({"CCPP/notFolds5x2_pp.xlsx": b"no"}))
    with pytest.raises(ValueError, match=r"\(the archive has no 'Folds5x2_pp.xlsx'\)\.$"):
        load_dataset("ccpp", data_dir=tmp_path)


@pytest.mark.parametrize("file", ["Folds5x2_pp.xlsx", "CCPP.zip"])
def test_truncated_archive_is_refused_by_name(file: str, tmp_path: Path) -> None:
    content = (as_xlsx if file.endswith("xlsx") else as_zip)("ccpp", made_table("ccpp"))
    (tmp_path / file).write_bytes(content[:-1000])
    with pytest.raises(ValueError, match=rf"{file}' cannot be read as the data set 'ccpp' \(the zip archive is damaged"):
        load_dataset("ccpp", data_dir=tmp_path)


def test_damaged_workbooks_raise_nothing_but_value_errors(tmp_path: Path) -> None:
    whole = as_xlsx("enb", made_table("enb"))
    random = np.random.default_rng(0)
    for _ in range(100):
        damaged = bytearray(whole[: random.integers(len(whole)) if random.random() < 0.2 else None])
        for _ in range(random.integers(1, 4) if damaged else 0):
            damaged[random.integers(len(damaged))] = random.integers(256)
        with contextlib.suppress(ValueError):
            np.testing.assert_array_equal(load_sheet(tmp_path, bytes(damaged)), made_table("enb"))
