# mypy: disable-error-code="no-untyped-def"
# (compiled functions: Numba infers the types)
"""Compiled kernels behind the constraint maps on the CPU: a map and its derivative in one pass each over flat arrays."""

from __future__ import annotations

import math

import numpy as np

from deepfls.functional._compiled import compiled


@compiled
def bounded_exp(raw, least, most, value):
    """Fill value with e^raw, raw held within [least, most]."""
    for i in range(raw.shape[0]):
        value[i] = math.exp(min(max(raw[i], least), most))


@compiled
def bounded_exp_gradient(raw, least, most, grad, grad_raw):
    for i in range(raw.shape[0]):
        grad_raw[i] = math.exp(raw[i]) * grad[i] if least <= raw[i] <= most else 0.0


@compiled
def _sigmoid(raw):
    return 1.0 / (1.0 + math.exp(-raw)) if raw >= 0.0 else math.exp(raw) / (1.0 + math.exp(raw))


@compiled
def bounded_log_sigmoid(raw, least, value):
    """Fill value with log sigmoid(raw), raw held above ``least``."""
    for i in range(raw.shape[0]):
        r = max(raw[i], least)
        value[i] = -math.log1p(math.exp(-r)) if r >= 0.0 else r - math.log1p(math.exp(r))


@compiled
def bounded_log_sigmoid_gradient(raw, least, grad, grad_raw):
    for i in range(raw.shape[0]):
        grad_raw[i] = _sigmoid(-raw[i]) * grad[i] if raw[i] >= least else 0.0


@compiled
def ordered_pair_of(raw_sigmas, raw_spreads, least, most, least_ratio, lower, upper):
    """Fill upper with e^raw_sigmas, held within bounds, and lower with a share of it from [least_ratio, 1]."""
    for i in range(raw_sigmas.shape[0]):
        sigma = math.exp(min(max(raw_sigmas[i], least), most))
        upper[i] = sigma
        lower[i] = sigma * (least_ratio + (1.0 - least_ratio) * _sigmoid(raw_spreads[i]))


@compiled
def ordered_pair_of_gradient(
    raw_sigmas, raw_spreads, least, most, least_ratio, grad_lower, grad_upper, grad_raw_sigmas, grad_raw_spreads
):
    for i in range(raw_sigmas.shape[0]):
        sigma = math.exp(min(max(raw_sigmas[i], least), most))
        share = _sigmoid(raw_spreads[i])
        inside = least <= raw_sigmas[i] <= most
        by_sigma = grad_upper[i] + grad_lower[i] * (least_ratio + (1.0 - least_ratio) * share)
        grad_raw_sigmas[i] = sigma * by_sigma if inside else 0.0
        grad_raw_spreads[i] = sigma * grad_lower[i] * (1.0 - least_ratio) * share * _sigmoid(-raw_spreads[i])


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
        to_upper = np.float64(grad_upper[i])
        to_difference = np.float64(grad_lower[i])
        if center - spread < upper * least_ratio:  # the lower width is a share of the upper one
            to_upper += least_ratio * to_difference
            to_difference = 0.0
        elif center - spread > upper:  # held below it, where the upper one is at its largest
            to_upper += to_difference
            to_difference = 0.0
        to_sum = to_upper if least <= center + spread <= most else 0.0
        inside_center = abs(raw_sigmas[i]) <= most
        inside_spread = abs(raw_spreads[i]) <= most
        grad_raw_sigmas[i] = np.sign(raw_sigmas[i]) * (to_sum + to_difference) if inside_center else 0.0
        grad_raw_spreads[i] = np.sign(raw_spreads[i]) * (to_sum - to_difference) if inside_spread else 0.0
