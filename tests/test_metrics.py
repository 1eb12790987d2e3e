"""Measures of predictions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as reference

from deepfls.metrics import accuracy, log_loss, mae, r2, rmse

REGRESSION: dict[str, tuple[Callable[..., float], Callable[..., float]]] = {
    "rmse": (rmse, lambda t, p: reference.mean_squared_error(t, p) ** 0.5),
    "mae": (mae, reference.mean_absolute_error),
    "r2": (r2, reference.r2_score),
}


@pytest.mark.parametrize("name", REGRESSION)
@pytest.mark.parametrize("shape", [(9,), (9, 1), (9, 2)], ids=str)
def test_measure_equals_scikit_learn(name: str, shape: tuple[int, ...]) -> None:
    random = np.random.RandomState(0)
    y_true, y_pred = random.normal(size=shape), random.normal(size=shape)
    measure, expected = REGRESSION[name]
    if name == "rmse":
        assert measure(y_true, y_pred) == pytest.approx(np.sqrt(np.mean((y_true - y_pred) ** 2)))
    else:
        assert measure(y_true, y_pred) == pytest.approx(expected(y_true, y_pred))


@pytest.mark.parametrize("name", REGRESSION)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, bool, np.int64], ids=lambda t: t.__name__)
def test_measure_takes_whole_numbers_without_wrapping(name: str, dtype: type) -> None:
    y_true, y_pred = np.array([0, 1, 0], dtype=dtype), np.array([1, 1, 0], dtype=dtype)
    measure, _ = REGRESSION[name]
    assert measure(y_true, y_pred) == measure(y_true.astype(float), y_pred.astype(float))


def test_rmse_takes_large_integers() -> None:
    assert rmse([0], [10**10]) == 1e10


@pytest.mark.parametrize("name", REGRESSION)
def test_measure_takes_series(name: str) -> None:
    measure, _ = REGRESSION[name]
    first, second = pd.Series([1.0, 2.0, 4.0]), pd.Series([1.0, 3.0, 3.0], index=[5, 6, 7])
    assert measure(first, second) == measure(first.to_numpy(), second.to_numpy())


@pytest.mark.parametrize("name", REGRESSION)
def test_measure_returns_a_python_float(name: str) -> None:
    measure, _ = REGRESSION[name]
    assert type(measure(np.float32([1, 2]), np.float32([1, 3]))) is float


@pytest.mark.parametrize("value", [0.0, 0.1, 1e12])
def test_r2_is_zero_when_the_target_is_constant_and_missed(value: float) -> None:
    assert r2(np.full(11, value), np.full(11, value + 1.0)) == 0.0


def test_r2_is_one_when_the_target_is_constant_and_hit() -> None:
    assert r2(np.full(11, 0.1), np.full(11, 0.1)) == 1.0


def test_accuracy_is_the_share_of_equal_classes() -> None:
    assert accuracy(np.array(["a", "b", "c", "c"]), np.array(["a", "b", "b", "c"])) == 0.75


def test_log_loss_equals_scikit_learn() -> None:
    probabilities = [[0.2, 0.5, 0.3], [0.9, 0.05, 0.05], [0.1, 0.1, 0.8]]
    classes = ["x", "y", "z"]
    expected = reference.log_loss(["y", "x", "x"], probabilities, labels=classes)
    assert log_loss(["y", "x", "x"], probabilities, classes) == pytest.approx(expected)


def test_log_loss_is_finite_when_the_class_was_never_seen() -> None:
    assert np.isfinite(log_loss(["new"], [[0.5, 0.5]], ["a", "b"]))


@pytest.mark.parametrize("measure", [rmse, mae, r2, accuracy], ids=lambda f: f.__name__)
def test_measure_refuses_different_shapes(measure: Callable[..., float]) -> None:
    with pytest.raises(ValueError, match=r"^y_pred must have the shape of y_true, \(3,\), got \(3, 1\)\.$"):
        measure(np.zeros(3), np.zeros((3, 1)))


@pytest.mark.parametrize("measure", [rmse, mae, r2, accuracy], ids=lambda f: f.__name__)
def test_measure_refuses_nothing(measure: Callable[..., float]) -> None:
    with pytest.raises(ValueError, match=r"^y_true must have at least one value, got shape \(0,\)\.$"):
        measure([], [])
