"""Scaling of columns: mean and standard deviation from chunks of rows, and the affine map that follows from them.

Count, mean and sum of squared deviations of two parts combine exactly (Chan, Golub and LeVeque), so the result does not
depend on how the rows are divided into chunks. Sums are float64 for data of any type.

Wild values are single numbers so far from all others that they would decide the scale of a column, and ruin a fit: more
than ten times the range between the 5 % and the 95 % quantile beyond that range, and at most one value in a hundred. Where
no value is negative, they also lie more than twice that range beyond in logarithms, so that long tails are not cut. Rows
with a wild value are left out of training, unless they are many, and an input that is wild in a prediction is clipped to
the farthest value that is not. Nearly all columns of nearly all tables have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deepfls._checks.arguments import counted
from deepfls._checks.values import LARGEST, Array, ends_of_columns, fold_rows
from deepfls.data.columns import Columns

# A column whose spread is below this share of its magnitude is constant, up to the rounding of its stored values.
_CONSTANT = 1e-12
# Bound of scaled values, far beyond any data, so that their squares and sums stay finite.
FARTHEST = 1e100
# The quantiles, the number of ranges between them beyond which a value is wild, and the largest share of wild values.
_QUANTILES, _RANGES, _LARGEST_SHARE = (0.05, 0.95), 10.0, 0.01
# The same in the logarithms of a column without negative values.
_LOG_RANGES = 2.0
# Share of the rows with a wild value up to which they are left out; more are clipped.
_LEFT_OUT_SHARE = 0.02
# Rows from which a column is first compared with an inner range, which half as many rows give.
_FEW_ROWS = 1_000
# Values of a column that are known, at least, to call one of them wild.
_FEWEST = 20


class Standardizer:
    """Mean and standard deviation (n - 1) of every column, from chunks.

    Examples
    --------
    >>> import numpy as np
    >>> scaler = Standardizer(1).update(np.array([[1.0], [3.0]])).update(np.array([[5.0]]))
    >>> float(scaler.mean[0]), float(scaler.scale[0])
    (3.0, 2.0)
    """

    def __init__(self, n_columns: int) -> None:
        self.count: Array = np.zeros(n_columns)  # of known values, by weight
        self.mean: Array = np.zeros(n_columns)
        self.squares: Array = np.zeros(n_columns)

    def update(self, rows: Array, weight: Array | None = None) -> Standardizer:
        """Add a chunk (rows, columns); each row counts ``weight`` times."""
        if len(rows) == 0 or (weight is not None and not weight.any()):
            return self
        rows = np.asarray(rows, dtype=np.float64)
        part = Standardizer(rows.shape[1])
        unknown = np.isnan(rows)
        if unknown.any():
            return self.merge(part._of_known(rows, unknown, weight))
        part.count[:] = float(len(rows)) if weight is None else float(weight.sum())
        # The mean of equal numbers may differ from them in the last bit, which would give a constant column a spread.
        constant = (rows[:64] == rows[0]).all(axis=0)  # a few rows show that nearly all columns vary
        constant[constant] = (rows[:, constant] == rows[0, constant]).all(axis=0)
        mean = fold_rows(np.sum, rows) / len(rows) if weight is None else np.average(rows, axis=0, weights=weight)
        part.mean = np.where(constant, rows[0], mean)
        squares = rows - part.mean
        np.square(squares, out=squares)  # in place: a second table of this size takes longer than the squares
        part.squares = fold_rows(np.sum, squares) if weight is None else weight @ squares
        return self.merge(part)

    def merge(self, other: Standardizer) -> Standardizer:
        """Add the rows of another standardiser."""
        count = self.count + other.count
        share = other.count / np.maximum(count, np.finfo(np.float64).tiny)
        shift = other.mean - self.mean
        self.squares = self.squares + other.squares + shift**2 * (self.count * share)
        self.mean = self.mean + shift * share
        self.count = count
        return self

    def _of_known(self, rows: Array, unknown: Array, weight: Array | None) -> Standardizer:
        """Statistics of the known values, column by column."""
        weights = np.where(unknown, 0.0, 1.0 if weight is None else weight[:, None])
        self.count = weights.sum(axis=0)
        known = np.where(unknown, 0.0, rows)
        low, high = (np.where(unknown, fill, rows) for fill in (np.inf, -np.inf))
        low, high = low.min(axis=0), high.max(axis=0)
        mean = (weights * known).sum(axis=0) / np.maximum(self.count, np.finfo(np.float64).tiny)
        self.mean = np.where(low == high, low, mean)
        self.squares = (weights * np.square(np.where(unknown, 0.0, rows - self.mean))).sum(axis=0)
        return self

    @property
    def scale(self) -> Array:
        """Standard deviation of each column; for a constant column its magnitude, at least 1, so that it scales to 0."""
        deviation = np.sqrt(self.squares / np.maximum(self.count - 1.0, 1.0))
        magnitude = np.abs(self.mean)
        return np.where(deviation > _CONSTANT * magnitude, deviation, np.maximum(magnitude, 1.0))


class Scaling:
    """A fixed affine map per column, ``z = (x - shift) / scale``, and its inverse; values beyond bounds are clipped."""

    def __init__(self, shift: Array, scale: Array, low: Array | None = None, high: Array | None = None) -> None:
        self.shift = np.asarray(shift, dtype=np.float64)
        self.scale = np.asarray(scale, dtype=np.float64)
        self.low, self.high = low, high

    @classmethod
    def identity(cls, n_columns: int) -> Scaling:
        return cls(np.zeros(n_columns), np.ones(n_columns))

    @classmethod
    def standard(cls, rows: Array, weight: Array | None = None, bounds: Bounds | None = None) -> Scaling:
        """Mean 0 and standard deviation 1 for every column of ``rows``, within bounds where there are any."""
        seen = Standardizer(rows.shape[1]).update(rows if bounds is None else np.clip(rows, *bounds), weight)
        return cls(seen.mean, seen.scale, *(bounds or ()))

    def clipped(self, rows: Array) -> Array:
        """Rows (rows, columns) within the bounds."""
        return rows if self.low is None else np.clip(rows, self.low, self.high)

    def joint(self, columns: Columns) -> Scaling:
        """The same with one scale for all inputs of a category, so that it weighs as much as a number."""
        scale = self.scale.copy()
        for _, first, end in columns.groups:
            scale[first:end] = np.sqrt(np.square(self.scale[first:end]).sum())
        return Scaling(self.shift, scale, self.low, self.high)

    def apply(self, rows: Array) -> Array:
        """To scaled units, in float64: subtracting a large mean in float32 would lose the digits that matter."""
        with np.errstate(over="ignore"):
            scaled = np.subtract(self.clipped(rows), self.shift, dtype=np.float64)
            scaled /= self.scale
        # The test takes less time than clipping, which is hardly ever needed.
        if scaled.size and not (scaled.max() <= FARTHEST and scaled.min() >= -FARTHEST):  # or NaN
            np.clip(scaled, -FARTHEST, FARTHEST, out=scaled)
        return scaled

    def invert(self, rows: Array) -> Array:
        """Back to the units of the data."""
        values = np.multiply(rows, self.scale, dtype=np.float64)
        values += self.shift
        return values


# Wild values


class Bounds(NamedTuple):
    """Smallest and largest value of every column that is used, each (columns,); ±LARGEST where nothing is clipped."""

    low: Array
    high: Array


def wild_bounds(rows: Array) -> Bounds | None:
    """Bounds of the columns of rows (rows, columns), NaN where a value is not known; None without a wild value."""
    low, high = np.full(rows.shape[1], -LARGEST), np.full(rows.shape[1], LARGEST)
    for column in np.flatnonzero(~_surely_tame(rows)):
        values = rows[:, column]
        least, largest = _limits(values)
        wild = (values < least) | (values > largest)
        if not wild.any():
            continue
        if wild.sum() > max(1.0, _LARGEST_SHARE * (~np.isnan(values)).sum()):
            continue  # a long tail, not single values
        low[column], high[column] = np.nanmin(values[~wild]), np.nanmax(values[~wild])
    return Bounds(low, high) if (low > -LARGEST).any() else None


def _surely_tame(rows: Array) -> Array:
    """Whether a column has no wild value for certain, (columns,): known from a few rows and counts, without quantiles.

    Where more than one value in twenty lies on either side of an inner range, the range between the quantiles holds that
    one, and values that are not wild by the inner range are not wild.
    """
    if len(rows) < _FEW_ROWS:
        return np.zeros(rows.shape[1], dtype=bool)
    some = np.sort(rows[:: len(rows) // (_FEW_ROWS // 2)], axis=0)
    first, last = some[len(some) // 10], some[-1 - len(some) // 10]
    beyond = _QUANTILES[0] * len(rows) + 1.0
    wide = (fold_rows(np.sum, rows <= first) > beyond) & (fold_rows(np.sum, rows >= last) > beyond)
    reach, ends = _RANGES * (last - first), ends_of_columns(rows)
    # A NaN makes a comparison false, and its column is looked at more closely.
    return wide & (ends[0] >= first - reach) & (ends[1] <= last + reach)


def _limits(values: Array) -> tuple[float, float]:
    """The limits beyond which a value of a column is wild."""
    known = values[~np.isnan(values)]
    if len(known) < _FEWEST:
        return -np.inf, np.inf
    first, last = np.quantile(known, _QUANTILES)
    if first == last:  # most values are equal, such as 0: the others have the range
        others = known[known != first]
        if len(others) < _FEWEST // 4:
            return -np.inf, np.inf
        ends = np.quantile(others, _QUANTILES)
        first, last = min(first, ends[0]), max(last, ends[1])
    low, high = first - _RANGES * (last - first), last + _RANGES * (last - first)
    positive = known[known > 0]
    if known.min() >= 0 and len(positive) >= _FEWEST // 4:  # long tails are not wild
        ends = np.quantile(np.log(positive), _QUANTILES)
        high = max(high, np.exp(min(ends[1] + _LOG_RANGES * (ends[1] - ends[0]), 300.0)))
    return low, high


class Wild(NamedTuple):
    """What is done about wild values: bounds of inputs and of targets, rows to keep (rows,), and a sentence about it."""

    x: Bounds | None = None
    y: Bounds | None = None
    kept: Array | None = None  # None where all rows are
    text: str = ""


def find_wild(x: Array, y: Array | None, names: Sequence[str]) -> Wild:
    """Wild values in inputs x (rows, columns) and, unless they are classes, targets y (rows, targets)."""
    parts = [(x, wild_bounds(x), list(names))]
    if y is not None:
        parts.append((y, wild_bounds(y), ["y"] if y.shape[1] == 1 else [f"y{place}" for place in range(y.shape[1])]))
    rows, columns, count = np.zeros(len(x), dtype=bool), [], 0
    for values, bounds, known in parts:
        if bounds is not None:
            outside = (values < bounds.low) | (values > bounds.high)
            rows |= outside.any(axis=1)
            columns += [known[column] for column in np.flatnonzero(outside.any(axis=0))]
            count += int(outside.sum())
    if count == 0:
        return Wild()
    is_are = "is" if count == 1 else "are"
    shown = ", ".join(map(repr, columns[:5])) + (f" and {len(columns) - 5} more" if len(columns) > 5 else "")
    kept, done = None, f"{is_are} clipped to them"
    if rows.sum() <= max(1.0, _LEFT_OUT_SHARE * len(x)):
        kept, done = ~rows, f"left out of training ({counted(int(rows.sum()), 'row')}, {100 * rows.mean():.2g} %)"
    words = f"{counted(count, 'value')} of {shown} {is_are} far beyond all others and {done}"
    words += "; outliers='keep' (--outliers keep) uses such values."
    return Wild(parts[0][1], None if y is None else parts[1][1], kept, words)
