"""What both estimators do with tables and arrays of all kinds, what they leave alone, and what they refuse."""

from __future__ import annotations

import pickle
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from deepfls.training.start import initialize_system
from estimator_cases import LABELS, NAMES, X, Y, both, classifier, regressor

# Tables with names

FRAMES: dict[str, Callable[[np.ndarray, list[str]], Any]] = {
    "pandas": lambda rows, names: pd.DataFrame(rows, columns=names),
    "polars": lambda rows, names: pl.DataFrame(rows, schema=names),
    "pyarrow": lambda rows, names: pa.table({name: rows[:, i] for i, name in enumerate(names)}),
}
every_frame = pytest.mark.parametrize("frame", list(FRAMES.values()), ids=list(FRAMES))
Frame = Callable[[np.ndarray, list[str]], Any]


@every_frame
def test_frame_gives_the_model_of_its_array_and_keeps_the_names(frame: Frame) -> None:
    model = regressor().fit(frame(X, NAMES), Y)
    assert list(model.feature_names_in_) == NAMES
    np.testing.assert_array_equal(model.predict(frame(X, NAMES)), regressor().fit(X, Y).predict(X))


@every_frame
@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["flow", "heat", "load"], "Feature names must be in the same order as they were in fit.\n"),
        (["heat", "flow"], "Feature names seen at fit time, yet now missing:\n- load\n"),
        (["heat", "flow", "load", "rain"], "Feature names unseen at fit time:\n- rain\n"),
    ],
    ids=["order", "missing", "extra"],
)
def test_frame_of_other_columns_is_refused(frame: Frame, names: list[str], reason: str) -> None:
    model = regressor().fit(frame(X, NAMES), Y)
    with pytest.raises(ValueError, match=r"^The feature names should match") as caught:
        model.predict(frame(np.resize(X, (4, len(names))), names))
    assert str(caught.value) == f"The feature names should match those that were passed during fit.\n{reason}"


@every_frame
def test_frame_of_text_is_learned_from(frame: Frame) -> None:
    table = frame(np.column_stack([X[:, 0].astype(str), np.full(48, "red"), LABELS]), NAMES)
    with pytest.warns(UserWarning, match=r"^Column 'flow' has the same value in every row and is left out\.$"):
        model = regressor().fit(table, Y)
    assert (model.n_features_in_, model.system_.n_features) == (3, 1 + len(set(LABELS)) - (len(set(LABELS)) == 2))
    assert model.predict(table).shape == (48,)


@every_frame
def test_missing_values_in_a_frame_are_learned_from(frame: Frame) -> None:
    rows = X.copy()
    rows[5, 1] = np.nan
    model = regressor().fit(frame(rows, NAMES), Y)
    assert model.system_.missing
    np.testing.assert_array_equal(model.predict(frame(rows, NAMES)), regressor().fit(rows, Y).predict(rows))


@every_frame
def test_frame_of_targets_gives_two_dimensions(frame: Frame) -> None:
    assert regressor().fit(X, frame(X[:, :2], NAMES[:2])).predict(X).shape == (48, 2)


@pytest.mark.parametrize(
    "labels",
    [pd.Series(LABELS), pd.Series(LABELS, dtype="category"), pl.Series(LABELS), pa.chunked_array([LABELS]), list(LABELS)],
    ids=["pandas", "pandas categories", "polars", "pyarrow", "list"],
)
def test_column_of_classes_is_taken(labels: Any) -> None:
    assert sorted(classifier().fit(X, labels).classes_) == ["high", "low", "middle"]


# What is left alone

INPUTS: dict[str, np.ndarray] = {
    "float32": X.astype(np.float32),
    "integers": np.round(X * 10).astype(np.int16),
    "booleans": X > 0,
    "Fortran order": np.asfortranarray(X),
    "every second column": np.repeat(X, 2, axis=1)[:, ::2],
    "rows backwards": X[::-1][::-1],
    "objects": X.astype(object),
}


@pytest.mark.parametrize("name", INPUTS)
def test_array_of_any_layout_gives_the_model_of_its_numbers(name: str) -> None:
    plain = np.ascontiguousarray(INPUTS[name], dtype=np.float64)
    np.testing.assert_array_equal(
        regressor().fit(INPUTS[name], Y).predict(INPUTS[name]), regressor().fit(plain, Y).predict(plain)
    )


def test_lists_are_taken() -> None:
    np.testing.assert_array_equal(
        regressor().fit(X.tolist(), Y.tolist()).predict(X.tolist()), regressor().fit(X, Y).predict(X)
    )


@both
def test_fit_and_predict_leave_their_arguments_alone(make: Callable[..., Any], y: np.ndarray) -> None:
    x, targets, weight = X.copy(), y.copy(), np.arange(1.0, 49.0)
    for array in (x, targets, weight):
        array.setflags(write=False)
    make().fit(x, targets, sample_weight=weight).predict(x)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(targets, y)


