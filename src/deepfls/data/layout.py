"""The roles of the columns of a table: numbers, one-hot encoded categories, targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deepfls._checks.samples import Array
from deepfls._checks.values import did_you_mean
from deepfls.data.tables import KINDS, DataTable, TableError, is_number, kind_of, listed, quoted

# A column of more distinct values holds names or identifiers, not categories.
MAX_CATEGORIES = 1_000
# A text column of more distinct values, at least this share of them numbers, is a column of numbers with a wrong value.
_MANY_NUMBERS, _NEARLY_ALL = 20, 0.9


@dataclass(frozen=True)
class Layout:
    """How a table's columns become the inputs and targets of a model."""

    features: tuple[str, ...]  # columns that the model reads, in its order
    # The categories of each one-hot encoded feature; every other feature is a number.
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    targets: tuple[str, ...] = ()  # columns that the model predicts; empty if they are unknown
    target_kind: str = "number"  # what the targets hold: "number", "text" or "boolean"

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns of a CSV to read as text even if they look like numbers."""
        return (*self.categories, *(self.targets if self.target_kind == "text" else ()))

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs of the model: the name of a feature, or ``column=category`` for each category."""
        names = []
        for name in self.features:
            names += [f"{name}={value}" for value in self.categories[name]] if name in self.categories else [name]
        return names

    def as_dict(self) -> dict[str, Any]:
        """The layout as a dictionary for JSON."""
        return {
            "features": list(self.features),
            "categories": {name: list(values) for name, values in self.categories.items()},
            "targets": list(self.targets),
            "target_kind": self.target_kind,
        }

    @classmethod
    def from_dict(cls, content: Any) -> Layout:
        """The layout from the dictionary of :meth:`as_dict`, after a check of its content, which may come from a file."""
        content = content if isinstance(content, dict) else {}
        features, targets = content.get("features"), content.get("targets")
        categories, target_kind = content.get("categories"), content.get("target_kind")
        if not (
            _are_texts(features)
            and _are_texts(targets)
            and isinstance(categories, dict)
            and all(name in features and _are_texts(values) for name, values in categories.items())
            and target_kind in ("number", "text", "boolean")
        ):
            raise TableError("The model's description of its columns is damaged: train the model again.")
        return cls(tuple(features), {name: tuple(v) for name, v in categories.items()}, tuple(targets), target_kind)


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def learn_layout(
    data: DataTable,
    targets: Sequence[str],
    *,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    weight: str | None = None,
    one_hot: bool = False,
) -> Layout:
    """The columns of a model and the categories of its text columns.

    Features are by default all columns except targets, the column of sample weights and columns to drop. With ``one_hot``
    a text column becomes one input per category; without it such a feature is an error.
    """
    data.require(targets, why=" to be the target")
    data.require(features or ())
    data.require(drop, why=" to drop")
    data.require([weight] if weight is not None else [], why=" of weights")
    roles = [*dict.fromkeys(targets), *([weight] if weight is not None else [])]
    for name in (*roles, *(features or ())):
        if name in drop or (name in roles and name in (features or ())) or roles.count(name) > 1:
            raise TableError(f"Column {quoted(name)} must have one role, got two of target, feature, weight and drop.")
    chosen = list(dict.fromkeys(features)) if features else [n for n in data.names if n not in {*roles, *drop}]
    if not chosen:
        raise TableError(f"{data.label} must have a column beside the target to learn from, got none.")
    if features is None and "" in chosen:
        # It is often a row index that was saved with the table, which must not become a feature silently.
        raise TableError(f"{data.label} has a column without a name: give it one, or leave it out with --drop ''.")
    kinds = {name: kind_of(data.column(name).type) for name in chosen}
    words = [name for name in chosen if kinds[name] in ("text", "category")]
    if words and not one_hot:
        _refuse(data, words, "; encode them with --one-hot or leave them out with --drop")
    for kind in ("date", "empty", "bytes", "nested"):
        wrong = [name for name in chosen if kinds[name] == kind]
        if wrong:
            _refuse(data, wrong, "; leave them out with --drop" if kind != "bytes" else "; save the file as UTF-8")
    categories = {name: _categories(data, name) for name in words}
    target_kinds = {kind_of(data.column(name).type) for name in targets}
    target_kinds = {"text" if kind == "category" else kind for kind in target_kinds}
    for name in targets:
        if kind_of(data.column(name).type) in ("date", "empty", "bytes", "nested"):
            _refuse(data, [name], "")
    if len(targets) > 1 and target_kinds != {"number"}:
        raise TableError(f"Several targets must all hold numbers, got {KINDS[min(target_kinds - {'number'})]} in one.")
    layout = Layout(tuple(chosen), categories, tuple(dict.fromkeys(targets)), target_kinds.pop())
    names = layout.input_names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TableError(f"One-hot encoding would make a second input {quoted(twice)}: rename that column.")
    return layout


