"""Batches from a table on disk: row groups are read, decoded and mixed in the background while the system trains."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from deepfls._checks.values import Array
from deepfls.data.parquet import quoted_file
from deepfls.data.scaling import FARTHEST, Scaling
from deepfls.data.sources import ParquetSource
from deepfls.data.summary import SourceRows
from deepfls.data.tables import TableError
from deepfls.kernels import mixing
from deepfls.training.distributed import Group
from deepfls.training.steps import Batch, Rows


class Preparation(NamedTuple):
    """From samples in the units of the data to rows of tensors. Classes are sorted, targets are places in them."""

    x_scaling: Scaling
    y_scaling: Scaling
    classes: Array | None
    mean_weight: float | None
    device: torch.device
    dtype: torch.dtype

    @property
    def n_columns(self) -> int:
        return len(self.x_scaling.shift) + len(self.y_scaling.shift) + (self.mean_weight is not None)

    def put(self, part: SourceRows, goes: Array, packed: Array) -> None:
        """Inputs, targets and weights in scaled units, side by side, row i at packed[goes[i]]."""
        columns, n_features = part.columns, part.n_features
        if self.classes is not None:
            places = np.searchsorted(self.classes, part.y)[None].astype(columns.dtype)
            columns = np.concatenate([columns[:n_features], places, columns[n_features:]])
        if self.x_scaling.low is not None or self.y_scaling.low is not None:
            x, y, weight = np.split(columns, [n_features, n_features + len(self.y_scaling.shift)])
            columns = np.concatenate([self.x_scaling.clipped(x.T).T, self.y_scaling.clipped(y.T).T, weight])
        ends = [] if self.mean_weight is None else [self.mean_weight]
        shift = np.concatenate([self.x_scaling.shift, self.y_scaling.shift, np.zeros(len(ends))])
        scale = np.concatenate([self.x_scaling.scale, self.y_scaling.scale, ends])
        mixing.put_rows(columns, shift, scale, FARTHEST, goes, packed)

    def empty(self, n_rows: int) -> Array:
        """An array for packed rows, not filled."""
        return np.empty((n_rows, self.n_columns), dtype=np.float32 if self.dtype == torch.float32 else np.float64)

    def rows(self, packed: Tensor) -> Rows:
        return Rows(packed.contiguous(), len(self.x_scaling.shift), len(self.y_scaling.shift))


class _Loaded(NamedTuple):
    """The rows of a window that this process has, in their order, and their places among all rows of the window."""

    packed: Tensor
    places: Array


class StreamBatches:
    """The batches of a source, of which this process reads its share; close it, or use it as a context manager.

    The source is without rows that are held out, and ``counts`` (row groups,) are the rows of its row groups. A step has
    ``batch_size`` rows of all processes together. After ``n_epochs`` epochs nothing more is read.
    """

    def __init__(
        self, source: ParquetSource, counts: Array, preparation: Preparation, batch_size: int, group: Group, n_epochs: int
    ) -> None:
        self.n_rows = int(counts.sum())
        self._size = min(batch_size, self.n_rows)
        self.n_steps = -(-self.n_rows // self._size)
        self._source = source
        self._counts = counts
        self._prepared = preparation
        self._group = group
        self._epochs_left = n_epochs
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="deepfls-reader")
        self._ahead: tuple[Any, Future[_Loaded]] | None = None
        self._closed = False

    def __enter__(self) -> StreamBatches:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading."""
        self._closed = True
        self._ahead = None
        self._pool.shutdown(wait=True, cancel_futures=True)

    def read_ahead(self, generator: torch.Generator) -> None:
        """Begin to read the first window of the epoch that will be drawn from the generator; a copy of it looks ahead."""
        if self._epochs_left > 0:
            peek = torch.Generator()
            peek.set_state(generator.get_state())
            self._begin(self._plan(_draw(peek))[0])

    def epoch(self, generator: torch.Generator, first_step: int) -> Iterator[Batch]:
        self._epochs_left -= 1
        seed = _draw(generator)
        windows = self._plan(seed)
        firsts = np.array([window.first for window in windows])
        at = first_step * self._size
        start = int(np.searchsorted(firsts, at, side="right")) - 1 if at < self.n_rows else len(windows)
        tail: list[Tensor] = []
        for number in range(start, len(windows)):
            loaded = self._take(windows[number])
            if number + 1 < len(windows):
                self._begin(windows[number + 1])
            else:
                self.read_ahead(generator)  # the next epoch begins where the generator is now
            first, end = windows[number].first, windows[number].first + windows[number].n_rows
            while at < end:
                stop = min((at // self._size + 1) * self._size, self.n_rows)
                low, high = np.searchsorted(loaded.places, [at - first, stop - first])
                part = loaded.packed[low:high]
                if stop > end:
                    tail.append(part.clone())  # not a view, which would keep all rows of the window in memory
                    at = end
                    continue
                joined = torch.cat([*tail, part]) if tail else part
                begin = stop - self._size if stop % self._size == 0 else stop - stop % self._size
                tail, at = [], stop
                yield Batch.of(self._prepared.rows(joined), stop - begin)
            del loaded

    def _plan(self, seed: int) -> list[Window]:
        # With fewer row groups than processes some would have no rows. The rows of at least two are mixed.
        return plan_epoch(seed, self._counts, self._source.buffer_rows, max(2, self._group.size))

    def _begin(self, window: Window) -> None:
        self._ahead = (window.seed, self._pool.submit(self._load, window))

    def _take(self, window: Window) -> _Loaded:
        if self._ahead is None or self._ahead[0] != window.seed:
            self._begin(window)
        assert self._ahead is not None
        loaded = self._ahead[1].result()
        self._ahead = None
        return loaded

    def _load(self, window: Window) -> _Loaded:
        """Read this process's row groups of a window into one tensor, every row at its place in the order."""
        mine = window.owners(self._group.size) == self._group.rank
        goes = window.places(mine)
        placed = np.arange(len(goes))
        if self._group.size > 1:
            placed, goes = ranked(goes, window.n_rows)
        packed = self._prepared.empty(len(goes))
        first = 0
        for k in np.flatnonzero(mine):
            if self._closed:
                break  # the batches were closed: this window is not needed
            part = self._source.read(int(window.groups[k]), classes=self._prepared.classes is not None)
            if len(part.rows) != window.sizes[k]:
                group = self._source.files.groups[int(window.groups[k])]
                place = f"Row group {group.group} of {quoted_file(self._source.files.files[group.file])}"
                raise TableError(f"{place} must keep its {window.sizes[k]:,} rows while in use, got {len(part.rows):,}.")
            self._prepared.put(part, goes[first : first + len(part.rows)], packed)
            first += len(part.rows)
        return _Loaded(torch.from_numpy(packed).to(self._prepared.device), placed)


def _draw(generator: torch.Generator) -> int:
    return int(torch.randint(2**62, (), generator=generator))


# Share of the rows of a window below which sorting them is faster than counting through the window.
_FEW = 0.015


@dataclass(frozen=True)
class Window:
    """Row groups whose rows are shuffled together."""

    groups: Array  # numbers of the row groups
    sizes: Array  # rows of each
    first: int  # rows of the epoch before this window
    seed: tuple[int, int]  # of the order of the rows

    @property
    def n_rows(self) -> int:
        return int(self.sizes.sum())

    def owners(self, n_processes: int) -> Array:
        """The process that reads each row group: the largest group first, to the process with the fewest rows."""
        owner = np.zeros(len(self.groups), dtype=np.int64)
        load = np.zeros(n_processes, dtype=np.int64)
        for place in np.argsort(-self.sizes, kind="stable"):
            owner[place] = np.argmin(load)
            load[owner[place]] += self.sizes[place]
        return owner

    def places(self, groups: Array | None = None) -> Array:
        """Place in the window of each row of some row groups, one group after the other, (rows,).

        ``groups`` (row groups,) is true for these, by default for all. The work is in proportion to their rows.
        """
        n_rows = self.n_rows
        keys = np.random.default_rng(self.seed).integers(2**63, size=4, dtype=np.uint64)
        wanted = np.ones(len(self.groups), dtype=bool) if groups is None else groups
        places = np.empty(int(self.sizes[wanted].sum()), dtype=np.int64)
        starts, filled = np.cumsum([0, *self.sizes]), 0
        for k in np.flatnonzero(wanted):
            part = places[filled : filled + int(self.sizes[k])]
            mixing.places_among(int(starts[k]), n_rows, keys, part)
            filled += len(part)
        return places


def ranked(places: Array, n_rows: int) -> tuple[Array, Array]:
    """Places of a window of ``n_rows`` rows in ascending order, and the rank of each place among them.

    Examples
    --------
    >>> import numpy as np
    >>> ascending, ranks = ranked(np.array([7, 2, 5]), 8)
    >>> ascending.tolist(), ranks.tolist()
    ([2, 5, 7], [2, 0, 1])
    """
    ranks = np.empty_like(places)
    # Sorting takes more time per place, but none for the places of other processes.
    if len(places) < _FEW * n_rows:
        order = np.argsort(places)
        ranks[order] = np.arange(len(places))
        return places[order], ranks
    ascending = np.empty(len(places) + 1, dtype=places.dtype)
    mixing.count_ranks(places, n_rows, ascending, ranks)
    return ascending[:-1], ranks


def plan_epoch(seed: int, counts: Array, buffer_rows: int, min_groups: int) -> list[Window]:
    """The windows of an epoch over row groups of ``counts`` (row groups,) rows; empty groups are left out.

    A window has at least ``buffer_rows`` rows and ``min_groups`` row groups. A short last window joins the one before it.
    """
    groups = np.flatnonzero(counts)
    order = groups[np.random.default_rng(seed).permutation(len(groups))]
    cuts, n_rows, n_groups = [], 0, 0
    for place, group in enumerate(order):
        n_rows, n_groups = n_rows + int(counts[group]), n_groups + 1
        if n_rows >= buffer_rows and n_groups >= min_groups:
            cuts.append(place + 1)
            n_rows = n_groups = 0
    if n_groups and cuts and (n_rows < buffer_rows // 2 or n_groups < min_groups):
        cuts.pop()
    parts = [part for part in np.split(order, cuts) if len(part)]
    firsts = np.cumsum([0, *(int(counts[part].sum()) for part in parts)])
    return [
        Window(part, counts[part], int(first), (seed, number))
        for number, (part, first) in enumerate(zip(parts, firsts, strict=False))
    ]
