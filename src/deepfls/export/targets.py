"""What several targets need: rows on which an export is measured, and the refusal of systems that a target cannot hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from deepfls._checks.samples import check_finite_table
from deepfls.inspection.plain import Array, PlainSystem
from deepfls.inspection.plain_model import AnyModel, PlainModel


def with_finite_widths(model: PlainModel) -> PlainModel:
    """The same model with a number for every width: a condition that was left out becomes a very wide set.

    Its grade is 1 within 1e-8 over the range of the input.
    """
    return replace(model, systems=tuple(map(_finite, model.systems)))


def _finite(plain: PlainSystem) -> PlainSystem:
    if np.isfinite(plain.upper_sigmas).all():
        return plain
    wide = np.array([1e4 * (high - low) for low, high in map(plain.input_span, range(plain.n_features))])
    lower, upper = (np.where(np.isfinite(sigmas), sigmas, wide) for sigmas in (plain.lower_sigmas, plain.upper_sigmas))
    return replace(plain, lower_sigmas=lower, upper_sigmas=upper)


def rows_for(plain: AnyModel, rows: Any, n_drawn: int) -> Array:
    """Rows (rows, features) in the units of the data: those given, or drawn, always the same ones for the same system.

    Half of the drawn rows are uniform over the range of the training data. The other half lie around the centers of the
    rules, where most data are.
    """
    if rows is not None:
        values = np.asarray(rows, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != plain.n_features or len(values) == 0:
            raise ValueError(f"X must have shape (rows, features) with features={plain.n_features}, got {values.shape}.")
        check_finite_table("X", values, missing=plain.missing)
        return values
    low, high = input_box(plain)
    rng = np.random.default_rng(0)
    uniform = rng.uniform(low, high, (n_drawn - n_drawn // 2, plain.n_features))
    rule = rng.integers(plain.n_rules, size=n_drawn // 2)
    near = rng.normal(plain.centers[rule], plain.upper_sigmas[rule])
    return np.concatenate([uniform, np.clip(near, low, high)])


@dataclass(frozen=True)
class ColumnForm:
    """Columns that a target takes in place of inputs: a category is one column, the index of the category."""

    names: tuple[str, ...]
    sources: Array  # (inputs,): the column of every input
    codes: Array  # (inputs,): the index at which an input of a category is 1; -1 for inputs that are numbers
    categories: dict[int, tuple[str, ...]]  # of the columns that are categories

    @classmethod
    def of(cls, plain: AnyModel) -> ColumnForm | None:
        """The columns of a system; None without categories, where columns are inputs."""
        if plain.columns is None or not plain.columns.groups:
            return None
        names: list[str] = []
        sources: list[int] = []
        codes: list[int] = []
        categories = {}
        for column in plain.columns.columns:
            if column.role == "category":
                categories[len(names)] = column.categories
                sources += [len(names)] * column.width
                codes += range(len(column.categories) - column.width, len(column.categories))
                names.append(column.name)
            else:
                sources += range(len(names), len(names) + column.width)
                codes += [-1] * column.width
                names += column.input_names
        return cls(tuple(names), np.array(sources), np.array(codes), categories)

    def columns(self, x: Array) -> Array:
        """Columns (rows, columns) from inputs (rows, inputs), whose categories are taken where their input is largest."""
        found = np.zeros((len(x), len(self.names)))
        for column in range(len(self.names)):
            inputs = np.flatnonzero(self.sources == column)
            if column not in self.categories:
                found[:, column] = x[:, inputs[0]]
                continue
            unknown = np.isnan(x[:, inputs]).any(axis=1)
            best = np.where(np.isnan(x[:, inputs]), -np.inf, x[:, inputs]).argmax(axis=1)
            single = len(inputs) < len(self.categories[column])
            index = np.round(np.clip(x[:, inputs[0]], 0.0, 1.0)) if single else self.codes[inputs][best]
            found[:, column] = np.where(unknown, np.nan, index)
        return found

    def inputs(self, columns: Array) -> Array:
        """Inputs (rows, inputs) from columns (rows, columns)."""
        values = columns[:, self.sources]
        found = np.where(self.codes < 0, values, (values == self.codes).astype(np.float64))
        return np.where(np.isnan(values), np.nan, found)


def input_box(plain: AnyModel) -> tuple[Array, Array]:
    """Smallest and largest value of every input in the training data; if unknown, the sets within two widths."""
    if plain.input_range is not None:
        return plain.input_range[0], plain.input_range[1]
    reach = 2.0 * plain.upper_sigmas
    return (plain.centers - reach).min(axis=0), (plain.centers + reach).max(axis=0)


def refuse_form(target: str, reason: str, remedy: str) -> NoReturn:
    """Raise the error that says why a system cannot be written in the form of a target."""
    raise ValueError(f"{target} cannot express this system: {reason}; {remedy}.")


def check_holdable(what: str, values: Array, limit: float) -> None:
    """Require numbers that the number format of a target can hold."""
    if values.size and not (np.isfinite(values).all() and np.abs(values).max() <= limit):
        largest = np.abs(np.where(np.isfinite(values), values, np.inf)).max()
        raise ValueError(f"{what} must be within ±{limit:.3g} for this target, got {largest:.3g}: scale the data first.")
