"""Parts of a system as NumPy arrays: weights of the rules in the ends of the type-reduced set, ranges and terms of sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from deepfls._checks.values import Array
from deepfls.functional.constants import LOG_FLOOR, TOLERANCE
from deepfls.functional.karnik_mendel import karnik_mendel
from deepfls.nn.systems import IT2FLS, T1FLS

if TYPE_CHECKING:
    from deepfls.estimators.base import FLSEstimator


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


def within_range(
    estimator: FLSEstimator, system: T1FLS | IT2FLS, centers: Array, shift: Array, scale: Array, *, scaled: bool
) -> Array:
    """Centers (rules, features) within the range of a system that has one.

    The change of units may round a center at an end of its range past it.
    """
    bounds = system.antecedents.bounds
    if bounds is None:
        return centers
    ends = bounds[:2].detach().cpu().double().numpy()
    low, high = ends[0].min(axis=0) * scale + shift, ends[1].max(axis=0) * scale + shift
    input_range = getattr(estimator, "input_range_", None)
    if input_range is not None and not scaled:
        low, high = np.maximum(low, input_range[0]), np.minimum(high, input_range[1])
    return np.clip(centers, low, high)


def chosen_terms(estimator: FLSEstimator, system: T1FLS | IT2FLS, sets: dict[str, Any]) -> dict[str, Any]:
    """Fields of a system whose rules choose their sets: infinite widths where a rule has none, terms and words."""
    if system.antecedents.terms is None:
        return {}
    chosen = system.antecedents.terms.cpu().numpy().copy()
    own: dict[str, Any] = {name: np.where(chosen < 0, np.inf, sets[name]) for name in ("lower_sigmas", "upper_sigmas")}
    words = estimator._structure_.term_words(estimator.words, estimator.columns_.input_names)
    if words:
        own |= {"terms": chosen, "words": tuple(map(tuple, words))}
    return own
