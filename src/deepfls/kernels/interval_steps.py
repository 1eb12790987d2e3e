"""From the bounds of firing to the outputs of interval systems, and gradients back: of one plane or of several.

An interval system has one plane, whose bounds are given. Those of a General Type-2 system follow from one log-firing L, its
rise -N and drop -H: a plane of width t has the log bounds L + t H and L - min(t, 1) N. Planes go from the narrowest to the
widest, so that the ends of one are where the search for those of the next begins. Firing lies in scratch (2 planes, rows,
width): the upper bounds of a plane and then its lower ones.
"""

from __future__ import annotations

import math

import numpy as np

from deepfls.functional.constants import LOG_FLOOR, ROW_TURN, SMALLEST_ALPHA, SMALLEST_LEVEL, STEP_TURN
from deepfls.kernels.arithmetic import index, largest
from deepfls.kernels.compiling import inner
from deepfls.kernels.end_points import (
    ROUNDING,
    add_average_gradient,
    add_end_gradients,
    average,
    exponentiate,
    find_ends,
)

# Places of y_left, y_right and y in values and slopes (rows, 3, outputs).
LEFT, RIGHT, CRISP = range(3)

# Numbers in one piece of scratch: 16 kB, so that some of them share a first-level cache.
_CHUNK_NUMBERS = 2048

REDUCTIONS = KM, NT, BMM, SM = range(4)

_LOG_SMALLEST = math.log(SMALLEST_ALPHA)
_SMALLEST_FIRING = math.exp(LOG_FLOOR)


@inner
def row_level(form, place):
    """Level of the plane of a row in a step that trains quantiles, by its place in the batch."""
    turned = (place - form.batch_first + 0.5) * ROW_TURN + form.number * STEP_TURN
    return max(turned - math.floor(turned), SMALLEST_LEVEL)


@inner
def fill_widths(form, by_row, first, n_rows, widths, shares):
    """Fill widths (planes, rows) of the planes, and the shares (planes,) that they have in the crisp output."""
    n_planes, total = widths.shape[0], 0.0
    for k in range(n_planes):
        # From 1 downwards in equal steps, the last one the smallest level.
        level = 1.0 - k / max(n_planes - 1, 1) if k < n_planes - 1 else SMALLEST_ALPHA
        shares[k] = level
        total += level
        t = math.sqrt(math.log(level) / _LOG_SMALLEST)
        for row in range(n_rows):
            widths[k, row] = math.sqrt(math.log(row_level(form, first + row)) / _LOG_SMALLEST) if by_row else t
    for k in range(n_planes):
        shares[k] /= total


@inner
def _load_upper(logs, spread, widths, n_rows, n_rules, up, peaks):
    """Fill the logarithms of upper firing (rows, width) relative to each row's largest, and that one, (rows,)."""
    primary = logs.shape[1] - n_rules
    for row in range(n_rows):
        u = min(widths[row], 1.0)
        if primary:
            for p in range(n_rules):
                up[row, p] = logs[row, index(primary, p)] - u * min(np.float64(logs[row, p]), 0.0)
        else:
            u *= spread
            for p in range(n_rules):
                log = np.float64(logs[row, p])
                up[row, p] = log - u * min(log, 0.0)
        peaks[row] = largest(up, row, n_rules)
        for p in range(n_rules):
            up[row, p] -= peaks[row]


@inner
def load_planes(logs, log_ratios, spread, by_row, widths, n_rows, n_rules, firing, peaks):
    """Fill firing (2 planes, rows, width) with upper and lower bounds of every plane, relative to each row's largest."""
    n_planes, primary = widths.shape[0], logs.shape[1] - n_rules
    for k in range(n_planes):
        _load_upper(logs, spread, widths[k], n_rows, n_rules, firing[2 * k], peaks[k])
        if k == 0 and (by_row or n_planes == 1):
            for row in range(n_rows):
                for p in range(n_rules):
                    log = logs[row, index(primary, p)] - peaks[0, row]
                    firing[1, row, p] = log + widths[0, row] * log_ratios[p]
            exponentiate(firing[:2], n_rows, n_rules, logs.itemsize)
        else:
            exponentiate(firing[2 * k : 2 * k + 1], n_rows, n_rules, logs.itemsize)
        if k > 0:  # lower firing is that of the first plane, the Type-1 system, times a number for each rule
            ratios = np.exp(widths[k, 0] * log_ratios)
            up, low = firing[2 * k], firing[2 * k + 1]
            for row in range(n_rows):
                scale = math.exp(peaks[0, row] - peaks[k, row])
                for p in range(n_rules):
                    value = max(scale * ratios[p] * firing[0, row, p], _SMALLEST_FIRING)
                    low[row, p] = min(value, up[row, p])


@inner
def _is_type_1(by_row, n_planes, k):
    """Whether a plane is the Type-1 system for all rows: its ends are one average."""
    return k == 0 and n_planes > 1 and not by_row


