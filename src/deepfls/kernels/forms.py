"""What the kernels have to know of a system, and the record in which they take it; outputs of rows without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepfls._checks.values import Array

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
