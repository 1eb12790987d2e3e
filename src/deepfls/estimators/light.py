"""Predictions of few rows from a model file without torch and scikit-learn, whose import takes longer than the work.

The numbers are those of the estimator, to the last bit: the same compiled kernel computes them. The estimator
serves the rest, such as intervals, planes and many rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deepfls._checks.values import Array, check_finite_table, softmax
from deepfls._files import arrays_under, read_model
from deepfls.data.columns import Columns
from deepfls.data.frames import raw_table
from deepfls.data.scaling import Scaling
from deepfls.kernels.forms import SystemForm, few_outputs

# Multiply-adds of products that BLAS computes in one thread by itself, as in kernels/entrance.py.
_SMALL_WORK = 100_000
_FIELDS = ("centers", "sigmas", "spreads", "heights", "intercepts", "slopes", "mix")
_KNOWN = {"kind", "n_rules", "order", "uncertainty", "type_reduction", "tnorm", "scaling", "n_features", "n_outputs"}
_KNOWN |= {"n_planes", "shared_spread", "centers_within", "n_terms", "max_conditions"}


class NotLightError(Exception):
    """Rows for which the estimator is needed."""


@dataclass(frozen=True)
class LightModel:
    """What predictions need of a fitted estimator, under the same names."""

    columns_: Columns
    table_: dict[str, Any] | None
    target_names_: tuple[str, ...]
    classes_: Array | None
    system_: SystemForm
    parameters: Mapping[str, Array]
    x_scaling: Scaling
    y_scaling: Scaling
    single_target: bool

    def _outputs(self, table: Any) -> Array:
        raw = raw_table(table, self.columns_.names)
        if raw.n_rows * self.system_.work_per_row >= _SMALL_WORK:
            raise NotLightError
        x = self.columns_.encoded(raw, warns=False)
        if np.isnan(x).any() and not self.system_.missing:
            raise NotLightError
        x = self.columns_.encoded(raw)
        check_finite_table("X", x, self.columns_.input_names, missing=True)
        return few_outputs(self.system_, self.parameters, self.x_scaling.apply(x))[:, 2]

    def predict(self, table: Any) -> Array:
        y = self.y_scaling.invert(self._outputs(table))
        return y[:, 0] if self.single_target else y

    def predict_proba(self, table: Any) -> Array:
        return softmax(self._outputs(table))


def light_model(path: Path) -> LightModel | None:
    """The model of a file; None where the estimator is needed, and for a damaged file, whose error ``load`` raises."""
    if os.environ.get("DEEPFLS_KERNELS") == "0":
        return None
    try:
        description, arrays = read_model(path)
        return _model(description, arrays)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _model(description: Mapping[str, Any], arrays: Mapping[str, Array]) -> LightModel | None:
    structure, settings = description["structure"], description["settings"]
    kind = structure["kind"]
    is_plain = set(structure) <= _KNOWN and all(structure.get(name) is None for name in ("n_terms", "max_conditions"))
    is_served = kind == "t1" or (kind == "it2" and not (description["missing"] and structure["uncertainty"] == "h"))
    if not is_plain or not is_served or not description["columns_named"] or settings["missing"] != "auto":
        return None
    if "n_systems" in description:
        return None
    parameters = arrays_under("system.", arrays)
    bounds = parameters.pop("antecedents.bounds", None)
    if bounds is not None:  # within them, raw values are the values
        raw = np.stack([parameters[f"antecedents.raw_{name}"] for name in ("centers", "sigmas")])
        if not ((raw >= bounds[[0, 2]]) & (raw <= bounds[[1, 3]])).all():
            return None
    fields = {name.rpartition("raw_")[2]: name for name in parameters}
    columns = Columns.from_list(description["columns"], named=True)
    if not set(fields) <= set(_FIELDS) or columns.width != structure["n_features"]:
        return None
    if not all(value.dtype == np.float64 and np.isfinite(value).all() for value in parameters.values()):
        return None
    form = SystemForm(
        n_features=structure["n_features"],
        n_rules=structure["n_rules"],
        n_outputs=structure["n_outputs"],
        order=structure["order"],
        is_interval=kind == "it2",
        type_reduction=structure["type_reduction"] if kind == "it2" else "km",
        share=1.0 if description["tnorm"] == "product" else 1.0 / structure["n_features"],
        of_paper=False,
        missing=bool(description["missing"]),
        parameters=fields,
    )
    return LightModel(
        columns_=columns,
        table_=description["table"],
        target_names_=tuple(description.get("target_names", ())),
        classes_=classes_of(description) if "classes" in description else None,
        system_=form,
        parameters=parameters,
        x_scaling=Scaling(**arrays_under("x_scaling.", arrays)),
        y_scaling=Scaling(**arrays_under("y_scaling.", arrays)),
        single_target=bool(description.get("single_target", True)),
    )


def classes_of(description: Mapping[str, Any]) -> Array:
    """The classes of a model file."""
    return np.array(description["classes"], dtype=object if description["classes_dtype"] == "O" else None)
