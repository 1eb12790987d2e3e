"""Gradients of a batch by kernels: those of autograd, for every loss whose slopes are known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from deepfls.functional.losses import LOSSES, SetLoss, huber, l2, pinball
from deepfls.nn import IT2FLS, T1FLS
from deepfls.training.gradients import ByAutograd, ByKernels, gradients_of
from deepfls.training.rows import Rows
from loop_cases import new_system, wave

POINT_LOSSES = [*LOSSES.values(), partial(huber, delta=0.1), partial(pinball, quantile=0.9)]


def name(loss: Any) -> str:
    return loss.func.__name__ + " with options" if isinstance(loss, partial) else getattr(loss, "__name__", "set")


def rows_for(loss: Any, weighted: bool) -> Rows:
    rows = wave()
    x = rows.x.double()
    target = torch.cat([rows.target, -2.0 * rows.target], dim=1).double()
    if loss is LOSSES["cross-entropy"]:
        target = (target[:, :1] > 0).double()
    return Rows(x, target, torch.linspace(0.0, 2.0, len(x), dtype=torch.float64) if weighted else None)


def assert_same_gradients(system: T1FLS | IT2FLS, loss: Any, rows: Rows, share: float) -> None:
    parameters = list(system.parameters())
    by_kernels = gradients_of(system, loss, parameters)
    assert isinstance(by_kernels, ByKernels)
    for _ in range(2):  # the second call uses memory of the first
        value = by_kernels(rows, share)
        found = [p.grad.clone() for p in parameters]
        expected = ByAutograd(system, loss, parameters)(rows, share)
        assert float(value) == pytest.approx(float(expected), rel=1e-9)
        for grad, parameter in zip(found, parameters, strict=True):
            torch.testing.assert_close(grad, parameter.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["t1", "it2"])
@pytest.mark.parametrize("loss", POINT_LOSSES, ids=name)
def test_gradients_by_kernels_are_those_of_autograd(loss: Any, kind: str, weighted: bool) -> None:
    assert_same_gradients(new_system(kind, n_outputs=2).double(), loss, rows_for(loss, weighted), share=0.25)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("point", [l2, partial(huber, delta=0.1)], ids=name)
def test_gradients_of_the_loss_of_a_set_are_those_of_autograd(point: Any, weighted: bool) -> None:
    loss = SetLoss(point, coverage=0.8, weight=0.7)
    assert_same_gradients(new_system("it2", n_outputs=2).double(), loss, rows_for(loss, weighted), share=1.0)


def test_other_losses_and_systems_go_by_autograd() -> None:
    def own(y: Tensor, target: Tensor) -> Tensor:
        return (y - target).square()

    class OwnSystem(T1FLS):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + 1.0

    hooked = new_system()
    hooked.register_forward_hook(lambda module, inputs, output: output * 2.0)
    cases = [(new_system(), own), (new_system(), partial(l2, own)), (OwnSystem(2, n_rules=3), l2), (hooked, l2)]
    for system, loss in cases:
        assert isinstance(gradients_of(system, loss, list(system.parameters())), ByAutograd)


def test_a_parameter_with_a_hook_goes_by_autograd() -> None:
    system = new_system()
    system.antecedents.raw_centers.register_hook(lambda grad: grad * 0.0)
    assert isinstance(gradients_of(system, l2, list(system.parameters())), ByAutograd)


def test_frozen_parameters_get_no_gradient() -> None:
    system = new_system()
    system.antecedents.raw_centers.requires_grad_(False)
    parameters = [p for p in system.parameters() if p.requires_grad]
    gradients_of(system, l2, parameters)(wave())
    assert system.antecedents.raw_centers.grad is None
    assert all(p.grad is not None for p in parameters)


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("shape", [(40, 3), (40,)])
def test_targets_that_broadcast_give_the_gradients_of_autograd(shape: tuple[int, ...]) -> None:
    n_targets = 1 if len(shape) == 1 else shape[1]
    target = torch.linspace(-1.0, 1.0, 40 * n_targets).view(shape)
    assert_same_gradients_in_float32(new_system(), Rows(wave().x, target))


def test_inputs_of_another_width_or_dtype_are_refused() -> None:
    system = new_system()
    gradients = gradients_of(system, l2, list(system.parameters()))
    with pytest.raises(ValueError, match=r"x must have shape \(batch, features\) with features=2, got \(4, 5\)"):
        gradients(Rows(torch.zeros(4, 5), torch.zeros(4, 1)))
    with pytest.raises(TypeError, match="x must have the dtype of the module's parameters"):
        gradients(Rows(torch.zeros(4, 2, dtype=torch.float64), torch.zeros(4, 1)))


def test_targets_in_another_precision_give_the_gradients_of_autograd() -> None:
    system, rows = new_system(), wave()
    assert_same_gradients_in_float32(system, Rows(rows.x, rows.target.double()))


def assert_same_gradients_in_float32(system: T1FLS | IT2FLS, rows: Rows) -> None:
    parameters = list(system.parameters())
    gradients_of(system, l2, parameters)(rows)
    found = [p.grad.clone() for p in parameters]
    ByAutograd(system, l2, parameters)(rows)
    for grad, parameter in zip(found, parameters, strict=True):
        torch.testing.assert_close(grad, parameter.grad, rtol=1e-5, atol=1e-6)


def test_parameters_whose_memory_moved_are_followed() -> None:
    system = new_system()
    parameters = list(system.parameters())
    gradients = gradients_of(system, l2, parameters)
    gradients(wave())
    for parameter in parameters:
        parameter.data = parameter.data + 0.1
    loss, found = float(gradients(wave())), [p.grad.clone() for p in parameters if p.grad is not None]
    assert loss == pytest.approx(float(ByAutograd(system, l2, parameters)(wave())), rel=1e-6)
    for grad, parameter in zip(found, parameters, strict=True):
        torch.testing.assert_close(grad, parameter.grad, rtol=1e-5, atol=1e-6)


def test_losses_whose_slopes_are_not_known_go_by_autograd() -> None:
    @dataclass
    class Unhashable:
        power: int = 2

        def __call__(self, y: Tensor, target: Tensor) -> Tensor:
            return (y - target) ** self.power

    of_classes = SetLoss(LOSSES["cross-entropy"], coverage=0.8)
    for system, loss in ((new_system(), Unhashable()), (new_system("it2", n_outputs=2), of_classes)):
        assert isinstance(gradients_of(system, loss, list(system.parameters())), ByAutograd)


def test_a_parameter_in_two_places_or_with_a_late_hook_goes_by_autograd() -> None:
    tied = new_system("it2")
    tied.antecedents.raw_heights = tied.antecedents.raw_sigmas
    hooked = new_system()
    hooked.antecedents.raw_centers.register_post_accumulate_grad_hook(lambda p: None)
    for system in (tied, hooked):
        assert isinstance(gradients_of(system, l2, list(system.parameters())), ByAutograd)
