"""General Type-2 systems as a layer: GT2FLS, nested Interval Type-2 systems around a Type-1 system."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor, nn

from deepfls._checks.arguments import check_count, check_option
from deepfls._checks.tensors import check_assigned_values, check_range_values
from deepfls.functional.constants import MIN_LOGIT, MIN_RATIO, MIN_SPREAD_LOGIT
from deepfls.functional.firing import IntervalFiring, log_firing, relative_interval_firing, share_of
from deepfls.functional.karnik_mendel import ALGORITHMS, TypeReducedSet
from deepfls.functional.reduction import (
    AlphaPlanes,
    check_alphas,
    default_alphas,
    plane_ends,
    plane_log_firing,
    plane_width,
    type_reduced_set,
)
from deepfls.kernels import SystemForm
from deepfls.nn.constraints import UnitInterval, separate_generator
from deepfls.nn.rule_parts import T1Antecedents
from deepfls.nn.systems import IT2FLS, N_PARAMETERS, T1FLS, ReducedOutput, _forwarded, without_autocast

# Spreads at the start: wide enough that the first steps can change the planes in both directions.
_LOWER_SPREAD, _UPPER_SPREAD = 0.4, 0.2
# The upper sets of the widest plane are at most 1 / √(1 - b) = 32 times as wide as the primary ones.
_MAX_UPPER_SPREAD = 1.0 - MIN_RATIO


class GT2Antecedents(T1Antecedents):
    """General Type-2 sets: Gaussian primary grades, as those of a Type-1 system, and the spreads of their planes.

    Parameters
    ----------
    n_features, n_rules : int
    shared_spread : bool
        One a and one b for the whole system, (1, 1), or one of each for every rule and input, (rules, features).
    tnorm, parameterization
        As in :class:`T1Antecedents`.

    Shape
    -----
    Input (batch, features); output, the log-firing of the primary grades, (batch, rules).
    """

    def __init__(
        self,
        n_features: int,
        n_rules: int,
        *,
        shared_spread: bool = True,
        tnorm: str = "product",
        parameterization: str = "ordered",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(n_features, n_rules, tnorm=tnorm, parameterization=parameterization, device=device, dtype=dtype)
        self.shared_spread = bool(shared_spread)
        shape = (1, 1) if shared_spread else (n_rules, n_features)
        for name in ("raw_heights", "raw_spreads"):
            self.register_parameter(name, nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))
        self._reset_spreads()

    raw_heights: nn.Parameter
    raw_spreads: nn.Parameter

    def reset_parameters(self) -> None:
        """Centers drawn from the standard normal, widths 1, spreads a = 0.4 and b = 0.2."""
        super().reset_parameters()
        if "raw_heights" in self._parameters:  # the first call comes from the base class, before there are spreads
            self._reset_spreads()

    def _reset_spreads(self) -> None:
        self.lower_spreads = _LOWER_SPREAD
        self.upper_spreads = _UPPER_SPREAD

    @property
    def lower_spreads(self) -> Tensor:
        """a, in [0, 1): the lower sets of the widest plane are 1 - a times as high as the primary ones."""
        return 1.0 - UnitInterval().value(self.raw_heights)

    @lower_spreads.setter
    def lower_spreads(self, value: Any) -> None:
        value = check_assigned_values("lower_spreads", value, self.raw_heights)
        eps = torch.finfo(value.dtype).eps
        check_range_values("lower_spreads", value, 0.0, 1.0 - eps)
        with torch.no_grad():
            self.raw_heights.copy_(UnitInterval().raw(1.0 - value))

    @property
    def upper_spreads(self) -> Tensor:
        """b, in (0, 1): the upper sets of the widest plane are 1 / √(1 - b) times as wide as the primary ones."""
        return torch.sigmoid(self.raw_spreads.clamp(min=MIN_SPREAD_LOGIT)) * _MAX_UPPER_SPREAD

    @upper_spreads.setter
    def upper_spreads(self, value: Any) -> None:
        value = check_assigned_values("upper_spreads", value, self.raw_spreads)
        check_range_values("upper_spreads", value, 0.0, _MAX_UPPER_SPREAD)
        with torch.no_grad():
            share = (value / _MAX_UPPER_SPREAD).clamp(math.exp(MIN_SPREAD_LOGIT), 1.0)
            self.raw_spreads.copy_(UnitInterval().raw(share, "upper_spreads"))

    def plane_firing(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What :func:`deepfls.functional.reduction.plane_log_firing` takes: log-firing, rise and drop."""
        log_values, spreads = self(x), self.upper_spreads
        # One spread for all: the rise is a share of the log-firing. Else it is the log-firing of sets of width σ / √b.
        wider = None if self.shared_spread else self.sigmas * spreads.rsqrt()
        rise = (
            -spreads * log_values
            if wider is None
            else -log_firing(x, self.centers, wider, self.tnorm, missing=self.missing)
        )
        log_heights = UnitInterval().log(self.raw_heights).expand(self.n_rules, self.n_features)
        return log_values, rise, -log_heights.sum(dim=1) * share_of(self.tnorm, self.n_features)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, shared_spread={self.shared_spread}"


