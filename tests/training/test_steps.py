"""Parameters in one vector: views, frozen ones, which step a system gets, optimisers, decay."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from deepfls.functional.losses import LOSSES, SetLoss, l2
from deepfls.kernels import kernels_off
from deepfls.nn import IT2FLS, T1FLS
from deepfls.training.distributed import Group
from deepfls.training.recipe import TrainConfig
from deepfls.training.steps import (
    Batch,
    ByAutograd,
    ByKernel,
    CompiledAdam,
    FlatParameters,
    Rows,
    TorchOptimizer,
    optimizer_for,
    step_for,
    take_steps,
)
from loop_cases import copies, new_system, run, wave


def test_parameters_are_views_of_the_vector() -> None:
    system = new_system("it2")
    before = copies(system)
    flat = FlatParameters(system)
    assert all(torch.equal(a, b) for a, b in zip(copies(system), before, strict=True))
    flat.values += 1.0
    for parameter, old in zip(system.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.detach(), old + 1.0)
    flat.release()
    flat.values.zero_()
    assert all(bool(p.abs().sum() > 0) for p in system.parameters())


def test_gradients_of_autograd_land_in_the_vector() -> None:
    system = new_system()
    flat = FlatParameters(system)
    system(wave().x).sum().backward()
    expected = torch.cat([p.grad.reshape(-1) for p in system.parameters()])
    assert torch.equal(flat.gradient, expected)
    assert flat.gradient.abs().sum() > 0


def test_frozen_parameters_lie_behind_those_that_train() -> None:
    system = new_system()
    system.antecedents.raw_centers.requires_grad_(False)
    flat = FlatParameters(system)
    assert flat.free.numel() == flat.values.numel() - system.centers.numel()
    assert flat.offsets["antecedents.raw_centers"] == flat.free.numel()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"optimizer_options": {"weight_decay": 0.1, "betas": (0.5, 0.9)}},
        {"optimizer_options": {"eps": 1e-3}},
        {"gradient_clip": 0.5, "weight_decay": 2.0},
        {"gradient_clip": 1e6},
    ],
)
@pytest.mark.parametrize("bounded", [False, True])
def test_compiled_adam_takes_the_steps_of_torch(settings: dict[str, Any], bounded: bool) -> None:
    found = []
    for optimizer in (CompiledAdam, TorchOptimizer):
        system = new_system("it2").double()
        masks = {"antecedents.raw_centers": torch.tensor([[True, False]]).expand_as(system.centers)} if bounded else {}
        flat = FlatParameters(system, masks)
        stepped = optimizer(TrainConfig(**settings), flat)
        before = flat.copy()
        for step in range(5):
            flat.gradient[:] = torch.cos(flat.values + step)
            stepped.update(0.1 / (step + 1))
        found.append(flat.values)
        assert bounded == bool((flat.free == before).any())
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_steps_in_one_call_are_the_steps_one_by_one(kind: str) -> None:
    rows, ends, losses = wave(), [], []
    for together in (True, False):
        system = new_system(kind)
        flat, config = FlatParameters(system), TrainConfig(weight_decay=0.5, gradient_clip=1.0)
        step, adam = step_for(system, l2, flat), optimizer_for(config, flat)
        order = np.random.default_rng(0).permutation(len(rows))
        batch = Batch(rows, order, 3, 40, 16, 37)  # three steps, the last one smaller
        assert [one.n_rows for one in batch.steps()] == [16, 16, 5]
        pieces = [batch] if together else batch.steps()
        found: list[Any] = []
        for piece in pieces:
            rates = [0.1 / (1 + len(found) + k) for k in range(piece.n_steps)]
            ((part, some),) = take_steps(step, adam, piece, rates, len(found), flat, Group())
            assert part is piece
            found += some
        ends.append(flat.values)
        losses.append(found)
    assert torch.equal(*ends)
    assert losses[0] == losses[1]
    assert len(losses[0]) == 3


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "adamw"},
        {"optimizer": "sgd"},
        {"optimizer_options": {"amsgrad": True}},
        {"optimizer": torch.optim.RMSprop},
    ],
)
def test_other_optimisers_are_left_to_torch(settings: dict[str, Any]) -> None:
    assert isinstance(optimizer_for(TrainConfig(**settings), FlatParameters(new_system())), TorchOptimizer)


def test_switch_leaves_adam_to_torch() -> None:
    with kernels_off():
        assert isinstance(optimizer_for(TrainConfig(), FlatParameters(new_system())), TorchOptimizer)


@pytest.mark.parametrize("optimizer", [CompiledAdam, TorchOptimizer])
def test_optimiser_goes_on_from_its_state(optimizer: type) -> None:
    ends = []
    for interrupted in (False, True):
        flat = FlatParameters(new_system())
        stepped = optimizer(TrainConfig(), flat)
        for step in range(6):
            flat.gradient[:] = torch.cos(flat.values + step)
            stepped.update(0.1)
            if interrupted:
                plain, tensors = stepped.state()
                copied = {name: value.clone() for name, value in tensors.items()}
                stepped = optimizer(TrainConfig(), flat)
                stepped.load(dict(plain), copied)
        ends.append(flat.values)
    assert torch.equal(*ends)


@pytest.mark.parametrize(
    "name", sorted({"adagrad", "adamax", "nadam", "radam", "rprop", "rmsprop", "asgd", "adadelta", "adamw", "sgd"})
)
def test_any_optimiser_of_torch_lowers_the_loss(name: str) -> None:
    history = run(new_system(), optimizer=name, epochs=6, learning_rate=0.05).history
    assert history[-1]["loss"] < history[0]["loss"]


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_training_with_kernels_off_learns_the_same(kind: str) -> None:
    with_kernels, plain = new_system(kind).double(), new_system(kind).double()
    wide = Rows.of(wave().x.double(), wave().target.double())
    run(with_kernels, wide, weight_decay=0.1)
    with kernels_off():
        run(plain, wide, weight_decay=0.1)
    for one, other in zip(with_kernels.parameters(), plain.parameters(), strict=True):
        np.testing.assert_allclose(one.detach(), other.detach(), rtol=1e-7, atol=1e-9)


def test_second_fit_on_the_same_system_goes_on() -> None:
    system = new_system()
    first = run(system, epochs=5).history[-1]["loss"]
    assert run(system, epochs=5).history[-1]["loss"] < first


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
