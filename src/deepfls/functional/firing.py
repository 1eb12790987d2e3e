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
from deepfls.functional.tracing import applied, can_use_kernels, plain_gradients

TNORMS = ("product", "htsk")

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
    x: Tensor, centers: Tensor, log_heights: Tensor | None, *sigmas: Tensor, share: float
) -> tuple[Tensor, ...]:
    """:func:`_exponents` of every stack of widths, the first with log heights."""
    first, *others = (_exponents(x, centers, stack, share) for stack in sigmas)
    return first if log_heights is None else first + log_heights.sum(dim=-1) * share, *others


class _Exponents(torch.autograd.Function):
    """:func:`_stacked_exponents` of one or two stacks on the CPU, in few operations.

    Rows expanded to [z², z, 1] go through one matrix product per stack each way; what surrounds the products are compiled
    kernels.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, centers: Tensor, log_heights: Tensor | None, share: float, *sigmas: Tensor) -> Any:
        from deepfls.functional import _forms_cpu  # here: Numba is slow to import
        from deepfls.functional._compiled import array_of, over_rows

        rows, rules = array_of(x), array_of(centers)
        n_rules, n_features = rules.shape
        origin = np.empty(n_features)
        _forms_cpu.fill_origin(rules, origin)
        expanded = np.empty((len(rows), 2 * n_features + 1), rules.dtype)
        over_rows(_forms_cpu.expand_rows, (rows, expanded), origin)
        no_heights = np.empty((n_rules, 0), rules.dtype)
        heights = no_heights if log_heights is None else array_of(log_heights)
        ctx.save_for_backward(x, centers, log_heights, *sigmas)
        ctx.share, ctx.rules, ctx.origin = share, rules, origin
        ctx.expanded, ctx.stacks, ctx.weights = torch.from_numpy(expanded), [array_of(s) for s in sigmas], []
        outputs = []
        for stack in ctx.stacks:
            weights = np.empty((2 * n_features + 1, n_rules), rules.dtype)
            _forms_cpu.form_weights(rules, stack, heights, share, origin, weights)
            ctx.weights.append(torch.from_numpy(weights))
            outputs.append(torch.mm(ctx.expanded, ctx.weights[-1]))
            heights = no_heights
        if len(outputs) == 2:
            # The two sums round differently, so equal sets could cross by an ulp. Mending it in place and out of sight of
            # autograd is free; as a differentiable minimum it would cost six operations in the backward pass.
            torch.minimum(outputs[0], outputs[1], out=outputs[0])
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from deepfls.functional import _forms_cpu  # here: Numba is slow to import
        from deepfls.functional._compiled import array_of

        x, centers, log_heights, *sigmas = ctx.saved_tensors  # raises where one was changed in place
        if torch.is_grad_enabled():
            inputs = (x, centers, log_heights, *sigmas)
            first, *others = plain_gradients(partial(_stacked_exponents, share=ctx.share), inputs, grads)
            return first, others[0], others[1], None, *others[2:]
        columns = ctx.expanded.t()
        grad_centers = np.zeros_like(ctx.rules)
        grad_sigmas = [np.empty_like(stack) for stack in ctx.stacks]
        with_heights = ctx.needs_input_grad[2]
        grad_heights = np.empty_like(ctx.rules if with_heights else ctx.rules[:, :0])
        to_heights = grad_heights
        for stack, grad, grad_stack in zip(ctx.stacks, grads, grad_sigmas, strict=True):
            to_weights = array_of(torch.mm(columns, grad))
            _forms_cpu.add_form_gradients(
                ctx.rules, stack, ctx.share, ctx.origin, to_weights, grad_centers, grad_stack, to_heights
            )
            to_heights = grad_heights[:0, :0]
        grad_x = _exponents_grad_x(ctx.expanded, ctx.weights, grads) if ctx.needs_input_grad[0] else None
        given_heights = torch.from_numpy(grad_heights) if with_heights else None
        return grad_x, torch.from_numpy(grad_centers), given_heights, None, *map(torch.from_numpy, grad_sigmas)


def _exponents_grad_x(expanded: Tensor, weights: Sequence[Tensor], grads: Sequence[Tensor]) -> Tensor:
    """Gradient of the rows: with w and -2 w d the weights of z² and z, Σ_p grad_p (2 w z - 2 w d)."""
    n_features = expanded.shape[1] // 2
    products = [grad @ weight.t() for grad, weight in zip(grads, weights, strict=True)]
    to_expanded = products[0] if len(products) == 1 else products[0] + products[1]
    z = expanded[:, n_features : 2 * n_features]
    return to_expanded[:, n_features : 2 * n_features].addcmul(to_expanded[:, :n_features], z, value=2.0)


def _stacked(x: Tensor, centers: Tensor, log_heights: Tensor | None, share: float, *sigmas: Tensor) -> tuple[Tensor, ...]:
    """Exponents of one stack of widths, or of the lower and the upper one, by the fastest way there is."""
    if can_use_kernels(x, centers, *sigmas):
        return applied(_Exponents, x, centers, log_heights, share, *sigmas)
    exponents = _stacked_exponents(x, centers, log_heights, *sigmas, share=share)
    if len(exponents) == 2:
        with torch.no_grad():
            exponents[0].copy_(torch.minimum(*exponents))  # see _Exponents
    return exponents


def _share(tnorm: str, centers: Tensor) -> float:
    """Factor of the exponents: their sum over the features, or their mean."""
    return 1.0 if tnorm == "product" else 1.0 / centers.shape[1]


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
    (exponents,) = _stacked(x, centers, None, _share(tnorm, centers), sigmas)
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
    share = _share(tnorm, centers)
    if lower_sigmas is not upper_sigmas:
        return IntervalFiring(*_stacked(x, centers, log_heights, share, lower_sigmas, upper_sigmas))
    (log_upper,) = _stacked(x, centers, None, share, upper_sigmas)
    log_lower = log_upper if log_heights is None else log_upper + log_heights.sum(dim=-1) * share
    return IntervalFiring(log_lower, log_upper)


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
