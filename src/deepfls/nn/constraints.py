"""Maps between free ("raw") parameters and the constrained values that enter the formulas.

Every map is onto its range for *any* raw value, so no optimiser step can break a constraint: positivity, order and range
hold by construction rather than by penalty or projection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from deepfls._checks import check_order_values, check_range_values
from deepfls.functional.tracing import Array, can_use_kernels, staged

# Widths a set may take. Wider than any scaled data needs, and 1/σ² stays far from overflow in float32.
MIN_SIGMA, MAX_SIGMA = math.exp(-18.0), math.exp(18.0)
_LOG_SIGMAS = (math.log(MIN_SIGMA), math.log(MAX_SIGMA))
# The lower width is at least this share of the upper one.
MIN_RATIO = 2.0**-10
# sigmoid(-80) is the last power of e that float32 holds as a normal number with room to spare.
_MIN_LOGIT = -80.0


class ConstrainedModule(nn.Module):
    """A module whose properties read and write values while its parameters are raw."""

    def __setattr__(self, name: str, value: Any) -> None:
        # torch registers any Parameter it is handed, so ``a.centers = b.centers`` would never reach the property.
        if isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)


# The maps in plain operations. A compiled kernel of the same name is the same map on the CPU, and another one, with
# "_gradient" after its name, goes back.


def bounded_exp(raw: Tensor) -> Tensor:
    return raw.clamp(*_LOG_SIGMAS).exp()


def bounded_log_sigmoid(raw: Tensor) -> Tensor:
    return logsigmoid(raw.clamp(min=_MIN_LOGIT))


def ordered_pair_of(raw_sigmas: Tensor, raw_spreads: Tensor) -> tuple[Tensor, Tensor]:
    upper = bounded_exp(raw_sigmas)
    # Both constants are exact in binary, so the ratio never rounds above 1.
    return upper * (torch.sigmoid(raw_spreads) * (1.0 - MIN_RATIO) + MIN_RATIO), upper


def paper_positive_of(raw: Tensor) -> Tensor:
    # DIFF(paper): |σ'| held above e^-18. The formulas only see σ², and at σ' = 0 the paper divides by zero.
    return raw.abs().clamp(MIN_SIGMA, MAX_SIGMA)


def paper_pair_of(raw_sigmas: Tensor, raw_spreads: Tensor) -> tuple[Tensor, Tensor]:
    center, spread = raw_sigmas.abs().clamp(max=MAX_SIGMA), raw_spreads.abs().clamp(max=MAX_SIGMA)
    upper = (center + spread).clamp(MIN_SIGMA, MAX_SIGMA)
    # DIFF(paper): held at a small share of the upper width. In the paper the lower width passes zero when |Δ| grows
    # past σ': the lower set then divides by zero, or turns wider than the upper one, and training ends in NaN.
    lower = torch.maximum(center - spread, upper * MIN_RATIO)
    return torch.minimum(lower, upper), upper


_CONSTANTS: dict[Callable[..., Any], tuple[float, ...]] = {
    bounded_exp: _LOG_SIGMAS,
    bounded_log_sigmoid: (_MIN_LOGIT,),
    ordered_pair_of: (*_LOG_SIGMAS, MIN_RATIO),
    paper_positive_of: (MIN_SIGMA, MAX_SIGMA),
    paper_pair_of: (MIN_SIGMA, MAX_SIGMA, MIN_RATIO),
}


def _mapped(formula: Callable[..., Any], *raws: Tensor) -> tuple[Tensor, ...]:
    """The values of a map, by the fastest way there is."""
    if can_use_kernels(*raws):
        return staged(Mapped(formula), partial(_stacked, formula), *raws)[0].unbind()
    values = formula(*raws)
    return (values,) if isinstance(values, Tensor) else values


def _stacked(formula: Callable[..., Any], *raws: Tensor) -> tuple[Tensor]:
    """The values in one tensor, as :class:`Mapped` gives them."""
    values = formula(*raws)
    return (values.unsqueeze(0) if isinstance(values, Tensor) else torch.stack(values),)


class Mapped:
    """A map on the CPU, one compiled kernel each way where a chain of operations would cost twenty calls: a stage.

    Its output is all values in one array, (values, *shape of the raw ones). A kernel takes flat raw values, the constants
    of the map, and flat values to fill; the one that goes back takes the gradients of the values in place of those, and the
    gradients of the raw values to fill.
    """

    def __init__(self, formula: Callable[..., Any]) -> None:
        from deepfls.nn import _constraints_cpu  # here: Numba is slow to import

        name = formula.__name__
        self._constants = _CONSTANTS[formula]
        self._forward, self._backward = getattr(_constraints_cpu, name), getattr(_constraints_cpu, f"{name}_gradient")

    def forward(self, *raws: Array) -> tuple[Array, ...]:
        self._raws = [raw.reshape(-1) for raw in raws]
        values = np.empty((len(raws), *raws[0].shape), raws[0].dtype)
        self._forward(*self._raws, *self._constants, *values.reshape(len(raws), -1))
        return (values,)

    def backward(self, grads: Sequence[Array], wanted: Sequence[bool]) -> tuple[Array | None, ...]:
        (grad,) = grads
        found = np.empty_like(grad)
        pairs = grad.reshape(len(grad), -1), found.reshape(len(grad), -1)
        self._backward(*self._raws, *self._constants, *pairs[0], *pairs[1])
        return tuple(found)


class SigmaPair(NamedTuple):
    """Lower and upper widths, each (rules, features), ``0 < lower <= upper``."""

    lower: Tensor
    upper: Tensor


class Positive:
    """σ = e^raw, with raw held within [-18, 18]: a free parameter acts on the logarithm of a width."""

    def value(self, raw: Tensor) -> Tensor:
        return _mapped(bounded_exp, raw)[0]

    def raw(self, value: Tensor, name: str = "sigmas") -> Tensor:
        check_range_values(name, value, MIN_SIGMA, MAX_SIGMA)
        return value.log()


class PaperPositive:
    """σ = σ', the free parameter itself, as in the paper."""

    def value(self, raw: Tensor) -> Tensor:
        return _mapped(paper_positive_of, raw)[0]

    def raw(self, value: Tensor, name: str = "sigmas") -> Tensor:
        check_range_values(name, value, MIN_SIGMA, MAX_SIGMA)
        return value.clone()


