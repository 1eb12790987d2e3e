"""Samples as tensors, and where the batches of an epoch come from when all samples are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """Samples in scaled units: x (batch, features), target (batch, outputs) and weights (batch,) or None."""

    x: Tensor
    target: Tensor
    weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.x)

    def taken(self, order: Tensor) -> Rows:
        """The samples at the places ``order``, in that order."""
        return Rows(self.x[order], self.target[order], None if self.weight is None else self.weight[order])

    def between(self, first: int, end: int) -> Rows:
        """The samples from place ``first`` to before ``end``, without a copy."""
        weight = None if self.weight is None else self.weight[first:end]
        return Rows(self.x[first:end], self.target[first:end], weight)

    def split(self, size: int) -> list[Rows]:
        """Pieces of ``size`` samples, the last one what is left, cut by one operation on each tensor."""
        xs, targets = self.x.split(size), self.target.split(size)
        weights = [None] * len(xs) if self.weight is None else self.weight.split(size)
        return [Rows(*piece) for piece in zip(xs, targets, weights, strict=True)]


class Batch(NamedTuple):
    """The rows of a step that this process has, and how many all processes have together."""

    rows: Rows
    n_rows: int


class Batches(Protocol):
    """Where the loop gets its batches.

    An epoch's order follows from the state of the generator at its start, so that state and the number of a step are all
    that a checkpoint needs to know about the position in the data.
    """

    @property
    def n_rows(self) -> int:
        """Rows of an epoch, of all processes."""

    @property
    def n_steps(self) -> int:
        """Batches of an epoch."""

    @property
    def largest(self) -> int:
        """About how many rows of a batch this process has at most."""

    def epoch(self, generator: torch.Generator, first_step: int) -> Iterator[Batch]:
        """The batches of an epoch from ``first_step`` on; draws from the generator the same whatever that is."""


class MemoryBatches:
    """Pieces of the shuffled rows.

    Parameters
    ----------
    rows : Rows
    batch_size : int
    drop_last : bool
        Whether to leave out the last, smaller batch.
    """

    def __init__(self, rows: Rows, batch_size: int, *, drop_last: bool = False) -> None:
        self._rows = rows
        self.largest = min(batch_size, len(rows))
        self.n_steps = len(rows) // self.largest if drop_last else -(-len(rows) // self.largest)
        self.n_rows = self.n_steps * self.largest if drop_last else len(rows)

    def epoch(self, generator: torch.Generator, first_step: int) -> Iterator[Batch]:
        order = torch.randperm(len(self._rows), generator=generator).to(self._rows.x.device)
        for rows in self._rows.taken(order).split(self.largest)[first_step : self.n_steps]:
            yield Batch(rows, len(rows))
