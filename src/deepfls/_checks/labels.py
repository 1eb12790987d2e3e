"""Targets that are classes: their labels from arrays, lists and series of any library, and what is no class."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from deepfls._checks.arguments import counted
from deepfls._checks.values import Array, check_finite_table, check_targets_given, is_none, without_mask, without_torch


def class_labels(y: Any) -> Array:
    """Classes (rows,) as they are named, each of which can be a class."""
    check_targets_given(y)
    labels = labels_of(y)
    _check_labels(labels)
    return labels


def labels_of(y: Any) -> Array:
    """Classes (rows,) as they are named; numbers and booleans in a column of objects, or nullable ones, are such."""
    y = without_mask(without_torch(y))
    kinds = list(getattr(y, "dtypes", [])) if hasattr(y, "columns") else [getattr(y, "dtype", None)]
    kind = getattr(kinds[0], "numpy_dtype", None) if len(kinds) == 1 else None  # of pandas' nullable and arrow types
    if kind is not None and kind.kind in "biu" and not np.any(y.isna()):
        y = y.astype(kind)
    if isinstance(y, list | tuple) and not _is_uniform(y):
        y = np.array(y, dtype=object)  # NumPy would write NaN and numbers beside text as text
    labels = np.asarray(column_or_1d(y, warn=True))
    if labels.dtype.kind == "S":
        return np.char.decode(labels)
    if labels.dtype.kind in "Mm":
        raise ValueError(_no_classes("dates" if labels.dtype.kind == "M" else "durations"))
    if labels.dtype.kind == "O" and all(isinstance(v, Real) and v == v for v in labels):  # not NaN
        numbers = np.array(labels.tolist())
        return numbers if numbers.dtype.kind in "bif" else labels
    return labels


def _is_uniform(labels: Sequence[Any]) -> bool:
    """Whether NumPy keeps the labels of a list: none is missing, and texts are of the type str and not beside numbers."""
    n_texts = sum(type(label) in (str, np.str_) for label in labels)
    n_others = sum(isinstance(label, str) for label in labels) - n_texts
    return n_texts in (0, len(labels)) and n_others == 0 and not any(map(is_none, labels))


def _check_labels(labels: Array) -> None:
    """Refuse numbers with fractions, missing classes, and classes of several types."""
    if labels.dtype.kind == "f":
        check_finite_table("y", labels)
        fractions = labels[labels != np.rint(labels)]
        if len(fractions):
            raise ValueError(
                f"y must hold classes, got numbers with fractions such as {fractions[0]:g} (Unknown label type: "
                "continuous); FLSRegressor (--task regression) learns numbers."
            )
    if labels.dtype.kind != "O":
        return
    missing = [row for row, label in enumerate(labels) if is_none(label)]
    if missing:
        rows = f"{counted(len(missing), 'such row')} in all"
        raise ValueError(f"y must have a class in every row, got none in row {missing[0]} ({rows}).")
    types = sorted({type(label).__name__ for label in labels})
    if len(types) > 1 and "str" in types:
        raise ValueError(f"y must hold classes of one type, got {' and '.join(types)} (Unknown label type: unknown).")
    if "str" not in types:
        raise ValueError(_no_classes(f"values of the type {types[0]}"))


def _no_classes(got: str) -> str:
    """The error for labels that are no classes, with the words that scikit-learn's checks look for."""
    return (
        f"y must hold text, numbers or booleans as classes, got {got} (Unknown label type: unknown); their texts, such as "
        "pandas.Series(y).astype(str), can be classes."
    )
