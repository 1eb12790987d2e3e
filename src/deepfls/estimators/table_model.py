"""A fitted estimator together with the columns of its tables: inputs from a table, predictions as columns, measures."""

from __future__ import annotations

import contextlib
import hashlib
import json
import pickle
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from deepfls._checks.arguments import quoted
from deepfls._checks.values import Array
from deepfls._files import replaced_file, write_whole
from deepfls.data.frames import arrow_array
from deepfls.data.layout import Layout, inputs, numbers, targets
from deepfls.data.scaling import Standardizer
from deepfls.data.tables import DataTable, TableError

if TYPE_CHECKING:
    from deepfls.data.parquet import ParquetFiles
    from deepfls.estimators.fls import FLSClassifier, FLSRegressor
    from deepfls.training.distributed import Group

Tables = Generator[DataTable, None, None]
# Rows of one part of the output, about.
PART_ROWS = 2**20
MANIFEST = "_deepfls.json"


def layout_of(estimator: FLSRegressor | FLSClassifier) -> Layout:
    """The columns that an estimator was fitted to; without targets for one that was fitted to arrays."""
    read = {name: getattr(estimator, name) for name in ("missing_values", "decimal") if hasattr(estimator, name)}
    table = getattr(estimator, "table_", None)
    names = estimator.columns_.names if estimator.columns_.named else []
    if table is None:
        classes = getattr(estimator, "classes_", None)
        kind = "number" if classes is None or classes.dtype.kind in "iuf" else "text"
        return Layout(tuple(names), (), kind, **read)
    layout = replace(Layout.from_dict(table), **read)
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
        """Names of the targets; without names, y or y0, y1 and so on."""
        if self.layout.targets:
            return list(self.layout.targets)
        n_targets = 1 if self.classes is not None else self.estimator.system_.n_outputs
        return ["y"] if n_targets == 1 else [f"y{place}" for place in range(n_targets)]

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
            if all(column.role == "number" for column in columns.columns):
                return np.stack([numbers(data, name) for name in names], axis=1)
            return np.array([data.column(name).to_pylist() for name in names], dtype=object).T
        missing_values = next((c.missing_values for c in columns.columns), None)
        read = Layout(tuple(columns.used_names), missing_values=missing_values)
        inputs(data, read, "; an empty value in its place counts as missing")
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
        columns_of = self._numbers if self.classes is None else self._classes
        made = [(prefix + name, values) for name, values in columns_of(x, table.n_rows, interval, quantiles)]
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
        return pa.table({**columns, **{name: arrow_array(values) for name, values in made}})

    def _numbers(self, x: Any, n_rows: int, interval: float | None, levels: Sequence[float]) -> Iterator[tuple[str, Any]]:
        estimator: Any = self.estimator
        parts = {"": estimator.predict(x).reshape(n_rows, -1)}
        if interval is not None:
            ends = estimator.predict_interval(x, coverage=interval)
            parts |= {name: end.reshape(n_rows, -1) for name, end in zip(("_lower", "_upper"), ends, strict=True)}
        names = list(zip(range(parts[""].shape[1]), self.target_names, strict=True))
        for k, name in names:
            yield from ((name + part, values[:, k]) for part, values in parts.items())
        if levels:
            found = estimator.predict_quantiles(x, levels).reshape(n_rows, len(levels), -1)
            for k, name in names:
                yield from ((f"{name}_q{level:g}", found[:, place, k]) for place, level in enumerate(levels))

    def _classes(self, x: Any, n_rows: int, interval: float | None, levels: Sequence[float]) -> Iterator[tuple[str, Any]]:
        if levels:
            raise TableError("--quantiles must be used with a model of numbers, got one of classes.")
        estimator: Any = self.estimator
        target, classes, values = self.target_names[0], self.estimator.classes_, estimator.predict_proba(x)
        yield target, classes[values.argmax(axis=1)]
        if interval is not None:
            sets = estimator.predict_set(x, coverage=interval)
            yield f"{target}_set", ["|".join(map(str, classes[row])) for row in sets]
        yield from ((f"{target}={name}", values[:, place]) for place, name in enumerate(classes))


