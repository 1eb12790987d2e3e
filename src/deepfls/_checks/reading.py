"""Checks of what people ask of a trained system."""

from __future__ import annotations

from typing import Any

import numpy as np

from deepfls._checks.samples import check_finite_table, check_number_targets


def check_one_row(name: str, x: Any, n_features: int) -> Any:
    """Return a row as a table of one row: a frame with its names, anything else as an array."""
    if hasattr(x, "to_frame") and getattr(x, "ndim", 0) == 1:  # a row of a data frame
        x = x.to_frame().T
    shape = (1, *np.shape(x)) if np.ndim(x) == 1 else np.shape(x)
    if shape != (1, n_features):
        raise ValueError(
            f"{name} must be one row of shape (features,) or (1, features) with features={n_features}, got {np.shape(x)}."
        )
    return x if hasattr(x, "columns") or hasattr(x, "column_names") else np.reshape(np.asarray(x), shape)


def check_classes_known(y: Any, classes: Any) -> None:
    """Require classes that a classifier has been trained on."""
    unknown = sorted({str(value) for value in np.asarray(y)[~np.isin(y, classes)].tolist()})
    if unknown:
        raise ValueError(f"y must hold classes the model was trained on, got {unknown[0]!r}.")


def check_targets_of(y: Any, n_rows: int, n_outputs: int) -> np.ndarray[Any, Any]:
    """Return true values (rows, outputs) of a regressor for so many rows: finite numbers."""
    if len(y) != n_rows:
        raise ValueError(f"X and y must have the same number of rows, got {n_rows} and {len(y)}.")
    values = check_number_targets(y)
    check_finite_table("y", values)
    if values.size != n_rows * n_outputs:
        raise ValueError(f"y must have {n_outputs} column(s) for this model, got shape {values.shape}.")
    return values.reshape(n_rows, n_outputs)


def check_targets_have_rows(x: Any, y: Any) -> None:
    """Require rows where true values are given."""
    if x is None and y is not None:
        raise ValueError("X must be given with y, got y alone.")
