"""Which step a system and a loss get, and what it leaves in the flat gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from deepfls.functional.losses import LOSSES, SetLoss, l2
from deepfls.kernels import kernels_off
from deepfls.nn import IT2FLS, T1FLS
from deepfls.training.batches import Batch, Rows
from deepfls.training.flat import FlatParameters
from deepfls.training.steps import ByAutograd, ByKernel, step_for
from loop_cases import new_system, wave


def step_of(system: T1FLS | IT2FLS, loss: Any) -> ByKernel | ByAutograd:
    return step_for(system, loss, FlatParameters(system))


def test_named_losses_get_the_compiled_step() -> None:
    for name, loss in LOSSES.items():
        n_outputs = 2 if name == "cross-entropy" else 1
        assert isinstance(step_of(new_system("it2", n_outputs), loss), ByKernel)
    assert isinstance(step_of(new_system("it2"), SetLoss(l2, coverage=0.8)), ByKernel)


def test_switch_turns_the_compiled_step_off(monkeypatch: pytest.MonkeyPatch) -> None:
    with kernels_off():
        assert isinstance(step_of(new_system(), l2), ByAutograd)
    assert isinstance(step_of(new_system(), l2), ByKernel)
    monkeypatch.setenv("DEEPFLS_KERNELS", "0")
    assert isinstance(step_of(new_system(), l2), ByAutograd)


def test_other_losses_and_systems_go_by_autograd() -> None:
    def own(y: Tensor, target: Tensor) -> Tensor:
        return (y - target).square()

    @dataclass
    class Unhashable:
        power: int = 2

        def __call__(self, y: Tensor, target: Tensor) -> Tensor:
            return (y - target) ** self.power

    class OwnSystem(T1FLS):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + 1.0

    hooked = new_system()
    hooked.register_forward_hook(lambda module, inputs, output: output * 2.0)
    replaced = new_system()
    replaced.antecedents.forward = lambda x: torch.zeros(len(x), 4)  # type: ignore[method-assign]
    enumerated = IT2FLS(2, n_rules=3, algorithm="enumerate")
    buffered = new_system()
    slopes = buffered.consequents.raw_slopes.detach().clone()
    del buffered.consequents.raw_slopes
    buffered.consequents.register_buffer("raw_slopes", slopes)
    half = new_system().to(torch.bfloat16)
    cases: list[tuple[Any, Any]] = [
        (new_system(), own),
        (new_system(), partial(l2, own)),
        (new_system(), Unhashable()),
        (new_system("it2", n_outputs=2), SetLoss(LOSSES["cross-entropy"], coverage=0.8)),
        *((system, l2) for system in (OwnSystem(2, n_rules=3), hooked, replaced, enumerated, buffered, half)),
    ]
    for system, loss in cases:
        assert isinstance(step_of(system, loss), ByAutograd)


def test_hooked_and_tied_parameters_go_by_autograd() -> None:
    hooked, late, tied = new_system(), new_system(), new_system("it2")
    hooked.antecedents.raw_centers.register_hook(lambda grad: grad * 0.0)
    late.antecedents.raw_centers.register_post_accumulate_grad_hook(lambda p: None)
    tied.antecedents.raw_heights = tied.antecedents.raw_sigmas
    for system in (hooked, late, tied):
        assert isinstance(step_of(system, l2), ByAutograd)


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_both_steps_leave_the_same_gradient(kind: str) -> None:
    system = new_system(kind).double()
    flat = FlatParameters(system)
    rows = Rows.of(wave().x.double(), wave().target.double(), torch.linspace(0.0, 2.0, 40))
    compiled, plain = step_for(system, l2, flat), ByAutograd(system, l2, flat)
    assert isinstance(compiled, ByKernel)
    loss = compiled(Batch.of(rows), 0.25)
    found = flat.gradient.clone()
    assert loss == pytest.approx(float(plain(Batch.of(rows), 0.25)), rel=1e-9)
    torch.testing.assert_close(flat.gradient, found, rtol=1e-9, atol=1e-12)


def test_inputs_of_another_width_or_dtype_are_refused() -> None:
    system = new_system()
    step = step_of(system, l2)
    with pytest.raises(ValueError, match=r"x must have shape \(batch, features\) with features=2, got \(4, 5\)"):
        step(Batch.of(Rows.of(torch.zeros(4, 5), torch.zeros(4, 1))))
    with pytest.raises(TypeError, match="x must have the dtype of the module's parameters"):
        step(Batch.of(Rows.of(torch.zeros(4, 2, dtype=torch.float64), torch.zeros(4, 1))))


def test_interval_loss_on_a_type_1_system_is_refused() -> None:
    step = step_of(new_system(), SetLoss(l2, coverage=0.8))
    with pytest.raises(TypeError, match="coverage must be None for a system without a type-reduced set, got a T1FLS"):
        step(Batch.of(wave()))
