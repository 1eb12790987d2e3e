"""FLSRegressor and FLSClassifier: units, shapes and names of targets; classes of any type, and their probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from estimator_cases import LABELS, X, Y, classifier, regressor


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
    ("y", "names"),
    [
        (Y, ("y",)),
        (np.column_stack([Y, Y]), ("y0", "y1")),
        (pd.Series(Y, name="load"), ("load",)),
        (pd.DataFrame({"load": Y, "loss": -Y}), ("load", "loss")),
        (pd.DataFrame({0: Y, 1: -Y}), ("y0", "y1")),
        (pa.table({"load": Y, "loss": -Y}), ("load", "loss")),
    ],
    ids=["vector", "columns", "series", "frame", "frame without names", "arrow"],
)
def test_targets_are_named_by_their_columns(y: Any, names: tuple[str, ...]) -> None:
    assert regressor(epochs=0).fit(X, y).target_names_ == names


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
    with pytest.warns(UserWarning, match=r"^The target has one class, only: the model gives it for every input\.$"):
        assert set(classifier().fit(X, ["only"] * 48).predict(X)) == {"only"}


def test_start_favours_the_class_of_each_row() -> None:
    # The ridge start aims at logits of +2 for the class, which it nearly reaches with a rule per row.
    model = classifier(n_rules=30, width=0.1, epochs=0, ridge=1e-8).fit(X[:30], LABELS[:30])
    assert model.score(X[:30], LABELS[:30]) == 1.0
    logits = np.log(model.predict_proba(X[:30]))
    margin = np.sort(logits, axis=1)[:, -1] - np.sort(logits, axis=1)[:, -2]
    assert np.median(margin) == pytest.approx(3.0, abs=0.5)


def test_class_weights_are_sample_weights() -> None:
    x, labels = X[:40], np.where(np.arange(40) % 4 == 0, "rare", "common")
    counts = {name: (labels == name).sum() for name in ("rare", "common")}
    expected = classifier().fit(x, labels, sample_weight=[40 / (2 * counts[name]) for name in labels]).predict_proba(x)
    balanced = classifier(class_weight="balanced").fit(x, labels)
    np.testing.assert_allclose(balanced.predict_proba(x), expected)
    named = classifier(class_weight={name: 40 / (2 * counts[name]) for name in counts}).fit(x, labels)
    np.testing.assert_allclose(named.predict_proba(x), expected)
    with pytest.raises(ValueError, match=r"^class_weight must name classes of y, common, rare, got 'odd'\.$"):
        classifier(class_weight={"odd": 2.0}).fit(x, labels)


def test_decision_function_orders_rows_as_the_probabilities_do() -> None:
    two = classifier().fit(X, np.where(X[:, 0] > 0, "up", "down"))
    odds = two.predict_proba(X)
    np.testing.assert_allclose(two.decision_function(X), np.log(odds[:, 1] / odds[:, 0]))
    many = classifier().fit(X, LABELS)
    if len(many.classes_) > 2:
        assert many.decision_function(X).shape == (len(X), len(many.classes_))


def test_eval_set_of_classes_is_measured() -> None:
    model = classifier().fit(X[:30], LABELS[:30], eval_set=[(X[30:], LABELS[30:])])
    assert all(np.isfinite(row["validation_loss"]) for row in model.history_)
    with pytest.raises(ValueError, match=r"^y of eval_set must hold classes of y, got "):
        classifier().fit(X, LABELS, eval_set=(X[:1], ["other"]))


def test_missing_class_in_a_list_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^y must have a class in every row, got none in row 1 \(1 such row in all\)\.$"):
        classifier().fit(X[:3], ["a", float("nan"), "b"])


def test_class_weights_of_zero_for_all_rows_are_refused() -> None:
    zeros = dict.fromkeys(np.unique(LABELS).tolist(), 0)
    with pytest.raises(ValueError, match=r"^class_weight must leave a row with a weight above 0, got 0 for every class "):
        classifier(class_weight=zeros).fit(X, LABELS)


def test_classes_of_an_eval_set_are_read_like_those_of_y() -> None:
    labels = np.unique(LABELS, return_inverse=True)[1].ravel()
    for y in (labels.astype(object), LABELS.astype("S8")):
        model = classifier().fit(X[:30], y[:30], eval_set=(X[30:], y[30:]))
        assert np.isfinite(model.history_[0]["validation_loss"])


@pytest.mark.parametrize("wrong", ["equal", [1, 2]])
def test_class_weight_of_another_kind_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"^class_weight must be 'balanced' or a dictionary of weights by class, got "):
        classifier(class_weight=wrong).fit(X, LABELS)
