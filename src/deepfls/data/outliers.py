"""Wild values: single numbers so far from all others that they would decide the scale of a column, and ruin a fit.

A value is wild if it lies more than ten times the range between the 5 % and the 95 % quantile beyond that range, and if at
most one value in a hundred does. Where no value is negative, it also lies more than twice that range beyond in logarithms,
so that long tails are not cut. Rows with a wild value are left out of training, unless they are many, and an input that
is wild in a prediction is clipped to the farthest value that is not. Columns without wild values, which are nearly all
columns of nearly all tables, are not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deepfls._checks.samples import LARGEST, Array

_QUANTILES, _RANGES, _LARGEST_SHARE = (0.05, 0.95), 10.0, 0.01
# The same in the logarithms of a column without negative values.
_LOG_RANGES = 2.0
# Share of the rows with a wild value up to which they are left out; more are clipped.
_LEFT_OUT_SHARE = 0.02
# Rows from which a column is first compared with an inner range, which half as many rows give.
_FEW_ROWS = 1_000
# Values of a column that are known, at least, to call one of them wild.
_FEWEST = 20


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
    wide = ((rows <= first).sum(axis=0) > beyond) & ((rows >= last).sum(axis=0) > beyond)
    reach = _RANGES * (last - first)
    # A NaN makes a comparison false, and its column is looked at more closely.
    return wide & (rows.min(axis=0) >= first - reach) & (rows.max(axis=0) <= last + reach)


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

    x: Bounds | None
    y: Bounds | None
    kept: Array
    text: str


def find_wild(x: Array, y: Array | None, names: Sequence[str]) -> Wild:
    """Wild values in inputs x (rows, columns) and, unless they are classes, targets y (rows, targets)."""
    x_bounds = wild_bounds(x)
    y_bounds = None if y is None else wild_bounds(y)
    if x_bounds is None and y_bounds is None:
        return Wild(None, None, np.ones(len(x), dtype=bool), "")
    parts = [(x, x_bounds, list(names))]
    if y is not None:
        parts.append((y, y_bounds, ["y"] if y.shape[1] == 1 else [f"y{place}" for place in range(y.shape[1])]))
    rows, columns, count = np.zeros(len(x), dtype=bool), [], 0
    for values, bounds, known in parts:
        if bounds is not None:
            outside = (values < bounds.low) | (values > bounds.high)
            rows |= outside.any(axis=1)
            columns += [known[column] for column in np.flatnonzero(outside.any(axis=0))]
            count += int(outside.sum())
    kept = ~rows if rows.sum() <= max(1.0, _LEFT_OUT_SHARE * len(x)) else np.ones(len(x), dtype=bool)
    shown = ", ".join(map(repr, columns[:5])) + (f" and {len(columns) - 5} more" if len(columns) > 5 else "")
    one = count == 1
    words = f"{count:,} value{'' if one else 's'} of {shown} {'is' if one else 'are'} far beyond all others"
    done = "is clipped to them" if one else "are clipped to them"
    if not kept.all():
        share = f"{int(rows.sum()):,} row{'' if rows.sum() == 1 else 's'}, {100 * rows.mean():.2g} %"
        done = f"left out of training ({share})"
    return Wild(x_bounds, y_bounds, kept, f"{words} and {done}; outliers='keep' (--outliers keep) uses such values.")
