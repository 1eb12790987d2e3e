"""Response curves and surfaces, and the band, show what the estimator predicts."""

from __future__ import annotations

import numpy as np
import pytest

from deepfls import FLSRegressor
from deepfls.inspection import BandDisplay, ResponseCurveDisplay, ResponseSurfaceDisplay
from reading_cases import X, Y, hostile_regressor, regressor


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


def test_band_holds_the_predictions_in_order() -> None:
    model = regressor("km")
    display = BandDisplay.from_estimator(model, X, Y, output=1)
    drawn = display.ax_.get_lines()[0].get_ydata()
    np.testing.assert_allclose(drawn, np.sort(model.predict(X)[:, 1]), rtol=1e-9)
    assert (display.lower <= display.upper).all()
    display.figure_.canvas.draw()


def test_hostile_names_and_constant_inputs_are_drawn() -> None:
    ResponseSurfaceDisplay.from_estimator(hostile_regressor(), (0, 7)).figure_.canvas.draw()
    x = np.full((20, 2), 4.0)
    model = FLSRegressor(n_rules=1, epochs=1, random_state=0).fit(x, np.arange(20.0))
    ResponseCurveDisplay.from_estimator(model, 0).figure_.canvas.draw()
    ResponseSurfaceDisplay.from_estimator(model, (0, 1), n_points=5).figure_.canvas.draw()


def test_row_to_hold_must_fit() -> None:
    with pytest.raises(ValueError, match=r"at must be one row of shape .* with features=4, got \(2,\)\."):
        ResponseCurveDisplay.from_estimator(regressor("km"), 0, at=[1.0, 2.0])
