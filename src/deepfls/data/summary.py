"""What one pass over a table finds out before training, in parts that merge.

Count, mean and variance, ranges, the classes, a sample, and the rows that watch for early stopping. Parts from different
row groups and processes merge to the same summary, to rounding, in any order: a row belongs to the sample by a random
number that depends on its place in the table only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deepfls.data.scaling import Standardizer
from deepfls.data.sources import SourceRows, uniform
from deepfls.data.tables import TableError

Array = np.ndarray[Any, np.dtype[Any]]

# Rows, and numbers, of the sample that gives the starting point. K-means looks at 5,000 of them; the normal equations of
# all rows would take longer than several epochs of training, and hardly better the start (RESULTS.md, Scale: start).
SAMPLE_ROWS, _SAMPLE_NUMBERS = 2**18, 2**25
# Rows held out for early stopping, which stay in memory.
HELD_OUT_ROWS = 2**17
MAX_CLASSES = 1_000


class Reservoir:
    """The rows with the smallest random keys: a sample without replacement, the same however the rows arrive.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.arange(6.0).reshape(6, 1)
    >>> keys = np.array([0.3, 0.1, 0.9, 0.2, 0.8, 0.7])
    >>> whole = Reservoir(2, 1).update(keys, rows)
    >>> parts = Reservoir(2, 1).update(keys[:4], rows[:4]).merge(Reservoir(2, 1).update(keys[4:], rows[4:]))
    >>> whole.rows.ravel().tolist(), parts.rows.ravel().tolist()
    ([1.0, 3.0], [1.0, 3.0])
    """

    def __init__(self, size: int, n_columns: int) -> None:
        self.size = size
        self._keys: Array = np.zeros(0)
        self._rows: Array = np.zeros((0, n_columns))
        self._pending: list[tuple[Array, Array]] = []
        self.limit = np.inf

    def update(self, keys: Array, rows: Array) -> Reservoir:
        low = keys < self.limit
        if low.any():
            self._pending.append((keys[low], rows[low]))
            if sum(len(k) for k, _ in self._pending) >= max(self.size // 4, 1):
                self._settle()
        return self

    def merge(self, other: Reservoir) -> Reservoir:
        return self.update(other.keys, other.rows)

    def trim(self, others: Array) -> Reservoir:
        """Leave out the rows that the keys of other reservoirs, and one's own, keep out of the joint sample."""
        keys = np.concatenate([self.keys, others])
        if len(keys) > self.size:
            limit = np.partition(keys, self.size - 1)[self.size - 1]
            kept = self._keys <= limit
            self._keys, self._rows = self._keys[kept], self._rows[kept]
        return self

    def _settle(self) -> None:
        if self._pending:
            keys = np.concatenate([self._keys, *(k for k, _ in self._pending)])
            rows = np.concatenate([self._rows, *(r for _, r in self._pending)])
            self._pending = []
            order = np.argsort(keys, kind="stable")[: self.size]
            self._keys, self._rows = keys[order], rows[order]
            self.limit = float(self._keys[-1]) if len(self._keys) == self.size else np.inf

    @property
    def keys(self) -> Array:
        self._settle()
        return self._keys

    @property
    def rows(self) -> Array:
        """The sample, by ascending key: in random order."""
        self._settle()
        return self._rows


