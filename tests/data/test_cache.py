"""The cache: its folder, checked downloads, and Parquet copies of CSV files."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyarrow import parquet

from deepfls.data import cache as cache_module
from deepfls.data.cache import cache_folder, checked_download, parquet_copy
from deepfls.data.parquet import ParquetFiles
from deepfls.data.tables import TableError
from local_server import LocalServer

# --- the folder


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "home/.cache/deepfls"),
        ({"XDG_CACHE_HOME": "{root}/xdg"}, "xdg/deepfls"),
        ({"XDG_CACHE_HOME": "{root}/xdg", "DEEPFLS_CACHE": "{root}/own"}, "own"),
        ({"DEEPFLS_CACHE": "~/own"}, "home/own"),
        ({"DEEPFLS_CACHE": ""}, "home/.cache/deepfls"),
    ],
    ids=str,
)
@pytest.mark.skipif(os.name == "nt" or os.uname().sysname != "Linux", reason="folders of Linux")
def test_cache_folder_follows_the_environment(
    environment: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("DEEPFLS_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value.format(root=tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / expected


# --- downloads

CONTENT = b"the official file"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def test_download_is_written_to_the_cache(server: LocalServer, cache: Path) -> None:
    server.files["/folder/a.csv"] = CONTENT
    assert checked_download(f"{server.address}/folder/a.csv", SHA256) == (CONTENT, str(cache / "a.csv"))
    assert (cache / "a.csv").read_bytes() == CONTENT
    assert server.requested == ["/folder/a.csv"]


def test_download_with_another_checksum_is_refused_and_not_kept(server: LocalServer, cache: Path) -> None:
    server.files["/a.csv"] = b"another file"
    message = rf"^the file received is not the official one: its SHA-256 is not {SHA256}$"
    with pytest.raises(OSError, match=message):
        checked_download(f"{server.address}/a.csv", SHA256)
    assert list(cache.iterdir()) == []


def test_download_of_too_many_bytes_is_refused(server: LocalServer, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files["/a.csv"] = bytes(100_000)
    monkeypatch.setattr(cache_module, "MAX_BYTES", 10_000)
    with pytest.raises(OSError, match=r"^the file received has more than 10,000 bytes$"):
        checked_download(f"{server.address}/a.csv", SHA256)
    assert list(cache.iterdir()) == []


def test_download_that_breaks_off_is_refused_and_not_kept(server: LocalServer, cache: Path) -> None:
    server.files["/a.csv"] = CONTENT
    server.stated_bytes = 10 * len(CONTENT)
    with pytest.raises(OSError, match=r"IncompleteRead|not the official one"):
        checked_download(f"{server.address}/a.csv", SHA256)
    assert list(cache.iterdir()) == []


def test_failed_download_states_the_reason(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match=r"^404 Client Error: Not Found for url: http://127\.0\.0\.1"):
        checked_download(f"{server.address}/a.csv", SHA256)
    with pytest.raises(OSError, match=r"Failed to establish a new connection: \[Errno \d+\] Connection refused$"):
        checked_download("http://127.0.0.1:9/a.csv", SHA256)
    monkeypatch.setattr(cache_module, "TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(OSError, match="Read timed out"):
        checked_download(f"http://127.0.0.1:{silent.getsockname()[1]}/a.csv", SHA256)


# --- Parquet copies


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
    monkeypatch.setattr(cache_module, "_BLOCK_BYTES", 64)
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
    convert = cache_module._convert
    monkeypatch.setattr(cache_module, "_convert", lambda *a, **k: (calls.append(a), convert(*a, **k)))
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
    monkeypatch.setattr(cache_module, "_BLOCK_BYTES", 64)
    path = csv(tmp_path, text)
    with pytest.raises(TableError, match=f"^{re.escape(repr(str(path)))} {message}"):
        parquet_copy(path)
    assert list((cache / "parquet").glob("*.parquet")) + list((cache / "parquet").glob(".*")) == []


def test_messages_name_the_csv_file_and_not_its_copy(tmp_path: Path) -> None:
    path = csv(tmp_path, "x,y\n1,2\n")
    assert ParquetFiles(path).files == (str(path),)
    assert ParquetFiles(path).table(0).label == f"row group 0 of '{path}'"
