"""Scaling of columns: mean and standard deviation from chunks of rows, and the affine map that follows from them.

Count, mean and sum of squared deviations of two parts combine exactly (Chan, Golub and LeVeque), so the result does not
depend on how the rows are divided into chunks. Sums are float64 for data of any type.
"""

from __future__ import annotations

import numpy as np

from deepfls._checks.samples import Array
from deepfls.data.columns import Columns
from deepfls.data.outliers import Bounds

# A column whose spread is below this share of its magnitude is constant, up to the rounding of its stored values.
_CONSTANT = 1e-12
# Bound of scaled values, far beyond any data, so that their squares and sums stay finite.
FARTHEST = 1e100


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
        part.mean = np.where((rows == rows[0]).all(axis=0), rows[0], np.average(rows, axis=0, weights=weight))
        squares = np.square(rows - part.mean)
        part.squares = squares.sum(axis=0) if weight is None else weight @ squares
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
        """The same from the values that are known, column by column."""
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
        if bounds is None:
            seen = Standardizer(rows.shape[1]).update(rows, weight)
            return cls(seen.mean, seen.scale)
        seen = Standardizer(rows.shape[1]).update(np.clip(rows, *bounds), weight)
        return cls(seen.mean, seen.scale, *bounds)

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
