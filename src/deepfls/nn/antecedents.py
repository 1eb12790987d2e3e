"""The IF parts of the rules: modules that hold the sets and give log-firing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from deepfls._checks.tensors import check_assigned_values, check_equal_values
from deepfls._checks.values import check_count, check_option
from deepfls.functional.firing import TNORMS, IntervalFiring, interval_log_firing, log_firing
from deepfls.nn.constraints import PARAMETERIZATIONS, ConstrainedModule, UnitInterval, ordered_pair, positive
from deepfls.nn.initial_values import draw_normal, draw_uniform

UNCERTAINTIES = ("h", "s", "hs")


class _Antecedents(ConstrainedModule):
    """Rules over the same inputs: options and centers, shared by both kinds of sets."""

    def __init__(self, n_features: int, n_rules: int, tnorm: str, parameterization: str, factory: dict[str, Any]) -> None:
        super().__init__()
        self.n_features = check_count("n_features", n_features)
        self.n_rules = check_count("n_rules", n_rules)
        self.tnorm = check_option("tnorm", tnorm, TNORMS)
        self.parameterization = check_option("parameterization", parameterization, PARAMETERIZATIONS)
        self.missing = False
        self.raw_centers = nn.Parameter(torch.empty(n_rules, n_features, **factory))

    @property
    def centers(self) -> Tensor:
        return self.raw_centers

    @centers.setter
    def centers(self, value: Any) -> None:
        _assign(self.raw_centers, check_assigned_values("centers", value, self.raw_centers))

    def extra_repr(self) -> str:
        return f"n_features={self.n_features}, n_rules={self.n_rules}, tnorm={self.tnorm!r}"


def _assign(parameter: Tensor, value: Tensor) -> None:
    with torch.no_grad():
        parameter.copy_(value)


class T1Antecedents(_Antecedents):
    """Type-1 Gaussian sets, one for every rule and feature.

    Parameters
    ----------
    n_features, n_rules : int
    tnorm : {"product", "htsk"}
    parameterization : {"ordered", "paper"}
        "ordered": the free parameter is log σ. "paper": it is σ itself.

    Shape
    -----
    Input (batch, features); output, the log-firing, (batch, rules).
    """

    def __init__(
        self,
        n_features: int,
        n_rules: int,
        *,
        tnorm: str = "product",
        parameterization: str = "ordered",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        factory = {"device": device, "dtype": dtype}
        super().__init__(n_features, n_rules, tnorm, parameterization, factory)
        self.raw_sigmas = nn.Parameter(torch.empty(n_rules, n_features, **factory))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Centers drawn from the standard normal, where scaled data lie; widths 1."""
        draw_normal(self.raw_centers)
        self.sigmas = 1.0

    @property
    def sigmas(self) -> Tensor:
        return positive(self.parameterization).value(self.raw_sigmas)

    @sigmas.setter
    def sigmas(self, value: Any) -> None:
        value = check_assigned_values("sigmas", value, self.raw_sigmas)
        _assign(self.raw_sigmas, positive(self.parameterization).raw(value))

    def forward(self, x: Tensor) -> Tensor:
        return log_firing(x, self.centers, self.sigmas, self.tnorm, missing=self.missing)


