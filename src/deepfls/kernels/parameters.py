"""The flat vector of raw parameters: from it to the weights of the matrix products, gradients back, and its updates.

The exponent of a rule is Σ_m b (x_m - c_m)² with b = -½ share / σ². With d = c - origin its weights over [z², z, 1],
z = x - origin, are b, -2 b d and Σ b d², plus share Σ log h for a lower set.

Where inputs may be unknown, u follows z, 1 for an unknown input, whose z is 0: its weights take the terms of that input off
the constant. In the consequents they are the slope times the center, which a rule takes in place of the input.
"""

from __future__ import annotations

import math

import numpy as np

from deepfls.functional.constants import (
    MAX_LOG_SIGMA,
    MAX_SIGMA,
    MIN_LOG_SIGMA,
    MIN_LOGIT,
    MIN_RATIO,
    MIN_SIGMA,
    MIN_SPREAD_LOGIT,
)
from deepfls.kernels.arithmetic import exponentials, index
from deepfls.kernels.compiling import compiled, inlined, inner

# A system and a loss as the kernels take them: one record, because every further argument of a call costs its price.
FORM = np.dtype(
    [
        *((name, np.int64) for name in ("n_features", "n_rules", "n_outputs", "order", "interval", "of_paper", "missing")),
        *((name, np.int64) for name in ("with_spreads", "with_heights", "reduction", "loss", "trains_set", "n_targets")),
        # Planes of a General Type-2 system, 0 for others; whether they share their spreads; number and first row of a step.
        *((name, np.int64) for name in ("n_planes", "shared_spread", "number", "batch_first")),
        # Places of the raw parameters in the flat vector.
        *((name, np.int64) for name in ("centers", "sigmas", "spreads", "heights", "intercepts", "slopes", "mix")),
        # Factor of the exponents, option of the loss; share of the targets below a set, and weight of its ends.
        *((name, np.float64) for name in ("share", "option", "tail", "set_weight")),
    ]
)

# A number and its derivatives, in tables of sets (stacks, 3, rules * features), the stack of lower sets first.
VALUE, BY_SIGMA, BY_SPREAD = range(3)


@inlined
def _fill_ordered_widths(theta, form, powers, sets):
    """σ̄ = e^raw and σ̲ = r σ̄, with r in [MIN_RATIO, 1] by the sigmoid of the raw spread."""
    lower, upper, n = sets[0], sets[-1], sets.shape[2]
    for i in range(n):
        raw = theta[index(form.sigmas, i)]
        upper[VALUE, i] = powers[0, i]
        upper[BY_SIGMA, i] = powers[0, i] if (raw >= MIN_LOG_SIGMA) & (raw <= MAX_LOG_SIGMA) else 0.0
        upper[BY_SPREAD, i] = 0.0
    for i in range(n if form.with_spreads else 0):
        decay = powers[1, i]  # from e^-|raw| the sigmoid and its complement follow without overflow
        inverse = (1.0 - MIN_RATIO) / (1.0 + decay)
        ratio = MIN_RATIO + (inverse if theta[index(form.spreads, i)] >= 0.0 else decay * inverse)
        lower[VALUE, i] = ratio * upper[VALUE, i]
        lower[BY_SIGMA, i] = ratio * upper[BY_SIGMA, i]
        lower[BY_SPREAD, i] = decay * inverse / (1.0 + decay) * upper[VALUE, i]


@inlined
def _fill_paper_widths(theta, form, sets):
    """σ̄ = |σ'| + |Δ| and σ̲ = |σ'| - |Δ|, each held within its bounds; without spreads σ = |σ'|."""
    lower, upper = sets[0], sets[-1]
    for i in range(sets.shape[2]):
        raw = np.float64(theta[form.sigmas + i])
        raw_spread = np.float64(theta[form.spreads + i]) if form.with_spreads else 0.0
        size, spread = min(abs(raw), MAX_SIGMA), min(abs(raw_spread), MAX_SIGMA)
        by_raw = np.sign(raw) if abs(raw) <= MAX_SIGMA else 0.0
        by_spread = np.sign(raw_spread) if abs(raw_spread) <= MAX_SIGMA else 0.0
        free = MIN_SIGMA <= size + spread <= MAX_SIGMA
        upper[VALUE, i] = min(max(size + spread, MIN_SIGMA), MAX_SIGMA)
        upper[BY_SIGMA, i] = by_raw if free else 0.0
        upper[BY_SPREAD, i] = by_spread if free else 0.0
        if form.with_spreads:
            # A lower width that is held at its share of the upper one moves with that, else with the difference.
            held = size - spread < upper[VALUE, i] * MIN_RATIO
            lower[VALUE, i] = upper[VALUE, i] * MIN_RATIO if held else min(size - spread, upper[VALUE, i])
            lower[BY_SIGMA, i] = upper[BY_SIGMA, i] * MIN_RATIO if held else by_raw
            lower[BY_SPREAD, i] = upper[BY_SPREAD, i] * MIN_RATIO if held else -by_spread


