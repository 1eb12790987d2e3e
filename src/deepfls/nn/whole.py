"""A whole system on the CPU as one function with its own gradient, made of the stages of its parts.

The modules say what a system is, part by part, and torch can trace, move and differentiate them in any way. Called one by
one in a small step they cost more than they compute. Here the same stages are passed on to each other as arrays: one call
into torch instead of dozens, and for the training loop none at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules import module as torch_module

from deepfls.functional.firing import Exponents, share_of
from deepfls.functional.karnik_mendel import EndPoints
from deepfls.functional.reduction import Averages
from deepfls.functional.tracing import Array, can_use_kernels
from deepfls.nn.antecedents import IT2Antecedents, T1Antecedents
from deepfls.nn.consequents import TSKConsequents
from deepfls.nn.constraints import Mapped, bounded_log_sigmoid, sigma_formula

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_GLOBAL_HOOKS = tuple(f"_global{name}" for name in _HOOKS)
# How many names for parameters the parts have: fewer where one was replaced by a buffer or an attribute.
_N_NAMES = {T1Antecedents: 2, IT2Antecedents: 4, TSKConsequents: 2}


def can_be_whole(antecedents: T1Antecedents | IT2Antecedents, consequents: TSKConsequents, x: Tensor) -> bool:
    """Whether nobody could tell: on the CPU, not traced, and the parts as they are made here, not watched."""
    for part in (antecedents, consequents):
        if len(part._parameters) != _N_NAMES.get(type(part)) or is_watched(part):
            return False
    return can_use_kernels(x, *(p for p in raw_parameters(antecedents, consequents) if p is not None))


def is_watched(module: nn.Module) -> bool:
    """Whether someone wants to be told when a module is called, or has put another function in its place."""
    own = any(getattr(module, name) for name in _HOOKS) or "forward" in vars(module)
    return own or any(getattr(torch_module, name) for name in _GLOBAL_HOOKS)


_ANTECEDENT_NAMES = ("raw_centers", "raw_sigmas", "raw_spreads", "raw_heights")
_CONSEQUENT_NAMES = ("raw_intercepts", "raw_slopes")


def raw_parameters(antecedents: nn.Module, consequents: nn.Module) -> tuple[Any, ...]:
    """Centers, widths, spreads, heights, intercepts and slopes as the optimiser sees them, None for what is not there."""
    # From the dictionaries themselves: a look-up by attribute goes through three of them, for each parameter.
    free = map(antecedents._parameters.get, _ANTECEDENT_NAMES)
    return *free, *map(consequents._parameters.get, _CONSEQUENT_NAMES)


def by_parts(
    antecedents: nn.Module, consequents: nn.Module, x: Tensor, parameters: Sequence[Tensor | None]
) -> tuple[Any, Tensor]:
    """Log-firing and consequents by the modules, with :func:`raw_parameters` in place of their own."""
    n_free = len(_ANTECEDENT_NAMES)
    free = {n: p for n, p in zip(_ANTECEDENT_NAMES, parameters[:n_free], strict=True) if p is not None}
    linear = {n: p for n, p in zip(_CONSEQUENT_NAMES, parameters[n_free:], strict=True) if p is not None}
    return functional_call(antecedents, free, (x,)), functional_call(consequents, linear, (x,))


class Whole:
    """The output of a T1 system, or the type-reduced set of an IT2 one: a stage.

    Its inputs are rows, (batch, features), and :func:`raw_parameters`; its outputs y, or y_left and y_right, each (batch,
    outputs).

    Parameters
    ----------
    antecedents : T1Antecedents or IT2Antecedents
        Of which only the settings are read.
    algorithm : str
        How end points are found.

    Notes
    -----
    What a pass returns lasts until the next one, which uses the same memory.
    """

    def __init__(self, antecedents: T1Antecedents | IT2Antecedents, algorithm: str) -> None:
        from deepfls.functional import _compiled, _forms_cpu  # here: Numba is slow to import

        self._kernels = _forms_cpu
        workspace = _compiled.Workspace()
        self._product, self._product_over_rows = _compiled.product, _compiled.product_over_rows
        self._column_sums, self._take = _compiled.column_sums, workspace.take
        self._share = share_of(antecedents.tnorm, antecedents.n_features)
        self._sigmas = Mapped(sigma_formula(antecedents.parameterization, _has_spreads(antecedents)), workspace)
        self._log_heights = Mapped(bounded_log_sigmoid, workspace)
        self._exponents = Exponents(self._share, workspace)
        self._is_interval = isinstance(antecedents, IT2Antecedents)
        self._ends = EndPoints(algorithm, logs=True, workspace=workspace)
        self._average = Averages(workspace)

    def forward(self, x: Array, *parameters: Any) -> tuple[Array, ...]:
        centers, raw_sigmas, raw_spreads, raw_heights, intercepts, slopes = parameters
        raws = (raw_sigmas,) if raw_spreads is None else (raw_sigmas, raw_spreads)
        (sigmas,) = self._sigmas.forward(*raws)
        log_heights = None if raw_heights is None else self._log_heights.forward(raw_heights)[0][0]
        # Sets of one width differ by their heights only: the lower firing is the upper one times a number for each rule.
        self._shares_width = self._is_interval and raw_spreads is None
        added_heights = None if self._shares_width else log_heights
        (log_firing,) = self._exponents.forward(x, centers, added_heights, sigmas)
        self._x, self._slopes = x, slopes
        consequents = self._consequents(x, intercepts, slopes)
        if not self._is_interval:
            return self._average.forward(log_firing, consequents)
        ratios = None
        if self._shares_width and log_heights is not None:
            ratios = self._take("ratios", (len(centers),), np.float64)
            self._kernels.height_ratios(log_heights, self._share, ratios)
        return self._ends.forward(log_firing, consequents, ratios)

    def _consequents(self, x: Array, intercepts: Array, slopes: Array | None) -> Array:
        n_rules, n_outputs = intercepts.shape
        consequents = self._take("consequents", (len(x), n_rules, n_outputs), x.dtype)
        if slopes is None:
            consequents[:] = intercepts
        else:
            flat = consequents.reshape(len(x), n_rules * n_outputs)
            self._product(x, slopes.reshape(n_rules * n_outputs, -1).T, flat, intercepts.reshape(-1))
        return consequents

    def backward(self, grads: Sequence[Array], wanted: Sequence[bool]) -> tuple[Array | None, ...]:
        grad_ratios: Array | None = None
        if self._is_interval:
            grad_firing, grad_consequents, grad_ratios = self._ends.backward(grads, (True, True, self._shares_width))
        else:
            grad_firing, grad_consequents = self._average.backward(grads, (True, True))
        assert grad_firing is not None
        assert grad_consequents is not None
        grad_x, grad_centers, grad_log_heights, grad_sigmas = self._exponents.backward([grad_firing], wanted[:1])
        assert grad_sigmas is not None
        grad_raws = self._sigmas.backward([grad_sigmas], ())
        grad_spreads = grad_raws[1] if len(grad_raws) == 2 else None
        grad_heights = None
        if grad_ratios is not None or grad_log_heights is not None:
            stacked = self._take("grad_log_heights", (1, *grad_sigmas.shape[1:]), grad_sigmas.dtype)
            if grad_ratios is None:
                stacked[0] = grad_log_heights
            else:
                self._kernels.height_ratio_gradients(grad_ratios, self._share, stacked[0])
            (grad_heights,) = self._log_heights.backward([stacked], ())
        batch, n_rules, n_outputs = grad_consequents.shape
        flat = grad_consequents.reshape(batch, n_rules * n_outputs)
        grad_intercepts = self._take("grad_intercepts", (n_rules, n_outputs), flat.dtype)
        self._column_sums(flat, grad_intercepts.reshape(-1))
        grad_slopes = None
        if self._slopes is not None:
            grad_slopes = self._take("grad_slopes", self._slopes.shape, flat.dtype)
            self._product_over_rows(flat, self._x, grad_slopes.reshape(n_rules * n_outputs, -1))
            if grad_x is not None:
                grad_x += self._product(flat, self._slopes.reshape(n_rules * n_outputs, -1), np.empty_like(grad_x))
        return grad_x, grad_centers, grad_raws[0], grad_spreads, grad_heights, grad_intercepts, grad_slopes


def _has_spreads(antecedents: T1Antecedents | IT2Antecedents) -> bool:
    return isinstance(antecedents, IT2Antecedents) and antecedents.raw_spreads is not None
