"""Checks of prediction intervals: coverage, levels of quantiles, ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from deepfls._checks.samples import check_paired_arrays
from deepfls._checks.settings import check_number

Array = np.ndarray[Any, np.dtype[Any]]


def largest_coverage(n_rows: int) -> float:
    """The largest coverage that a number of calibration rows can give."""
    return n_rows / (n_rows + 1)


def check_coverage(coverage: Any) -> float:
    """Return a coverage within (0, 1)."""
    return check_number("coverage", coverage, above=0.0, below=1.0)


def check_levels(quantiles: Any) -> Array:
    """Return levels of quantiles, (levels,), rising and within (0, 1)."""
    levels = np.asarray(quantiles, dtype=np.float64)
    if levels.ndim != 1 or len(levels) < 1 or not ((levels > 0) & (levels < 1)).all() or (np.diff(levels) <= 0).any():
        raise ValueError(f"quantiles must be rising levels greater than 0 and less than 1, got {quantiles!r}.")
    return levels


def check_interval_arrays(y_true: Any, lower: Any, upper: Any) -> tuple[Array, Array, Array]:
    """Return targets and both ends as float64 of one shape, no lower end above its upper one. Reads values."""
    truth, low = check_paired_arrays(y_true=y_true, lower=lower)
    _, high = check_paired_arrays(y_true=y_true, upper=upper)
    truth, low, high = (np.asarray(part, dtype=np.float64) for part in (truth, low, high))
    crossed = low > high
    if crossed.any():
        at = tuple(int(i) for i in np.argwhere(crossed)[0])
        raise ValueError(f"lower must be at most upper, got {low[at]:g} and {high[at]:g} in row {at[0]}.")
    return truth, low, high


def check_type_reduced(system: Any) -> Any:
    """Return a system that has a type-reduced set to train."""
    if not hasattr(system, "reduce"):
        raise TypeError(f"coverage must be None for a system without a type-reduced set, got a {type(system).__name__}.")
    return system
