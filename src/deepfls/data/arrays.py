"""Training samples as arrays in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

# Up to here equal rows are merged; sorting larger tables would cost more than the exactness is worth.
MERGED_ROWS = 20_000


@dataclass(frozen=True)
class Samples:
    """Inputs (rows, features), targets (rows, outputs) and weights (rows,) with mean 1, or None where all are 1."""

    x: Array
    y: Array
    weight: Array | None

    def take(self, rows: Array) -> Samples:
        return Samples(self.x[rows], self.y[rows], None if self.weight is None else self.weight[rows])

    def split(self, fraction: float, random: np.random.RandomState) -> tuple[Samples, Samples]:
        """All but a fraction of the samples, and that fraction; at least one of each where there are two."""
        if self.n_rows < 2:
            return self, self
        n_held_out = min(max(1, round(fraction * self.n_rows)), self.n_rows - 1)
        order = random.permutation(self.n_rows)
        return self.take(np.sort(order[n_held_out:])), self.take(np.sort(order[:n_held_out]))

    @property
    def n_rows(self) -> int:
        return len(self.x)


def weighted_samples(x: Array, y: Array, weight: Array | None, *, merged: bool = True) -> Samples:
    """Samples in an order of their own, equal ones merged into one of their joint weight.

    A row of weight k is then exactly k equal rows, and the order in which rows arrive does not matter: both hold to
    the last bit rather than on average. Beyond :data:`MERGED_ROWS` rows, or where not to be ``merged``, the samples stay as
    they are.
    """
    if weight is not None:
        kept = weight > 0
        x, y, weight = x[kept], y[kept], weight[kept]
    if merged and len(x) <= MERGED_ROWS:
        order = _order_of_distinct_rows(x)
        if order is not None:
            x, y, weight = x[order], y[order], None if weight is None else weight[order]
        else:
            joined = np.concatenate([x, y], axis=1)
            _, first, inverse = np.unique(joined, axis=0, return_index=True, return_inverse=True)
            weight = np.bincount(inverse.ravel(), weights=weight, minlength=len(first)).astype(np.float64)
            x, y = x[first], y[first]
    if weight is None or np.all(weight == weight[0]):
        return Samples(x, y, None)
    return Samples(x, y, weight / weight.mean())


def _order_of_distinct_rows(x: Array) -> Array | None:
    """The sorted order of rows, where two columns tell all of them apart; None else.

    It is then the order of whole rows too, in a twentieth of the time that these take.
    """
    for n_columns in range(1, min(x.shape[1], 2) + 1):
        keys = x[:, :n_columns]
        order = np.lexsort(keys.T[::-1])
        if (np.diff(keys[order], axis=0) != 0).any(axis=1).all():
            return order
    return None
