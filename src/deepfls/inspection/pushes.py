"""How far every input pushed an output: Shapley values against a reference row.

Move the inputs one after another from their reference value to their actual one; the step that input m causes is the change
of the output when it moves. The push of m is the mean of its step over the orders in which the inputs can move. In any one
order the steps add up to y(x) - y(reference) exactly, so their means do too, however many orders are taken: all of them,
by way of all subsets, for few inputs; for many, random orders each with its reverse, whose means are estimates.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from deepfls.inspection.plain import Array, Output, PlainSystem

# Up to so many inputs all 2^inputs subsets are evaluated.
EXACT_INPUTS = 10
# Rows that may be evaluated otherwise; at least one order and its reverse are.
_ROWS = 20_000
_CHUNK = 4_096


class Pushes(NamedTuple):
    """Outputs at the reference, and what every input added to reach those at x.

    ``base`` holds three arrays (outputs,) and ``pushes`` three arrays (features, outputs), each for y_left, y_right and y.
    ``exact`` tells whether all orders were taken.
    """

    base: Output
    pushes: Output
    exact: bool


def input_pushes(plain: PlainSystem, x: Array, reference: Array, random_state: int = 0) -> Pushes:
    """Pushes for a row x (features,) from a reference row (features,), both in the units of the data."""
    # Inputs that already stand at their reference push nothing, in no order.
    moved = np.flatnonzero(x != reference)
    base = _outputs(plain, reference[np.newaxis])
    exact = len(moved) <= EXACT_INPUTS
    found = _by_subsets(plain, x, reference, moved) if exact else _by_orders(plain, x, reference, moved, random_state)
    pushes = []
    for values in found:
        column = np.zeros((plain.n_features, plain.n_outputs))
        column[moved] = values
        pushes.append(column)
    return Pushes(Output(*(end[0] for end in base)), Output(*pushes), exact)


def _by_subsets(plain: PlainSystem, x: Array, reference: Array, moved: Array) -> list[Array]:
    count = len(moved)
    subsets = (np.arange(2**count)[:, np.newaxis] >> np.arange(count)) & 1
    rows = np.repeat(reference[np.newaxis], len(subsets), axis=0)
    rows[:, moved] = np.where(subsets, x[moved], reference[moved])
    sizes = subsets.sum(axis=1)
    # Share of the orders in which exactly a given subset of the others has moved before an input does.
    shares = np.array([1.0 / (count * math.comb(count - 1, size)) for size in range(count)] or [0.0])
    found = []
    for values in _outputs(plain, rows):
        pushes = []
        for m in range(count):
            before = np.flatnonzero(subsets[:, m] == 0)
            steps = values[before | (1 << m)] - values[before]
            pushes.append(shares[sizes[before]] @ steps)
        found.append(np.array(pushes).reshape(count, plain.n_outputs))
    return found


def _by_orders(plain: PlainSystem, x: Array, reference: Array, moved: Array, random_state: int) -> list[Array]:
    random = np.random.default_rng(random_state)
    n_pairs = max(1, _ROWS // (2 * len(moved)))
    first, last = (_fired(plain, row) for row in (reference, x))
    steps = _input_terms(plain, x, moved) - _input_terms(plain, reference, moved)
    totals = [np.zeros((len(moved), plain.n_outputs)) for _ in Output._fields]
    for _ in range(n_pairs):
        order = random.permutation(len(moved))
        for sequence in (order, order[::-1]):
            # Row k has the first k inputs of the sequence moved: a sum that grows by one term, not k terms each time.
            rows = np.concatenate([first, first + np.cumsum(steps[sequence], axis=0)])
            rows[-1] = last[0]  # as it is, without the rounding of the sum
            for total, values in zip(totals, _reduced(plain, rows), strict=True):
                total[sequence] += np.diff(values, axis=0)
    return [total / (2 * n_pairs) for total in totals]


def _fired(plain: PlainSystem, row: Array) -> Array:
    """Lower log-firing, upper log-firing and consequents of a row, side by side, (1, rules * (2 + outputs))."""
    log_lower, log_upper = plain.firing(row[np.newaxis])
    return np.concatenate([log_lower, log_upper, plain.rule_outputs(row[np.newaxis]).reshape(1, -1)], axis=1)


def _input_terms(plain: PlainSystem, row: Array, inputs: Array) -> Array:
    """What each of some inputs adds to these, (inputs, rules * (2 + outputs))."""
    s, values = plain, row[inputs]
    exponent = -0.5 if s.tnorm == "product" else -0.5 / s.n_features
    lower, upper = (
        exponent * np.square((values - s.centers[:, inputs]) / sigmas[:, inputs]).T
        for sigmas in (s.lower_sigmas, s.upper_sigmas)
    )
    says = (s.slopes[:, :, inputs] * values).transpose(2, 0, 1).reshape(len(inputs), -1)
    return np.concatenate([lower, upper, says], axis=1)


def _reduced(plain: PlainSystem, rows: Array) -> Output:
    n = plain.n_rules
    lower, upper, says = rows[:, :n], rows[:, n : 2 * n], rows[:, 2 * n :].reshape(len(rows), n, -1)
    return plain.reduced(np.minimum(lower, upper), np.ascontiguousarray(upper), np.ascontiguousarray(says))


def _outputs(plain: PlainSystem, rows: Array) -> Output:
    parts = [plain.output(rows[start : start + _CHUNK]) for start in range(0, len(rows), _CHUNK)]
    return Output(*(np.concatenate(column) for column in zip(*parts, strict=True)))
