"""The mean loss of a batch and its gradient: compiled where there is a compiled step, by autograd otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from deepfls._checks.tensors import check_batch, check_loss_values
from deepfls.functional.losses import SetLoss
from deepfls.kernels import CompiledStep, compiled_step
from deepfls.training.batches import Batch, Rows

if TYPE_CHECKING:
    from deepfls.nn.systems import IT2FLS, T1FLS
    from deepfls.training.flat import FlatParameters

LossFunction = Callable[..., Tensor]


def step_for(system: T1FLS | IT2FLS, loss: LossFunction, flat: FlatParameters) -> ByKernel | ByAutograd:
    """The fastest step that is valid for a system and a loss."""
    step = compiled_step(system, loss, flat.offsets)
    return ByAutograd(system, loss, flat) if step is None else ByKernel(system, step, flat)


def mean_loss(loss_function: LossFunction, system: T1FLS | IT2FLS, rows: Rows) -> Tensor:
    """Mean over outputs and samples, by weight where there are weights."""
    if isinstance(loss_function, SetLoss):
        reduced = getattr(system, "reduce", None)
        if reduced is None:
            kind = type(system).__name__
            raise TypeError(f"coverage must be None for a system without a type-reduced set, got a {kind}.")
        y_left, y_right, y = reduced(rows.x)
        losses = loss_function(y_left, y_right, y, rows.target)
    else:
        y = system(rows.x)
        losses = loss_function(y, rows.target)
    losses = check_loss_values(losses, y, weighted=rows.weight is not None)
    # Weights have mean 1 over all rows, so a batch's own sum need not divide: it may be 0.
    return losses.mean() if rows.weight is None else (losses.mean(dim=1) * rows.weight).mean()


class ByAutograd:
    """Any system and any loss."""

    def __init__(self, system: T1FLS | IT2FLS, loss: LossFunction, flat: FlatParameters) -> None:
        self._system, self._loss, self._flat = system, loss, flat

    def warm_up(self) -> None:
        """Compile what a step needs, without a loss."""
        with torch.no_grad():
            self._system(self._flat.values.new_zeros(1, self._system.n_features))

    def __call__(self, batch: Batch, share: float = 1.0) -> Tensor:
        """``share`` times the mean loss; its gradient is left in the flat vector. A device may still compute it."""
        self._flat.gradient.zero_()
        loss = mean_loss(self._loss, self._system, batch.gathered()) * share
        loss.backward()
        return loss.detach()


class ByKernel:
    """A compiled step on the memory of the flat vectors."""

    def __init__(self, system: T1FLS | IT2FLS, step: CompiledStep, flat: FlatParameters) -> None:
        self._system, self._step = system, step
        self._theta, self._gradient = flat.values.numpy(), flat.gradient.numpy()
        self._table: tuple[Tensor, ...] = ()

    def warm_up(self) -> None:
        """Compile or load the machine code, without a loss."""
        row = torch.zeros(1, self._system.n_features + self._step.n_targets, dtype=self._system.centers.dtype)
        self(Batch.of(Rows(row, self._system.n_features, self._step.n_targets)))
        self._gradient[:] = 0.0

    def __call__(self, batch: Batch, share: float = 1.0) -> float:
        rows, order, first, size, _ = batch
        if not self._table or rows.packed is not self._table[0]:
            check_batch(rows.x, self._system.n_features, self._system.centers)
            self._table = (rows.packed,)
            self._rows = rows.packed.numpy()
        return self._step(self._theta, self._gradient, self._rows, order, first, size, share)
