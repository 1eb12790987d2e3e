"""Losses: values, gradients, extremes, and what their options refuse."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from deepfls.functional.losses import LOSSES, QuantileLoss, SetLoss, cross_entropy, huber, l1, l2, log_cosh, pinball

# Errors on both sides of zero and of every kink, none of them on one.
ERRORS = torch.tensor([[-3.0], [-0.7], [-1e-3], [1e-3], [0.4], [2.5]], dtype=torch.float64)
TARGET = torch.tensor([[0.3], [-1.0], [2.0], [0.0], [5.0], [-4.0]], dtype=torch.float64)


def elementwise(formula: Callable[[float], float]) -> Tensor:
    """The formula of the error y - t at each of ERRORS."""
    return torch.tensor([[formula(e)] for e in ERRORS[:, 0].tolist()], dtype=torch.float64)


FORMULAS: dict[str, tuple[Callable[..., Tensor], Callable[[float], float]]] = {
    "l1": (l1, abs),
    "l2": (l2, lambda e: e * e),
    "huber": (huber, lambda e: 0.5 * e * e if abs(e) <= 1.0 else abs(e) - 0.5),
    "huber delta 0.5": (
        functools.partial(huber, delta=0.5),
        lambda e: 0.5 * e * e if abs(e) <= 0.5 else 0.5 * (abs(e) - 0.25),
    ),
    "log-cosh": (log_cosh, lambda e: math.log(math.cosh(e))),
    "pinball": (pinball, lambda e: 0.5 * abs(e)),
    "pinball quantile 0.9": (functools.partial(pinball, quantile=0.9), lambda e: -0.9 * e if e < 0 else 0.1 * e),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_loss_equals_its_formula(name: str) -> None:
    loss, formula = FORMULAS[name]
    torch.testing.assert_close(loss(TARGET + ERRORS, TARGET), elementwise(formula), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", FORMULAS)
def test_loss_is_zero_at_the_target(name: str) -> None:
    loss, _ = FORMULAS[name]
    torch.testing.assert_close(loss(TARGET, TARGET), torch.zeros_like(TARGET))


@pytest.mark.parametrize("name", FORMULAS)
def test_loss_gradient_equals_finite_differences(name: str) -> None:
    loss, _ = FORMULAS[name]
    y = (TARGET + ERRORS).requires_grad_()
    assert torch.autograd.gradcheck(lambda y: loss(y, TARGET), (y,), eps=1e-7, atol=1e-6)


@pytest.mark.parametrize("name", FORMULAS)
def test_loss_keeps_one_entry_per_sample_and_output(name: str) -> None:
    loss, _ = FORMULAS[name]
    assert loss(torch.zeros(5, 3), torch.ones(5, 3)).shape == (5, 3)


@pytest.mark.parametrize("error", [1e6, -1e6])
def test_log_cosh_is_linear_when_the_error_is_large(error: float) -> None:
    y = torch.tensor([[error]], requires_grad=True)
    value = log_cosh(y, torch.zeros(1, 1))
    value.sum().backward()
    assert value.item() == pytest.approx(1e6 - math.log(2.0), rel=1e-6)
    assert y.grad is not None
    assert y.grad.item() == math.copysign(1.0, error)


def test_log_cosh_gradient_is_zero_at_the_target() -> None:
    y = torch.zeros(1, 1, requires_grad=True)
    log_cosh(y, torch.zeros(1, 1)).sum().backward()
    assert y.grad is not None
    assert y.grad.item() == 0.0


def test_pinball_is_smallest_at_the_quantile() -> None:
    target = torch.linspace(0.0, 1.0, 1001, dtype=torch.float64).unsqueeze(1)
    candidates = torch.linspace(0.0, 1.0, 101, dtype=torch.float64)
    losses = torch.stack([pinball(c.expand(1001, 1), target, quantile=0.9).mean() for c in candidates])
    assert candidates[losses.argmin()].item() == pytest.approx(0.9, abs=0.011)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_cross_entropy_equals_torch(n_classes: int) -> None:
    logits = torch.randn(7, n_classes, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    classes = torch.arange(7) % n_classes
    found = cross_entropy(logits, classes.unsqueeze(1).double())
    expected = torch.nn.functional.cross_entropy(logits, classes, reduction="none").unsqueeze(1)
    torch.testing.assert_close(found, expected)


def test_cross_entropy_gradient_equals_finite_differences() -> None:
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    target = torch.tensor([[0.0], [2.0], [1.0], [2.0]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda y: cross_entropy(y, target), (logits,))


def test_cross_entropy_is_finite_when_logits_are_huge() -> None:
    logits = torch.tensor([[1e30, -1e30]])
    assert cross_entropy(logits, torch.tensor([[0.0]])).item() == 0.0


@pytest.mark.parametrize("name", LOSSES)
def test_loss_by_name_keeps_the_dtype(name: str) -> None:
    target = torch.zeros(2, 1, dtype=torch.float64)
    assert LOSSES[name](torch.ones(2, 1, dtype=torch.float64), target).dtype == torch.float64


@pytest.mark.parametrize(
    ("loss", "options", "error", "message"),
    [
        (huber, {"delta": 0.0}, ValueError, "delta must be greater than 0, got 0.0."),
        (huber, {"delta": "1"}, TypeError, "delta must be a number, got '1'."),
        (huber, {"delta": math.inf}, ValueError, "delta must be greater than 0 and finite, got inf."),
        (pinball, {"quantile": 0.0}, ValueError, "quantile must be greater than 0 and less than 1, got 0.0."),
        (pinball, {"quantile": 1}, ValueError, "quantile must be greater than 0 and less than 1, got 1."),
        (pinball, {"quantile": math.nan}, ValueError, "quantile must be greater than 0 and less than 1, got nan."),
        (pinball, {"quantile": True}, TypeError, "quantile must be a number, got True."),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_loss_refuses_an_option(
    loss: Callable[..., Tensor], options: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        loss(torch.zeros(1, 1), torch.zeros(1, 1), **options)
    assert str(caught.value) == message


@pytest.mark.parametrize("coverage", [0.5, 0.9])
@pytest.mark.parametrize("weight", [0.0, 1.0, 2.5])
def test_set_loss_is_the_point_loss_and_the_pinball_losses_of_the_ends(coverage: float, weight: float) -> None:
    y_left, y_right, y = TARGET - 1.0, TARGET + 0.4, TARGET + ERRORS
    tail = (1.0 - coverage) / 2.0
    expected = l2(y, TARGET) + weight * (pinball(y_left, TARGET, tail) + pinball(y_right, TARGET, 1.0 - tail))
    torch.testing.assert_close(SetLoss(l2, coverage, weight)(y_left, y_right, y, TARGET), expected)


def test_set_loss_gradient_equals_finite_differences() -> None:
    ends = tuple((TARGET + shift * ERRORS).requires_grad_() for shift in (0.7, 1.3, 1.0))
    loss = SetLoss(log_cosh, coverage=0.9, weight=0.5)
    assert torch.autograd.gradcheck(lambda *ends: loss(*ends, TARGET), ends, eps=1e-7, atol=1e-6)


def test_set_loss_is_smallest_at_the_quantiles() -> None:
    target = torch.randn(20_001, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    loss = SetLoss(l2, coverage=0.9)
    left, right = target.quantile(0.05), target.quantile(0.95)

    def at(left_shift: float, right_shift: float) -> float:
        ones = torch.ones_like(target)
        return float(loss((left + left_shift) * ones, (right + right_shift) * ones, 0.0 * ones, target).mean())

    for shift in (-0.2, 0.2):
        assert at(0.0, 0.0) < min(at(shift, 0.0), at(0.0, shift))


@pytest.mark.parametrize(
    ("options", "message"), [((1.0, 1.0), "coverage must be"), ((0.9, -1.0), "interval_weight must be")]
)
def test_set_loss_refuses_what_is_no_share_or_weight(options: tuple[float, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SetLoss(l2, *options)


def test_quantile_loss_is_the_pinball_loss_of_both_ends_at_the_level_of_each_row() -> None:
    torch.manual_seed(0)
    left, right, target = (torch.randn(6, 2, dtype=torch.float64) for _ in range(3))
    alphas = torch.rand(6, dtype=torch.float64)
    found = QuantileLoss()(left, right, target, alphas)
    for row, alpha in enumerate(alphas.tolist()):
        ends = pinball(left[row], target[row], alpha / 2) + pinball(right[row], target[row], 1 - alpha / 2)
        torch.testing.assert_close(found[row], ends)


def test_levels_of_quantile_loss_fill_the_unit_interval_and_change_with_the_step() -> None:
    loss, target = QuantileLoss(), torch.zeros(64, 1)
    first, second = loss.alphas(target, 0), loss.alphas(target, 1)
    for levels in (first, second):
        assert ((levels > 0) & (levels < 1)).all()
        assert levels.sort().values.diff().max() < 3 / 64
    assert not torch.isclose(first, second).any()
    one_row = torch.stack([loss.alphas(target[:1], step)[0] for step in range(64)])
    assert one_row.sort().values.diff().max() < 3 / 64
