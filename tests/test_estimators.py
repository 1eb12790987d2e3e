"""FLSRegressor and FLSClassifier, as their users meet them."""

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
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from deepfls import FLSClassifier, FLSRegressor
from deepfls.functional.losses import l2
from deepfls.initialize import initialize_system

RANDOM = np.random.RandomState(0)
X = RANDOM.normal(size=(48, 3))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 5.0
LABELS = np.where(Y > 5.5, "high", np.where(Y > 4.5, "middle", "low"))
NAMES = ["heat", "flow", "load"]


def regressor(**options: Any) -> FLSRegressor:
    return FLSRegressor(**{"n_rules": 4, "epochs": 3, "random_state": 0, **options})


def classifier(**options: Any) -> FLSClassifier:
    return FLSClassifier(**{"n_rules": 4, "epochs": 3, "random_state": 0, **options})


ESTIMATORS: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "regressor": (regressor, Y),
    "classifier": (classifier, LABELS),
}
both = pytest.mark.parametrize(("make", "y"), list(ESTIMATORS.values()), ids=list(ESTIMATORS))


def r2_on_training_rows(**options: Any) -> float:
    return float(regressor(**options).fit(X, Y).score(X, Y))


# Learning


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_regressor_learns_what_a_line_cannot(kind: str) -> None:
    assert r2_on_training_rows(kind=kind, n_rules=8, epochs=60) > 0.9 > LinearRegression().fit(X, Y).score(X, Y)


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_classifier_learns_three_classes(kind: str) -> None:
    assert classifier(kind=kind, n_rules=8, epochs=60).fit(X, LABELS).score(X, LABELS) > 0.9


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_regressor_beats_a_line_on_unseen_houses(kind: str, shared_data: Path) -> None:
    table = np.loadtxt(shared_data / "boston.csv", delimiter=",", skiprows=1)
    order = np.random.RandomState(0).permutation(len(table))
    train, test = table[order[:350]], table[order[350:]]
    line = LinearRegression().fit(train[:, :-1], train[:, -1]).score(test[:, :-1], test[:, -1])
    model = regressor(kind=kind, n_rules=5, epochs=20).fit(train[:, :-1], train[:, -1])
    assert model.score(test[:, :-1], test[:, -1]) > line


@pytest.mark.parametrize("uncertainty", ["h", "s", "hs"])
@pytest.mark.parametrize("type_reduction", ["km", "nt", "bmm", "sm"])
def test_every_it2_system_learns(uncertainty: str, type_reduction: str) -> None:
    assert r2_on_training_rows(uncertainty=uncertainty, type_reduction=type_reduction, epochs=10) > 0.5


@pytest.mark.parametrize(
    "options",
    [
        {"order": 0},
        {"tnorm": "product"},
        {"tnorm": "htsk"},
        {"loss": "huber", "loss_options": {"delta": 0.5}},
        {"loss": torch.nn.MSELoss()},
        {"optimizer": torch.optim.SGD, "optimizer_options": {"momentum": 0.9}},
        {"schedule": "constant", "gradient_clip": 1.0, "weight_decay": 0.0},
        {"batch_size": 7},
        {"centers": "grid"},
        {"centers": "kmeans-per-input"},
        {"dtype": "float64"},
        {"scaling": "none"},
        {"patience": 5},
        {"device": "cpu"},
        {"n_rules": 1},
        {"n_rules": 100},
    ],
    ids=str,
)
def test_option_is_taken(options: dict[str, Any]) -> None:
    assert r2_on_training_rows(**{"n_rules": 8, "epochs": 20, **options}) > 0.0


def test_random_start_learns_too() -> None:
    assert r2_on_training_rows(consequents="random", epochs=60, weight_decay=0.0) > 0.5


def test_predictions_are_in_the_units_of_the_target() -> None:
    first, second = regressor().fit(X, Y), regressor().fit(X, 1000.0 * Y - 7e5)
    np.testing.assert_allclose(second.predict(X), 1000.0 * first.predict(X) - 7e5, rtol=1e-5)


def test_units_of_the_inputs_do_not_matter() -> None:
    first, second = regressor().fit(X, Y), regressor().fit(X * 2.0**20 + 2.0**20, Y)
    np.testing.assert_allclose(second.predict(X * 2.0**20 + 2.0**20), first.predict(X), rtol=1e-3)


@pytest.mark.parametrize("shape", [(48,), (48, 1), (48, 2)], ids=str)
def test_predictions_have_the_shape_of_the_targets(shape: tuple[int, ...]) -> None:
    y = np.resize(Y, shape)
    assert regressor().fit(X, y).predict(X).shape == shape


