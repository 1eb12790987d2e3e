"""Pushes of the inputs are Shapley values: exact for few inputs, estimates with an exact sum for many."""

from __future__ import annotations

import itertools
import math

import numpy as np

from deepfls import FLSRegressor
from deepfls.inspection import EXACT_INPUTS, input_pushes
from deepfls.inspection.plain import PlainSystem
from inspection_cases import NEW, regressor


def test_pushes_are_the_means_over_all_orders() -> None:
    model = regressor("km", 1)
    plain = PlainSystem.of(model)
    row, reference = NEW[0], model.x_scaling_.shift
    expected = np.zeros(4)
    for order in itertools.permutations(range(4)):
        at = reference.copy()
        for m in order:
            before = plain.output(at[np.newaxis]).y[0, 0]
            at[m] = row[m]
            expected[m] += (plain.output(at[np.newaxis]).y[0, 0] - before) / math.factorial(4)
    explanation = model.explain(row)
    np.testing.assert_allclose(explanation.pushes.y[:, 0], expected, rtol=1e-9, atol=1e-9)
    assert explanation.exact_pushes


def test_pushes_of_many_inputs_are_close_to_the_exact_ones() -> None:
    rng = np.random.default_rng(0)
    n_features = EXACT_INPUTS + 2
    x = rng.normal(size=(80, n_features))
    model = FLSRegressor(n_rules=4, epochs=3, random_state=0).fit(x, x[:, 0] * x[:, 1])
    # Twelve inputs of which two are at the reference leave ten, whose pushes are exact: both methods must agree.
    plain, reference = PlainSystem.of(model), x.mean(axis=0)
    near = x[0].copy()
    near[-2:] = reference[-2:]
    exact = input_pushes(plain, near, reference)
    assert exact.exact
    near[-2:] += 1e-9
    sampled = input_pushes(plain, near, reference)
    assert not sampled.exact
    assert np.abs(sampled.pushes.y - exact.pushes.y).max() < 0.05 * np.abs(exact.pushes.y).max()


def test_inputs_at_their_reference_push_nothing() -> None:
    model = regressor("km")
    explanation = model.explain(NEW[0], reference=NEW[0])
    assert (explanation.pushes.y == 0).all()
    np.testing.assert_array_equal(explanation.base.y, explanation.y)


def test_linear_system_is_pushed_by_slope_times_distance() -> None:
    x = np.random.default_rng(0).normal(size=(50, 3))
    model = FLSRegressor(kind="t1", n_rules=1, epochs=2, random_state=0).fit(x, x @ [1.0, -2.0, 3.0])
    plain = PlainSystem.of(model)
    explanation = model.explain(x[0])
    expected = plain.slopes[0, 0] * (x[0] - explanation.reference)
    np.testing.assert_allclose(explanation.pushes.y[:, 0], expected, rtol=1e-9, atol=1e-12)