@both
def test_fit_leaves_the_world_as_it_was(make: Callable[..., Any], y: np.ndarray) -> None:
    def outside() -> list[Any]:
        generators = [torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()]  # noqa: NPY002
        return [*generators, torch.get_num_threads(), torch.get_default_dtype(), list(warnings.filters)]

    before = outside()
    make(patience=1).fit(X, y).predict(X)
    assert outside() == before


def test_number_of_threads_of_torch_is_not_touched_during_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watching(*args: Any, **options: Any) -> None:
        seen.append(torch.get_num_threads())
        initialize_system(*args, **options)

    monkeypatch.setattr("deepfls.estimators.system_training.initialize_system", watching)
    before = torch.get_num_threads()
    regressor().fit(X, Y)
    assert [*seen, torch.get_num_threads()] == [before, before]


def test_fit_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    regressor(verbose=0).fit(X, Y)
    assert capfd.readouterr() == ("", "")


@both
def test_verbose_fit_shows_a_bar_on_standard_error_only(
    make: Callable[..., Any], y: np.ndarray, capfd: pytest.CaptureFixture[str]
) -> None:
    make(verbose=1, patience=9).fit(X, y)
    out, err = capfd.readouterr()
    assert out == ""
    assert all(part in err for part in ("training", "epoch 3/3", "loss", "validation"))


# Few or odd rows


@pytest.mark.filterwarnings("ignore::UserWarning")  # of few rows: tests/estimators/test_odd_data.py
@pytest.mark.parametrize("n_rows", [1, 2, 3])
@pytest.mark.parametrize("patience", [None, 2])
@both
def test_few_rows_are_enough(make: Callable[..., Any], y: np.ndarray, patience: int | None, n_rows: int) -> None:
    predictions = make(patience=patience).fit(X[:n_rows], y[:n_rows]).predict(X)
    assert len(predictions) == 48


@pytest.mark.parametrize("value", [0.0, 0.1, -3e12, 0.1 * 1e100])
def test_constant_target_is_predicted_exactly(value: float) -> None:
    with pytest.warns(UserWarning, match="in every row: the model gives it for every input"):
        model = regressor().fit(X, np.full(48, value))
    np.testing.assert_allclose(model.predict(10.0 * X), value, rtol=1e-12)


@pytest.mark.parametrize("distance", [1e3, 1e9, 1e120])
@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_predictions_are_finite_far_from_the_data(kind: str, distance: float) -> None:
    assert np.isfinite(regressor(kind=kind).fit(X * 1e-12, Y).predict(X * distance)).all()


# scikit-learn's tools


def test_grid_search_tries_both_kinds() -> None:
    search = GridSearchCV(regressor(), {"kind": ["t1", "it2"], "n_rules": np.array([2, 4])}, cv=2).fit(X, Y)
    assert search.best_params_["kind"] in ("t1", "it2")
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@both
def test_cross_val_score_is_finite(make: Callable[..., Any], y: np.ndarray) -> None:
    assert np.isfinite(cross_val_score(make(), X, y, cv=2)).all()


@both
def test_pipeline_fits_and_predicts(make: Callable[..., Any], y: np.ndarray) -> None:
    assert make_pipeline(MinMaxScaler(), make()).fit(X, y).predict(X).shape == y.shape


@both
def test_clone_has_the_settings_and_no_fit(make: Callable[..., Any], y: np.ndarray) -> None:
    copy = clone(make(n_rules=7).fit(X, y))
    assert copy.n_rules == 7
    assert not hasattr(copy, "system_")


@both
@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_pickle_predicts_the_same(make: Callable[..., Any], y: np.ndarray, kind: str) -> None:
    model = make(kind=kind).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


@both
def test_joblib_predicts_the_same(make: Callable[..., Any], y: np.ndarray, tmp_path: Path) -> None:
    model = make().fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "model.joblib").predict(X), model.predict(X))


# Refused data


def changed(array: np.ndarray, at: Any, value: Any) -> np.ndarray:
    array = array.copy()
    array[at] = value
    return array


