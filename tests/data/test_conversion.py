"""CSV files become Parquet in the cache, once."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from pyarrow import parquet

from deepfls.data import conversion
from deepfls.data.conversion import converted
from deepfls.data.parquet import ParquetFiles
from deepfls.data.tables import TableError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEEPFLS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def csv(tmp_path: Path, text: str, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_copy_has_the_columns_of_the_file(tmp_path: Path) -> None:
    table = parquet.read_table(converted(csv(tmp_path, "x,name,y\n1,a,0.5\n2,b,\n")))
    assert table.to_pydict() == {"x": [1.0, 2.0], "name": ["a", "b"], "y": [0.5, None]}


@pytest.mark.parametrize(("name", "separator"), [("t.csv", ";"), ("t.tsv", "\t")])
def test_separators_are_recognised(tmp_path: Path, name: str, separator: str) -> None:
    path = csv(tmp_path, f"x{separator}y\n1{separator}2\n", name)
    assert parquet.read_table(converted(path)).to_pydict() == {"x": [1.0], "y": [2.0]}


def test_whole_numbers_may_be_followed_by_fractions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "_PIECE", 64)
    path = csv(tmp_path, "x\n" + "1\n" * 100 + "2.5\n")
    assert parquet.read_table(converted(path)).column("x")[-1].as_py() == 2.5


def test_copy_is_made_once_and_again_when_the_file_changes(tmp_path: Path) -> None:
    path = csv(tmp_path, "x\n1\n")
    first = converted(path)
    stamp = first.stat().st_mtime_ns
    assert converted(path) == first
    assert first.stat().st_mtime_ns == stamp
    path.write_text("x\n1\n2\n")
    os.utime(path, ns=(1, 1))
    assert parquet.read_table(converted(path)).num_rows == 2


def test_text_columns_stay_text(tmp_path: Path) -> None:
    path = csv(tmp_path, "code\n01\n")
    assert parquet.read_table(converted(path, text_columns=["code"])).to_pydict() == {"code": ["01"]}
    assert parquet.read_table(converted(path)).to_pydict() == {"code": [1.0]}


def test_text_among_numbers_is_told_and_leaves_no_copy(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "_PIECE", 64)
    path = csv(tmp_path, "x\n" + "1\n" * 100 + "oops\n")
    with pytest.raises(TableError, match=f"^{re.escape(repr(str(path)))} cannot be converted to Parquet: .*'oops'"):
        converted(path)
    assert list((cache / "parquet").glob("*.parquet")) + list((cache / "parquet").glob(".*")) == []


def test_empty_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"is empty\.$"):
        converted(csv(tmp_path, ""))


def test_messages_name_the_csv_and_not_its_copy(tmp_path: Path) -> None:
    path = csv(tmp_path, "x,y\n1,2\n")
    assert ParquetFiles(path).files == (str(path),)
    assert ParquetFiles(path).table(0).label == f"row group 0 of '{path}'"
