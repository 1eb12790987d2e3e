"""Samples as one packed table, and the batches of an epoch when all samples are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray[Any, np.dtype[Any]]

_OWN_ORDER = np.empty(0, np.int64)

# Rows of steps that are given out together: few enough that an interrupt or a progress bar need not wait long.
_ROWS_TOGETHER = 1 << 16


@dataclass(frozen=True)
class Rows:
    """Samples in scaled units in one table: inputs, targets and perhaps a weight, side by side.

    Parameters
    ----------
    packed : Tensor, shape (batch, features + targets) or (batch, features + targets + 1)
        Contiguous. A last column beyond the targets holds weights.
    n_features, n_targets : int
    """

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


class Batches(Protocol):
    """Where the loop gets its batches.

    An epoch's order follows from the state of the generator at its start, so that state and the number of a step are all
    that a checkpoint needs to hold about the position in the data.
    """

    @property
    def n_rows(self) -> int:
        """Rows of an epoch, of all processes."""

    @property
    def n_steps(self) -> int:
        """Batches of an epoch."""

    def epoch(self, generator: torch.Generator, first_step: int) -> Iterator[Batch]:
        """The batches of an epoch from ``first_step`` on, each of one step or more.

        Draws from the generator the same whatever ``first_step`` is.
        """


class MemoryBatches:
    """Pieces of the shuffled rows. A batch is a list of places: the rows themselves are not moved.

    Parameters
    ----------
    rows : Rows
    batch_size : int
    drop_last : bool
        Whether to leave out the last, smaller batch.
    """

    def __init__(self, rows: Rows, batch_size: int, *, drop_last: bool = False) -> None:
        self._size = min(batch_size, len(rows))
        self.n_steps = len(rows) // self._size if drop_last else -(-len(rows) // self._size)
        self.n_rows = self.n_steps * self._size if drop_last else len(rows)
        self._rows = rows

    def epoch(self, generator: torch.Generator, first_step: int) -> Iterator[Batch]:
        order = torch.randperm(len(self._rows), generator=generator).numpy()
        n_together = self._size * max(1, _ROWS_TOGETHER // self._size)
        for first in range(first_step * self._size, self.n_rows, n_together):
            end = min(first + n_together, self.n_rows)
            yield Batch(self._rows, order, first, end, self._size, end - first)
