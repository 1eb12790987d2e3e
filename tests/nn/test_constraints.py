"""Constraints hold for any raw value, and maps invert."""

from __future__ import annotations

import math

import pytest
import torch

from deepfls.nn.constraints import (
    MAX_SIGMA,
    MIN_RATIO,
    MIN_SIGMA,
    OrderedPair,
    PaperPair,
    PaperPositive,
    Positive,
    UnitInterval,
)

EXTREMES = [0.0, 1.0, -1.0, 17.0, -17.0, 90.0, -90.0, 1e4, -1e4, 1e30, -1e30, 3e38, -3e38, 1e-40, math.inf, -math.inf]


def extreme_pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    values = torch.tensor(EXTREMES, dtype=dtype)
    first, second = torch.meshgrid(values, values, indexing="ij")
    return first.flatten(), second.flatten()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("constraint", [Positive(), PaperPositive()], ids=["ordered", "paper"])
def test_width_is_positive_for_any_raw_value(constraint: Positive, dtype: torch.dtype) -> None:
    sigmas = constraint.value(torch.tensor(EXTREMES, dtype=dtype))
    assert (sigmas > 0).all()
    assert torch.isfinite(sigmas.pow(-2)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("constraint", [OrderedPair(), PaperPair()], ids=["ordered", "paper"])
def test_lower_width_is_positive_and_not_above_upper_for_any_raw_values(
    constraint: OrderedPair, dtype: torch.dtype
) -> None:
    lower, upper = constraint.value(*extreme_pairs(dtype))
    assert (lower > 0).all()
    assert (lower <= upper).all()
    assert torch.isfinite(lower.pow(-2)).all()
    assert torch.isfinite(upper).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_height_is_within_the_unit_interval_for_any_raw_value(dtype: torch.dtype) -> None:
    raw = torch.tensor(EXTREMES, dtype=dtype)
    heights = UnitInterval().value(raw)
    assert (heights > 0).all()
    assert (heights <= 1).all()
    torch.testing.assert_close(UnitInterval().log(raw), heights.log(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_raw_inverts_value(dtype: torch.dtype) -> None:
    sigmas = torch.tensor([MIN_SIGMA * 1.001, 1e-3, 0.5, 1.0, 7.0, MAX_SIGMA * 0.999], dtype=dtype)
    heights = torch.tensor([1e-30, 1e-3, 0.5, 0.999, 1.0], dtype=dtype)
    upper = torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=dtype)
    lower = upper * torch.tensor([MIN_RATIO, 0.1, 0.9, 1.0], dtype=dtype)
    for constraint in (Positive(), PaperPositive()):
        torch.testing.assert_close(constraint.value(constraint.raw(sigmas)), sigmas)
    torch.testing.assert_close(UnitInterval().value(UnitInterval().raw(heights)), heights)
    for pair in (OrderedPair(), PaperPair()):
        again = pair.value(*pair.raw(lower, upper))
        torch.testing.assert_close(again.lower, lower)
        torch.testing.assert_close(again.upper, upper)


def test_paper_pair_is_the_papers_formula_where_that_is_valid() -> None:
    sigma, delta = torch.tensor([1.0, 0.5]), torch.tensor([0.2, -0.3])
    lower, upper = PaperPair().value(sigma, delta)
    torch.testing.assert_close(lower, sigma - delta.abs())
    torch.testing.assert_close(upper, sigma + delta.abs())


def test_paper_pair_closes_the_crossing_of_zero() -> None:
    lower, upper = PaperPair().value(torch.tensor([0.1]), torch.tensor([0.4]))
    assert 0 < lower < upper
    torch.testing.assert_close(lower, upper * MIN_RATIO)
