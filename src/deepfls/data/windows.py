"""The order of an epoch over row groups: the same for any number of processes, with every row group read by one of them.

Row groups are shuffled and joined into *windows* of about ``buffer_rows`` rows. The rows of a window are shuffled among
each other, and batches are consecutive rows of the sequence of windows. The row groups of a window are divided among the
processes. A process trains on the rows of a batch that lie in its row groups: about its share of every batch, and all
processes together on exactly the batch of a single process. Everything follows from one seed and the sizes of the row
groups, so all processes compute the same number of steps before the first row is read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deepfls._checks.samples import Array

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
        from deepfls.kernels import mixing  # here: Numba is slow to import

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
    from deepfls.kernels import mixing  # here: Numba is slow to import

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