@inner
def upper_spread(raw):
    """b of a plane, (1 - MIN_RATIO) sigmoid(raw) with raw held above MIN_SPREAD_LOGIT, and its derivative."""
    part = 1.0 / (1.0 + math.exp(-max(np.float64(raw), MIN_SPREAD_LOGIT)))
    spread = (1.0 - MIN_RATIO) * part
    return spread, spread * (1.0 - part) if raw >= MIN_SPREAD_LOGIT else 0.0


@inner
def fill_sets(theta, form, sets, heights):
    """Fill the table of b and its derivatives, and heights (2, rules * features) with log h and its derivative."""
    share, n = form.share, sets.shape[2]
    n_heights = 1 if form.shared_spread else n
    # e^raw of the widths, e^-|raw| of spreads and heights: in one call, because every call is compiled on its own
    powers = np.zeros((3, n))
    for i in range(n):
        powers[0, i] = min(max(theta[index(form.sigmas, i)], MIN_LOG_SIGMA), MAX_LOG_SIGMA)
    for i in range(n if form.with_spreads else 0):
        powers[1, i] = -abs(theta[index(form.spreads, i)])
    for i in range(n_heights if form.with_heights else 0):
        powers[2, i] = -abs(theta[index(form.heights, i)])
    exponentials(powers.reshape(3 * n)[: 3 * n if form.interval else n], powers.itemsize)
    if form.of_paper:
        _fill_paper_widths(theta, form, sets)
    else:
        _fill_ordered_widths(theta, form, powers, sets)
    own_rise = form.n_planes > 0 and sets.shape[0] > 1
    for stack in range(1 if own_rise else 0, sets.shape[0]):
        for i in range(n):
            inverse = 1.0 / sets[stack, VALUE, i]
            b = -0.5 * share * inverse * inverse
            sets[stack, VALUE, i] = b
            sets[stack, BY_SIGMA, i] *= -2.0 * b * inverse
            sets[stack, BY_SPREAD, i] *= -2.0 * b * inverse
    for i in range(n if own_rise else 0):  # the rise of planes is a share of each term of the log-firing
        spread, by_raw = upper_spread(theta[index(form.spreads, i)])
        sets[0, VALUE, i] = spread * sets[1, VALUE, i]
        sets[0, BY_SIGMA, i] = spread * sets[1, BY_SIGMA, i]
        sets[0, BY_SPREAD, i] = by_raw * sets[1, VALUE, i]
    for i in range(n_heights if form.with_heights else 0):  # log h = log sigmoid(raw), raw held above MIN_LOGIT
        raw, decay = theta[index(form.heights, i)], powers[2, i]
        heights[0, i] = min(max(raw, MIN_LOGIT), 0.0) - math.log1p(decay)
        falling = (decay if raw >= 0.0 else 1.0) / (1.0 + decay)
        heights[1, i] = falling if raw >= MIN_LOGIT else 0.0


@inner
def _linear_parts(vector, form):
    """Centers (rules, features), slopes (rules, outputs, features) and intercepts (rules, outputs) in a flat vector."""
    n_rules, n_features, n_outputs = form.n_rules, form.n_features, form.n_outputs
    n_slopes = n_features if form.order else 0
    centers = vector[form.centers : form.centers + n_rules * n_features].reshape(n_rules, n_features)
    slopes = vector[form.slopes : form.slopes + n_rules * n_outputs * n_slopes].reshape(n_rules, n_outputs, n_slopes)
    intercepts = vector[form.intercepts : form.intercepts + n_rules * n_outputs].reshape(n_rules, n_outputs)
    return centers, slopes, intercepts


