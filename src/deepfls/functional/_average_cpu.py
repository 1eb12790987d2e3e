# mypy: disable-error-code="no-untyped-def"
# (compiled functions: Numba infers the types)
"""The compiled row kernels behind the weighted average of Type-1 systems on the CPU."""

from __future__ import annotations

import numpy as np

from deepfls.functional._compiled import BLOCK, compiled, exponentials, largest


@compiled
def normalized_firing(log_firing, first, n_rows, firing, bits):
    """Fill firing (n_rows, rules) with shares that add up to 1 in each of the rows from ``first`` on."""
    n_rules = log_firing.shape[1]
    for row in range(n_rows):
        at = first + row
        peak = np.float64(largest(log_firing, at, 0))
        for p in range(n_rules):
            firing[row, p] = log_firing[at, p] - peak
    exponentials(firing.reshape(-1)[: n_rows * n_rules], bits)
    for row in range(n_rows):
        total = 0.0
        for p in range(n_rules):
            total += firing[row, p]
        scale = 1.0 / total
        for p in range(n_rules):
            firing[row, p] *= scale


@compiled
def averages(log_firing, consequents, y):
    """Fill y (batch, outputs) from log-firing (batch, rules) and consequents (batch, rules, outputs)."""
    batch, n_rules, n_outputs = consequents.shape
    block = max(1, BLOCK // n_rules)
    firing = np.empty((block, n_rules))
    bits = np.empty(block * n_rules, np.int64)
    for first in range(0, batch, block):
        n_rows = min(block, batch - first)
        normalized_firing(log_firing, first, n_rows, firing, bits)
        for row in range(n_rows):
            for output in range(n_outputs):
                total = 0.0
                for p in range(n_rules):
                    total += firing[row, p] * consequents[first + row, p, output]
                y[first + row, output] = total


@compiled
def average_gradients(log_firing, consequents, y, grad_y, grad_log_firing, grad_consequents):
    """Fill the two gradients: with the shares s, dy/dy_p = s_p and dy/dlog f_p = s_p (y_p - y).

    They may be the arrays they are gradients of: a number is read, in a loop of its own, before its gradient is written.
    """
    batch, n_rules, n_outputs = consequents.shape
    block = max(1, BLOCK // n_rules)
    firing = np.empty((block, n_rules))
    bits = np.empty(block * n_rules, np.int64)
    push = np.empty(n_rules)
    for first in range(0, batch, block):
        n_rows = min(block, batch - first)
        normalized_firing(log_firing, first, n_rows, firing, bits)
        for row in range(n_rows):
            at = first + row
            for p in range(n_rules):
                push[p] = 0.0
            for output in range(n_outputs):
                slope = np.float64(grad_y[at, output])
                mean = np.float64(y[at, output])
                for p in range(n_rules):
                    push[p] += slope * (consequents[at, p, output] - mean)
                for p in range(n_rules):
                    grad_consequents[at, p, output] = slope * firing[row, p]
            for p in range(n_rules):
                grad_log_firing[at, p] = firing[row, p] * push[p]
