"""The pushes of the inputs on many rows as the columns of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepfls._checks.values import Array
from deepfls.inspection.explanation import reference_row
from deepfls.inspection.plain import rule_weights
from deepfls.inspection.plain_model import PlainModel, one_row, rows_of
from deepfls.inspection.pushes import pushes_of_rows
from deepfls.inspection.words import read_inputs

if TYPE_CHECKING:
    import pyarrow as pa

    from deepfls.estimators.base import FLSEstimator


def explained_rows(estimator: FLSEstimator, X: Any, *, reference: Any = None) -> dict[str, Any]:
    """The pushes of every input in every row as columns; :meth:`FLSEstimator.explain` names them."""
    s = PlainModel.of(estimator)
    x = rows_of(estimator, X)
    start = reference_row(estimator, s) if reference is None else one_row(estimator, "reference", reference)
    pushes = pushes_of_rows(s, x, start)
    # The rules of several systems stand one after another.
    parts = zip(s.shares, s.systems, strict=True)
    weights = np.concatenate([share * rule_weights(system, x).crisp.mean(axis=2) for share, system in parts], axis=1)
    strongest = weights.argmax(axis=1) + 1
    familiarity = estimator.familiarity(X)
    inputs = read_inputs(s.feature_names, s.columns)
    pushes = np.stack([pushes[:, first:end].sum(axis=1) for _, first, end, _ in inputs], axis=1)
    values: list[Array] = [
        x[:, first] if column is None else np.array([column.category(row[first:end]) for row in x], dtype=object)
        for _, first, end, column in inputs
    ]
    n_rows, n_inputs, n_outputs = pushes.shape
    names = np.array([name for name, *_ in inputs], dtype=object)
    columns: dict[str, Any] = {"row": np.repeat(np.arange(n_rows), n_inputs * n_outputs)}
    if n_outputs > 1:
        columns["output"] = np.tile(np.repeat(np.array(s.output_names, dtype=object), n_inputs), n_rows)
    return columns | {
        "input": np.tile(names, n_rows * n_outputs),
        "value": np.repeat(np.stack(values, axis=1)[:, np.newaxis], n_outputs, axis=1).ravel(),
        "push": pushes.transpose(0, 2, 1).ravel(),
        "strongest_rule": np.repeat(strongest, n_inputs * n_outputs),
        "familiarity": np.repeat(familiarity, n_inputs * n_outputs),
    }


def frame_of(columns: dict[str, Any]) -> Any:
    """A pandas frame of columns, or a pyarrow table where pandas is not installed."""
    try:
        import pandas as pd
    except ImportError:
        return arrow_table(columns)
    return pd.DataFrame(columns)


def arrow_table(columns: dict[str, Any]) -> pa.Table:
    """A pyarrow table of columns; those that hold texts and numbers become texts."""
    import pyarrow as pa

    return pa.table({name: list(map(str, v)) if v.dtype == object else pa.array(v) for name, v in columns.items()})
