# mypy: disable-error-code="no-untyped-def"
# (compiled functions: Numba infers the types)
"""A whole training step, or the outputs of a system, in one compiled call without the interpreter lock.

Rows pass in blocks that stay in the cache: expanded to [z², z, 1] and [x, 1], through two matrix products to log-firing and
consequents, through exponentials and end points or averages to outputs, loss and slopes, and back the same way. Sums over
rules are in float64 whatever the dtype of the rows.
"""

from __future__ import annotations

import math

import numpy as np

from deepfls.kernels.arithmetic import index, largest
from deepfls.kernels.compiling import compiled, inner
from deepfls.kernels.end_points import add_end_gradients, average, exponentials_of_rows, find_ends, padded
from deepfls.kernels.parameters import N_COEFFICIENTS, fill_gradient, fill_weights

LOSSES = L2, L1, HUBER, LOG_COSH, PINBALL, CROSS_ENTROPY = range(6)
REDUCTIONS = KM, NT, BMM, SM = range(4)

_LN2 = math.log(2.0)


@inner
def point_loss(code, option, error):
    """Loss of an error y - t and its slope; at kinks the slope that autograd gives."""
    size = abs(error)
    sign = np.sign(error)
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


@inner
def _losses(form, rows, order, first, n_rows, scale, values, slopes):
    """Sum of the losses of some rows, times ``scale`` and their weights; fills the slopes of their outputs.

    Values and slopes are (3, rows, outputs): those of y_left, y_right and y.
    """
    left, right, crisp = values[0], values[1], values[2]
    by_left, by_right, by_y = slopes[0], slopes[1], slopes[2]
    n_features, n_targets, n_outputs = form.n_features, form.n_targets, form.n_outputs
    weighted = rows.shape[1] > n_features + n_targets
    code, option, tail, set_weight = form.loss, form.option, form.tail, form.set_weight
    loss = 0.0
    for row in range(n_rows):
        place = order[first + row] if order.shape[0] else first + row
        factor = scale * rows[place, n_features + n_targets] if weighted else scale
        if code == CROSS_ENTROPY:
            label = int(rows[place, n_features])
            peak = crisp[row, 0]
            for o in range(1, n_outputs):
                peak = max(peak, crisp[row, o])
            total = 0.0
            for o in range(n_outputs):
                by_y[row, o] = math.exp(crisp[row, o] - peak)
                total += by_y[row, o]
            for o in range(n_outputs):
                by_y[row, o] = factor * (by_y[row, o] / total - (1.0 if o == label else 0.0))
            loss += factor * (math.log(total) - (crisp[row, label] - peak))
            continue
        for o in range(n_outputs):
            target = rows[place, n_features + o]
            value, slope = point_loss(code, option, crisp[row, o] - target)
            loss += factor * value
            by_y[row, o] = factor * slope
            if form.trains_set:
                below, left_slope = point_loss(PINBALL, tail, left[row, o] - target)
                above, right_slope = point_loss(PINBALL, 1.0 - tail, right[row, o] - target)
                loss += factor * set_weight * (below + above)
                by_left[row, o] = factor * set_weight * left_slope
                by_right[row, o] = factor * set_weight * right_slope
    return loss


@inner
def _expand(rows, order, first, n_rows, form, origin, expanded, extended):
    """Fill expanded with [z², z, 1] and extended with [x, 1] of some rows of a table, in the order given."""
    n_features = form.n_features
    for i in range(n_rows):
        place = order[first + i] if order.shape[0] else first + i
        for m in range(n_features):
            value = rows[place, m]
            z = value - origin[m]
            expanded[i, m] = z * z
            expanded[i, index(n_features, m)] = z
            extended[i, m] = value
        expanded[i, 2 * n_features] = 1.0
        extended[i, n_features] = 1.0


