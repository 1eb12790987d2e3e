# mypy: disable-error-code="no-untyped-def"
# (compiled functions: Numba infers the types)
"""Compiled kernels from the free parameters of antecedents all the way to the weights of their quadratic forms, and back.

One call each way where the maps and the forms would be five: on the numbers of a small system a call costs more than what
it computes.
"""

from __future__ import annotations

import numpy as np

from deepfls.functional._compiled import compiled
from deepfls.functional._forms_cpu import form_gradients, form_weights
from deepfls.nn._constraints_cpu import (
    bounded_exp,
    bounded_exp_gradient,
    bounded_log_sigmoid,
    bounded_log_sigmoid_gradient,
    ordered_pair_of,
    ordered_pair_of_gradient,
    paper_pair_of,
    paper_pair_of_gradient,
    paper_positive_of,
    paper_positive_of_gradient,
)


@compiled
def _fill_sigmas(raw_sigmas, raw_spreads, of_paper, least, most, least_ratio, sigmas):
    """Fill sigmas (stacks, numbers): one stack, or that of the lower widths and that of the upper ones."""
    if sigmas.shape[0] == 2:
        if of_paper:
            paper_pair_of(raw_sigmas, raw_spreads, least, most, least_ratio, sigmas[0], sigmas[1])
        else:
            ordered_pair_of(raw_sigmas, raw_spreads, least, most, least_ratio, sigmas[0], sigmas[1])
    elif of_paper:
        paper_positive_of(raw_sigmas, least, most, sigmas[0])
    else:
        bounded_exp(raw_sigmas, least, most, sigmas[0])


@compiled
def _sigma_gradients(raw_sigmas, raw_spreads, of_paper, least, most, least_ratio, grad_sigmas, to_sigmas, to_spreads):
    """Fill the gradients of the raw parameters from those of the widths, as _fill_sigmas has them."""
    if grad_sigmas.shape[0] == 2:
        lower, upper = grad_sigmas[0], grad_sigmas[1]
        if of_paper:
            paper_pair_of_gradient(raw_sigmas, raw_spreads, least, most, least_ratio, lower, upper, to_sigmas, to_spreads)
        else:
            ordered_pair_of_gradient(raw_sigmas, raw_spreads, least, most, least_ratio, lower, upper, to_sigmas, to_spreads)
    elif of_paper:
        paper_positive_of_gradient(raw_sigmas, least, most, grad_sigmas[0], to_sigmas)
    else:
        bounded_exp_gradient(raw_sigmas, least, most, grad_sigmas[0], to_sigmas)


@compiled
def weights_of(
    centers,
    raw_sigmas,
    raw_spreads,
    raw_heights,
    of_paper,
    least,
    most,
    least_ratio,
    least_logit,
    share,
    sigmas,
    ratios,
    origin,
    weights,
):
    """Fill the widths (stacks, rules, features), the log ratios (rules,) or (0,), and what form_weights fills.

    Raw parameters are (rules, features), or (0, 0) where there are none. A log ratio is the firing of a lower set over that
    of a set as high as the upper one, share Σ log h; with two stacks the weights of the first have it in them.
    """
    n_stacks, n_rules, n_features = sigmas.shape
    flat = sigmas.reshape(n_stacks, n_rules * n_features)
    _fill_sigmas(raw_sigmas.reshape(-1), raw_spreads.reshape(-1), of_paper, least, most, least_ratio, flat)
    if ratios.shape[0] > 0:
        log_heights = np.empty(raw_heights.size)
        bounded_log_sigmoid(raw_heights.reshape(-1), least_logit, log_heights)
        for p in range(n_rules):
            ratios[p] = share * log_heights[p * n_features : (p + 1) * n_features].sum()
    form_weights(centers, sigmas, ratios if n_stacks == 2 else ratios[:0], share, origin, weights)


@compiled
def weights_of_gradient(
    centers,
    raw_sigmas,
    raw_spreads,
    raw_heights,
    of_paper,
    least,
    most,
    least_ratio,
    least_logit,
    share,
    sigmas,
    origin,
    to_weights,
    to_ratios,
    to_centers,
    to_sigmas,
    to_spreads,
    to_heights,
):
    """Fill the gradients of centers and raw parameters from that of the weights.

    With one stack that of the log ratios is given too; with two it follows from that of the weights, and is filled.
    """
    n_stacks, n_rules, n_features = sigmas.shape
    grad_sigmas = np.empty(sigmas.shape)
    found_ratios = to_ratios if n_stacks == 2 else to_ratios[:0]
    form_gradients(centers, sigmas, share, origin, to_weights, to_centers, grad_sigmas, found_ratios)
    flat = grad_sigmas.reshape(n_stacks, n_rules * n_features)
    _sigma_gradients(
        raw_sigmas.reshape(-1),
        raw_spreads.reshape(-1),
        of_paper,
        least,
        most,
        least_ratio,
        flat,
        to_sigmas.reshape(-1),
        to_spreads.reshape(-1),
    )
    if to_ratios.shape[0] > 0:
        to_log_heights = np.empty(raw_heights.size)
        for p in range(n_rules):
            to_log_heights[p * n_features : (p + 1) * n_features] = share * to_ratios[p]
        bounded_log_sigmoid_gradient(raw_heights.reshape(-1), least_logit, to_log_heights, to_heights.reshape(-1))
