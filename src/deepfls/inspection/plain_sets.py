"""Sets of a torch system as NumPy arrays: centers within their range, and the conditions that rules have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepfls.estimators.vocabulary import term_words
from deepfls.nn.systems import IT2FLS, T1FLS

if TYPE_CHECKING:
    from deepfls.estimators.base import FLSEstimator

Array = np.ndarray[Any, np.dtype[Any]]


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
    words = term_words(estimator._structure_, estimator.words, estimator.columns_.input_names)
    if words:
        own |= {"terms": chosen, "words": tuple(map(tuple, words))}
    return own
