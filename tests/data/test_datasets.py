"""Named data sets: found in the documented folders, refused if the file is damaged or another set.

The sets are replaced by sets of the same columns with few rows. Downloads come from a server on this machine.
"""

from __future__ import annotations

import hashlib
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from dataset_cases import N_ROWS, Array, as_csv, as_housing, as_xlsx, as_zip, joined, made_table
from deepfls.data import datasets
from deepfls.data.datasets import DATASETS, checked_download, load_dataset
from local_server import LocalServer

pytestmark = pytest.mark.usefixtures("small_sets")

FORMATS = [
    ("ccpp", "ccpp.csv", as_csv),
    ("ccpp", "Folds5x2_pp.xlsx", as_xlsx),
    ("ccpp", "CCPP.zip", as_zip),
    ("boston", "boston.csv", as_csv),
    ("boston", "housing.data", as_housing),
    ("enb", "enb.csv", as_csv),
    ("enb", "ENB2012_data.xlsx", as_xlsx),
]


def put(folder: Path, name: str, seed: int = 0) -> Array:
    """Write a made CSV file of a set into a folder."""
    folder.mkdir(exist_ok=True)
    table = made_table(name, seed)
    (folder / f"{name}.csv").write_bytes(as_csv(name, table))
    return table


# --- descriptions


def test_every_set_states_its_terms() -> None:
    assert tuple(DATASETS) == ("ccpp", "boston", "enb", "turbidity", "diabetes")
    for info in DATASETS.values():
        assert all((info.description, info.citation, info.licence))
    assert "contested" in DATASETS["boston"].description
    assert "rounded copy" in DATASETS["boston"].description


def test_every_downloaded_set_has_a_checksum_and_accepts_the_downloaded_file() -> None:
    for name in ("ccpp", "boston", "enb"):
        info = DATASETS[name]
        assert info.url.startswith("https://archive.ics.uci.edu/ml/machine-learning-databases/")
        assert info.url.rsplit("/", 1)[1] in info.files
        assert re.fullmatch("[0-9a-f]{64}", info.sha256)


def test_diabetes_comes_in_its_own_units() -> None:
    data = load_dataset("diabetes")
    assert data.x.shape == (DATASETS["diabetes"].n_rows, 10)
    np.testing.assert_allclose(data.x[0], [59, 2, 32.1, 101, 157, 93.2, 38, 4, 4.8598, 87])
    assert data.y[0] == [151]
    assert data.y.mean() == pytest.approx(152.133484)


# --- local files


@pytest.mark.parametrize(("name", "file", "write"), FORMATS, ids=[file for _, file, _ in FORMATS])
def test_load_dataset_reads_every_accepted_file(
    name: str, file: str, write: Callable[[str, Array], bytes], tmp_path: Path
) -> None:
    table = made_table(name)
    (tmp_path / file).write_bytes(write(name, table))
    data = load_dataset(name, data_dir=tmp_path)
    np.testing.assert_array_equal(joined(data), table)
    assert data.x.shape == (N_ROWS, len(data.feature_names))
    assert data.y.shape == (N_ROWS, len(data.target_names))
    assert data.x.dtype == data.y.dtype == np.float64
    assert data.source == str(tmp_path / file)
    assert file in DATASETS[name].files


def test_load_dataset_reads_a_csv_with_byte_order_mark_quotes_and_crlf(tmp_path: Path) -> None:
    table = made_table("enb")
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
    with pytest.raises(FileNotFoundError, match="none was found"):
        load_dataset("enb", data_dir=tmp_path, download=False)


def test_file_in_a_given_folder_needs_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("DEEPFLS_CACHE", "~/cache")
    table = put(tmp_path, "enb")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "expanduser", no_home)
        with pytest.raises(RuntimeError, match=r"^DEEPFLS_CACHE must name a folder for a user without a home folder"):
            load_dataset("enb")
    np.testing.assert_array_equal(joined(load_dataset("enb", data_dir=tmp_path)), table)


