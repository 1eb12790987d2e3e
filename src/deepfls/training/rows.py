"""Samples as tensors, and where the batches of an epoch come from when all samples are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
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

    @property
    def tensors(self) -> list[Tensor]:
        """Those that there are, in the order of the fields."""
        return [tensor for tensor in (self.x, self.target, self.weight) if tensor is not None]

    def between(self, first: int, end: int) -> Rows:
        """The samples from place ``first`` to before ``end``, without a copy."""
        weight = None if self.weight is None else self.weight[first:end]
        return Rows(self.x[first:end], self.target[first:end], weight)


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
        """The batches of an epoch from ``first_step`` on; draws from the generator the same whatever that is.

        A batch may lie in memory that the next one uses again.
        """


class MemoryBatches:
    """Pieces of the shuffled rows, each gathered when it is due.

    All rows at once in their order would be a second copy of the data, in fresh memory, which costs more than the copying.

    Parameters
    ----------
    rows : Rows
    batch_size : int
    drop_last : bool
        Whether to leave out the last, smaller batch.
    in_place : bool
        Whether a batch takes the memory of the one before.
    """

    def __init__(self, rows: Rows, batch_size: int, *, drop_last: bool = False, in_place: bool = False) -> None:
        self.largest = min(batch_size, len(rows))
        self.n_steps = len(rows) // self.largest if drop_last else -(-len(rows) // self.largest)
        self.n_rows = self.n_steps * self.largest if drop_last else len(rows)
        # NumPy gathers from contiguous memory, and would make a copy of all rows every time.
        self._rows = Rows(*(tensor.detach().contiguous() for tensor in rows.tensors))
        # On a small batch an operation of torch takes several times as long as one of NumPy.
        self._in_numpy = all(t.is_cpu and t.dtype in (torch.float32, torch.float64) for t in rows.tensors)
        self._in_place = in_place
        self._make_room()

    def _make_room(self) -> None:
        rooms = [tensor.new_empty((self.largest, *tensor.shape[1:])) for tensor in self._rows.tensors]
        self._batch = Rows(*rooms)
        self._pairs: list[tuple[Any, Any]] = list(zip(self._rows.tensors, rooms, strict=True))
        if self._in_numpy:
            self._pairs = [(source.numpy(), room.numpy()) for source, room in self._pairs]

    def epoch(self, generator: torch.Generator, first_step: int) -> Iterator[Batch]:
        order = torch.randperm(len(self._rows), generator=generator)
        places: Any = order.numpy() if self._in_numpy else order.to(self._rows.x.device)
        for first in range(first_step * self.largest, self.n_rows, self.largest):
            n_rows = min(self.largest, self.n_rows - first)
            self._gather(places[first : first + n_rows])
            yield Batch(self._batch if n_rows == self.largest else self._batch.between(0, n_rows), n_rows)

    def _gather(self, places: Any) -> None:
        """Copy the rows at some places to the beginning of the room for a batch."""
        if not self._in_place:
            self._make_room()
        for source, room in self._pairs:
            if self._in_numpy:
                np.take(source, places, axis=0, out=room[: len(places)], mode="clip")  # the other modes copy twice
            else:
                torch.index_select(source, 0, places, out=room[: len(places)])
