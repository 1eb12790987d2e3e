"""Summaries of a table from one pass over its rows, in parts that merge.

A summary holds count, mean and variance, ranges, classes, a random sample, and the rows that are held out. Parts of
different row groups and processes merge to the same summary, to rounding, in any order: whether a row is in the sample
depends on a random number that follows from the place of the row in the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deepfls._checks.values import Array
from deepfls.data.scaling import Standardizer
from deepfls.data.tables import TableError

# Rows, and numbers, of the sample that gives the starting point. K-means uses 5,000 of these rows. The normal equations of
# all rows would take longer than several epochs of training and hardly improve the start (RESULTS.md, Scale: start).
SAMPLE_ROWS, _SAMPLE_NUMBERS = 2**18, 2**25
# Largest number of rows held out for early stopping, and for calibration; they stay in memory.
HELD_OUT_ROWS = 2**17
MAX_CLASSES = 1_000


@dataclass(frozen=True)
class SourceRows:
    """Rows of one row group in the units of the data."""

    # (columns, rows): inputs, targets unless they are classes, and weights where there are any. float32 where all columns
    # are stored so.
    columns: Array
    labels: Array | None  # (rows,): targets that are classes
    n_features: int
    weighted: bool
    rows: Array  # (rows,): numbers of the rows in the table
    n_dropped: int  # rows left out because they have no target or weight

    @property
    def x(self) -> Array:
        """Inputs (rows, features), float64."""
        return self.columns[: self.n_features].T.astype(np.float64, copy=False)

    @property
    def y(self) -> Array:
        """Targets: numbers (rows, targets), float64, or classes (rows,)."""
        if self.labels is not None:
            return self.labels
        return self.columns[self.n_features : len(self.columns) - self.weighted].T.astype(np.float64, copy=False)

    @property
    def weight(self) -> Array | None:
        """Weights (rows,), float64, or None."""
        return self.columns[-1].astype(np.float64, copy=False) if self.weighted else None


def uniform(seed: int, rows: Array) -> Array:
    """A random number in [0, 1) for every row, a function of the seed and the number of the row (splitmix64).

    Examples
    --------
    >>> import numpy as np
    >>> bool(uniform(1, np.arange(5))[3] == uniform(1, np.array([3]))[0])
    True
    """
    with np.errstate(over="ignore"):
        z = np.asarray(rows, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(seed) * np.uint64(0xD1342543DE82EF95) + np.uint64(0x632BE59BD9B4E019)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


class Reservoir:
    """The rows with the smallest random keys: a sample without replacement that does not depend on the order of arrival.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.arange(6.0).reshape(6, 1)
    >>> keys = np.array([0.3, 0.1, 0.9, 0.2, 0.8, 0.7])
    >>> whole = Reservoir(2, 1).update(keys, rows)
    >>> parts = Reservoir(2, 1).update(keys[4:], rows[4:]).update(keys[:4], rows[:4])
    >>> whole.rows.ravel().tolist(), parts.rows.ravel().tolist()
    ([1.0, 3.0], [1.0, 3.0])
    """

    def __init__(self, size: int, n_columns: int) -> None:
        self.size = size
        self.limit = np.inf  # no row of a larger key is in the sample
        self._parts: list[tuple[Array, Array]] = [(np.zeros(0), np.zeros((0, n_columns)))]  # keys and rows

    def update(self, keys: Array, rows: Array) -> Reservoir:
        low = keys < self.limit
        self._parts.append((keys[low], rows[low]))
        if sum(len(new) for new, _ in self._parts[1:]) >= max(self.size // 4, 1):
            self._sorted()
        return self

    def trim(self, others: Array) -> Reservoir:
        """Leave out the rows that are not in the joint sample with reservoirs of the given keys."""
        keys, rows = self._sorted()
        joint = np.concatenate([keys, others])
        if len(joint) > self.size:
            kept = keys <= np.partition(joint, self.size - 1)[self.size - 1]
            self._parts = [(keys[kept], rows[kept])]
        return self

    def _sorted(self) -> tuple[Array, Array]:
        """Keys and rows of the sample by ascending key."""
        if len(self._parts) > 1:
            keys, rows = (np.concatenate(part) for part in zip(*self._parts, strict=True))
            order = np.argsort(keys, kind="stable")[: self.size]
            self._parts = [(keys[order], rows[order])]
            self.limit = float(keys[order[-1]]) if len(order) == self.size else np.inf
        return self._parts[0]

    @property
    def keys(self) -> Array:
        return self._sorted()[0]

    @property
    def rows(self) -> Array:
        """The sample by ascending key, which is a random order."""
        return self._sorted()[1]


@dataclass
class Summary:
    """Summary of the training rows of a source."""

    counts: Array  # (row groups,): training rows, without rows that are held out or left out
    x: Standardizer
    y: Standardizer
    lowest: Array  # (features,)
    highest: Array
    sample: Reservoir  # rows of inputs, targets and, with weights, weights
    weighted: bool
    held_out: list[Array] = field(default_factory=list)  # row numbers in the first column, then as in the sample
    labels: list[Any] = field(default_factory=list)  # distinct classes; targets in sample and held_out are places in it
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
        """Add a row group; ``held_out_share`` of its rows are held out."""
        rows, columns = part.rows, [part.x, self._numbered(part.y) if part.y.ndim == 1 else part.y]
        columns += [] if part.weight is None else [part.weight[:, None]]
        self.n_dropped += part.n_dropped
        if held_out_share > 0:
            held = uniform(seed + 1, rows) < held_out_share
            self.held_out.append(np.concatenate([rows[held, None], *(column[held] for column in columns)], axis=1))
            rows, columns = rows[~held], [column[~held] for column in columns]
        x, weight = columns[0], None if part.weight is None else columns[2][:, 0]
        self.counts[number] = len(rows)
        if len(rows) == 0:
            return
        self.x.update(x, weight)
        self.y.update(columns[1], weight)
        self.lowest = np.fmin(self.lowest, np.fmin.reduce(x, axis=0))  # of the known values
        self.highest = np.fmax(self.highest, np.fmax.reduce(x, axis=0))
        keys = uniform(seed, rows)
        low = keys < self.sample.limit
        self.sample.update(keys[low], np.concatenate([column[low] for column in columns], axis=1))

    def _numbered(self, labels: Array) -> Array:
        """Places of class labels in :attr:`labels`, (rows, 1); new labels are appended."""
        values, inverse = np.unique(labels, return_inverse=True)
        self.labels += [value for value in values.tolist() if value not in self.labels]
        if len(self.labels) > MAX_CLASSES:
            raise TableError(
                f"The target must have at most {MAX_CLASSES:,} classes, got more; --task regression takes numbers."
            )
        places = np.array([self.labels.index(value) for value in values.tolist()], dtype=np.float64)
        return places[inverse.ravel()].reshape(-1, 1)

    def merge(self, other: Summary) -> None:
        """Add the summary of other row groups."""
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

    def split_held_out(self, seed: int, share: float) -> tuple[Array, Array]:
        """The rows held out whose draw is below a share, and the others, each in the order of the table."""
        rows = np.concatenate([np.zeros((0, 1 + self.sample.rows.shape[1])), *self.held_out])
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        low = uniform(seed + 1, rows[:, 0].astype(np.int64)) < share
        return rows[low, 1:], rows[~low, 1:]
