"""From firing and consequents to outputs: weighted averages, type reductions, and the α-planes of General Type-2 systems.

A general type-2 set in Zadeh's definition has a primary grade μ and a secondary membership function over it. Its plane at
the level α is an interval type-2 set around μ, here

    lower = (1 - a)^t μ,    upper = μ^(1 - b min(t, 1)),    t = s(α) / s(α₀),    s(α) = √(-2 ln α),

with a and b in (0, 1) and the smallest plane α₀ = 0.01. At α = 1 both are μ, and at α₀ they are (1 - a) μ and μ^(1 - b), a
wider Gaussian. In logarithms both bounds are linear in t, so one or two products give the log-firing of every plane.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from deepfls._checks.arguments import check_option
from deepfls._checks.tensors import check_rule_tensors, check_tensor
from deepfls.functional.constants import SMALLEST_ALPHA
from deepfls.functional.firing import IntervalFiring, relative_firing, relative_interval_firing
from deepfls.functional.karnik_mendel import TypeReducedSet, log_end_points


def weighted_average(log_firing: Tensor, consequents: Tensor) -> Tensor:
    """Output of a Type-1 system: ``y = Σ_p f_p y_p / Σ_p f_p``.

    Parameters
    ----------
    log_firing : Tensor, shape (batch, rules)
    consequents : Tensor, shape (batch, rules, outputs)

    Returns
    -------
    Tensor, shape (batch, outputs)

    Examples
    --------
    >>> import torch
    >>> weighted_average(torch.zeros(1, 2), torch.tensor([[[1.0], [3.0]]])).item()
    2.0
    """
    check_rule_tensors(consequents, log_firing=log_firing)
    return _average(relative_firing(log_firing), consequents)


def _average(firing: Tensor, consequents: Tensor) -> Tensor:
    return (firing.unsqueeze(-1) * consequents).sum(dim=1) / firing.sum(dim=1, keepdim=True)


def type_reduced_set(log_lower: Tensor, log_upper: Tensor, consequents: Tensor, algorithm: str = "auto") -> TypeReducedSet:
    """Exact end points of the type-reduced set from log-firing.

    The same as :func:`deepfls.functional.karnik_mendel`, for firing given by its logarithm as the rules produce it.

    Parameters
    ----------
    log_lower, log_upper : Tensor, shape (batch, rules)
    consequents : Tensor, shape (batch, rules, outputs)
    algorithm : {"auto", "newton", "sort", "enumerate", "iterative"}

    Returns
    -------
    TypeReducedSet
        Named tuple (y_left, y_right), each (batch, outputs).

    Examples
    --------
    >>> import torch
    >>> log_lower, log_upper = torch.full((1, 2), 0.25).log(), torch.full((1, 2), 0.75).log()
    >>> ends = type_reduced_set(log_lower, log_upper, torch.tensor([[[0.0], [4.0]]]))
    >>> round(ends.y_left.item(), 4), round(ends.y_right.item(), 4)
    (1.0, 3.0)
    """
    check_rule_tensors(consequents, log_lower=log_lower, log_upper=log_upper)
    return log_end_points(log_lower, log_upper, consequents, algorithm)


def _km(log_lower: Tensor, log_upper: Tensor, consequents: Tensor, mix: Tensor | None, algorithm: str) -> Tensor:
    y_left, y_right = type_reduced_set(log_lower, log_upper, consequents, algorithm)
    return 0.5 * (y_left + y_right)


def _nt(log_lower: Tensor, log_upper: Tensor, consequents: Tensor, mix: Tensor | None, algorithm: str) -> Tensor:
    lower_firing, upper_firing = relative_interval_firing(log_lower, log_upper)
    return _average(lower_firing + upper_firing, consequents)


def _bmm(log_lower: Tensor, log_upper: Tensor, consequents: Tensor, mix: Tensor | None, algorithm: str) -> Tensor:
    assert mix is not None
    # Each average relative to its own peak: lower firing may lie e^-60 and more below the upper one.
    return torch.lerp(weighted_average(log_upper, consequents), weighted_average(log_lower, consequents), mix)


def _sm(log_lower: Tensor, log_upper: Tensor, consequents: Tensor, mix: Tensor | None, algorithm: str) -> Tensor:
    half = torch.full((), 0.5, dtype=consequents.dtype, device=consequents.device)
    return _bmm(log_lower, log_upper, consequents, half, algorithm)


Reduction = Callable[[Tensor, Tensor, Tensor, Tensor | None, str], Tensor]

REDUCTIONS: dict[str, Reduction] = {"km": _km, "nt": _nt, "bmm": _bmm, "sm": _sm}


def type_reduce(
    log_lower: Tensor,
    log_upper: Tensor,
    consequents: Tensor,
    method: str = "km",
    *,
    mix: Tensor | None = None,
    algorithm: str = "auto",
) -> Tensor:
    """Crisp output of an Interval Type-2 system.

    Parameters
    ----------
    log_lower, log_upper : Tensor, shape (batch, rules)
    consequents : Tensor, shape (batch, rules, outputs)
    method : {"km", "nt", "bmm", "sm"}
        "km": the middle of the exact type-reduced set, ``(y_left + y_right) / 2``.
        "nt" (Nie-Tan): ``Σ (f̲ + f̄) y / Σ (f̲ + f̄)``.
        "bmm" (Begian-Melek-Mendel): ``α Σ f̲ y / Σ f̲ + (1 - α) Σ f̄ y / Σ f̄`` with α = ``mix``.
        "sm" (simplified mean): "bmm" with α = ½.
    mix : Tensor, shape (outputs,), optional
        α of "bmm", within [0, 1]; required by it and ignored by the others.
    algorithm : {"auto", "newton", "sort", "enumerate", "iterative"}
        How "km" finds the end points; ignored by the others.

    Returns
    -------
    Tensor, shape (batch, outputs)
        Within the exact type-reduced set, whatever the method: each is a mean with weights from [f̲, f̄].

    Examples
    --------
    >>> import torch
    >>> log_lower, log_upper = torch.tensor([[0.5, 0.25]]).log(), torch.tensor([[1.0, 0.25]]).log()
    >>> round(type_reduce(log_lower, log_upper, torch.tensor([[[0.0], [4.0]]]), "nt").item(), 4)
    1.0
    """
    check_rule_tensors(consequents, log_lower=log_lower, log_upper=log_upper)
    check_option("method", method, tuple(REDUCTIONS))
    if method == "bmm":
        if mix is None:
            raise TypeError("mix must be a torch.Tensor for method='bmm', got None.")
        if check_tensor("mix", mix).shape not in ((), consequents.shape[2:]):
            raise ValueError(f"mix must have shape (outputs,) with outputs={consequents.shape[2]}, got {tuple(mix.shape)}.")
    return REDUCTIONS[method](log_lower, log_upper, consequents, mix, algorithm)


class AlphaPlanes(NamedTuple):
    """Levels (planes,) and the ends of the type-reduced set of each plane, each (batch, planes, outputs)."""

    alphas: Tensor
    y_left: Tensor
    y_right: Tensor


def default_alphas(n_planes: int) -> list[float]:
    """Levels of some planes: the smallest one, and the others evenly up to 1.

    Examples
    --------
    >>> default_alphas(3), default_alphas(1)
    ([0.01, 0.5, 1.0], [0.01])
    """
    return [SMALLEST_ALPHA, *(k / (n_planes - 1) for k in range(1, n_planes))]


def plane_width(alphas: Tensor) -> Tensor:
    """``t = s(α) / s(α₀)``: 0 for the plane α = 1, 1 for the widest one, more for levels below it.

    Examples
    --------
    >>> import torch
    >>> plane_width(torch.tensor([1.0, 0.1, 0.01])).square()
    tensor([0.0000, 0.5000, 1.0000])
    """
    return (alphas.log() / math.log(SMALLEST_ALPHA)).clamp(min=0.0).sqrt()


def plane_log_firing(log_firing: Tensor, rise: Tensor, drop: Tensor, t: Tensor) -> IntervalFiring:
    """Lower and upper log-firing of a plane, ``log f - t drop`` and ``log f + min(t, 1) rise``, each (batch, rules).

    ``log_firing`` (batch, rules) is that of the primary grades. The widest plane is ``rise = -Σ_m b_pm log μ_pm`` (batch,
    rules) above it and ``drop = -Σ_m log(1 - a_pm)`` (rules,) below it; under "htsk" both sums are means. The width ``t``
    of the plane is () or (batch, 1). Planes are nested for any arguments, because rise and drop are taken as positive.
    """
    # DIFF(paper): μ + t b (1 - μ) never falls below t b, so every rule would fire everywhere. A power of μ is a wider
    # Gaussian and vanishes far from the data. Its exponent stays above 0 because t counts up to 1 here.
    upper = log_firing + t.clamp(max=1.0) * rise.clamp(min=0.0)
    # DIFF(paper): (1 - t a) μ turns negative below the smallest plane; (1 - a)^t μ equals it at both ends of [0, 1] and
    # stays positive for every t. In logarithms it is linear in t, so all planes share the products.
    return IntervalFiring(log_firing - t * drop.clamp(min=0.0), upper)


def plane_ends(
    log_firing: Tensor, rise: Tensor, drop: Tensor, consequents: Tensor, alphas: Tensor, algorithm: str = "auto"
) -> AlphaPlanes:
    """Ends of the type-reduced sets of the planes ``alphas`` (planes,), levels within (0, 1] in any order.

    The first arguments are those of :func:`plane_log_firing`; ``consequents`` are (batch, rules, outputs). The left end
    falls and the right end grows as α falls, also after rounding.
    """
    ends = []
    for t in plane_width(alphas):
        lower, upper = plane_log_firing(log_firing, rise, drop, t)
        ends.append(torch.stack(log_end_points(lower, upper, consequents, algorithm), dim=1))
    stacked = torch.stack(ends, dim=2)  # (batch, 2, planes, outputs)
    return AlphaPlanes(alphas, *_nested(stacked, alphas).unbind(dim=1))


def _nested(ends: Tensor, alphas: Tensor) -> Tensor:
    """The ends (batch, 2, planes, outputs) with the planes inside each other to the last bit.

    They are nested in exact arithmetic. Rounding, and firing held above its floor, may move an end by the last digits.
    """
    order = torch.argsort(alphas, descending=True, stable=True)
    left, right = ends[:, :, order].unbind(dim=1)
    ordered = torch.stack([left.cummin(dim=1).values, right.cummax(dim=1).values], dim=1)
    return ordered[:, :, torch.argsort(order)]


def check_alphas(alphas: Any, like: Tensor) -> Tensor:
    """Levels of planes as a tensor (planes,) in the dtype and on the device of ``like``."""
    levels = torch.as_tensor(alphas, dtype=like.dtype, device=like.device)
    if levels.ndim == 0:
        levels = levels.reshape(1)
    if levels.ndim != 1 or len(levels) == 0:
        raise ValueError(f"alphas must be one level or a list of them, got shape {tuple(levels.shape)}.")
    inside = (levels > 0) & (levels <= 1)
    if not bool(inside.all()):
        raise ValueError(f"alphas must be greater than 0 and at most 1, got {levels[~inside][0].item():g}.")
    return levels
