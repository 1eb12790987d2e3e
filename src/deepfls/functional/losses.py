"""Losses, each a pure function ``loss(y, target) -> (batch, outputs)`` before any averaging.

Losses of one entry per output let sample weights and several targets be handled once, in the training loop. Cross-entropy
has one entry per sample, because a class is one target over all outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from deepfls._checks.arguments import check_number
from deepfls.functional.constants import ROW_TURN, SMALLEST_LEVEL, STEP_TURN

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


@dataclass(frozen=True)
class QuantileLoss:
    """Trains the planes of a General Type-2 system as quantiles of all levels at once.

    Every row gets a level α, another one in every step. The ends of its plane are trained as the quantiles α/2 and 1 - α/2:
    ``pinball(y_left, t; α/2) + pinball(y_right, t; 1 - α/2)``, which is smallest where they are these quantiles. At α = 1
    both ends are the median.

    Examples
    --------
    >>> import torch
    >>> ends = torch.tensor([[0.0]]), torch.tensor([[2.0]])
    >>> QuantileLoss()(*ends, torch.tensor([[3.0]]), torch.tensor([0.2]))  # 0.1 * 3 + 0.9 * 1
    tensor([[1.2000]])
    """

    def alphas(self, target: Tensor, number: int) -> Tensor:
        """Levels (batch,) of the rows of step ``number``, evenly spread over (0, 1).

        Rows come in random order, so these are random levels for a row, and the batch as a whole has all of them.
        """
        places = torch.arange(len(target), device=target.device, dtype=torch.float64)
        return ((places + 0.5) * ROW_TURN + number * STEP_TURN).frac().clamp(min=SMALLEST_LEVEL).to(target.dtype)

    def __call__(self, y_left: Tensor, y_right: Tensor, target: Tensor, alphas: Tensor) -> Tensor:
        tail = 0.5 * alphas.unsqueeze(1)
        below, above = target - y_left, target - y_right
        left = torch.maximum(tail * below, (tail - 1.0) * below)
        return left + torch.maximum((1.0 - tail) * above, -tail * above)


LOSSES: dict[str, Loss] = {
    "l1": l1,
    "l2": l2,
    "huber": huber,
    "log-cosh": log_cosh,
    "pinball": pinball,
    "cross-entropy": cross_entropy,
}
