# mypy: disable-error-code="no-untyped-def"
# (compiled functions: Numba infers the types)
"""Compiled kernels behind the constraint maps on the CPU: a map and its derivative in one pass each over flat arrays."""

from __future__ import annotations

import numpy as np

from deepfls.functional._compiled import BLOCK, compiled, exponentials


@compiled
def _load_powers(raw, least, most, first, n, powers, bits):
    """Fill powers with e^raw, raw held within [least, most]."""
    for i in range(n):
        powers[i] = min(max(raw[first + i], least), most)
    exponentials(powers[:n], bits)


@compiled
def bounded_exp(raw, least, most, value):
    """Fill value with e^raw, raw held within [least, most]."""
    powers = np.empty(BLOCK)
    bits = np.empty(BLOCK, np.int64)
    for first in range(0, raw.shape[0], BLOCK):
        n = min(BLOCK, raw.shape[0] - first)
        _load_powers(raw, least, most, first, n, powers, bits)
        for i in range(n):
            value[first + i] = powers[i]


@compiled
def bounded_exp_gradient(raw, least, most, grad, grad_raw):
    powers = np.empty(BLOCK)
    bits = np.empty(BLOCK, np.int64)
    for first in range(0, raw.shape[0], BLOCK):
        n = min(BLOCK, raw.shape[0] - first)
        _load_powers(raw, least, most, first, n, powers, bits)
        for i in range(n):
            inside = least <= raw[first + i] <= most
            grad_raw[first + i] = powers[i] * grad[first + i] if inside else 0.0


@compiled
def _load_decays(raw, first, n, decays, bits):
    """Fill decays with e^-|raw|, from which sigmoid and its logarithm follow without overflow."""
    for i in range(n):
        decays[i] = -abs(raw[first + i])
    exponentials(decays[:n], bits)


@compiled
def _sigmoid(raw, decay):
    return (1.0 if raw >= 0.0 else decay) / (1.0 + decay)


@compiled
def _log1p(t):
    """log(1 + t) for t in [0, 1], as 2 artanh(s) with s = t / (2 + t) <= 1/3: a series that vectorises."""
    s = t / (2.0 + t)
    q = s * s
    series = 1.0 / 33.0
    series = series * q + 1.0 / 31.0
    series = series * q + 1.0 / 29.0
    series = series * q + 1.0 / 27.0
    series = series * q + 1.0 / 25.0
    series = series * q + 1.0 / 23.0
    series = series * q + 1.0 / 21.0
    series = series * q + 1.0 / 19.0
    series = series * q + 1.0 / 17.0
    series = series * q + 1.0 / 15.0
    series = series * q + 1.0 / 13.0
    series = series * q + 1.0 / 11.0
    series = series * q + 1.0 / 9.0
    series = series * q + 1.0 / 7.0
    series = series * q + 1.0 / 5.0
    series = series * q + 1.0 / 3.0
    return 2.0 * s * (series * q + 1.0)


@compiled
def bounded_log_sigmoid(raw, least, value):
    """Fill value with log sigmoid(raw), raw held above ``least``."""
    decays = np.empty(BLOCK)
    bits = np.empty(BLOCK, np.int64)
    for first in range(0, raw.shape[0], BLOCK):
        n = min(BLOCK, raw.shape[0] - first)
        _load_decays(raw, first, n, decays, bits)
        for i in range(n):
            r = max(raw[first + i], least)
            value[first + i] = min(r, 0.0) - _log1p(decays[i])


@compiled
def bounded_log_sigmoid_gradient(raw, least, grad, grad_raw):
    decays = np.empty(BLOCK)
    bits = np.empty(BLOCK, np.int64)
    for first in range(0, raw.shape[0], BLOCK):
        n = min(BLOCK, raw.shape[0] - first)
        _load_decays(raw, first, n, decays, bits)
        for i in range(n):
            r = raw[first + i]
            grad_raw[first + i] = _sigmoid(-r, decays[i]) * grad[first + i] if r >= least else 0.0


