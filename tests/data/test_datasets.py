"""Named data sets: found where the manual says, refused when they are not what they claim. No test uses a network."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import replace
from http.client import BadStatusLine
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.error import HTTPError, URLError

import numpy as np
import pytest

from deepfls.data import datasets
from deepfls.data.datasets import DATASETS, cache_folder, load_dataset

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no folder in the environment, and no network."""
    monkeypatch.setenv("DEEPFLS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DEEPFLS_DATA", raising=False)

    def no_network(*_: Any, **__: Any) -> None:
        raise URLError("no network in tests")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    return tmp_path / "cache"


def fake_table(name: str, seed: int = 0) -> Array:
    info = DATASETS[name]
    return np.round(np.random.default_rng(seed).normal(50, 20, (info.n_rows, len(info.columns))), 3)


def as_csv(name: str, table: Array) -> bytes:
    lines = [",".join(DATASETS[name].columns), *(",".join(map(repr, row)) for row in table.tolist())]
    return "\n".join([*lines, ""]).encode()


def as_housing(name: str, table: Array) -> bytes:
    return "".join(" " + "  ".join(map(repr, row)) + "\n" for row in table.tolist()).encode()


def as_xlsx(name: str, table: Array) -> bytes:
    def row(cells: list[str]) -> str:
        return f"<row>{''.join(cells)}</row>"

    header = row([f'<c t="inlineStr"><is><t>{column}</t></is></c>' for column in DATASETS[name].columns])
    body = "".join(row([f"<c><v>{cell!r}</v></c>" for cell in cells]) for cells in table.tolist())
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets><sheet r:id="rId1"/></sheets></workbook>',
        )
        file.writestr(
            "xl/_rels/workbook.xml.rels",
            '<Relationships><Relationship Id="rId1" Target="worksheets/sheet1.xml"/></Relationships>',
        )
        file.writestr(
            "xl/worksheets/sheet1.xml", f'<worksheet xmlns="{MAIN}"><sheetData>{header}{body}</sheetData></worksheet>'
        )
    return stream.getvalue()


def as_zip(name: str, table: Array) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("CCPP/Readme.txt", "about the data")
        file.writestr("CCPP/Folds5x2_pp.xlsx", as_xlsx(name, table))
    return stream.getvalue()


FORMATS = [
    ("ccpp", "ccpp.csv", as_csv),
    ("ccpp", "Folds5x2_pp.xlsx", as_xlsx),
    ("ccpp", "CCPP.zip", as_zip),
    ("boston", "boston.csv", as_csv),
    ("boston", "housing.data", as_housing),
    ("enb", "enb.csv", as_csv),
    ("enb", "ENB2012_data.xlsx", as_xlsx),
]


def joined(data: datasets.Dataset) -> Array:
    return np.column_stack([data.x, data.y])


def put(folder: Path, name: str, seed: int = 0) -> Array:
    """A fake CSV of a set in a folder."""
    folder.mkdir(exist_ok=True)
    table = fake_table(name, seed)
    (folder / f"{name}.csv").write_bytes(as_csv(name, table))
    return table


# --- local files


@pytest.mark.parametrize(("name", "file", "write"), FORMATS, ids=[file for _, file, _ in FORMATS])
def test_load_dataset_reads_every_accepted_file(
    name: str, file: str, write: Callable[[str, Array], bytes], tmp_path: Path
) -> None:
    table = fake_table(name)
    (tmp_path / file).write_bytes(write(name, table))
    data = load_dataset(name, data_dir=tmp_path)
    np.testing.assert_array_equal(joined(data), table)
    assert data.x.shape == (DATASETS[name].n_rows, len(data.feature_names))
    assert data.y.shape == (DATASETS[name].n_rows, len(data.target_names))
    assert data.x.dtype == data.y.dtype == np.float64
    assert data.source == str(tmp_path / file)
    assert file in DATASETS[name].files


