"""Membership grades of Gaussian sets, one value for every sample, rule and feature.

For looking at sets: plots, explanations, tests. Training never calls this file, because a
(batch, rules, features) tensor is what makes other implementations slow; see :mod:`deepfls.functional.firing`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from deepfls._checks.tensors import check_antecedents


class IntervalGrades(NamedTuple):
    """Lower and upper membership grades, each (batch, rules, features)."""

    lower: Tensor
    upper: Tensor


def gaussian_grades(x: Tensor, centers: Tensor, sigmas: Tensor) -> Tensor:
    """Grades of Type-1 Gaussian sets: ``exp(-(x - c)² / (2 σ²))``.

    Parameters
    ----------
    x : Tensor, shape (batch, features)
    centers, sigmas : Tensor, shape (rules, features)

    Returns
    -------
    Tensor, shape (batch, rules, features)

    Examples
    --------
    >>> import torch
    >>> gaussian_grades(torch.zeros(1, 1), torch.zeros(1, 1), torch.ones(1, 1)).item()
    1.0
    """
    check_antecedents(x, centers, sigmas=sigmas)
    return torch.exp(-0.5 * ((x.unsqueeze(1) - centers) / sigmas).square())


def interval_gaussian_grades(
    x: Tensor, centers: Tensor, lower_sigmas: Tensor, upper_sigmas: Tensor, heights: Tensor
) -> IntervalGrades:
    """Lower and upper grades of Interval Type-2 Gaussian sets.

    ``lower = h exp(-(x - c)² / (2 σ̲²))`` and ``upper = exp(-(x - c)² / (2 σ̄²))``; ``lower <= upper`` wherever
    ``σ̲ <= σ̄`` and ``0 <= h <= 1``.

    Parameters
    ----------
    x : Tensor, shape (batch, features)
    centers, lower_sigmas, upper_sigmas, heights : Tensor, shape (rules, features)

    Returns
    -------
    IntervalGrades
        Named tuple (lower, upper), each (batch, rules, features).
    """
    check_antecedents(x, centers, lower_sigmas=lower_sigmas, upper_sigmas=upper_sigmas, heights=heights)
    lower = heights * gaussian_grades(x, centers, lower_sigmas)
    return IntervalGrades(lower, gaussian_grades(x, centers, upper_sigmas))
