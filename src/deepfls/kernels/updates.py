"""Updates of the flat vector of parameters, and training steps one after another without the interpreter.

The kernels take tables (rules, features) of raw centers, widths, spreads and heights. Where rules share terms, the
parameters are tables (terms, features): every rule gets the values of its terms, and every term the sum of the gradients of
its rules. A rule without a condition on a feature gets raw values whose grade is 1.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from deepfls._checks.values import Array
from deepfls.functional.constants import MAX_LOG_SIGMA, MAX_SIGMA
from deepfls.kernels.arithmetic import index
from deepfls.kernels.compiling import compiled, inlined, inner
from deepfls.kernels.forms import SystemForm
from deepfls.kernels.step import row_kernel

TABLES = ("centers", "sigmas", "spreads", "heights")
# Raw spreads and heights whose sigmoid is 1 up to rounding.
_ONE = 40.0
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


# Systems whose rules share sets


@compiled
def expand_terms(theta, terms, tables, fills, blocks, expanded):
    """Fill the vector of a system without shared terms; tables and blocks are (any, 2 or 3) of places and sizes."""
    n_rules, n_features = terms.shape
    for k in range(tables.shape[0]):
        first, target, fill = tables[k, 0], tables[k, 1], fills[k]
        for p in range(n_rules):
            for m in range(n_features):
                term = terms[p, m]
                expanded[target + p * n_features + m] = theta[first + term * n_features + m] if term >= 0 else fill
    for k in range(blocks.shape[0]):
        first, target, size = blocks[k, 0], blocks[k, 1], blocks[k, 2]
        for i in range(size):
            expanded[target + i] = theta[first + i]


@inner
def gather_terms(expanded, terms, tables, blocks, gradient):
    """Fill the gradient of the parameters from that of the expanded vector."""
    n_rules, n_features = terms.shape
    for i in range(len(gradient)):
        gradient[i] = 0.0
    for k in range(tables.shape[0]):
        first, target = tables[k, 0], tables[k, 1]
        for p in range(n_rules):
            for m in range(n_features):
                term = terms[p, m]
                if term >= 0:
                    gradient[first + term * n_features + m] += expanded[target + p * n_features + m]
    for k in range(blocks.shape[0]):
        first, target, size = blocks[k, 0], blocks[k, 1], blocks[k, 2]
        for i in range(size):
            gradient[first + i] = expanded[target + i]


class ExpandedTerms:
    """The flat vector of a system with shared terms as that of the same system without, and gradients back.

    ``offsets`` tell where each named parameter begins, given in the vector of the system, kept in the expanded one. The
    terms of the form are read at every call, so that they may change. Without terms all arrays are empty.
    """

    def __init__(self, form: SystemForm, offsets: Mapping[str, int]) -> None:
        self.is_shared = form.terms is not None
        self._terms = np.empty((0, 0), np.int64) if form.terms is None else form.terms
        table = form.n_rules * form.n_features
        sizes = dict.fromkeys(TABLES, table) | {"intercepts": form.n_rules * form.n_outputs, "mix": form.n_outputs}
        sizes["slopes"] = table * form.n_outputs * form.order
        fills = {"centers": 0.0, "sigmas": MAX_SIGMA if form.of_paper else MAX_LOG_SIGMA}
        fills |= {"spreads": 0.0 if form.of_paper else _ONE, "heights": _ONE}
        self.offsets: dict[str, int] = {}
        tables, blocks, place = [], [], 0
        for field, name in form.parameters.items() if self.is_shared else ():
            self.offsets[name] = place
            entry = [int(offsets[name]), place]
            if field in TABLES:
                tables.append(entry)
            else:
                blocks.append([*entry, sizes[field]])
            place += sizes[field]
        self._fills = np.array([fills[field] for field in form.parameters if field in TABLES and self.is_shared])
        self._tables = np.array(tables, dtype=np.int64).reshape(-1, 2)
        self._blocks = np.array(blocks, dtype=np.int64).reshape(-1, 3)
        self._size = place
        self.offsets = self.offsets or dict(offsets)

    def arrays(self, dtype: Any) -> tuple[Array, ...]:
        """What the kernels take: terms, places, fills, and scratch for the expanded vector and its gradient."""
        scratch = np.empty(self._size, dtype), np.empty(self._size, dtype)
        return self._terms, self._tables, self._fills, self._blocks, *scratch

    def expanded(self, theta: Array) -> Array:
        """The vector of the system without shared terms."""
        if not self.is_shared:
            return theta
        *places, made, _ = self.arrays(theta.dtype)
        expand_terms(theta, *places, made)
        return made


# Steps

# Names of this module, not variables of `step_kernel`: Numba keys kept machine code on the variables that a function closes
# over, and the key of a compiled function differs in every process.
_type_1_rows = row_kernel(True, False, False)
_interval_rows = row_kernel(True, True, False)
_plane_rows = row_kernel(True, True, True)


@functools.cache
def step_kernel(interval, planes, shares_terms):
    """The training steps of a kind of systems."""

    @compiled
    def run_steps(theta, gradient, rows, order, first, end, size, scale, record, shared, rule, state, rates, losses):
        """Steps with the rows from ``first`` to ``end`` of an order, ``size`` at a time; fills their losses.

        Without ``rates`` (steps,) it leaves the gradient of the only step and updates nothing: the loss is then ``scale``
        times the sum over rows and targets, in place of the mean. ``shared`` is what :func:`expand_terms` takes, ``rule``
        and ``state`` what :func:`update` takes, the others what :func:`deepfls.kernels.step.row_kernel` takes. The number
        of the step in the record goes on.
        """
        form, (terms, tables, fills, blocks, expanded, to_expanded) = record[0], shared
        if not shares_terms:
            expanded, to_expanded = theta, gradient
        nothing = np.empty((0, 3, 1), theta.dtype)
        for k in range(losses.shape[0]):
            begin = first + k * size
            n_rows = min(size, end - begin)
            if shares_terms:
                expand_terms(theta, terms, tables, fills, blocks, expanded)
            if rates.shape[0]:
                form.batch_first, scale = begin, 1.0 / (n_rows * form.n_targets)
            if planes:
                losses[k] = _plane_rows(expanded, to_expanded, rows, order, begin, n_rows, scale, record, nothing)
            elif interval:
                losses[k] = _interval_rows(expanded, to_expanded, rows, order, begin, n_rows, scale, record, nothing)
            else:
                losses[k] = _type_1_rows(expanded, to_expanded, rows, order, begin, n_rows, scale, record, nothing)
            if shares_terms:
                gather_terms(to_expanded, terms, tables, blocks, gradient)
            if rates.shape[0]:
                form.number += 1
                update(theta, gradient, rule, state, rates[k])

    return run_steps