def test_folder_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotADirectoryError, match=r"^data_dir must be an existing folder, got '.*nowhere'\.$"):
        load_dataset("enb", data_dir=tmp_path / "nowhere")
    monkeypatch.setenv("DEEPFLS_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(NotADirectoryError, match=r"^DEEPFLS_DATA must be an existing folder, got '.*nowhere'\.$"):
        load_dataset("enb")


def enb_lines(change: Callable[[list[str]], None]) -> bytes:
    lines = as_csv("enb", made_table("enb")).decode().splitlines()
    change(lines)
    return "\n".join([*lines, ""]).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must have the columns X1, .*, Y2, got an empty file"),
        (as_csv("ccpp", made_table("ccpp")), "must have the columns X1, X2, .*, got 'AT, V, AP, RH, PE'"),
        (enb_lines(lambda lines: lines.pop()), "must have 20 rows, got 19: it is truncated or another set"),
        (enb_lines(lambda lines: lines.append(lines[-1])), "must have 20 rows, got 21"),
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


def test_oversized_file_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "enb")
    monkeypatch.setattr(datasets, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match=r"enb.csv' must have at most 1,000 bytes, got \d+,\d+\."):
        load_dataset("enb", data_dir=tmp_path)


# --- downloads


DOWNLOADS = [("ccpp", "CCPP.zip", as_zip), ("boston", "housing.data", as_housing), ("enb", "ENB2012_data.xlsx", as_xlsx)]


def publish(server: LocalServer, monkeypatch: pytest.MonkeyPatch, name: str, file: str, content: bytes) -> str:
    """Make the local server the official source of a set; return the address of the file."""
    server.files[f"/{file}"] = content
    official = replace(datasets.DATASETS[name], url=f"{server.address}/{file}", sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(datasets, "DATASETS", MappingProxyType({**datasets.DATASETS, name: official}))
    return official.url


@pytest.mark.parametrize(("name", "file", "write"), DOWNLOADS, ids=[name for name, _, _ in DOWNLOADS])
def test_download_is_kept_and_not_repeated(
    name: str,
    file: str,
    write: Callable[[str, Array], bytes],
    server: LocalServer,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = made_table(name)
    publish(server, monkeypatch, name, file, write(name, table))
    for _ in range(2):
        data = load_dataset(name)
        np.testing.assert_array_equal(joined(data), table)
        assert data.source == str(cache / file)
    assert server.requested == [f"/{file}"]
    assert [path.name for path in cache.iterdir()] == [file]


def test_download_is_used_even_if_it_cannot_be_kept(
    server: LocalServer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made_table("enb")
    url = publish(server, monkeypatch, "enb", "ENB2012_data.xlsx", as_xlsx("enb", table))
    cache.write_text("a file in place of the folder")
    with pytest.warns(
        UserWarning, match=r"^ENB2012_data.xlsx was downloaded but could not be kept in the cache \("
    ) as caught:
        data = load_dataset("enb")
    np.testing.assert_array_equal(joined(data), table)
    assert data.source == url
    assert caught[0].filename == __file__


def test_missing_file_without_a_network_is_one_clear_error(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load_dataset("ccpp", data_dir=tmp_path)
    message = str(caught.value)
    assert message.startswith(
        f"the data set 'ccpp' needs one of the files ccpp.csv, Folds5x2_pp.xlsx, CCPP.zip in {str(tmp_path)!r} or "
        f"{str(cache)!r}, or in a folder given as data_dir or in the environment variable DEEPFLS_DATA; none was found, "
        "and it was not downloaded from http://127.0.0.1:9/none.csv ("
    )
    assert message.endswith("Connection refused).")
    assert "\n" not in message


def test_download_can_be_forbidden(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(server, monkeypatch, "enb", "ENB2012_data.xlsx", as_xlsx("enb", made_table("enb")))
    with pytest.raises(FileNotFoundError, match=r"\(download=False\)\.$"):
        load_dataset("enb", download=False)
    assert server.requested == []


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
    heavy = ("sklearn", "pvlib", "h5py", "pandas", "pyarrow", "openpyxl", "pooch", "requests", "filelock")
    source = (
        "import sys, torch; before = set(sys.modules); import deepfls.data.datasets; "
        f"print([m for m in {heavy!r} if m in sys.modules and m not in before])"
    )
    assert subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout == "[]\n"


# Downloads

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
    monkeypatch.setattr(datasets, "MAX_BYTES", 10_000)
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
    monkeypatch.setattr(datasets, "TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(OSError, match="Read timed out"):
        checked_download(f"http://127.0.0.1:{silent.getsockname()[1]}/a.csv", SHA256)
