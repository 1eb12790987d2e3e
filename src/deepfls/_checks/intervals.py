"""Checks of prediction intervals: coverage, calibration, groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from deepfls._checks.samples import check_paired_arrays
from deepfls._checks.settings import check_number

Array = np.ndarray[Any, np.dtype[Any]]


def rows_needed(coverage: float) -> int:
    """Fewest calibration rows that can promise a coverage: the n with ``(n + 1) coverage <= n``.

    Examples
    --------
    >>> rows_needed(0.9), rows_needed(0.99)
    (9, 99)
    """
    # 1 / (1 - 0.9) is a little above 10 in binary.
    return max(1, math.ceil(round(1.0 / (1.0 - coverage), 9)) - 1)


def largest_coverage(n_rows: int) -> float:
    """The largest coverage that so many calibration rows can promise."""
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


def check_calibration_rows(n_rows: int, coverage: float, group: str = "") -> None:
    """Require as many calibration rows as the coverage needs."""
    needed = rows_needed(coverage)
    if n_rows < needed:
        where = f" in the group {group}" if group else ""
        raise ValueError(
            f"The calibration set must have {needed} rows or more{where} to promise a coverage of {coverage:g}, got "
            f"{n_rows}; hold more out with calibration_fraction, train on more rows, or ask for "
            f"{_floored(largest_coverage(n_rows))} or less."
        )


def _floored(share: float) -> str:
    """A share to four digits, never rounded up."""
    return f"{math.floor(share * 1e4) / 1e4:g}"


def check_calibration_of_kind(kind: str, calibration: str | None) -> None:
    """Require a calibration that a system of that kind can have: a Type-1 system learns no ends."""
    if kind == "t1" and calibration != "split":
        raise ValueError(
            f"calibration must be 'split' for kind='t1', whose output is one value, got {calibration!r}; kind='it2' learns "
            "intervals."
        )


def check_type_reduced(system: Any) -> Any:
    """Return a system that has a type-reduced set to train."""
    if not hasattr(system, "reduce"):
        raise TypeError(f"coverage must be None for a system without a type-reduced set, got a {type(system).__name__}.")
    return system


def check_trained_for_intervals(calibration: Any, method: str) -> None:
    """Require a model that was fitted with a coverage."""
    if calibration is None:
        raise ValueError(f"{method} must follow a fit with a coverage, got coverage=None; train again with coverage=0.9.")


def check_uncalibrated_coverage(coverage: float, trained: float) -> None:
    """Require the coverage that a set without calibration was trained for."""
    if coverage != trained:
        raise ValueError(
            f"coverage must be {trained:g}, for which the set was trained, with calibration=None, got {coverage:g}; "
            "calibration='cqr' gives any."
        )


def check_column(name: str, column: Any, n_features: int, names: Sequence[str] | None) -> int:
    """Return the place of a column given by its name or its place."""
    if isinstance(column, str):
        known = [] if names is None else [str(other) for other in names]
        if column not in known:
            have = f"one of {', '.join(map(repr, known[:20]))}" if known else "a place, because X has no column names"
            raise ValueError(f"{name} must be a column of X, {have}, got {column!r}.")
        return known.index(column)
    if isinstance(column, bool) or not isinstance(column, int | np.integer):
        raise TypeError(f"{name} must be the name or the place of a column of X, or a list of them, got {column!r}.")
    if not 0 <= column < n_features:
        raise ValueError(f"{name} must be a place from 0 to {n_features - 1}, got {int(column)}.")
    return int(column)


def check_known_groups(unknown: Sequence[str], known: Sequence[str]) -> None:
    """Require groups that the calibration has seen."""
    if unknown:
        more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        shown = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
        raise ValueError(
            f"group must be one that was calibrated, {shown}, got {unknown[0]}{more}; fit with rows of that group, or with "
            "group_calibration=None."
        )


def check_same_rows_held_out(random_state: Any) -> None:
    """Require that a warm start can hold out the calibration rows of the fit before: trained on, they would flatter."""
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer):
        raise ValueError(
            "random_state must be an integer with warm_start=True and a calibration, so that the same rows are held out "
            f"again, got {random_state!r}."
        )
