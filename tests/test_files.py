"""Named arrays with a description as the content of one file."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepfls._files import ArrayFormat, cache_folder, write_whole


class NoteError(ValueError):
    """The error of the format below."""


NOTES = ArrayFormat("notes", 2, "note", NoteError)
ARRAYS: dict[str, Any] = {
    "matrix": np.arange(6.0).reshape(2, 3),
    "every second": np.arange(6)[::2],
    "scalar": np.array(3.5, dtype=np.float32),
    "empty": np.zeros((0, 4)),
    "bytes": np.arange(4, dtype=np.uint8),
}


def test_arrays_and_description_come_back_with_types_and_shapes() -> None:
    description = {"text": "é", "number": 0.1, "list": [1, None, True], "nested": {"a": {}}}
    found, arrays = NOTES.unpacked(NOTES.packed(description, ARRAYS), "a.note")
    assert found == description
    assert arrays.keys() == ARRAYS.keys()
    for name, value in ARRAYS.items():
        assert arrays[name].dtype == value.dtype
        assert arrays[name].shape == value.shape
        np.testing.assert_array_equal(arrays[name], value)
        arrays[name][...] = 0  # the arrays belong to the caller


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_number_that_json_cannot_hold_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        NOTES.packed({"loss": value}, {})


def test_messages_name_the_file_and_its_kind() -> None:
    content = NOTES.packed({}, ARRAYS)
    other = ArrayFormat("letters", 1, "letter", KeyError)  # type: ignore[arg-type]
    with pytest.raises(NoteError, match=r"^'a\.note' is not a deepfls note, or it is truncated \(.*\)\.$"):
        NOTES.unpacked(content[:-1], "a.note")
    with pytest.raises(KeyError, match=r"'a\.note' is a safetensors file, but not a deepfls letter\."):
        other.unpacked(content, "a.note")
    with pytest.raises(NoteError, match=r"^'a\.note' has format version 3, newer than 2, the newest this version"):
        NOTES.unpacked(ArrayFormat("notes", 3, "note", NoteError).packed({}, ARRAYS), "a.note")


def test_older_version_is_read() -> None:
    older = ArrayFormat("notes", 1, "note", NoteError)
    description, arrays = NOTES.unpacked(older.packed({"a": 1}, ARRAYS), "a.note")
    assert description == {"a": 1}
    assert arrays.keys() == ARRAYS.keys()


def test_every_changed_byte_of_the_arrays_is_found() -> None:
    content = NOTES.packed({}, ARRAYS)
    n_bytes = sum(value.nbytes for value in ARRAYS.values())
    for place in range(len(content) - n_bytes, len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1
        with pytest.raises(NoteError, match="does not match its digest"):
            NOTES.unpacked(bytes(damaged), "a.note")


def test_version_that_is_no_longer_read_is_refused() -> None:
    old = ArrayFormat("notes", 1, "note", ValueError)
    new = ArrayFormat("notes", 2, "note", ValueError, oldest=2)
    with pytest.raises(ValueError, match="'a' has format version 1, which this version of deepfls no longer reads"):
        new.unpacked(old.packed({}, {"x": np.zeros(1)}), "a")


def test_device_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match=r"^path must be a file, got the device '.*pipe'\.$"):
        write_whole(pipe, b"")
    assert pipe.is_fifo()


def test_error_of_writing_names_the_file_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(tmp_path / "absent" / "model.fls", b"")
    assert caught.value.filename == str(tmp_path / "absent" / "model.fls")


def test_error_of_a_full_disk_names_the_file_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_whole(tmp_path / "model.fls", b"")
    assert caught.value.filename == str(tmp_path / "model.fls")
    assert not list(tmp_path.iterdir())


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
