"""The losses of :mod:`deepfls.functional.losses` in NumPy, each with its derivative in y, for training without autograd.

On the few numbers of a small batch an operation of torch takes several times as long as one of NumPy. A function here gives
the losses, with the shape they have there, and their slopes, with the shape of y, as autograd gives them, at kinks too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from deepfls.functional import losses as named
from deepfls.functional.tracing import Array


class LossTerms(NamedTuple):
    """Losses, (batch, outputs) or (batch, 1), and their slopes in each output they take, each (batch, outputs)."""

    losses: Array
    slopes: tuple[Array, ...]


def _l1(y: Array, target: Array) -> LossTerms:
    error = y - target
    return LossTerms(np.abs(error), (np.sign(error),))


def _l2(y: Array, target: Array) -> LossTerms:
    error = y - target
    return LossTerms(error * error, (2.0 * error,))


def _huber(y: Array, target: Array, delta: float = 1.0) -> LossTerms:
    error = y - target
    slope = np.minimum(np.maximum(error, -delta), delta)
    return LossTerms(slope * (error - 0.5 * slope), (slope,))


def _log_cosh(y: Array, target: Array) -> LossTerms:
    error = y - target
    size = np.abs(error)
    return LossTerms(size + np.log1p(np.exp(-2.0 * size)) - math.log(2.0), (np.tanh(error),))


def _pinball(y: Array, target: Array, quantile: float = 0.5) -> LossTerms:
    error = y - target
    slope = 0.5 * np.sign(error) + (0.5 - quantile)
    return LossTerms(slope * error, (slope,))


def _cross_entropy(y: Array, target: Array) -> LossTerms:
    places = np.arange(len(y)), target[:, 0].astype(np.intp)
    relative = y - y.max(axis=1, keepdims=True)
    powers = np.exp(relative)
    total = powers.sum(axis=1, keepdims=True)
    slope = powers / total
    losses = np.log(total) - relative[places][:, None]
    slope[places] -= 1.0
    return LossTerms(losses, (slope,))


_TERMS: dict[named.Loss, Callable[..., LossTerms]] = {
    named.l1: _l1,
    named.l2: _l2,
    named.huber: _huber,
    named.log_cosh: _log_cosh,
    named.pinball: _pinball,
    named.cross_entropy: _cross_entropy,
}


def terms_of(loss: named.Loss) -> Callable[..., LossTerms] | None:
    """The function here that belongs to a named loss, its options bound or not, or to that of a set; None for others."""
    if isinstance(loss, named.SetLoss):
        # A loss of one entry per sample counts once for each output there, which is not worth a formula.
        point = None if loss.point is named.cross_entropy else terms_of(loss.point)
        return None if point is None else partial(_set_terms, loss, point)
    options: dict[str, Any] = {}
    function = loss
    if isinstance(loss, partial) and not loss.args:
        function, options = loss.func, loss.keywords
    terms = next((terms for known, terms in _TERMS.items() if known is function), None)  # it need not be hashable
    return partial(terms, **options) if terms is not None and options else terms


def _set_terms(
    loss: named.SetLoss, point: Callable[..., LossTerms], y_left: Array, y_right: Array, y: Array, target: Array
) -> LossTerms:
    tail = 0.5 * (1.0 - loss.coverage)
    left, right, crisp = _pinball(y_left, target, tail), _pinball(y_right, target, 1.0 - tail), point(y, target)
    losses = crisp.losses + loss.weight * (left.losses + right.losses)
    return LossTerms(losses, (loss.weight * left.slopes[0], loss.weight * right.slopes[0], crisp.slopes[0]))
