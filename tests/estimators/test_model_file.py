"""Model files: nothing but a whole model gets in, and nothing half gets out."""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save as safetensors_bytes

from deepfls import FLSRegressor, load
from deepfls._files import MODEL, ModelFileError, read_model, write_whole
from model_file_cases import ESTIMATORS, TINY, X, Y, header


@pytest.fixture(scope="module")
def fitted() -> FLSRegressor:
    return FLSRegressor(**TINY).fit(X, Y)


@pytest.fixture
def path(fitted: FLSRegressor, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "model.fls")
    return tmp_path / "model.fls"


def rewritten(path: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], None]) -> Path:
    """The file with changed content and a digest that fits: what a mischievous writer could make."""
    description, tensors = read_model(path)
    change(description, tensors)
    path.write_bytes(MODEL.packed(description, tensors))
    return path


def with_metadata(path: Path, **changes: str | None) -> Path:
    """The file with other entries in its header."""
    _, tensors = read_model(path)
    metadata = {**header(path)["__metadata__"], **changes}
    path.write_bytes(safetensors_bytes(tensors, {name: value for name, value in metadata.items() if value is not None}))
    return path


# Damage

NOT_A_MODEL = r" is not a deepfls model, or it is truncated \(.*\)\.$"
ALTERED = r" is damaged or was altered: its content does not match its digest\.$"
NO_FIT = r" is damaged: its parts do not fit together \((?s:.*)\)\.$"


@pytest.mark.parametrize("tenths", range(10))
def test_truncated_file_is_refused(path: Path, tenths: int) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * tenths // 10])
    with pytest.raises(ModelFileError, match=NOT_A_MODEL):
        load(path)


def test_file_short_of_one_byte_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelFileError, match=NOT_A_MODEL):
        load(path)


def test_file_with_a_byte_too_many_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ModelFileError, match=NOT_A_MODEL):
        load(path)


def test_flipped_byte_in_the_tensors_is_refused(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=ALTERED):
        load(path)


def test_flipped_byte_in_the_description_is_refused(path: Path) -> None:
    content = path.read_bytes()
    assert content.count(b"n_rules") >= 1
    path.write_bytes(content.replace(b"n_rules", b"n_rulez", 1))
    with pytest.raises(ModelFileError, match=ALTERED):
        load(path)


@pytest.mark.parametrize("bit", [0, 5])
def test_no_flipped_bit_gets_through(path: Path, bit: int) -> None:
    content = path.read_bytes()
    version = content.index(b'"version":"1"') + len('"version":"')
    for place in range(0, len(content), 5):
        if place == version:
            continue  # an older version is a legitimate file
        damaged = bytearray(content)
        damaged[place] ^= 1 << bit
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError):
            load(path)


def test_description_that_is_no_json_is_refused(path: Path) -> None:
    with pytest.raises(ModelFileError, match=r" is damaged: its description is not JSON\.$"):
        load(with_metadata(path, description="{"))


def test_description_nested_too_deeply_is_refused(path: Path) -> None:
    with pytest.raises(ModelFileError, match=r" is damaged: its description is not JSON\.$"):
        load(with_metadata(path, description="[" * 100_000))


def test_description_that_is_no_object_is_refused(path: Path) -> None:
    with pytest.raises(ModelFileError, match=ALTERED):
        load(with_metadata(path, description="[]"))


@pytest.mark.parametrize("name", ["description", "sha256"])
def test_missing_part_of_the_header_is_refused(path: Path, name: str) -> None:
    with pytest.raises(ModelFileError, match=r" is damaged"):
        load(with_metadata(path, **{name: None}))


def test_newer_version_is_refused(path: Path) -> None:
    message = r" has format version 2, newer than 1, the newest this version of deepfls reads: install a newer deepfls\.$"
    with pytest.raises(ModelFileError, match=message):
        load(with_metadata(path, version="2"))


@pytest.mark.parametrize("version", ["", "one", "-1", "1.5", "9" * 5000, None])
def test_version_that_is_no_number_is_refused(path: Path, version: str | None) -> None:
    with pytest.raises(ModelFileError, match=r" is damaged: its format version is '.*'\.$"):
        load(with_metadata(path, version=version))


@pytest.mark.parametrize(
    "key", ["class", "settings", "structure", "tnorm", "history", "stopped_by", "columns_named", "single_target"]
)
def test_missing_key_is_refused(path: Path, key: str) -> None:
    rewritten(path, lambda description, tensors: description.pop(key))
    with pytest.raises(ModelFileError, match=NO_FIT):
        load(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("class", "Popen"),
        ("class", ["FLSRegressor"]),
        ("settings", None),
        ("structure", 3),
        ("structure", {}),
        ("tnorm", "sum"),
        ("history", 5),
        ("history", [{"loss": "low"}]),
        ("columns", [{"name": "a"}]),
        ("columns", [{"name": "a", "role": "zebra"}]),
        ("columns", "ab"),
    ],
    ids=str,
)
def test_key_of_a_wrong_value_is_refused(path: Path, key: str, value: Any) -> None:
    rewritten(path, lambda description, tensors: description.update({key: value}))
    with pytest.raises(ModelFileError, match=NO_FIT):
        load(path)


@pytest.mark.parametrize("name", ["n_rules", "n_features", "n_outputs", "n_terms", "n_planes"])
def test_described_size_beyond_the_stored_values_takes_no_memory(path: Path, name: str) -> None:
    kind = {"kind": "gt2"} if name == "n_planes" else {}
    rewritten(path, lambda description, tensors: description["structure"].update({name: 10**12, **kind}))
    with pytest.raises(ModelFileError, match="values are described"):
        load(path)


