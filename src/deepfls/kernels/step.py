"""Training steps one after another, or the outputs of a system, in one compiled call without the interpreter lock.

Rows pass in blocks that stay in the cache: expanded to [z², z, 1] and [x, 1], through two matrix products to log-firing and
consequents, through exponentials and end points or averages to outputs, loss and slopes, and back the same way. Sums over
rules are in float64 whatever the dtype of the rows.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from deepfls.kernels.arithmetic import flush_tiny, index, largest
from deepfls.kernels.compiling import compiled, inlined, inner
from deepfls.kernels.end_points import copy_rows, exponentiate, padded
from deepfls.kernels.interval_steps import (
    BMM,
    CRISP,
    KM,
    LEFT,
    RIGHT,
    SM,
    fill_widths,
    interval_gradients,
    interval_outputs,
    load_planes,
    plane_gradients,
    row_level,
)
from deepfls.kernels.parameters import expand, fill_gradient, fill_sets, fill_weights, gather, update, upper_spread

LOSSES = L2, L1, HUBER, LOG_COSH, PINBALL, CROSS_ENTROPY, QUANTILES = range(7)

# Rows of a block, or a half or quarter of them where the numbers of all rules would leave the second-level cache.
BLOCK_ROWS, _BLOCK_NUMBERS = 128, 8192
_LN2 = math.log(2.0)
# Numbers of a cache line.
_LINE_NUMBERS = 16
# Most inputs and fewest columns of a product of gradients that is faster without BLAS.
_FEW_INPUTS, _FEW_COLUMNS = 12, 12


@inlined
def _point_loss(code, option, error):
    """Loss of an error y - t and its slope; at kinks the slope that autograd gives."""
    size, sign = abs(error), np.sign(error)
    if code == L1:
        return size, sign
    if code == HUBER:
        return (0.5 * error * error, error) if size <= option else (option * (size - 0.5 * option), option * sign)
    if code == LOG_COSH:
        return size + math.log1p(math.exp(-2.0 * size)) - _LN2, math.tanh(error)
    if code == PINBALL:
        slope = 0.5 * sign + (0.5 - option)
        return slope * error, slope
    return error * error, 2.0 * error


@inlined
def _cross_entropy(row, label, values, slopes):
    """Cross-entropy of the outputs of a row, and its slopes."""
    n_outputs, peak, total = values.shape[2], values[row, CRISP, 0], 0.0
    for o in range(1, n_outputs):
        peak = max(peak, values[row, CRISP, o])
    for o in range(n_outputs):
        slopes[row, CRISP, o] = math.exp(values[row, CRISP, o] - peak)
        total += slopes[row, CRISP, o]
    for o in range(n_outputs):
        slopes[row, CRISP, o] = slopes[row, CRISP, o] / total - (1.0 if o == label else 0.0)
    return math.log(total) - (values[row, CRISP, label] - peak)


@inner
def _losses(form, rows, order, first, n_rows, scale, values, slopes):
    """Sum of the losses of some rows, times ``scale`` and their weights; fills the slopes of their outputs."""
    n_features, n_targets, n_outputs = form.n_features, form.n_targets, form.n_outputs
    weighted = rows.shape[1] > n_features + n_targets
    total = 0.0
    for row in range(n_rows):
        place = order[first + row] if order.shape[0] else first + row
        loss = 0.0
        if form.loss == CROSS_ENTROPY:
            loss = _cross_entropy(row, int(rows[place, n_features]), values, slopes)
        else:
            tail = 0.5 * row_level(form, first + row) if form.loss == QUANTILES else form.tail
            for o in range(n_outputs):
                target = rows[place, n_features + o]
                if form.loss != QUANTILES:
                    value, slopes[row, CRISP, o] = _point_loss(form.loss, form.option, values[row, CRISP, o] - target)
                    loss += value
                for end in range(2 if form.trains_set else 0):
                    error, quantile = values[row, end, o] - target, tail if end == LEFT else 1.0 - tail
                    slope = form.set_weight * (0.5 * np.sign(error) + (0.5 - quantile))
                    loss += slope * error
                    slopes[row, end, o] = slope
        factor = scale * rows[place, n_features + n_targets] if weighted else scale
        for kind in range(LEFT if form.trains_set else CRISP, 3):
            for o in range(n_outputs):
                slopes[row, kind, o] *= factor
        total += factor * loss
    return total


@inner
def _expand(rows, order, first, n_rows, origin, missing, expanded, extended):
    """Fill expanded with [z², z, 1] and extended with [x, 1], or 1, of some rows of a table, in the order given.

    Where inputs may be ``missing``, u stands before the last column: 1 where an input is NaN, which counts as 0 elsewhere.
    """
    n_features, with_slopes = origin.shape[0], extended.shape[1] > 1
    for i in range(n_rows):
        place = order[first + i] if order.shape[0] else first + i
        for m in range(n_features):
            z = rows[place, m] - origin[m]
            z = 0.0 if missing and z != z else z
            expanded[i, m] = z * z
            expanded[i, index(n_features, m)] = z
        for m in range(n_features if with_slopes else 0):
            value = rows[place, m]
            extended[i, m] = 0.0 if missing and value != value else value
        for m in range(n_features if missing else 0):
            unknown = 1.0 if rows[place, m] != rows[place, m] else 0.0
            expanded[i, index(2 * n_features, m)] = unknown
            if with_slopes:
                extended[i, index(n_features, m)] = unknown
        expanded[i, expanded.shape[1] - 1] = 1.0
        extended[i, extended.shape[1] - 1] = 1.0


@inner
def _fetch(rows, order, first, n_rows):
    """Sum of one number of every cache line of some rows. The loads do not wait for each other, unlike work on the rows."""
    total = 0.0
    for i in range(n_rows):
        place = order[first + i]
        for m in range(0, rows.shape[1], _LINE_NUMBERS):
            total += rows[place, m]
    return total


@inner
def _add_products(inputs, slopes, n_rows, part, total):
    """Add the product of inputs (rows, inputs), transposed, and slopes (rows, columns) to a total; ``part`` is scratch.

    BLAS is slow where inputs are few: eight rows at a time are faster then.
    """
    n_inputs, n_columns = part.shape
    if n_inputs > _FEW_INPUTS or n_columns < _FEW_COLUMNS:
        np.dot(inputs[:n_rows].T, slopes[:n_rows], part)
    else:
        for k in range(n_inputs):
            for p in range(n_columns):
                part[k, p] = 0.0
        n_eights = n_rows - n_rows % 8
        for i in range(0, n_eights, 8):
            for k in range(n_inputs):
                a, b, c, d = inputs[i, k], inputs[i + 1, k], inputs[i + 2, k], inputs[i + 3, k]
                e, f, g, h = inputs[i + 4, k], inputs[i + 5, k], inputs[i + 6, k], inputs[i + 7, k]
                for p in range(n_columns):
                    first = (a * slopes[i, p] + b * slopes[i + 1, p]) + (c * slopes[i + 2, p] + d * slopes[i + 3, p])
                    other = (e * slopes[i + 4, p] + f * slopes[i + 5, p]) + (g * slopes[i + 6, p] + h * slopes[i + 7, p])
                    part[k, p] += first + other
        for i in range(n_eights, n_rows):
            for k in range(n_inputs):
                for p in range(n_columns):
                    part[k, p] += inputs[i, k] * slopes[i, p]
    for k in range(n_inputs):  # an expression of arrays takes longer to compile
        for p in range(n_columns):
            total[k, p] += part[k, p]


@inner
def _load_firing(logs, form, log_ratios, n_rows, firing):
    """Fill firing with upper and lower bounds relative to each row's largest, and lower ones relative to their own."""
    n_rules, n_stacks = form.n_rules, firing.shape[0]
    upper, peaks = logs.shape[1] - n_rules, np.empty(n_rows, logs.dtype)
    # A loop over the rows for every stack: with choices among stacks inside, none would be vectorised.
    for row in range(n_rows):
        peak = logs[row, upper]
        for p in range(n_rules):
            peak = max(peak, logs[row, index(upper, p)])
        peaks[row] = peak
        for p in range(n_rules):
            firing[0, row, p] = logs[row, index(upper, p)] - peak
    for row in range(n_rows if n_stacks > 1 else 0):
        peak = peaks[row]
        for p in range(n_rules):  # of sets of one width, lower firing is the upper one times a number for each rule
            firing[1, row, p] = (logs[row, p] - peak) + (0.0 if upper else log_ratios[p])
    for row in range(n_rows if n_stacks > 2 else 0):
        peak = largest(firing[1], row, n_rules)
        for p in range(n_rules):
            firing[2, row, p] = firing[1, row, p] - peak
    exponentiate(firing, n_rows, n_rules, logs.itemsize)