def test_each_of_several_targets_is_learned() -> None:
    y = np.column_stack([Y, 1e6 * X[:, 0] ** 2])
    assert regressor(n_rules=8, epochs=40).fit(X, y).score(X, y) > 0.85


@pytest.mark.parametrize(
    "labels",
    [np.where(Y > 5, "b", "a"), (Y > 5).astype(int) * 3, Y > 5, np.where(Y > 5, 2.0, 1.0), LABELS],
    ids=["text", "integers", "booleans", "whole floats", "three classes"],
)
def test_classes_come_back_as_they_were_given(labels: np.ndarray) -> None:
    model = classifier().fit(X, labels)
    np.testing.assert_array_equal(model.classes_, np.unique(labels))
    assert model.predict(X).dtype == labels.dtype


def test_probabilities_add_up_and_their_largest_is_the_prediction() -> None:
    model = classifier().fit(X, LABELS)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (probabilities >= 0).all()
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))


def test_classifier_of_one_class_predicts_it() -> None:
    assert set(classifier().fit(X, ["only"] * 48).predict(X)) == {"only"}


# Same in, same out


@both
@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_same_random_state_gives_the_same_bits(make: Callable[..., Any], y: np.ndarray, kind: str) -> None:
    first, second = (make(kind=kind, patience=2).fit(X, y) for _ in range(2))
    state = second.system_.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in first.system_.state_dict().items())


def test_another_random_state_gives_another_model() -> None:
    assert not np.array_equal(regressor().fit(X, Y).predict(X), regressor(random_state=1).fit(X, Y).predict(X))


@both
def test_refit_forgets_the_first_fit(make: Callable[..., Any], y: np.ndarray) -> None:
    model = make().fit(X[:, :2], y[::-1]).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), make().fit(X, y).predict(X))
    assert len(model.history_) == 3


@both
def test_order_of_rows_does_not_matter(make: Callable[..., Any], y: np.ndarray) -> None:
    np.testing.assert_array_equal(make().fit(X[::-1], y[::-1]).predict(X), make().fit(X, y).predict(X))


@both
def test_weights_equal_repeats(make: Callable[..., Any], y: np.ndarray) -> None:
    counts = np.arange(48) % 3
    weighted = make().fit(X, y, sample_weight=counts.astype(float))
    repeated = make().fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))


def test_weights_pull_the_model() -> None:
    x, y = np.zeros((2, 1)), np.array([0.0, 1.0])
    model = regressor(n_rules=1, weight_decay=0.0, epochs=0).fit(x, y, sample_weight=[1.0, 3.0])
    assert model.predict([[0.0]])[0] == pytest.approx(0.75, abs=1e-3)


def test_equal_rows_count_each_when_the_loss_averages_by_itself() -> None:
    x, y = np.zeros((4, 1)), np.array([0.0, 0.0, 0.0, 1.0])
    model = regressor(loss=torch.nn.MSELoss(), n_rules=1, epochs=30).fit(x, y)
    assert model.predict([[0.0]])[0] == pytest.approx(0.25, abs=0.02)


def test_loss_that_averages_by_itself_is_refused_with_weights() -> None:
    with pytest.raises(
        ValueError, match=r"^loss must return shape \(batch, \.\.\.\) with batch=48 so that sample weights can apply"
    ):
        regressor(loss=torch.nn.MSELoss(), batch_size=48).fit(X, Y, sample_weight=np.arange(1.0, 49.0))


