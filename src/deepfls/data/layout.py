"""Which columns of a table are inputs and which are targets, and the values of the targets.

What the inputs are and how they become numbers is decided by :mod:`deepfls.data.learning`.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from deepfls._checks.arguments import counted, left_out, quoted
from deepfls._checks.values import LARGEST, Array
from deepfls.data.columns import distinct_texts, without_sentinels
from deepfls.data.frames import KINDS, kind_of, number_array
from deepfls.data.tables import DataTable, TableError
from deepfls.data.written import DOUBTFUL, NumberStyle, is_missing_text, number_of, number_style

# Different texts from which a target of numbers with a word among them is not a list of classes.
_MANY_TEXTS = 20
_AS_CLASSES = "; --task classification takes it as classes, and an empty value as missing"


@dataclass(frozen=True)
class Layout:
    """How a table's columns become the inputs, targets and weights of a model."""

    features: tuple[str, ...]  # columns that the model reads, in its order
    targets: tuple[str, ...] = ()  # columns that the model predicts; empty if they are unknown
    target_kind: str = "number"  # what the targets hold: "number", "text" or "boolean"
    # What follows is no part of a model's description: its estimator has these settings.
    weight: str | None = None
    missing_values: Sequence[str] | None = None  # texts and numbers that mean a missing value
    decimal: str = "auto"

    def as_dict(self) -> dict[str, Any]:
        """The description of a model's columns for JSON."""
        return {"features": list(self.features), "targets": list(self.targets), "target_kind": self.target_kind}

    @classmethod
    def from_dict(cls, content: Any) -> Layout:
        """The layout from the dictionary of :meth:`as_dict`, after a check of its content, which may come from a file."""
        content = content if isinstance(content, dict) else {}
        features, targets, target_kind = (content.get(name) for name in ("features", "targets", "target_kind"))
        if content.get("categories"):
            raise TableError("The model was trained with --one-hot, which this version does not support: train it again.")
        if not (_are_texts(features) and _are_texts(targets) and target_kind in ("number", "text", "boolean")):
            raise TableError("The model's description of its columns is damaged: train the model again.")
        return cls(tuple(features), tuple(targets), target_kind)


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def learn_layout(
    data: DataTable,
    target: Sequence[str],
    *,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    weight: str | None = None,
    decimal: str = "auto",
    missing_values: Sequence[str] | None = None,
) -> Layout:
    """The columns of a model: features are by default all but targets, sample weights and columns to drop.

    A column without a name, often a row index that was saved with the table, is left out unless it is chosen.
    """
    roles = [*dict.fromkeys(target), *([] if weight is None else [weight])]
    for names, why in ((target, " to be the target"), (features, ""), (drop, " to drop"), (roles, " of weights")):
        data.require(names or (), why)
    given = [*roles, *dict.fromkeys(features or ()), *dict.fromkeys(drop)]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise TableError(f"Column {quoted(twice)} must have one role, got two of target, feature, weight and drop.")
    chosen = list(dict.fromkeys(features)) if features else [name for name in data.names if name not in given]
    if features is None and "" in chosen:
        chosen.remove("")
        if kind_of(data.column("").type) != "empty":  # not a delimiter at the end of every row
            warnings.warn("The column without a name is left out, as a row index; give it a name to use it.", stacklevel=3)
    if not chosen:
        raise TableError(f"{data.label} must have a column beside the target to learn from, got none.")
    layout = Layout(tuple(chosen), tuple(dict.fromkeys(target)), "number", weight, missing_values, decimal)
    kinds = [_target_kind(data, name, layout) for name in layout.targets]
    wrong = [(name, kind) for name, kind in zip(layout.targets, kinds, strict=True) if kind != "number"]
    if len(kinds) > 1 and wrong:
        name, kind = wrong[0]
        raise TableError(f"Several targets must all hold numbers, got {KINDS[kind]} in column {quoted(name)}.")
    return replace(layout, target_kind=kinds[0])


def _target_kind(data: DataTable, name: str, layout: Layout) -> str:
    """What a target holds; a warning states how numbers are read from text."""
    kind = kind_of(data.column(name).type)
    if kind in ("date", "empty", "bytes", "nested"):
        raise TableError(
            f"Column {quoted(name)} of {data.label} must hold numbers or classes, got {KINDS[kind]}; choose another "
            "column with --target."
        )
    style = _number_style(data, name, layout) if kind == "text" else None
    for fact in [] if style is None else style.facts:
        warnings.warn(f"Column {quoted(name)} {fact}.", stacklevel=4)
    return "number" if style is not None else "text" if kind == "category" else kind


