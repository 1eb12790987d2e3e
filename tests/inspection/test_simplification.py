"""Simplification keeps the error within the tolerance and leaves the original unchanged."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import root_mean_squared_error

from deepfls import FLSRegressor, load
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.plain_model import fill_system, shares_of
from deepfls.inspection.simplification import RuleSubset
from deepfls.nn.systems import T1FLS
from inspection_cases import LABELS, NEW, SYSTEMS, X, Y, classifier, regressor

RNG = np.random.default_rng(2)
PLAIN = RNG.uniform(-2, 2, size=(300, 2))
TARGET = np.sin(2 * PLAIN[:, 0]) + 0.3 * PLAIN[:, 1]


@pytest.mark.parametrize("name", [name for name in SYSTEMS if name != "one-rule"])
@pytest.mark.parametrize("tolerance", [0.0, 0.3])
def test_simplified_system_keeps_within_the_tolerance(name: str, tolerance: float) -> None:
    model = regressor(name, 1)
    before = copy.deepcopy(model.system_.state_dict())
    fewer, report = model.simplify(X, Y[:, 0], tolerance=tolerance)
    assert report.error_before == pytest.approx(root_mean_squared_error(Y[:, 0], model.predict(X)), rel=1e-8)
    assert report.error_after == pytest.approx(root_mean_squared_error(Y[:, 0], fewer.predict(X)), rel=1e-8)
    assert report.error_after <= report.error_before * (1 + tolerance) * (1 + 1e-9)
    assert fewer.system_.n_rules == report.n_rules_after == report.n_rules_before - len(report.steps)
    assert all(torch.equal(before[key], value) for key, value in model.system_.state_dict().items())
    assert model.n_rules == report.n_rules_before


@pytest.mark.parametrize("name", ["t1", "km", "bmm", "heights", "widths"])
def test_simplified_estimator_matches_its_plain_system_and_its_file(name: str, tmp_path: Any) -> None:
    fewer, report = regressor(name).simplify(X, Y, tolerance=1.0)
    assert report.n_rules_after < report.n_rules_before
    np.testing.assert_allclose(PlainSystem.of(fewer).output(NEW).y, fewer.predict(NEW), rtol=1e-9)
    fewer.save(tmp_path / "fewer.fls")
    np.testing.assert_array_equal(load(tmp_path / "fewer.fls").predict(NEW), fewer.predict(NEW))
    assert fewer.rule_shares_.sum() == pytest.approx(1.0)


def test_exact_copies_are_merged_without_a_larger_error() -> None:
    model = FLSRegressor(kind="it2", n_rules=6, epochs=60, random_state=0).fit(PLAIN, TARGET)
    with torch.no_grad():
        for parameter in model.system_.parameters():
            parameter[3] = parameter[0]
    _, report = model.simplify(PLAIN, TARGET, tolerance=0.0)
    assert report.steps
    assert report.error_after <= report.error_before * (1 + 1e-9)


@pytest.mark.parametrize("settings", [{"kind": "t1"}, {"kind": "it2"}, {"kind": "gt2"}, {"n_terms": 3}])
def test_rows_with_missing_values_are_simplified_for(settings: dict[str, Any]) -> None:
    x = np.where(RNG.random(PLAIN.shape) < 0.2, np.nan, PLAIN)
    model = FLSRegressor(**{"n_rules": 5, "epochs": 20, "random_state": 0, **settings}).fit(x, TARGET)
    fewer, report = model.simplify(x, TARGET, tolerance=0.5)
    assert report.steps
    assert report.error_before == pytest.approx(root_mean_squared_error(TARGET, model.predict(x)), rel=1e-8)
    assert report.error_after == pytest.approx(root_mean_squared_error(TARGET, fewer.predict(x)), rel=1e-8)
    assert report.error_after <= report.error_before * 1.5


def test_dead_rule_is_pruned() -> None:
    model = FLSRegressor(kind="t1", n_rules=4, tnorm="product", epochs=60, random_state=0, centers_within="free").fit(
        PLAIN, TARGET
    )
    with torch.no_grad():
        model.system_.centers[2] += 60.0
    _, report = model.simplify(PLAIN, TARGET, tolerance=0.0)
    assert ("3",) in [step.rules for step in report.steps if step.action == "prune"]


def test_larger_tolerance_never_keeps_more_rules() -> None:
    model = FLSRegressor(n_rules=8, epochs=40, random_state=0).fit(PLAIN, TARGET)
    left = [model.simplify(PLAIN, TARGET, tolerance=t).report.n_rules_after for t in (0.0, 0.05, 0.5, 100.0)]
    assert left == sorted(left, reverse=True)
    assert left[-1] == 1


def test_classifier_is_measured_by_its_probabilities() -> None:
    model = classifier()
    fewer, report = model.simplify(X, LABELS, tolerance=0.2)
    truth = (LABELS[:, np.newaxis] == model.classes_).astype(float)
    assert report.measure == "RMSE of the probabilities"
    assert report.error_after == pytest.approx(
        root_mean_squared_error(np.ravel(truth), np.ravel(fewer.predict_proba(X))), rel=1e-8
    )


def test_one_rule_stays() -> None:
    fewer, report = regressor("one-rule", 1).simplify(X, Y[:, 0])
    assert report.steps == ()
    assert str(report) == "The system has 1 rule: there is nothing to simplify."
    np.testing.assert_allclose(fewer.predict(NEW), regressor("one-rule", 1).predict(NEW), rtol=1e-12)


def test_report_states_that_every_step_costs_too_much() -> None:
    model = FLSRegressor(kind="t1", n_rules=2, epochs=60, random_state=0).fit(PLAIN, TARGET)
    report = model.simplify(PLAIN, TARGET, tolerance=0.01).report
    assert report.n_rules_after == 2
    assert str(report) == "All 2 rules stay: every step would increase the RMSE by more than 1.00%."


def test_report_tells_every_step() -> None:
    report = regressor("km", 1).simplify(X, Y[:, 0], tolerance=1.0).report
    lines = str(report).splitlines()
    assert re.match(r"5 rules became \d: RMSE [\d.]+ became [\d.]+ \([+-][\d.]+%, \+100.00% allowed\)\.", lines[0])
    assert lines.index("") == 1 + len(report.steps)
    assert report.to_dict()["steps"][0]["action"] in ("merge", "prune")


def test_simplified_estimator_can_be_trained_on() -> None:
    fewer = regressor("km", 1).simplify(X, Y[:, 0], tolerance=1.0).estimator
    fewer.set_params(warm_start=True, epochs=2)
    assert fewer.fit(X, Y[:, 0]).system_.n_rules == fewer.n_rules


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tolerance": -0.1}, "tolerance must be at least 0, got -0.1."),
        ({"y": Y[:3, 0]}, "X and y must have the same number of rows, got 150 and 3."),
        ({"y": None}, "y must be given: the true values of the rows of X."),
        ({"y": np.full(150, np.nan)}, "y must be finite, got NaN in row"),
    ],
)
def test_simplify_refuses_what_makes_no_sense(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        regressor("km", 1).simplify(X, **{"y": Y[:, 0], **arguments})


def test_simplify_refuses_unknown_classes() -> None:
    with pytest.raises(ValueError, match=r"y must hold classes the model was trained on, got 'hot'\."):
        classifier().simplify(X, np.full(150, "hot"))


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


@pytest.mark.parametrize("name", ["t1", "nt"])
def test_refit_with_missing_values_is_a_least_squares_solution(name: str) -> None:
    s, z = scaled(name)
    z = np.where(np.random.default_rng(3).random(z.shape) < 0.2, np.nan, z)
    targets = regressor(name).y_scaling_.apply(Y)
    fitted = RuleSubset.of(s, z).refitted(z, targets, len(z)).plain

    def error(system: PlainSystem) -> float:
        return float(np.square(system.output(z).y - targets).sum())

    for field in ("intercepts", "slopes"):
        values = getattr(fitted, field)
        for step in (-1e-3, 1e-3):
            changed = values.copy()
            changed[1] += step
            assert error(replace(fitted, **{field: changed})) > error(fitted)


def test_filled_system_has_the_values() -> None:
    s, _ = scaled("t1")
    changed = replace(s, centers=s.centers + 0.5, intercepts=2.0 * s.intercepts)
    system = T1FLS(s.n_features, s.n_outputs, n_rules=s.n_rules).double()
    fill_system(system, changed)
    for name, expected in (("centers", changed.centers), ("sigmas", s.upper_sigmas), ("intercepts", changed.intercepts)):
        np.testing.assert_allclose(getattr(system, name).detach().numpy(), expected, rtol=1e-9)


def test_conditions_are_left_out_where_rules_share_terms() -> None:
    model = FLSRegressor(n_rules=4, n_terms=2, epochs=4, random_state=0).fit(X, Y[:, 0])
    fewer, report = model.simplify(X, Y[:, 0], tolerance=0.5)
    assert {step.action for step in report.steps} <= {"prune", "drop"}
    dropped = [step for step in report.steps if step.action == "drop"]
    assert dropped
    rule, name = dropped[0].rules
    assert f"  rule {rule} without {name}: " in str(report)
    assert report.after.conditions_per_rule.sum() < report.before.conditions_per_rule.sum()
    assert report.error_after <= 1.5 * report.error_before
    assert np.isinf(PlainSystem.of(fewer).upper_sigmas).sum() >= len(dropped)