@inner
def _type_1_outputs(outputs, n_rows, firing, scales, values):
    """Fill the values of a Type-1 system, all three equal, and the scales (rows,) with which firing adds up to 1."""
    for row in range(n_rows):
        total = 0.0
        for p in range(firing.shape[1]):
            total += firing[row, p]
        scales[row] = 1.0 / total
        for o in range(values.shape[2]):
            value = 0.0
            for p in range(firing.shape[1]):
                value += firing[row, p] * outputs[row, index(o * firing.shape[1], p)]
            values[row, LEFT, o] = values[row, RIGHT, o] = values[row, CRISP, o] = value * scales[row]


@inner
def _type_1_gradients(n_rows, firing, scales, values, slopes, logs, outputs):
    """Replace log-firing and consequents of some rows of a Type-1 system by their gradients."""
    n_rules = firing.shape[1]
    for row in range(n_rows):
        for o in range(values.shape[2]):
            by, mean = scales[row] * slopes[row, CRISP, o], values[row, CRISP, o]
            for p in range(n_rules):
                share = by * firing[row, p]
                push = share * (outputs[row, index(o * n_rules, p)] - mean)
                outputs[row, index(o * n_rules, p)] = share
                logs[row, p] = push if o == 0 else logs[row, p] + push


@functools.cache
def row_kernel(trains, interval, planes):
    """The kernel of a kind of systems, for training or for outputs alone: less to compile than one kernel for all.

    That of training is a part of :func:`step_kernel`.
    """

    @(inlined if trains else compiled)
    def run_rows(theta, gradient, rows, order, first, n_rows, scale, record, results):
        """The outputs of some rows of a table, or their loss, times ``scale`` and summed, with its gradient.

        Raw parameters theta and the gradient are (parameters,), ``record`` is (1,) of FORM. Of the places in ``order``, or
        of the rows of the packed table in their own order where it is empty, ``n_rows`` from ``first`` on are used. Without
        a gradient, y_left, y_right and y are written to ``results`` (n_rows, 3, outputs), and targets are not needed.
        """
        form, dtype, theta_64 = record[0], theta.dtype, theta.astype(np.float64)
        n_rules, n_features, n_outputs = form.n_rules, form.n_features, form.n_outputs
        # What comes from the parameters, and gradients of it: in float64, so that it is compiled once. Only branches on
        # plain names are left out of the kernels that do not need them.
        own_rise = form.n_planes > 0 and not form.shared_spread
        sets = np.empty((2 if form.with_spreads or own_rise else 1, 3, n_rules * n_features))
        heights, origin = np.empty((2, n_rules * n_features)), np.zeros(n_features)
        log_ratios = np.zeros(n_rules)
        n_unknown = n_features if form.missing else 0
        firing_64 = np.empty((2 * n_features + n_unknown + 1, sets.shape[0] * n_rules))
        outputs_64 = np.empty((n_features + n_unknown + 1 if form.order else 1, n_outputs * n_rules))
        fill_sets(theta_64, form, sets, heights)
        fill_weights(theta_64, form, sets, heights, origin, log_ratios, firing_64, outputs_64)
        firing_weights, output_weights = firing_64.astype(dtype), outputs_64.astype(dtype)
        # What belongs to a block of rows
        block = BLOCK_ROWS
        while block > BLOCK_ROWS // 4 and block * n_rules > _BLOCK_NUMBERS:
            block //= 2
        block = min(block, max(n_rows, 1))
        width = padded(n_rules) if interval else n_rules
        expanded, extended = np.empty((block, len(firing_weights)), dtype), np.empty((block, len(output_weights)), dtype)
        logs, outputs = np.empty((block, firing_weights.shape[1]), dtype), np.empty((block, output_weights.shape[1]), dtype)
        n_stacks = 1
        if interval:
            n_stacks, n_planes, by_row = 3 if form.reduction == BMM or form.reduction == SM else 2, 1, False
            needs_ends = form.reduction == KM or form.trains_set or not trains
            y, row_scratch = np.zeros((block, n_outputs, width)), np.empty((3, width))
            moving, shares = np.empty(block, np.int64), np.ones(1)
        if planes:
            by_row = trains and form.loss == QUANTILES  # one plane for every row
            n_planes = 1 if by_row else form.n_planes
            n_stacks = 2 * n_planes
            widths, shares, peaks = np.empty((n_planes, block)), np.empty(n_planes), np.empty((n_planes, block))
            spread, by_raw = upper_spread(theta_64[form.spreads]) if form.shared_spread else (0.0, 0.0)
            to_spread = 0.0
        if interval:
            ends = np.empty((n_planes, block, 2, n_outputs))
        firing = np.zeros((n_stacks, block, width))
        values, scales, loss = np.empty((block, 3, n_outputs)), np.empty(block), 0.0
        if trains:
            gradient_64, slopes = np.zeros(len(gradient)), np.zeros((block, 3, n_outputs))
            to_firing, to_outputs, to_log_ratios = np.zeros(firing_64.shape), np.zeros(outputs_64.shape), np.zeros(n_rules)
            part_firing, part_outputs = np.empty(firing_64.shape, dtype), np.empty(outputs_64.shape, dtype)
        for start in range(0, n_rows, block):
            n = min(block, n_rows - start)
            if order.shape[0]:  # rows in random places of a large table
                values[0, 0, 0] = _fetch(rows, order, first + start, n)  # stored, or the compiler would leave it out
            _expand(rows, order, first + start, n, origin, form.missing, expanded, extended)
            np.dot(expanded[:n], firing_weights, logs[:n])
            np.dot(extended[:n], output_weights, outputs[:n])
            if planes:
                fill_widths(form, by_row, first + start, n, widths, shares)
                load_planes(logs, log_ratios, spread, by_row, widths, n, n_rules, firing, peaks)
            else:
                _load_firing(logs, form, log_ratios, n, firing)
            if interval:
                interval_outputs(
                    theta_64, form, outputs, by_row, shares, n, firing, y, needs_ends, moving, ends, values
                )  # fmt: skip
            else:
                _type_1_outputs(outputs, n, firing[0], scales, values)
            if trains:
                loss += _losses(form, rows, order, first + start, n, scale, values, slopes)
                if planes:
                    to_spread += plane_gradients(
                        form, by_row, widths, shares, n, firing, y, ends, slopes, spread, logs, outputs, to_log_ratios
                    )
                elif interval:
                    interval_gradients(
                        theta_64, form, n, firing, y, values, slopes, row_scratch, logs, outputs, to_log_ratios, gradient_64
                    )
                else:
                    _type_1_gradients(n, firing[0], scales, values, slopes, logs, outputs)
                flush_tiny(logs, n)
                flush_tiny(outputs, n)
                _add_products(expanded, logs, n, part_firing, to_firing)
                _add_products(extended, outputs, n, part_outputs, to_outputs)
            else:
                copy_rows(values, 0, results, start, n)
        if trains:
            fill_gradient(theta_64, form, sets, heights, origin, to_firing, to_log_ratios, to_outputs, gradient_64)
            if planes:  # noqa: SIM102  # a branch on a plain name
                if form.shared_spread:
                    gradient_64[form.spreads] = to_spread * by_raw
            for i in range(len(gradient)):
                gradient[i] = gradient_64[i]
        return loss

    return run_rows


