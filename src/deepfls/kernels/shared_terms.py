# mypy: disable-error-code="no-untyped-def"
# (compiled functions: Numba infers the types)
"""Systems whose rules share sets: raw values of the sets to those of the rules, and gradients back.

The kernels take tables (rules, features) of raw centers, widths, spreads and heights. Where rules share terms, the
parameters are tables (terms, features): every rule gets the values of its terms, and every term the sum of the gradients of
its rules. A rule without a condition on a feature gets raw values whose grade is 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deepfls.functional.constants import MAX_LOG_SIGMA, MAX_SIGMA
from deepfls.kernels.compiling import compiled, inner

Array = np.ndarray[Any, np.dtype[Any]]

TABLES = ("centers", "sigmas", "spreads", "heights")
# Raw spreads and heights whose sigmoid is 1 up to rounding.
_ONE = 40.0


@compiled
def expand_terms(theta, terms, tables, fills, blocks, expanded):
    """Fill the vector of a system without shared terms; tables and blocks are (any, 2 or 3) of places and sizes."""
    n_rules, n_features = terms.shape
    for k in range(tables.shape[0]):
        first, target, fill = tables[k, 0], tables[k, 1], fills[k]
        for p in range(n_rules):
            for m in range(n_features):
                term = terms[p, m]
                expanded[target + p * n_features + m] = theta[first + term * n_features + m] if term >= 0 else fill
    for k in range(blocks.shape[0]):
        first, target, size = blocks[k, 0], blocks[k, 1], blocks[k, 2]
        for i in range(size):
            expanded[target + i] = theta[first + i]


@inner
def gather_terms(expanded, terms, tables, blocks, gradient):
    """Fill the gradient of the parameters from that of the expanded vector."""
    n_rules, n_features = terms.shape
    for i in range(len(gradient)):
        gradient[i] = 0.0
    for k in range(tables.shape[0]):
        first, target = tables[k, 0], tables[k, 1]
        for p in range(n_rules):
            for m in range(n_features):
                term = terms[p, m]
                if term >= 0:
                    gradient[first + term * n_features + m] += expanded[target + p * n_features + m]
    for k in range(blocks.shape[0]):
        first, target, size = blocks[k, 0], blocks[k, 1], blocks[k, 2]
        for i in range(size):
            gradient[first + i] = expanded[target + i]


class ExpandedTerms:
    """The flat vector of a system with shared terms as that of the same system without, and gradients back.

    Parameters
    ----------
    terms : ndarray of int64, shape (rules, features)
        The term of every rule, -1 for none; read at every call, so that it may change.
    n_outputs, order : int
    of_paper : bool
    parameters : mapping
        Names of the parameters of the system by the fields of the kernels' record.
    offsets : mapping
        Where each named parameter begins in the vector of the system.

    Attributes
    ----------
    offsets : dict
        Where each named parameter begins in the expanded vector.
    """

    def __init__(
        self,
        terms: Array,
        n_outputs: int,
        order: int,
        of_paper: bool,
        parameters: Mapping[str, str],
        offsets: Mapping[str, int],
    ) -> None:
        self._terms = terms
        n_rules, n_features = terms.shape
        table = n_rules * n_features
        sizes = dict.fromkeys(TABLES, table)
        sizes |= {"intercepts": n_rules * n_outputs, "slopes": table * n_outputs * order, "mix": n_outputs}
        fills = {"centers": 0.0, "sigmas": MAX_SIGMA if of_paper else MAX_LOG_SIGMA}
        fills |= {"spreads": 0.0 if of_paper else _ONE, "heights": _ONE}
        self.offsets: dict[str, int] = {}
        tables, blocks, place = [], [], 0
        for field, name in parameters.items():
            self.offsets[name] = place
            entry = [int(offsets[name]), place]
            if field in TABLES:
                tables.append(entry)
            else:
                blocks.append([*entry, sizes[field]])
            place += sizes[field]
        self._fills = np.array([fills[field] for field in parameters if field in TABLES])
        self._tables, self._blocks = np.array(tables, dtype=np.int64), np.array(blocks, dtype=np.int64)
        self._size = place

    def arrays(self, dtype: Any) -> tuple[Array, ...]:
        """What the kernels take: terms, places, fills, and scratch for the expanded vector and its gradient."""
        scratch = np.empty(self._size, dtype), np.empty(self._size, dtype)
        return self._terms, self._tables, self._fills, self._blocks, *scratch

    def expanded(self, theta: Array) -> Array:
        """The vector of the system without shared terms."""
        *places, made, _ = self.arrays(theta.dtype)
        expand_terms(theta, *places, made)
        return made


def no_terms(dtype: Any) -> tuple[Array, ...]:
    """As :meth:`ExpandedTerms.arrays`, for systems whose rules have sets of their own."""
    whole = [np.empty((0, size), np.int64) for size in (0, 2, 3)]
    return whole[0], whole[1], np.empty(0), whole[2], np.empty(0, dtype), np.empty(0, dtype)