@inner
def fill_weights(theta, form, sets, heights, origin, log_ratios, firing_weights, output_weights):
    """Fill everything that a pass over rows takes from the parameters, after :func:`fill_sets`.

    ``origin`` (features,) is the mean of the centers, ``log_ratios`` (rules,) are those of lower sets to sets as high as
    the upper ones. ``firing_weights`` are (2 features + 1, stacks * rules), ``output_weights`` (features + 1 or 1,
    outputs * rules): slopes where there are any, and intercepts. Weights of unknown inputs stand before the last row.
    """
    n_rules, n_features, share = form.n_rules, form.n_features, form.share
    centers, slopes, intercepts = _linear_parts(theta, form)
    for p in range(n_rules):
        for m in range(n_features):
            origin[m] += centers[p, m] / n_rules
        for m in range(n_features if form.with_heights else 0):
            log_ratios[p] += share * heights[0, 0 if form.shared_spread else p * n_features + m]
    for stack in range(sets.shape[0]):
        lower = stack < sets.shape[0] - 1 and form.n_planes == 0  # the first stack of planes is their rise
        for p in range(n_rules):
            column = stack * n_rules + p
            constant = log_ratios[p] if lower else 0.0
            for m in range(n_features):
                b = sets[stack, VALUE, index(p * n_features, m)]
                d = centers[p, m] - origin[m]
                firing_weights[m, column] = b
                firing_weights[index(n_features, m), column] = -2.0 * b * d
                constant += b * d * d
            for m in range(n_features if form.missing else 0):
                d, i = centers[p, m] - origin[m], index(p * n_features, m)
                height = share * heights[0, i] if form.with_heights and lower else 0.0
                firing_weights[index(2 * n_features, m), column] = -sets[stack, VALUE, i] * d * d - height
            firing_weights[firing_weights.shape[0] - 1, column] = constant
    for p in range(n_rules):
        for output in range(form.n_outputs):
            column = output * n_rules + p
            for m in range(slopes.shape[2]):
                output_weights[m, column] = slopes[p, output, m]
            for m in range(slopes.shape[2] if form.missing else 0):
                output_weights[index(n_features, m), column] = slopes[p, output, m] * centers[p, m]
            output_weights[output_weights.shape[0] - 1, column] = intercepts[p, output]


@inner
def fill_gradient(theta, form, sets, heights, origin, to_firing, to_log_ratios, to_outputs, gradient):
    """Fill the gradient of the flat vector, 0 but for the mix, from those of the weights."""
    n_rules, n_features, n = form.n_rules, form.n_features, form.n_rules * form.n_features
    centers, slopes, _ = _linear_parts(theta, form)
    to_centers, to_slopes, to_intercepts = _linear_parts(gradient, form)
    to_sigmas, to_spreads = gradient[form.sigmas : form.sigmas + n], gradient[form.spreads : form.spreads + n]
    for stack in range(sets.shape[0]):
        lower = stack < sets.shape[0] - 1 and form.n_planes == 0
        for p in range(n_rules):
            column = stack * n_rules + p
            by_all = np.float64(to_firing[to_firing.shape[0] - 1, column])
            to_log_ratios[p] += by_all if lower else 0.0
            for m in range(n_features):
                i = index(p * n_features, m)
                d = centers[p, m] - origin[m]
                by_constant = by_all - to_firing[index(2 * n_features, m), column] if form.missing else by_all
                by_linear = np.float64(to_firing[index(n_features, m), column])
                to_b = to_firing[m, column] - 2.0 * d * by_linear + d * d * by_constant
                to_centers[p, m] += 2.0 * sets[stack, VALUE, i] * (d * by_constant - by_linear)
                to_sigmas[i] += to_b * sets[stack, BY_SIGMA, i]
                if sets.shape[0] > 1:
                    to_spreads[i] += to_b * sets[stack, BY_SPREAD, i]
    for p in range(n_rules):
        for m in range(n_features if form.with_heights else 0):
            i = 0 if form.shared_spread else p * n_features + m
            unknown = np.float64(to_firing[index(2 * n_features, m), p]) if form.missing and form.n_planes == 0 else 0.0
            gradient[form.heights + i] += form.share * (to_log_ratios[p] - unknown) * heights[1, i]
        for output in range(form.n_outputs):
            column = output * n_rules + p
            for m in range(to_slopes.shape[2]):
                to_slopes[p, output, m] = to_outputs[m, column]
            for m in range(to_slopes.shape[2] if form.missing else 0):
                by_fill = to_outputs[index(n_features, m), column]
                to_slopes[p, output, m] += by_fill * centers[p, m]
                to_centers[p, m] += by_fill * slopes[p, output, m]
            to_intercepts[p, output] = to_outputs[to_outputs.shape[0] - 1, column]


