"""The prediction engine: the same numbers for any chunks and threads; parts and measures of whole tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, r2_score, root_mean_squared_error

from deepfls.data.parquet import ParquetFiles
from deepfls.estimators.table_model import ClassScores, NumberScores, parts_of
from estimator_cases import X, Y, both, classifier, regressor
from stream_cases import columns, write

LONG = np.random.default_rng(0).normal(size=(200, 3))


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets the number of torch's threads for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def numbers_of(model: Any, x: np.ndarray) -> list[np.ndarray]:
    """Everything that a fitted estimator computes for rows."""
    found = [model.predict(x), *model.firing_strengths(x), model._model.rule_weights(x)]
    if hasattr(model, "predict_set"):
        return [*found, model.predict_proba(x), model.predict_set(x)]
    return [*found, *model.predict_interval(x), *model.predict_interval(x, coverage=0.5)]


MODELS: dict[str, Callable[[], Any]] = {
    "cqr": lambda: regressor(coverage=0.8).fit(X, Y),
    "split": lambda: regressor(coverage=0.8, calibration="split", n_rules=2, refit=False).fit(X, Y),
    "t1": lambda: regressor(kind="t1", coverage=0.8, calibration="split", n_rules=2, refit=False).fit(X, Y),
    "nt": lambda: regressor(type_reduction="nt", coverage=0.8).fit(X, Y),
    "classes": lambda: classifier(coverage=0.8).fit(X, np.where(Y > 5, "b", "a")),
}


@pytest.mark.parametrize("name", MODELS)
def test_numbers_do_not_depend_on_the_chunks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS[name]()
    expected = numbers_of(model, LONG)
    monkeypatch.setattr("deepfls.estimators.prediction.CHUNK", 7)
    for found, value in zip(numbers_of(model, LONG), expected, strict=True):
        if value.dtype.kind == "f":
            np.testing.assert_allclose(found, value, rtol=1e-9, atol=1e-12)
        else:
            np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize("name", MODELS)
def test_bits_do_not_depend_on_the_number_of_threads(
    name: str, monkeypatch: pytest.MonkeyPatch, threads: Callable[[int], None]
) -> None:
    model = MODELS[name]()
    monkeypatch.setattr("deepfls.estimators.prediction.CHUNK", 16)
    threads(1)
    expected = numbers_of(model, LONG)
    for number in (2, 3):
        threads(number)
        for found, value in zip(numbers_of(model, LONG), expected, strict=True):
            np.testing.assert_array_equal(found, value)


@both
def test_rows_alone_have_the_outputs_of_rows_together(make: Callable[..., Any], y: np.ndarray) -> None:
    model = make().fit(X, y)._model
    apart = np.concatenate([model.outputs(X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_allclose(apart, model.outputs(X), rtol=1e-9, atol=1e-12)


def test_crisp_output_lies_in_the_type_reduced_set() -> None:
    lower, upper, y = regressor().fit(X, Y)._model.reduced(LONG)
    assert (lower <= y).all()
    assert (y <= upper).all()


def test_raw_values_set_outside_their_range_reach_later_predictions() -> None:
    model = regressor(centers_within="data").fit(X, Y)
    before = model.predict(X)
    raw, (low, high) = model.system_.antecedents.raw_centers, model.system_.antecedents.bounds[:2]
    raw.data[:] = 2.0 * high - raw.data  # the reflection at the upper end gives the same values again
    assert bool((raw.data >= high).all())
    assert model.predict(X) == pytest.approx(before, rel=1e-9)
    raw.data[:] = low
    assert not np.allclose(model.predict(X), before)


def test_rule_weights_add_up_to_one() -> None:
    np.testing.assert_allclose(regressor().fit(X, Y)._model.rule_weights(LONG).sum(axis=1), 1.0, rtol=1e-12)


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


# Tables


@pytest.mark.parametrize(("part_rows", "n_groups"), [(1, [1] * 9), (130, [2, 2, 2, 2, 1]), (10_000, [9])])
def test_parts_are_consecutive_row_groups(tmp_path: Path, part_rows: int, n_groups: list[int]) -> None:
    parts = parts_of(ParquetFiles(write(tmp_path, columns())), part_rows)
    assert [len(part) for part in parts] == n_groups
    assert [number for part in parts for number in part] == list(range(9))


def test_scores_of_chunks_are_those_of_all_rows() -> None:
    truth, predicted = np.random.default_rng(1).normal(size=(2, 90))
    parts = []
    for rows in (slice(0, 10), slice(10, 50), slice(50, 90)):
        parts.append(NumberScores())
        parts[-1].update(truth[rows], predicted[rows])
    for other in parts[1:]:
        parts[0].merge(other)
    expected = {
        "rmse": root_mean_squared_error(truth, predicted),
        "mae": mean_absolute_error(truth, predicted),
        "r2": r2_score(truth, predicted),
    }
    assert parts[0].values() == pytest.approx(expected, rel=1e-12)


def test_scores_of_classes_count_unknown_ones_as_wrong() -> None:
    classes = np.array(["a", "b"])
    truth = np.array(["a", "b", "b", "a"])
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.5, 0.5]])
    scores = ClassScores(classes)
    scores.update(truth, probabilities)
    expected = {
        "accuracy": accuracy_score(truth, classes[probabilities.argmax(axis=1)]),
        "log_loss": log_loss(truth, probabilities, labels=classes),
    }
    assert scores.values() == pytest.approx(expected, rel=1e-12)
    other = ClassScores(classes)
    other.update(np.array(["c"]), np.array([[0.5, 0.5]]))
    scores.merge(other)
    assert scores.unknown == ["c"]
    assert scores.values()["accuracy"] == pytest.approx(3 / 5)
