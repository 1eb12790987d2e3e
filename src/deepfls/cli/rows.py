"""Rows of a table for commands that show what a model has learned: inputs and, where the table has them, true values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from deepfls.cli.errors import UsageError
from deepfls.cli.models import Model, open_data
from deepfls.data.layout import Array, targets
from deepfls.data.tables import DataTable


class Rows(NamedTuple):
    """A table, its inputs as the estimator takes them, and the true values or None."""

    table: DataTable
    x: Any
    y: Array | None


def rows_of(model: Model, source: str, *, need_targets: bool = False) -> Rows:
    """Read a table for a model. Its targets are used if they are there, and required with ``need_targets``."""
    table = open_data(source, model)
    names = model.layout.targets or tuple(getattr(model.estimator, "target_names_", ()))
    if model.layout.targets != names and not set(names) <= set(table.names):
        names = ()
    if need_targets and not names:
        raise UsageError("--target must be given for a model that was trained in Python.")
    model = replace(model, layout=replace(model.layout, targets=names))
    if need_targets:
        table.require(names, why=" to compare with")
    known = bool(names) and set(names) <= set(table.names)
    y = targets(table, model.layout, classes=model.classes is not None) if known else None
    return Rows(table, model.inputs(table), y)


def one_row(x: Any, place: int) -> Any:
    """One row, from 0, of inputs as the estimator takes them."""
    return x.slice(place, 1) if hasattr(x, "slice") else x[place : place + 1]
