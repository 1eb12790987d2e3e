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

# Rounding of an end point, relative to the sum of the consequents' magnitudes.
_TOLERANCE = 4.0 * np.finfo(np.float64).eps


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first call and keep the machine code on disk, or only in memory where nothing can be written."""
    try:
        return njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # Numba found no writable place for its cache
        return njit(**_OPTIONS)(function)


@_compiled
def _residuals(y, low, up, left, right):
    """Σ w (y_p - end) and Σ w for both ends. Loads come before choices, so that the loop vectorises.

    A rule at an end itself adds nothing to the residual. It weighs what it will weigh once the end has moved on.
    """
    left_residual = 0.0
    left_sum = 0.0
    right_residual = 0.0
    right_sum = 0.0
    for p in range(y.shape[0]):
        value = y[p]
        f_low = low[p]
        f_up = up[p]
        left_weight = f_up if value < left else f_low
        right_weight = f_up if value > right else f_low
        left_residual += left_weight * (value - left)
        left_sum += left_weight
        right_residual += right_weight * (value - right)
        right_sum += right_weight
    return left_residual, left_sum, right_residual, right_sum


@_compiled
def _row_end_points(y, low, up):
    """Both end points of one sample and output.

    An end is the zero of its residual, and a sweep is a step of Newton's method on it. The sweeps start from an attainable
    mean, so the left end only ever moves down and the right end only up. They stop on "no longer moves that way" rather
    than on "same switch point", which ties and rounding can alternate for ever. Residuals, not quotients of sums: a heavy
    rule would hide a light one in the quotient, and the sweeps would stop on the heavy one's consequent.
    """
    numerator = 0.0
    denominator = 0.0
    for p in range(y.shape[0]):
        numerator += up[p] * y[p]
        denominator += up[p]
    left = numerator / denominator
    right = left
    for _ in range(2 * y.shape[0] + 4):  # rules + 1 in exact arithmetic; rounding may split a step
        left_residual, left_sum, right_residual, right_sum = _residuals(y, low, up, left, right)
        # Where nothing weighs on a side, 0 / 0 compares false and the end stays.
        new_left = left + left_residual / left_sum
        new_right = right + right_residual / right_sum
        moved = False
        if new_left < left:
            left = new_left
            moved = True
        if new_right > right:
            right = new_right
            moved = True
        if not moved:
            break
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
            # A rule whose consequent is an end up to rounding is on the inner side of it: it may carry all the weight there
            # is, and taking it for a rule beyond the end would divide by what is left.
            magnitude = 0.0
            for p in range(n_rules):
                magnitude += abs(y[p])
            left = y_left[row, output] + _TOLERANCE * magnitude
            right = y_right[row, output] - _TOLERANCE * magnitude
            left_sum = 0.0
            right_sum = 0.0
            for p in range(n_rules):
                value = y[p]
                f_low = low[p]
                f_up = up[p]
                left_sum += f_up if value <= left else f_low
                right_sum += f_up if value >= right else f_low
            left_scale = grad_left[row, output] / left_sum
            right_scale = grad_right[row, output] / right_sum
            for p in range(n_rules):
                value = y[p]
                f_low = low[p]
                f_up = up[p]
                by_left = left_scale * (value - y_left[row, output])
                by_right = right_scale * (value - y_right[row, output])
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
