# mypy: disable-error-code="no-untyped-def"
# (compiled functions: Numba infers the types)
"""The compiled row kernels behind :mod:`deepfls.functional.karnik_mendel` on the CPU.

A row is one sample. Its firing and consequents are copied to float64 scratch that stays in the first-level cache, and both
end points are found together by Newton sweeps over it: no sort, no allocation per row, sums in float64 whatever the dtype
of the tensors. Imported on first use, because importing Numba costs more than the rest of the package together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

# The licence to reorder sums lets LLVM vectorise them. The flags that assume away NaN and infinity stay off, and a division
# by zero gives NaN as in NumPy instead of raising.
_OPTIONS: Any = {"nogil": True, "fastmath": {"reassoc", "contract"}, "error_model": "numpy"}


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first call and keep the machine code on disk, or only in memory where nothing can be written."""
    try:
        return njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # Numba found no writable place for its cache
        return njit(**_OPTIONS)(function)


@_compiled
def _sums(y, low, up, left, right):
    """Numerator and denominator at the switch points of both ends. Loads come before choices, so that they vectorise."""
    left_numerator = 0.0
    left_denominator = 0.0
    right_numerator = 0.0
    right_denominator = 0.0
    for p in range(y.shape[0]):
        value = y[p]
        f_low = low[p]
        f_up = up[p]
        left_weight = f_up if value <= left else f_low
        right_weight = f_up if value >= right else f_low
        left_numerator += left_weight * value
        left_denominator += left_weight
        right_numerator += right_weight * value
        right_denominator += right_weight
    return left_numerator, left_denominator, right_numerator, right_denominator


@_compiled
def _row_end_points(y, low, up):
    """Both end points of one sample and output.

    The sweeps start from an attainable mean, so the left end only ever moves down and the right end only up. They stop on
    "no longer moves that way" rather than on "same switch point", which ties and rounding can alternate for ever.
    """
    numerator, denominator, _, _ = _sums(y, up, up, 0.0, 0.0)
    left = numerator / denominator
    right = left
    for _ in range(y.shape[0] + 2):
        left_numerator, left_denominator, right_numerator, right_denominator = _sums(y, low, up, left, right)
        new_left = left_numerator / left_denominator
        new_right = right_numerator / right_denominator
        moved = False
        if new_left < left:
            left = new_left
            moved = True
        if new_right > right:
            right = new_right
            moved = True
        if not moved:
            break
    # Without lower firing an end is the outermost consequent that fires. Rounding may have left it just outside, where
    # nothing fires and the gradient would divide by zero.
    if not (left_denominator > 0.0 and right_denominator > 0.0):
        smallest = np.inf
        largest = -np.inf
        for p in range(y.shape[0]):
            if up[p] > 0.0:
                smallest = min(smallest, y[p])
                largest = max(largest, y[p])
        left = max(left, smallest)
        right = min(right, largest)
    # A set of no width may come out inverted by an ulp.
    return min(left, right), max(left, right)


@_compiled
def end_points(lower, upper, consequents, y_left, y_right):
    """Fill the ends (batch, outputs) from firing (batch, rules) and consequents (batch, rules, outputs)."""
    n_rows, n_rules, n_outputs = consequents.shape
    low = np.empty(n_rules)
    up = np.empty(n_rules)
    y = np.empty(n_rules)
    for row in range(n_rows):
        for p in range(n_rules):
            low[p] = lower[row, p]
            up[p] = upper[row, p]
        for output in range(n_outputs):
            for p in range(n_rules):
                y[p] = consequents[row, p, output]
            y_left[row, output], y_right[row, output] = _row_end_points(y, low, up)


@_compiled
def end_point_gradients(
    lower, upper, consequents, y_left, y_right, grad_left, grad_right, grad_lower, grad_upper, grad_consequents
):
    """Fill the three gradients from those of the end points, by the envelope theorem.

    With the weights w chosen at an end y and s = Σ w: dy/dy_p = w_p / s, and dy/dw_p = (y_p - y) / s for the bound in use,
    0 for the other.
    """
    n_rows, n_rules, n_outputs = consequents.shape
    low = np.empty(n_rules)
    up = np.empty(n_rules)
    y = np.empty(n_rules)
    to_lower = np.empty(n_rules)
    to_upper = np.empty(n_rules)
    for row in range(n_rows):
        for p in range(n_rules):
            low[p] = lower[row, p]
            up[p] = upper[row, p]
            to_lower[p] = 0.0
            to_upper[p] = 0.0
        for output in range(n_outputs):
            for p in range(n_rules):
                y[p] = consequents[row, p, output]
            left = np.float64(y_left[row, output])
            right = np.float64(y_right[row, output])
            _, left_sum, _, right_sum = _sums(y, low, up, left, right)
            left_scale = grad_left[row, output] / left_sum
            right_scale = grad_right[row, output] / right_sum
            for p in range(n_rules):
                value = y[p]
                f_low = low[p]
                f_up = up[p]
                by_left = left_scale * (value - left)
                by_right = right_scale * (value - right)
                left_up = value <= left
                right_up = value >= right
                to_upper[p] += (by_left if left_up else 0.0) + (by_right if right_up else 0.0)
                to_lower[p] += (0.0 if left_up else by_left) + (0.0 if right_up else by_right)
                left_weight = f_up if left_up else f_low
                right_weight = f_up if right_up else f_low
                y[p] = left_scale * left_weight + right_scale * right_weight
            for p in range(n_rules):
                grad_consequents[row, p, output] = y[p]
        for p in range(n_rules):
            grad_lower[row, p] = to_lower[p]
            grad_upper[row, p] = to_upper[p]
