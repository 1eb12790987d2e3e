"""Losses, each a pure function ``loss(y, target) -> (batch, outputs)`` before any averaging.

Losses of one entry per output let sample weights and several targets be handled once, in the training loop. Cross-entropy
has one entry per sample, because a class is one target over all outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from deepfls._checks import check_number
from deepfls.functional.tracing import Array

Loss = Callable[..., Tensor]


def l1(y: Tensor, target: Tensor) -> Tensor:
    """Absolute error ``|y - t|``."""
    return (y - target).abs()


def l2(y: Tensor, target: Tensor) -> Tensor:
    """Squared error ``(y - t)²``."""
    return functional.mse_loss(y, target, reduction="none")


def huber(y: Tensor, target: Tensor, delta: float = 1.0) -> Tensor:
    """Squared near zero, linear beyond ``delta``: ``½ e²`` or ``δ (|e| - ½ δ)``."""
    check_number("delta", delta, above=0.0)
    return functional.huber_loss(y, target, reduction="none", delta=delta)


def log_cosh(y: Tensor, target: Tensor) -> Tensor:
    """``log cosh(y - t)``, smooth everywhere, in the form that does not overflow."""
    error = (y - target).abs()
    return error + functional.softplus(-2.0 * error) - math.log(2.0)


def pinball(y: Tensor, target: Tensor, quantile: float = 0.5) -> Tensor:
    """Tilted absolute error, smallest in expectation where y is the ``quantile`` of the target.

    Examples
    --------
    >>> import torch
    >>> pinball(torch.tensor([[0.0]]), torch.tensor([[1.0]]), quantile=0.75).item()
    0.75
    """
    check_number("quantile", quantile, above=0.0, below=1.0)
    error = target - y
    return torch.maximum(quantile * error, (quantile - 1.0) * error)


def cross_entropy(y: Tensor, target: Tensor) -> Tensor:
    """``-log softmax(y)[class]`` for outputs (batch, classes) and class indices (batch, 1); result (batch, 1)."""
    return functional.cross_entropy(y, target[:, 0].long(), reduction="none").unsqueeze(1)


# Derivatives of the losses in y, entry by entry, as autograd gives them, at kinks too. In NumPy: on the few numbers of a
# small batch an operation of torch takes several times as long.


def _l1_slope(y: Array, target: Array) -> Array:
    return np.sign(y - target)


def _l2_slope(y: Array, target: Array) -> Array:
    return 2.0 * (y - target)


def _huber_slope(y: Array, target: Array, delta: float = 1.0) -> Array:
    return np.minimum(np.maximum(y - target, -delta), delta)


def _log_cosh_slope(y: Array, target: Array) -> Array:
    return np.tanh(y - target)


def _pinball_slope(y: Array, target: Array, quantile: float = 0.5) -> Array:
    return 0.5 * np.sign(y - target) + (0.5 - quantile)


def _cross_entropy_slope(y: Array, target: Array) -> Array:
    slope = np.exp(y - y.max(axis=1, keepdims=True))
    slope /= slope.sum(axis=1, keepdims=True)
    slope[np.arange(len(y)), target[:, 0].astype(np.intp)] -= 1.0
    return slope


@dataclass(frozen=True)
class SetLoss:
    """A point loss on the crisp output plus the pinball losses of both ends: it trains a type-reduced set as an interval.

    ``loss(y, t) + weight (pinball(y_left, t; α/2) + pinball(y_right, t; 1 - α/2))`` with α = 1 - coverage. Up to a factor
    the two pinball losses are the interval (Winkler) score, so both ends are quantiles where it is smallest.

    Parameters
    ----------
    point : callable
        ``loss(y, target)``, entry by entry or a scalar.
    coverage : float
        Share of the targets that the set is to hold, within (0, 1).
    weight : float
        Weight of the ends against the crisp output; 0 leaves the point loss.

    Examples
    --------
    >>> import torch
    >>> loss = SetLoss(l1, coverage=0.8, weight=2.0)
    >>> loss(*(torch.tensor([[value]]) for value in (0.0, 2.0, 1.0, 3.0)))  # 2 + 2 (0.1 * 3 + 0.9 * 1)
    tensor([[4.4000]])
    """

    point: Loss
    coverage: float
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_number("coverage", self.coverage, above=0.0, below=1.0)
        check_number("interval_weight", self.weight, minimum=0.0)

    def __call__(self, y_left: Tensor, y_right: Tensor, y: Tensor, target: Tensor) -> Tensor:
        tail = 0.5 * (1.0 - self.coverage)
        ends = pinball(y_left, target, tail) + pinball(y_right, target, 1.0 - tail)
        point = self.point(y, target)
        # A loss of one entry per sample counts once for each output.
        return (point.unsqueeze(1) if point.ndim == 1 else point) + self.weight * ends


LOSSES: dict[str, Loss] = {
    "l1": l1,
    "l2": l2,
    "huber": huber,
    "log-cosh": log_cosh,
    "pinball": pinball,
    "cross-entropy": cross_entropy,
}

_SLOPES: dict[Loss, Callable[..., Array]] = {
    l1: _l1_slope,
    l2: _l2_slope,
    huber: _huber_slope,
    log_cosh: _log_cosh_slope,
    pinball: _pinball_slope,
    cross_entropy: _cross_entropy_slope,
}


def slopes_of(loss: Loss) -> Callable[..., tuple[Array, ...]] | None:
    """The derivatives of a loss of this file, its options bound or not, in each output it takes; None for others."""
    if isinstance(loss, SetLoss):
        # A loss of one entry per sample counts once for each output there, which is not worth a formula.
        point = None if loss.point is cross_entropy else slopes_of(loss.point)
        return None if point is None else partial(_set_slopes, loss, point)
    options: dict[str, Any] = {}
    function = loss
    if isinstance(loss, partial) and not loss.args:
        function, options = loss.func, loss.keywords
    slope = next((slope for known, slope in _SLOPES.items() if known is function), None)  # it need not be hashable
    return None if slope is None else lambda y, target: (slope(y, target, **options),)


def _set_slopes(
    loss: SetLoss, point: Callable[..., tuple[Array, ...]], y_left: Array, y_right: Array, y: Array, target: Array
) -> tuple[Array, ...]:
    tail = 0.5 * (1.0 - loss.coverage)
    left, right = _pinball_slope(y_left, target, tail), _pinball_slope(y_right, target, 1.0 - tail)
    return loss.weight * left, loss.weight * right, *point(y, target)