class GT2FLS(T1FLS):
    """General Type-2 Takagi-Sugeno-Kang fuzzy system: nested planes around a Type-1 system.

    The plane at the level α is an interval type-2 system around Gaussian grades μ. Its lower grades are ``(1 - a)^t μ``,
    its upper ones ``μ^(1 - b t)``, with ``t = √(ln α / ln 0.01)``; its type-reduced set is exact (Karnik-Mendel). The plane
    α = 1 is the Type-1 system. As α falls the sets widen, each inside the next. The crisp output is the mean of the middles
    of ``n_planes`` planes, weighted by α.

    Parameters
    ----------
    n_features : int
    n_outputs : int
    n_rules : int
    order : {0, 1}
        Constant or linear consequents.
    n_planes : int
        Planes of the crisp output: α = 0.01 and the others evenly up to 1, so 0.01, 0.5 and 1 for three. One plane, 0.01,
        is an interval type-2 system.
    shared_spread : bool
        One a and one b for the whole system (as published), or one of each for every rule and input.
    algorithm : {"auto", "newton", "sort", "enumerate", "iterative"}
        How the end points are found; see :func:`deepfls.functional.karnik_mendel`.
    tnorm, parameterization
        As in :class:`T1FLS`.
    device, dtype
        As in torch's own layers.

    Shape
    -----
    Input x (batch, features); output y (batch, outputs). :meth:`planes` gives ends (batch, planes, outputs).

    Examples
    --------
    >>> import torch
    >>> from deepfls.nn import GT2FLS
    >>> system = GT2FLS(4, n_rules=5, n_planes=3)
    >>> alphas, y_left, y_right = system.planes(torch.randn(8, 4))
    >>> alphas, y_left.shape
    (tensor([0.0100, 0.5000, 1.0000]), torch.Size([8, 3, 1]))
    >>> bool((y_left[:, 0] <= y_left[:, 1]).all())
    True
    """

    lower_spreads = _forwarded("antecedents", "lower_spreads", "a of the lower sets, (1, 1) or (rules, features).")
    upper_spreads = _forwarded("antecedents", "upper_spreads", "b of the upper sets, (1, 1) or (rules, features).")

    def __init__(
        self,
        n_features: int,
        n_outputs: int = 1,
        *,
        n_rules: int = 10,
        order: int = 1,
        n_planes: int = 3,
        shared_spread: bool = True,
        algorithm: str = "auto",
        tnorm: str = "product",
        parameterization: str = "ordered",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options: dict[str, Any] = {"tnorm": tnorm, "parameterization": parameterization, "device": device, "dtype": dtype}
        super().__init__(n_features, n_outputs, n_rules=n_rules, order=order, **options)
        self.n_planes = check_count("n_planes", n_planes)
        self.algorithm = check_option("algorithm", algorithm, ("auto", *ALGORITHMS))
        self.antecedents: GT2Antecedents = GT2Antecedents(n_features, n_rules, shared_spread=shared_spread, **options)

    @property
    def shared_spread(self) -> bool:
        return self.antecedents.shared_spread

    @property
    def alphas(self) -> Tensor:
        """Levels of the planes of the crisp output, (planes,), rising."""
        return torch.tensor(default_alphas(self.n_planes), dtype=self.centers.dtype, device=self.centers.device)

    @without_autocast
    def forward(self, x: Tensor) -> Tensor:
        return self._crisp(self.planes(x))

    def _crisp(self, planes: AlphaPlanes) -> Tensor:
        shares = (planes.alphas / planes.alphas.sum()).unsqueeze(-1)
        return (0.5 * (planes.y_left + planes.y_right) * shares).sum(dim=1)

    @without_autocast
    def planes(self, x: Tensor, alphas: Any = None) -> AlphaPlanes:
        """Type-reduced sets of some planes.

        Parameters
        ----------
        x : Tensor, shape (batch, features)
        alphas : list or Tensor, shape (planes,), optional
            Levels within (0, 1], in any order; those of the crisp output by default. Below 0.01 the lower grades go on
            falling while the upper ones stay.

        Returns
        -------
        AlphaPlanes
            Named tuple (alphas, y_left, y_right), the ends (batch, planes, outputs) in the order of ``alphas``.
        """
        levels = self.alphas if alphas is None else check_alphas(alphas, self.centers)
        firing = self.antecedents.plane_firing(self._checked(x))
        return plane_ends(*firing, self._rule_outputs(x), levels, self.algorithm)

    @without_autocast
    def ends_at(self, x: Tensor, alphas: Tensor) -> TypeReducedSet:
        """Type-reduced set of one plane for every sample, its levels (batch,) within (0, 1].

        Returns
        -------
        TypeReducedSet
            Named tuple (y_left, y_right), each (batch, outputs).
        """
        firing = self.antecedents.plane_firing(self._checked(x))
        lower, upper = plane_log_firing(*firing, plane_width(alphas).unsqueeze(1))
        return type_reduced_set(lower, upper, self._rule_outputs(x), self.algorithm)

    @without_autocast
    def reduce(self, x: Tensor) -> ReducedOutput:
        """The type-reduced set of the widest plane, α = 0.01, and the crisp output.

        Returns
        -------
        ReducedOutput
            Named tuple (y_left, y_right, y), each (batch, outputs).
        """
        planes = self.planes(x)
        return ReducedOutput(planes.y_left[:, 0], planes.y_right[:, 0], self._crisp(planes))

    @without_autocast
    def firing(self, x: Tensor) -> IntervalFiring:  # type: ignore[override]  # an interval, as of IT2FLS
        """Lower and upper firing of the widest plane, relative to its largest of each sample, each (batch, rules)."""
        return relative_interval_firing(*self.widest_log_firing(x))

    @without_autocast
    def widest_log_firing(self, x: Tensor) -> IntervalFiring:
        """Lower and upper log-firing of the widest plane, each (batch, rules)."""
        firing = self.antecedents.plane_firing(self._checked(x))
        return plane_log_firing(*firing, torch.ones_like(self.centers[0, 0]))

    def plane_system(self, alpha: float) -> T1FLS | IT2FLS:
        """One plane as a system of its own, with copies of the parameters: IT2FLS, or T1FLS for α = 1."""
        (level,) = check_alphas(alpha, self.centers)
        options: dict[str, Any] = {"n_rules": self.n_rules, "order": self.order, "tnorm": self.tnorm}
        options |= {"parameterization": self.antecedents.parameterization}
        options |= {"device": self.centers.device, "dtype": self.centers.dtype}
        with separate_generator(), torch.no_grad():
            t = plane_width(level)
            system: T1FLS | IT2FLS
            if float(t) == 0.0:
                system = T1FLS(self.n_features, self.n_outputs, **options)
                system.sigmas = self.sigmas
            else:
                system = IT2FLS(self.n_features, self.n_outputs, algorithm=self.algorithm, **options)
                widening = (1.0 - t.clamp(max=1.0) * self.upper_spreads).rsqrt()
                system.set_sigmas(self.sigmas, self.sigmas * widening)
                log_heights = UnitInterval().log(self.antecedents.raw_heights) * t
                system.heights = log_heights.clamp(min=MIN_LOGIT).exp().expand_as(self.centers)
            system.missing = self.missing
            system.centers, system.intercepts, system.slopes = self.centers, self.intercepts, self.slopes
        return system.requires_grad_(self.centers.requires_grad)

    def narrow_planes(self, share: float) -> None:
        """Let the plane of every width t up to 1 be that of width ``share`` times t, ``share`` from 0 to 1."""
        with torch.no_grad():
            log_heights = UnitInterval().log(self.antecedents.raw_heights) * share
            self.antecedents.raw_heights.copy_(UnitInterval().raw(log_heights.clamp(min=MIN_LOGIT).exp()))
            self.upper_spreads = self.upper_spreads * share

    def form(self) -> SystemForm | None:
        form = super().form()
        if form is None:
            return None
        return dataclasses.replace(form, is_interval=True, n_planes=self.n_planes, shared_spread=self.shared_spread)

    def extra_repr(self) -> str:
        return f"n_planes={self.n_planes}, algorithm={self.algorithm!r}"


N_PARAMETERS |= {GT2FLS: 0, GT2Antecedents: 4}
