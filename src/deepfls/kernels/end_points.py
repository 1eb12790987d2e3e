"""End points of type-reduced sets and their gradients, row by row: the compiled Karnik-Mendel problem.

Firing lies in scratch (stacks, rows, width), upper bounds first and then lower ones, consequents in (rows, outputs, width),
all in float64. Both end points of a row are found together by Newton sweeps: no sort, no allocation per row.
"""

from __future__ import annotations

import numpy as np

from deepfls.functional.constants import TOLERANCE, max_sweeps
from deepfls.kernels.arithmetic import exponentials, largest
from deepfls.kernels.compiling import compiled, inner

# Up to so many rules a row is not padded: the longest loop is not vectorised, and rules of no weight would be more work.
_UNPADDED = 12
# Numbers in one piece of scratch: 12 kB, so that two or three of them share a first-level cache.
_BLOCK_NUMBERS = 1536

ROUNDING = TOLERANCE * np.finfo(np.float64).eps
_max_sweeps = inner(max_sweeps)


@inner
def padded(n_rules):
    """Numbers of a row of scratch: rules of no weight fill it up, or a loop would do what is left over one by one."""
    return n_rules if n_rules <= _UNPADDED else (n_rules + 7) // 8 * 8


@inner
def exponentiate(firing, n_rows, n_rules, n_bytes):
    """Replace the logarithms of firing in some rows of scratch, known to ``n_bytes``, by firing; pads weigh nothing."""
    n_stacks, block, width = firing.shape
    flat, n = firing.reshape(n_stacks, block * width), n_rows * width
    for stack in range(n_stacks):
        exponentials(flat[stack, :n], n_bytes)
        for p in range(n_rules, width):
            for row in range(n_rows):
                firing[stack, row, p] = 0.0
    if n_stacks > 1:  # rounding may have moved a lower bound above its upper one by an ulp
        for i in range(n):
            flat[1, i] = flat[0, i] if flat[0, i] < flat[1, i] else flat[1, i]  # in this order NaN stays NaN


@inner
def copy_rows(source, start, target, first, n_rows):
    """Copy some rows of an array (rows, kinds, outputs). An assignment of slices takes four seconds to compile."""
    for row in range(n_rows):
        for kind in range(source.shape[1]):
            for output in range(source.shape[2]):
                target[first + row, kind, output] = source[start + row, kind, output]


@inner
def average(y, row, output, firing):
    """Σ f y / Σ f and Σ f of one row and output."""
    total = 0.0
    weighted = 0.0
    for p in range(firing.shape[1]):
        total += firing[row, p]
        weighted += firing[row, p] * y[row, output, p]
    return weighted / total, total


@inner
def add_average_gradient(y, row, output, firing, mean, scale, to_logs, to_y):
    """Add the gradients of an average to those of log-firing and y, each (any,); ``scale`` is its slope over Σ f."""
    for p in range(to_y.shape[0]):
        share = scale * firing[row, p]
        to_logs[p] += share * (y[row, output, p] - mean)
        to_y[p] += share


@inner
def find_ends(y, output, low, up, n_rows, n_rules, values, moving, begun=False):
    """Fill values[:, 0] and values[:, 1], (rows, outputs), with both ends of some rows, for one output.

    An end is the zero of its residual, and a sweep is a step of Newton's method on it. The sweeps start from an attainable
    mean, so the left end only ever moves down and the right end only up. They stop on "no longer moves that way" rather
    than on "same switch point", which ties and rounding can alternate for ever. Residuals, not quotients of sums: a heavy
    rule would hide a light one in the quotient, and the sweeps would stop on the heavy one's consequent.

    Rows take their steps in turn: the sweeps of one row depend on each other, and those of its neighbours fill the time.
    Where ``begun``, the values are attainable means already.
    """
    for row in range(n_rows):
        if not begun:
            values[row, 0, output], _ = average(y, row, output, up)
            values[row, 1, output] = values[row, 0, output]
        moving[row] = row
    n_moving = n_rows
    for _ in range(_max_sweeps(n_rules)):
        n_moved = 0
        for i in range(n_moving):
            row = moving[i]
            left, right = values[row, 0, output], values[row, 1, output]
            left_residual = left_sum = right_residual = right_sum = 0.0
            for p in range(up.shape[1]):  # loads come before choices, so that the loop vectorises
                value, f_low, f_up = y[row, output, p], low[row, p], up[row, p]
                # A rule at an end itself adds nothing. It weighs what it will weigh once the end has moved on.
                left_weight = f_up if value < left else f_low
                right_weight = f_up if value > right else f_low
                left_residual += left_weight * (value - left)
                left_sum += left_weight
                right_residual += right_weight * (value - right)
                right_sum += right_weight
            # Where nothing weighs on a side, 0 / 0 compares false and the end stays.
            new_left, new_right = left + left_residual / left_sum, right + right_residual / right_sum
            values[row, 0, output] = new_left if new_left < left else left
            values[row, 1, output] = new_right if new_right > right else right
            moving[n_moved] = row
            n_moved += (new_left < left) | (new_right > right)
        n_moving = n_moved
        if n_moving == 0:
            break
    for row in range(n_rows):  # a set of no width may come out inverted by an ulp
        left, right = values[row, 0, output], values[row, 1, output]
        values[row, 0, output], values[row, 1, output] = min(left, right), max(left, right)


