"""Repeated steps of Adam: the same bits as torch's, and only where torch does nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from deepfls.training.adam import RepeatedAdam
from deepfls.training.config import TrainConfig
from deepfls.training.state import Run


def parameters() -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(torch.linspace(-1.0, 1.0, 5)), torch.nn.Parameter(torch.ones(2, 2))]


def set_gradients(given: list[torch.nn.Parameter], step: int) -> None:
    for parameter in given:
        parameter.grad = torch.cos(parameter.detach() + step)


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1, "betas": (0.5, 0.9)}, {"maximize": True}])
def test_repeated_steps_are_those_of_torch(options: dict[str, Any]) -> None:
    results: dict[bool, list[Tensor]] = {}
    for repeated in (False, True):
        given = parameters()
        optimizer = torch.optim.Adam(given, lr=0.1, fused=True, **options)
        set_gradients(given, 0)
        optimizer.step()
        assert RepeatedAdam.can_repeat(optimizer)
        stepped = RepeatedAdam(optimizer) if repeated else optimizer
        for step in range(1, 4):
            optimizer.param_groups[0]["lr"] = 0.1 / step
            set_gradients(given, step)
            stepped.step()
            assert optimizer.state[given[0]]["step"] == step + 1
        results[repeated] = [p.detach() for p in given]
    assert all(torch.equal(a, b) for a, b in zip(results[False], results[True], strict=True))


@pytest.mark.parametrize(
    "optimizer",
    [
        torch.optim.AdamW(parameters()),
        torch.optim.Adam(parameters(), fused=False),
        torch.optim.Adam(parameters(), fused=True, amsgrad=True),
        torch.optim.Adam(parameters(), fused=True, weight_decay=0.5, decoupled_weight_decay=True),
    ],
    ids=["AdamW", "not fused", "amsgrad", "decoupled"],
)
def test_other_optimisers_are_left_to_torch(optimizer: torch.optim.Optimizer) -> None:
    set_gradients(optimizer.param_groups[0]["params"], 0)
    optimizer.step()
    assert not RepeatedAdam.can_repeat(optimizer)


def test_a_first_step_and_hooks_are_left_to_torch() -> None:
    given = parameters()
    optimizer = torch.optim.Adam(given, fused=True)
    assert not RepeatedAdam.can_repeat(optimizer)
    set_gradients(given, 0)
    optimizer.step()
    optimizer.register_step_post_hook(lambda *arguments: None)
    assert not RepeatedAdam.can_repeat(optimizer)


def test_a_run_that_slows_down_or_is_loaded_steps_with_its_new_state() -> None:
    def updated(disturbed: bool) -> list[Tensor]:
        given = parameters()
        run = Run(TrainConfig(), given, torch.Generator(), 10)
        for step in range(6):
            set_gradients(given, step)
            run.update(0.1)
            if step == 2:
                run.slow_down()
            if disturbed:
                run.load(run.state())
        return [p.detach() for p in given]

    assert all(torch.equal(a, b) for a, b in zip(updated(False), updated(True), strict=True))
