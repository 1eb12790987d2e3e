"""Weights of the rules in the ends of the type-reduced set, from their firing and consequents as NumPy arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from deepfls.functional.constants import LOG_FLOOR, TOLERANCE
from deepfls.functional.karnik_mendel import karnik_mendel

Array = np.ndarray[Any, np.dtype[Any]]


class RuleWeights(NamedTuple):
    """Weights of the rules in both ends and in the crisp output, each (rows, rules, outputs), adding up to 1 over rules.

    ``left_upper`` and ``right_upper`` mark the rules whose weight at an end is their upper firing: those beyond the switch
    point.
    """

    left: Array
    right: Array
    crisp: Array
    left_upper: Array
    right_upper: Array


def normalized(firing: Array) -> Array:
    """Firing (rows, rules, ...) as shares that add up to 1 over the rules."""
    return firing / firing.sum(axis=1, keepdims=True)


def relative_firing(log_lower: Array, log_upper: Array) -> tuple[Array, Array]:
    """Lower and upper firing relative to the largest upper firing of each row, held above the common floor."""
    peak = log_upper.max(axis=1, keepdims=True)
    return np.exp(np.maximum(log_lower - peak, LOG_FLOOR)), np.exp(np.maximum(log_upper - peak, LOG_FLOOR))


def weights_at_ends(lower: Array, upper: Array, consequents: Array) -> RuleWeights:
    """Weights of the rules in both ends and in their middle, from relative firing, each (rows, rules)."""
    y_left, y_right = (end[:, np.newaxis] for end in end_points(lower, upper, consequents))
    # A rule whose consequent equals an end up to rounding may carry all the weight: it counts as beyond the end.
    slack = TOLERANCE * np.finfo(np.float64).eps * np.abs(consequents).sum(axis=1, keepdims=True)
    left_upper, right_upper = consequents <= y_left + slack, consequents >= y_right - slack
    low, up = lower[:, :, np.newaxis], upper[:, :, np.newaxis]
    left, right = (normalized(np.where(beyond, up, low)) for beyond in (left_upper, right_upper))
    return RuleWeights(left, right, 0.5 * (left + right), left_upper, right_upper)


def end_points(lower: Array, upper: Array, consequents: Array) -> tuple[Array, Array]:
    """Ends of the type-reduced set, each (rows, outputs), from relative firing, each (rows, rules)."""
    low, up, values = (torch.from_numpy(np.ascontiguousarray(part)) for part in (lower, upper, consequents))
    y_left, y_right = karnik_mendel(low, up, values)
    return y_left.numpy(), y_right.numpy()
