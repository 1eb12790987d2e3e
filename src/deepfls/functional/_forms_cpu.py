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
def fill_origin(centers, origin):
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
    batch, n_features = x.shape
    for row in range(batch):
        source = x[row]
        target = z[row]
        for m in range(n_features):
            shifted = source[m] - origin[m]
            target[m] = shifted * shifted
            target[n_features + m] = shifted
        target[2 * n_features] = 1.0


@compiled
def form_weights(centers, sigmas, log_heights, share, origin, weights):
    """Fill weights (2 features + 1, rules) of one set per rule and feature.

    With w = -½ share / σ² and d = c - origin they are w, -2 w d and Σ (w d² + share log h).
    """
    n_rules, n_features = centers.shape
    for p in range(n_rules):
        total = 0.0
        for m in range(n_features):
            d = np.float64(centers[p, m]) - origin[m]
            sigma = np.float64(sigmas[p, m])
            w = -0.5 * share / (sigma * sigma)
            weights[m, p] = w
            weights[n_features + m, p] = -2.0 * w * d
            total += w * d * d
        for m in range(log_heights.shape[1]):
            total += share * log_heights[p, m]
        weights[2 * n_features, p] = total


@compiled
def add_form_gradients(centers, sigmas, share, origin, to_weights, grad_centers, grad_sigmas, grad_log_heights):
    """From the gradient of the weights, add to that of the centers and fill those of widths and log heights."""
    n_rules, n_features = centers.shape
    for p in range(n_rules):
        by_constant = np.float64(to_weights[2 * n_features, p])
        for m in range(n_features):
            d = np.float64(centers[p, m]) - origin[m]
            sigma = np.float64(sigmas[p, m])
            w = -0.5 * share / (sigma * sigma)
            by_linear = np.float64(to_weights[n_features + m, p])
            by_w = to_weights[m, p] - 2.0 * d * by_linear + d * d * by_constant
            grad_centers[p, m] += 2.0 * w * (d * by_constant - by_linear)
            grad_sigmas[p, m] = -2.0 * w / sigma * by_w
        for m in range(grad_log_heights.shape[1]):
            grad_log_heights[p, m] = share * by_constant