def test_many_systems_that_are_not_stored_take_no_memory(path: Path) -> None:
    rewritten(path, lambda description, tensors: description.update(n_systems=10**12))
    with pytest.raises(ModelFileError, match="values are described"):
        load(path)


def test_long_value_is_not_in_the_message(path: Path) -> None:
    rewritten(path, lambda description, tensors: description.update(tnorm="x" * 10_000))
    with pytest.raises(ModelFileError, match=NO_FIT) as refused:
        load(path)
    assert len(str(refused.value)) < 1_000


def test_unknown_setting_of_a_later_release_is_ignored(path: Path) -> None:
    rewritten(path, lambda description, tensors: description["settings"].update(colour="red"))
    assert not hasattr(load(path), "colour")


@pytest.mark.parametrize("name", ["system.antecedents.raw_centers", "x_scaling.shift", "y_scaling.scale"])
def test_missing_tensor_is_refused(path: Path, name: str) -> None:
    rewritten(path, lambda description, tensors: tensors.pop(name))
    with pytest.raises(ModelFileError, match=NO_FIT):
        load(path)


@pytest.mark.parametrize(
    "name", ["system.antecedents.raw_centers", "x_scaling.shift", "x_scaling.scale", "y_scaling.scale"]
)
@pytest.mark.parametrize("shape", [(1, 1), (7,), (2, 3)], ids=str)
def test_tensor_of_a_wrong_shape_is_refused(path: Path, name: str, shape: tuple[int, ...]) -> None:
    rewritten(path, lambda description, tensors: tensors.update({name: np.ones(shape)}))
    with pytest.raises(ModelFileError, match=NO_FIT):
        load(path)


@pytest.mark.parametrize("name", ["system.consequents.raw_intercepts", "x_scaling.scale"])
def test_tensor_that_is_not_finite_is_refused(path: Path, name: str) -> None:
    rewritten(path, lambda description, tensors: tensors.update({name: tensors[name] * np.nan}))
    with pytest.raises(ModelFileError, match=NO_FIT):
        load(path)


def test_classes_that_do_not_match_the_outputs_are_refused(tmp_path: Path) -> None:
    ESTIMATORS["text classes"]().save(tmp_path / "model.fls")
    rewritten(tmp_path / "model.fls", lambda description, tensors: description.update(classes=["a", "b", "c"]))
    with pytest.raises(ModelFileError, match=r" is damaged: its parts do not fit together \(3 classes for 2 outputs\)\.$"):
        load(tmp_path / "model.fls")


# Other files


class Payload:
    """Pickled, this makes a folder when it is read back."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.target),))


def foreign_files(folder: Path) -> dict[str, bytes]:
    payload = pickle.dumps(Payload(folder / "executed"))
    return {
        "empty": b"",
        "text": b"temperature,pressure\n20.0,1.0\n",
        "long text": b"temperature,pressure\n" * 10_000,
        "zeros": bytes(4096),
        "pickle": payload,
        "pickle after a length": struct.pack("<Q", len(payload)) + payload,
        "zip": b"PK\x03\x04" + bytes(200),
    }


@pytest.mark.parametrize("name", ["empty", "text", "long text", "zeros", "pickle", "pickle after a length", "zip"])
def test_foreign_file_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(foreign_files(tmp_path)[name])
    with pytest.raises(ModelFileError, match=NOT_A_MODEL):
        load(tmp_path / "other")


def test_foreign_safetensors_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(safetensors_bytes({"weight": np.zeros(3)}, {"format": "pt"}))
    with pytest.raises(ModelFileError, match=r" is a safetensors file, but not a deepfls model\.$"):
        load(tmp_path / "other")


@pytest.mark.parametrize("name", ["pickle", "pickle after a length"])
def test_nothing_in_a_file_is_executed(name: str, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(foreign_files(tmp_path)[name])
    with pytest.raises(ModelFileError):
        load(tmp_path / "other")
    assert not (tmp_path / "executed").exists()


def test_pickle_in_the_description_is_not_executed(path: Path, tmp_path: Path) -> None:
    payload = pickle.dumps(Payload(tmp_path / "executed"), protocol=0).decode("latin-1")
    rewritten(path, lambda description, tensors: description["settings"].update(loss=payload, random_state=payload))
    assert load(path).loss == payload
    assert not (tmp_path / "executed").exists()


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"^model file must exist, got '.*nowhere\.fls'\.$"):
        load(tmp_path / "nowhere.fls")


def test_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=r"^model file must be a file, got the folder '.*'\.$"):
        load(tmp_path)


# Writing whole or not at all


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()], ids=["disk full", "Ctrl-C"])
def test_failed_write_leaves_the_old_file_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
) -> None:
    before = path.read_bytes()

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(os if call == "fsync" else Path, call, fail)
    with pytest.raises(type(error)):
        ESTIMATORS["t1"]().save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_failed_write_makes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"^no space left$"):
        write_whole(tmp_path / "model.fls", b"content")
    assert list(tmp_path.iterdir()) == []


def test_write_replaces_an_existing_file(path: Path) -> None:
    ESTIMATORS["t1"]().save(path)
    assert load(path).kind == "t1"
    assert list(path.parent.iterdir()) == [path]


def test_write_to_a_missing_folder_is_refused(fitted: FLSRegressor, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        fitted.save(tmp_path / "nowhere" / "model.fls")


def test_write_takes_a_long_name(fitted: FLSRegressor, tmp_path: Path) -> None:
    fitted.save(tmp_path / ("m" * 250))
    assert (tmp_path / ("m" * 250)).is_file()
