"""Warm starts, and what the estimators refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError

from estimator_cases import LABELS, NAMES, X, Y, both, classifier, regressor

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
    ({"epochs": "many"}, ValueError, "epochs must be a number or 'auto', got 'many'."),
    ({"learning_rate": None}, TypeError, "learning_rate must be a number, got None."),
    ({"batch_size": "all"}, ValueError, "batch_size must be a number or 'auto', got 'all'."),
    ({"learning_rate": "aut"}, ValueError, "learning_rate must be a number or 'auto', got 'aut'. Did you mean 'auto'?"),
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
