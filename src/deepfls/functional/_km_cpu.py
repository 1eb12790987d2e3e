# mypy: disable-error-code="no-untyped-def"
# (compiled functions: Numba infers the types)
"""The compiled row kernels behind :mod:`deepfls.functional.karnik_mendel` on the CPU.

Both end points of a row are found together by Newton sweeps over scratch in float64: no sort, no allocation per row.
Scratch is flat, row after row: a slice for every row would cost more than a sweep over few rules.
"""

from __future__ import annotations

import math

import numpy as np

from deepfls.functional._compiled import BLOCK, LOG_FLOOR, compiled, exponentials, index, largest

_FLOOR = math.exp(LOG_FLOOR)
# Rows of scratch are filled up with rules of no weight: what a loop leaves over would be done one by one. Sums over rules
# have loops for fours behind those for more at a time; gradients have no such loops behind those for eights.
_FOURS, _EIGHTS = 4, 8
# Up to so many rules the longest loop is not vectorised, and rules of no weight would only be more work.
_UNPADDED = 12
# Rounding of an end point, relative to the sum of the consequents' magnitudes.
_TOLERANCE = 4.0 * np.finfo(np.float64).eps


@compiled
def _width(n_rules, multiple):
    """Numbers from one row of scratch to the next."""
    return n_rules if n_rules <= _UNPADDED else (n_rules + multiple - 1) // multiple * multiple


@compiled
def _load_firing(firing, logs, ratios, first, n_rows, width, low, up, bits):
    """Copy the bounds of the firing of some rows to scratch; of logarithms, relative to the largest of each row.

    Firing is (batch, 2 rules), lower and upper bounds side by side. Where there are ratios of the two, (rules,), it is the
    upper bounds only, (batch, rules), and one exponential serves both.
    """
    shared = ratios.shape[0] > 0
    n_rules = firing.shape[1] if shared else firing.shape[1] // 2
    upper = firing.shape[1] - n_rules
    for row in range(n_rows):
        at = first + row
        peak = np.float64(largest(firing, at, upper)) if logs else 0.0
        for p in range(n_rules):
            up[index(row * width, p)] = firing[at, index(upper, p)] - peak
        if not shared:
            for p in range(n_rules):
                # Rounding may have moved a lower bound above its upper one by an ulp. In this order NaN stays NaN.
                bound = firing[at, p]
                other = firing[at, index(upper, p)]
                low[index(row * width, p)] = (other if other < bound else bound) - peak
    n_numbers = n_rows * width
    if logs:
        exponentials(up[:n_numbers], bits)
        if not shared:
            exponentials(low[:n_numbers], bits)
    if shared:
        for row in range(n_rows):
            for p in range(n_rules):
                bound = ratios[p] * up[index(row * width, p)]
                low[index(row * width, p)] = _FLOOR if bound < _FLOOR else bound
    for row in range(n_rows):
        for p in range(n_rules, width):
            low[index(row * width, p)] = 0.0
            up[index(row * width, p)] = 0.0


@compiled
def _start(consequents, output, first, n_rows, width, up, y, left, right):
    """Copy the consequents of some rows to scratch, and start both ends at an attainable mean: that by upper bounds."""
    n_rules = consequents.shape[1]
    for row in range(n_rows):
        at = first + row
        numerator = 0.0
        denominator = 0.0
        for p in range(n_rules):
            place = index(row * width, p)
            value = np.float64(consequents[at, p, output])
            y[place] = value
            numerator += up[place] * value
            denominator += up[place]
        left[row] = numerator / denominator
        right[row] = left[row]


@compiled
def _residuals(y, low, up, start, width, left, right):
    """Σ w (y_p - end) and Σ w for both ends of one row. Loads come before choices, so that the loop vectorises.

    A rule at an end itself adds nothing to the residual. It weighs what it will weigh once the end has moved on.
    """
    left_residual = 0.0
    left_sum = 0.0
    right_residual = 0.0
    right_sum = 0.0
    for p in range(width):
        place = index(start, p)
        value = y[place]
        f_low = low[place]
        f_up = up[place]
        left_weight = f_up if value < left else f_low
        right_weight = f_up if value > right else f_low
        left_residual += left_weight * (value - left)
        left_sum += left_weight
        right_residual += right_weight * (value - right)
        right_sum += right_weight
    return left_residual, left_sum, right_residual, right_sum


