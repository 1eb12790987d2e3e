"""FLSRegressor and FLSClassifier learn, and give the same for the same."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from estimator_cases import LABELS, X, Y, both, classifier, regressor


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
    together = model._model.outputs(X)
    apart = np.concatenate([model._model.outputs(X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_allclose(apart, together, rtol=1e-9, atol=1e-12)


def test_predictions_do_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    model = regressor().fit(X, Y)
    whole = model.predict(X)
    monkeypatch.setattr("deepfls.estimators.prediction.CHUNK", 5)
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