BAD_DATA: dict[str, tuple[Any, Any, str]] = {
    "inf in X": (
        changed(X, (0, 2), np.inf),
        Y,
        "X must be finite, got inf in row 0, column 2 (1 such value in all); NaN in its place counts as a missing value.",
    ),
    "huge X": (
        changed(X, 1, -1e200),
        Y,
        "X must be within ±1e+150, got -1e+200 in row 1, column 0 (3 such values in all); NaN in its place counts as a "
        "missing value.",
    ),
    "NaN in y": (X, changed(Y, 7, np.nan), "y must be finite, got NaN in row 7 (1 such value in all)."),
    "-inf in y": (X, changed(Y, [7, 9], -np.inf), "y must be finite, got -inf in row 7 (2 such values in all)."),
    "text in y": (X, LABELS, f"y must hold numbers, got text ({str(LABELS[0])!r}); FLSClassifier learns classes."),
    "no y": (X, None, "fit requires y to be passed, but the target y is None."),
    "short y": (X, Y[:-1], "X and y must have the same number of rows, got 48 and 47."),
    "y of 3 dimensions": (X, Y.reshape(-1, 1, 1), "y must have shape (rows,) or (rows, outputs), got (48, 1, 1)."),
    "no rows": (
        X[:0],
        Y[:0],
        "Found array with 0 sample(s) (shape=(0, 3)) while a minimum of 1 is required by FLSRegressor.",
    ),
    "no columns": (
        X[:, :0],
        Y,
        "Found array with 0 feature(s) (shape=(48, 0)) while a minimum of 1 is required by FLSRegressor.",
    ),
    "X of 3 dimensions": (X[None], Y, "Found array with dim 3"),
    "other columns and NaN in y": (X[:, :2], Y * np.nan, "y must be finite, got NaN in row 0 (48 such values in all)."),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_are_refused_and_an_earlier_fit_stays(name: str) -> None:
    x, y, message = BAD_DATA[name]
    model = regressor().fit(X, Y)
    before, attributes = model.predict(X), dict(vars(model))
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the whole message is compared below
        model.fit(x, y)
    assert str(caught.value).startswith(message)  # the end of one differs between versions of scikit-learn
    assert vars(model) == attributes
    np.testing.assert_array_equal(model.predict(X), before)


def test_bad_data_leave_an_unfitted_estimator_unfitted() -> None:
    model = regressor()
    attributes = dict(vars(model))
    with pytest.raises(ValueError, match=r"^y must be finite"):
        model.fit(X, Y * np.nan)
    assert vars(model) == attributes


BAD_CLASSES: dict[str, tuple[Any, str]] = {
    "none": (None, "fit requires y to be passed, but the target y is None."),
    "short": (LABELS[:-1], "X and y must have the same number of rows, got 48 and 47."),
    "NaN": (np.where(Y > 5, np.nan, 1.0), f"y must be finite, got NaN in row {np.argmax(Y > 5)} ({(Y > 5).sum()} such"),
    "real numbers": (Y, "y must hold classes, got numbers with fractions such as "),
    "two columns": (np.column_stack([LABELS, LABELS]), "y should be a 1d array, got an array of shape (48, 2) instead."),
}


@pytest.mark.parametrize("name", BAD_CLASSES)
def test_bad_classes_are_refused_and_an_earlier_fit_stays(name: str) -> None:
    y, message = BAD_CLASSES[name]
    model = classifier().fit(X, LABELS)
    attributes = dict(vars(model))
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the message is compared below
        model.fit(X, y)
    assert str(caught.value).startswith(message)
    assert vars(model) == attributes


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (-np.ones(48), "Negative values in data passed to `sample_weight`."),
        (np.full(48, np.nan), "Input sample_weight contains NaN."),
        (np.ones(47), "sample_weight.shape == (47,), expected (48,)!"),
        (np.zeros(48), "Sample weights must contain at least one non-zero number."),
    ],
    ids=["negative", "NaN", "short", "all zero"],
)
def test_bad_weights_are_refused(weight: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the whole message is compared below
        regressor().fit(X, Y, sample_weight=weight)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ["predict", "firing_strengths", "save"])
def test_method_before_fit_is_refused(name: str) -> None:
    with pytest.raises(
        NotFittedError, match=r"^This FLSRegressor instance is not fitted yet\. Call 'fit' with appropriate "
    ):
        getattr(regressor(), name)(X)


@both
def test_other_number_of_columns_is_refused_in_predictions(make: Callable[..., Any], y: np.ndarray) -> None:
    model = make().fit(X, y)
    name = type(model).__name__
    with pytest.raises(ValueError, match=rf"^X has 2 features, but {name} is expecting 3 features as input\.$"):
        model.predict(X[:, :2])


@pytest.mark.parametrize(
    ("value", "settings", "message"),
    [
        (
            np.inf,
            {},
            r"^X must be finite, got inf in row 4, column 2 \(1 such value in all\); "
            r"NaN in its place counts as a missing value\.$",
        ),
        (
            np.nan,
            {"missing": "error"},
            r"^X must have no missing value with missing='error', got one in row 4, column 'x2' ",
        ),
    ],
    ids=["inf", "NaN"],
)
def test_number_that_is_not_finite_is_refused(value: float, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        regressor(**settings).fit(X, Y).predict(changed(X, (4, 2), value))
    with pytest.raises(ValueError, match=message):
        regressor(**settings).fit(changed(X, (4, 2), value), Y)
