"""Pruned, merged and refitted systems, and the values stored with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deepfls.inspection.plain import PlainSystem, shares_of
from deepfls.inspection.simplification import RuleSubset, fill_system
from deepfls.nn.systems import T1FLS
from inspection_cases import SYSTEMS, X, Y, regressor

SEVERAL_RULES = [name for name in SYSTEMS if name != "one-rule"]
FIELDS = ("centers", "lower_sigmas", "upper_sigmas", "log_heights", "intercepts", "slopes")


def scaled(name: str) -> tuple[PlainSystem, np.ndarray]:
    """A system in scaled units, and rows for it."""
    model = regressor(name)
    return PlainSystem.of(model, scaled=True), model.x_scaling_.apply(X)


def assert_values_are_those_of_the_system(subset: RuleSubset, z: np.ndarray) -> None:
    for stored, computed in zip(subset.values, subset.plain.rule_values(z), strict=True):
        np.testing.assert_allclose(stored, computed, rtol=1e-12, atol=1e-14)
    assert len(subset.numbers) == subset.plain.n_rules == subset.values.log_upper.shape[1]


@pytest.mark.parametrize("name", SEVERAL_RULES)
def test_stored_values_follow_every_change(name: str) -> None:
    s, z = scaled(name)
    subset = RuleSubset.of(s, z).merged(3, 1, shares_of(s, z), z)
    assert subset.numbers == ["1", "3", "4+2", "5"]
    assert_values_are_those_of_the_system(subset, z)
    fewer = subset.pruned([0, 3])
    assert fewer.numbers == ["3", "4+2"]
    assert_values_are_those_of_the_system(fewer, z)
    assert_values_are_those_of_the_system(fewer.refitted(z, regressor(name).y_scaling_.apply(Y), 100), z)
    assert fewer.first_rows(7).values.consequents.shape[0] == 7


@pytest.mark.parametrize("name", SEVERAL_RULES)
def test_merged_copies_are_the_rule_itself(name: str) -> None:
    s, z = scaled(name)
    copies = {field: getattr(s, field)[[0, 0, 2]] for field in FIELDS}
    doubled = replace(s, rule_shares=None, **copies)
    merged = RuleSubset.of(doubled, z).merged(0, 1, np.array([0.3, 0.5, 0.2]), z).plain
    for field in FIELDS:
        np.testing.assert_allclose(getattr(merged, field)[0], copies[field][0], rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(getattr(merged, field)[1], copies[field][2])


def test_merged_rule_has_the_width_of_a_mixture() -> None:
    s, z = scaled("t1")
    merged = RuleSubset.of(s, z).merged(0, 1, np.array([0.6, 0.2, 0.1, 0.05, 0.05]), z).plain
    center = 0.75 * s.centers[0] + 0.25 * s.centers[1]
    variance = 0.75 * (s.upper_sigmas[0] ** 2 + (s.centers[0] - center) ** 2)
    variance += 0.25 * (s.upper_sigmas[1] ** 2 + (s.centers[1] - center) ** 2)
    np.testing.assert_allclose(merged.centers[0], center, rtol=1e-12)
    np.testing.assert_allclose(merged.upper_sigmas[0], np.sqrt(variance), rtol=1e-12)


@pytest.mark.parametrize("name", ["t1", "nt", "bmm"])
def test_refit_lowers_the_error_where_weights_do_not_depend_on_consequents(name: str) -> None:
    s, z = scaled(name)
    targets = regressor(name).y_scaling_.apply(Y)
    subset = RuleSubset.of(s, z).pruned([0, 1])
    fitted = subset.refitted(z, targets, len(z))
    before, after = (np.mean((one.plain.reduced(*one.values).y - targets) ** 2) for one in (subset, fitted))
    assert after < before


def test_filled_system_has_the_values() -> None:
    s, _ = scaled("t1")
    changed = replace(s, centers=s.centers + 0.5, intercepts=2.0 * s.intercepts)
    system = T1FLS(s.n_features, s.n_outputs, n_rules=s.n_rules).double()
    fill_system(system, changed)
    for name, expected in (("centers", changed.centers), ("sigmas", s.upper_sigmas), ("intercepts", changed.intercepts)):
        np.testing.assert_allclose(getattr(system, name).detach().numpy(), expected, rtol=1e-9)
