"""Outputs from firing and consequents, each reduction against its formula."""

from __future__ import annotations

import pytest
import torch

from deepfls.functional import karnik_mendel, rule_outputs, type_reduce, type_reduced_set, weighted_average
from deepfls.functional.reduction import REDUCTIONS


@pytest.fixture
def case() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    upper = torch.rand(40, 6, dtype=torch.float64, generator=generator)
    lower = upper * torch.rand(40, 6, dtype=torch.float64, generator=generator)
    return lower, upper, torch.randn(40, 6, 2, dtype=torch.float64, generator=generator)


def mean(weights: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.einsum("bp,bpo->bo", weights, y) / weights.sum(dim=1, keepdim=True)


def test_weighted_average_equals_the_quotient(case: tuple[torch.Tensor, ...]) -> None:
    _, firing, y = case
    torch.testing.assert_close(weighted_average(firing.log(), y), mean(firing, y))


def test_each_reduction_equals_its_formula(case: tuple[torch.Tensor, ...]) -> None:
    lower, upper, y = case
    mix = torch.tensor([0.2, 0.9], dtype=torch.float64)
    left, right = karnik_mendel(lower, upper, y)
    expected = {
        "km": (left + right) / 2,
        "nt": mean(lower + upper, y),
        "bmm": mix * mean(lower, y) + (1 - mix) * mean(upper, y),
        "sm": (mean(lower, y) + mean(upper, y)) / 2,
    }
    assert set(expected) == set(REDUCTIONS)
    for method, value in expected.items():
        torch.testing.assert_close(type_reduce(lower.log(), upper.log(), y, method, mix=mix), value)


@pytest.mark.parametrize("method", REDUCTIONS)
def test_crisp_output_lies_in_the_type_reduced_set(case: tuple[torch.Tensor, ...], method: str) -> None:
    lower, upper, y = case
    left, right = type_reduced_set(lower.log(), upper.log(), y)
    crisp = type_reduce(lower.log(), upper.log(), y, method, mix=torch.tensor([0.3, 0.3], dtype=torch.float64))
    assert (crisp >= left - 1e-12).all()
    assert (crisp <= right + 1e-12).all()


@pytest.mark.parametrize("method", REDUCTIONS)
def test_gradient_equals_finite_differences(case: tuple[torch.Tensor, ...], method: str) -> None:
    leaves = [t.requires_grad_() for t in (case[0][:4].log(), case[1][:4].log(), case[2][:4].clone())]
    mix = torch.tensor([0.2, 0.9], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b, c, m: type_reduce(a, b, c, method, mix=m), (*leaves, mix))


@pytest.mark.parametrize("method", REDUCTIONS)
def test_reduction_is_finite_when_lower_firing_is_lost(method: str) -> None:
    """Lower firing e^-2000 below the upper one, as the product of many small heights gives."""
    log_upper = torch.tensor([[-5000.0, -5010.0, -9000.0]], requires_grad=True)
    log_lower = (log_upper.detach() - 2000.0).requires_grad_()
    y = torch.tensor([[[1.0], [2.0], [-300.0]]], requires_grad=True)
    crisp = type_reduce(log_lower, log_upper, y, method, mix=torch.tensor([0.5]))
    crisp.sum().backward()
    assert torch.isfinite(crisp).all()
    for leaf in (log_lower, log_upper, y):
        assert leaf.grad is not None
        assert torch.isfinite(leaf.grad).all()


@pytest.mark.parametrize("method", ["bmm", "sm"])
def test_lower_average_keeps_its_own_weights_when_far_below_the_upper(method: str) -> None:
    log_lower = torch.tensor([[-2000.0, -2001.0]])
    crisp = type_reduce(log_lower, torch.zeros(1, 2), torch.tensor([[[0.0], [1.0]]]), method, mix=torch.tensor([0.5]))
    lower_mean = torch.softmax(log_lower, dim=1)[0, 1]
    torch.testing.assert_close(crisp.item(), (0.5 * lower_mean + 0.5 * 0.5).item())


def test_rule_outputs_equal_the_linear_formula() -> None:
    x, slopes, intercepts = torch.randn(5, 3), torch.randn(4, 2, 3), torch.randn(4, 2)
    expected = torch.einsum("bm,pom->bpo", x, slopes) + intercepts
    torch.testing.assert_close(rule_outputs(x, intercepts, slopes), expected)
    torch.testing.assert_close(rule_outputs(x, intercepts), intercepts.expand(5, 4, 2))


def test_bmm_without_mix_is_refused(case: tuple[torch.Tensor, ...]) -> None:
    lower, upper, y = case
    with pytest.raises(TypeError, match=r"mix must be a torch\.Tensor for method='bmm', got None\."):
        type_reduce(lower.log(), upper.log(), y, "bmm")
    with pytest.raises(ValueError, match=r"mix must have shape \(outputs,\) with outputs=2, got \(3,\)\."):
        type_reduce(lower.log(), upper.log(), y, "bmm", mix=torch.ones(3))


def test_slopes_of_wrong_shape_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"slopes must have shape \(rules, outputs, features\) = \(4, 2, 3\), got \(4, 3, 2\)\."
    ):
        rule_outputs(torch.ones(5, 3), torch.ones(4, 2), torch.ones(4, 3, 2))
