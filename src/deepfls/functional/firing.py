"""Log-firing of rules with Gaussian sets, by matrix products; outputs of rules; grades of single sets.

The exponent of a rule is a quadratic form in x. With w = 1/σ²,

    log f_p(x) = -½ Σ_m w_pm (x_m - c_pm)²
               = [x², x] @ [-½ w, w c]ᵀ - ½ Σ_m w_pm c_pm²,

so one matrix product over [x², x] gives every rule of every sample and no (batch, rules, features) tensor is built. Working
with logarithms also keeps hundreds of inputs from underflowing: only the differences between rules matter for the output,
and :func:`relative_firing` takes them relative to each sample's largest before the exponential.

An input that is not known has grade 1 in every rule, lower and upper. With ``missing=True`` NaN in x is such an input: it
counts as 0 in [x², x], and its terms of the constant are taken off again by a product with u, 1 where x is NaN.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from deepfls._checks.arguments import check_option
from deepfls._checks.tensors import check_alike, check_tensor
from deepfls.functional.constants import LOG_FLOORS

_FLOORS = {getattr(torch, name): floor for name, floor in LOG_FLOORS.items()}
TNORMS = ("product", "htsk")


class IntervalFiring(NamedTuple):
    """Lower and upper (log-)firing, each (batch, rules)."""

    lower: Tensor
    upper: Tensor


def _check_antecedents(x: Any, centers: Any, **sets: Any) -> None:
    """Check ``x`` (batch, features), ``centers`` (rules, features) and tensors of the shape of ``centers``."""
    check_tensor("x", x)
    check_tensor("centers", centers)
    if x.ndim != 2:
        raise ValueError(f"x must have shape (batch, features), got {tuple(x.shape)}.")
    if centers.ndim != 2 or centers.shape[0] < 1 or centers.shape[1] < 1:
        raise ValueError(f"centers must have shape (rules, features), neither of them 0, got {tuple(centers.shape)}.")
    if x.shape[1] != centers.shape[1]:
        raise ValueError(
            f"x must have shape (batch, features) with features={centers.shape[1]} as in centers, got {tuple(x.shape)}."
        )
    check_alike("centers", centers, "x", x)
    for name, value in sets.items():
        check_tensor(name, value)
        if value.shape != centers.shape:
            raise ValueError(f"{name} must have the shape of centers, {tuple(centers.shape)}, got {tuple(value.shape)}.")
        check_alike(name, value, "x", x)


def _check_consequents(x: Any, intercepts: Any, slopes: Any | None) -> None:
    """Check ``x`` (batch, features), ``intercepts`` (rules, outputs) and ``slopes`` (rules, outputs, features)."""
    check_tensor("x", x)
    check_tensor("intercepts", intercepts)
    if x.ndim != 2:
        raise ValueError(f"x must have shape (batch, features), got {tuple(x.shape)}.")
    if intercepts.ndim != 2:
        raise ValueError(f"intercepts must have shape (rules, outputs), got {tuple(intercepts.shape)}.")
    check_alike("intercepts", intercepts, "x", x)
    if slopes is not None:
        check_tensor("slopes", slopes)
        expected = (*intercepts.shape, x.shape[1])
        if slopes.shape != expected:
            raise ValueError(f"slopes must have shape (rules, outputs, features) = {expected}, got {tuple(slopes.shape)}.")
        check_alike("slopes", slopes, "x", x)


def _exponents(
    x: Tensor, centers: Tensor, sigmas: Tensor, share: float, unknown: Tensor | None, log_heights: Tensor | None = None
) -> Tensor:
    """``Σ_m share (log h_pm - ½ ((x_m - c_pm) / σ_pm)²)`` over the inputs that are known, (batch, rules)."""
    # In exact arithmetic the origin cancels. With inputs far from zero, x - c loses fewer digits if both are measured from
    # the mean of the centers. The origin is a constant for the gradient.
    origin = centers.detach().mean(dim=0)
    z, d = x - origin, centers - origin
    square = sigmas.pow(-2) * (-0.5 * share)
    linear = square * d * -2.0
    constants = square * d * d
    if log_heights is not None:
        constants = constants + log_heights * share
    parts, weights = [z * z, z], [square, linear]
    if unknown is not None:
        z = torch.where(unknown, 0.0, z)
        parts, weights = [z * z, z, unknown.to(z)], [square, linear, -constants]
    return torch.addmm(constants.sum(dim=1), torch.cat(parts, dim=1), torch.cat(weights, dim=1).t())


def share_of(tnorm: str, n_features: int) -> float:
    """Factor of the exponents: their sum over the features, or their mean."""
    return 1.0 if tnorm == "product" else 1.0 / n_features


def log_firing(x: Tensor, centers: Tensor, sigmas: Tensor, tnorm: str = "product", *, missing: bool = False) -> Tensor:
    """Log-firing of Type-1 rules.

    ``log f_p = -½ Σ_m ((x_m - c_pm) / σ_pm)²``, divided by the number of features for ``tnorm="htsk"``.

    Parameters
    ----------
    x : Tensor, shape (batch, features)
    centers, sigmas : Tensor, shape (rules, features)
        ``sigmas`` must be positive; their values are not read.
    tnorm : {"product", "htsk"}
        How the grades of one rule combine: their product (the paper) or their geometric mean, which keeps rules
        apart from each other when there are many features.
    missing : bool
        Whether NaN in x is an input that is not known, of grade 1 in every rule.

    Returns
    -------
    Tensor, shape (batch, rules)
        Not positive, up to rounding.

    Examples
    --------
    >>> import torch
    >>> log_firing(torch.tensor([[1.0, 2.0]]), torch.zeros(1, 2), torch.ones(1, 2)).item()
    -2.5
    """
    _check_antecedents(x, centers, sigmas=sigmas)
    check_option("tnorm", tnorm, TNORMS)
    return _exponents(x, centers, sigmas, share_of(tnorm, centers.shape[1]), x.isnan() if missing else None)


def interval_log_firing(
    x: Tensor,
    centers: Tensor,
    lower_sigmas: Tensor,
    upper_sigmas: Tensor,
    log_heights: Tensor | None = None,
    tnorm: str = "product",
    *,
    missing: bool = False,
) -> IntervalFiring:
    """Lower and upper log-firing of Interval Type-2 rules.

    ``log f̄_p = -½ Σ_m ((x_m - c_pm) / σ̄_pm)²`` and ``log f̲_p = Σ_m log h_pm - ½ Σ_m ((x_m - c_pm) / σ̲_pm)²``; both
    sums become means for ``tnorm="htsk"``.

    Parameters
    ----------
    x : Tensor, shape (batch, features)
    centers : Tensor, shape (rules, features)
    lower_sigmas, upper_sigmas : Tensor, shape (rules, features)
        Pass the same tensor object twice for sets with an uncertain height only: one product then serves both.
    log_heights : Tensor, shape (rules, features), optional
        Logarithms of the heights of the lower sets, not positive; None for heights of 1.
    tnorm : {"product", "htsk"}
    missing : bool
        Whether NaN in x is an input that is not known, of lower and upper grade 1 in every rule.

    Returns
    -------
    IntervalFiring
        Named tuple (lower, upper) of log-firing, each (batch, rules).

    Examples
    --------
    >>> import torch
    >>> narrow, wide = torch.full((1, 1), 0.5), torch.ones(1, 1)
    >>> lower, upper = interval_log_firing(torch.ones(1, 1), torch.zeros(1, 1), narrow, wide)
    >>> lower.item(), upper.item()
    (-2.0, -0.5)
    """
    heights = {} if log_heights is None else {"log_heights": log_heights}
    _check_antecedents(x, centers, lower_sigmas=lower_sigmas, upper_sigmas=upper_sigmas, **heights)
    check_option("tnorm", tnorm, TNORMS)
    # DIFF(paper): "htsk" takes the mean of the log heights too. The product of M heights vanishes as M grows, and the
    # type-reduced set then spans all consequents whatever the widths say.
    share = share_of(tnorm, centers.shape[1])
    unknown = x.isnan() if missing else None
    log_upper = _exponents(x, centers, upper_sigmas, share, unknown)
    same_width = lower_sigmas is upper_sigmas
    if not same_width:
        log_lower = _exponents(x, centers, lower_sigmas, share, unknown, log_heights)
    elif log_heights is None:
        log_lower = log_upper
    else:
        log_lower = log_upper + log_heights.sum(dim=-1) * share
        if unknown is not None:
            log_lower = log_lower - unknown.to(x) @ (log_heights * share).t()
    if not same_width or unknown is not None:
        # The two sums round differently, so equal sets could cross by an ulp.
        log_lower = torch.minimum(log_lower, log_upper)
    return IntervalFiring(log_lower, log_upper)


def _exp_relative(log_values: Tensor, peak: Tensor) -> Tensor:
    return (log_values - peak).clamp(min=_FLOORS[log_values.dtype]).exp()


def relative_firing(log_values: Tensor) -> Tensor:
    """Firing of Type-1 rules relative to the strongest rule of each sample, in (0, 1].

    Parameters
    ----------
    log_values : Tensor, shape (batch, rules)

    Returns
    -------
    Tensor, shape (batch, rules)
        ``exp(log f - max_p log f)``, held above e^-60 (e^-600 in float64).

    Examples
    --------
    >>> import torch
    >>> relative_firing(torch.tensor([[-900.0, -900.0]]))
    tensor([[1., 1.]])
    """
    return _exp_relative(log_values, log_values.detach().amax(dim=1, keepdim=True))


def relative_interval_firing(log_lower: Tensor, log_upper: Tensor) -> IntervalFiring:
    """Lower and upper firing relative to the largest upper firing of each sample, in (0, 1].

    The quotient Σ w y / Σ w does not change when all firing of a sample is scaled, so nothing is lost, and the peak is a
    constant for the gradient.

    Parameters
    ----------
    log_lower, log_upper : Tensor, shape (batch, rules)

    Returns
    -------
    IntervalFiring
        Named tuple (lower, upper), each (batch, rules), held above e^-60 (e^-600 in float64).

    Examples
    --------
    >>> import torch
    >>> firing = relative_interval_firing(torch.tensor([[-901.0]]), torch.tensor([[-900.0]]))
    >>> round(firing.lower.item(), 4), firing.upper.item()
    (0.3679, 1.0)
    """
    peak = log_upper.detach().amax(dim=1, keepdim=True)
    return IntervalFiring(_exp_relative(log_lower, peak), _exp_relative(log_upper, peak))


def rule_outputs(x: Tensor, intercepts: Tensor, slopes: Tensor | None = None, fills: Tensor | None = None) -> Tensor:
    """Consequents ``y_p = a_p · x + a_p0`` for every sample, rule and output.

    Parameters
    ----------
    x : Tensor, shape (batch, features)
    intercepts : Tensor, shape (rules, outputs)
    slopes : Tensor, shape (rules, outputs, features), optional
        None for constant consequents (order 0, "singletons").
    fills : Tensor, shape (rules, features), optional
        What each rule takes in place of an input that is not known, NaN in x. None: NaN gives NaN.

    Returns
    -------
    Tensor, shape (batch, rules, outputs)

    Examples
    --------
    >>> import torch
    >>> rule_outputs(torch.tensor([[2.0]]), torch.tensor([[1.0]]), torch.tensor([[[3.0]]])).item()
    7.0
    """
    _check_consequents(x, intercepts, slopes)
    n_rules, n_outputs = intercepts.shape
    if slopes is None:
        return intercepts.expand(x.shape[0], n_rules, n_outputs)
    weights = slopes.reshape(n_rules * n_outputs, -1)
    if fills is not None:
        unknown = x.isnan()
        x = torch.cat([torch.where(unknown, 0.0, x), unknown.to(x)], dim=1)
        weights = torch.cat([weights, (slopes * fills.unsqueeze(1)).reshape(n_rules * n_outputs, -1)], dim=1)
    products = torch.addmm(intercepts.reshape(-1), x, weights.t())
    return products.view(-1, n_rules, n_outputs)


# Grades, for looking at sets: plots, explanations, tests. Training never computes them: a (batch, rules, features) tensor
# is what makes other implementations slow.


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
    _check_antecedents(x, centers, sigmas=sigmas)
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

    Examples
    --------
    >>> import torch
    >>> one = torch.ones(1, 1)
    >>> grades = interval_gaussian_grades(one, one, one, one, heights=0.5 * one)
    >>> grades.lower.item(), grades.upper.item()
    (0.5, 1.0)
    """
    _check_antecedents(x, centers, lower_sigmas=lower_sigmas, upper_sigmas=upper_sigmas, heights=heights)
    lower = heights * gaussian_grades(x, centers, lower_sigmas)
    return IntervalGrades(lower, gaussian_grades(x, centers, upper_sigmas))
