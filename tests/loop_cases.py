"""Small systems, rows and failing losses that the tests of the training loop share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepfls.functional.losses import l2
from deepfls.nn import IT2FLS, T1FLS
from deepfls.training import TrainConfig, TrainResult, train
from deepfls.training.steps import Rows

INTERRUPTED = "Training was interrupted in epoch {} of {}; {} kept."
DIVERGED = (
    "Training left the finite numbers in epoch {} at ever smaller rates and was stopped; the last finite parameters are "
    "kept. A smaller learning_rate or a gradient_clip may help."
)


def wave(n_rows: int = 40, seed: int = 0) -> Rows:
    x = torch.from_numpy(np.random.RandomState(seed).uniform(-1.5, 1.5, size=(n_rows, 2))).float()
    return Rows.of(x, torch.sin(2.0 * x[:, :1]) + 0.5 * x[:, 1:])


def new_system(kind: str = "t1", n_outputs: int = 1) -> T1FLS | IT2FLS:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return T1FLS(2, n_outputs, n_rules=4) if kind == "t1" else IT2FLS(2, n_outputs, n_rules=4)


def run(system: T1FLS | IT2FLS, rows: Rows | None = None, *, seed: int = 0, **options: Any) -> TrainResult:
    """Train with small settings, overridden by ``options``."""
    given = {name: options.pop(name, None) for name in ("validation", "progress", "watch")}
    config = TrainConfig(**{"epochs": 4, "batch_size": 8, "learning_rate": 0.02, **options})
    generator = torch.Generator().manual_seed(seed)
    return train(system, wave() if rows is None else rows, config, generator=generator, **given)


def mean_loss(system: T1FLS | IT2FLS, rows: Rows) -> float:
    with torch.no_grad():
        return float(l2(system(rows.x), rows.target).mean())


def copies(system: T1FLS | IT2FLS) -> list[Tensor]:
    return [p.detach().clone() for p in system.parameters()]


def assert_equal(first: list[Tensor], second: list[Tensor]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def assert_finite(system: T1FLS | IT2FLS) -> None:
    assert all(bool(torch.isfinite(p).all()) for p in system.parameters())
    assert bool(torch.isfinite(system(wave().x)).all())


class FailingLoss:
    """The squared error, with something else at one of its calls."""

    def __init__(self, call: int, then: Callable[[Tensor], Tensor]) -> None:
        self.call, self.then, self.calls = call, then, 0

    def __call__(self, y: Tensor, target: Tensor) -> Tensor:
        self.calls += 1
        losses = l2(y, target)
        return self.then(losses) if self.calls == self.call else losses


def interrupt(losses: Tensor) -> Tensor:
    raise KeyboardInterrupt


def not_a_number(losses: Tensor) -> Tensor:
    return losses * float("nan")
