"""Arguments of the functions of this folder: rows, true values and names, checked and as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deepfls._checks.samples import check_finite_table, check_number_targets, check_same_length
from deepfls._checks.values import check_count, check_option
from deepfls.data.raw import raw_table
from deepfls.inspection.plain import Array
from deepfls.inspection.plain_model import AnyModel

if TYPE_CHECKING:
    from deepfls.estimators.base import FLSEstimator


def rows_of(estimator: FLSEstimator, X: Any) -> Array:
    """Rows (rows, features) of finite numbers, with the columns that the estimator was fitted on."""
    return estimator._known_x(X)


def one_row(estimator: FLSEstimator, name: str, x: Any) -> Array:
    """One row (features,) of numbers for a fitted estimator, from a row of a frame, a list or a table of one row."""
    n_columns = estimator.n_features_in_
    if hasattr(x, "to_frame") and getattr(x, "ndim", 0) == 1:  # a row of a data frame
        x = x.to_frame().T.infer_objects()
    given = tuple(x.shape) if hasattr(x, "shape") else np.shape(x)  # an array of all columns may not exist
    shape = (1, *given) if len(given) == 1 else given
    if shape != (1, n_columns):
        raise ValueError(
            f"{name} must be one row of shape (features,) or (1, features) with features={n_columns}, got {given}."
        )
    if hasattr(x, "columns") or hasattr(x, "column_names"):
        return np.ascontiguousarray(rows_of(estimator, x)[0])
    # scikit-learn's warning about missing column names is left out: a single row is commonly given as a list.
    values = np.reshape(np.asarray(x, dtype=object), shape)
    row = estimator.columns_.encoded(raw_table(values, estimator.columns_.names))
    check_finite_table(name, row, missing=estimator.missing == "auto")
    return row[0]


def check_rows_given(X: Any, y: Any) -> None:
    """Require rows where true values are given."""
    if X is None and y is not None:
        raise ValueError("X must be given with y, got y alone.")


def true_values(plain: AnyModel, x: Array, y: Any) -> Array:
    """True values for rows x: classes (rows,) of a classifier, finite numbers (rows, outputs) of a regressor."""
    check_same_length(x, y)
    if plain.classes is not None:
        return np.asarray(y)
    values = check_number_targets(y)
    check_finite_table("y", values)
    if values.size != len(x) * plain.n_outputs:
        raise ValueError(f"y must have {plain.n_outputs} column(s) for this model, got shape {values.shape}.")
    return values.reshape(len(x), plain.n_outputs)


def index_of(name: int | str, names: Sequence[str], argument: str) -> int:
    """The index of an input or output that is given by index or name."""
    if isinstance(name, str):
        return list(names).index(check_option(argument, name, tuple(names)))
    return check_count(argument, name, 0, len(names) - 1)
