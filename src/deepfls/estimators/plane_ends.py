"""Planes of a trained General Type-2 system in the units of the targets: quantiles, conformal scores, intervals.

The score of a target is the width t of the plane whose end it is: 0 in the middle, 1 at an end of the widest plane. The
width and the level α of a plane determine each other. Beyond the widest plane the score grows with the distance from it.

The ends of a plane of several systems are the means of theirs: they are nested and never cross, as those of each are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from deepfls._checks.values import Array
from deepfls.estimators.prediction import ScaledSystem
from deepfls.functional.reduction import plane_log_firing, type_reduced_set
from deepfls.nn.general import GT2FLS

# Halvings of the widths between which a score lies: a width is known to a billionth.
_HALVINGS = 30


def learned_quantiles(model: ScaledSystem, x: Array, levels: Array) -> Array:
    """Quantiles (rows, levels, outputs) as they were trained: the ends of plane α are the quantiles α/2 and 1 - α/2."""
    alphas = torch.from_numpy(np.minimum(2.0 * levels, 2.0 - 2.0 * levels))
    below = torch.from_numpy(levels < 0.5)[:, None]

    def quantiles(systems: Sequence[GT2FLS], z: Tensor) -> tuple[Tensor, ...]:
        found = torch.zeros((), dtype=z.dtype, device=z.device)
        for share, system in zip(model.shares.tolist(), systems, strict=True):
            planes = system.planes(z, alphas)
            found = found + share * torch.where(below.to(z.device), planes.y_left, planes.y_right)
        return (found,)

    return model.y_scaling.invert(model.evaluated_by_all(x, quantiles)[0])


class _PlaneEnds:
    """Ends of one output of a batch of scaled rows for any widths t of their planes; firing is computed once."""

    def __init__(self, systems: Sequence[GT2FLS], shares: Array, z: Tensor, output: int) -> None:
        self._parts = [
            (share, system.antecedents.plane_firing(z), system._rule_outputs(z)[:, :, output : output + 1])
            for share, system in zip(shares.tolist(), systems, strict=True)
        ]

    def __call__(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Left and right end, each (batch,), of the planes of widths t (batch,)."""
        left, right = torch.zeros_like(t), torch.zeros_like(t)
        for share, firing, consequents in self._parts:
            lower, upper = plane_log_firing(*firing, t.unsqueeze(1))
            ends = type_reduced_set(lower, upper, consequents)
            left, right = left + share * ends[0][:, 0], right + share * ends[1][:, 0]
        return left, right


def plane_scores(model: ScaledSystem, x: Array, y: Array, floor: Array | None) -> tuple[Array, Array]:
    """Scores of targets y (rows, outputs) and the sides of the middle on which they lie, each (rows, outputs).

    Beyond the widest plane the score is 1 plus the distance from it over half its width and ``floor`` (outputs,).
    """
    floors = _scaled_floor(model, floor)

    def scores(systems: Sequence[GT2FLS], z: Tensor, target: Tensor) -> tuple[Tensor, ...]:
        found, sides = torch.empty_like(target), torch.empty_like(target)
        for output in range(target.shape[1]):
            ends, t = _PlaneEnds(systems, model.shares, z, output), target[:, output]
            found[:, output] = _score(ends, t, floors[output])
            sides[:, output] = torch.where(t < ends(torch.zeros_like(t))[0], -1.0, 1.0)
        return found, sides

    return model.evaluated_by_all(x, scores, model.y_scaling.apply(y))  # type: ignore[return-value]  # two arrays


def _score(ends: _PlaneEnds, target: Tensor, floor: float) -> Tensor:
    """Width of the plane whose end is the target, by bisection: ends of wider planes never lie further inside."""
    low, high = torch.zeros_like(target), torch.ones_like(target)
    left, right = ends(high)
    distance = torch.maximum(left - target, target - right).clamp(min=0.0)
    beyond = 1.0 + distance / (0.5 * (right - left) + floor)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        left, right = ends(middle)
        inside = (left <= target) & (target <= right)
        low, high = torch.where(inside, low, middle), torch.where(inside, middle, high)
    return torch.where(distance > 0, beyond, high)


def plane_interval(model: ScaledSystem, x: Array, scores: Array, floor: Array | None) -> tuple[Array, Array]:
    """Ends of the intervals that hold all targets of at most some scores, each (rows, scores, outputs).

    Scores are (rows, scores, outputs), or (1, scores, outputs) where they are the same for all rows.
    """
    floors = _scaled_floor(model, floor)

    def interval(systems: Sequence[GT2FLS], z: Tensor, score: Tensor) -> tuple[Tensor, ...]:
        lower, upper = torch.empty_like(score), torch.empty_like(score)
        for output in range(score.shape[2]):
            ends = _PlaneEnds(systems, model.shares, z, output)
            for place in range(score.shape[1]):
                own = score[:, place, output]
                left, right = ends(own.clamp(max=1.0))
                reach = (own - 1.0).clamp(min=0.0) * (0.5 * (right - left) + floors[output])
                lower[:, place, output], upper[:, place, output] = left - reach, right + reach
        return lower, upper

    every_row = np.broadcast_to(scores, (len(x), *scores.shape[1:])).copy()
    lower, upper = model.evaluated_by_all(x, interval, every_row)
    return model.y_scaling.invert(lower), model.y_scaling.invert(upper)


def _scaled_floor(model: ScaledSystem, floor: Array | None) -> list[float]:
    scale = model.y_scaling.scale
    return (np.zeros(len(scale)) if floor is None else floor / scale).tolist()