class IT2Antecedents(_Antecedents):
    """Interval Type-2 Gaussian sets, one for every rule and feature.

    Parameters
    ----------
    n_features, n_rules : int
    uncertainty : {"h", "s", "hs"}
        What is uncertain: the height of the lower set, its width, or both.
    tnorm : {"product", "htsk"}
    parameterization : {"ordered", "paper"}
        "ordered": σ̄ = e^raw and σ̲ a share of it. "paper": σ' ± |Δ|.

    Shape
    -----
    Input (batch, features); output a named tuple (lower, upper) of log-firing, each (batch, rules).
    """

    raw_spreads: nn.Parameter | None
    raw_heights: nn.Parameter | None

    def __init__(
        self,
        n_features: int,
        n_rules: int,
        *,
        uncertainty: str = "hs",
        tnorm: str = "product",
        parameterization: str = "ordered",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        factory = {"device": device, "dtype": dtype}
        super().__init__(n_features, n_rules, tnorm, parameterization, factory)
        self.uncertainty = check_option("uncertainty", uncertainty, UNCERTAINTIES)
        self.raw_sigmas = nn.Parameter(torch.empty(n_rules, n_features, **factory))
        for name, letter in (("raw_spreads", "s"), ("raw_heights", "h")):
            parameter = nn.Parameter(torch.empty(n_rules, n_features, **factory)) if letter in uncertainty else None
            self.register_parameter(name, parameter)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Centers from the standard normal, upper widths 1, lower widths 0.9, heights from 0.5 to 0.73 as in the paper."""
        draw_normal(self.raw_centers)
        self.set_sigmas(0.9 if "s" in self.uncertainty else 1.0, 1.0)
        if self.raw_heights is not None:
            draw_uniform(self.raw_heights)

    def _sigma_pair(self) -> tuple[Tensor, Tensor]:
        if self.raw_spreads is None:
            # The same object twice tells the firing that one product serves both.
            sigmas = positive(self.parameterization).value(self.raw_sigmas)
            return sigmas, sigmas
        return ordered_pair(self.parameterization).value(self.raw_sigmas, self.raw_spreads)

    @property
    def lower_sigmas(self) -> Tensor:
        return self._sigma_pair()[0]

    @lower_sigmas.setter
    def lower_sigmas(self, value: Any) -> None:
        self.set_sigmas(value, value if self.raw_spreads is None else self.upper_sigmas)

    @property
    def upper_sigmas(self) -> Tensor:
        return self._sigma_pair()[1]

    @upper_sigmas.setter
    def upper_sigmas(self, value: Any) -> None:
        self.set_sigmas(value if self.raw_spreads is None else self.lower_sigmas, value)

    def set_sigmas(self, lower: Any, upper: Any) -> None:
        """Set both widths together: ``lower <= upper``, and equal where only the height is uncertain."""
        lower = check_assigned_values("lower_sigmas", lower, self.raw_sigmas)
        upper = check_assigned_values("upper_sigmas", upper, self.raw_sigmas)
        if self.raw_spreads is None:
            check_equal_values("lower_sigmas / upper_sigmas", lower / upper, 1.0, "where uncertainty='h'")
            _assign(self.raw_sigmas, positive(self.parameterization).raw(upper, "upper_sigmas"))
            return
        raw_sigmas, raw_spreads = ordered_pair(self.parameterization).raw(lower, upper)
        _assign(self.raw_sigmas, raw_sigmas)
        _assign(self.raw_spreads, raw_spreads)

    @property
    def heights(self) -> Tensor:
        if self.raw_heights is None:
            return torch.ones_like(self.raw_centers)
        return UnitInterval().value(self.raw_heights)

    @heights.setter
    def heights(self, value: Any) -> None:
        value = check_assigned_values("heights", value, self.raw_centers)
        if self.raw_heights is None:
            check_equal_values("heights", value, 1.0, "where uncertainty='s'")
            return
        _assign(self.raw_heights, UnitInterval().raw(value))

    @property
    def log_heights(self) -> Tensor:
        """Logarithms of the heights, without the rounding of taking them from the heights."""
        return torch.zeros_like(self.raw_centers) if self.raw_heights is None else UnitInterval().log(self.raw_heights)

    def forward(self, x: Tensor) -> IntervalFiring:
        lower_sigmas, upper_sigmas = self._sigma_pair()
        log_heights = None if self.raw_heights is None else self.log_heights
        return interval_log_firing(
            x, self.centers, lower_sigmas, upper_sigmas, log_heights, self.tnorm, missing=self.missing
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, uncertainty={self.uncertainty!r}"
