"""What the kernels have to know of a system, and the record in which they take it; outputs of rows without torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepfls._checks.values import Array
from deepfls.functional.constants import MAX_LOG_SIGMA, MAX_SIGMA

# Type reductions that the kernels have, by their numbers in the record.
REDUCTIONS = {"km": 0, "nt": 1, "bmm": 2, "sm": 3}


@dataclass(frozen=True)
class SystemForm:
    """What the kernels have to know of a system: its sizes, its options, and the names of its raw parameters.

    ``parameters`` maps fields of the kernels' record (centers, sigmas, spreads, ...) to names of parameters in the system.
    ``terms`` (rules, features) are the sets of the rules where they share them, -1 for none.
    """

    n_features: int
    n_rules: int
    n_outputs: int
    order: int
    is_interval: bool
    type_reduction: str
    share: float
    of_paper: bool
    parameters: Mapping[str, str]
    missing: bool = False  # whether NaN is an input that is not known
    n_planes: int = 0
    shared_spread: bool = False
    terms: Array | None = None

    @property
    def work_per_row(self) -> int:
        """Multiply-adds of the products of a row."""
        return self.n_rules * self.n_features * ((4 if "spreads" in self.parameters else 2) + self.n_outputs)


def record_of(form: SystemForm, offsets: Mapping[str, int], settings: Mapping[str, float]) -> Array:
    """The record of a system and a loss; ``offsets`` tell where the parameters begin in the flat vector."""
    from deepfls.kernels import parameters  # here: Numba is slow to import

    record = np.zeros(1, parameters.FORM)
    fields = {
        **{name: getattr(form, name) for name in ("n_features", "n_rules", "n_outputs", "order", "share", "of_paper")},
        "missing": form.missing,
        "n_planes": form.n_planes,
        "shared_spread": form.shared_spread,
        "interval": form.is_interval,
        "reduction": REDUCTIONS[form.type_reduction],
        "with_spreads": "spreads" in form.parameters and not form.n_planes,
        "with_heights": "heights" in form.parameters,
        **{field: offsets[name] for field, name in form.parameters.items()},
        **settings,
    }
    for name, value in fields.items():
        record[name] = value
    return record


# Raw values of sets whose grade is 1 up to rounding, for rules without a condition on a feature.
_RAW_ONE = {"centers": 0.0, "sigmas": MAX_LOG_SIGMA, "spreads": 40.0, "heights": 40.0}
_PAPER_ONE = _RAW_ONE | {"sigmas": MAX_SIGMA, "spreads": 0.0}


class SharedTerms:
    """The vector of a system whose rules share terms as that of the same system without, in which each rule has its sets.

    ``given`` tells where each named parameter begins in the vector of the system, ``offsets`` where in the other one. The
    terms of the form are read at every call, so that they may change. Without terms both vectors are one.
    """

    def __init__(self, form: SystemForm, given: Mapping[str, int]) -> None:
        self._form, self._given = form, given
        self.offsets = dict(given) if form.terms is None else {}
        place = 0
        for name, places, _ in self._parts():
            self.offsets[name] = place
            place += len(places)

    def _parts(self) -> Iterator[tuple[str, Array, float]]:
        """Of every parameter its name, where its values are in the vector of the system, and what stands at -1."""
        form, terms = self._form, self._form.terms
        if terms is None:
            return
        n_slopes = form.n_features * form.order
        sizes = {"slopes": form.n_rules * form.n_outputs * n_slopes, "intercepts": form.n_rules * form.n_outputs}
        fills = _PAPER_ONE if form.of_paper else _RAW_ONE
        for field, name in form.parameters.items():
            if field in fills:
                places = np.where(terms >= 0, terms * form.n_features + np.arange(form.n_features) + self._given[name], -1)
                yield name, places.ravel(), fills[field]
            else:
                yield name, self._given[name] + np.arange(sizes.get(field, form.n_outputs)), 0.0

    def arrays(self, dtype: Any) -> tuple[Array, Array, Array, Array]:
        """Places in the vector of the system, (values,), -1 where a value of ``fills`` stands, and room for two vectors."""
        parts = [(places, np.full(len(places), fill)) for _, places, fill in self._parts()]
        places, fills = map(np.concatenate, zip(*parts, strict=True)) if parts else (np.empty(0, np.int64), np.empty(0))
        return places, fills, np.empty(len(places), dtype), np.empty(len(places), dtype)

    def expanded(self, theta: Array) -> Array:
        """The vector of the system without shared terms."""
        if self._form.terms is None:
            return theta
        places, fills, _, _ = self.arrays(theta.dtype)
        return np.where(places >= 0, theta[places], fills).astype(theta.dtype)


def few_outputs(form: SystemForm, parameters: Mapping[str, Array], x: Array) -> Array:
    """As :class:`deepfls.kernels.CompiledOutputs`, to the same bits, for few rows x and parameters by their names."""
    from deepfls.kernels import step

    names = list(parameters)
    sizes = np.cumsum([0, *(parameters[name].size for name in names)])
    theta = np.concatenate([parameters[name].ravel() for name in names])
    record = record_of(form, dict(zip(names, sizes.tolist(), strict=False)), {})
    return outputs_of_rows(step.row_kernel(False, form.is_interval, form.n_planes > 0), theta, x, record)


def outputs_of_rows(kernel: Any, theta: Array, x: Array, record: Array) -> Array:
    """y_left, y_right and y of rows x, (rows, 3, outputs), by the kernel of a kind of systems."""
    results = np.empty((len(x), 3, int(record["n_outputs"][0])), theta.dtype)
    nothing, own_order = np.empty(0, theta.dtype), np.empty(0, np.int64)
    kernel(theta, nothing, np.ascontiguousarray(x, theta.dtype), own_order, 0, len(x), 0.0, record, results)
    return results
