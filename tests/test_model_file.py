"""Model files: what is saved comes back, and nothing else gets in."""

from __future__ import annotations

import json
import os
import pickle
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import save as safetensors_bytes

from deepfls import FLSClassifier, FLSRegressor, load, model_file
from deepfls.model_file import ModelFileError, read_model, write_model, write_whole

RANDOM = np.random.RandomState(0)
X = RANDOM.normal(size=(30, 2))
Y = np.sin(X[:, 0]) + X[:, 1]
TINY = {"n_rules": 2, "epochs": 2, "random_state": 0}

ESTIMATORS: dict[str, Callable[[], Any]] = {
    "t1": lambda: FLSRegressor(kind="t1", **TINY).fit(X, Y),
    "t1 order 0": lambda: FLSRegressor(kind="t1", order=0, **TINY).fit(X, Y),
    "it2": lambda: FLSRegressor(**TINY).fit(X, Y),
    "it2 h nt": lambda: FLSRegressor(uncertainty="h", type_reduction="nt", **TINY).fit(X, Y),
    "it2 s bmm": lambda: FLSRegressor(uncertainty="s", type_reduction="bmm", **TINY).fit(X, Y),
    "it2 product": lambda: FLSRegressor(tnorm="product", **TINY).fit(X, Y),
    "no scaling": lambda: FLSRegressor(scaling="none", **TINY).fit(X, Y),
    "column target": lambda: FLSRegressor(**TINY).fit(X, Y[:, None]),
    "two targets": lambda: FLSRegressor(**TINY).fit(X, np.column_stack([Y, -Y])),
    "named columns": lambda: FLSRegressor(**TINY).fit(pd.DataFrame(X, columns=["é", "b c"]), Y),
    "text classes": lambda: FLSClassifier(**TINY).fit(X, np.where(Y > 0, "üp", "down")),
    "object classes": lambda: FLSClassifier(**TINY).fit(X, np.where(Y > 0, "up", "down").astype(object)),
    "integer classes": lambda: FLSClassifier(**TINY).fit(X, (Y > 0).astype(int) + (Y > 1)),
    "boolean classes": lambda: FLSClassifier(kind="t1", **TINY).fit(X, Y > 0),
    "whole float classes": lambda: FLSClassifier(**TINY).fit(X, np.where(Y > 0, 1.0, 2.0)),
}


def rows_for(model: Any) -> Any:
    """Rows to predict, named where the model knows names."""
    return pd.DataFrame(X, columns=model.feature_names_in_) if hasattr(model, "feature_names_in_") else X


def round_trip(model: Any, folder: Path) -> Any:
    model.save(folder / "model.fls")
    return load(folder / "model.fls")


@pytest.fixture(scope="module")
def fitted() -> FLSRegressor:
    return ESTIMATORS["it2"]()


@pytest.fixture
def path(fitted: FLSRegressor, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "model.fls")
    return tmp_path / "model.fls"


def rewritten(path: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], None]) -> Path:
    """The file with changed content and a digest that fits: what a mischievous writer could make."""
    description, tensors = read_model(path)
    change(description, tensors)
    write_model(path, description, tensors)
    return path


def with_metadata(path: Path, **changes: str | None) -> Path:
    """The file with other entries in its header."""
    _, tensors = read_model(path)
    metadata = {**header(path)["__metadata__"], **changes}
    path.write_bytes(safetensors_bytes(tensors, {name: value for name, value in metadata.items() if value is not None}))
    return path


def header(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length])


# Round trips


@pytest.mark.parametrize("name", ESTIMATORS)
def test_loaded_model_predicts_the_same(name: str, tmp_path: Path) -> None:
    model = ESTIMATORS[name]()
    loaded = round_trip(model, tmp_path)
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.predict(rows_for(model)), model.predict(rows_for(model)))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_loaded_model_has_the_settings_and_fitted_attributes(name: str, tmp_path: Path) -> None:
    model = ESTIMATORS[name]()
    loaded = round_trip(model, tmp_path)
    assert loaded.get_params() == model.get_params()
    assert set(vars(loaded)) == set(vars(model))
    for attribute in ("history_", "n_epochs_", "stopped_by_", "n_features_in_"):
        assert getattr(loaded, attribute) == getattr(model, attribute)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if "classes" in name])
