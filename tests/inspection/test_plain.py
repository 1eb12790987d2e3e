"""A PlainSystem is the trained system in the units of the data; its rule weights reproduce its outputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deepfls import FLSClassifier, FLSRegressor, load
from deepfls._checks.values import softmax
from deepfls.functional.constants import LOG_FLOOR, TOLERANCE
from deepfls.inspection import plain_model
from deepfls.inspection.plain import PlainSystem, RuleWeights, firing_shares
from deepfls.inspection.plain_model import outputs_of, rule_weights, shares_of
from inspection_cases import NEW, SYSTEMS, X, Y, regressor

ROUNDING = TOLERANCE * np.finfo(np.float64).eps


@pytest.mark.parametrize("name", SYSTEMS)
def test_plain_system_predicts_what_the_estimator_predicts(name: str) -> None:
    model = regressor(name)
    output = PlainSystem.of(model).output(NEW)
    np.testing.assert_allclose(output.y, model.predict(NEW), rtol=1e-9)
    assert (output.y_left <= output.y).all()
    assert (output.y <= output.y_right).all()


@pytest.mark.parametrize("name", SYSTEMS)
def test_scaled_plain_system_predicts_in_scaled_units(name: str) -> None:
    model = regressor(name)
    scaled = PlainSystem.of(model, scaled=True).output(model.x_scaling_.apply(NEW)).y
    np.testing.assert_allclose(model.y_scaling_.invert(scaled), model.predict(NEW), rtol=1e-9)


def test_plain_system_of_a_classifier_gives_its_logits() -> None:
    labels = np.where(X[:, 1] > -4, "warm", "cold")
    model = FLSClassifier(n_rules=3, epochs=3, random_state=0).fit(X, labels)
    system = PlainSystem.of(model)
    assert system.output_names == ("cold", "warm")
    np.testing.assert_allclose(softmax(system.output(X).y), model.predict_proba(X), rtol=1e-9)


def test_plain_system_carries_names_ranges_and_shares(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["power", "heat", "flow", "load"])
    model = FLSRegressor(n_rules=4, epochs=2, random_state=0).fit(frame, pd.Series(Y[:, 0], name="yield"))
    model.save(tmp_path / "model.fls")
    for system in (PlainSystem.of(model), PlainSystem.of(load(tmp_path / "model.fls"))):
        assert system.feature_names == ("power", "heat", "flow", "load")
        assert system.output_names == ("yield",)
        assert system.input_range is not None
        np.testing.assert_array_equal(system.input_range, [X.min(axis=0), X.max(axis=0)])
        assert system.rule_shares is not None
        assert system.rule_shares.sum() == pytest.approx(1.0)
        assert (system.rule_shares > 0).all()


@pytest.mark.parametrize("name", SYSTEMS)
def test_weights_reproduce_the_outputs(name: str) -> None:
    system = PlainSystem.of(regressor(name))
    weights, output, consequents = rule_weights(system, NEW), system.output(NEW), system.rule_outputs(NEW)
    for part, y in zip(weights[:3], output, strict=True):
        assert (part >= 0).all()
        np.testing.assert_allclose(part.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_allclose((part * consequents).sum(axis=1), y, rtol=1e-9)


@pytest.mark.parametrize("name", [name for name in SYSTEMS if not name.startswith("t1")])
def test_weights_at_an_end_are_bounds_of_the_firing(name: str) -> None:
    system = PlainSystem.of(regressor(name))
    weights = rule_weights(system, X)
    lower, upper = (np.exp(log)[:, :, np.newaxis] for log in system.firing(X))
    for part, beyond in ((weights.left, weights.left_upper), (weights.right, weights.right_upper)):
        firing = np.where(beyond, upper, lower)
        np.testing.assert_allclose(part, firing / firing.sum(axis=1, keepdims=True), rtol=1e-9, atol=1e-200)


def weights_of_two_rules(consequents: tuple[float, float], log_firing: float) -> RuleWeights:
    """Weights of a "km" system for one row. Upper log-firing is 0 for the first rule, ``log_firing`` for the second."""
    log_upper = np.array([[0.0, log_firing]])
    return PlainSystem.of(regressor("km", 1)).weights(log_upper - 1.0, log_upper, np.array([consequents])[:, :, np.newaxis])


@pytest.mark.parametrize("gap", [0.0, 0.5, 1.5])
def test_consequents_equal_to_an_end_up_to_rounding_take_the_upper_firing(gap: float) -> None:
    # The second rule hardly fires, so both ends are the first consequent; the tolerance is relative to the sum, here 2.
    weights = weights_of_two_rules((1.0, 1.0 + gap * ROUNDING), log_firing=-50.0)
    assert weights.left_upper[0, :, 0].tolist() == [True, True]
    assert weights.right_upper[0, :, 0].tolist() == [True, True]


def test_consequents_beyond_the_tolerance_take_the_lower_firing() -> None:
    weights = weights_of_two_rules((1.0, 1.0 + 4.0 * ROUNDING), log_firing=-50.0)
    assert weights.left_upper[0, :, 0].tolist() == [True, False]


def test_firing_far_below_the_largest_is_held_at_the_floor() -> None:
    weights = weights_of_two_rules((1.0, 2.0), log_firing=10.0 * LOG_FLOOR)
    np.testing.assert_allclose(np.log(weights.left[0, 1, 0]), LOG_FLOOR, rtol=1e-12)


def test_rows_in_chunks_give_the_same_outputs_and_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    system = PlainSystem.of(regressor("bmm"))
    monkeypatch.setattr(plain_model, "_CHUNK", 7)
    np.testing.assert_allclose(outputs_of(system, X), system.output(X).y, rtol=1e-12)
    np.testing.assert_allclose(shares_of(system, X), firing_shares(*system.firing(X)).mean(axis=0), rtol=1e-12)


def test_input_span_is_the_training_range_or_that_of_the_sets() -> None:
    system = PlainSystem.of(regressor("km"))
    assert system.input_span(1) == (X[:, 1].min(), X[:, 1].max())
    low, high = replace(system, input_range=None).input_span(1)
    assert low == (system.centers - system.upper_sigmas)[:, 1].min()
    assert high == (system.centers + system.upper_sigmas)[:, 1].max()
    assert replace(system, input_range=np.full((2, 4), 5.0)).input_span(0) == (4.5, 5.5)


@pytest.mark.parametrize("name", ["t1-constant", "km"])
def test_half_widths_are_where_the_grade_in_the_firing_is_half(name: str) -> None:
    s = PlainSystem.of(regressor(name))
    rule, feature = 1, 2
    x = s.centers[rule].copy()
    at_center = s.firing(x[np.newaxis])
    x[feature] += s.half_widths[1][rule, feature]
    np.testing.assert_allclose(s.firing(x[np.newaxis])[1][0, rule], at_center[1][0, rule] - np.log(2), rtol=1e-9)
    x[feature] = s.centers[rule, feature] - s.half_widths[0][rule, feature]
    np.testing.assert_allclose(s.firing(x[np.newaxis])[0][0, rule], at_center[0][0, rule] - np.log(2), rtol=1e-9)
