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

    def packed(self) -> Tensor:
        """All columns side by side, so that one indexing operation shuffles them together."""
        parts = [self.x, self.target.to(self.x.dtype)]
        if self.weight is not None:
            parts.append(self.weight.unsqueeze(1).to(self.x.dtype))
        return torch.cat(parts, dim=1)

    def unpacked(self, packed: Tensor) -> Rows:
        n_features, n_outputs = self.x.shape[1], self.target.shape[1]
        x, target = packed[:, :n_features], packed[:, n_features : n_features + n_outputs]
        return Rows(x, target, None if self.weight is None else packed[:, -1])


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
    """Slices of one shuffled tensor.

    Parameters
    ----------
    rows : Rows
    batch_size : int
    drop_last : bool
        Whether to leave out the last, smaller batch.
    """

    def __init__(self, rows: Rows, batch_size: int, *, drop_last: bool = False) -> None:
        self._rows = rows
        self._packed = rows.packed()
        self.largest = min(batch_size, len(rows))
        self._starts = range(0, len(rows) - self.largest + 1 if drop_last else len(rows), self.largest)
        self.n_steps = len(self._starts)
        self.n_rows = self.n_steps * self.largest if drop_last else len(rows)

    def epoch(self, generator: torch.Generator, first_step: int) -> Iterator[Batch]:
        order = torch.randperm(len(self._rows), generator=generator).to(self._packed.device)
        shuffled = self._packed[order]
        for start in self._starts[first_step:]:
            rows = self._rows.unpacked(shuffled[start : start + self.largest])
            yield Batch(rows, len(rows))