def test_loaded_classes_are_the_same_in_value_and_type(name: str, tmp_path: Path) -> None:
    model = ESTIMATORS[name]()
    loaded = round_trip(model, tmp_path)
    np.testing.assert_array_equal(loaded.classes_, model.classes_)
    assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_loaded_model_keeps_feature_names(tmp_path: Path) -> None:
    loaded = round_trip(ESTIMATORS["named columns"](), tmp_path)
    assert list(loaded.feature_names_in_) == ["é", "b c"]
    with pytest.raises(ValueError, match=r"Feature names must be in the same order as they were in fit"):
        loaded.predict(pd.DataFrame(X, columns=["b c", "é"]))


@pytest.mark.parametrize("name", ["t1", "it2", "text classes"])
def test_loaded_model_goes_on_as_the_saved_one_would(name: str, tmp_path: Path) -> None:
    y = np.where(Y > 0, "üp", "down") if "classes" in name else Y
    model = ESTIMATORS[name]().set_params(warm_start=True)
    loaded = round_trip(model, tmp_path)
    np.testing.assert_array_equal(loaded.fit(X, y).predict(X), model.fit(X, y).predict(X))
    assert len(loaded.history_) == 4


def test_saving_a_loaded_model_gives_the_same_content(path: Path) -> None:
    load(path).save(path.with_name("second.fls"))
    # The order of the entries in the header is safetensors' own; the digest covers all that matters.
    assert header(path)["__metadata__"] == header(path.with_name("second.fls"))["__metadata__"]


def test_settings_of_numpy_types_are_saved(tmp_path: Path) -> None:
    model = FLSRegressor(n_rules=np.int64(3), epochs=np.int32(1), width=np.float32(0.5), warm_start=np.bool_(False)).fit(
        X, Y
    )
    loaded = round_trip(model, tmp_path)
    assert (loaded.n_rules, loaded.epochs, loaded.width, loaded.warm_start) == (3, 1, 0.5, False)


def test_settings_of_nested_options_are_saved(tmp_path: Path) -> None:
    options = {"betas": (0.8, 0.9)}
    loaded = round_trip(FLSRegressor(optimizer_options=options, **TINY).fit(X, Y), tmp_path)
    assert loaded.optimizer_options == {"betas": [0.8, 0.9]}
    assert np.isfinite(loaded.fit(X, Y).predict(X)).all()


def test_settings_that_are_no_plain_values_are_left_out(tmp_path: Path) -> None:
    model = FLSRegressor(loss=torch.nn.MSELoss(), n_rules=2, epochs=2, random_state=np.random.RandomState(0)).fit(X, Y)
    loaded = round_trip(model, tmp_path)
    assert (loaded.loss, loaded.random_state) == (FLSRegressor().loss, None)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_history_that_is_not_finite_is_saved(tmp_path: Path) -> None:
    model = ESTIMATORS["it2"]()
    model.history_[-1]["loss"] = float("inf")
    assert np.isnan(round_trip(model, tmp_path).history_[-1]["loss"])


def test_path_may_be_text(fitted: FLSRegressor, tmp_path: Path) -> None:
    fitted.save(str(tmp_path / "model.fls"))
    np.testing.assert_array_equal(load(str(tmp_path / "model.fls")).predict(X), fitted.predict(X))


def test_file_is_safetensors_with_a_json_description(path: Path) -> None:
    metadata = header(path)["__metadata__"]
    assert metadata["format"] == "deepfls"
    assert metadata["version"] == str(model_file.VERSION)
    assert json.loads(metadata["description"])["class"] == "FLSRegressor"


def test_file_has_the_permissions_of_any_new_file(path: Path) -> None:
    other = path.with_name("other")
    other.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_load_leaves_the_global_generator_alone(path: Path) -> None:
    before = torch.get_rng_state()
    load(path)
    assert torch.equal(torch.get_rng_state(), before)


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
    "key", ["class", "settings", "structure", "tnorm", "history", "stopped_by", "feature_names", "single_target"]
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
        ("feature_names", ["a"]),
        ("feature_names", "ab"),
    ],
    ids=str,
)
def test_key_of_a_wrong_value_is_refused(path: Path, key: str, value: Any) -> None:
    rewritten(path, lambda description, tensors: description.update({key: value}))
    with pytest.raises(ModelFileError, match=NO_FIT):
        load(path)


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


@pytest.mark.parametrize("call", ["fsync", "chmod", "replace"])
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
