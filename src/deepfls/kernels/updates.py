# mypy: disable-error-code="no-untyped-def"
# (compiled functions: Numba infers the types)
"""Updates of the flat vector of parameters: a step of Adam, and the decay of slopes towards their mean."""

from __future__ import annotations

import math

from deepfls.kernels.arithmetic import index
from deepfls.kernels.compiling import compiled


@compiled
def adam_update(theta, gradient, means, squares, step, rate, beta1, beta2, eps, weight_decay):
    """Step number ``step``, counted from 1, of Adam on vectors (parameters,), with the formula of torch.optim.Adam."""
    size = rate / (1.0 - beta1**step)
    root = math.sqrt(1.0 - beta2**step)
    for i in range(theta.shape[0]):
        g = gradient[i] + weight_decay * theta[i]
        mean = means[i] + (1.0 - beta1) * (g - means[i])
        square = beta2 * squares[i] + (1.0 - beta2) * g * g
        means[i] = mean
        squares[i] = square
        theta[i] -= size * mean / (math.sqrt(square) / root + eps)


@compiled
def decay_towards_mean(theta, first, n_rules, n_columns, share):
    """Move a matrix (rules, columns) that begins at ``first`` by ``share`` of the way to its mean over the rules."""
    for m in range(n_columns):
        total = 0.0
        for p in range(n_rules):
            total += theta[index(first + p * n_columns, m)]
        mean = total / n_rules
        for p in range(n_rules):
            place = index(first + p * n_columns, m)
            theta[place] += share * (mean - theta[place])
