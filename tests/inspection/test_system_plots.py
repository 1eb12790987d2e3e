"""Sets before and after training, firing along an input, responses that equal the predictions, and pushes of many rows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deepfls import FLSClassifier, FLSRegressor, load
from deepfls.inspection import (
    FiringMapDisplay,
    MembershipsDisplay,
    PushesDisplay,
    ResponseCurveDisplay,
    ResponseSurfaceDisplay,
)
from deepfls.inspection.display import label
from deepfls.inspection.plain import PlainSystem
from inspection_cases import HOSTILE, X, Y, hostile_regressor, regressor


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_sets_before_training_are_those_it_began_with(kind: str, tmp_path: Any) -> None:
    start = FLSRegressor(kind=kind, n_rules=3, epochs=1, learning_rate=1e-12, random_state=0).fit(X, Y[:, 0])
    trained = FLSRegressor(kind=kind, n_rules=3, epochs=20, random_state=0).fit(X, Y[:, 0])
    np.testing.assert_allclose(trained.initial_sets_[0], PlainSystem.of(start).centers, rtol=1e-5)
    np.testing.assert_allclose(trained.initial_sets_[2], PlainSystem.of(start).upper_sigmas, rtol=1e-5)
    assert not np.allclose(trained.initial_sets_[0], PlainSystem.of(trained).centers, rtol=1e-5)
    trained.save(tmp_path / "m.fls")
    np.testing.assert_array_equal(load(tmp_path / "m.fls").initial_sets_, trained.initial_sets_)


def test_start_survives_a_warm_start() -> None:
    model = FLSRegressor(n_rules=3, epochs=2, warm_start=True, random_state=0).fit(X, Y[:, 0])
    first = model.initial_sets_.copy()
    np.testing.assert_array_equal(model.fit(X, Y[:, 0]).initial_sets_, first)


def test_plot_memberships_draws_chosen_inputs_before_and_after() -> None:
    display = regressor("km").plot_memberships(features=["x2", 0], rules=[1], before=True)
    assert list(display.names) == ["x2", "x0"]
    assert display.before is not None
    dotted = [line for line in display.axes_[0].get_lines() if line.get_linestyle() == ":"]
    np.testing.assert_array_equal(dotted[0].get_ydata(), display.before[0][:, 1])
    assert display.figure_.legends[0].get_texts()[-1].get_text() == "before training"
    display.figure_.canvas.draw()


def test_leading_rules_are_drawn_in_colour() -> None:
    model = FLSRegressor(n_rules=10, epochs=1, random_state=0).fit(X, Y[:, 0])
    display = model.plot_memberships(features=[0])
    shown = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert shown == [f"rule {p + 1}" for p in sorted(np.argsort(-model.rule_shares_)[:7])]


def test_model_without_a_record_of_its_start_says_so() -> None:
    model = FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(X, Y[:, 0])
    del model.initial_sets_
    with pytest.raises(ValueError, match=r"before must be False for a model that has no record"):
        MembershipsDisplay.from_estimator(model, before=True)


def test_firing_map_averages_the_shares_of_each_bin() -> None:
    model = regressor("km")
    display = FiringMapDisplay.from_estimator(model, X, feature="x1", n_bins=5)
    np.testing.assert_allclose(np.nansum(display.shares, axis=0), 1.0)
    firing = model.firing_strengths(X)
    weight = firing.lower + firing.upper
    weight /= weight.sum(axis=1, keepdims=True)
    inside = (X[:, 1] >= display.edges[2]) & (X[:, 1] < display.edges[3])
    np.testing.assert_allclose(display.shares[:, 2], weight[inside].mean(axis=0), rtol=1e-8)
    display.figure_.canvas.draw()


def test_firing_map_of_a_constant_input_is_drawn() -> None:
    x = X.copy()
    x[:, 0] = 3.0
    with pytest.warns(UserWarning, match="same value in every row"):
        model = FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(x, Y[:, 0])
    FiringMapDisplay.from_estimator(model, x, feature=0).figure_.canvas.draw()


@pytest.mark.parametrize("name", ["t1", "km"])
def test_memberships_are_those_of_the_system_in_the_units_of_the_data(name: str) -> None:
    model = regressor(name)
    display = MembershipsDisplay.from_estimator(model, n_points=101)
    assert list(display.names) == ["x0", "x1", "x2", "x3"]
    for feature, (grid, lower, upper) in enumerate(zip(display.grids, display.lower, display.upper, strict=True)):
        assert (lower <= upper).all()
        center = model.x_scaling_.invert(model.system_.centers.numpy())[0, feature]
        peak = grid[upper[:, 0].argmax()]
        assert abs(peak - center) <= grid[1] - grid[0]


def test_memberships_of_narrow_sets_reach_their_peaks() -> None:
    model = FLSRegressor(n_rules=3, epochs=0, centers_within="free", random_state=0).fit(X, Y[:, 0])
    model.system_.set_sigmas(0.0005, 0.001)
    display = MembershipsDisplay.from_estimator(model)
    for grid, upper in zip(display.grids, display.upper, strict=True):
        assert (np.diff(grid) > 0).all()
        np.testing.assert_allclose(upper.max(axis=0), 1.0)
        assert (((upper > 0.2) & (upper < 0.9)).sum(axis=0) >= 4).all()  # both slopes of every set


def test_memberships_of_rules_without_a_condition_are_drawn() -> None:
    model = FLSRegressor(n_rules=3, epochs=1, max_conditions=1, random_state=0).fit(X, Y[:, 0])
    display = MembershipsDisplay.from_estimator(model)
    assert all(np.isfinite(grid).all() for grid in display.grids)
    display.plot().figure_.canvas.draw()


def test_memberships_are_drawn_with_hostile_names() -> None:
    display = MembershipsDisplay.from_estimator(hostile_regressor()).plot(rules=[0, 2])
    assert [ax.get_xlabel() for ax in display.axes_[: len(HOSTILE)]] == [label(name) for name in HOSTILE]
    display.figure_.canvas.draw()


def test_memberships_of_a_general_system_show_its_planes_inside_the_widest() -> None:
    shown = MembershipsDisplay.from_estimator(regressor("gt2")).plot()
    assert shown.inner is not None
    for panel, planes in enumerate(shown.inner):
        assert len(planes) == 2  # α = 0.5 and 1
        bounds = [(shown.lower[panel], shown.upper[panel]), *planes]
        for (outer_low, outer_up), (low, up) in itertools.pairwise(bounds):
            assert (outer_low <= low + 1e-12).all()
            assert (up <= outer_up + 1e-12).all()
        np.testing.assert_allclose(*planes[-1])
    plain = PlainSystem.of(regressor("gt2"))
    assert (shown.upper[0] > shown.inner[0][-1][1] + 0.01).any()
    assert plain.plane(1.0).kind == "t1"
    assert MembershipsDisplay.from_estimator(regressor("km")).inner is None


def test_plot_says_what_it_leaves_out_and_keeps_the_most_important_inputs() -> None:
    x = np.random.default_rng(0).normal(size=(120, 12))
    model = FLSRegressor(n_rules=9, epochs=2, random_state=0).fit(x, x[:, 11] - x[:, 4])
    display = model.plot_memberships()
    assert set(display.names[:2]) == {"x11", "x4"}
    title = display.figure_.legends[0].get_title().get_text()
    assert title == "9 of 12 inputs shown; 7 of 9 rules in colour, the others grey"
    assert all(ax.get_ylabel() and ax.get_xlabel() for ax in display.axes_[:9])


def test_sets_are_drawn_as_they_act_in_the_firing() -> None:
    model = regressor("km")
    display = MembershipsDisplay.from_estimator(model, features=[0])
    s = PlainSystem.of(model)
    expected = np.exp(-((display.grids[0] - s.centers[3, 0]) ** 2) / (2 * 4 * s.upper_sigmas[3, 0] ** 2))
    np.testing.assert_allclose(display.upper[0][:, 3], expected, rtol=1e-9)


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


@pytest.mark.parametrize("features", [("x0",), ("x0", "x1", "x2"), "x0", X])
def test_surface_of_other_than_two_inputs_is_refused(features: Any) -> None:
    with pytest.raises(ValueError, match=r"^features must be two inputs, by name or place, got "):
        ResponseSurfaceDisplay.from_estimator(regressor("km", 1), features)


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


def test_rows_whose_input_is_not_known_are_in_no_bin_of_the_map() -> None:
    x = X.copy()
    x[::2, 0] = np.nan
    model = FLSRegressor(kind="t1", n_rules=3, epochs=2, random_state=0).fit(x, Y[:, 0])
    found = FiringMapDisplay.from_estimator(model, x, n_bins=5)
    known = FiringMapDisplay.from_estimator(model, x[1::2], n_bins=5)
    np.testing.assert_array_equal(found.edges, known.edges)
    np.testing.assert_array_equal(found.shares, known.shares)