# Tables read by row groups


class PartsWritten(NamedTuple):
    """Rows and parts in the folder of :func:`write_parts`, and how many of the parts already existed."""

    n_rows: int
    n_parts: int
    n_found: int


def tables_of(files: ParquetFiles, numbers: Sequence[int], columns: Sequence[str]) -> Tables:
    """Row groups in turn, the next one read in the background."""
    from deepfls.data.sources import read_ahead

    with contextlib.closing(read_ahead(lambda number: files.table(number, columns), numbers)) as tables:
        yield from tables


def parts_of(files: ParquetFiles, part_rows: int = PART_ROWS) -> list[list[int]]:
    """Row groups, in their order, in parts of about ``part_rows`` rows."""
    parts: list[list[int]] = []
    n_rows = part_rows
    for number, group in enumerate(files.groups):
        if n_rows >= part_rows:
            parts.append([])
            n_rows = 0
        parts[-1].append(number)
        n_rows += group.n_rows
    return parts


def write_parts(
    files: ParquetFiles,
    columns: Sequence[str],
    predicted: Callable[[DataTable], pa.Table],
    out: Path,
    *,
    about: Mapping[str, Any],
    nulls: str,
    resume: bool,
    force: bool,
    group: Group,
    step: Callable[[int], None] | None = None,
    part_rows: int = PART_ROWS,
) -> PartsWritten:
    """Write a folder of Parquet files with the predictions for row groups, in their order.

    ``predicted`` maps the table of a row group, with these ``columns``, to the table of its predictions; ``nulls="drop"``
    leaves out those of rows with a missing value. ``about`` distinguishes the predictions from others and is stored beside
    them. ``resume`` keeps existing parts, ``force`` replaces them. The processes of ``group`` share the parts. ``step`` is
    called with the number of rows of every table written. A part gets its name when it is complete.
    """
    parts = parts_of(files, part_rows)
    names = [f"part-{number:06d}.parquet" for number in range(len(parts))]
    about = {**about, "files": files.fingerprint(), "parts": len(parts), "nulls": nulls}

    def written(data: DataTable) -> pa.Table:
        known = data.known(columns) if nulls == "drop" else np.ones(data.n_rows, dtype=bool)
        # An estimator takes no table without rows; a part without rows needs the columns of its predictions.
        return predicted(data.filtered(known)) if known.any() else predicted(data).slice(0, 0)

    with group.together():
        if group.leads:
            check_folder_of_parts(out, files.files)
            _prepare(out, about, resume=resume, force=force)
    group.barrier()
    n_found = sum((out / name).is_file() for name in names)
    group.barrier()
    with group.together():
        for number in range(group.rank, len(parts), group.size):
            if not (out / names[number]).is_file():
                _write_part(out / names[number], tables_of(files, parts[number], columns), written, step)
    group.barrier()
    from pyarrow import parquet

    n_rows = sum(parquet.read_metadata(out / name).num_rows for name in names) if group.leads else 0
    return PartsWritten(n_rows, len(parts), n_found)


def check_folder_of_parts(out: Path, files: Sequence[str]) -> None:
    """Refuse a folder with files that are read, or with Parquet files that are not known to be predictions."""
    if any(Path(file).absolute().parent.resolve() == out.resolve() for file in files if "://" not in file):
        raise TableError(f"{quoted(out)} is the folder of files that are read: give another one as --out.")
    known = (out / MANIFEST).is_file()
    other = None if known else next((path for path in sorted(out.glob("*")) if path.suffix in (".parquet", ".pq")), None)
    if other is not None:
        raise TableError(f"{quoted(out)} holds {quoted(other.name)}, which is no prediction: give another folder.")


