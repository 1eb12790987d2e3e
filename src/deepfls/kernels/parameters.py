# mypy: disable-error-code="no-untyped-def"
# (compiled functions: Numba infers the types)
"""From the flat vector of raw parameters to the weights of the matrix products, and gradients back.

The exponent of a rule is the quadratic form Σ_m b (x_m - c_m)² with b = -½ share / σ². With d = c - origin its weights over
[z², z, 1], z = x - origin, are b, -2 b d and Σ b d² (plus share Σ log h for a lower set). Both parameterisations of the
widths give b and its derivatives, so everything behind them is one formula.
"""

from __future__ import annotations

import numpy as np

from deepfls.functional.constants import MAX_LOG_SIGMA, MAX_SIGMA, MIN_LOG_SIGMA, MIN_LOGIT, MIN_RATIO, MIN_SIGMA
from deepfls.kernels.arithmetic import exponentials, index, log1p_unit
from deepfls.kernels.compiling import inner

# A system and a loss as the kernels take them: one record, because every further argument of a call costs its price.
FORM = np.dtype(
    [
        *((name, np.int64) for name in ("n_features", "n_rules", "n_outputs", "order", "interval", "with_spreads")),
        *((name, np.int64) for name in ("with_heights", "of_paper", "reduction", "loss", "trains_set", "n_targets")),
        ("block", np.int64),
        # Places of the raw parameters in the flat vector.
        *((name, np.int64) for name in ("centers", "sigmas", "spreads", "heights", "intercepts", "slopes", "mix")),
        # Factor of the exponents, option of the loss; share of the targets below a set, and weight of its ends.
        *((name, np.float64) for name in ("share", "option", "tail", "set_weight")),
    ]
)

# Rows of the table of coefficients: b of lower and upper sets, and their derivatives by raw widths and raw spreads.
LOWER, UPPER, LOWER_BY_SIGMA, UPPER_BY_SIGMA, LOWER_BY_SPREAD, UPPER_BY_SPREAD, LOG_HEIGHT, LOG_HEIGHT_BY_RAW = range(8)
N_COEFFICIENTS = 8


# Fields of the record are copied to local names before a loop: a store in the loop might change them, for all the compiler
# can tell, and it would not vectorise.


@inner
def _fill_powers(theta, form, powers, bits):
    """Fill powers with e^(-2 raw width), e^-|raw spread| and e^-|raw height|, each (rules * features,)."""
    n, sigmas, spreads, heights = form.n_rules * form.n_features, form.sigmas, form.spreads, form.heights
    with_spreads, with_heights = form.with_spreads, form.with_heights
    for i in range(n):
        powers[i] = -2.0 * min(max(theta[index(sigmas, i)], MIN_LOG_SIGMA), MAX_LOG_SIGMA)
    for i in range(n if with_spreads else 0):
        powers[index(n, i)] = -abs(theta[index(spreads, i)])
    for i in range(n if with_heights else 0):
        powers[index(2 * n, i)] = -abs(theta[index(heights, i)])
    exponentials(powers, bits)


@inner
def _ordered_coefficients(theta, form, powers, table):
    """σ̄ = e^raw and σ̲ = r σ̄, with r from [MIN_RATIO, 1] by the sigmoid of the raw spread."""
    n, sigmas, spreads, share = form.n_rules * form.n_features, form.sigmas, form.spreads, form.share
    for i in range(n):
        raw = theta[index(sigmas, i)]
        b = -0.5 * share * powers[i]
        table[UPPER, i] = b
        table[UPPER_BY_SIGMA, i] = -2.0 * b if (raw >= MIN_LOG_SIGMA) & (raw <= MAX_LOG_SIGMA) else 0.0
        table[UPPER_BY_SPREAD, i] = 0.0
    for i in range(n if form.with_spreads else 0):
        rising = theta[index(spreads, i)] >= 0.0
        decay = powers[index(n, i)]  # from e^-|raw| the sigmoid and its complement follow without overflow
        inverse = 1.0 / (1.0 + decay)
        part = inverse if rising else decay * inverse
        rest = decay * inverse if rising else inverse
        ratio = MIN_RATIO + (1.0 - MIN_RATIO) * part
        b = table[UPPER, i] / (ratio * ratio)
        table[LOWER, i] = b
        table[LOWER_BY_SIGMA, i] = b * table[UPPER_BY_SIGMA, i] / table[UPPER, i]
        table[LOWER_BY_SPREAD, i] = -2.0 * b / ratio * (1.0 - MIN_RATIO) * part * rest


@inner
def _paper_coefficients(theta, form, table):
    """σ̄ = |σ'| + |Δ| and σ̲ = |σ'| - |Δ|, each held within its bounds; without spreads σ = |σ'|."""
    sigmas, spreads, share = form.sigmas, form.spreads, form.share
    for i in range(form.n_rules * form.n_features):
        raw = np.float64(theta[sigmas + i])
        raw_spread = np.float64(theta[spreads + i]) if form.with_spreads else 0.0
        center, spread = min(abs(raw), MAX_SIGMA), min(abs(raw_spread), MAX_SIGMA)
        by_raw = np.sign(raw) if abs(raw) <= MAX_SIGMA else 0.0
        by_spread = np.sign(raw_spread) if abs(raw_spread) <= MAX_SIGMA else 0.0
        upper = min(max(center + spread, MIN_SIGMA), MAX_SIGMA)
        by_upper = 1.0 if MIN_SIGMA <= center + spread <= MAX_SIGMA else 0.0
        b = -0.5 * share / (upper * upper)
        slope = -2.0 * b / upper
        table[UPPER, i] = b
        table[UPPER_BY_SIGMA, i] = slope * by_upper * by_raw
        table[UPPER_BY_SPREAD, i] = slope * by_upper * by_spread
        if form.with_spreads:
            # A lower width that is held at its share of the upper one moves with that, else with the difference.
            held = center - spread < upper * MIN_RATIO
            lower = upper * MIN_RATIO if held else min(center - spread, upper)
            b = -0.5 * share / (lower * lower)
            slope = -2.0 * b / lower
            table[LOWER, i] = b
            table[LOWER_BY_SIGMA, i] = slope * by_raw * (MIN_RATIO * by_upper if held else 1.0)
            table[LOWER_BY_SPREAD, i] = slope * by_spread * (MIN_RATIO * by_upper if held else -1.0)