@inner
def _load_firing(logs, form, log_ratios, n_rows, width, firing, bits):
    """Fill scratch (3, block * width) with upper and lower firing relative to each row's largest, and lower to its own."""
    n_rules, upper, interval = form.n_rules, form.n_rules if form.with_spreads else 0, form.interval
    with_own = form.reduction == BMM or form.reduction == SM
    for row in range(n_rows):
        start, peak = row * width, np.float64(largest(logs, row, upper, n_rules))
        for p in range(n_rules):
            firing[0, index(start, p)] = logs[row, index(upper, p)] - peak
        if interval:  # of sets of one width, lower firing is the upper one times a number for each rule
            for p in range(n_rules):
                firing[1, index(start, p)] = (logs[row, p] - peak) + (0.0 if upper else log_ratios[p])
        if with_own:
            peak = firing[1, start]
            for p in range(1, n_rules):
                peak = max(peak, firing[1, index(start, p)])
            for p in range(n_rules):
                firing[2, index(start, p)] = firing[1, index(start, p)] - peak
        for p in range(n_rules, width):
            for stack in range(3):
                firing[stack, index(start, p)] = 0.0
    exponentials_of_rows(firing, (3 if with_own else 2) if interval else 1, n_rows, n_rules, width, bits)


@inner
def _mix(theta, form, output):
    """Share of the average by lower firing in "bmm" and "sm"."""
    return 0.5 if form.reduction == SM else 1.0 / (1.0 + math.exp(-theta[form.mix + output]))


@inner
def _fill_averages(form, outputs, n_rows, width, firing, values):
    """Fill the values of a Type-1 system, all three equal, and replace firing by shares that add up to 1."""
    n_rules, up = form.n_rules, firing[0]
    for row in range(n_rows):
        total = 0.0
        for p in range(n_rules):
            total += up[index(row * width, p)]
        scale = 1.0 / total
        for p in range(n_rules):
            up[index(row * width, p)] *= scale
        for output in range(form.n_outputs):
            value = 0.0
            for p in range(n_rules):
                value += up[index(row * width, p)] * outputs[row, index(output * n_rules, p)]
            for k in range(3):
                values[k, row, output] = value


@inner
def _fill_outputs(theta, form, outputs, n_rows, width, firing, y, ends, moving, needs_ends, values):
    """Fill the crisp output and, where needed, both ends of an interval system; its consequents are copied to scratch."""
    n_rules, reduction = form.n_rules, form.reduction
    up, low, own = firing[0], firing[1], firing[2]
    left, right, crisp = values[0], values[1], values[2]
    for output in range(form.n_outputs):
        y_start = output * form.block * width
        for row in range(n_rows):
            start = y_start + row * width
            for p in range(n_rules):
                y[index(start, p)] = outputs[row, index(output * n_rules, p)]
            for p in range(n_rules, width):
                y[index(start, p)] = 0.0
        if needs_ends:
            find_ends(y, y_start, low, up, n_rows, n_rules, width, ends[0], ends[1], moving)
            for row in range(n_rows):
                left[row, output] = ends[0, row]
                right[row, output] = ends[1, row]
                crisp[row, output] = 0.5 * (ends[0, row] + ends[1, row])
        if reduction == KM:
            continue
        mix = _mix(theta, form, output) if reduction == BMM else 0.5
        for row in range(n_rows):
            by_up, up_sum = average(y, y_start, up, row * width, width)
            if reduction == NT:
                by_low, low_sum = average(y, y_start, low, row * width, width)
                value = (by_low * low_sum + by_up * up_sum) / (low_sum + up_sum)
            else:
                by_low, _ = average(y, y_start, own, row * width, width)
                value = mix * by_low + (1.0 - mix) * by_up
            if needs_ends:  # inside the set already, but for rounding
                value = min(max(value, left[row, output]), right[row, output])
            crisp[row, output] = value


@inner
def _add_average_gradient(y, y_start, firing, start, width, mean, scale, to_logs, to_y):
    """Add the gradients of Σ f y / Σ f to those of log f and y; ``scale`` is the slope over Σ f."""
    y_start += start
    for p in range(width):
        share = scale * firing[index(start, p)]
        to_logs[p] += share * (y[index(y_start, p)] - mean)
        to_y[p] += share


@inner
def _average_gradients(form, n_rows, width, firing, values, slopes, logs, outputs):
    """Replace log-firing and consequents of some rows of a Type-1 system by their gradients."""
    n_rules, shares, crisp, by_y = form.n_rules, firing[0], values[2], slopes[2]
    for row in range(n_rows):
        for output in range(form.n_outputs):
            by, mean = by_y[row, output], crisp[row, output]
            for p in range(n_rules):
                share = by * shares[index(row * width, p)]
                push = share * (outputs[row, index(output * n_rules, p)] - mean)
                outputs[row, index(output * n_rules, p)] = share
                logs[row, p] = push if output == 0 else logs[row, p] + push


