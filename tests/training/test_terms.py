"""Where shared terms start, and how conditions are revised."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deepfls.nn import IT2FLS, T1FLS
from deepfls.training.terms import ConditionRevision, start_terms

RNG = np.random.default_rng(0)


def test_terms_start_in_order_within_the_range_and_keep_apart() -> None:
    rows = np.column_stack([RNG.lognormal(size=300), RNG.integers(0, 2, 300), np.full(300, 4.0)])
    span = np.stack([rows.min(axis=0), rows.max(axis=0)])
    found = start_terms(rows, span, rows[:5], [4, 3, 3], 1.0)
    for m, count in enumerate([4, 3]):
        low, high = found.low[:count, m], found.high[:count, m]
        assert (high[:-1] < low[1:]).all()  # whatever the centers do, their order stays
        assert (low >= span[0, m]).all()
        assert (high <= span[1, m]).all()
        # Neighbours cross at a grade of at most 0.952: half-widths are at most 1.5 distances at the start.
        half = found.largest[:count, m] * np.sqrt(2 * np.log(2))
        crossing = np.exp2(-(((low[1:] - high[:-1]) / (half[1:] + half[:-1])) ** 2))
        assert crossing.max() <= 2 ** -((0.8 / 3) ** 2) + 1e-9
        assert (found.smallest[:count, m] > 0.13 * found.largest[:count, m]).all()  # no word means a single value
    assert found.chosen.shape == (5, 3)
    assert found.chosen[:, 1].max() < 3
    nearest = np.abs(rows[:5, :1] - found.centers[:4, 0]).argmin(axis=1)
    assert found.chosen[:, 0].tolist() == nearest.tolist()


def revision(kind: str, **options: object) -> tuple[T1FLS | IT2FLS, ConditionRevision]:
    """A system whose second input is noise, with its output as the target."""
    torch.manual_seed(0)
    made = T1FLS(3, n_rules=4) if kind == "t1" else IT2FLS(3, n_rules=4)
    made.antecedents.share_terms(np.tile(np.arange(4)[:, None] % 3, (1, 3)), 3)
    torch.nn.init.normal_(made.consequents.raw_intercepts)
    x = torch.randn(200, 3)
    with torch.no_grad():
        y = made(x)
    return made, ConditionRevision(made, x, y, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_rules_end_with_no_more_conditions_than_allowed(kind: str) -> None:
    made, revise = revision(kind, max_conditions=2)
    changed = [revise(epoch, 20) for epoch in range(1, 21)]
    assert any(changed)
    assert not any(changed[12:])  # the last two fifths of a training are left in peace
    assert made.antecedents.terms is not None
    assert ((made.antecedents.terms >= 0).sum(dim=1) <= 2).all()
    assert ((made.antecedents.terms >= 0).sum(dim=1) >= 1).all()


def test_a_wrong_term_is_found_and_frozen_rules_keep_theirs() -> None:
    made, revise = revision("t1", n_terms=[3, 3, 3], frozen=np.array([False, True, False, False]))
    terms = made.antecedents.terms
    assert terms is not None
    made.antecedents.centers = torch.tensor([[-1.5] * 3, [0.0] * 3, [1.5] * 3])
    made.antecedents.sigmas = 0.5  # type: ignore[union-attr]
    with torch.no_grad():
        revise._y = made(revise._x).numpy().astype(np.float64)
    right = terms.clone()
    terms[0, 0] = 2
    assert not revise(20, 20)
    revise(12, 20)
    assert terms[0, 0] == right[0, 0]
    terms[1, 1] = 2
    revise(12, 20)
    assert terms[1, 1] == 2


def test_a_changed_rule_gets_intercepts_that_fit_its_new_conditions() -> None:
    made, revise = revision("t1", n_terms=[3, 3, 3])
    terms, intercepts = made.antecedents.terms, made.consequents.raw_intercepts
    assert terms is not None
    made.antecedents.centers = torch.tensor([[-1.5] * 3, [0.0] * 3, [1.5] * 3])
    made.antecedents.sigmas = 0.5  # type: ignore[union-attr]
    with torch.no_grad():
        revise._y = made(revise._x).numpy().astype(np.float64)
        right, before = terms.clone(), intercepts.detach().clone()
        terms[0, 0] = 2
        intercepts[0] -= 3.0
    revise(12, 20)
    assert torch.equal(terms, right)
    # The penalty leaves a little of the displacement of 3.
    torch.testing.assert_close(intercepts.detach(), before, rtol=0.0, atol=0.2)