def test_load_dataset_reads_a_csv_with_byte_order_mark_quotes_and_crlf(tmp_path: Path) -> None:
    table = fake_table("enb")
    text = as_csv("enb", table).decode().replace("X1", '"X1"').replace("\n", "\r\n")
    (tmp_path / "enb.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    np.testing.assert_array_equal(joined(load_dataset("enb", data_dir=tmp_path)), table)


def test_folder_is_the_argument_then_the_environment_then_the_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {where: put(tmp_path / where, "enb", seed) for seed, where in enumerate(("given", "environment", "cache"))}
    monkeypatch.setenv("DEEPFLS_DATA", str(tmp_path / "environment"))
    np.testing.assert_array_equal(joined(load_dataset("enb", data_dir=tmp_path / "given")), tables["given"])
    np.testing.assert_array_equal(joined(load_dataset("enb")), tables["environment"])
    (tmp_path / "environment" / "enb.csv").unlink()
    np.testing.assert_array_equal(joined(load_dataset("enb")), tables["cache"])
    monkeypatch.setenv("DEEPFLS_DATA", "")
    assert load_dataset("enb").source == str(cache / "enb.csv")


def test_given_folder_hides_the_one_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "environment", "enb")
    monkeypatch.setenv("DEEPFLS_DATA", str(tmp_path / "environment"))
    with pytest.raises(FileNotFoundError, match="no network in tests"):
        load_dataset("enb", data_dir=tmp_path)


def test_folder_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotADirectoryError, match=r"^data_dir must be an existing folder, got '.*nowhere'\.$"):
        load_dataset("enb", data_dir=tmp_path / "nowhere")
    monkeypatch.setenv("DEEPFLS_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(NotADirectoryError, match=r"^DEEPFLS_DATA must be an existing folder, got '.*nowhere'\.$"):
        load_dataset("enb")


def enb_lines(change: Callable[[list[str]], None]) -> bytes:
    lines = as_csv("enb", fake_table("enb")).decode().splitlines()
    change(lines)
    return "\n".join([*lines, ""]).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must have the columns X1, .*, Y2, got an empty file"),
        (as_csv("ccpp", fake_table("ccpp")), "must have the columns X1, X2, .*, got 'AT, V, AP, RH, PE'"),
        (enb_lines(lambda lines: lines.pop()), "must have 768 rows, got 767: it is truncated or another set"),
        (enb_lines(lambda lines: lines.append(lines[-1])), "must have 768 rows, got 769"),
        (enb_lines(lambda lines: lines.__setitem__(5, "1,2")), "must have 10 columns in every row, got 2 in data row 5"),
        (enb_lines(lambda lines: lines.__setitem__(3, "1,2,x" + ",0" * 7)), "got 'x' in data row 3, column 'X3'"),
        (enb_lines(lambda lines: lines.__setitem__(3, "1,2,inf" + ",0" * 7)), "must hold finite numbers, got 'inf'"),
        (enb_lines(lambda lines: lines.__setitem__(3, "1,2," + ",0" * 7)), "must hold finite numbers, got ''"),
        (b"\xff\xfe\x00", "cannot be read as the data set 'enb'"),
        (b"X1," + b"9" * 200_000, "cannot be read as the data set 'enb'"),
        (b"\x1b]0;title\x07\n", r"got '\\x1b\]0;title\\x07'"),
    ],
)
def test_file_that_is_not_the_set_is_refused_by_name(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "enb.csv").write_bytes(content)
    with pytest.raises(ValueError, match=rf"^'.*enb\.csv' .*{message}"):
        load_dataset("enb", data_dir=tmp_path)


@pytest.mark.parametrize("file", ["Folds5x2_pp.xlsx", "CCPP.zip"])
def test_truncated_archive_is_refused_by_name(file: str, tmp_path: Path) -> None:
    content = (as_xlsx if file.endswith("xlsx") else as_zip)("ccpp", fake_table("ccpp"))
    (tmp_path / file).write_bytes(content[:-1000])
    with pytest.raises(ValueError, match=rf"{file}' cannot be read as the data set 'ccpp' \(the zip archive is damaged"):
        load_dataset("ccpp", data_dir=tmp_path)


