"""Log-firing of rules with Gaussian sets, by matrix products.

The exponent of a rule is a quadratic form in x. With w = 1/σ²,

    log f_p(x) = -½ Σ_m w_pm (x_m - c_pm)²
               = [x², x] @ [-½ w, w c]ᵀ - ½ Σ_m w_pm c_pm²,

so one matrix product over [x², x] gives every rule of every sample and no (batch, rules, features) tensor is built. Working
with logarithms also keeps hundreds of inputs from underflowing: only the differences between rules matter for the output,
and :func:`relative_firing` takes them relative to each sample's largest before the exponential.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from deepfls._checks import check_antecedents, check_option
from deepfls.functional.tracing import Array, can_use_kernels, staged

TNORMS = ("product", "htsk")

# Where lower sets are as high as upper ones, as an array.
NO_RATIOS: Array = np.empty(0)

# Firing further than this below a sample's largest is held at e^-60 (float32) or e^-600 (float64) of it, so that neither
# the firing nor a gradient divided by it leaves the normal numbers: denormals make elementwise work ten times slower, and
# overflow ends in NaN. docs/maths.md says where it shows. The compiled kernels work in float64 and have the second floor.
_LOG_FLOOR = {torch.float64: -600.0, torch.float32: -60.0, torch.bfloat16: -60.0, torch.float16: -9.0}


class IntervalFiring(NamedTuple):
    """Lower and upper (log-)firing, each (batch, rules)."""

    lower: Tensor
    upper: Tensor


def _exponents(x: Tensor, centers: Tensor, sigmas: Tensor, share: float) -> Tensor:
    """``-½ share Σ_m ((x_m - c_pm) / σ_pm)²``, (batch, rules), in plain tensor operations."""
    # Shifting the origin to the middle of the centers changes nothing in exact arithmetic, and keeps x and c from dwarfing
    # x - c when the inputs sit far from zero. It is a constant for the gradient for the same reason.
    origin = centers.detach().mean(dim=0)
    z, d = x - origin, centers - origin
    square = sigmas.pow(-2) * (-0.5 * share)
    linear = square * d * -2.0
    constant = (square * d * d).sum(dim=1)
    return torch.addmm(constant, torch.cat([z * z, z], dim=1), torch.cat([square, linear], dim=1).t())


def _stacked_exponents(
    x: Tensor, centers: Tensor, log_ratios: Tensor | None, sigmas: Tensor, share: float
) -> tuple[Tensor]:
    """:func:`_exponents` of every stack of widths side by side, the first with log ratios, in plain tensor operations."""
    first, *others = (_exponents(x, centers, stack, share) for stack in sigmas)
    if log_ratios is not None:
        first = first + log_ratios
    return (torch.cat([first, *others], dim=1),)


class Forms:
    """The quadratic forms of rows on the CPU: a :class:`~deepfls.functional.tracing.Stage`.

    Its inputs are rows, the weights of the product, and the origin the weights are made for. Rows expanded to [z², z, 1] go
    through one matrix product each way.
    """

    def __init__(self, workspace: Any) -> None:
        from deepfls.functional import _compiled, _forms_cpu  # here: Numba is slow to import

        self._over_rows, self._expand = _compiled.over_rows, _forms_cpu.expand_rows
        self._product, self._product_over_rows = _compiled.product, _compiled.product_over_rows
        self._take = workspace.take

    def forward(self, x: Array, weights: Array, origin: Array) -> tuple[Array, ...]:
        n_forms, n_columns = weights.shape
        self._weights = weights
        self._expanded = self._take("expanded", (len(x), n_columns), x.dtype)
        self._over_rows(self._expand, (x, self._expanded), origin)
        exponents = self._take("exponents", (len(x), n_forms), x.dtype)
        return (self._product(self._expanded, weights.T, exponents),)

    def backward(self, grads: Sequence[Array], wanted: Sequence[bool]) -> tuple[Array | None, ...]:
        (grad,) = grads
        to_weights = self._take("to_weights", self._weights.shape, grad.dtype)
        self._product_over_rows(grad, self._expanded, to_weights)
        return self._grad_x(grad) if wanted[0] else None, to_weights, None

    def _grad_x(self, grad: Array) -> Array:
        """Gradient of the rows: with w and -2 w d the weights of z² and z, Σ_p grad_p (2 w z - 2 w d)."""
        n_features = self._expanded.shape[1] // 2
        to_expanded = self._product(grad, self._weights, np.empty_like(self._expanded))
        z = self._expanded[:, n_features : 2 * n_features]
        return 2.0 * to_expanded[:, :n_features] * z + to_expanded[:, n_features : 2 * n_features]


class Exponents:
    """:func:`_stacked_exponents` on the CPU: a stage. Compiled kernels make weights of the parameters, and go back."""

    def __init__(self, share: float) -> None:
        from deepfls.functional import _compiled, _forms_cpu  # here: Numba is slow to import

        self._forms, self._kernels, self._share = Forms(_compiled.Workspace()), _forms_cpu, share

    def forward(self, x: Array, centers: Array, log_ratios: Array | None, sigmas: Array) -> tuple[Array, ...]:
        n_stacks, n_rules, n_features = sigmas.shape
        self._origin = np.empty(n_features)
        weights = np.empty((n_stacks * n_rules, 2 * n_features + 1), x.dtype)
        self._centers, self._sigmas = centers, sigmas
        self._ratios = NO_RATIOS if log_ratios is None else log_ratios.astype(np.float64)
        self._kernels.form_weights(centers, sigmas, self._ratios, self._share, self._origin, weights)
        return self._forms.forward(x, weights, self._origin)

    def backward(self, grads: Sequence[Array], wanted: Sequence[bool]) -> tuple[Array | None, ...]:
        grad_x, to_weights, _ = self._forms.backward(grads, wanted)
        assert to_weights is not None
        grad_centers, grad_sigmas = np.empty_like(self._centers), np.empty_like(self._sigmas)
        grad_ratios = np.empty_like(self._ratios)
        self._kernels.form_gradients(
            self._centers, self._sigmas, self._share, self._origin, to_weights, grad_centers, grad_sigmas, grad_ratios
        )
        return grad_x, grad_centers, grad_ratios.astype(to_weights.dtype) if len(grad_ratios) else None, grad_sigmas


def _stacked(x: Tensor, centers: Tensor, log_ratios: Tensor | None, share: float, *sigmas: Tensor) -> tuple[Tensor, ...]:
    """Exponents of one stack of widths, or of the lower and the upper one, by the fastest way there is."""
    formula = partial(_stacked_exponents, share=share)
    inputs = x, centers, log_ratios, torch.stack(sigmas)
    given = [t for t in inputs if t is not None]
    (exponents,) = staged(Exponents(share), formula, *inputs) if can_use_kernels(*given) else formula(*inputs)
    if len(sigmas) == 1:
        return (exponents,)
    n_rules = len(centers)
    parts = exponents[:, :n_rules], exponents[:, n_rules:]
    with torch.no_grad():
        # The two sums round differently, so equal sets could cross by an ulp. Mending it in place and out of sight of
        # autograd is free; as a differentiable minimum it would cost six operations in the backward pass.
        parts[0].copy_(torch.minimum(*parts))
    return parts


def share_of(tnorm: str, n_features: int) -> float:
    """Factor of the exponents: their sum over the features, or their mean."""
    return 1.0 if tnorm == "product" else 1.0 / n_features


def log_firing(x: Tensor, centers: Tensor, sigmas: Tensor, tnorm: str = "product") -> Tensor:
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
    check_antecedents(x, centers, sigmas=sigmas)
    check_option("tnorm", tnorm, TNORMS)
    (exponents,) = _stacked(x, centers, None, share_of(tnorm, centers.shape[1]), sigmas)
    return exponents


def interval_log_firing(
    x: Tensor,
    centers: Tensor,
    lower_sigmas: Tensor,
    upper_sigmas: Tensor,
    log_heights: Tensor | None = None,
    tnorm: str = "product",
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

    Returns
    -------
    IntervalFiring
        Named tuple (lower, upper) of log-firing, each (batch, rules).
    """
    heights = {} if log_heights is None else {"log_heights": log_heights}
    check_antecedents(x, centers, lower_sigmas=lower_sigmas, upper_sigmas=upper_sigmas, **heights)
    check_option("tnorm", tnorm, TNORMS)
    # DIFF(paper): "htsk" takes the mean of the log heights too. The product of M heights vanishes as M grows, and the
    # type-reduced set then spans all consequents whatever the widths say.
    share = share_of(tnorm, centers.shape[1])
    log_ratios = None if log_heights is None else log_heights.sum(dim=-1) * share
    if lower_sigmas is not upper_sigmas:
        return IntervalFiring(*_stacked(x, centers, log_ratios, share, lower_sigmas, upper_sigmas))
    (log_upper,) = _stacked(x, centers, None, share, upper_sigmas)
    return IntervalFiring(log_upper if log_ratios is None else log_upper + log_ratios, log_upper)


def _exp_relative(log_values: Tensor, peak: Tensor) -> Tensor:
    return (log_values - peak).clamp(min=_LOG_FLOOR[log_values.dtype]).exp()


def relative_firing(log_values: Tensor) -> Tensor:
    """Firing of Type-1 rules relative to the strongest rule of each sample, in (0, 1].

    Parameters
    ----------
    log_values : Tensor, shape (batch, rules)

    Returns
    -------
    Tensor, shape (batch, rules)
        ``exp(log f - max_p log f)``, held above e^-60 (e^-600 in float64).
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
    """
    peak = log_upper.detach().amax(dim=1, keepdim=True)
    return IntervalFiring(_exp_relative(log_lower, peak), _exp_relative(log_upper, peak))
