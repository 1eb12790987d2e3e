"""Complete fuzzy systems as layers: T1FLS and IT2FLS."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from deepfls._checks.arguments import check_option
from deepfls._checks.tensors import check_assigned_values, check_batch, check_range_values
from deepfls.functional.firing import IntervalFiring, relative_firing, relative_interval_firing, share_of
from deepfls.functional.karnik_mendel import ALGORITHMS
from deepfls.functional.reduction import REDUCTIONS, type_reduce, type_reduced_set, weighted_average
from deepfls.kernels import SystemForm, forms
from deepfls.nn.constraints import ConstrainedModule
from deepfls.nn.rule_parts import IT2Antecedents, T1Antecedents, TSKConsequents


class ReducedOutput(NamedTuple):
    """Type-reduced set and crisp output, each (batch, outputs), ``y_left <= y <= y_right``."""

    y_left: Tensor
    y_right: Tensor
    y: Tensor


_Method = TypeVar("_Method", bound=Callable[..., Any])


def without_autocast(method: _Method) -> _Method:
    """A method ``method(x, ...)`` of a system that computes in the dtype of its parameters under ``torch.autocast`` too.

    The product behind the log-firing cancels most of its digits, so half precision would leave few of them.
    """

    @functools.wraps(method)
    def computed(self: _FLS, x: Tensor, *args: Any, **options: Any) -> Any:
        if not isinstance(x, Tensor) or x.is_meta or not torch.is_autocast_enabled(x.device.type):
            return method(self, x, *args, **options)
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(self.antecedents.raw_centers.dtype) if x.is_floating_point() else x
            return method(self, x, *args, **options)

    return cast("_Method", computed)


def _forwarded(part: str, name: str, doc: str, *, writes: bool = True) -> Any:
    """A property of a system that reads and, unless it is fixed, writes the property ``name`` of its ``part``."""

    def read(self: nn.Module) -> Any:
        return getattr(getattr(self, part), name)

    def write(self: nn.Module, value: Any) -> None:
        setattr(getattr(self, part), name, value)

    return property(read, write if writes else None, doc=doc)


class _FLS(ConstrainedModule):
    """What both kinds of systems share: rules, their consequents, and the check of x."""

    antecedents: T1Antecedents | IT2Antecedents
    consequents: TSKConsequents

    centers = _forwarded("antecedents", "centers", "Centers of the sets, (rules, features).")
    slopes = _forwarded("consequents", "slopes", "Slopes of the consequents, (rules, outputs, features).")
    intercepts = _forwarded("consequents", "intercepts", "Intercepts of the consequents, (rules, outputs).")

    missing = _forwarded(
        "antecedents",
        "missing",
        """Whether NaN in x is an input that is not known; False by default, where NaN gives NaN.

        An unknown input has grade 1 in every rule, and the consequent of a rule takes the center of its set instead.
        """,
    )

    n_features: int = _forwarded("antecedents", "n_features", "Number of inputs.", writes=False)
    n_rules: int = _forwarded("antecedents", "n_rules", "Number of rules.", writes=False)
    n_outputs: int = _forwarded("consequents", "n_outputs", "Number of outputs.", writes=False)
    order: int = _forwarded("consequents", "order", "0 for constant consequents, 1 for linear ones.", writes=False)
    tnorm: str = _forwarded("antecedents", "tnorm", "How the grades of a rule combine.", writes=False)

    def reset_parameters(self) -> None:
        """Draw new starting values from torch's global generator, as torch's own layers do."""
        self.antecedents.reset_parameters()
        self.consequents.reset_parameters()

    def _checked(self, x: Tensor) -> Tensor:
        return check_batch(x, self.n_features, self.antecedents.raw_centers)

    def _rule_outputs(self, x: Tensor) -> Tensor:
        return self.consequents(x, self.centers) if self.missing else self.consequents(x)

    def form(self) -> SystemForm | None:
        """This system as the compiled kernels take it; None if it is a subclass, hooked, or has modified parts."""
        parts = (self, self.antecedents, self.consequents)
        if type(self) not in N_PARAMETERS or any(map(_is_hooked, parts)):
            return None
        if self.missing and getattr(self, "uncertainty", "") == "h":
            return None  # the kernels take one product for both sets, which differ where an input is unknown
        for part in parts:
            # Fewer registered names if a parameter was replaced by a buffer or an attribute.
            if len(part._parameters) != N_PARAMETERS.get(type(part)):
                return None
        terms = self.antecedents.terms
        if not self.antecedents.within_bounds() or (terms is not None and terms.device.type != "cpu"):
            return None
        algorithm, reduction = getattr(self, "algorithm", "auto"), getattr(self, "type_reduction", "km")
        if reduction not in forms.REDUCTIONS or (reduction == "km" and algorithm not in ("auto", "newton")):
            return None
        return SystemForm(
            n_features=self.n_features,
            n_rules=self.n_rules,
            n_outputs=self.n_outputs,
            order=self.order,
            is_interval=isinstance(self.antecedents, IT2Antecedents),
            type_reduction=reduction,
            share=share_of(self.tnorm, self.n_features),
            of_paper=self.antecedents.parameterization == "paper",
            missing=self.missing,
            parameters={n.rpartition("raw_")[2]: n for n, p in self.named_parameters(remove_duplicate=False)},
            terms=None if terms is None else terms.numpy(),
        )


def _is_hooked(module: nn.Module) -> bool:
    """True if a call of a module runs code beside its own forward. torch has no public function for hooks."""
    own = any(getattr(module, name) for name in _HOOKS) or "forward" in vars(module)
    return own or any(getattr(torch_module, f"_global{name}") for name in _HOOKS)


class T1FLS(_FLS):
    """Type-1 Takagi-Sugeno-Kang fuzzy system with Gaussian sets.

    ``y = Σ_p f_p(x) y_p(x) / Σ_p f_p(x)``, with ``f_p`` the product (or geometric mean) of Gaussian grades and ``y_p`` a
    linear or constant function of x.

    Parameters
    ----------
    n_features : int
    n_outputs : int
    n_rules : int
    order : {0, 1}
        Constant or linear consequents.
    tnorm : {"product", "htsk"}
        Product of the grades (the paper) or their geometric mean (for many inputs).
    parameterization : {"ordered", "paper"}
        Free parameter of a width: its logarithm, or the width itself.
    device, dtype
        As in torch's own layers.

    Shape
    -----
    Input x (batch, features); output y (batch, outputs).

    Examples
    --------
    >>> import torch
    >>> from deepfls.nn import T1FLS
    >>> system = T1FLS(4, 2, n_rules=5)
    >>> system(torch.randn(8, 4)).shape
    torch.Size([8, 2])
    >>> system.sigmas = 0.5
    >>> bool((system.sigmas == 0.5).all())
    True
    """

    sigmas = _forwarded("antecedents", "sigmas", "Widths of the sets, (rules, features), positive.")

    def __init__(
        self,
        n_features: int,
        n_outputs: int = 1,
        *,
        n_rules: int = 10,
        order: int = 1,
        tnorm: str = "product",
        parameterization: str = "ordered",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.antecedents: T1Antecedents = T1Antecedents(
            n_features, n_rules, tnorm=tnorm, parameterization=parameterization, device=device, dtype=dtype
        )
        self.consequents = TSKConsequents(n_features, n_outputs, n_rules, order=order, device=device, dtype=dtype)

    @without_autocast
    def forward(self, x: Tensor) -> Tensor:
        return weighted_average(self.antecedents(self._checked(x)), self._rule_outputs(x))

    @without_autocast
    def firing(self, x: Tensor) -> Tensor:
        """Firing relative to the strongest rule of each sample, (batch, rules)."""
        return relative_firing(self.antecedents(self._checked(x)))


class IT2FLS(_FLS):
    """Interval Type-2 Takagi-Sugeno-Kang fuzzy system with Gaussian sets.

    Every rule fires with an interval ``[f̲_p(x), f̄_p(x)]``; the outputs that weights from these intervals can produce
    form the type-reduced set ``[y_left, y_right]``, found exactly by Karnik-Mendel type reduction.

    Parameters
    ----------
    n_features : int
    n_outputs : int
    n_rules : int
    order : {0, 1}
        Constant or linear consequents.
    uncertainty : {"h", "s", "hs"}
        What the footprint of the sets comes from: an uncertain height, an uncertain width, or both.
    type_reduction : {"km", "nt", "bmm", "sm"}
        How the crisp output is formed; see :func:`deepfls.functional.type_reduce`.
    algorithm : {"auto", "newton", "sort", "enumerate", "iterative"}
        How the end points are found; see :func:`deepfls.functional.karnik_mendel`.
    tnorm : {"product", "htsk"}
        Product of the grades (the paper) or their geometric mean (for many inputs).
    parameterization : {"ordered", "paper"}
        "ordered": σ̄ = e^raw and σ̲ a share of it. "paper": σ' ± |Δ|, with its crossing of zero closed.
    device, dtype
        As in torch's own layers.

    Shape
    -----
    Input x (batch, features); output y (batch, outputs). :meth:`reduce` gives (y_left, y_right, y), each (batch, outputs).

    Examples
    --------
    >>> import torch
    >>> from deepfls.nn import IT2FLS
    >>> system = IT2FLS(4, n_rules=5)
    >>> y_left, y_right, y = system.reduce(torch.randn(8, 4))
    >>> bool(((y_left <= y) & (y <= y_right)).all())
    True
    """

    lower_sigmas = _forwarded("antecedents", "lower_sigmas", "Widths of the lower sets, (rules, features).")
    upper_sigmas = _forwarded("antecedents", "upper_sigmas", "Widths of the upper sets, (rules, features).")
    raw_mix: nn.Parameter | None

    heights = _forwarded("antecedents", "heights", "Heights of the lower sets, (rules, features), in (0, 1].")

    def __init__(
        self,
        n_features: int,
        n_outputs: int = 1,
        *,
        n_rules: int = 10,
        order: int = 1,
        uncertainty: str = "hs",
        type_reduction: str = "km",
        algorithm: str = "auto",
        tnorm: str = "product",
        parameterization: str = "ordered",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.type_reduction = check_option("type_reduction", type_reduction, tuple(REDUCTIONS))
        self.algorithm = check_option("algorithm", algorithm, ("auto", *ALGORITHMS))
        self.antecedents: IT2Antecedents = IT2Antecedents(
            n_features,
            n_rules,
            uncertainty=uncertainty,
            tnorm=tnorm,
            parameterization=parameterization,
            device=device,
            dtype=dtype,
        )
        self.consequents = TSKConsequents(n_features, n_outputs, n_rules, order=order, device=device, dtype=dtype)
        # α = ½ at the start, where "bmm" equals "sm".
        raw_mix = nn.Parameter(torch.zeros(n_outputs, device=device, dtype=dtype)) if type_reduction == "bmm" else None
        self.register_parameter("raw_mix", raw_mix)

    uncertainty: str = _forwarded("antecedents", "uncertainty", "What is uncertain in a set.", writes=False)

    @property
    def mix(self) -> Tensor | None:
        """α of the "bmm" reduction, (outputs,), in (0, 1); None for the others."""
        return None if self.raw_mix is None else torch.sigmoid(self.raw_mix)

    @mix.setter
    def mix(self, value: Any) -> None:
        check_option("type_reduction of a system whose mix is set", self.type_reduction, ("bmm",))
        assert self.raw_mix is not None
        value = check_assigned_values("mix", value, self.raw_mix)
        eps = torch.finfo(value.dtype).eps
        check_range_values("mix", value, eps, 1.0 - eps)
        with torch.no_grad():
            self.raw_mix.copy_(value.logit())

    def set_sigmas(self, lower: Any, upper: Any) -> None:
        """Set both widths together: ``lower <= upper``, and equal where only the height is uncertain."""
        self.antecedents.set_sigmas(lower, upper)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.raw_mix is not None:
            nn.init.zeros_(self.raw_mix)

    @without_autocast
    def forward(self, x: Tensor) -> Tensor:
        if self.type_reduction == "km":
            return self.reduce(x).y
        log_lower, log_upper = self.antecedents(self._checked(x))
        return self._crisp(log_lower, log_upper, self._rule_outputs(x))

    def _crisp(self, log_lower: Tensor, log_upper: Tensor, consequents: Tensor) -> Tensor:
        return type_reduce(log_lower, log_upper, consequents, self.type_reduction, mix=self.mix, algorithm=self.algorithm)

    @without_autocast
    def reduce(self, x: Tensor) -> ReducedOutput:
        """The exact type-reduced set and the crisp output.

        The ends are those of the Karnik-Mendel set whatever the ``type_reduction``, which only decides the crisp output.
        For every method that lies within the set.

        Returns
        -------
        ReducedOutput
            Named tuple (y_left, y_right, y), each (batch, outputs).
        """
        log_lower, log_upper = self.antecedents(self._checked(x))
        consequents = self._rule_outputs(x)
        y_left, y_right = type_reduced_set(log_lower, log_upper, consequents, self.algorithm)
        if self.type_reduction == "km":
            return ReducedOutput(y_left, y_right, 0.5 * (y_left + y_right))
        y = self._crisp(log_lower, log_upper, consequents)
        # Inside already, but for rounding and for firing below the floor of relative_firing.
        return ReducedOutput(y_left, y_right, torch.minimum(torch.maximum(y, y_left), y_right))

    @without_autocast
    def firing(self, x: Tensor) -> IntervalFiring:
        """Lower and upper firing relative to the largest upper firing of each sample, each (batch, rules)."""
        return relative_interval_firing(*self.antecedents(self._checked(x)))

    def extra_repr(self) -> str:
        return f"type_reduction={self.type_reduction!r}, algorithm={self.algorithm!r}"


# Names of parameters that each part registers.
N_PARAMETERS: dict[type, int] = {T1FLS: 0, IT2FLS: 1, T1Antecedents: 2, IT2Antecedents: 4, TSKConsequents: 2}
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
