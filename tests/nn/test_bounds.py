"""Sets within a range, and sets that rules share."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deepfls.nn import IT2FLS, T1FLS
from deepfls.nn.constraints import folded

DOUBLE = torch.float64
LOW, HIGH = torch.tensor([-1.0, 0.0, 2.0], dtype=DOUBLE), torch.tensor([1.0, 0.5, 2.0], dtype=DOUBLE)


def system(kind: str = "it2", parameterization: str = "ordered", **options: object) -> T1FLS | IT2FLS:
    torch.manual_seed(0)
    made = T1FLS if kind == "t1" else IT2FLS
    return made(3, n_rules=4, parameterization=parameterization, dtype=DOUBLE, **options)  # type: ignore[arg-type]


@given(st.floats(-1e9, 1e9), st.floats(-100, 100), st.floats(0, 100))
@settings(max_examples=200, deadline=None)
def test_folded_is_within_the_range_and_the_value_itself_inside(raw: float, low: float, span: float) -> None:
    ends = torch.tensor([low, low + span], dtype=DOUBLE)
    value = folded(torch.tensor(raw, dtype=DOUBLE), *ends)
    assert ends[0] <= value <= ends[1]
    if ends[0] <= raw <= ends[1]:
        assert value == raw


def test_folded_has_a_slope_beyond_the_ends() -> None:
    raw = torch.tensor([-0.3, 0.4, 1.7], dtype=DOUBLE, requires_grad=True)
    value = folded(raw, torch.zeros(3, dtype=DOUBLE), torch.ones(3, dtype=DOUBLE))
    torch.testing.assert_close(value.detach(), torch.tensor([0.3, 0.4, 0.3], dtype=DOUBLE))
    value.sum().backward()
    assert raw.grad is not None
    assert raw.grad.tolist() == [-1.0, 1.0, -1.0]


@pytest.mark.parametrize("kind", ["t1", "it2"])
@pytest.mark.parametrize("parameterization", ["ordered", "paper"])
def test_any_raw_values_give_centers_and_widths_within_the_range(kind: str, parameterization: str) -> None:
    made = system(kind, parameterization)
    made.antecedents.set_range(LOW, HIGH, 0.1, 2.0)
    with torch.no_grad():
        made.antecedents.raw_centers.normal_(std=50.0)
        made.antecedents.raw_sigmas.normal_(std=20.0)
        if isinstance(made, IT2FLS) and parameterization == "paper":
            assert made.antecedents.raw_spreads is not None
            made.antecedents.raw_spreads.zero_()
    assert bool(((made.centers >= LOW) & (made.centers <= HIGH)).all())
    widths = made.upper_sigmas if isinstance(made, IT2FLS) else made.sigmas
    assert bool(((widths >= 0.1 - 1e-12) & (widths <= 2.0 + 1e-12)).all())
    assert not made.antecedents.within_bounds()


def test_set_range_moves_present_sets_and_later_values_outside_are_refused() -> None:
    made = system("t1")
    made.centers, made.sigmas = 5.0, 9.0
    made.antecedents.set_range(LOW, HIGH, 0.1, 2.0)
    assert made.centers[0].tolist() == HIGH.tolist()
    torch.testing.assert_close(made.sigmas, torch.full((4, 3), 2.0, dtype=DOUBLE))
    with pytest.raises(
        ValueError, match=r"centers must be within the range that set_range was given, got 7 at index \(0, 0\)"
    ):
        made.centers = 7.0
    with pytest.raises(ValueError, match="sigmas must be within the range"):
        made.sigmas = 3.0


def test_shared_sets_are_one_parameter_and_no_condition_is_a_grade_of_one() -> None:
    made = system("it2")
    made.antecedents.share_terms([[0, 1, -1], [0, 0, 1], [1, -1, -1], [-1, -1, -1]], 2)
    assert made.antecedents.raw_centers.shape == (2, 3)
    assert made.centers.shape == (4, 3)
    assert made.centers[0, 0] == made.centers[1, 0]
    x = torch.randn(5, 3, dtype=DOUBLE)
    firing = made.antecedents(x)
    torch.testing.assert_close(firing.lower[:, 3], torch.zeros(5, dtype=DOUBLE))
    torch.testing.assert_close(firing.upper[:, 3], torch.zeros(5, dtype=DOUBLE))
    own = IT2FLS(3, n_rules=4, dtype=DOUBLE)
    own.centers, own.heights = made.centers, made.heights
    own.set_sigmas(made.lower_sigmas * (1 - 1e-12), made.upper_sigmas * (1 - 1e-12))
    own.intercepts, own.slopes = made.intercepts, made.slopes
    torch.testing.assert_close(made(x), own(x))


def test_shared_sets_gather_the_gradients_of_their_rules() -> None:
    made = system("t1", tnorm="htsk")
    made.antecedents.share_terms([[0, 1, -1], [0, 0, 1], [1, 1, 0], [0, -1, 1]], 2)
    x = torch.randn(6, 3, dtype=DOUBLE)
    raw = made.antecedents.raw_centers
    (found,) = torch.autograd.grad(made(x).sum(), raw)
    for place in ((0, 0), (1, 1), (0, 2)):
        with torch.no_grad():
            raw[place] += 1e-6
            above = made(x).sum()
            raw[place] -= 2e-6
            below = made(x).sum()
            raw[place] += 1e-6
        assert found[place].item() == pytest.approx(((above - below) / 2e-6).item(), rel=1e-5, abs=1e-9)


def test_terms_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="terms must be between -1 and 1, got 2"):
        system().antecedents.share_terms([[2, 0, 0]] * 4, 2)
    with pytest.raises(ValueError, match=r"terms must have shape \(4, 3\)"):
        system().antecedents.share_terms([[0, 0]] * 4, 2)
