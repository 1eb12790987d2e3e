"""Model files: what is saved comes back."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from deepfls import FLSRegressor, _files, load
from model_file_cases import ESTIMATORS, TINY, X, Y, header, round_trip, rows_for


@pytest.fixture(scope="module")
def fitted() -> FLSRegressor:
    return FLSRegressor(**TINY).fit(X, Y)


@pytest.fixture
def path(fitted: FLSRegressor, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "model.fls")
    return tmp_path / "model.fls"


# Files of the release before

ASSETS = Path(__file__).parent / "assets"
EXPECTED = json.loads((ASSETS / "v0.1.0-expected.json").read_text())


@pytest.mark.parametrize("name", ["t1", "it2-coverage", "classifier"])
def test_file_of_version_0_1_0_predicts_as_it_did(name: str) -> None:
    model, expected = load(ASSETS / f"v0.1.0-{name}.fls"), EXPECTED[name]
    rows: Any = np.array(EXPECTED["rows"])
    if name == "it2-coverage":
        assert list(model.feature_names_in_) == ["heat", "flow"]
        rows = pd.DataFrame(rows, columns=["heat", "flow"])
    if name == "classifier":
        assert model.predict(rows).tolist() == expected["predict"]
        np.testing.assert_allclose(model.predict_proba(rows), expected["probabilities"], rtol=1e-9)
        assert model.predict_set(rows).tolist() == expected["set"]
    else:
        np.testing.assert_allclose(model.predict(rows), expected["predict"], rtol=1e-9)
    if name == "it2-coverage":
        assert model.interval_model_ is not None
        np.testing.assert_allclose(model.predict_interval(rows), expected["interval"], rtol=1e-9)


def assert_kept(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Every entry of a description is in a later one, which may name settings that the earlier version did not have."""
    for key, value in before.items():
        if isinstance(value, dict):
            assert_kept(value, after[key])
        else:
            assert after[key] == value


@pytest.mark.parametrize("name", ["t1", "it2-coverage", "classifier"])
def test_file_of_version_0_1_0_is_saved_again_with_the_same_content(name: str, tmp_path: Path) -> None:
    old = ASSETS / f"v0.1.0-{name}.fls"
    load(old).save(tmp_path / "new.fls")
    before, after = (_files.read_model(path) for path in (old, tmp_path / "new.fls"))
    for description in before[0], before[0].get("interval_model", {}):
        description.pop("feature_names", None)  # names are those of the columns now
    assert_kept(before[0], after[0])
    assert after[1].keys() == before[1].keys()
    assert all(np.array_equal(after[1][key], value) for key, value in before[1].items())


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


def test_learning_rate_of_numpy_is_saved(tmp_path: Path) -> None:
    model = FLSRegressor(**{**TINY, "learning_rate": np.float32(0.5)}).fit(X, Y)
    assert round_trip(model, tmp_path).history_[-1]["learning_rate"] == 0.5


def test_model_of_a_subclass_is_one_of_its_base(tmp_path: Path) -> None:
    class Plant(FLSRegressor):
        pass

    model = Plant(**TINY).fit(X, Y)
    found = round_trip(model, tmp_path)
    assert type(found) is FLSRegressor
    np.testing.assert_array_equal(found.predict(X), model.predict(X))


def test_tilde_is_the_home_folder(fitted: FLSRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    fitted.save("~/plant.fls")
    assert (tmp_path / "plant.fls").is_file()
    np.testing.assert_array_equal(load("~/plant.fls").predict(X), fitted.predict(X))
    assert fitted.to_report("~/page.html") == tmp_path / "page.html"
    fitted.to_c("~plant.h", prefix="plant")  # a file of this name
    assert (tmp_path / "~plant.h").is_file()


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
    assert metadata["version"] == str(_files.MODEL.version)
    assert json.loads(metadata["description"])["class"] == "FLSRegressor"


def test_file_has_the_permissions_of_any_new_file(path: Path) -> None:
    other = path.with_name("other")
    other.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_load_leaves_the_global_generator_alone(path: Path) -> None:
    before = torch.get_rng_state()
    load(path)
    assert torch.equal(torch.get_rng_state(), before)


def test_intervals_of_fewer_rows_than_rules_are_restored(tmp_path: Path) -> None:
    model = FLSRegressor(n_rules=10, epochs=1, coverage=0.9, random_state=0).fit(X[:18], Y[:18])
    assert model.interval_model_.system_.n_rules < model.system_.n_rules
    model.save(tmp_path / "model.fls")
    for own, restored in zip(model.predict_interval(X), load(tmp_path / "model.fls").predict_interval(X), strict=True):
        np.testing.assert_array_equal(restored, own)


@pytest.mark.parametrize("refit", [False, True])
def test_groups_of_values_that_are_not_known_are_restored(tmp_path: Path, refit: bool) -> None:
    table = pd.DataFrame(X, columns=[f"x{m}" for m in range(X.shape[1])])
    table["group"] = np.resize(np.array(["a", "b", None], dtype=object), len(table))
    model = FLSRegressor(**TINY, coverage=0.5, group_calibration="group", refit=refit).fit(table, Y)
    model.save(tmp_path / "model.fls")
    for own, restored in zip(
        model.predict_interval(table), load(tmp_path / "model.fls").predict_interval(table), strict=True
    ):
        np.testing.assert_array_equal(restored, own)
