"""The weights of the quadratic forms that log-firing is, from the free parameters of antecedents."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from deepfls.functional.firing import NO_RATIOS, share_of
from deepfls.functional.tracing import Array
from deepfls.nn.antecedents import IT2Antecedents, T1Antecedents
from deepfls.nn.constraints import limits_of


class Weights:
    """What :class:`~deepfls.functional.firing.Forms` takes, from raw centers, widths, spreads and heights: a stage.

    Its outputs are the weights, the origin they are made for, and the logarithms of the ratios of lower firing to upper:
    where widths are certain these are the same for all rows, and the forms are those of the upper firing only.

    Parameters
    ----------
    antecedents : T1Antecedents or IT2Antecedents
        Of which only the settings are read.
    workspace : Workspace
        Where to find memory.

    Notes
    -----
    What a pass returns lasts until the next one, which uses the same memory.
    """

    def __init__(self, antecedents: T1Antecedents | IT2Antecedents, workspace: Any) -> None:
        from deepfls.nn import _weights_cpu  # here: Numba is slow to import

        self._kernels, self._take = _weights_cpu, workspace.take
        # Positional arguments of both kernels.
        self._settings = (
            antecedents.parameterization == "paper",
            *limits_of(antecedents.parameterization),
            share_of(antecedents.tnorm, antecedents.n_features),
        )
        self._given: tuple[Any, ...] = ()

    def forward(self, *raws: Any) -> tuple[Array, ...]:
        # In training the same arrays come every time, and what is made for them is used again.
        if len(self._given) != len(raws) or not all(map(operator.is_, raws, self._given)):
            self._prepare(*raws)
        self._kernels.weights_of(*self._raws, *self._settings, self._sigmas, self._ratios, self._origin, self._weights)
        return self._weights, self._origin, self._ratios

    def _prepare(self, *raws: Any) -> None:
        centers, _, raw_spreads, raw_heights = self._given = raws
        (n_rules, n_features), dtype = centers.shape, centers.dtype
        nothing = np.empty((0, 0), dtype)
        self._raws = [nothing if raw is None else raw for raw in raws]
        self._grads = [self._take(f"grad_raw_{place}", raw.shape, dtype) for place, raw in enumerate(self._raws)]
        self._found = tuple(None if raw is None else grad for raw, grad in zip(raws, self._grads, strict=True))
        n_stacks = 1 if raw_spreads is None else 2
        self._sigmas = self._take("sigmas", (n_stacks, n_rules, n_features), dtype)
        self._weights = self._take("weights", (n_stacks * n_rules, 2 * n_features + 1), dtype)
        self._origin = self._take("origin", (n_features,), np.float64)
        self._ratios = NO_RATIOS if raw_heights is None else self._take("ratios", (n_rules,), np.float64)
        self._to_ratios = np.empty_like(self._ratios)

    def backward(self, grads: Sequence[Array | None], wanted: Sequence[bool]) -> tuple[Array | None, ...]:
        to_weights, _, to_ratios = grads
        if to_ratios is None:  # they are in the weights, or there are none
            to_ratios = self._to_ratios
        self._kernels.weights_of_gradient(
            *self._raws, *self._settings, self._sigmas, self._origin, to_weights, to_ratios, *self._grads
        )
        return self._found