@compiled
def _sweep(y, low, up, n_rows, n_rules, width, left, right, moving):
    """Move both ends of some rows from where they start to where they belong, for one output.

    An end is the zero of its residual, and a sweep is a step of Newton's method on it. The sweeps start from an attainable
    mean, so the left end only ever moves down and the right end only up. They stop on "no longer moves that way" rather
    than on "same switch point", which ties and rounding can alternate for ever. Residuals, not quotients of sums: a heavy
    rule would hide a light one in the quotient, and the sweeps would stop on the heavy one's consequent.

    Rows take their steps in turn: the sweeps of one row wait for each other, and those of its neighbours fill the time.
    """
    for row in range(n_rows):
        moving[row] = row
    n_moving = n_rows
    for _ in range(2 * n_rules + 4):  # rules + 1 in exact arithmetic; rounding may split a step
        n_moved = 0
        for i in range(n_moving):
            row = moving[i]
            y_left = left[row]
            y_right = right[row]
            left_residual, left_sum, right_residual, right_sum = _residuals(y, low, up, row * width, width, y_left, y_right)
            # Where nothing weighs on a side, 0 / 0 compares false and the end stays.
            new_left = y_left + left_residual / left_sum
            new_right = y_right + right_residual / right_sum
            left[row] = new_left if new_left < y_left else y_left
            right[row] = new_right if new_right > y_right else y_right
            moving[n_moved] = row
            n_moved += (new_left < y_left) | (new_right > y_right)
        n_moving = n_moved
        if n_moving == 0:
            break


