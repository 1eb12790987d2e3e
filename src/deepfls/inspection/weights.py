"""What every rule weighs in an output: weights that add up to 1, so that contributions add up to the prediction.

Each way of forming an output is a weighted mean of the consequents, y = Σ_p w_p y_p with Σ_p w_p = 1:

    Type-1        w = f / Σ f
    y_left        w = f̄ where y_p <= y_left, else f̲, over its sum; y_right the other way round
    "km"          the mean of the weights at both ends
    "nt"          w = (f̲ + f̄) / Σ (f̲ + f̄)
    "bmm", "sm"   w = α f̲ / Σ f̲ + (1 - α) f̄ / Σ f̄
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from deepfls.functional.karnik_mendel import karnik_mendel
from deepfls.inspection.plain import Array, PlainSystem

# Firing this far below the strongest rule's, as a logarithm, is held there: the floor of PlainSystem.output.
_FLOOR = -600.0
# Rounding of an end point, relative to the sum of the consequents' magnitudes.
_TOLERANCE = 4.0 * np.finfo(np.float64).eps


class RuleWeights(NamedTuple):
    """Weights of the rules in both ends and in the crisp output, each (rows, rules, outputs), adding up to 1 over rules.

    ``left_upper`` and ``right_upper`` tell which rules weigh their upper firing at an end: those beyond the switch point.
    """

    left: Array
    right: Array
    crisp: Array
    left_upper: Array
    right_upper: Array


def rule_weights(plain: PlainSystem, x: Array) -> RuleWeights:
    """Weights of the rules for rows x (rows, features) in the units of the data."""
    return weights_of(plain, *plain.firing(x), plain.rule_outputs(x))


def weights_of(plain: PlainSystem, log_lower: Array, log_upper: Array, consequents: Array) -> RuleWeights:
    """The same from log-firing, each (rows, rules), and consequents (rows, rules, outputs)."""
    peak = log_upper.max(axis=1, keepdims=True)
    lower, upper = (np.exp(np.maximum(log - peak, _FLOOR))[:, :, np.newaxis] for log in (log_lower, log_upper))
    if plain.kind == "t1":
        weights = np.broadcast_to(_normalized(upper), consequents.shape)
        everywhere = np.ones(consequents.shape, dtype=bool)
        return RuleWeights(weights, weights, weights, everywhere, everywhere)
    low, up = (torch.from_numpy(np.ascontiguousarray(f[:, :, 0])) for f in (lower, upper))
    ends = karnik_mendel(low, up, torch.from_numpy(consequents))
    y_left, y_right = (end.numpy()[:, np.newaxis] for end in ends)
    # A rule whose consequent is an end up to rounding may carry all the weight there is: it counts as beyond the end.
    slack = _TOLERANCE * np.abs(consequents).sum(axis=1, keepdims=True)
    left_upper, right_upper = consequents <= y_left + slack, consequents >= y_right - slack
    left, right = (_normalized(np.where(beyond, upper, lower)) for beyond in (left_upper, right_upper))
    if plain.type_reduction == "km":
        crisp = 0.5 * (left + right)
    elif plain.type_reduction == "nt":
        crisp = np.broadcast_to(_normalized(lower + upper), consequents.shape)
    else:
        own = np.exp(log_lower - log_lower.max(axis=1, keepdims=True))[:, :, np.newaxis]
        mix = 0.5 if plain.mix is None else plain.mix
        crisp = np.broadcast_to(mix * _normalized(own) + (1.0 - mix) * _normalized(upper), consequents.shape)
    return RuleWeights(left, right, crisp, left_upper, right_upper)


def _normalized(firing: Array) -> Array:
    return firing / firing.sum(axis=1, keepdims=True)