@both
def test_predictions_do_not_depend_on_the_batch(make: Callable[..., Any], y: np.ndarray) -> None:
    model = make().fit(X, y)
    together = model._raw_outputs(X)
    apart = np.concatenate([model._raw_outputs(X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_allclose(apart, together, rtol=1e-9, atol=1e-12)


def test_predictions_do_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    model = regressor().fit(X, Y)
    whole = model.predict(X)
    monkeypatch.setattr("deepfls.learner._PREDICTION_CHUNK", 5)
    np.testing.assert_allclose(model.predict(X), whole, rtol=1e-9)


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
def test_text_in_a_frame_is_refused_with_its_columns(frame: Frame) -> None:
    table = frame(np.column_stack([X[:, 0].astype(str), np.full(48, "red"), LABELS]), NAMES)
    with pytest.raises(
        ValueError, match=r"^X must hold numbers only, got text \(columns 'flow', 'load'\); encode or drop it\.$"
    ):
        regressor().fit(table, Y)


def test_dates_in_a_frame_are_refused_with_their_columns() -> None:
    table = pd.DataFrame(X, columns=NAMES).assign(flow=pd.date_range("2024-01-01", periods=48))
    message = r"^X must hold numbers only, got something else \(columns 'flow'\); encode or drop it\.$"
    with pytest.raises(ValueError, match=message):
        regressor().fit(table, Y)


@every_frame
def test_missing_value_in_a_frame_is_refused_with_its_place(frame: Frame) -> None:
    rows = X.copy()
    rows[5, 1] = np.nan
    with pytest.raises(
        ValueError, match=r"^X must be finite, got NaN in row 5, column 'flow' \(1 such value\(s\) in all\)\.$"
    ):
        regressor().fit(frame(rows, NAMES), Y)


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


def test_small_starts_run_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watching(*args: Any, **options: Any) -> None:
        seen.append(torch.get_num_threads())
        initialize_system(*args, **options)

    monkeypatch.setattr("deepfls.learner.initialize_system", watching)
    regressor().fit(X, Y)
    assert seen == [1]


def test_fit_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
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


# Firing strengths


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_firing_strengths_are_ordered_shares_of_one(kind: str) -> None:
    lower, upper = regressor(kind=kind).fit(X, Y).firing_strengths(X)
    assert lower.shape == upper.shape == (48, 4)
    assert (lower >= 0).all()
    assert (lower <= upper).all()
    assert (upper <= 1.0).all()


def test_firing_strengths_are_equal_for_t1() -> None:
    lower, upper = regressor(kind="t1").fit(X, Y).firing_strengths(X)
    np.testing.assert_array_equal(lower, upper)


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_firing_strength_is_one_at_the_center_of_a_rule(kind: str) -> None:
    # Narrow sets far from zero, where rounding is largest.
    model = regressor(kind=kind, width=0.05, n_rules=20).fit(X, Y)
    centers = model.x_scaling_.invert(model.system_.centers.numpy())
    np.testing.assert_allclose(np.diag(model.firing_strengths(centers).upper), 1.0)
    assert model.firing_strengths(centers).upper.max() <= 1.0


# Warm starts


@both
@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_warm_start_goes_on(make: Callable[..., Any], y: np.ndarray, kind: str) -> None:
    steady = {"schedule": "constant", "learning_rate": 0.005, "weight_decay": 0.0, "batch_size": 48}
    model = make(kind=kind, warm_start=True, epochs=10, **steady).fit(X, y)
    first = model.history_[-1]["loss"]
    model.fit(X, y)
    assert [row["epoch"] for row in model.history_] == [float(i + 1) for i in range(20)]
    assert model.n_epochs_ == 20
    assert model.history_[-1]["loss"] < first


def test_warm_start_of_zero_epochs_predicts_the_same() -> None:
    model = regressor(warm_start=True).fit(X, Y)
    before = model.predict(X)
    np.testing.assert_array_equal(model.set_params(epochs=0).fit(X, Y).predict(X), before)


def test_warm_start_on_other_rows_keeps_the_scaling() -> None:
    model = regressor(warm_start=True).fit(X, Y)
    shift = model.x_scaling_.shift
    assert np.isfinite(model.fit(X[:9] * 3.0, Y[:9]).predict(X)).all()
    np.testing.assert_array_equal(model.x_scaling_.shift, shift)


def test_warm_start_without_a_fit_starts_anew() -> None:
    np.testing.assert_array_equal(regressor(warm_start=True).fit(X, Y).predict(X), regressor().fit(X, Y).predict(X))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_rules": 5}, "n_rules must stay 4 with warm_start=True, got 5; warm_start=False starts anew."),
        ({"kind": "t1"}, "kind must stay 'it2' with warm_start=True, got 't1'; warm_start=False starts anew."),
        ({"order": 0}, "order must stay 1 with warm_start=True, got 0; warm_start=False starts anew."),
        (
            {"type_reduction": "nt"},
            "type_reduction must stay 'km' with warm_start=True, got 'nt'; warm_start=False starts anew.",
        ),
    ],
    ids=str,
)
def test_warm_start_refuses_another_structure(changes: dict[str, Any], message: str) -> None:
    model = regressor(warm_start=True).fit(X, Y).set_params(**changes)
    with pytest.raises(ValueError, match=r"must stay") as caught:
        model.fit(X, Y)
    assert str(caught.value) == message


def test_warm_start_refuses_another_number_of_targets() -> None:
    model = regressor(warm_start=True).fit(X, Y)
    with pytest.raises(
        ValueError, match=r"^n_outputs must stay 1 with warm_start=True, got 2; warm_start=False starts anew\.$"
    ):
        model.fit(X, np.column_stack([Y, Y]))


def test_warm_start_refuses_other_classes() -> None:
    model = classifier(warm_start=True).fit(X, Y > 5)
    message = r"^classes must stay \[False, True\] with warm_start=True, got \['a', 'b'\]; warm_start=False starts anew\.$"
    with pytest.raises(ValueError, match=message):
        model.fit(X, np.where(Y > 5, "b", "a"))


def test_warm_start_refuses_columns_in_another_order() -> None:
    model = regressor(warm_start=True).fit(pd.DataFrame(X, columns=NAMES), Y)
    with pytest.raises(ValueError, match=r"Feature names must be in the same order as they were in fit\."):
        model.fit(pd.DataFrame(X, columns=NAMES[::-1]), Y)


# Errors


def changed(array: np.ndarray, at: Any, value: Any) -> np.ndarray:
    array = array.copy()
    array[at] = value
    return array


def failing_loss(y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("a bug in the loss")


BAD_DATA: dict[str, tuple[Any, Any, str]] = {
    "NaN in X": (changed(X, (3, 1), np.nan), Y, "X must be finite, got NaN in row 3, column 1 (1 such value(s) in all)."),
    "inf in X": (changed(X, (0, 2), np.inf), Y, "X must be finite, got inf in row 0, column 2 (1 such value(s) in all)."),
    "huge X": (
        changed(X, 1, -1e200),
        Y,
        "X must be within ±1e+150, got -1e+200 in row 1, column 0 (3 such value(s) in all).",
    ),
    "text in X": (
        changed(X.astype(object), (2, 0), "red"),
        Y,
        "X must hold numbers only, got text ('red'); encode or drop it.",
    ),
    "NaN in y": (X, changed(Y, 7, np.nan), "y must be finite, got NaN in row 7 (1 such value(s) in all)."),
    "-inf in y": (X, changed(Y, [7, 9], -np.inf), "y must be finite, got -inf in row 7 (2 such value(s) in all)."),
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
    "X of 3 dimensions": (X[None], Y, "Found array with dim 3, while dim <= 2 is required by FLSRegressor."),
    "other columns and NaN in y": (X[:, :2], Y * np.nan, "y must be finite, got NaN in row 0 (48 such value(s) in all)."),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_are_refused_and_an_earlier_fit_stays(name: str) -> None:
    x, y, message = BAD_DATA[name]
    model = regressor().fit(X, Y)
    before, attributes = model.predict(X), dict(vars(model))
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the whole message is compared below
        model.fit(x, y)
    assert str(caught.value) == message
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
    "real numbers": (Y, "Unknown label type: continuous."),
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


@both
@pytest.mark.parametrize("warm_start", [False, True], ids=["cold", "warm"])
def test_error_in_the_loss_leaves_an_earlier_fit(make: Callable[..., Any], y: np.ndarray, warm_start: bool) -> None:
    model = make(warm_start=warm_start).fit(X, y)
    before = model.predict(X)
    with pytest.raises(RuntimeError, match=r"^a bug in the loss$"):
        model.set_params(loss=failing_loss).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)
    assert len(model.history_) == 3


BAD_SETTINGS = [
    ({"kind": "type-2"}, ValueError, "kind must be one of 't1', 'it2', got 'type-2'."),
    ({"kind": "T1"}, ValueError, "kind must be one of 't1', 'it2', got 'T1'."),
    ({"n_rules": 0}, ValueError, "n_rules must be at least 1, got 0."),
    ({"order": 2}, ValueError, "order must be between 0 and 1, got 2."),
    ({"uncertainty": "sh"}, ValueError, "uncertainty must be one of 'h', 's', 'hs', got 'sh'. Did you mean 's'?"),
    (
        {"type_reduction": "kmm"},
        ValueError,
        "type_reduction must be one of 'km', 'nt', 'bmm', 'sm', got 'kmm'. Did you mean 'km'?",
    ),
    ({"tnorm": "prod"}, ValueError, "tnorm must be one of 'auto', 'product', 'htsk', got 'prod'. Did you mean 'product'?"),
    (
        {"loss": "cross-entropy"},
        ValueError,
        "loss must be one of 'l1', 'l2', 'huber', 'log-cosh', 'pinball', got 'cross-entropy'.",
    ),
    ({"centers": "random"}, ValueError, "centers must be one of 'kmeans', 'kmeans-per-input', 'grid', got 'random'."),
    (
        {"scaling": "standart"},
        ValueError,
        "scaling must be one of 'standard', 'none', got 'standart'. Did you mean 'standard'?",
    ),
    (
        {"validation_fraction": 1.0},
        ValueError,
        "validation_fraction must be greater than 0 and less than 1, got 1.0.",
    ),
    ({"dtype": "float16"}, ValueError, "dtype must be one of 'float32', 'float64', got 'float16'. Did you mean 'float64'?"),
    ({"device": "gpu"}, ValueError, "device must be 'auto' or a torch device of this machine, got 'gpu'."),
    ({"patience": 0}, ValueError, "patience must be at least 1, got 0."),
    ({"epochs": "many"}, TypeError, "epochs must be an integer, got 'many'."),
    ({"learning_rate": None}, TypeError, "learning_rate must be a number, got None."),
    ({"batch_size": "all"}, TypeError, "batch_size must be an integer, got 'all'."),
]


@pytest.mark.parametrize(
    ("options", "error", "message"), BAD_SETTINGS, ids=[str(options) for options, _, _ in BAD_SETTINGS]
)
def test_bad_setting_is_refused_at_fit_and_an_earlier_fit_stays(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    model = regressor().fit(X, Y)
    before = model.predict(X)
    with pytest.raises(error) as caught:
        model.set_params(**options).fit(X, Y)
    assert str(caught.value) == message
    np.testing.assert_array_equal(model.predict(X), before)


def test_classifier_refuses_a_loss_of_numbers() -> None:
    with pytest.raises(ValueError, match=r"^loss must be one of 'cross-entropy', got 'l2'\.$"):
        classifier(loss="l2").fit(X, LABELS)


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


@pytest.mark.parametrize("value", [np.nan, np.inf], ids=["NaN", "inf"])
def test_number_that_is_not_finite_is_refused_in_predictions(value: float) -> None:
    with pytest.raises(
        ValueError, match=r"^X must be finite, got (NaN|inf) in row 4, column 2 \(1 such value\(s\) in all\)\.$"
    ):
        regressor().fit(X, Y).predict(changed(X, (4, 2), value))


# Few or odd rows


@pytest.mark.parametrize("n_rows", [1, 2, 3])
@pytest.mark.parametrize("patience", [None, 2])
@both
def test_few_rows_are_enough(make: Callable[..., Any], y: np.ndarray, patience: int | None, n_rows: int) -> None:
    predictions = make(patience=patience).fit(X[:n_rows], y[:n_rows]).predict(X)
    assert len(predictions) == 48


@pytest.mark.parametrize("value", [0.0, 0.1, -3e12, 0.1 * 1e100])
def test_constant_target_is_predicted_exactly(value: float) -> None:
    np.testing.assert_allclose(regressor().fit(X, np.full(48, value)).predict(10.0 * X), value, rtol=1e-12)


@pytest.mark.parametrize("distance", [1e3, 1e9, 1e120])
@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_predictions_are_finite_far_from_the_data(kind: str, distance: float) -> None:
    assert np.isfinite(regressor(kind=kind).fit(X * 1e-12, Y).predict(X * distance)).all()


def test_interrupted_fit_leaves_a_usable_model() -> None:
    calls = []

    def interrupted(y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return l2(y, target)

    model = regressor(loss=interrupted, batch_size=16)
    with pytest.warns(UserWarning, match=r"^Training was interrupted in epoch 2 of 3; the parameters reached are kept\.$"):
        model.fit(X, Y)
    assert model.stopped_by_ == "interrupt"
    assert np.isfinite(model.predict(X)).all()


def test_diverging_fit_leaves_a_usable_model() -> None:
    model = regressor(learning_rate=1e30, epochs=20)
    with pytest.warns(UserWarning, match=r"^Training left the finite numbers in epoch \d+ at ever smaller rates"):
        model.fit(X, Y)
    assert model.stopped_by_ == "divergence"
    assert np.isfinite(model.predict(X)).all()


def test_patience_stops_and_is_told() -> None:
    model = regressor(patience=2, epochs=300, learning_rate=0.3, schedule="constant").fit(X, Y)
    losses = [row["validation_loss"] for row in model.history_]
    assert model.stopped_by_ == "patience"
    assert len(losses) == losses.index(min(losses)) + 3