def _prepare(out: Path, about: Mapping[str, Any], *, resume: bool, force: bool) -> None:
    """Make the folder; keep, replace or refuse the predictions in it."""
    out.mkdir(parents=True, exist_ok=True)
    manifest = out / MANIFEST
    mark = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    for unfinished in out.glob(".part-*.tmp"):
        unfinished.unlink()
    existing = sorted(out.glob("part-*.parquet"))
    if existing or manifest.exists():
        if resume and not force:
            try:
                known = json.loads(manifest.read_text(encoding="utf-8"))["sha256"]
            except (OSError, ValueError, KeyError, TypeError):
                known = None
            if known != mark:
                raise TableError(
                    f"{quoted(out)} must hold predictions of this model for this table to continue with --resume, got "
                    "others: replace them with --force, or give another folder."
                )
            return
        if not force:
            raise TableError(
                f"{quoted(out)} already has predictions: continue with --resume, replace them with --force, or give "
                "another folder."
            )
        for old in existing:
            old.unlink()
    write_whole(manifest, json.dumps({**about, "sha256": mark}, indent=1).encode())


def _write_part(
    path: Path, tables: Tables, predicted: Callable[[DataTable], pa.Table], step: Callable[[int], None] | None
) -> None:
    from pyarrow import parquet

    writer = None
    try:
        with replaced_file(path) as temporary, contextlib.ExitStack() as stack:
            for data in stack.enter_context(contextlib.closing(tables)):
                table = predicted(data)
                writer = writer or stack.enter_context(parquet.ParquetWriter(temporary, table.schema))
                writer.write_table(table.cast(writer.schema))
                if step is not None:
                    step(data.n_rows)
    except OSError as error:
        reason = error.strerror or str(error)
        raise TableError(f"{quoted(path)} cannot be written: {reason}; the parts before it are complete.") from error


# Measures of predictions from chunks of rows, in any order, whose parts from several processes merge


class NumberScores:
    """RMSE, MAE and R² of one target."""

    def __init__(self) -> None:
        self._sums = np.zeros(3)  # rows, squared errors, absolute errors
        self._truth = Standardizer(1)

    @property
    def n_rows(self) -> int:
        return int(self._sums[0])

    def update(self, truth: Array, predicted: Array) -> None:
        error = truth - predicted
        self._sums += [len(error), float(error @ error), float(np.abs(error).sum())]
        self._truth.update(truth[:, None])

    def merge(self, other: NumberScores) -> None:
        self._sums += other._sums
        self._truth.merge(other._truth)

    def values(self) -> dict[str, float]:
        n_rows, squares, sizes = self._sums.tolist()
        spread = float(self._truth.squares[0])
        r2 = 1.0 - squares / spread if spread > 0 else (1.0 if squares == 0 else 0.0)
        return {"rmse": float(np.sqrt(squares / n_rows)), "mae": sizes / n_rows, "r2": r2}


class ClassScores:
    """Accuracy and log loss, and up to five classes that the model does not know."""

    def __init__(self, classes: Array) -> None:
        self._classes = classes
        self._sums = np.zeros(3)  # rows, right ones, losses
        self.unknown: list[Any] = []

    @property
    def n_rows(self) -> int:
        return int(self._sums[0])

    def update(self, truth: Array, probabilities: Array) -> None:
        right = self._classes[probabilities.argmax(axis=1)] == truth
        # A class the model has never seen has probability 0, held at the smallest number whose logarithm is finite.
        of_truth = np.where(truth[:, None] == self._classes, probabilities, 0.0).sum(axis=1)
        losses = -np.log(np.maximum(of_truth, np.finfo(np.float64).tiny))
        self._sums += [len(truth), int(right.sum()), float(losses.sum())]
        for value in np.setdiff1d(truth, self._classes).tolist()[:5]:
            if value not in self.unknown and len(self.unknown) < 5:
                self.unknown.append(value)

    def merge(self, other: ClassScores) -> None:
        self._sums += other._sums
        self.unknown += [value for value in other.unknown if value not in self.unknown]

    def values(self) -> dict[str, float]:
        n_rows, right, losses = self._sums.tolist()
        return {"accuracy": right / n_rows, "log_loss": losses / n_rows}


def merged_scores(scores: Mapping[str, Any], group: Group) -> None:
    """Add the scores of all other processes of a run to those of this one."""
    for rank, content in enumerate(group.gathered_bytes(pickle.dumps(dict(scores)))):
        if rank != group.rank:
            for name, other in pickle.loads(content).items():
                scores[name].merge(other)