def test_oversized_file_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "enb")
    monkeypatch.setattr(datasets, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match=r"enb.csv' must have at most 1,000 bytes, got \d+,\d+\."):
        load_dataset("enb", data_dir=tmp_path)


# --- the cache


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, "home/.cache/deepfls"),
        ("linux", {"XDG_CACHE_HOME": "{root}/xdg"}, "xdg/deepfls"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "home/.cache/deepfls"),
        ("linux", {"XDG_CACHE_HOME": "{root}/xdg", "DEEPFLS_CACHE": "{root}/own"}, "own"),
        ("linux", {"DEEPFLS_CACHE": "~/own"}, "home/own"),
        ("darwin", {}, "home/Library/Caches/deepfls"),
        ("win32", {"LOCALAPPDATA": "{root}/local"}, "local/deepfls"),
        ("win32", {}, "home/AppData/Local/deepfls"),
    ],
)
def test_cache_folder_follows_the_system(
    platform: str, environment: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("DEEPFLS_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value.format(root=tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_folder() == tmp_path / expected


def test_cache_folder_must_be_named_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("DEEPFLS_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(RuntimeError, match="DEEPFLS_CACHE must name a folder"):
        load_dataset("enb")
    table = put(tmp_path, "enb")
    np.testing.assert_array_equal(joined(load_dataset("enb", data_dir=tmp_path)), table)


# --- downloads


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bytes], list[tuple[str, float]]]:
    """Serve bytes for a set as if they were official; returns the list of requests made."""

    def start(name: str, content: bytes) -> list[tuple[str, float]]:
        requests: list[tuple[str, float]] = []

        def urlopen(request: urllib.request.Request, timeout: float) -> io.BytesIO:
            requests.append((request.full_url, timeout))
            return io.BytesIO(content)

        official = replace(DATASETS[name], sha256=hashlib.sha256(content).hexdigest())
        monkeypatch.setattr(datasets, "DATASETS", MappingProxyType({**DATASETS, name: official}))
        monkeypatch.setattr(urllib.request, "urlopen", urlopen)
        return requests

    return start


DOWNLOADS = [
    ("ccpp", "00294/CCPP.zip", as_zip),
    ("boston", "housing/housing.data", as_housing),
    ("enb", "00242/ENB2012_data.xlsx", as_xlsx),
]


@pytest.mark.parametrize(("name", "address", "write"), DOWNLOADS, ids=[name for name, _, _ in DOWNLOADS])
def test_download_is_kept_and_not_repeated(
    name: str, address: str, write: Callable[[str, Array], bytes], serve: Any, cache: Path
) -> None:
    table = fake_table(name)
    requests = serve(name, write(name, table))
    for _ in range(2):
        data = load_dataset(name)
        np.testing.assert_array_equal(joined(data), table)
        assert data.source == str(cache / address.split("/")[-1])
    assert requests == [(f"https://archive.ics.uci.edu/ml/machine-learning-databases/{address}", datasets.TIMEOUT_SECONDS)]
    assert [path.name for path in cache.iterdir()] == [address.split("/")[-1]]


def test_download_with_another_digest_is_refused_and_not_kept(
    serve: Any, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = as_xlsx("enb", fake_table("enb"))
    serve("enb", content)
    monkeypatch.setattr(datasets, "DATASETS", DATASETS)
    digest = hashlib.sha256(content).hexdigest()
    with pytest.raises(FileNotFoundError, match=rf"not the official file: its SHA-256 is {digest}, not 0089fcff"):
        load_dataset("enb")
    assert not cache.exists()


def test_download_of_too_many_bytes_is_refused(serve: Any, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve("enb", as_xlsx("enb", fake_table("enb")))
    monkeypatch.setattr(datasets, "MAX_BYTES", 1000)
    with pytest.raises(FileNotFoundError, match="what came has more than 1,000 bytes"):
        load_dataset("enb")
    assert not cache.exists()


def test_download_is_used_even_where_it_cannot_be_kept(serve: Any, cache: Path) -> None:
    table = fake_table("enb")
    serve("enb", as_xlsx("enb", table))
    cache.write_text("a file where the folder should be")
    with pytest.warns(
        UserWarning, match=r"^ENB2012_data.xlsx was downloaded but could not be kept in the cache \("
    ) as caught:
        data = load_dataset("enb")
    np.testing.assert_array_equal(joined(data), table)
    assert data.source == DATASETS["enb"].url
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (URLError("[Errno -2] Name or service not known"), "Name or service not known"),
        (HTTPError("https://example.org", 404, "Not Found", None, None), "HTTP Error 404: Not Found"),  # type: ignore[arg-type]
        (TimeoutError(), "TimeoutError"),
        (BadStatusLine("what"), "BadStatusLine: what"),
        (ConnectionResetError(104, "Connection reset by peer"), "Connection reset by peer"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_missing_file_without_a_network_is_one_clear_error(
    error: Exception, reason: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def urlopen(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    with pytest.raises(FileNotFoundError) as caught:
        load_dataset("ccpp", data_dir=tmp_path)
    message = str(caught.value)
    assert message.startswith(
        f"the data set 'ccpp' needs one of the files ccpp.csv, Folds5x2_pp.xlsx, CCPP.zip in {str(tmp_path)!r} or "
        f"{str(cache)!r}, or in a folder given as data_dir or in the environment variable DEEPFLS_DATA; none is there, "
        "and it was not downloaded from https://archive.ics.uci.edu/ml/machine-learning-databases/00294/CCPP.zip ("
    )
    assert message.endswith(").")
    assert reason in message


def test_download_can_be_forbidden(serve: Any) -> None:
    requests = serve("enb", as_xlsx("enb", fake_table("enb")))
    with pytest.raises(FileNotFoundError, match=r"\(download=False\)\.$"):
        load_dataset("enb", download=False)
    assert requests == []


# --- arguments


def test_mistyped_name_gets_a_hint() -> None:
    message = "name must be one of 'ccpp', 'boston', 'enb', 'turbidity', 'diabetes', got 'bostn'. Did you mean 'boston'?"
    with pytest.raises(ValueError, match="name must be") as caught:
        load_dataset("bostn")
    assert str(caught.value) == message


def test_sample_is_seeded_and_without_replacement() -> None:
    whole = joined(load_dataset("diabetes"))
    sample = joined(load_dataset("diabetes", n_rows=300, random_state=7))
    np.testing.assert_array_equal(sample, joined(load_dataset("diabetes", n_rows=300, random_state=7)))
    assert not np.array_equal(sample, joined(load_dataset("diabetes", n_rows=300, random_state=8)))
    assert len(np.unique(sample, axis=0)) == 300
    assert {tuple(row) for row in sample} <= {tuple(row) for row in whole}


def test_sample_of_all_rows_is_a_permutation() -> None:
    whole, sample = joined(load_dataset("diabetes")), joined(load_dataset("diabetes", n_rows=442))
    np.testing.assert_array_equal(np.unique(sample, axis=0), np.unique(whole, axis=0))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_rows": 443}, ValueError, r"^n_rows of 'diabetes' must be between 1 and 442, got 443\.$"),
        ({"n_rows": 0}, ValueError, r"^n_rows must be at least 1, got 0\.$"),
        ({"n_rows": 10.0}, TypeError, r"^n_rows must be an integer, got 10\.0\.$"),
        ({"random_state": -1}, ValueError, r"^random_state must be at least 0, got -1\.$"),
        ({"random_state": "0"}, TypeError, r"^random_state must be an integer, got '0'\.$"),
    ],
)
def test_impossible_arguments_are_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        load_dataset("diabetes", **arguments)


def test_importing_the_module_stays_light() -> None:
    source = (
        "import sys, torch; before = set(sys.modules); import deepfls.data.datasets; "
        "print([m for m in ('sklearn', 'pvlib', 'h5py', 'pandas', 'pyarrow') if m in sys.modules and m not in before])"
    )
    assert subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout == "[]\n"
