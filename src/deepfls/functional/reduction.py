"""From firing and consequents to outputs: the weighted average of Type-1 systems, and the type reductions of IT2 ones."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from deepfls._checks.tensors import check_mix, check_rule_tensors
from deepfls._checks.values import check_option
from deepfls.functional.firing import relative_firing, relative_interval_firing
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
    """
    check_rule_tensors(consequents, log_lower=log_lower, log_upper=log_upper)
    check_option("method", method, tuple(REDUCTIONS))
    if method == "bmm":
        check_mix(mix, consequents.shape[2])
    return REDUCTIONS[method](log_lower, log_upper, consequents, mix, algorithm)
