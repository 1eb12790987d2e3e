"""A fitted estimator together with the columns of its tables: inputs from a table, predictions as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from deepfls._checks.samples import Array
from deepfls.data.layout import Layout, inputs, numbers, targets
from deepfls.data.tables import DataTable, TableError, quoted

if TYPE_CHECKING:
    from deepfls.estimators.classifier import FLSClassifier
    from deepfls.estimators.regressor import FLSRegressor


def layout_of(estimator: FLSRegressor | FLSClassifier) -> Layout:
    """The columns that an estimator was fitted to; without targets for one that was fitted to arrays."""
    table = getattr(estimator, "table_", None)
    names = estimator.columns_.names if estimator.columns_.named else []
    if table is None:
        classes = getattr(estimator, "classes_", None)
        kind = "number" if classes is None or classes.dtype.kind in "iuf" else "text"
        return Layout(tuple(names), (), kind)
    layout = Layout.from_dict(table)
    if names != list(layout.features):
        raise TableError("The model's description of its columns is damaged: train the model again.")
    return layout


@dataclass(frozen=True)
class TableModel:
    """A fitted estimator and its layout."""

    estimator: FLSRegressor | FLSClassifier
    layout: Layout

    @property
    def classes(self) -> Array | None:
        """The classes of a classifier, None for a regressor."""
        return getattr(self.estimator, "classes_", None)

    @property
    def text_columns(self) -> list[str]:
        """Columns of a CSV to read as text even where they look like numbers."""
        return [*self.estimator.columns_.text_columns, *(self.layout.targets if self.layout.target_kind == "text" else ())]

    @property
    def task(self) -> str:
        return "regression" if self.classes is None else "classification"

    @property
    def target_names(self) -> list[str]:
        """Names of the targets; without names, y or y1, y2, ..."""
        if self.layout.targets:
            return list(self.layout.targets)
        n_targets = 1 if self.classes is not None else self.estimator.system_.n_outputs
        return ["y"] if n_targets == 1 else [f"y{place}" for place in range(1, n_targets + 1)]

    def inputs(self, data: DataTable) -> Any:
        """The rows of a table as the estimator takes them."""
        columns = self.estimator.columns_
        if not columns.named:
            # A model trained in Python on columns without names takes all columns in their order.
            names = [name for name in data.names if name not in self.layout.targets]
            if len(names) != len(columns.columns):
                raise TableError(
                    f"{data.label} must have {len(columns.columns)} columns of inputs for a model trained without column "
                    f"names, got {len(names)}."
                )
            if columns.are_numbers:
                return np.stack([numbers(data, name) for name in names], axis=1)
            return np.array([data.column(name).to_pylist() for name in names], dtype=object).T
        used = [column.name for column in columns.columns if column.role != "left out"]
        inputs(data, Layout(tuple(used)), next((c.missing_values for c in columns.columns), None))
        # Columns that were left out in training may be absent.
        absent = pa.nulls(data.n_rows)
        return pa.table({name: data.column(name) if name in data.names else absent for name in columns.names})

    def targets(self, data: DataTable) -> Array:
        """The true values in a table."""
        return targets(data, self.layout, classes=self.classes is not None)

    def predicted(
        self,
        table: DataTable,
        *,
        keep: Sequence[str],
        prefix: str,
        interval: float | None,
        quantiles: Sequence[float] = (),
        familiarity: bool = False,
    ) -> pa.Table:
        """Kept columns, then a column for each target and, for a classifier, the probability of each class.

        With an ``interval`` the ends of that coverage follow each target, or the set of classes follows the class. The
        ``quantiles`` of numbers of these levels come next. With ``familiarity`` the last column is that of the rows.
        """
        table.require(keep, why=" to keep")
        columns: dict[str, Any] = {name: table.column(name) for name in dict.fromkeys(keep)}
        x = self.inputs(table)
        made = [(prefix + name, values) for name, values in self._predictions(x, table.n_rows, interval)]
        made += [(prefix + name, values) for name, values in self._quantiles(x, table.n_rows, quantiles)]
        if familiarity:
            made.append((f"{prefix}familiarity", self.estimator.familiarity(x)))
        names = [name for name, _ in made]
        both = [name for name in names if name in columns]
        if both:
            raise TableError(
                f"Column {quoted(both[0])} is both kept and predicted: name the latter with --prefix predicted_."
            )
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise TableError(f"Column {quoted(twice[0])} would be written twice, as a target and as an end of an interval.")
        return pa.table({**columns, **{name: pa.array(values) for name, values in made}})

    def _quantiles(self, x: Any, n_rows: int, levels: Sequence[float]) -> list[tuple[str, Any]]:
        """A column for every target and level."""
        if not levels:
            return []
        if self.classes is not None:
            raise TableError("--quantiles must be used with a model of numbers, got one of classes.")
        estimator: Any = self.estimator
        found = estimator.predict_quantiles(x, levels).reshape(n_rows, len(levels), -1)
        places = [(k, place) for k in range(found.shape[2]) for place in range(len(levels))]
        return [(f"{self.target_names[k]}_q{levels[place]:g}", found[:, place, k]) for k, place in places]

    def _predictions(self, x: Any, n_rows: int, interval: float | None) -> list[tuple[str, Any]]:
        estimator: Any = self.estimator
        names = self.target_names
        if self.classes is None:
            made = dict(zip(names, estimator.predict(x).reshape(n_rows, -1).T, strict=True))
            if interval is None:
                return list(made.items())
            ends = [end.reshape(n_rows, -1).T for end in estimator.predict_interval(x, coverage=interval)]
            columns: list[tuple[str, Any]] = []
            for name, lower, upper in zip(names, *ends, strict=True):
                columns += [(name, made[name]), (f"{name}_lower", lower), (f"{name}_upper", upper)]
            return columns
        values = estimator.predict_proba(x)
        columns = [(names[0], self.classes[values.argmax(axis=1)])]
        if interval is not None:
            sets = estimator.predict_set(x, coverage=interval)
            columns.append((f"{names[0]}_set", ["|".join(map(str, self.classes[row])) for row in sets]))
        return [*columns, *((f"{names[0]}={name}", values[:, place]) for place, name in enumerate(self.classes))]
