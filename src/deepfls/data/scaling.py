"""A standardiser that sees data once, in chunks of any size, and merges with others.

Count, mean and sum of squared deviations of two parts combine exactly (Chan, Golub and LeVeque), so the result does not
depend on how the rows were cut. Sums are float64 whatever the data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

# A column whose spread is below this share of its magnitude holds one value, up to the rounding of its own storage.
_CONSTANT = 1e-12
# Scaled values are held within this bound, far beyond any data, so that their squares and sums stay finite.
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
        self.count = 0.0
        self.mean: Array = np.zeros(n_columns)
        self.squares: Array = np.zeros(n_columns)

    def update(self, rows: Array, weight: Array | None = None) -> Standardizer:
        """Take in a chunk (rows, columns), each row counting ``weight`` times."""
        if len(rows) == 0 or (weight is not None and not weight.any()):
            return self
        rows = np.asarray(rows, dtype=np.float64)
        part = Standardizer(rows.shape[1])
        part.count = float(len(rows)) if weight is None else float(weight.sum())
        # The mean of equal numbers may miss them by a bit, which would leave a constant column with a spread.
        part.mean = np.where((rows == rows[0]).all(axis=0), rows[0], np.average(rows, axis=0, weights=weight))
        squares = np.square(rows - part.mean)
        part.squares = squares.sum(axis=0) if weight is None else weight @ squares
        return self.merge(part)

    def merge(self, other: Standardizer) -> Standardizer:
        """Take in what another standardiser has seen."""
        count = self.count + other.count
        if count > 0:
            shift = other.mean - self.mean
            self.squares = self.squares + other.squares + shift**2 * (self.count * other.count / count)
            self.mean = self.mean + shift * (other.count / count)
            self.count = count
        return self

    @property
    def scale(self) -> Array:
        """Standard deviation of each column; its magnitude, at least 1, where it is constant, so that it scales to 0."""
        deviation = np.sqrt(self.squares / max(self.count - 1.0, 1.0))
        magnitude = np.abs(self.mean)
        return np.where(deviation > _CONSTANT * magnitude, deviation, np.maximum(magnitude, 1.0))


class Scaling:
    """A fixed affine map per column, ``z = (x - shift) / scale``, and its inverse."""

    def __init__(self, shift: Array, scale: Array) -> None:
        self.shift = np.asarray(shift, dtype=np.float64)
        self.scale = np.asarray(scale, dtype=np.float64)

    @classmethod
    def identity(cls, n_columns: int) -> Scaling:
        return cls(np.zeros(n_columns), np.ones(n_columns))

    @classmethod
    def standard(cls, rows: Array, weight: Array | None = None) -> Scaling:
        """Mean 0 and standard deviation 1 for every column of ``rows``."""
        seen = Standardizer(rows.shape[1]).update(rows, weight)
        return cls(seen.mean, seen.scale)

    def apply(self, rows: Array) -> Array:
        """To scaled units, in float64: subtracting a large mean in float32 would lose the digits that matter."""
        with np.errstate(over="ignore"):
            scaled = np.subtract(rows, self.shift, dtype=np.float64)
            scaled /= self.scale
        # Looking is cheaper than clipping, and nearly always enough.
        if scaled.size and not (scaled.max() <= FARTHEST and scaled.min() >= -FARTHEST):
            np.clip(scaled, -FARTHEST, FARTHEST, out=scaled)
        return scaled

    def invert(self, rows: Array) -> Array:
        """Back to the units of the data."""
        values = np.multiply(rows, self.scale, dtype=np.float64)
        values += self.shift
        return values