@dataclass
class Summary:
    """What is known of the training rows of a source.

    Attributes
    ----------
    counts : ndarray of int, shape (row groups,)
        Training rows in every row group, those left out not counted.
    x, y : Standardizer
    lowest, highest : ndarray, shape (features,)
    sample : Reservoir
        Rows of inputs, targets and, with weights, weights.
    held_out : list of ndarray
        Row numbers in the first column, then as in the sample.
    classes : list
        Distinct targets where they are classes; the targets in sample and rows held out are then places in ``labels``.
    n_dropped : int
    """

    counts: Array
    x: Standardizer
    y: Standardizer
    lowest: Array
    highest: Array
    sample: Reservoir
    weighted: bool
    held_out: list[Array] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)
    n_dropped: int = 0

    @classmethod
    def empty(cls, n_groups: int, n_features: int, n_targets: int, *, weighted: bool) -> Summary:
        n_columns = n_features + n_targets + weighted
        size = min(SAMPLE_ROWS, _SAMPLE_NUMBERS // n_columns + 1)
        return cls(
            np.zeros(n_groups, dtype=np.int64),
            Standardizer(n_features),
            Standardizer(n_targets),
            np.full(n_features, np.inf),
            np.full(n_features, -np.inf),
            Reservoir(size, n_columns),
            weighted,
        )

    def update(self, number: int, part: SourceRows, *, seed: int, held_out_share: float) -> None:
        """Take in a row group; ``held_out_share`` of its rows are kept aside."""
        y = self._numbered(part.y) if part.y.ndim == 1 else part.y
        columns = [part.x, y] + ([] if part.weight is None else [part.weight[:, None]])
        self.n_dropped += part.n_dropped
        x, weight, rows = part.x, part.weight, part.rows
        if held_out_share > 0:
            held = uniform(seed + 1, rows) < held_out_share
            self.held_out.append(np.concatenate([rows[held, None], *(column[held] for column in columns)], axis=1))
            columns = [column[~held] for column in columns]
            x, y, rows = columns[0], columns[1], rows[~held]
            weight = None if weight is None else weight[~held]
        self.counts[number] = len(rows)
        if len(rows) == 0:
            return
        self.x.update(x, weight)
        self.y.update(y, weight)
        self.lowest = np.minimum(self.lowest, x.min(axis=0))
        self.highest = np.maximum(self.highest, x.max(axis=0))
        keys = uniform(seed, rows)
        low = keys < self.sample.limit
        self.sample.update(keys[low], np.concatenate([column[low] for column in columns], axis=1))

    def _numbered(self, labels: Array) -> Array:
        """Places of class labels in :attr:`labels`, which grows as needed, (rows, 1)."""
        values, inverse = np.unique(labels, return_inverse=True)
        for value in values.tolist():
            if value not in self.labels:
                self.labels.append(value)
        if len(self.labels) > MAX_CLASSES:
            raise TableError(
                f"The target must have at most {MAX_CLASSES:,} classes, got more: --task regression for numbers."
            )
        places = np.array([self.labels.index(value) for value in values.tolist()], dtype=np.float64)
        return places[inverse.ravel()].reshape(-1, 1)

    def merge(self, other: Summary) -> None:
        """Take in what was found in other row groups."""
        self.counts = self.counts + other.counts
        self.x.merge(other.x)
        self.y.merge(other.y)
        self.lowest, self.highest = np.minimum(self.lowest, other.lowest), np.maximum(self.highest, other.highest)
        n_features = len(self.lowest)
        renumbered = [*self.labels, *(label for label in other.labels if label not in self.labels)]
        place = np.array([renumbered.index(label) for label in other.labels], dtype=np.float64)
        self.labels = renumbered

        def mapped(rows: Array, column: int) -> Array:
            if len(place) and len(rows):
                rows = rows.copy()
                rows[:, column] = place[rows[:, column].astype(np.int64)]
            return rows

        self.sample.update(other.sample.keys, mapped(other.sample.rows, n_features))
        self.held_out += [mapped(rows, n_features + 1) for rows in other.held_out]
        self.n_dropped += other.n_dropped

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    def held_out_rows(self) -> Array:
        """The rows kept aside, in the order of the table."""
        return self._ordered()[:, 1:]

    def split_held_out(self, seed: int, share: float) -> tuple[Array, Array]:
        """The rows kept aside by draws below a share, and the others; each in the order of the table."""
        rows = self._ordered()
        low = uniform(seed + 1, rows[:, 0].astype(np.int64)) < share
        return rows[low, 1:], rows[~low, 1:]

    def _ordered(self) -> Array:
        rows = np.concatenate([np.zeros((0, 1 + self.sample.rows.shape[1])), *self.held_out])
        return rows[np.argsort(rows[:, 0], kind="stable")]

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The summary as plain values and arrays, to be sent to other processes."""
        description = {"labels": self.labels, "n_dropped": self.n_dropped, "count": [self.x.count, self.y.count]}
        arrays = {
            "counts": self.counts,
            "x_mean": self.x.mean,
            "x_squares": self.x.squares,
            "y_mean": self.y.mean,
            "y_squares": self.y.squares,
            "lowest": self.lowest,
            "highest": self.highest,
            "keys": self.sample.keys,
            "sample": self.sample.rows,
        }
        if self.held_out:
            arrays["held_out"] = np.concatenate(self.held_out)
        return description, arrays

    def merge_state(self, description: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Take in the :meth:`state` of another process."""
        other = Summary.empty(len(self.counts), len(self.lowest), len(self.y.mean), weighted=self.weighted)
        other.labels, other.n_dropped = description["labels"], description["n_dropped"]
        other.counts, other.lowest, other.highest = arrays["counts"], arrays["lowest"], arrays["highest"]
        for name, part, count in (("x", other.x, description["count"][0]), ("y", other.y, description["count"][1])):
            part.count, part.mean, part.squares = count, arrays[f"{name}_mean"], arrays[f"{name}_squares"]
        other.sample.update(arrays["keys"], arrays["sample"])
        other.held_out = [arrays["held_out"]] if "held_out" in arrays else []
        self.merge(other)
