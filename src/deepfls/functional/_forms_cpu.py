# mypy: disable-error-code="no-untyped-def"
# (compiled functions: Numba infers the types)
"""Compiled kernels around the matrix product that gives log-firing on the CPU.

They turn rows into [z², z, 1] and parameters into the weights of that product, and the gradient of the weights back. A
dozen tensor operations on a few thousand numbers would cost more to call than to compute.
"""

from __future__ import annotations

import numpy as np

from deepfls.functional._compiled import compiled


@compiled
def _fill_origin(centers, origin):
    """Fill origin (features,) with the middle of the centers (rules, features)."""
    n_rules, n_features = centers.shape
    for m in range(n_features):
        total = 0.0
        for p in range(n_rules):
            total += centers[p, m]
        origin[m] = total / n_rules


@compiled
def expand_rows(x, z, origin):
    """Fill z (batch, 2 features + 1) with [(x - origin)², x - origin, 1] of every row of x (batch, features)."""
    batch, n_features = x.shape[0], origin.shape[0]
    for row in range(batch):
        source = x[row]
        target = z[row]
        for m in range(n_features):
            shifted = source[m] - origin[m]
            target[m] = shifted * shifted
            target[n_features + m] = shifted
        target[2 * n_features] = 1.0


@compiled
def form_weights(centers, sigmas, log_ratios, share, origin, weights):
    """Fill origin (features,) with the middle of the centers, and weights (stacks * rules, 2 features + 1).

    Sigmas are (stacks, rules, features); the stacks come one after the other.
    With w = -½ share / σ² and d = c - origin they are w, -2 w d and Σ w d². To the last column of the first stack a number
    for each rule is added, (rules,), or none, (0,).
    """
    n_stacks, n_rules, n_features = sigmas.shape
    _fill_origin(centers, origin)
    for stack in range(n_stacks):
        for p in range(n_rules):
            target = weights[stack * n_rules + p]
            center = centers[p]
            widths = sigmas[stack, p]
            total = 0.0
            for m in range(n_features):
                d = np.float64(center[m]) - origin[m]
                sigma = np.float64(widths[m])
                w = -0.5 * share / (sigma * sigma)
                target[m] = w
                target[n_features + m] = -2.0 * w * d
                total += w * d * d
            if stack == 0 and log_ratios.shape[0] > 0:
                total += log_ratios[p]
            target[2 * n_features] = total


@compiled
def form_gradients(centers, sigmas, share, origin, to_weights, grad_centers, grad_sigmas, grad_log_ratios):
    """From the gradient of the weights, fill those of centers, widths and log ratios."""
    n_stacks, n_rules, n_features = sigmas.shape
    for stack in range(n_stacks):
        for p in range(n_rules):
            given = to_weights[stack * n_rules + p]
            center = centers[p]
            widths = sigmas[stack, p]
            by_constant = np.float64(given[2 * n_features])
            for m in range(n_features):
                d = np.float64(center[m]) - origin[m]
                inverse = 1.0 / np.float64(widths[m])
                w = -0.5 * share * inverse * inverse
                by_linear = np.float64(given[n_features + m])
                by_w = given[m] - 2.0 * d * by_linear + d * d * by_constant
                by_center = 2.0 * w * (d * by_constant - by_linear)
                grad_centers[p, m] = by_center if stack == 0 else grad_centers[p, m] + by_center
                grad_sigmas[stack, p, m] = -2.0 * w * inverse * by_w
            if stack == 0 and grad_log_ratios.shape[0] > 0:
                grad_log_ratios[p] = by_constant