@inner
def _log_heights(theta, form, powers, table):
    """log h = log sigmoid(raw), raw held above MIN_LOGIT."""
    n, heights = form.n_rules * form.n_features, form.heights
    for i in range(n):
        raw = theta[index(heights, i)]
        decay = powers[index(2 * n, i)]
        table[LOG_HEIGHT, i] = min(max(raw, MIN_LOGIT), 0.0) - log1p_unit(decay)
        falling = (decay if raw >= 0.0 else 1.0) / (1.0 + decay)
        table[LOG_HEIGHT_BY_RAW, i] = falling if raw >= MIN_LOGIT else 0.0


@inner
def fill_weights(theta, form, powers, bits, table, origin, log_ratios, firing_weights, output_weights):
    """Fill everything that a pass over rows takes from the parameters.

    ``origin`` (features,) is the mean of the centers. ``firing_weights`` are (2 features + 1, stacks * rules), the lower
    stack first where widths are uncertain. ``log_ratios`` (rules,) are those of lower sets to sets as high as the upper
    ones. ``output_weights`` are (features + 1, outputs * rules), slopes and intercept, or constants, (1, outputs * rules).
    """
    n_rules, n_features, centers, share = form.n_rules, form.n_features, form.centers, form.share
    _fill_powers(theta, form, powers, bits)
    if form.of_paper:
        _paper_coefficients(theta, form, table)
    else:
        _ordered_coefficients(theta, form, powers, table)
    origin[:] = 0.0
    for p in range(n_rules):
        for m in range(n_features):
            origin[m] += theta[index(centers + p * n_features, m)]
    for m in range(n_features):
        origin[m] /= n_rules
    log_ratios[:] = 0.0
    if form.with_heights:
        _log_heights(theta, form, powers, table)
        for p in range(n_rules):
            for m in range(n_features):
                log_ratios[p] += share * table[LOG_HEIGHT, index(p * n_features, m)]
    for stack in range(2 if form.with_spreads else 1):
        coefficients = LOWER if form.with_spreads and stack == 0 else UPPER
        for p in range(n_rules):
            row = stack * n_rules + p
            constant = log_ratios[p] if coefficients == LOWER else 0.0
            for m in range(n_features):
                b = table[coefficients, index(p * n_features, m)]
                d = theta[index(centers + p * n_features, m)] - origin[m]
                firing_weights[m, row] = b
                firing_weights[index(n_features, m), row] = -2.0 * b * d
                constant += b * d * d
            firing_weights[2 * n_features, row] = constant
    n_slopes, n_outputs = n_features if form.order else 0, form.n_outputs
    slopes, intercepts = form.slopes, form.intercepts
    for output in range(n_outputs):
        for p in range(n_rules):
            row, place = output * n_rules + p, p * n_outputs + output
            for m in range(n_slopes):
                output_weights[m, row] = theta[index(slopes + place * n_slopes, m)]
            output_weights[n_slopes, row] = theta[intercepts + place]


@inner
def fill_gradient(theta, form, table, origin, to_firing, to_log_ratios, to_outputs, gradient):
    """Fill the gradient of the flat vector from those of the weights; the gradient of the mix is in it already."""
    n_rules, n_features, share = form.n_rules, form.n_features, form.share
    centers, sigmas, spreads, heights = form.centers, form.sigmas, form.spreads, form.heights
    for stack in range(2 if form.with_spreads else 1):
        lower = form.with_spreads and stack == 0
        b_row = LOWER if lower else UPPER
        for p in range(n_rules):
            row, first = stack * n_rules + p, p * n_features
            by_constant = np.float64(to_firing[2 * n_features, row])
            if lower:
                to_log_ratios[p] += by_constant
            for m in range(n_features):
                i = index(first, m)
                d = theta[index(centers + first, m)] - origin[m]
                by_linear = np.float64(to_firing[index(n_features, m), row])
                to_b = to_firing[m, row] - 2.0 * d * by_linear + d * d * by_constant
                gradient[index(centers + first, m)] += 2.0 * table[b_row, i] * (d * by_constant - by_linear)
                gradient[index(sigmas + first, m)] += to_b * table[b_row + 2, i]
                if form.with_spreads:
                    gradient[index(spreads + first, m)] += to_b * table[b_row + 4, i]
    if form.with_heights:
        for p in range(n_rules):
            for m in range(n_features):
                i = index(p * n_features, m)
                gradient[index(heights + p * n_features, m)] = share * to_log_ratios[p] * table[LOG_HEIGHT_BY_RAW, i]
    n_slopes, n_outputs = n_features if form.order else 0, form.n_outputs
    slopes, intercepts = form.slopes, form.intercepts
    for output in range(n_outputs):
        for p in range(n_rules):
            row, place = output * n_rules + p, p * n_outputs + output
            for m in range(n_slopes):
                gradient[index(slopes + place * n_slopes, m)] = to_outputs[m, row]
            gradient[intercepts + place] = to_outputs[n_slopes, row]