@inner
def add_end_gradients(y, row, output, low, up, logs, values, by_left, by_right, to_low, to_up, to_y):
    """Add the gradients of one row and output to to_low, to_up and to_y (width,), by the envelope theorem.

    With the weights w chosen at an end and their shares s_p = w_p / Σ w: d end / dy_p = s_p, and for the bound in use
    d end / dw_p = (y_p - end) / Σ w or, for logarithms, d end / dlog w_p = s_p (y_p - end), which cannot overflow.
    """
    left, right, width = values[row, 0, output], values[row, 1, output], up.shape[1]
    magnitude = left_sum = right_sum = 0.0
    for p in range(width):
        magnitude += abs(y[row, output, p])
    # A rule whose consequent is an end up to rounding is on the inner side of it: it may carry all the weight there is, and
    # taking it for a rule beyond the end would divide by what is left.
    left_limit, right_limit = left + ROUNDING * magnitude, right - ROUNDING * magnitude
    for p in range(width):
        value, f_low, f_up = y[row, output, p], low[row, p], up[row, p]
        left_sum += f_up if value <= left_limit else f_low
        right_sum += f_up if value >= right_limit else f_low
    left_scale, right_scale = by_left / left_sum, by_right / right_sum
    for p in range(width):
        value, f_low, f_up = y[row, output, p], low[row, p], up[row, p]
        left_up, right_up = value <= left_limit, value >= right_limit
        left_share = left_scale * (f_up if left_up else f_low)
        right_share = right_scale * (f_up if right_up else f_low)
        left_push = (value - left) * (left_share if logs else left_scale)
        right_push = (value - right) * (right_share if logs else right_scale)
        to_up[p] += (left_push if left_up else 0.0) + (right_push if right_up else 0.0)
        to_low[p] += (0.0 if left_up else left_push) + (0.0 if right_up else right_push)
        to_y[p] += left_share + right_share


# The same for given firing, for the torch operation of entrance.py


@inner
def _scratch(consequents):
    """Firing, consequents and ends of a block of rows, and the places of rows whose ends still move."""
    width = padded(consequents.shape[1])
    block, n_outputs = max(1, _BLOCK_NUMBERS // width), consequents.shape[2]
    firing, y = np.zeros((2, block, width)), np.zeros((block, n_outputs, width))
    return firing, y, np.empty((block, 2, n_outputs)), np.empty(block, np.int64)


@inner
def _load(logs, lower, upper, consequents, first, n_rows, firing, y):
    """Copy firing, or the exponentials of its logarithms, and consequents of some rows to scratch."""
    _, n_rules, n_outputs = consequents.shape
    for row in range(n_rows):
        at = first + row
        for p in range(n_rules):
            firing[0, row, p] = upper[at, p]
        peak = largest(firing[0], row, n_rules) if logs else 0.0
        for p in range(n_rules):
            firing[0, row, p] -= peak
            firing[1, row, p] = lower[at, p] - peak
        for output in range(n_outputs):
            for p in range(n_rules):
                y[row, output, p] = consequents[at, p, output]
    if logs:
        exponentiate(firing, n_rows, n_rules, upper.itemsize)


@compiled
def ends_of_rows(logs, lower, upper, consequents, ends):
    """Fill ends (batch, 2, outputs) from (log-)firing, each (batch, rules), and consequents (batch, rules, outputs)."""
    batch, n_rules, n_outputs = consequents.shape
    firing, y, values, moving = _scratch(consequents)
    for first in range(0, batch, len(moving)):
        n_rows = min(len(moving), batch - first)
        _load(logs, lower, upper, consequents, first, n_rows, firing, y)
        for output in range(n_outputs):
            find_ends(y, output, firing[1], firing[0], n_rows, n_rules, values, moving)
        copy_rows(values, 0, ends, first, n_rows)


@compiled
def end_gradients_of_rows(logs, lower, upper, consequents, ends, by, to_lower, to_upper, to_consequents):
    """Fill the gradients of what :func:`ends_of_rows` takes from those of its ends, ``by`` (batch, 2, outputs)."""
    batch, n_rules, n_outputs = consequents.shape
    firing, y, values, moving = _scratch(consequents)
    up, low = firing[0], firing[1]
    to_low, to_up, to_y = np.empty(up.shape[1]), np.empty(up.shape[1]), np.empty(up.shape[1])
    for first in range(0, batch, len(moving)):
        n_rows = min(len(moving), batch - first)
        _load(logs, lower, upper, consequents, first, n_rows, firing, y)
        copy_rows(ends, first, values, 0, n_rows)
        for row in range(n_rows):
            at = first + row
            to_low[:] = to_up[:] = 0.0
            for o in range(n_outputs):
                to_y[:] = 0.0
                by_left, by_right = np.float64(by[at, 0, o]), np.float64(by[at, 1, o])
                add_end_gradients(y, row, o, low, up, logs, values, by_left, by_right, to_low, to_up, to_y)
                for p in range(n_rules):
                    to_consequents[at, p, o] = to_y[p]
            for p in range(n_rules):
                to_lower[at, p], to_upper[at, p] = to_low[p], to_up[p]