def _refuse(data: DataTable, names: Sequence[str], advice: str) -> None:
    """Raise an error for columns of a kind that cannot be used, with the first value that shows it."""
    column = data.column(names[0])
    kind = kind_of(column.type)
    example = ""
    if kind in ("text", "category"):
        row, value, _ = _first_text(column)
        row, value = (row, value) if row >= 0 else (0, column[0].as_py())
        example = f" ({quoted(value)} in {data.place(row)})"
    if len(names) == 1:
        advice = advice.replace("them", "it")
    columns = f"Column{'s' if len(names) > 1 else ''} {listed(names)} of {data.label}"
    raise TableError(f"{columns} must hold numbers, got {KINDS[kind]}{example}{advice}.")


def _categories(data: DataTable, name: str) -> tuple[str, ...]:
    """The distinct values of a text column, sorted."""
    column = texts(data, name)
    values = sorted(column.unique().to_pylist())
    row, value, share = _first_text(column)
    if row >= 0 and len(values) > _MANY_NUMBERS and share >= _NEARLY_ALL:
        raise TableError(
            f"Column {quoted(name)} of {data.label} must hold numbers or categories, got numbers with {quoted(value)} in "
            f"{data.place(row)}; fix that value or leave the column out with --drop."
        )
    if len(values) > MAX_CATEGORIES:
        raise TableError(
            f"Column {quoted(name)} of {data.label} must have at most {MAX_CATEGORIES:,} categories, got {len(values):,}; "
            "leave it out with --drop."
        )
    return tuple(values)


def texts(data: DataTable, name: str) -> pa.ChunkedArray:
    """A column as text; a missing value is an error."""
    column = data.column(name)
    kind = kind_of(column.type)
    if kind in ("bytes", "nested"):
        raise TableError(f"Column {quoted(name)} of {data.label} must hold text, got {KINDS[kind]}.")
    column = column.cast(pa.string())
    require_rows(data, name, "text", pc.fill_null(pc.equal(pc.utf8_trim_whitespace(column), ""), True))
    return column


def numbers(data: DataTable, name: str) -> Array:
    """A column as float64; a missing or infinite value is an error."""
    column = data.column(name)
    if kind_of(column.type) not in ("number", "boolean"):
        _refuse(data, [name], "")
    require_rows(data, name, "a number", pc.is_null(column, nan_is_null=pa.types.is_floating(column.type)))
    # safe=False: integers above 2^53 are rounded, as in any float64 table.
    values = np.asarray(column.cast(pa.float64(), safe=False).to_numpy())
    require_rows(data, name, "a finite number", ~np.isfinite(values), values)
    return values


def require_rows(data: DataTable, name: str, rule: str, wrong: Any, values: Array | None = None) -> None:
    """Raise an error if rows of a column are ``wrong`` (rows,): missing values, or those of ``values``."""
    wrong = np.asarray(wrong)
    count = int(wrong.sum())
    if count == 0:
        return
    row = int(np.argmax(wrong))
    got = "a missing value" if values is None else f"{values[row]:g}"
    more = f" ({count:,} such rows)" if count > 1 else ""
    raise TableError(
        f"Column {quoted(name)} of {data.label} must have {rule} in every row, got {got} in {data.place(row)}{more}."
    )


def inputs(data: DataTable, layout: Layout) -> pa.Table:
    """The inputs of a model as float64 columns, named as in ``layout.input_names``."""
    data.require(layout.features, why=" that the model reads")
    columns = []
    for name in layout.features:
        if name not in layout.categories:
            columns.append(numbers(data, name))
            continue
        known = layout.categories[name]
        column = texts(data, name)
        codes = pc.index_in(column, pa.array(known, pa.string()))
        if codes.null_count:
            row = pc.index(pc.is_null(codes), pa.scalar(True)).as_py()
            value = str(column[row].as_py())
            raise TableError(
                f"Column {quoted(name)} of {data.label} must hold one of the categories {listed(known)} the model was "
                f"trained on, got {quoted(value)} in {data.place(row)}.{did_you_mean(value, known)}"
            )
        positions = np.asarray(codes.to_numpy())
        columns += [(positions == place).astype(np.float64) for place in range(len(known))]
    return pa.table(dict(zip(layout.input_names, columns, strict=True)))


def targets(data: DataTable, layout: Layout, *, classes: bool) -> Array:
    """The targets: (rows,) for one, (rows, targets) for several; text for classes that are not numbers.

    With ``classes`` integers are names of classes and keep their type.
    """
    data.require(layout.targets, why=" to be the target")
    if layout.target_kind == "number":
        columns = [numbers(data, name) for name in layout.targets]
        if classes and all(np.all(column == np.rint(column)) for column in columns):
            columns = [column.astype(np.int64) for column in columns]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
    return np.asarray(texts(data, layout.targets[0]).to_pylist(), dtype=str)


def _first_text(column: pa.ChunkedArray) -> tuple[int, str, float]:
    """Row and value of the first text that is not a number, and the share of distinct values that are numbers."""
    values = [value for value in column.cast(pa.string()).unique().to_pylist() if value is not None]
    texts = [value for value in values if not is_number(value)]
    if not texts:
        return -1, "", 1.0
    row = int(pc.index(column.cast(pa.string()), pa.scalar(texts[0])).as_py())
    return row, texts[0], 1.0 - len(texts) / len(values)
