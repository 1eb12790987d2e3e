"""Parquet copies of CSV files in the cache."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyarrow import parquet

from deepfls.data import parquet as parquet_module
from deepfls.data.parquet import ParquetFiles, parquet_copy
from deepfls.data.tables import TableError


def csv(tmp_path: Path, text: str, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_copy_has_the_columns_of_the_file(tmp_path: Path) -> None:
    table = parquet.read_table(parquet_copy(csv(tmp_path, "x,name,y\n1,a,0.5\n2,b,\n")))
    assert table.to_pydict() == {"x": [1.0, 2.0], "name": ["a", "b"], "y": [0.5, None]}


@pytest.mark.parametrize(("name", "separator"), [("t.csv", ";"), ("t.tsv", "\t")])
def test_separators_are_recognised(tmp_path: Path, name: str, separator: str) -> None:
    path = csv(tmp_path, f"x{separator}y\n1{separator}2\n", name)
    assert parquet.read_table(parquet_copy(path)).to_pydict() == {"x": [1.0], "y": [2.0]}


def test_integers_may_be_followed_by_fractions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_module, "_BLOCK_BYTES", 64)
    path = csv(tmp_path, "x\n" + "1\n" * 100 + "2.5\n")
    assert parquet.read_table(parquet_copy(path)).column("x")[-1].as_py() == 2.5


def test_copy_is_made_once_and_again_when_the_file_changes(tmp_path: Path) -> None:
    path = csv(tmp_path, "x\n1\n")
    first = parquet_copy(path)
    stamp = first.stat().st_mtime_ns
    assert parquet_copy(path) == first
    assert first.stat().st_mtime_ns == stamp
    path.write_text("x\n1\n2\n")
    os.utime(path, ns=(1, 1))
    assert parquet.read_table(parquet_copy(path)).num_rows == 2


def test_cache_without_write_permission_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("a file where a folder has to be")
    monkeypatch.setenv("DEEPFLS_CACHE", str(tmp_path / "file"))
    message = r"^A Parquet copy of '.*' cannot be stored in the cache folder '.*' \(Not a directory\); set DEEPFLS_CACHE to"
    with pytest.raises(TableError, match=message):
        parquet_copy(csv(tmp_path, "x\n1\n"))


def test_copy_is_made_once_by_several_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    convert = parquet_module._convert
    monkeypatch.setattr(parquet_module, "_convert", lambda *a, **k: (calls.append(a), convert(*a, **k)))
    path = csv(tmp_path, "x\n" + "1\n" * 10_000)
    with ThreadPoolExecutor(4) as pool:
        copies = set(pool.map(parquet_copy, [path] * 8))
    assert len(copies) == len(calls) == 1


def test_text_columns_stay_text(tmp_path: Path) -> None:
    path = csv(tmp_path, "code\n01\n")
    assert parquet.read_table(parquet_copy(path, text_columns=["code"])).to_pydict() == {"code": ["01"]}
    assert parquet.read_table(parquet_copy(path)).to_pydict() == {"code": [1.0]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "x\n" + "1\n" * 100 + "oops\n",
            r"must hold numbers in column 1, as its first rows do, got 'oops': correct that value\.$",
        ),
        (
            "x,y\n" + "1,2\n" * 100 + "3\n",
            r"must have 2 columns in every row as in its header, got 1 in data row 101: correct that",
        ),
        ("x,x\n1,2\n", r"must have distinct column names to be read in parts: rename those that come again\.$"),
        ("x,y\n", r"must have rows, got column names only\.$"),
        ("", r"is empty\.$"),
    ],
    ids=["text among numbers", "short row", "names", "no rows", "empty"],
)
def test_wrong_file_is_one_error_and_leaves_no_copy(
    text: str, message: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_module, "_BLOCK_BYTES", 64)
    path = csv(tmp_path, text)
    with pytest.raises(TableError, match=f"^{re.escape(repr(str(path)))} {message}"):
        parquet_copy(path)
    assert list((cache / "parquet").glob("*.parquet")) + list((cache / "parquet").glob(".*")) == []


def test_messages_name_the_csv_file_and_not_its_copy(tmp_path: Path) -> None:
    path = csv(tmp_path, "x,y\n1,2\n")
    assert ParquetFiles(path).files == (str(path),)
    assert ParquetFiles(path).table(0).label == f"row group 0 of '{path}'"
