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

from deepfls.functional.firing import Forms
from deepfls.functional.karnik_mendel import EndPoints
from deepfls.functional.reduction import Averages
from deepfls.functional.tracing import Array, can_use_kernels
from deepfls.nn.antecedents import IT2Antecedents, T1Antecedents
from deepfls.nn.consequents import TSKConsequents
from deepfls.nn.weights import Weights

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
    in_place : bool
        Whether gradients replace what they are gradients of: half the memory, for one backward pass only.

    Notes
    -----
    What a pass returns lasts until the next one, which uses the same memory.
    """

    def __init__(self, antecedents: T1Antecedents | IT2Antecedents, algorithm: str, *, in_place: bool = False) -> None:
        from deepfls.functional import _compiled  # here: Numba is slow to import

        workspace = _compiled.Workspace()
        self._product, self._product_over_rows = _compiled.product, _compiled.product_over_rows
        self._column_sums, self._take = _compiled.column_sums, workspace.take
        self._weights, self._forms = Weights(antecedents, workspace), Forms(workspace)
        self._is_interval = isinstance(antecedents, IT2Antecedents)
        self._ends = EndPoints(algorithm, logs=True, workspace=workspace, in_place=in_place)
        self._average = Averages(workspace, in_place=in_place)

    def forward(self, x: Array, *parameters: Any) -> tuple[Array, ...]:
        *free, intercepts, slopes = parameters
        weights, origin, log_ratios = self._weights.forward(*free)
        (log_firing,) = self._forms.forward(x, weights, origin)
        self._x, self._slopes = x, slopes
        consequents = self._consequents(x, intercepts, slopes)
        if not self._is_interval:
            return self._average.forward(log_firing, consequents)
        # Sets of one width differ by their heights only: the lower firing is the upper one times a number for each rule.
        self._shares_width = log_firing.shape[1] == consequents.shape[1]
        return self._ends.forward(log_firing, consequents, log_ratios if self._shares_width else None)

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
        grad_x, to_weights, _ = self._forms.backward([grad_firing], wanted[:1])
        grad_free = self._weights.backward([to_weights, None, grad_ratios], ())
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
        return grad_x, *grad_free, grad_intercepts, grad_slopes
