"""Training steps: compiled where the system and the loss allow it, by autograd otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from deepfls._checks.tensors import check_batch, check_loss_values
from deepfls.functional.losses import QuantileLoss, SetLoss
from deepfls.kernels import CompiledStep, compiled_step
from deepfls.training.batches import Batch, Rows
from deepfls.training.distributed import Group
from deepfls.training.flat import CompiledAdam, FlatParameters, TorchOptimizer

if TYPE_CHECKING:
    from deepfls.nn.systems import IT2FLS, T1FLS

Array = np.ndarray[Any, np.dtype[Any]]
LossFunction = Callable[..., Tensor]


def step_for(system: T1FLS | IT2FLS, loss: LossFunction, flat: FlatParameters) -> ByKernel | ByAutograd:
    """The fastest step that is valid for a system and a loss."""
    step = compiled_step(system, loss, flat.offsets)
    return ByAutograd(system, loss, flat) if step is None else ByKernel(system, step, flat)


def mean_loss(loss_function: LossFunction, system: T1FLS | IT2FLS, rows: Rows, number: int = 0) -> Tensor:
    """Mean over outputs and samples, by weight where there are weights.

    ``number`` is that of the step: a loss of all quantiles takes other levels in every step.
    """
    if isinstance(loss_function, QuantileLoss):
        ends_at = getattr(system, "ends_at", None)
        if ends_at is None:
            raise TypeError(f"loss='quantiles' must come with a GT2FLS, which has planes, got a {type(system).__name__}.")
        alphas = loss_function.alphas(rows.target, number)
        y, y_right = ends_at(rows.x, alphas)
        losses = loss_function(y, y_right, rows.target, alphas)
    elif isinstance(loss_function, SetLoss):
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

    def __call__(self, batch: Batch, share: float = 1.0, number: int = 0) -> Tensor:
        """``share`` times the mean loss of step ``number``; its gradient is left in the flat vector.

        A device may still compute it.
        """
        self._flat.gradient.zero_()
        loss = mean_loss(self._loss, self._system, batch.gathered(), number) * share
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

    def _array(self, rows: Rows) -> Array:
        if not self._table or rows.packed is not self._table[0]:
            check_batch(rows.x, self._system.n_features, self._system.centers)
            self._table = (rows.packed,)
            self._rows = rows.packed.numpy()
        return self._rows

    def __call__(self, batch: Batch, share: float = 1.0, number: int = 0) -> float:
        rows, order, first, end, _, _ = batch
        return self._step(self._theta, self._gradient, self._array(rows), order, first, end - first, share, number)

    def is_divided(self, batch: Batch) -> bool:
        """Whether the rows of a step are divided over threads."""
        return self._step.is_divided(batch.size)

    def run(self, batch: Batch, rates: list[float], number: int, adam: CompiledAdam) -> list[Tensor | float]:
        """The losses of all steps of a batch, in one compiled call that updates the parameters after each."""
        rows, order, first, end, size, _ = batch
        return self._step.run(
            self._theta, self._gradient, self._array(rows), order, first, end, size, number, adam.rule, adam.arrays,
            np.array(rates),
        ).tolist()  # fmt: skip


def take_steps(
    step: ByKernel | ByAutograd,
    optimizer: TorchOptimizer | CompiledAdam,
    batch: Batch,
    rates: list[float],
    number: int,
    flat: FlatParameters,
    group: Group,
) -> Iterator[tuple[Batch, list[Tensor | float]]]:
    """Take the steps of a batch, the first one number ``number``: parts of the batch, and the losses of their steps.

    All steps are one compiled call, unless something has to happen between gradient and update, or threads divide a step.
    """
    alone = group.size == 1
    if alone and isinstance(step, ByKernel) and isinstance(optimizer, CompiledAdam) and not step.is_divided(batch):
        yield batch, step.run(batch, rates, number, optimizer)
        return
    for k, (one, rate) in enumerate(zip(batch.steps(), rates, strict=True)):
        loss = step(one, number=number + k) if alone else summed_step(step, one, number + k, flat, group)
        optimizer.update(rate)
        yield one, [loss]


def summed_step(step: ByKernel | ByAutograd, batch: Batch, number: int, flat: FlatParameters, group: Group) -> Tensor:
    """Mean loss and gradient over the rows of all processes, each process counting by its rows.

    They travel as one vector: a message costs about a millisecond whatever its size.
    """
    loss: Tensor | float = 0.0
    size = batch.end - batch.first
    if size:
        loss = step(batch, size / batch.n_rows, number)
    else:
        flat.gradient.zero_()
    gradient = flat.gradient[: flat.free.numel()]
    message = torch.cat([gradient, gradient.new_tensor([loss]) if isinstance(loss, float) else loss.reshape(1)])
    group.total(message)
    gradient.copy_(message[:-1])
    return message[-1]