@inner
def _averages(theta, form, y, row, output, firing):
    """Averages by lower and by upper firing, the sums of their weights, and the part that the first has in the output."""
    by_low, low_sum = average(y, row, output, firing[-1])
    by_up, up_sum = average(y, row, output, firing[0])
    mix = 0.5
    if form.reduction == NT:
        mix = low_sum / (low_sum + up_sum)
    elif form.reduction == BMM:
        mix = 1.0 / (1.0 + math.exp(-theta[form.mix + output]))
    return by_low, low_sum, by_up, up_sum, mix


@inner
def interval_outputs(theta, form, outputs, by_row, shares, n_rows, firing, y, needs_ends, moving, ends, values):
    """Fill the crisp output and, where needed, the ends (planes, rows, 2, outputs); those of the widest plane are values.

    ``shares`` (planes,) are those of the planes in the crisp output. Consequents are copied to scratch y.
    """
    n_rules, n_planes = form.n_rules, ends.shape[0]
    for o in range(form.n_outputs):
        for row in range(n_rows):
            for p in range(n_rules):
                y[row, o, p] = outputs[row, index(o * n_rules, p)]
            values[row, CRISP, o] = 0.0
        for k in range(n_planes if needs_ends else 0):
            up, low, found = firing[2 * k], firing[2 * k + 1], ends[k]
            if _is_type_1(by_row, n_planes, k):
                for row in range(n_rows):
                    found[row, LEFT, o], _ = average(y, row, o, up)
                    found[row, RIGHT, o] = found[row, LEFT, o]
            else:
                for row in range(n_rows if k else 0):
                    found[row, LEFT, o], found[row, RIGHT, o] = ends[k - 1, row, LEFT, o], ends[k - 1, row, RIGHT, o]
                find_ends(y, o, low, up, n_rows, n_rules, found, moving, k > 0)
            for row in range(n_rows):
                values[row, LEFT, o], values[row, RIGHT, o] = found[row, LEFT, o], found[row, RIGHT, o]
                values[row, CRISP, o] += 0.5 * shares[k] * (found[row, LEFT, o] + found[row, RIGHT, o])
        for row in range(n_rows if form.reduction != KM else 0):
            by_low, _, by_up, _, mix = _averages(theta, form, y, row, o, firing)
            value = mix * by_low + (1.0 - mix) * by_up
            if needs_ends:  # inside the set already, but for rounding
                value = min(max(value, values[row, LEFT, o]), values[row, RIGHT, o])
            values[row, CRISP, o] = value


@inner
def interval_gradients(theta, form, n_rows, firing, y, values, slopes, row_scratch, logs, outputs, to_ratios, gradient):
    """Replace log-firing and consequents of some rows by their gradients; adds to those of log ratios and mix."""
    n_rules, reduction = form.n_rules, form.reduction
    up, low, other = firing[0], firing[1], firing[-1]
    to_low, to_up, to_y = row_scratch[0], row_scratch[1], row_scratch[2]
    for row in range(n_rows):
        to_low[:] = to_up[:] = 0.0
        for o in range(form.n_outputs):
            to_y[:] = 0.0
            by = slopes[row, CRISP, o]
            if reduction == KM or form.trains_set:
                half = 0.5 * by if reduction == KM else 0.0
                by_left, by_right = half + slopes[row, LEFT, o], half + slopes[row, RIGHT, o]
                add_end_gradients(y, row, o, low, up, True, values, by_left, by_right, to_low, to_up, to_y)
            if reduction != KM:
                low_mean, low_sum, up_mean, up_sum, mix = _averages(theta, form, y, row, o, firing)
                if reduction == NT:  # one average of both
                    low_mean = up_mean = mix * low_mean + (1.0 - mix) * up_mean
                if reduction == BMM:
                    gradient[form.mix + o] += by * (low_mean - up_mean) * mix * (1.0 - mix)
                add_average_gradient(y, row, o, other, low_mean, mix * by / low_sum, to_low, to_y)
                add_average_gradient(y, row, o, up, up_mean, (1.0 - mix) * by / up_sum, to_up, to_y)
            for p in range(n_rules):
                outputs[row, index(o * n_rules, p)] = to_y[p]
        if form.with_spreads:
            for p in range(n_rules):
                logs[row, p] = to_low[p]
                logs[row, index(n_rules, p)] = to_up[p]
        else:
            for p in range(n_rules):
                to_ratios[p] += to_low[p]
                logs[row, p] = to_up[p] + to_low[p]