@inner
def _interval_gradients(
    theta, form, n_rows, width, firing, y, values, slopes, row_scratch, logs, outputs, to_ratios, gradient
):
    """The same for an interval system; adds to the gradients of the log ratios and of the mix."""
    n_rules, reduction, with_spreads = form.n_rules, form.reduction, form.with_spreads
    up, low, own = firing[0], firing[1], firing[2]
    left, right = values[0], values[1]
    by_left, by_right, by_y = slopes[0], slopes[1], slopes[2]
    to_low, to_up, to_y = row_scratch[0], row_scratch[1], row_scratch[2]
    for row in range(n_rows):
        start = row * width
        to_low[:] = 0.0
        to_up[:] = 0.0
        for output in range(form.n_outputs):
            y_start = output * form.block * width
            to_y[:] = 0.0
            by = by_y[row, output]
            if reduction == KM or form.trains_set:
                half = 0.5 * by if reduction == KM else 0.0
                pushes = (half, half)
                if form.trains_set:
                    pushes = (half + by_left[row, output], half + by_right[row, output])
                ends = (left[row, output], right[row, output])
                add_end_gradients(y, y_start, low, up, start, width, True, ends, pushes, to_low, to_up, to_y)
            if reduction == NT:
                low_mean, low_sum = average(y, y_start, low, start, width)
                up_mean, up_sum = average(y, y_start, up, start, width)
                mean = (low_mean * low_sum + up_mean * up_sum) / (low_sum + up_sum)
                scale = by / (low_sum + up_sum)
                _add_average_gradient(y, y_start, low, start, width, mean, scale, to_low, to_y)
                _add_average_gradient(y, y_start, up, start, width, mean, scale, to_up, to_y)
            elif reduction != KM:
                mix = _mix(theta, form, output) if reduction == BMM else 0.5
                low_mean, low_sum = average(y, y_start, own, start, width)
                up_mean, up_sum = average(y, y_start, up, start, width)
                _add_average_gradient(y, y_start, own, start, width, low_mean, mix * by / low_sum, to_low, to_y)
                _add_average_gradient(y, y_start, up, start, width, up_mean, (1.0 - mix) * by / up_sum, to_up, to_y)
                if reduction == BMM:
                    gradient[form.mix + output] += by * (low_mean - up_mean) * mix * (1.0 - mix)
            for p in range(n_rules):
                outputs[row, index(output * n_rules, p)] = to_y[p]
        if with_spreads:
            for p in range(n_rules):
                logs[row, p] = to_low[p]
                logs[row, index(n_rules, p)] = to_up[p]
        else:
            for p in range(n_rules):
                to_ratios[p] += to_low[p]
                logs[row, p] = to_up[p] + to_low[p]


@compiled
def scratch_sizes(form_record):
    """Numbers of the dtype of the rows, of float64 and of int64 that a pass needs."""
    form = form_record[0]
    n_rules, n_features, n_outputs, block = form.n_rules, form.n_features, form.n_outputs, form.block
    n_logs = n_rules * (2 if form.with_spreads else 1)
    n_consequents = n_rules * n_outputs
    width = padded(n_rules)
    weights = n_logs * (2 * n_features + 1) + n_consequents * (n_features + 1)
    memory = 3 * weights + block * (3 * n_features + 2 + n_logs + n_consequents)
    doubles = n_rules * n_features * (N_COEFFICIENTS + 3) + n_features + 2 * n_rules + 3 * width
    doubles += block * ((3 + n_outputs) * width + 6 * n_outputs + 2)
    return memory, doubles, max(block * width, 3 * n_rules * n_features) + block


@inner
def _taken(memory, place, n_rows, n_columns):
    """A matrix in memory from a place on, and the place behind it."""
    return memory[place : place + n_rows * n_columns].reshape(n_rows, n_columns), place + n_rows * n_columns