class UnitInterval:
    """h = sigmoid(raw) in (0, 1], with its logarithm computed directly, since only that enters the firing."""

    def value(self, raw: Tensor) -> Tensor:
        return torch.sigmoid(raw.clamp(min=_MIN_LOGIT))

    def log(self, raw: Tensor) -> Tensor:
        return _mapped(bounded_log_sigmoid, raw)[0]

    def raw(self, value: Tensor, name: str = "heights") -> Tensor:
        check_range_values(name, value, math.exp(_MIN_LOGIT), 1.0)
        return _logit(value)


def _logit(value: Tensor) -> Tensor:
    """Inverse of the sigmoid on (0, 1]; 1 maps to the first raw value whose sigmoid rounds to it."""
    largest = 1.0 - torch.log(torch.tensor(torch.finfo(value.dtype).eps)).item()
    return (value.log() - torch.log1p(-value)).clamp(max=largest)


class OrderedConstraint(Protocol):
    """A pair of widths, lower <= upper, from two free parameters."""

    def value(self, raw_sigmas: Tensor, raw_spreads: Tensor) -> SigmaPair: ...

    def raw(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]: ...


class OrderedPair:
    """σ̄ = e^raw and σ̲ = r σ̄ with r in [2^-10, 1]: order holds because a share of a positive number is not above it."""

    # DIFF(paper): σ' ± |Δ| lets the lower width cross zero; a share of the upper width cannot.

    def value(self, raw_sigmas: Tensor, raw_spreads: Tensor) -> SigmaPair:
        return SigmaPair(*_mapped(ordered_pair_of, raw_sigmas, raw_spreads))

    def raw(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        _check_pair(lower, upper)
        share = ((lower / upper - MIN_RATIO) / (1.0 - MIN_RATIO)).clamp(math.exp(_MIN_LOGIT), 1.0)
        return Positive().raw(upper, "upper_sigmas"), _logit(share)


class PaperPair:
    """σ̲ = σ' - |Δ| and σ̄ = σ' + |Δ|, as in the paper."""

    def value(self, raw_sigmas: Tensor, raw_spreads: Tensor) -> SigmaPair:
        return SigmaPair(*_mapped(paper_pair_of, raw_sigmas, raw_spreads))

    def raw(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        _check_pair(lower, upper)
        return 0.5 * (upper + lower), 0.5 * (upper - lower)


def _check_pair(lower: Tensor, upper: Tensor) -> None:
    check_range_values("upper_sigmas", upper, MIN_SIGMA, MAX_SIGMA)
    check_order_values("lower_sigmas", lower, "upper_sigmas", upper)
    check_range_values("lower_sigmas / upper_sigmas", lower / upper, MIN_RATIO, 1.0)


PARAMETERIZATIONS = ("ordered", "paper")


def positive(parameterization: str) -> Positive | PaperPositive:
    return PaperPositive() if parameterization == "paper" else Positive()


def ordered_pair(parameterization: str) -> OrderedConstraint:
    return PaperPair() if parameterization == "paper" else OrderedPair()


def limits_of(parameterization: str) -> tuple[float, float, float, float]:
    """Bounds of raw widths, the least share of an upper width, and the least raw height, as the kernels take them."""
    least, most, least_ratio = _CONSTANTS[paper_pair_of if parameterization == "paper" else ordered_pair_of]
    (least_logit,) = _CONSTANTS[bounded_log_sigmoid]
    return least, most, least_ratio, least_logit