@compiled
def ordered_pair_of(raw_sigmas, raw_spreads, least, most, least_ratio, lower, upper):
    """Fill upper with e^raw_sigmas, held within bounds, and lower with a share of it from [least_ratio, 1]."""
    bounded_exp(raw_sigmas, least, most, upper)
    decays = np.empty(BLOCK)
    bits = np.empty(BLOCK, np.int64)
    for first in range(0, raw_sigmas.shape[0], BLOCK):
        n = min(BLOCK, raw_sigmas.shape[0] - first)
        _load_decays(raw_spreads, first, n, decays, bits)
        for i in range(n):
            share = _sigmoid(raw_spreads[first + i], decays[i])
            lower[first + i] = upper[first + i] * (least_ratio + (1.0 - least_ratio) * share)


@compiled
def ordered_pair_of_gradient(
    raw_sigmas, raw_spreads, least, most, least_ratio, grad_lower, grad_upper, grad_raw_sigmas, grad_raw_spreads
):
    powers = np.empty(BLOCK)
    decays = np.empty(BLOCK)
    bits = np.empty(BLOCK, np.int64)
    for first in range(0, raw_sigmas.shape[0], BLOCK):
        n = min(BLOCK, raw_sigmas.shape[0] - first)
        _load_powers(raw_sigmas, least, most, first, n, powers, bits)
        _load_decays(raw_spreads, first, n, decays, bits)
        for i in range(n):
            at = first + i
            spread = raw_spreads[at]
            share = _sigmoid(spread, decays[i])
            to_lower = np.float64(grad_lower[at])
            by_sigma = grad_upper[at] + to_lower * (least_ratio + (1.0 - least_ratio) * share)
            grad_raw_sigmas[at] = powers[i] * by_sigma if least <= raw_sigmas[at] <= most else 0.0
            grad_raw_spreads[at] = powers[i] * to_lower * (1.0 - least_ratio) * share * _sigmoid(-spread, decays[i])


@compiled
def paper_positive_of(raw, least, most, value):
    """Fill value with |raw|, held within [least, most]."""
    for i in range(raw.shape[0]):
        value[i] = min(max(abs(raw[i]), least), most)


@compiled
def paper_positive_of_gradient(raw, least, most, grad, grad_raw):
    for i in range(raw.shape[0]):
        grad_raw[i] = np.sign(raw[i]) * grad[i] if least <= abs(raw[i]) <= most else 0.0


@compiled
def paper_pair_of(raw_sigmas, raw_spreads, least, most, least_ratio, lower, upper):
    """Fill upper with |raw_sigmas| + |raw_spreads| and lower with their difference, each held within its bounds."""
    for i in range(raw_sigmas.shape[0]):
        center = min(abs(raw_sigmas[i]), most)
        spread = min(abs(raw_spreads[i]), most)
        upper[i] = min(max(center + spread, least), most)
        lower[i] = min(max(center - spread, upper[i] * least_ratio), upper[i])


@compiled
def paper_pair_of_gradient(
    raw_sigmas, raw_spreads, least, most, least_ratio, grad_lower, grad_upper, grad_raw_sigmas, grad_raw_spreads
):
    for i in range(raw_sigmas.shape[0]):
        center = min(abs(raw_sigmas[i]), most)
        spread = min(abs(raw_spreads[i]), most)
        upper = min(max(center + spread, least), most)
        # A lower width that is held at its share of the upper one moves with that, else with the difference.
        is_held = center - spread < upper * least_ratio
        to_upper = grad_upper[i] + (least_ratio * grad_lower[i] if is_held else 0.0)
        to_difference = 0.0 if is_held else np.float64(grad_lower[i])
        to_sum = to_upper if least <= center + spread <= most else 0.0
        inside_center = abs(raw_sigmas[i]) <= most
        inside_spread = abs(raw_spreads[i]) <= most
        grad_raw_sigmas[i] = np.sign(raw_sigmas[i]) * (to_sum + to_difference) if inside_center else 0.0
        grad_raw_spreads[i] = np.sign(raw_spreads[i]) * (to_sum - to_difference) if inside_spread else 0.0