_NO_LAYOUT = Layout(())


def table_decimal(data: DataTable) -> str:
    """The decimal mark of a table where its columns agree on the comma, else "auto", which decides column by column."""
    texts = (name for name in data.names if kind_of(data.column(name).type) == "text")
    styles = (number_style(distinct_texts(data.column(name), None)[0]) for name in texts)
    marks = {style.decimal for style in styles if style is not None and style.sure and style.marks}
    return "," if marks == {","} else "auto"


def _number_style(data: DataTable, name: str, layout: Layout) -> NumberStyle | None:
    """How a text column of targets or weights writes numbers; None for classes.

    Nearly all texts must be numbers; few different ones with a word among them, or with a unit, are classes.
    """
    missing = layout.missing_values or ()
    distinct = [text for text in distinct_texts(data.column(name), None)[0] if not is_missing_text(text, missing)]
    style = number_style(distinct, layout.decimal)
    if style is None or ((style.wrong or style.unit) and len(distinct) <= _MANY_TEXTS):
        return None
    return style


def numbers(data: DataTable, name: str, layout: Layout = _NO_LAYOUT, hint: str = "") -> Array:
    """A column as float64, NaN where a value is missing; numbers may be written as text.

    ``hint`` is what an error advises for a column of text.
    """
    column = data.column(name)
    kind = kind_of(column.type)
    if kind == "text":
        distinct, places = distinct_texts(column, None)
        style = _number_style(data, name, layout)
        if style is not None:
            return np.array([*map(style.number, distinct), None], dtype=np.float64)[places]
        wrong = next((text for text in distinct if number_of(text) is None), None)
        shown = (
            "" if wrong is None else f" ({quoted(wrong)} in {data.place(int(np.argmax(places == distinct.index(wrong))))})"
        )
        raise TableError(f"Column {quoted(name)} of {data.label} must hold numbers, got text{shown}{hint}.")
    if kind not in ("number", "boolean"):
        raise TableError(f"Column {quoted(name)} of {data.label} must hold numbers, got {KINDS[kind]}.")
    values = number_array(column.cast(pa.float64(), safe=False))
    _require_finite(data, name, values)
    return values


def weights(data: DataTable, layout: Layout) -> Array | None:
    """The sample weights, none of them negative, one of them positive; NaN where a value is missing. None without any."""
    if layout.weight is None:
        return None
    values = numbers(data, layout.weight, layout)
    require_rows(data, layout.weight, "a weight of at least 0", values < 0, values)
    if not (values > 0).any():
        raise TableError(f"Column {quoted(layout.weight)} of {data.label} must have a weight greater than 0, got none.")
    return values


def has_targets(data: DataTable, layout: Layout, *, trains: bool = True) -> Array:
    """Which rows have a value in every target column, (rows,).

    Unless the rows are those that a model ``trains`` on, errors advise no option of a training.
    """
    found = np.ones(data.n_rows, dtype=bool)
    for name in layout.targets:
        column = data.column(name)
        kind = kind_of(column.type)
        if kind in ("text", "category"):
            found &= distinct_texts(column, layout.missing_values)[1] >= 0
            if kind == "text" and layout.target_kind == "number":
                found &= ~np.isnan(numbers(data, name, layout, _AS_CLASSES if trains else ""))
        elif kind == "number":
            found &= ~np.isnan(without_sentinels(number_array(column), layout.missing_values))
        else:
            found &= data.known([name])
    return found


def with_targets(
    data: DataTable, layout: Layout, nulls: str = "drop", *, is_part: bool = False, trains: bool = True
) -> DataTable:
    """The rows that have a target and a weight; a warning counts the others, or an error where ``nulls`` is "error".

    A table without any such row is an error. One that ``is_part`` of a larger table may have none, and gives no warning.
    ``trains`` is that of :func:`has_targets`.
    """
    known = has_targets(data, layout, trains=trains)
    for name in layout.targets:
        if pa.types.is_floating(data.column(name).type):
            values = np.where(known, number_array(data.column(name)), np.nan)
            option = "--missing-values inf" if trains else "an empty value in its place"
            _require_finite(data, name, values, f"; {option} leaves such rows out")
    weight = weights(data, layout)
    what = "a target"
    if weight is not None and np.isnan(weight).any():
        what, known = "a target or a weight", known & ~np.isnan(weight)
    n_missing = int((~known).sum())
    if n_missing == 0:
        return data
    if nulls == "error":
        got = f"{counted(n_missing, 'row')} without {what}"
        raise TableError(
            f"{data.label} must have {what.replace(' or ', ' and ')} in every row, got {got}, the first in "
            f"{data.place(int(np.argmin(known)))}; --nulls drop leaves such rows out."
        )
    if not is_part:
        if n_missing == data.n_rows:
            name = quoted(layout.targets[0])
            raise TableError(f"{data.label} must have rows with a target, got no value in column {name}.")
        hint = _class_hint(data, layout) if layout.missing_values is None and trains else ""
        warnings.warn(f"{left_out(n_missing, what)}{hint}.", stacklevel=3)
    return data.filtered(known)


