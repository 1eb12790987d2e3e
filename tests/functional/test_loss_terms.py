"""The losses in NumPy against those of torch and their gradients by autograd."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from deepfls.functional.loss_terms import terms_of
from deepfls.functional.losses import LOSSES, SetLoss, huber, l2, pinball

POINT_LOSSES = [*LOSSES.values(), partial(huber, delta=0.1), partial(pinball, quantile=0.9)]


def name(loss: Any) -> str:
    return loss.func.__name__ + " with options" if isinstance(loss, partial) else loss.__name__


def assert_same(loss: Any, outputs: list[torch.Tensor], target: torch.Tensor) -> None:
    outputs = [output.double().requires_grad_() for output in outputs]
    expected = loss(*outputs, target)
    expected.sum().backward()
    terms = terms_of(loss)
    assert terms is not None
    losses, slopes = terms(*(output.detach().numpy() for output in outputs), target.numpy())
    np.testing.assert_allclose(losses, expected.detach().numpy(), rtol=1e-12, atol=1e-15)
    for slope, output in zip(slopes, outputs, strict=True):
        np.testing.assert_allclose(slope, output.grad.numpy(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("loss", POINT_LOSSES, ids=name)
def test_losses_and_slopes_are_those_of_torch(loss: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(3, (50, 1), generator=generator).double()
    n_outputs = 3 if loss is LOSSES["cross-entropy"] else 1
    assert_same(loss, [3.0 * torch.randn(50, n_outputs, generator=generator)], target)


@pytest.mark.parametrize("loss", POINT_LOSSES, ids=name)
def test_kinks_and_far_values_are_those_of_torch(loss: Any) -> None:
    y = torch.tensor([[-1e4], [-2.0], [-0.1], [0.0], [0.1], [2.0], [1e4]])
    assert_same(loss, [y], torch.zeros(7, 1).double())


def test_losses_of_a_set_are_those_of_torch() -> None:
    generator = torch.Generator().manual_seed(1)
    outputs = [torch.randn(40, 2, generator=generator) for _ in range(3)]
    assert_same(SetLoss(l2, coverage=0.8, weight=0.7), outputs, torch.randn(40, 2, generator=generator).double())


def test_there_are_none_for_other_losses() -> None:
    assert terms_of(lambda y, target: y - target) is None
    assert terms_of(partial(l2, torch.zeros(1))) is None
    assert terms_of(SetLoss(LOSSES["cross-entropy"], coverage=0.8)) is None
