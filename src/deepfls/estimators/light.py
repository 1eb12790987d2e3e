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
from deepfls._files import read_model
from deepfls.data.columns import Columns
from deepfls.data.frames import raw_table
from deepfls.data.scaling import Scaling
from deepfls.kernels.forms import SystemForm, few_outputs

# Multiply-adds of products that BLAS computes in one thread by itself, as in kernels/entrance.py.
_SMALL_WORK = 100_000
_FIELDS = ("centers", "sigmas", "spreads", "heights", "intercepts", "slopes", "mix")
_KNOWN = {"kind", "n_rules", "order", "uncertainty", "type_reduction", "tnorm", "scaling", "n_features", "n_outputs"}
_KNOWN |= {"n_planes", "shared_spread", "centers_within"}
# Settings of systems that are more than their raw parameters, as they are without them.
_PLAIN: dict[str, Any] = {"n_terms": None, "max_conditions": None}
_SYSTEM = "system."


class NotLightError(Exception):
    """Rows that this module does not serve."""


@dataclass(frozen=True)
class LightModel:
    """What predictions need of a fitted estimator, under the same names."""

    columns_: Columns
    table_: dict[str, Any] | None
    target_names_: tuple[str, ...]
    classes_: Array | None
    form: SystemForm
    parameters: Mapping[str, Array]
    x_scaling: Scaling
    y_scaling: Scaling
    single_target: bool

    @property
    def system_(self) -> SystemForm:
        return self.form

    def _outputs(self, table: Any) -> Array:
        raw = raw_table(table, self.columns_.names)
        if raw.n_rows * self.form.work_per_row >= _SMALL_WORK:
            raise NotLightError
        x = self.columns_.encoded(raw, tell=False)
        if np.isnan(x).any() and not self.form.missing:
            raise NotLightError
        x = self.columns_.encoded(raw)
        check_finite_table("X", x, self.columns_.input_names, missing=True)
        return few_outputs(self.form, self.parameters, self.x_scaling.apply(x))[:, 2]

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
    if not set(structure) <= _KNOWN | set(_PLAIN):
        return None
    if any(structure.get(name, value) != value for name, value in _PLAIN.items()):
        return None
    is_served = kind == "t1" or (kind == "it2" and not (description["missing"] and structure["uncertainty"] == "h"))
    if not is_served or not description["columns_named"] or settings["missing"] != "auto":
        return None
    if "n_systems" in description:
        return None
    parameters = {name.removeprefix(_SYSTEM): value for name, value in arrays.items() if name.startswith(_SYSTEM)}
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
    x_scaling, y_scaling = (
        Scaling(**{part.removeprefix(f"{name}."): value for part, value in arrays.items() if part.startswith(f"{name}.")})
        for name in ("x_scaling", "y_scaling")
    )
    classes = None
    if "classes" in description:
        classes = np.array(description["classes"], dtype=object if description["classes_dtype"] == "O" else None)
    return LightModel(
        columns_=columns,
        table_=description["table"],
        target_names_=tuple(description.get("target_names", ())),
        classes_=classes,
        form=form,
        parameters=parameters,
        x_scaling=x_scaling,
        y_scaling=y_scaling,
        single_target=bool(description.get("single_target", True)),
    )
