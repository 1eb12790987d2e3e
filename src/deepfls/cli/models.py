"""Model files as commands use them: the estimator, and the columns it reads and predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepfls.cli.errors import UsageError
from deepfls.data.layout import Array, Layout, inputs
from deepfls.data.tables import DataTable, TableError, find_files, nearest, quoted, read_table

if TYPE_CHECKING:
    from deepfls.estimators import FLSClassifier, FLSRegressor


@dataclass(frozen=True)
class Model:
    """A loaded model and its layout."""

    estimator: FLSRegressor | FLSClassifier
    layout: Layout
    path: Path

    @property
    def classes(self) -> Array | None:
        """The classes of a classifier, None for a regressor."""
        return getattr(self.estimator, "classes_", None)

    @property
    def target_names(self) -> list[str]:
        """Names of the targets; of a model that knows none, y or y1, y2, ..."""
        if self.layout.targets:
            return list(self.layout.targets)
        n_targets = 1 if self.classes is not None else self.estimator.system_.n_outputs
        return ["y"] if n_targets == 1 else [f"y{place}" for place in range(1, n_targets + 1)]

    def inputs(self, data: DataTable) -> Any:
        """The rows of a table as the estimator takes them."""
        layout = self.layout
        if layout.features:
            return inputs(data, layout)
        # Trained in Python on columns without names: all columns count, in their order.
        layout = Layout(tuple(name for name in data.names if name not in layout.targets))
        n_features = self.estimator.n_features_in_
        if len(layout.features) != n_features:
            raise TableError(
                f"{data.label} must have {n_features} columns of inputs for a model trained without column names, "
                f"got {len(layout.features)}."
            )
        table = inputs(data, layout)
        import numpy as np

        return np.stack([column.to_numpy() for column in table.columns], axis=1)


def open_model(path: Path, *, targets: Sequence[str] = ()) -> Model:
    """Load a model file; ``targets`` name the target columns of a model that was not trained on a table."""
    if not path.is_file():
        near = [entry.name for entry in path.parent.iterdir() if entry.is_file()] if path.parent.is_dir() else []
        raise TableError(f"There is no model file {quoted(path)}.{nearest(path.name, near)}")
    from deepfls import load

    estimator = load(path)
    table = getattr(estimator, "table_", None)
    if table is not None:
        layout = Layout.from_dict(table)
        names = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
        if names != layout.input_names:
            raise TableError("The model's description of its columns is damaged: train the model again.")
        if targets:
            if len(targets) != len(layout.targets):
                raise UsageError(f"--target must be given {len(layout.targets)} times for this model, got {len(targets)}.")
            layout = replace(layout, targets=tuple(targets))
    else:
        classes = getattr(estimator, "classes_", None)
        kind = "number" if classes is None or classes.dtype.kind in "iuf" else "text"
        layout = Layout(tuple(map(str, getattr(estimator, "feature_names_in_", ()))), {}, tuple(targets), kind)
    return Model(estimator, layout, path)


def open_data(path: str, model: Model) -> DataTable:
    """Read a table for a model."""
    return read_table(path, text_columns=model.layout.text_columns)


def check_output(out: Path, *, force: bool, inputs: Sequence[Path | str] = ()) -> None:
    """Refuse a place to write to before any work is done: no folder, a file that is there, or one that is read."""
    if out.is_dir():
        raise UsageError(f"--out must be a file, got the folder {quoted(out)}.")
    if not out.parent.is_dir():
        raise UsageError(f"--out must be in a folder that exists, got {quoted(out)}.")
    for source in inputs:
        if out.exists() and any(out.samefile(file) for file in find_files(source)):
            raise UsageError(f"--out must not be a file that is read, got {quoted(out)}.")
    if out.exists() and not force:
        raise UsageError(f"{quoted(out)} is there already: replace it with --force, or give another --out.")
