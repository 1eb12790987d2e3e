"""Samples as one packed table, batches of them, and training steps: compiled where there is one, else by autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from deepfls._checks.tensors import check_batch, check_loss_values
from deepfls._checks.values import Array
from deepfls.functional.losses import QuantileLoss, SetLoss
from deepfls.kernels import CompiledStep, compiled_step
from deepfls.training.distributed import Group
from deepfls.training.flat import CompiledAdam, FlatParameters, TorchOptimizer

if TYPE_CHECKING:
    from deepfls.nn.systems import IT2FLS, T1FLS

LossFunction = Callable[..., Tensor]

_OWN_ORDER = np.empty(0, np.int64)

# Rows of the steps that one batch holds: few enough that an interrupt and a progress bar are not delayed much.
_ROWS_TOGETHER = 1 << 16


@dataclass(frozen=True)
class Rows:
    """Samples in scaled units in one contiguous table: inputs, targets and perhaps a weight, side by side."""

    packed: Tensor
    n_features: int
    n_targets: int

    @classmethod
    def of(cls, x: Tensor, target: Tensor, weight: Tensor | None = None) -> Rows:
        """From x (batch, features), target (batch, targets) and weight (batch,), in the dtype and on the device of x."""
        columns = [x, target.to(x), *([] if weight is None else [weight.to(x).unsqueeze(1)])]
        return cls(torch.cat(columns, dim=1), x.shape[1], target.shape[1])

    def __len__(self) -> int:
        return len(self.packed)

    @property
    def x(self) -> Tensor:
        return self.packed[:, : self.n_features]

    @property
    def target(self) -> Tensor:
        return self.packed[:, self.n_features : self.n_features + self.n_targets]

    @property
    def weight(self) -> Tensor | None:
        return self.packed[:, -1] if self.packed.shape[1] > self.n_features + self.n_targets else None


class Batch(NamedTuple):
    """The rows of a step that this process has, or those of several steps: places of ``order`` from ``first`` to ``end``.

    Without an order, (0,), rows have their own. A step has ``size`` rows, the last one perhaps fewer; ``n_rows`` is the
    number of rows of all processes.
    """

    rows: Rows
    order: Array
    first: int
    end: int
    size: int
    n_rows: int

    @classmethod
    def of(cls, rows: Rows, n_rows: int | None = None) -> Batch:
        """All rows of a table, in their own order, in one step."""
        return cls(rows, _OWN_ORDER, 0, len(rows), len(rows), len(rows) if n_rows is None else n_rows)

    @property
    def n_steps(self) -> int:
        return -(-(self.end - self.first) // self.size) if self.size else 1

    @property
    def sizes(self) -> list[int]:
        """The rows of each step, of all processes."""
        return [self.size] * (self.n_steps - 1) + [self.n_rows - self.size * (self.n_steps - 1)]

    def steps(self) -> list[Batch]:
        """Each step on its own."""
        if self.n_steps == 1:
            return [self]
        spans = ((first, min(first + self.size, self.end)) for first in range(self.first, self.end, self.size))
        return [Batch(self.rows, self.order, first, end, end - first, end - first) for first, end in spans]

    def gathered(self) -> Rows:
        """The rows in a table of their own."""
        packed = self.rows.packed
        if len(self.order):
            places = torch.from_numpy(self.order[self.first : self.end]).to(packed.device)
            return Rows(packed.index_select(0, places), self.rows.n_features, self.rows.n_targets)
        return Rows(packed[self.first : self.end], self.rows.n_features, self.rows.n_targets)


class MemoryBatches:
    """Pieces of the shuffled rows; ``drop_last`` leaves out the last, smaller one. The rows themselves are not moved.

    An epoch has ``n_rows`` rows in ``n_steps`` steps. Its order follows from the state of the generator at its start, so
    that state and the number of a step are all that a checkpoint needs to hold about the position in the data.
    """

    def __init__(self, rows: Rows, batch_size: int, *, drop_last: bool = False) -> None:
        self._size = min(batch_size, len(rows))
        self.n_steps = len(rows) // self._size if drop_last else -(-len(rows) // self._size)
        self.n_rows = self.n_steps * self._size if drop_last else len(rows)
        self._rows = rows

    def epoch(self, generator: torch.Generator, first_step: int) -> Iterator[Batch]:
        """The batches from ``first_step`` on, each of one step or more; draws the same whatever ``first_step`` is."""
        order = torch.randperm(len(self._rows), generator=generator).numpy()
        n_together = self._size * max(1, _ROWS_TOGETHER // self._size)
        for first in range(first_step * self._size, self.n_rows, n_together):
            end = min(first + n_together, self.n_rows)
            yield Batch(self._rows, order, first, end, self._size, end - first)


# Steps


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
        like = self._system.antecedents.raw_centers
        row = torch.zeros(1, self._system.n_features + self._step.n_targets, dtype=like.dtype)
        self(Batch.of(Rows(row, self._system.n_features, self._step.n_targets)))
        self._gradient[:] = 0.0

    def _array(self, rows: Rows) -> Array:
        if not self._table or rows.packed is not self._table[0]:
            check_batch(rows.x, self._system.n_features, self._system.antecedents.raw_centers)
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
        update = adam.rule, adam.arrays
        rows, places = self._array(batch.rows), batch[1:5]
        return self._step.run(self._theta, self._gradient, rows, places, number, update, np.array(rates)).tolist()


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