# Names of this module, not variables of `step_kernel`: Numba keys kept machine code on the variables that a function closes
# over, and the key of a compiled function differs in every process.
_type_1_rows = row_kernel(True, False, False)
_interval_rows = row_kernel(True, True, False)
_plane_rows = row_kernel(True, True, True)


@functools.cache
def step_kernel(interval, planes, shares_terms):
    """The training steps of a kind of systems."""

    @compiled
    def run_steps(theta, gradient, rows, order, first, end, size, scale, record, shared, rule, state, rates, losses):
        """Steps with the rows from ``first`` to ``end`` of an order, ``size`` at a time; fills their losses.

        Without ``rates`` (steps,) it leaves the gradient of the only step and updates nothing: the loss is then ``scale``
        times the sum over rows and targets, in place of the mean. ``shared`` is that of
        :meth:`deepfls.kernels.forms.SharedTerms.arrays`, ``rule`` and ``state`` are what :func:`update` takes, the others
        what :func:`row_kernel` takes. The number of the step in the record goes on.
        """
        form, (places, fills, expanded, to_expanded) = record[0], shared
        if not shares_terms:
            expanded, to_expanded = theta, gradient
        nothing = np.empty((0, 3, 1), theta.dtype)
        for k in range(losses.shape[0]):
            begin = first + k * size
            n_rows = min(size, end - begin)
            if shares_terms:
                expand(theta, places, fills, expanded)
            if rates.shape[0]:
                form.batch_first, scale = begin, 1.0 / (n_rows * form.n_targets)
            if planes:
                losses[k] = _plane_rows(expanded, to_expanded, rows, order, begin, n_rows, scale, record, nothing)
            elif interval:
                losses[k] = _interval_rows(expanded, to_expanded, rows, order, begin, n_rows, scale, record, nothing)
            else:
                losses[k] = _type_1_rows(expanded, to_expanded, rows, order, begin, n_rows, scale, record, nothing)
            if shares_terms:
                gather(to_expanded, places, gradient)
            if rates.shape[0]:
                form.number += 1
                update(theta, gradient, rule, state, rates[k])

    return run_steps
