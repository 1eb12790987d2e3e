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
# Values of a column that are known, at least, to call one of them wild.
_FEWEST = 20


class Bounds(NamedTuple):
    """Smallest and largest value of every column that is used, each (columns,); ±LARGEST where nothing is clipped."""

    low: Array
    high: Array


def wild_bounds(rows: Array) -> Bounds | None:
    """Bounds of the columns of rows (rows, columns), NaN where a value is not known; None without a wild value."""
    limits = wild_limits(rows)
    outside = (rows < limits.low) | (rows > limits.high)
    if not outside.any():
        return None
    low, high = np.full(rows.shape[1], -LARGEST), np.full(rows.shape[1], LARGEST)
    for column in np.flatnonzero(outside.any(axis=0)):
        values = rows[:, column]
        wild = outside[:, column]
        if wild.sum() > max(1.0, _LARGEST_SHARE * (~np.isnan(values)).sum()):
            continue  # a long tail, not single values
        low[column], high[column] = np.nanmin(values[~wild]), np.nanmax(values[~wild])
    return Bounds(low, high) if (low > -LARGEST).any() else None


def wild_limits(rows: Array) -> Bounds:
    """The limits beyond which a value is wild, each (columns,)."""
    low, high = np.full(rows.shape[1], -np.inf), np.full(rows.shape[1], np.inf)
    for column, values in enumerate(rows.T):
        known = values[~np.isnan(values)]
        if len(known) < _FEWEST:
            continue
        first, last = np.quantile(known, _QUANTILES)
        if first == last:  # most values are equal, such as 0: the others have the range
            others = known[known != first]
            if len(others) < _FEWEST // 4:
                continue
            ends = np.quantile(others, _QUANTILES)
            first, last = min(first, ends[0]), max(last, ends[1])
        low[column], high[column] = first - _RANGES * (last - first), last + _RANGES * (last - first)
        positive = known[known > 0]
        if known.min() >= 0 and len(positive) >= _FEWEST // 4:  # long tails are not wild
            ends = np.quantile(np.log(positive), _QUANTILES)
            high[column] = max(high[column], np.exp(min(ends[1] + _LOG_RANGES * (ends[1] - ends[0]), 300.0)))
    return Bounds(low, high)


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