# Where rules share terms, the other functions get a vector in which every rule has sets of its own


@inner
def expand(theta, places, fills, expanded):
    """Fill a vector with the parameters at some places, and with fills where a place is -1."""
    for i in range(len(places)):
        expanded[i] = theta[places[i]] if places[i] >= 0 else fills[i]


@inner
def gather(expanded, places, gradient):
    """Fill the gradient of the parameters from that of the expanded vector."""
    for i in range(len(gradient)):
        gradient[i] = 0.0
    for i in range(len(places)):
        if places[i] >= 0:
            gradient[places[i]] += expanded[i]


# Updates

# How the vector is updated. ``n_done`` counts the steps of Adam; ``l2`` is its own weight decay; ``clip`` is the largest
# norm of a gradient. Slopes (rules, columns) begin at ``slopes`` and move by rate times ``decay`` of the way to their mean.
# Limits are those of the parameters from ``limited`` on.
UPDATE = np.dtype(
    [
        *((name, np.int64) for name in ("n_done", "slopes", "n_rules", "n_columns", "limited")),
        *((name, np.float64) for name in ("beta1", "beta2", "eps", "l2", "clip", "decay")),
    ]
)


@inlined
def _clip(gradient, n, largest_norm):
    """Scale the first ``n`` numbers of a gradient down to a norm, with the formula of torch's clip_grad_norm_."""
    total = 0.0
    for i in range(n):
        total += np.float64(gradient[i]) * gradient[i]
    scale = largest_norm / (math.sqrt(total) + 1e-6)
    if not scale >= 1.0:  # a norm that is NaN makes all numbers NaN
        for i in range(n):
            gradient[i] *= scale


@inlined
def _adam(theta, gradient, means, squares, form, rate):
    """A step of Adam with the formula of torch.optim.Adam."""
    beta1, beta2, eps, l2 = form.beta1, form.beta2, form.eps, form.l2
    size = rate / (1.0 - beta1**form.n_done)
    root = math.sqrt(1.0 - beta2**form.n_done)
    for i in range(means.shape[0]):
        g = gradient[i] + l2 * theta[i]
        mean = means[i] + (1.0 - beta1) * (g - means[i])
        square = beta2 * squares[i] + (1.0 - beta2) * g * g
        means[i] = mean
        squares[i] = square
        theta[i] -= size * mean / (math.sqrt(square) / root + eps)


@inlined
def _decay(theta, form, share):
    """Move the slopes by ``share`` of the way to their mean over the rules."""
    for m in range(form.n_columns):
        total = 0.0
        for p in range(form.n_rules):
            total += theta[index(form.slopes + p * form.n_columns, m)]
        mean = total / form.n_rules
        for p in range(form.n_rules):
            place = index(form.slopes + p * form.n_columns, m)
            theta[place] += share * (mean - theta[place])


@compiled
def update(theta, gradient, rule, state, rate):
    """Clip the gradient, take a step of Adam, move slopes towards their mean, and hold parameters within their limits.

    ``rule`` is (1,) of UPDATE, ``state`` the means, the squares (trainable parameters,) and least and largest values.
    """
    form, (means, squares, low, high) = rule[0], state
    form.n_done += 1
    if form.clip < math.inf:
        _clip(gradient, means.shape[0], form.clip)
    _adam(theta, gradient, means, squares, form, rate)
    if form.decay > 0.0 and form.n_columns > 0:
        _decay(theta, form, min(rate * form.decay, 1.0))
    for i in range(low.shape[0]):
        place = index(form.limited, i)
        theta[place] = min(max(theta[place], low[i]), high[i])
