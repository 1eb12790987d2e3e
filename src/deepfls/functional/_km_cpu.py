# mypy: disable-error-code="no-untyped-def"
# (compiled functions: Numba infers the types)
"""The compiled row kernels behind :mod:`deepfls.functional.karnik_mendel` on the CPU.

Both end points of a row are found together by Newton sweeps over scratch in float64: no sort, no allocation per row.
"""

from __future__ import annotations

import math

import numpy as np

from deepfls.functional._compiled import BLOCK, LOG_FLOOR, compiled, exponentials, largest

_FLOOR = math.exp(LOG_FLOOR)
# Numbers in a vector of the widest processors.
_VECTOR = 8
# Rounding of an end point, relative to the sum of the consequents' magnitudes.
_TOLERANCE = 4.0 * np.finfo(np.float64).eps


@compiled
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


@compiled
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


@compiled
def _load_firing(firing, logs, ratios, first, n_rows, low, up, bits):
    """Copy the bounds of the firing of some rows to scratch; of logarithms, relative to the largest of each row.

    Firing is (batch, 2 rules), lower and upper bounds side by side. Where there are ratios of the two, (rules,), it is the
    upper bounds only, (batch, rules), and one exponential serves both.
    """
    shared = ratios.shape[0] > 0
    n_rules = firing.shape[1] if shared else firing.shape[1] // 2
    for row in range(n_rows):
        source_up = firing[first + row, firing.shape[1] - n_rules :]
        peak = np.float64(largest(source_up)) if logs else 0.0
        for p in range(n_rules):
            up[row * n_rules + p] = source_up[p] - peak
        if not shared:
            source_low = firing[first + row, :n_rules]
            for p in range(n_rules):
                # Rounding may have moved a lower bound above its upper one by an ulp. In this order NaN stays NaN.
                bound = source_up[p] if source_up[p] < source_low[p] else source_low[p]
                low[row * n_rules + p] = bound - peak
    if logs:
        exponentials(up[: n_rows * n_rules], bits)
    if shared:
        for row in range(n_rows):
            for p in range(n_rules):
                bound = ratios[p] * up[row * n_rules + p]
                low[row * n_rules + p] = _FLOOR if bound < _FLOOR else bound
    elif logs:
        exponentials(low[: n_rows * n_rules], bits)


@compiled
def end_points(firing, consequents, y_left, y_right, logs, log_ratios):
    """Fill the ends (batch, outputs) from (log-)firing, see above, and consequents (batch, rules, outputs).

    The logarithms of the ratios are (rules,), or (0,) where there are none.
    """
    batch, n_rules, n_outputs = consequents.shape
    block = max(1, BLOCK // n_rules)
    lows = np.empty(block * n_rules)
    ups = np.empty(block * n_rules)
    bits = np.empty(block * n_rules, np.int64)
    y = np.empty(n_rules)
    ratios = np.exp(log_ratios)
    for first in range(0, batch, block):
        n_rows = min(block, batch - first)
        _load_firing(firing, logs, ratios, first, n_rows, lows, ups, bits)
        for row in range(n_rows):
            at = first + row
            low = lows[row * n_rules : (row + 1) * n_rules]
            up = ups[row * n_rules : (row + 1) * n_rules]
            for output in range(n_outputs):
                for p in range(n_rules):
                    y[p] = consequents[at, p, output]
                y_left[at, output], y_right[at, output] = _row_end_points(y, low, up)


@compiled
def _add_gradients(y, low, up, logs, ends, grads, to_lower, to_upper):
    """Add one output's gradients to those of the firing, and replace its consequents by theirs."""
    y_left, y_right = ends
    grad_left, grad_right = grads
    # A rule whose consequent is an end up to rounding is on the inner side of it: it may carry all the weight there is, and
    # taking it for a rule beyond the end would divide by what is left.
    magnitude = 0.0
    for p in range(y.shape[0]):
        magnitude += abs(y[p])
    left = y_left + _TOLERANCE * magnitude
    right = y_right - _TOLERANCE * magnitude
    left_sum = 0.0
    right_sum = 0.0
    for p in range(y.shape[0]):
        value = y[p]
        f_low = low[p]
        f_up = up[p]
        left_sum += f_up if value <= left else f_low
        right_sum += f_up if value >= right else f_low
    left_scale = 1.0 / left_sum
    right_scale = 1.0 / right_sum
    for p in range(y.shape[0]):
        value = y[p]
        f_low = low[p]
        f_up = up[p]
        left_up = value <= left
        right_up = value >= right
        left_share = left_scale * (f_up if left_up else f_low)
        right_share = right_scale * (f_up if right_up else f_low)
        by_left = grad_left * (value - y_left) * (left_share if logs else left_scale)
        by_right = grad_right * (value - y_right) * (right_share if logs else right_scale)
        to_upper[p] += (by_left if left_up else 0.0) + (by_right if right_up else 0.0)
        to_lower[p] += (0.0 if left_up else by_left) + (0.0 if right_up else by_right)
        y[p] = grad_left * left_share + grad_right * right_share


@compiled
def end_point_gradients(
    firing,
    consequents,
    y_left,
    y_right,
    grad_left,
    grad_right,
    grad_firing,
    grad_consequents,
    logs,
    log_ratios,
    grad_log_ratios,
):
    """Fill the gradients from those of the end points, by the envelope theorem, and add to that of the log ratios.

    With the weights w chosen at an end y and their shares s_p = w_p / Σ w: dy/dy_p = s_p, and for the bound in use
    dy/dw_p = (y_p - y) / Σ w, or dy/dlog w_p = s_p (y_p - y), which no small sum of weights can make overflow.
    """
    batch, n_rules, n_outputs = consequents.shape
    shared = log_ratios.shape[0] > 0
    block = max(1, BLOCK // n_rules)
    lows = np.empty(block * n_rules)
    ups = np.empty(block * n_rules)
    bits = np.empty(block * n_rules, np.int64)
    # Rules without weight fill a row up to whole vectors: what is left over would be done one by one.
    width = n_rules if n_rules < _VECTOR else (n_rules + _VECTOR - 1) // _VECTOR * _VECTOR
    low = np.zeros(width)
    up = np.zeros(width)
    y = np.zeros(width)
    ratios = np.exp(log_ratios)
    to_lower = np.empty(width)
    to_upper = np.empty(width)
    for first in range(0, batch, block):
        n_rows = min(block, batch - first)
        _load_firing(firing, logs, ratios, first, n_rows, lows, ups, bits)
        for row in range(n_rows):
            at = first + row
            if width == n_rules:
                low = lows[row * n_rules : (row + 1) * n_rules]
                up = ups[row * n_rules : (row + 1) * n_rules]
            else:
                for p in range(n_rules):
                    low[p] = lows[row * n_rules + p]
                    up[p] = ups[row * n_rules + p]
            for p in range(width):
                to_lower[p] = 0.0
                to_upper[p] = 0.0
            for output in range(n_outputs):
                for p in range(n_rules):
                    y[p] = consequents[at, p, output]
                ends = (y_left[at, output], y_right[at, output])
                grads = (grad_left[at, output], grad_right[at, output])
                _add_gradients(y, low, up, logs, ends, grads, to_lower, to_upper)
                for p in range(n_rules):
                    grad_consequents[at, p, output] = y[p]
            if shared:
                for p in range(n_rules):
                    grad_firing[at, p] = to_lower[p] + to_upper[p]
                    grad_log_ratios[p] += to_lower[p]
            else:
                for p in range(n_rules):
                    grad_firing[at, p] = to_lower[p]
                    grad_firing[at, n_rules + p] = to_upper[p]
