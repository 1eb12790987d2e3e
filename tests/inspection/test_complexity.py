"""The readability card counts what can be read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deepfls.inspection.complexity import complexity_of
from deepfls.inspection.plain import PlainSystem, rule_weights
from inspection_cases import X, Y, regressor


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