@inner
def _add_plane_gradients(
    y, output, firing, k, first, n_rows, ends, slacks, scales, widths, to_low, to_up, to_logs, to_rises, to_ratios, to_y
):
    """Add the gradients of both ends of a plane, of some rows and one output.

    As :func:`deepfls.kernels.end_points.add_end_gradients`. In two loops over the rules, because the vectorised code of a
    loop begins with a test that its arrays do not overlap: with many arrays only loops over many rules would take it. For
    some rows in one call, because a call counts the references to each of its arrays.
    """
    width, up, low = firing.shape[2], np.uintp(2 * k), np.uintp(2 * k + 1)
    for i in range(n_rows):
        row = first + i
        left, right, t = ends[k, row, LEFT, output], ends[k, row, RIGHT, output], widths[k, row]
        left_limit, right_limit = left + slacks[i, output], right - slacks[i, output]
        left_sum = right_sum = 0.0
        for p in range(width):
            value, f_low, f_up = y[row, output, p], firing[low, row, p], firing[up, row, p]
            left_sum += f_up if value <= left_limit else f_low
            right_sum += f_up if value >= right_limit else f_low
        # A choice, because the compiler would move a plain division into the loop.
        left_scale = scales[i, LEFT] / left_sum if left_sum != 0.0 else 0.0
        right_scale = scales[i, RIGHT] / right_sum if right_sum != 0.0 else 0.0
        for p in range(width):
            value, f_low, f_up = y[row, output, p], firing[low, row, p], firing[up, row, p]
            left_up, right_up = value <= left_limit, value >= right_limit
            by_left, by_right = left_scale * (value - left), right_scale * (value - right)
            to_low[p] = f_low * ((0.0 if left_up else by_left) + (0.0 if right_up else by_right))
            to_up[p] = f_up * ((by_left if left_up else 0.0) + (by_right if right_up else 0.0))
            left_share = left_scale * (f_up if left_up else f_low)
            to_y[i, output, p] += left_share + right_scale * (f_up if right_up else f_low)
        u = min(t, 1.0)
        for p in range(width):
            to_logs[i, p] += to_low[p] + to_up[p]
            to_rises[i, p] -= u * to_up[p]
            to_ratios[p] += t * to_low[p]


@inner
def plane_gradients(form, by_row, widths, shares, n_rows, firing, y, ends, slopes, spread, logs, outputs, to_log_ratios):
    """Replace log-firing and consequents of some rows by their gradients; returns that of a shared spread.

    Slopes of the ends are those of the widest plane. A few rows at a time, whose gradients stay in the first-level cache.
    """
    n_rules, n_planes, n_outputs, width = form.n_rules, widths.shape[0], form.n_outputs, firing.shape[2]
    primary, chunk = logs.shape[1] - n_rules, max(1, _CHUNK_NUMBERS // width)
    to_logs, to_rises, to_y = np.empty((chunk, width)), np.empty((chunk, width)), np.empty((chunk, n_outputs, width))
    to_low, to_up, to_ratios = np.empty(width), np.empty(width), np.zeros(width)
    slacks, scales, to_spread = np.empty((chunk, n_outputs)), np.empty((chunk, 2)), 0.0
    for first in range(0, n_rows, chunk):
        n = min(chunk, n_rows - first)
        for i in range(n):
            for p in range(width):
                to_logs[i, p] = to_rises[i, p] = 0.0
            for o in range(n_outputs):
                magnitude = 0.0
                for p in range(width):
                    magnitude += abs(y[first + i, o, p])
                    to_y[i, o, p] = 0.0
                slacks[i, o] = ROUNDING * magnitude
        for k in range(n_planes):
            last = k == n_planes - 1
            for o in range(n_outputs):
                for i in range(n):
                    row = first + i
                    half = 0.5 * shares[k] * slopes[row, CRISP, o]
                    scales[i, LEFT] = half + (slopes[row, LEFT, o] if last else 0.0)
                    scales[i, RIGHT] = half + (slopes[row, RIGHT, o] if last else 0.0)
                if _is_type_1(by_row, n_planes, k):
                    for i in range(n):
                        row, total = first + i, 0.0
                        for p in range(width):
                            total += firing[0, row, p]
                        mean, scale = ends[0, row, LEFT, o], 2.0 * scales[i, LEFT] / total if total != 0.0 else 0.0
                        for p in range(width):
                            share = scale * firing[0, row, p]
                            to_logs[i, p] += share * (y[row, o, p] - mean)
                            to_y[i, o, p] += share
                else:
                    _add_plane_gradients(
                        y, o, firing, k, first, n, ends, slacks, scales, widths, to_low, to_up,
                        to_logs, to_rises, to_ratios, to_y,
                    )  # fmt: skip
        for i in range(n):
            row = first + i
            for o in range(n_outputs):
                for p in range(n_rules):
                    outputs[row, index(o * n_rules, p)] = to_y[i, o, p]
            if primary:
                for p in range(n_rules):
                    logs[row, index(primary, p)] = to_logs[i, p]
                    logs[row, p] = to_rises[i, p] if logs[row, p] < 0.0 else 0.0
            else:
                for p in range(n_rules):
                    log = np.float64(logs[row, p])
                    by_rise = to_rises[i, p] if log < 0.0 else 0.0
                    to_spread += by_rise * log
                    logs[row, p] = to_logs[i, p] + spread * by_rise
    for p in range(n_rules):
        to_log_ratios[p] += to_ratios[p]
    return to_spread
