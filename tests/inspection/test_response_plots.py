"""Responses that equal the predictions, and pushes of many rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from deepfls import FLSClassifier, FLSRegressor
from deepfls.inspection import PushesDisplay, ResponseCurveDisplay, ResponseSurfaceDisplay
from inspection_cases import X, Y, hostile_regressor, regressor


def test_curve_is_the_prediction_along_an_input() -> None:
    model = regressor("km")
    display = ResponseCurveDisplay.from_estimator(model, "x1", at=X[3], output=1, n_points=30)
    rows = np.repeat(X[3:4], 30, axis=0)
    rows[:, 1] = display.x
    np.testing.assert_allclose(display.y, model.predict(rows)[:, 1], rtol=1e-9)
    assert (display.y_left <= display.y).all()
    assert (display.y <= display.y_right).all()
    assert display.x[0] == model.input_range_[0, 1]
    assert display.x[-1] == model.input_range_[1, 1]
    display.figure_.canvas.draw()


def test_responses_of_a_class_are_its_probability() -> None:
    model = FLSClassifier(n_rules=3, epochs=3, random_state=0).fit(X, np.where(Y[:, 0] > Y[:, 0].mean(), "high", "low"))
    rows = np.repeat(X[3:4], 12, axis=0)
    curve = ResponseCurveDisplay.from_estimator(model, 1, at=X[3], output="low", n_points=12)
    rows[:, 1] = curve.x
    np.testing.assert_allclose(curve.y, model.predict_proba(rows)[:, 1], rtol=1e-9)
    assert curve.ax_.get_ylabel() == "probability of low"
    surface = ResponseSurfaceDisplay.from_estimator(model, (1, 0), at=X[3], n_points=12)
    rows[:, 0] = surface.y[7]
    np.testing.assert_allclose(surface.values[7], model.predict_proba(rows)[:, 0], rtol=1e-9)


def test_curve_of_a_type_1_system_has_no_band() -> None:
    display = ResponseCurveDisplay.from_estimator(regressor("t1"))
    assert len(display.ax_.collections) == 0


def test_surface_is_the_prediction_over_two_inputs() -> None:
    model = regressor("km", 1)
    display = ResponseSurfaceDisplay.from_estimator(model, ("x3", "x0"), at=X[0], n_points=9)
    row = X[0].copy()
    row[3], row[0] = display.x[2], display.y[5]
    assert display.values[5, 2] == pytest.approx(model.predict([row])[0], rel=1e-9)
    display.figure_.canvas.draw()


@pytest.mark.filterwarnings("ignore:No column of X varies")
def test_responses_are_drawn_with_hostile_names_and_constant_inputs() -> None:
    displays: list[ResponseSurfaceDisplay | ResponseCurveDisplay] = [
        ResponseSurfaceDisplay.from_estimator(hostile_regressor(), (0, 7))
    ]
    x = np.full((20, 2), 4.0)
    model = FLSRegressor(n_rules=1, epochs=1, random_state=0).fit(x, np.arange(20.0))
    displays.append(ResponseCurveDisplay.from_estimator(model, 0))
    displays.append(ResponseSurfaceDisplay.from_estimator(model, (0, 1), n_points=5))
    for display in displays:
        display.figure_.canvas.draw()  # a label that is read as a formula fails here
        low, high = display.ax_.get_xlim()
        assert low < high
        assert display.ax_.get_xlabel()


@pytest.mark.parametrize("features", [("x0",), ("x0", "x1", "x2"), "x0", X])
def test_surface_of_other_than_two_inputs_is_refused(features: Any) -> None:
    with pytest.raises(ValueError, match=r"^features must be two inputs, by name or place, got "):
        ResponseSurfaceDisplay.from_estimator(regressor("km", 1), features)


def test_pushes_are_drawn_with_the_most_important_input_first() -> None:
    model = regressor("km", 1)
    display = PushesDisplay.from_estimator(model, X, top=2)
    np.testing.assert_allclose(display.pushes[3], model.explain(X[3]).pushes.y[:, 0], rtol=1e-9)
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert labels[0] == f"x{np.abs(display.pushes).mean(axis=0).argmax()}"
    assert display.ax_.get_ylabel() == "input, 2 of 4 inputs shown"
    display.figure_.canvas.draw()


def test_pushes_of_categories_and_unknown_values_are_grey() -> None:
    table = pd.DataFrame({"size": X[:, 0], "color": np.array(["red", "blue", "green"])[np.arange(len(X)) % 3]})
    table.loc[::5, "size"] = np.nan
    display = PushesDisplay.from_estimator(FLSRegressor(n_rules=3, epochs=2, random_state=0).fit(table, Y[:, 0]), table)
    assert sorted(display.names) == ["color", "size"]
    assert np.isnan(display.values[:, display.names.index("color")]).all()
    assert np.isfinite(display.values[:, display.names.index("size")]).sum() == len(X) - len(X[::5])
