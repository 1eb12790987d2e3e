"""A second fit that goes on from the first: what it keeps and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from estimator_cases import NAMES, X, Y, both, classifier, regressor


@both
@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_warm_start_continues(make: Callable[..., Any], y: np.ndarray, kind: str) -> None:
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


def test_warm_start_with_intervals_for_the_first_time_trains_their_model_anew() -> None:
    model = regressor(warm_start=True).fit(X, Y).set_params(coverage=0.8).fit(X, Y)
    part = regressor(coverage=0.8, refit=False).fit(X, Y)
    assert model.n_epochs_ == 6
    assert model.interval_model_ is not None
    np.testing.assert_array_equal(model.interval_model_.predict(X), part.predict(X))


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


def test_warm_start_goes_on_where_there_are_fewer_rows_than_rules() -> None:
    with pytest.warns(UserWarning, match=r"^n_rules=9 is more than the 6 rows to learn from"):
        model = regressor(warm_start=True, n_rules=9).fit(X[:6], Y[:6])
    with pytest.warns(UserWarning, match=r"^n_rules=9 is more than the 6 rows to learn from"):
        model.fit(X[:6], Y[:6])
    assert model.system_.n_rules == 6
    assert model.n_epochs_ == 6


def test_warm_start_refuses_other_classes() -> None:
    model = classifier(warm_start=True).fit(X, Y > 5)
    message = r"^classes must stay \[False, True\] with warm_start=True, got \['a', 'b'\]; warm_start=False starts anew\.$"
    with pytest.raises(ValueError, match=message):
        model.fit(X, np.where(Y > 5, "b", "a"))


def test_warm_start_refuses_columns_in_another_order() -> None:
    model = regressor(warm_start=True).fit(pd.DataFrame(X, columns=NAMES), Y)
    with pytest.raises(ValueError, match=r"Feature names must be in the same order as they were in fit\."):
        model.fit(pd.DataFrame(X, columns=NAMES[::-1]), Y)
