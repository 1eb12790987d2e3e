"""The IF and THEN parts of the rules: modules that hold sets and give log-firing, and that hold slopes and intercepts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from deepfls._checks.arguments import check_count, check_option
from deepfls._checks.tensors import check_assigned_values, check_equal_values, check_order_values, check_range_values
from deepfls.functional.constants import MAX_SIGMA, MIN_SIGMA
from deepfls.functional.firing import TNORMS, IntervalFiring, interval_log_firing, log_firing, rule_outputs
from deepfls.nn.constraints import WIDTH_PAIRS, WIDTHS, ConstrainedModule, UnitInterval, draw_normal, draw_uniform, folded

UNCERTAINTIES = ("h", "s", "hs")


class _Antecedents(ConstrainedModule):
    """Rules over the same inputs: options and centers, shared by both kinds of sets.

    Free parameters are tables (sets, features). Usually every rule has its own sets, and ``n_sets`` equals ``n_rules``;
    with :meth:`share_terms` rules choose among common sets. Values that are read, such as ``centers``, are those of the
    rules, (rules, features); values that are assigned are those of the sets, (sets, features).
    """

    bounds: Tensor | None  # (4, sets, features): least and largest center, least and largest raw width; None: no bounds
    terms: Tensor | None  # (rules, features): the set of every rule, -1 for none; None: every rule has its own

    def __init__(self, n_features: int, n_rules: int, tnorm: str, parameterization: str, factory: dict[str, Any]) -> None:
        super().__init__()
        self.n_features = check_count("n_features", n_features)
        self.n_rules = check_count("n_rules", n_rules)
        self.tnorm = check_option("tnorm", tnorm, TNORMS)
        self.parameterization = check_option("parameterization", parameterization, tuple(WIDTHS))
        self.missing = False
        self.raw_centers = nn.Parameter(torch.empty(n_rules, n_features, **factory))
        self.raw_sigmas = nn.Parameter(torch.empty(n_rules, n_features, **factory))
        self.register_buffer("bounds", None)
        self.register_buffer("terms", None)

    def reset_parameters(self) -> None:
        raise NotImplementedError

    @property
    def n_sets(self) -> int:
        """Sets of every feature: one for each rule, or the common ones."""
        return self.raw_centers.shape[0]

    @property
    def centers(self) -> Tensor:
        return self._of_rules(self._bounded(self.raw_centers, 0), 0.0)

    @centers.setter
    def centers(self, value: Any) -> None:
        value = check_assigned_values("centers", value, self.raw_centers)
        self._check_bounds("centers", value, value, 0)
        _assign(self.raw_centers, value)

    def set_range(self, low: Any, high: Any, smallest: Any = MIN_SIGMA, largest: Any = MAX_SIGMA) -> None:
        """Hold the sets within a range of every feature, whatever the raw values are.

        Centers stay within [low, high] and widths, those of the upper sets, within [smallest, largest]. Each bound is a
        number or (features,) or (sets, features). Present values outside are moved to the nearest bound. The lower width of
        an interval set stays a share of the upper one.
        """
        names = ("low", "high", "smallest", "largest")
        values = [
            check_assigned_values(n, v, self.raw_centers)
            for n, v in zip(names, (low, high, smallest, largest), strict=True)
        ]
        check_order_values("low", values[0], "high", values[1])
        check_order_values("smallest", values[2], "largest", values[3])
        raws = [WIDTHS[self.parameterization].raw(v, n) for n, v in zip(names[2:], values[2:], strict=True)]
        self.bounds = torch.stack([*values[:2], *raws])
        _assign(self.raw_centers, torch.clamp(self.raw_centers.detach(), *self.bounds[:2]))
        _assign(self.raw_sigmas, torch.clamp(self.raw_sigmas.detach(), *self.bounds[2:]))

    def share_terms(self, terms: Any, n_sets: int) -> None:
        """Let the rules choose among ``n_sets`` common sets of every feature.

        Parameters
        ----------
        terms : array of int, shape (rules, features)
            The set of every rule, from 0; -1 where a rule has no condition on a feature, whose grade is then 1.
        n_sets : int
            If it changes the shape of the tables, they get new starting values, and bounds are forgotten.
        """
        count = check_count("n_sets", n_sets)
        chosen = torch.as_tensor(terms, dtype=torch.int64, device=self.raw_centers.device)
        if chosen.shape != (self.n_rules, self.n_features):
            raise ValueError(f"terms must have shape {(self.n_rules, self.n_features)}, got {tuple(chosen.shape)}.")
        check_range_values("terms", chosen, -1, count - 1)
        self.terms = chosen.clone()
        if count != self.n_sets:
            for name, parameter in self._parameters.items():
                if parameter is not None:
                    self._parameters[name] = nn.Parameter(parameter.detach().new_empty(count, self.n_features))
            self.bounds = None
            self.reset_parameters()

    def _bounded(self, raw: Tensor, first: int) -> Tensor:
        """Raw values within the bounds from the place ``first`` on."""
        return raw if self.bounds is None else folded(raw, self.bounds[first], self.bounds[first + 1])

    @property
    def width_limits(self) -> Tensor | None:
        """Least and largest width of every set, (2, sets, features); None without bounds."""
        return None if self.bounds is None else WIDTHS[self.parameterization].value(self.bounds[2:])

    def within_bounds(self) -> bool:
        """Whether the raw values are within the bounds, so that they are the values."""
        if self.bounds is None:
            return True
        raw = torch.stack([self.raw_centers.detach(), self.raw_sigmas.detach()])
        return bool(((raw >= self.bounds[::2]) & (raw <= self.bounds[1::2])).all())

    def _of_rules(self, values: Tensor, absent: float) -> Tensor:
        """Values of the sets for every rule, (rules, features); ``absent`` where a rule has no condition."""
        if self.terms is None:
            return values
        return torch.where(self.terms < 0, absent, values.gather(0, self.terms.clamp(min=0)))

    def _check_bounds(self, name: str, value: Tensor, raw: Tensor, first: int) -> None:
        """Refuse a value whose raw value is outside the bounds from the place ``first`` on."""
        if self.bounds is not None:
            outside = (raw < self.bounds[first]) | (raw > self.bounds[first + 1])
            if outside.any():
                at = tuple(outside.nonzero()[0].tolist())
                raise ValueError(
                    f"{name} must be within the range that set_range was given, got {value[at].item():g} at index {at}."
                )

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
        super().__init__(n_features, n_rules, tnorm, parameterization, {"device": device, "dtype": dtype})
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Centers drawn from the standard normal, where scaled data lie; widths 1."""
        draw_normal(self.raw_centers)
        self.sigmas = 1.0

    @property
    def sigmas(self) -> Tensor:
        values = WIDTHS[self.parameterization].value(self._bounded(self.raw_sigmas, 2))
        return self._of_rules(values, MAX_SIGMA)

    @sigmas.setter
    def sigmas(self, value: Any) -> None:
        value = check_assigned_values("sigmas", value, self.raw_sigmas)
        raw = WIDTHS[self.parameterization].raw(value)
        self._check_bounds("sigmas", value, raw, 2)
        _assign(self.raw_sigmas, raw)

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
        super().__init__(n_features, n_rules, tnorm, parameterization, {"device": device, "dtype": dtype})
        self.uncertainty = check_option("uncertainty", uncertainty, UNCERTAINTIES)
        for name, letter in (("raw_spreads", "s"), ("raw_heights", "h")):
            own = nn.Parameter(torch.empty_like(self.raw_sigmas)) if letter in uncertainty else None
            self.register_parameter(name, own)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Centers from the standard normal, upper widths 1, lower widths 0.9, heights from 0.5 to 0.73 as in the paper."""
        draw_normal(self.raw_centers)
        self.set_sigmas(0.9 if "s" in self.uncertainty else 1.0, 1.0)
        if self.raw_heights is not None:
            draw_uniform(self.raw_heights)

    def _sigma_pair(self) -> tuple[Tensor, Tensor]:
        raw = self._bounded(self.raw_sigmas, 2)
        if self.raw_spreads is None:
            # The same object twice: the firing then computes one product for both.
            sigmas = self._of_rules(WIDTHS[self.parameterization].value(raw), MAX_SIGMA)
            return sigmas, sigmas
        lower, upper = WIDTH_PAIRS[self.parameterization].value(raw, self.raw_spreads)
        return self._of_rules(lower, MAX_SIGMA), self._of_rules(upper, MAX_SIGMA)

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
            raw_sigmas = WIDTHS[self.parameterization].raw(upper, "upper_sigmas")
        else:
            raw_sigmas, raw_spreads = WIDTH_PAIRS[self.parameterization].raw(lower, upper)
        self._check_bounds("upper_sigmas", upper, raw_sigmas, 2)
        _assign(self.raw_sigmas, raw_sigmas)
        if self.raw_spreads is not None:
            _assign(self.raw_spreads, raw_spreads)

    @property
    def heights(self) -> Tensor:
        values = torch.ones_like(self.raw_centers) if self.raw_heights is None else UnitInterval().value(self.raw_heights)
        return self._of_rules(values, 1.0)

    @heights.setter
    def heights(self, value: Any) -> None:
        value = check_assigned_values("heights", value, self.raw_centers)
        if self.raw_heights is None:
            check_equal_values("heights", value, 1.0, "where uncertainty='s'")
        else:
            _assign(self.raw_heights, UnitInterval().raw(value))

    @property
    def log_heights(self) -> Tensor:
        """Logarithms of the heights, without the rounding of taking them from the heights."""
        values = torch.zeros_like(self.raw_centers) if self.raw_heights is None else UnitInterval().log(self.raw_heights)
        return self._of_rules(values, 0.0)

    def forward(self, x: Tensor) -> IntervalFiring:
        log_heights = None if self.raw_heights is None else self.log_heights
        return interval_log_firing(x, self.centers, *self._sigma_pair(), log_heights, self.tnorm, missing=self.missing)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, uncertainty={self.uncertainty!r}"


class TSKConsequents(ConstrainedModule):
    """Linear (order 1) or constant (order 0) rule outputs.

    Parameters
    ----------
    n_features, n_outputs, n_rules : int
    order : {0, 1}

    Shape
    -----
    Input (batch, features) and, where NaN in it is an input that is not known, what the rules take in its place, (rules,
    features); output (batch, rules, outputs).
    """

    raw_slopes: nn.Parameter | None

    def __init__(
        self, n_features: int, n_outputs: int, n_rules: int, *, order: int = 1, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.n_features = check_count("n_features", n_features)
        self.n_outputs = check_count("n_outputs", n_outputs)
        self.n_rules = check_count("n_rules", n_rules)
        self.order = check_count("order", order, minimum=0, maximum=1)
        self.raw_intercepts = nn.Parameter(torch.empty(n_rules, n_outputs, **factory))
        slopes = nn.Parameter(torch.empty(n_rules, n_outputs, n_features, **factory)) if order == 1 else None
        self.register_parameter("raw_slopes", slopes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Small positive values, U(0, 0.01), as in the paper."""
        draw_uniform(self.raw_intercepts, 0.01)
        if self.raw_slopes is not None:
            draw_uniform(self.raw_slopes, 0.01)

    @property
    def intercepts(self) -> Tensor:
        return self.raw_intercepts

    @intercepts.setter
    def intercepts(self, value: Any) -> None:
        _assign(self.raw_intercepts, check_assigned_values("intercepts", value, self.raw_intercepts))

    @property
    def slopes(self) -> Tensor:
        """Slopes (rules, outputs, features); zeros where the consequents are constant."""
        if self.raw_slopes is None:
            return self.raw_intercepts.new_zeros(self.n_rules, self.n_outputs, self.n_features)
        return self.raw_slopes

    @slopes.setter
    def slopes(self, value: Any) -> None:
        value = check_assigned_values("slopes", value, self.slopes)
        if self.raw_slopes is None:
            check_equal_values("slopes", value, 0.0, "where order=0")
        else:
            _assign(self.raw_slopes, value)

    def forward(self, x: Tensor, fills: Tensor | None = None) -> Tensor:
        return rule_outputs(x, self.raw_intercepts, self.raw_slopes, fills)

    def extra_repr(self) -> str:
        return f"n_features={self.n_features}, n_outputs={self.n_outputs}, n_rules={self.n_rules}, order={self.order}"
