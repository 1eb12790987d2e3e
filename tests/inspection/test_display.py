"""Displays draw what they are given, whatever the names, and do not use pyplot."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from deepfls import FLSRegressor
from deepfls.inspection import (
    BandDisplay,
    CoverageDisplay,
    FiringMapDisplay,
    IntervalDisplay,
    LearningCurveDisplay,
    PredictionDisplay,
    PushesDisplay,
    WidthErrorDisplay,
)
from deepfls.inspection.display import label
from inspection_cases import LABELS, X, Y, classifier, regressor


def test_label_is_one_line_of_plain_text() -> None:
    assert label("cost in $") == r"cost in \$"
    assert label("a\n b") == "a b"
    assert len(label("x" * 300)) == 40


def test_plots_do_not_touch_pyplot() -> None:
    source = (
        "import sys; from deepfls.inspection import LearningCurveDisplay; "
        "LearningCurveDisplay([{'epoch': 1.0, 'loss': 1.0}]).plot(); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_learning_curve_shows_training_and_validation() -> None:
    model = FLSRegressor(n_rules=3, epochs=3, patience=2, random_state=0).fit(X, Y[:, 0])
    display = LearningCurveDisplay.from_estimator(model, name="plant")
    training, validation = display.ax_.get_lines()
    np.testing.assert_allclose(training.get_ydata(), [row["loss"] for row in model.history_])
    np.testing.assert_allclose(validation.get_ydata(), [row["validation_loss"] for row in model.history_])
    assert training.get_label() == "plant, training"


@pytest.mark.parametrize("n_rows", [10, 5000])
def test_predictions_are_drawn_as_points_or_counted(n_rows: int) -> None:
    y = np.linspace(0, 1, n_rows)
    display = PredictionDisplay(y, y**2).plot(name="y$")
    assert display.ax_.get_xlabel() == r"true y\$"
    assert len(display.ax_.collections) == 1
    display.figure_.canvas.draw()


@pytest.mark.parametrize("over_x", [False, True])
def test_intervals_are_drawn_as_a_band_with_the_misses_marked(over_x: bool) -> None:
    y = np.array([0.0, 1.0, 2.0, 9.0])
    x = np.array([3.0, 1.0, 2.0, 0.0]) if over_x else None
    display = IntervalDisplay(y, np.array([0.1, 0.9, 2.1, 3.0]), y.clip(max=3) - 1, y.clip(max=3) + 1, x).plot(
        name="y$", x_name="t$"
    )
    band, inside, outside = display.ax_.collections
    assert len(inside.get_offsets()) == 3
    assert outside.get_offsets().tolist() == [[0.0 if over_x else 4.0, 9.0]]
    assert band.get_label() == "interval"
    assert display.ax_.get_xlabel() == (r"t\$" if over_x else "rows, ranked by prediction")
    display.figure_.canvas.draw()


def test_coverage_is_drawn_against_nominal() -> None:
    x = np.random.default_rng(0).normal(size=(200, 1))
    model = FLSRegressor(n_rules=2, epochs=2, coverage=0.9, random_state=0).fit(x, x[:, 0])
    display = CoverageDisplay.from_estimator(model, x, x[:, 0])
    assert display.nominal.max() == 0.95  # 39 rows promise no more than 0.975
    _, line = display.ax_.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), display.covered)
    expected = np.mean(
        [low <= y <= high for y, low, high in zip(x[:, 0], *model.predict_interval(x, coverage=0.5), strict=True)]
    )
    assert display.covered[np.isclose(display.nominal, 0.5)] == expected


@pytest.mark.parametrize("n_rows", [5, 40, 5000])
def test_widths_are_drawn_against_errors_with_the_means_of_tenths(n_rows: int) -> None:
    width = np.linspace(1, 2, n_rows)
    display = WidthErrorDisplay(width, -width / 4).plot(name="y$")
    means = display.ax_.get_lines()[0]
    np.testing.assert_allclose(means.get_ydata(), means.get_xdata() / 4)
    assert len(means.get_xdata()) == min(n_rows, 10)
    assert display.ax_.get_xlabel() == r"width of the interval of y\$"
    display.figure_.canvas.draw()


def test_band_holds_the_predictions_in_order() -> None:
    model = regressor("km")
    display = BandDisplay.from_estimator(model, X, Y, output=1)
    drawn = display.ax_.get_lines()[0].get_ydata()
    np.testing.assert_allclose(drawn, np.sort(model.predict(X)[:, 1]), rtol=1e-9)
    assert (display.lower <= display.upper).all()
    display.figure_.canvas.draw()


def test_predictions_come_from_an_estimator() -> None:
    model = regressor("t1")
    display = PredictionDisplay.from_estimator(model, X, Y, output=1)
    np.testing.assert_array_equal(display.y_pred, model.predict(X)[:, 1])
    assert display.ax_.get_xlabel() == "true y1"


def test_intervals_of_an_estimator_are_those_it_predicts() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(900, 2))
    y = x[:, 0] + random.normal(size=900)
    model = FLSRegressor(kind="t1", n_rules=2, epochs=2, coverage=0.8, random_state=0).fit(x[:450], y[:450])
    lower, upper = model.predict_interval(x)
    band = IntervalDisplay.from_estimator(model, x, y)
    np.testing.assert_array_equal(band.upper, upper[::3])
    np.testing.assert_array_equal(band.y_true, y[::3])
    widths = WidthErrorDisplay.from_estimator(model, x, y, coverage=0.8)
    np.testing.assert_array_equal(widths.width, upper - lower)
    np.testing.assert_array_equal(widths.error, y - model.predict(x))


@pytest.mark.parametrize("display", [PredictionDisplay, IntervalDisplay, WidthErrorDisplay, CoverageDisplay, BandDisplay])
def test_displays_refuse_true_values_that_do_not_fit(display: Any) -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = x[:, 0]
    model = FLSRegressor(n_rules=2, epochs=2, coverage=0.8, random_state=0).fit(x, y)
    display.from_estimator(model, x, y[:, None])
    with pytest.raises(ValueError, match=r"^X and y must have the same number of rows, got 60 and 5\.$"):
        display.from_estimator(model, x, y[:5])
    with pytest.raises(ValueError, match=r"^y must hold numbers, got text \('a'\)"):
        display.from_estimator(model, x, ["a"] * 60)
    with pytest.raises(ValueError, match=r"^y must have 1 column for this model, got shape \(60, 2\)\.$"):
        display.from_estimator(model, x, x)
    if display is not CoverageDisplay:
        with pytest.raises(ValueError, match=r"^output must be between 0 and 0, got 1\.$"):
            display.from_estimator(model, x, y, output=1)


def test_learning_curve_of_an_estimator_that_is_not_fitted_is_refused() -> None:
    with pytest.raises(NotFittedError):
        LearningCurveDisplay.from_estimator(FLSRegressor())


def test_displays_refuse_counts_and_rules_that_do_not_exist() -> None:
    model = regressor("t1")
    with pytest.raises(ValueError, match=r"^n_bins must be at least 1, got 0\.$"):
        FiringMapDisplay.from_estimator(model, X, n_bins=0)
    with pytest.raises(ValueError, match=r"^top must be at least 1, got 0\.$"):
        PushesDisplay.from_estimator(model, X, top=0)
    with pytest.raises(ValueError, match=r"^rules must be between 0 and \d, got 99\.$"):
        model.plot_memberships(rules=[99])
    with pytest.raises(ValueError, match=r"^features must name at least one input, got none\.$"):
        model.plot_memberships(features=[])


@pytest.mark.parametrize("feature", ["x1", 1, np.int64(1)])
def test_one_input_and_rule_need_no_list(feature: Any) -> None:
    assert regressor("t1").plot_memberships(features=feature, rules=1).names == ["x1"]


def test_output_of_a_display_may_be_a_name() -> None:
    model = regressor("t1")
    by_name = PredictionDisplay.from_estimator(model, X, model.predict(X), output=model.target_names_[0])
    assert by_name.ax_.get_xlabel() == f"true {model.target_names_[0]}"


def test_displays_of_numbers_refuse_classes() -> None:
    for display in (PredictionDisplay, CoverageDisplay, IntervalDisplay, WidthErrorDisplay):
        with pytest.raises(ValueError, match=r"^estimator must be a regressor, got a classifier; "):
            display.from_estimator(classifier(), X=X, y=LABELS)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="y must be None for a classifier"):
        BandDisplay.from_estimator(classifier(), X, LABELS)
