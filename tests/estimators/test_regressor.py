"""FLSRegressor: units, shapes and names of targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from estimator_cases import X, Y, regressor


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
    ],
    ids=["vector", "columns", "series", "frame", "frame without names"],
)
def test_targets_are_named_by_their_columns(y: Any, names: tuple[str, ...]) -> None:
    assert regressor(epochs=0).fit(X, y).target_names_ == names
