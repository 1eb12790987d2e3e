"""Checks of tables and targets as NumPy arrays, and functions of arrays that several folders need."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from deepfls._checks.arguments import counted

Array = np.ndarray[Any, np.dtype[Any]]  # the type of an array in the whole package

# Largest magnitude of a number in a table.
LARGEST = 1e150
# Rows that are checked together. The temporary arrays are then small for a large table as well.
_CHECKED_ROWS = 16_384


def check_finite_table(name: str, values: Array, columns: Sequence[str] | None = None, *, missing: bool = False) -> None:
    """Require finite numbers in a table (rows, columns) or a vector; an error names the first wrong one. Reads values.

    With ``missing`` NaN is allowed.
    """
    # Numbers above the limit are refused like infinite ones, because sums of their squares overflow.
    parts = (values[first : first + _CHECKED_ROWS] for first in range(0, len(values), _CHECKED_ROWS))
    if all((np.abs(part) <= LARGEST).all() for part in parts):
        return
    bad = np.abs(values) > LARGEST if missing else ~(np.abs(values) <= LARGEST)
    if not bad.any():
        return
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    value = values[at]
    rule = f"within ±{LARGEST:g}" if np.isfinite(value) else "finite"
    got = "NaN" if np.isnan(value) else f"{value:g}"
    where = f"row {at[0]}"
    if len(at) > 1:
        where += f", column {at[1] if columns is None else repr(str(columns[at[1]]))}"
    advice = "; NaN in its place counts as a missing value" if missing else ""
    n_bad = counted(int(bad.sum()), "such value")
    raise ValueError(f"{name} must be {rule}, got {got} in {where} ({n_bad} in all){advice}.")


def without_torch(values: Any) -> Any:
    """A tensor of torch, of any device, layout and type, as an array of NumPy; anything else as it is."""
    if not (hasattr(values, "detach") and hasattr(values, "is_floating_point")):
        return values
    try:
        found = values.detach().cpu().to_dense()
        return (found.double() if found.is_floating_point() else found).numpy()
    except (NotImplementedError, RuntimeError, TypeError):  # quantised, nested, without values
        kind = f"{values.dtype} on the device {str(values.device)!r}"
        raise TypeError(f"A tensor must have values that NumPy can hold, got one of {kind}.") from None


def without_mask(values: Any) -> Any:
    """A masked array of NumPy as an ordinary one, with NaN, NaT or None for what is masked; anything else as it is."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if not np.ma.is_masked(values):
        return values.data
    if values.dtype.kind in "Mm":
        return values.filled(values.dtype.type("NaT"))
    missing: Any
    kind, missing = (np.float64, np.nan) if values.dtype.kind in "iuf" else (object, None)
    return np.where(np.ma.getmaskarray(values), missing, values.data.astype(kind))


def is_none(value: Any) -> bool:
    """Whether a Python value means that there is none: None, NaN, and what pandas has for them."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def comparable(values: Array) -> Array:
    """Values with infinity in place of NaN, which is not equal to itself."""
    unknown = np.isnan(values)
    return np.where(unknown, np.inf, values) if unknown.any() else values


def fold_rows(choose: Callable[..., Array], values: Array) -> Array:
    """``choose(values, axis=0)`` for a function such as np.sum and values (rows, columns), one of each column.

    NumPy goes through few columns ten times slower than through many, so several rows are first taken for one.
    """
    n_together = max(1, min(1_024 // max(values.shape[1], 1), len(values)))
    n_folded = len(values) - len(values) % n_together
    folded, rest = values[:n_folded].reshape(-1, n_together * values.shape[1]), values[n_folded:]
    return choose(np.concatenate([choose(folded, axis=0).reshape(n_together, -1), rest]), axis=0)


def ends_of_columns(values: Array) -> Array:
    """Smallest and largest value of each column, (2, columns); NaN where a value is NaN."""
    return np.stack([fold_rows(np.min, values), fold_rows(np.max, values)])


def known_mean(values: Array) -> Array:
    """Mean over the values of each column that are not NaN, (columns,); 0 where none is."""
    unknown = np.isnan(values)
    if not unknown.any():
        return values.mean(axis=0)
    return np.where(unknown, 0.0, values).sum(axis=0) / np.maximum((~unknown).sum(axis=0), 1)


def evenly_spaced(n_rows: int, at_most: int) -> slice:
    """At most ``at_most`` evenly spaced rows, as a slice.

    Examples
    --------
    >>> list(range(10))[evenly_spaced(10, 4)], list(range(3))[evenly_spaced(3, 4)]
    ([0, 3, 6, 9], [0, 1, 2])
    """
    return slice(None, None, max(1, -(-n_rows // at_most)))


def softmax(logits: Array) -> Array:
    """Probabilities of classes along the last axis."""
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=-1, keepdims=True))


def check_targets_given(y: Any) -> None:
    """Require a target that is not a sparse matrix."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None.")
    if hasattr(y, "toarray") and hasattr(y, "nnz"):
        raise TypeError("y must be dense, got a sparse matrix: y.toarray() makes an array of it.")


def check_number_targets(y: Any) -> Array:
    """Return targets as float64, (rows,) or (rows, outputs)."""
    check_targets_given(y)
    values = np.asarray(without_mask(without_torch(y)))
    if values.dtype.kind == "c":
        raise ValueError("y must hold real numbers, got: Complex data not supported.")
    if values.dtype.kind in "Mm":
        raise ValueError("y must hold numbers, got dates or durations: convert them to numbers, such as days, first.")
    if values.ndim not in (1, 2) or (values.ndim == 2 and values.shape[1] < 1):
        raise ValueError(f"y must have shape (rows,) or (rows, outputs), got {values.shape}.")
    if values.dtype.kind == "O":
        values = np.where(np.frompyfunc(is_none, 1, 1)(values).astype(bool), np.nan, values)
    try:
        return values.astype(np.float64)
    except OverflowError:
        raise ValueError(f"y must be within ±{LARGEST:g}, got a whole number of more digits than a float holds.") from None
    except (TypeError, ValueError) as error:
        is_text = "string to float" in str(error)
        wrong = next((value for value in values.flat if not hasattr(value, "__float__")), values.flat[0])
        got = f"text ({quoted_text(error)})" if is_text else f"values of the type {type(wrong).__name__}"
        raise ValueError(f"y must hold numbers, got {got}; FLSClassifier learns classes.") from None


def check_same_length(x: Any, y: Any) -> None:
    """Require as many targets as rows."""
    if len(x) != len(y):
        raise ValueError(f"X and y must have the same number of rows, got {len(x)} and {len(y)}.")


def quoted_text(error: Exception) -> str:
    """The text of a "could not convert string to float: ..." error, in quotes, the first 80 characters."""
    text = re.sub(r"^np\.(?:str|bytes)_\((.*)\)$", r"\1", str(error).split(": ", 1)[-1], flags=re.DOTALL).removeprefix("b")
    return text if len(text) <= 82 else f"{text[:81]}…'"