def _class_hint(data: DataTable, layout: Layout) -> str:
    """How to keep a text such as - as a class, where it counts as a missing target."""
    if layout.target_kind != "text":
        return ""
    texts = distinct_texts(data.column(layout.targets[0]), ())[0]
    doubtful = [text for text in DOUBTFUL if text in texts and "+" not in texts]
    return f"; --missing-values '' takes {quoted(doubtful[0])} as a class" if doubtful else ""


def require_rows(data: DataTable, name: str, rule: str, wrong: Any, values: Array | None = None, hint: str = "") -> None:
    """Raise an error if rows of a column are ``wrong`` (rows,): missing values, or those of ``values``."""
    wrong = np.asarray(wrong)
    count = int(wrong.sum())
    if count == 0:
        return
    row = int(np.argmax(wrong))
    got = "a missing value" if values is None else f"{values[row]:g}"
    more = f" ({count:,} such rows)" if count > 1 else ""
    raise TableError(
        f"Column {quoted(name)} of {data.label} must have {rule} in every row, got {got} in {data.place(row)}{more}{hint}."
    )


def _require_finite(data: DataTable, name: str, values: Array, hint: str = "") -> None:
    wrong = np.abs(values) > LARGEST
    if wrong.any():
        rule = f"a number within ±{LARGEST:g}" if np.isfinite(values[np.argmax(wrong)]) else "a finite number"
        require_rows(data, name, rule, wrong, values, hint)


def inputs(data: DataTable, layout: Layout, hint: str = "; --missing-values inf counts it as missing") -> pa.Table:
    """The inputs of a model, as they are in the table; an infinite number that does not mean a missing one is an error.

    ``hint`` is what the error advises.
    """
    data.require(layout.features, why=" that the model reads")
    for name in layout.features:
        if pa.types.is_floating(data.column(name).type):
            values = without_sentinels(number_array(data.column(name)), layout.missing_values)
            _require_finite(data, name, values, hint)
    return data.table.select(list(layout.features))


def targets(data: DataTable, layout: Layout, *, classes: bool) -> Array:
    """The targets of rows that have them: (rows,) for one, (rows, targets) for several; text for classes of text.

    With ``classes`` integers are names of classes and keep their type.
    """
    data.require(layout.targets, why=" to be the target")
    if layout.target_kind == "number":
        columns = [numbers(data, name, layout, _AS_CLASSES) for name in layout.targets]
        for name, column in zip(layout.targets, columns, strict=True):
            require_rows(data, name, "a number", np.isnan(column))
        if classes and all(np.all(column == np.rint(column)) for column in columns):
            columns = [column.astype(np.int64) for column in columns]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
    # Which texts mean a missing target is decided before: `with_targets` leaves such rows out.
    distinct, places = distinct_texts(data.column(layout.targets[0]), (), strip=False)
    require_rows(data, layout.targets[0], "text", places < 0)
    return np.array(distinct, dtype=str)[places]


def class_targets(data: DataTable, layout: Layout) -> Array:
    """The classes of rows that have them, (rows,); an error where they are numbers with fractions."""
    labels = targets(data, layout, classes=True)
    if labels.dtype.kind == "f":
        fraction = float(labels[labels != np.rint(labels)][0])
        raise TableError(
            f"Column {quoted(layout.targets[0])} of {data.label} must hold classes, got numbers with fractions such as "
            f"{fraction:g}; FLSRegressor (--task regression) learns numbers."
        )
    return labels


def warn_of_copies(x: pa.Table, y: Array) -> None:
    """Warn of inputs that are the target under another name."""
    if y.ndim > 1 or len(y) < 2:
        return
    for field in x.schema:
        if kind_of(field.type) == ("text" if y.dtype.kind == "U" else "number"):
            first = x.column(field.name)[0].as_py()
            values = x.column(field.name).to_numpy() if first == y[0] else y[:0]
            if len(values) == len(y) and (values == y).all():
                warnings.warn(
                    f"Column {quoted(field.name)} equals the target in every row; --drop {shlex.quote(field.name)} leaves "
                    "it out of the inputs.",
                    stacklevel=2,
                )
