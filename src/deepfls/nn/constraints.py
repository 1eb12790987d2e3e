"""Maps between free ("raw") parameters and the constrained values that enter the formulas, and values of new parameters.

Every map is onto its range for *any* raw value, so no optimiser step can break a constraint: positivity, order and range
hold by construction rather than by penalty or projection.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from deepfls._checks.tensors import check_order_values, check_range_values
from deepfls.functional.constants import MAX_LOG_SIGMA, MAX_SIGMA, MIN_LOG_SIGMA, MIN_LOGIT, MIN_RATIO, MIN_SIGMA


class ConstrainedModule(nn.Module):
    """A module whose properties read and write values while its parameters are raw."""

    def __setattr__(self, name: str, value: Any) -> None:
        # torch registers every Parameter that is assigned, so ``a.centers = b.centers`` would not call the property.
        if isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)


def folded(raw: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Values within [low, high] for any raw value: the raw value itself inside, and its reflection at the ends beyond.

    The slope is 1 or -1 everywhere, so a value at an end is reached, and no raw value loses its gradient.
    """
    span = high - low
    away = torch.remainder(raw - low, torch.where(span > 0.0, 2.0 * span, 1.0))
    reflected = low + torch.minimum(away, 2.0 * span - away)
    # Rounding may leave the reflection an ulp outside.
    reflected = torch.maximum(torch.minimum(reflected, high), low)
    return torch.where((raw >= low) & (raw <= high), raw, reflected)


class SigmaPair(NamedTuple):
    """Lower and upper widths, each (rules, features), ``0 < lower <= upper``."""

    lower: Tensor
    upper: Tensor


class Positive:
    """σ = e^raw, with raw held within [-18, 18]: a free parameter acts on the logarithm of a width."""

    def value(self, raw: Tensor) -> Tensor:
        return raw.clamp(MIN_LOG_SIGMA, MAX_LOG_SIGMA).exp()

    def raw(self, value: Tensor, name: str = "sigmas") -> Tensor:
        check_range_values(name, value, MIN_SIGMA, MAX_SIGMA)
        return value.log()


class PaperPositive:
    """σ = σ', the free parameter itself, as in the paper."""

    def value(self, raw: Tensor) -> Tensor:
        # DIFF(paper): |σ'| held above e^-18. The formulas only see σ², and at σ' = 0 the paper divides by zero.
        return raw.abs().clamp(MIN_SIGMA, MAX_SIGMA)

    def raw(self, value: Tensor, name: str = "sigmas") -> Tensor:
        check_range_values(name, value, MIN_SIGMA, MAX_SIGMA)
        return value.clone()


class UnitInterval:
    """h = sigmoid(raw) in (0, 1], with its logarithm computed directly, since only that enters the firing."""

    def value(self, raw: Tensor) -> Tensor:
        return torch.sigmoid(raw.clamp(min=MIN_LOGIT))

    def log(self, raw: Tensor) -> Tensor:
        # Not logsigmoid, which starts threads for any number of values. Beyond the threshold e^-x is below rounding.
        return -softplus(-raw.clamp(min=MIN_LOGIT), threshold=100.0)

    def raw(self, value: Tensor, name: str = "heights") -> Tensor:
        check_range_values(name, value, math.exp(MIN_LOGIT), 1.0)
        return _logit(value)


def _logit(value: Tensor) -> Tensor:
    """Inverse of the sigmoid on (0, 1]; 1 maps to the first raw value whose sigmoid rounds to it."""
    eps = torch.tensor(torch.finfo(value.dtype).eps, dtype=torch.float32, device="cpu")
    largest = 1.0 - eps.log().item()
    return (value.log() - torch.log1p(-value)).clamp(max=largest)


class OrderedPair:
    """σ̄ = e^raw and σ̲ = r σ̄ with r in [2^-10, 1]: order holds because a share of a positive number is not above it."""

    # DIFF(paper): σ' ± |Δ| lets the lower width cross zero; a share of the upper width cannot.

    def value(self, raw_sigmas: Tensor, raw_spreads: Tensor) -> SigmaPair:
        upper = Positive().value(raw_sigmas)
        return SigmaPair(upper * (torch.sigmoid(raw_spreads) * (1.0 - MIN_RATIO) + MIN_RATIO), upper)

    def raw(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        _check_pair(lower, upper)
        share = ((lower / upper - MIN_RATIO) / (1.0 - MIN_RATIO)).clamp(math.exp(MIN_LOGIT), 1.0)
        return Positive().raw(upper, "upper_sigmas"), _logit(share)


class PaperPair:
    """σ̲ = σ' - |Δ| and σ̄ = σ' + |Δ|, as in the paper."""

    def value(self, raw_sigmas: Tensor, raw_spreads: Tensor) -> SigmaPair:
        center, spread = raw_sigmas.abs().clamp(max=MAX_SIGMA), raw_spreads.abs().clamp(max=MAX_SIGMA)
        upper = (center + spread).clamp(MIN_SIGMA, MAX_SIGMA)
        # DIFF(paper): held at a small share of the upper width. In the paper the lower width passes zero when |Δ| grows
        # past σ': the lower set then divides by zero, or turns wider than the upper one, and training ends in NaN.
        lower = torch.maximum(center - spread, upper * MIN_RATIO)
        return SigmaPair(torch.minimum(lower, upper), upper)

    def raw(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        _check_pair(lower, upper)
        return 0.5 * (upper + lower), 0.5 * (upper - lower)


def _check_pair(lower: Tensor, upper: Tensor) -> None:
    check_range_values("upper_sigmas", upper, MIN_SIGMA, MAX_SIGMA)
    check_order_values("lower_sigmas", lower, "upper_sigmas", upper)
    check_range_values("lower_sigmas / upper_sigmas", lower / upper, MIN_RATIO, 1.0)


# The maps of a width, and of lower and upper width, by the parameterization.
WIDTHS: dict[str, Positive | PaperPositive] = {"ordered": Positive(), "paper": PaperPositive()}
WIDTH_PAIRS: dict[str, OrderedPair | PaperPair] = {"ordered": OrderedPair(), "paper": PaperPair()}


_SEPARATE: ContextVar[bool] = ContextVar("_SEPARATE", default=False)


@contextlib.contextmanager
def separate_generator() -> Iterator[None]:
    """A context in which new modules do not draw from torch's generator, for values that are replaced later.

    Unlike ``torch.random.fork_rng`` it may overlap with the work of other threads, because it restores nothing.
    """
    token = _SEPARATE.set(True)
    try:
        yield
    finally:
        _SEPARATE.reset(token)


def draw_normal(values: Tensor) -> None:
    """Fill a tensor from the standard normal distribution."""
    nn.init.normal_(values, generator=_generator(values))


def draw_uniform(values: Tensor, largest: float = 1.0) -> None:
    """Fill a tensor with uniform values from 0 to ``largest``."""
    nn.init.uniform_(values, 0.0, largest, generator=_generator(values))


def _generator(values: Tensor) -> torch.Generator | None:
    return torch.Generator(values.device) if _SEPARATE.get() else None