@compiled
def run_rows(theta, gradient, rows, order, first, n_rows, scale, form_record, results, memory, doubles, bits):
    """Outputs of some rows of a table, or their loss and gradient.

    Parameters
    ----------
    theta, gradient : (parameters,)
        Raw parameters, and where the gradient is written; an empty gradient asks for outputs only.
    rows : (any, features + targets + weight)
        A packed table; targets and weights are needed for a gradient only.
    order : (any,) int64
        Places of rows in the table, or empty for rows in their own order; ``n_rows`` from ``first`` on are used.
    scale : float
        Factor of the loss of a row.
    form_record : (1,) of FORM
    results : (n_rows, 3, outputs)
        Where y_left, y_right and y are written; empty where a gradient is asked for.
    memory, doubles, bits
        Scratch of the sizes of :func:`scratch_sizes`, in the dtype of the rows, float64 and int64.

    Returns
    -------
    float
        The loss times ``scale``, summed over the rows; 0 for outputs.
    """
    form = form_record[0]
    n_rules, n_features, n_outputs, block = form.n_rules, form.n_features, form.n_outputs, form.block
    trains = gradient.shape[0] > 0
    n_logs = n_rules * (2 if form.with_spreads else 1)
    n_terms = n_features + 1 if form.order else 1
    width = padded(n_rules)
    firing_weights, place = _taken(memory, 0, 2 * n_features + 1, n_logs)
    to_firing, place = _taken(memory, place, 2 * n_features + 1, n_logs)
    part_firing, place = _taken(memory, place, 2 * n_features + 1, n_logs)
    output_weights, place = _taken(memory, place, n_terms, n_outputs * n_rules)
    to_outputs, place = _taken(memory, place, n_terms, n_outputs * n_rules)
    part_outputs, place = _taken(memory, place, n_terms, n_outputs * n_rules)
    expanded, place = _taken(memory, place, block, 2 * n_features + 1)
    extended, place = _taken(memory, place, block, n_features + 1)
    logs, place = _taken(memory, place, block, n_logs)
    outputs, place = _taken(memory, place, block, n_outputs * n_rules)
    table, place = _taken(doubles, 0, N_COEFFICIENTS, n_rules * n_features)
    powers, place = _taken(doubles, place, 1, 3 * n_rules * n_features)
    origin, place = _taken(doubles, place, 1, n_features)
    log_ratios, place = _taken(doubles, place, 2, n_rules)
    row_scratch, place = _taken(doubles, place, 3, width)
    firing, place = _taken(doubles, place, 3, block * width)
    y, place = _taken(doubles, place, 1, n_outputs * block * width)
    ends, place = _taken(doubles, place, 2, block)
    values = doubles[place : place + 3 * block * n_outputs].reshape(3, block, n_outputs)
    place += 3 * block * n_outputs
    slopes = doubles[place : place + 3 * block * n_outputs].reshape(3, block, n_outputs)
    moving = bits[-block:]
    fill_weights(theta, form, powers[0], bits, table, origin[0], log_ratios[0], firing_weights, output_weights)
    needs_ends = form.interval and (form.reduction == KM or form.trains_set or not trains)
    if trains:
        gradient[:] = 0.0
        to_firing[:] = 0.0
        to_outputs[:] = 0.0
        log_ratios[1] = 0.0
    loss = 0.0
    for start in range(0, n_rows, block):
        n = min(block, n_rows - start)
        _expand(rows, order, first + start, n, form, origin[0], expanded, extended)
        np.dot(expanded[:n], firing_weights, logs[:n])
        if form.order:
            np.dot(extended[:n], output_weights, outputs[:n])
        else:
            for row in range(n):
                for k in range(n_outputs * n_rules):
                    outputs[row, k] = output_weights[0, k]
        _load_firing(logs, form, log_ratios[0], n, width, firing, bits)
        if form.interval:
            _fill_outputs(theta, form, outputs, n, width, firing, y[0], ends, moving, needs_ends, values)
        else:
            _fill_averages(form, outputs, n, width, firing, values)
        if not trains:
            for row in range(n):
                for k in range(3):
                    for output in range(n_outputs):
                        results[start + row, k, output] = values[k, row, output]
            continue
        loss += _losses(form, rows, order, first + start, n, scale, values, slopes)
        if form.interval:
            _interval_gradients(
                theta, form, n, width, firing, y[0], values, slopes, row_scratch, logs, outputs, log_ratios[1], gradient
            )
        else:
            _average_gradients(form, n, width, firing, values, slopes, logs, outputs)
        np.dot(expanded[:n].T, logs[:n], part_firing)
        to_firing += part_firing
        if form.order:
            np.dot(extended[:n].T, outputs[:n], part_outputs)
            to_outputs += part_outputs
        else:
            for row in range(n):
                for k in range(n_outputs * n_rules):
                    to_outputs[0, k] += outputs[row, k]
    if trains:
        fill_gradient(theta, form, table, origin[0], to_firing, log_ratios[1], to_outputs, gradient)
    return loss
