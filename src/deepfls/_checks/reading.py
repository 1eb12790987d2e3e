"""Checks of what people ask of a trained system."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_one_row(name: str, x: Any) -> Any:
    """Return a row as a table of one row; a table keeps its names."""
    if hasattr(x, "to_frame") and getattr(x, "ndim", 0) == 1:  # a row of a data frame
        return x.to_frame().T
    if np.ndim(x) == 1:
        return np.reshape(x, (1, -1))
    shape = np.shape(x)
    if len(shape) != 2 or shape[0] != 1:
        raise ValueError(f"{name} must be one row of shape (features,) or (1, features), got {shape}.")
    return x


def check_classes_known(y: Any, classes: Any) -> None:
    """Require classes that a classifier has been trained on."""
    unknown = sorted({str(value) for value in np.asarray(y)[~np.isin(y, classes)].tolist()})
    if unknown:
        raise ValueError(f"y must hold classes the model was trained on, got {unknown[0]!r}.")


def check_targets_have_rows(x: Any, y: Any) -> None:
    """Require rows where true values are given."""
    if x is None and y is not None:
        raise ValueError("X must be given with y, got y alone.")