@compiled
def end_points(firing, consequents, y_left, y_right, logs, log_ratios):
    """Fill the ends (batch, outputs) from (log-)firing, as _load_firing takes it, and consequents (batch, rules, outputs).

    The logarithms of the ratios are (rules,), or (0,) where there are none.
    """
    batch, n_rules, n_outputs = consequents.shape
    width = _width(n_rules, _FOURS)
    block = max(1, BLOCK // width)
    low = np.zeros(block * width)
    up = np.zeros(block * width)
    y = np.zeros(block * width)
    bits = np.empty(block * width, np.int64)
    left = np.empty(block)
    right = np.empty(block)
    moving = np.empty(block, np.int64)
    ratios = np.exp(log_ratios)
    for first in range(0, batch, block):
        n_rows = min(block, batch - first)
        _load_firing(firing, logs, ratios, first, n_rows, width, low, up, bits)
        for output in range(n_outputs):
            _start(consequents, output, first, n_rows, width, up, y, left, right)
            _sweep(y, low, up, n_rows, n_rules, width, left, right, moving)
            for row in range(n_rows):
                # A set of no width may come out inverted by an ulp.
                y_left[first + row, output] = min(left[row], right[row])
                y_right[first + row, output] = max(left[row], right[row])


@compiled
def _scales(row_y, low, up, start, limits, grads):
    """The gradient of each end over the sum of the weights chosen at it."""
    left_sum = 0.0
    right_sum = 0.0
    for p in range(row_y.shape[0]):
        place = index(start, p)
        value = row_y[p]
        f_low = low[place]
        f_up = up[place]
        left_sum += f_up if value <= limits[0] else f_low
        right_sum += f_up if value >= limits[1] else f_low
    return grads[0] / left_sum, grads[1] / right_sum


@compiled
def _rule_gradients(value, f_low, f_up, limits, ends, scales, logs):
    """Whether the upper bound of one rule counts at each end, gradients of the bounds that do, and of the consequent."""
    left_up = value <= limits[0]
    right_up = value >= limits[1]
    left_share = scales[0] * (f_up if left_up else f_low)
    right_share = scales[1] * (f_up if right_up else f_low)
    by_left = (value - ends[0]) * (left_share if logs else scales[0])
    by_right = (value - ends[1]) * (right_share if logs else scales[1])
    return left_up, right_up, by_left, by_right, left_share + right_share


@compiled
def _row_gradients(row_y, low, up, start, logs, ends, limits, grads, add, to_lower, to_upper):
    """Replace the consequents of one row and output by their gradients, and fill those of the firing or add to them."""
    scales = _scales(row_y, low, up, start, limits, grads)
    for p in range(row_y.shape[0]):
        place = index(start, p)
        left_up, right_up, by_left, by_right, by_value = _rule_gradients(
            row_y[p], low[place], up[place], limits, ends, scales, logs
        )
        by_upper = (by_left if left_up else 0.0) + (by_right if right_up else 0.0)
        by_lower = (0.0 if left_up else by_left) + (0.0 if right_up else by_right)
        to_upper[p] = by_upper + (to_upper[p] if add else 0.0)
        to_lower[p] = by_lower + (to_lower[p] if add else 0.0)
        row_y[p] = by_value


@compiled
def _shared_gradients(row_y, low, up, start, ends, limits, grads, add, to_ratios, to_firing):
    """The same for log-firing whose lower bounds are the upper ones times ratios.

    Both bounds move with the upper ones: nothing is to be told apart, but that lower ones move with the ratios too.
    """
    scales = _scales(row_y, low, up, start, limits, grads)
    for p in range(row_y.shape[0]):
        place = index(start, p)
        left_up, right_up, by_left, by_right, by_value = _rule_gradients(
            row_y[p], low[place], up[place], limits, ends, scales, True
        )
        to_firing[p] = by_left + by_right + (to_firing[p] if add else 0.0)
        to_ratios[p] += (0.0 if left_up else by_left) + (0.0 if right_up else by_right)
        row_y[p] = by_value


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

    Ratios go with logarithms only. Gradients of firing and consequents may be the arrays they are gradients of: the numbers
    of a row are in scratch before one of them is written.
    """
    batch, n_rules, n_outputs = consequents.shape
    shared = log_ratios.shape[0] > 0
    upper = firing.shape[1] - n_rules
    width = _width(n_rules, _EIGHTS)
    block = max(1, BLOCK // width)
    low = np.zeros(block * width)
    up = np.zeros(block * width)
    bits = np.empty(block * width, np.int64)
    row_y = np.empty(width)
    ratios = np.exp(log_ratios)
    to_ratios = np.zeros(width)
    to_lower = np.empty(width)
    to_upper = np.empty(width)
    for first in range(0, batch, block):
        n_rows = min(block, batch - first)
        _load_firing(firing, logs, ratios, first, n_rows, width, low, up, bits)
        for row in range(n_rows):
            at = first + row
            for output in range(n_outputs):
                magnitude = 0.0
                for p in range(n_rules):
                    value = np.float64(consequents[at, p, output])
                    row_y[p] = value
                    magnitude += abs(value)
                for p in range(n_rules, width):
                    row_y[p] = 0.0
                # A rule whose consequent is an end up to rounding is on the inner side of it: it may carry all the weight
                # there is, and taking it for a rule beyond the end would divide by what is left.
                tolerance = _TOLERANCE * magnitude
                ends = (y_left[at, output], y_right[at, output])
                limits = (ends[0] + tolerance, ends[1] - tolerance)
                grads = (grad_left[at, output], grad_right[at, output])
                start, add = row * width, output > 0
                if shared:
                    _shared_gradients(row_y, low, up, start, ends, limits, grads, add, to_ratios, to_upper)
                else:
                    _row_gradients(row_y, low, up, start, logs, ends, limits, grads, add, to_lower, to_upper)
                for p in range(n_rules):
                    grad_consequents[at, p, output] = row_y[p]
            for p in range(n_rules):
                grad_firing[at, index(upper, p)] = to_upper[p]
            if not shared:
                for p in range(n_rules):
                    grad_firing[at, p] = to_lower[p]
    for p in range(grad_log_ratios.shape[0]):
        grad_log_ratios[p] += to_ratios[p]
