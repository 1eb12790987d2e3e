"""Models and tables as commands open them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from deepfls._checks.samples import Array
from deepfls.cli.output import CommandOutput, UsageError
from deepfls.data.layout import Layout, inputs, targets
from deepfls.data.tables import DataTable, TableError, find_files, no_such_file, quoted, read_table

if TYPE_CHECKING:
    from deepfls.data.parquet import ParquetFiles
    from deepfls.estimators import FLSClassifier, FLSRegressor


class TableRows(NamedTuple):
    """A table, its inputs as the estimator takes them, and the true values or None."""

    table: DataTable
    x: Any
    y: Array | None


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
    def task(self) -> str:
        return "regression" if self.classes is None else "classification"

    @property
    def target_names(self) -> list[str]:
        """Names of the targets; without names, y or y1, y2, ..."""
        if self.layout.targets:
            return list(self.layout.targets)
        n_targets = 1 if self.classes is not None else self.estimator.system_.n_outputs
        return ["y"] if n_targets == 1 else [f"y{place}" for place in range(1, n_targets + 1)]

    def table(self, source: str) -> DataTable:
        """Read a table into memory."""
        return read_table(source, text_columns=self.layout.text_columns)

    def inputs(self, data: DataTable) -> Any:
        """The rows of a table as the estimator takes them."""
        layout = self.layout
        if layout.features:
            return inputs(data, layout)
        # A model trained in Python on columns without names takes all columns in their order.
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

    def targets(self, data: DataTable) -> Array:
        """The true values in a table."""
        return targets(data, self.layout, classes=self.classes is not None)

    def read(self, source: str, *, need_targets: bool = False) -> TableRows:
        """A table, its inputs, and the true values if the table has them; ``need_targets`` requires them."""
        table = self.table(source)
        names = self.layout.targets
        if not names:
            known = tuple(getattr(self.estimator, "target_names_", ()))
            names = known if set(known) <= set(table.names) else ()
        if need_targets:
            check_targets_named(names)
            table.require(names, why=" to compare with")
        model = replace(self, layout=replace(self.layout, targets=names))
        has_targets = bool(names) and set(names) <= set(table.names)
        return TableRows(table, model.inputs(table), model.targets(table) if has_targets else None)

    def stream(self, source: str, extra: Sequence[str], output: CommandOutput) -> tuple[ParquetFiles, list[str]]:
        """The files of a table to be read by row groups, and the columns to read: those of the model and ``extra``."""
        from deepfls.data.parquet import ParquetFiles

        files = ParquetFiles(source, text_columns=self.layout.text_columns, bar=output.bars)
        named = [*self.layout.features, *extra]
        DataTable(files.schema.empty_table(), files.label, (), ()).require(named, why=" that is needed")
        files.check_alike(named)
        features = self.layout.features or [name for name in files.names if name not in extra]
        return files, list(dict.fromkeys([*features, *extra]))


def open_model(path: Path, *, targets: Sequence[str] = ()) -> Model:
    """Load a model file; ``targets`` name the target columns of a model that was not trained on a table."""
    if not path.is_file():
        raise TableError(no_such_file(path, "model file"))
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


def check_targets_named(names: Sequence[str]) -> None:
    """Require the names of the columns of true values."""
    if not names:
        raise UsageError("--target must be given for a model that was trained in Python.")


def check_output(out: Path, *, force: bool, inputs: Sequence[Path | str] = ()) -> None:
    """Refuse an output file before any work: a folder, a file that exists, or a file that is read."""
    if out.is_dir():
        raise UsageError(f"--out must be a file, got the folder {quoted(out)}.")
    if not out.parent.is_dir():
        raise UsageError(f"--out must be in a folder that exists, got {quoted(out)}.")
    # A model file that does not exist is reported when it is opened.
    read = [file for source in inputs if not isinstance(source, Path) or source.exists() for file in find_files(source)]
    if out.exists() and any(out.samefile(file) for file in read):
        raise UsageError(f"--out must not be a file that is read, got {quoted(out)}.")
    if out.exists() and not force:
        raise UsageError(f"{quoted(out)} already exists: replace it with --force, or give another --out.")
