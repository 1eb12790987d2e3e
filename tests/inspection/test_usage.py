"""What can be read in a model, usage and near-duplicates of its rules, and ranks of its inputs on a table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import root_mean_squared_error

from deepfls import FLSRegressor
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.plain_model import rule_weights
from deepfls.inspection.usage import complexity_of
from inspection_cases import LABELS, X, Y, classifier, regressor

RNG = np.random.default_rng(1)
PLAIN = RNG.normal(size=(300, 3))
# The first input matters most, the last not at all.
TARGET = 5 * PLAIN[:, 0] + PLAIN[:, 1]


@pytest.fixture(scope="module")
def model() -> FLSRegressor:
    return FLSRegressor(n_rules=4, epochs=20, random_state=0).fit(PLAIN, TARGET)


def test_inputs_are_ranked_by_what_they_do(model: FLSRegressor) -> None:
    found = model.explain_data(PLAIN, TARGET)
    assert found.measure == "rmse"
    assert np.argsort(-found.permutation).tolist() == [0, 1, 2]
    assert np.argsort(-found.gradient).tolist() == [0, 1, 2]
    assert found.gradient[0] == pytest.approx(5 * PLAIN[:, 0].std(), rel=0.1)


def test_permutation_equals_a_full_pass(model: FLSRegressor) -> None:
    found = model.explain_data(PLAIN, TARGET, random_state=3)
    random = np.random.RandomState(3)
    sample = random.permutation(300)
    order = np.random.RandomState(3).permutation(300)
    x, y = PLAIN[sample], TARGET[sample]
    shuffled = x.copy()
    shuffled[:, 1] = x[order, 1]
    growth = root_mean_squared_error(y, model.predict(shuffled)) - root_mean_squared_error(y, model.predict(x))
    assert found.permutation[1] == pytest.approx(growth, rel=1e-6)


@pytest.mark.parametrize("kind", ["it2", "gt2"])
def test_permutation_equals_a_full_pass_with_unknown_and_clipped_values(kind: str) -> None:
    known = PLAIN.copy()
    known[RNG.random(known.shape) < 0.1] = np.nan
    options = {"kind": kind, "n_rules": 3, "n_systems": 2, "epochs": 3, "extrapolation": "clip", "random_state": 0}
    model = FLSRegressor(**options).fit(known[:200], TARGET[:200])
    x = known.copy()
    x[::5] *= 4.0  # beyond the range of the training rows
    found = model.explain_data(x, TARGET, random_state=3)
    sample, order = (np.random.RandomState(3).permutation(300) for _ in range(2))
    shuffled = x[sample]
    shuffled[:, 1] = x[sample][order, 1]
    before, after = (root_mean_squared_error(TARGET[sample], model.predict(rows)) for rows in (x[sample], shuffled))
    assert found.permutation[1] == pytest.approx(after - before, rel=1e-9)
    assert np.isfinite(found.gradient).all()


def test_gradient_equals_finite_differences(model: FLSRegressor) -> None:
    step = 1e-5
    up, down = PLAIN.copy(), PLAIN.copy()
    up[:, 0] += step
    down[:, 0] -= step
    slope = (model.predict(up) - model.predict(down)) / (2 * step)
    expected = np.sqrt(np.mean(slope**2)) * PLAIN[:, 0].std()
    assert model.explain_data(PLAIN).gradient[0] == pytest.approx(expected, rel=1e-3)


def test_without_true_values_the_change_of_the_outputs_counts(model: FLSRegressor) -> None:
    found = model.explain_data(PLAIN)
    order = np.random.RandomState(0).permutation(300)
    sample = PLAIN[np.random.RandomState(0).permutation(300)]
    shuffled = sample.copy()
    shuffled[:, 1] = sample[order, 1]
    change = np.sqrt(np.mean((model.predict(shuffled) - model.predict(sample)) ** 2))
    assert found.measure == "change"
    assert found.permutation[1] == pytest.approx(change, rel=1e-6)


def test_usage_adds_up() -> None:
    found = regressor("km").explain_data(X, Y)
    assert found.shares.sum() == pytest.approx(1.0)
    assert found.leads.sum() == pytest.approx(1.0)
    assert "Rules on 150 rows" in found.to_text()
    assert found._repr_html_().count("<table>") == 2


def test_classes_are_measured_by_log_loss() -> None:
    assert classifier().explain_data(X, LABELS).measure == "log_loss"


def test_duplicates_are_found() -> None:
    model = FLSRegressor(kind="t1", n_rules=3, epochs=3, random_state=0).fit(PLAIN, TARGET)
    with torch.no_grad():
        for name in ("centers", "slopes", "intercepts"):
            values = getattr(model.system_, name).clone()
            values[1] = values[0]
            setattr(model.system_, name, values)
        model.system_.sigmas = torch.ones_like(model.system_.centers)
    pairs = model.explain_data(PLAIN).duplicates
    assert [(pair.first, pair.second) for pair in pairs] == [(0, 1)]
    assert pairs[0].overlap == pytest.approx(1.0)
    assert "much like 2" in model.explain_data(PLAIN).to_text()


def test_dead_rules_are_found() -> None:
    model = FLSRegressor(kind="t1", n_rules=3, tnorm="product", epochs=3, random_state=0, centers_within="free").fit(
        PLAIN, TARGET
    )
    with torch.no_grad():
        model.system_.centers[2] += 60.0
    found = model.explain_data(PLAIN, TARGET)
    assert found.dead == (2,)
    assert found.shares[2] < 1e-9
    assert found.to_dict()["rules"][2]["dead"]
    assert PlainSystem.of(model).n_rules == 3


def test_two_rules_that_never_fire_are_no_duplicates() -> None:
    model = FLSRegressor(kind="t1", n_rules=3, tnorm="product", epochs=3, random_state=0, centers_within="free").fit(
        PLAIN, TARGET
    )
    with torch.no_grad():
        model.system_.centers[1:] += 900.0
    found = model.explain_data(PLAIN, TARGET)
    assert found.dead == (1, 2)
    assert found.duplicates == ()


def shared_system() -> PlainSystem:
    """Five rules that share two sets on the first two inputs and have no condition on the others."""
    s = PlainSystem.of(regressor("t1-constant"))
    assert s.input_range is not None
    low, high = s.input_range
    centers = np.tile(low, (5, 1))
    centers[2:] = high
    sigmas = np.tile((high - low) / 4, (5, 1))
    sigmas[:, 2], sigmas[:, 3] = np.inf, 100 * (high - low)[3]
    return replace(s, centers=centers, lower_sigmas=sigmas, upper_sigmas=sigmas)


def test_card_counts_conditions_and_different_sets() -> None:
    card = complexity_of(shared_system())
    assert card.conditions_per_rule.tolist() == [2] * 5
    assert card.sets_per_input.tolist() == [2, 2, 0, 0]
    # Centers four sigmas apart cross at two.
    assert card.overlap == pytest.approx(np.exp(-2.0))
    assert "no neighbours" not in str(card)
    assert "rows" not in str(card)


def test_card_measures_shares_of_rows() -> None:
    model = regressor("km")
    card = model.complexity(X)
    s = PlainSystem.of(model)
    assert card.n_rows == len(X)
    assert card.explained == pytest.approx((rule_weights(s, X).crisp.mean(axis=2).max(axis=1) >= 0.5).mean())
    assert card.unknown == pytest.approx((model.firing_strengths(X).upper.max(axis=1) < 0.05).mean())
    assert model.complexity(X + 1e6).unknown == 1.0
    assert card.to_dict()["rules"] == 5
    assert "rows on which no rule fires well" in card._repr_html_()


def test_simplification_states_the_card_before_and_after() -> None:
    simpler, report = regressor("km").simplify(X, Y, tolerance=5.0)
    assert report.before.n_rules == 5
    assert report.after.n_rules == simpler.n_rules < 5
    assert "readability" in str(report)
    assert report.to_dict()["after"]["rules"] == simpler.n_rules
