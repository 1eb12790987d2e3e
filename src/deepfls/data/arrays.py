"""Sources of training rows: the plan that a fit gives a source, the data it gets, and arrays in memory as a source.

:class:`deepfls.data.sources.ParquetSource` is the other source, for tables larger than memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np

from deepfls._checks.arguments import counted
from deepfls._checks.values import Array, comparable, ends_of_columns
from deepfls._files import arrays_under
from deepfls.data.columns import Columns
from deepfls.data.scaling import Scaling, Wild, find_wild

# Largest number of rows among which equal ones are merged: sorting a larger table costs too much time.
MERGED_ROWS = 20_000
# Rows from which 0 and 1 as the only targets are called classes, and as many classes as half of them identifiers.
_FEW_ROWS, _MANY_ROWS = 10, 20
# Fields of TrainingData whose fields are arrays.
_PARTS = ("measured", "validation", "calibration", "x_scaling", "y_scaling")


@dataclass(frozen=True)
class Samples:
    """Inputs (rows, features), targets (rows, targets) and weights (rows,), or None where all weights are 1."""

    x: Array
    y: Array
    weight: Array | None = None

    def take(self, rows: Array | slice) -> Samples:
        return Samples(self.x[rows], self.y[rows], None if self.weight is None else self.weight[rows])

    def split(self, fraction: float, random: np.random.RandomState) -> tuple[Samples, Samples]:
        """All but a fraction of the samples, and that fraction; at least one of each where there are two."""
        if self.n_rows < 2:
            return self, self
        n_held_out = min(max(1, round(fraction * self.n_rows)), self.n_rows - 1)
        order = random.permutation(self.n_rows)
        return self.take(np.sort(order[n_held_out:])), self.take(np.sort(order[:n_held_out]))

    @property
    def n_rows(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class DataPlan:
    """How a source prepares the data of a fit."""

    classes: bool = False  # whether targets are the names of classes
    scaled: bool = True  # whether inputs, and targets that are numbers, get mean 0 and standard deviation 1
    # From a number of rows to the number held out for calibration; without it no row is.
    calibration_rows: Callable[[int], int] | None = None
    # Called with the inputs of these rows before anything else is done; raises an error where the rows are too few.
    check_calibration: Callable[[Array], None] | None = None
    clips: bool = True  # whether wild values are clipped
    group_columns: tuple[int, ...] = ()  # inputs whose values make groups; each gives its share of the calibration rows
    validation_fraction: float | None = None  # of the other rows, held out for early stopping


@dataclass(frozen=True)
class StreamPlan:
    """What the batches of a table on disk follow from."""

    counts: Array  # training rows of every row group
    mean_weight: float | None  # None without weights
    seed: int  # of everything random in the run
    held_out_share: float  # of the rows, for calibration and early stopping together
    n_dropped: int  # rows left out because they have no target or weight
    has_missing: bool  # whether an input of a row is not known


@dataclass(frozen=True)
class TrainingData:
    """What a fit gets from its source before the first step."""

    # Rows of the starting point. Arrays give all training rows, and batches come from them. None in a run that continues
    # from a checkpoint, which is beyond its starting point.
    sample: Samples | None
    measured: Samples  # training rows on which the firing of rules and the local scale of intervals are measured
    validation: Samples | None  # rows held out for early stopping
    calibration: Samples | None  # rows held out for the calibration of intervals, with weights as they were given
    x_scaling: Scaling
    y_scaling: Scaling
    input_range: Array  # (2, features): smallest and largest value of every input
    n_rows: int  # training rows
    classes: Array | None = None  # sorted; targets are places in it
    stream: StreamPlan | None = None  # where batches come from a table on disk
    note: str = ""  # what the user should know about the rows

    @property
    def has_missing(self) -> bool:
        """Whether an input of a row is not known."""
        if self.stream is not None:
            return self.stream.has_missing
        return any(part is not None and bool(np.isnan(part.x).any()) for part in (self.measured, self.validation))

    @property
    def n_outputs(self) -> int:
        """Outputs of a system for these data: one per target, or one per class."""
        return len(self.y_scaling.shift) if self.classes is None else len(self.classes)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays of a stream, for a checkpoint; the sample is left out."""
        assert self.stream is not None
        description = vars(self.stream) | {"classes": None if self.classes is None else self.classes.tolist()}
        arrays: dict[str, Array] = {"counts": description.pop("counts"), "input_range": self.input_range}
        for name in _PARTS:
            part = getattr(self, name)
            if part is not None:
                arrays |= {f"{name}.{key}": value for key, value in vars(part).items() if value is not None}
        return description, arrays

    @classmethod
    def from_state(cls, description: Mapping[str, Any], arrays: Mapping[str, Array]) -> TrainingData:
        """The data of :meth:`state`, without a sample."""
        named = {name: arrays_under(f"{name}.", arrays) for name in _PARTS}
        plan = {field.name: description[field.name] for field in fields(StreamPlan) if field.name != "counts"}
        classes = description["classes"]
        return cls(
            sample=None,
            measured=Samples(**named["measured"]),
            validation=Samples(**named["validation"]) if named["validation"] else None,
            calibration=Samples(**named["calibration"]) if named["calibration"] else None,
            x_scaling=Scaling(**named["x_scaling"]),
            y_scaling=Scaling(**named["y_scaling"]),
            input_range=arrays["input_range"],
            n_rows=int(arrays["counts"].sum()),
            classes=None if classes is None else np.array(classes),
            stream=StreamPlan(counts=arrays["counts"], **plan),
        )


class Processes(Protocol):
    """The processes of a run that read a source together; :class:`deepfls.training.distributed.Group` is one."""

    rank: int
    size: int

    def same_bytes(self, content: bytes) -> bytes:
        """The content that the first process gave."""

    def gathered_bytes(self, content: bytes) -> list[bytes]:
        """The contents of all processes, by rank."""

    def together(self) -> AbstractContextManager[None]:
        """A context in which an error of one process is raised in all."""


# From the number of rows that will be read to a display, whose method ``step`` counts rows.
ProgressMaker = Callable[[int], AbstractContextManager[Any]]


@dataclass(frozen=True)
class ArraySource:
    """Arrays in memory as a source."""

    streamed: ClassVar[bool] = False

    x: Array  # (rows, features)
    y: Array  # (rows, targets): numbers, or with classes their places, (rows, 1)
    weight: Array | None = None
    table: Columns | None = None  # what the columns were before they became x; numbers by default
    classes: Array | None = None
    # Whether equal rows are merged: not for a loss that averages over its batch, where a merged row would count once.
    merged: bool = True

    @property
    def n_rows(self) -> int:
        return len(self.x)

    @property
    def n_features(self) -> int:
        return self.x.shape[1]

    @property
    def columns(self) -> Columns:
        return self.table or Columns.numbers(self.n_features)

    def warn_of_odd_data(self) -> None:
        """Warn of one row, a target of one value or one class, and numbers that look like classes."""
        found = []
        n_classes = 0 if self.classes is None else len(self.classes)
        if self.n_rows == 1:
            found = ["The table has 1 row: the model gives its target for every input."]
        elif self.classes is not None and n_classes == 1:
            found = [f"The target has one class, {self.classes[0]!s}: the model gives it for every input."]
        elif self.classes is not None and self.n_rows >= _MANY_ROWS and n_classes > self.n_rows / 2:
            counts = f"{n_classes:,} classes in {self.n_rows:,} rows"
            found = [f"The target has {counts}, as identifiers have: the model has little to learn from."]
        for column in self.y.T if self.n_rows > 1 and self.classes is None else ():
            if (column == column[0]).all():
                found.append(f"The target is {column[0]:g} in every row: the model gives it for every input.")
            elif self.n_rows >= _FEW_ROWS and np.isin(column, (0.0, 1.0)).all():
                found.append("The target is 0 or 1 in every row: FLSClassifier (--task classification) learns classes.")
        for text in found:
            warnings.warn(text, stacklevel=4)

    def prepared(
        self,
        plan: DataPlan,
        random: np.random.RandomState,
        processes: Processes | None = None,
        progress: ProgressMaker | None = None,
    ) -> TrainingData:
        rows, calibration = Samples(self.x, self.y, self.weight), None
        if plan.calibration_rows is not None:
            usable = np.arange(len(self.x)) if self.weight is None else np.flatnonzero(self.weight > 0)
            held = self._calibration_rows(usable, plan, random, plan.calibration_rows)
            if plan.check_calibration is not None:
                plan.check_calibration(self.x[held])
            if len(held) == len(usable):
                raise ValueError(
                    f"X must have rows to train on beside {counted(len(held), 'row')} for the calibration, got none."
                )
            rows, calibration = rows.take(np.setdiff1d(usable, held)), rows.take(held)
        rows = weighted_samples(rows.x, rows.y, rows.weight, merged=self.merged)
        validation = None
        if plan.validation_fraction is not None:
            rows, validation = rows.split(plan.validation_fraction, random)
        numbers = plan.scaled and self.classes is None
        wild = Wild()
        if plan.clips and plan.scaled:
            wild = find_wild(rows.x, rows.y if numbers else None, self.columns.input_names)
            rows = rows if wild.kept is None else rows.take(wild.kept)
        return TrainingData(
            sample=rows,
            measured=rows,
            validation=validation,
            calibration=calibration,
            x_scaling=Scaling.standard(rows.x, rows.weight, wild.x).joint(self.columns)
            if plan.scaled
            else Scaling.identity(self.n_features),
            y_scaling=Scaling.standard(rows.y, rows.weight, wild.y) if numbers else Scaling.identity(self.y.shape[1]),
            note=wild.text,
            input_range=range_of(rows.x),
            n_rows=rows.n_rows,
            classes=self.classes,
        )

    def _calibration_rows(
        self, usable: Array, plan: DataPlan, random: np.random.RandomState, count: Callable[[int], int]
    ) -> Array:
        """Rows held out for calibration, sorted: a share of every group."""
        keys = comparable(self.x[usable][:, list(plan.group_columns)])
        values, member = np.unique(keys, axis=0, return_inverse=True)
        held = []
        for place in range(len(values)):
            rows = random.permutation(usable[member.ravel() == place])
            held.append(rows[: count(len(rows))])
        return np.sort(np.concatenate(held))


def range_of(x: Array) -> Array:
    """Smallest and largest known value of every column, (2, columns); 0 where none is known."""
    found = ends_of_columns(x)
    if not np.isnan(found).any():
        return found
    low, high = (np.where(np.isnan(x), fill, x) for fill in (np.inf, -np.inf))
    found = np.stack([low.min(axis=0), high.max(axis=0)])
    return np.where(np.isfinite(found), found, 0.0)


def weighted_samples(x: Array, y: Array, weight: Array | None, *, merged: bool = True) -> Samples:
    """Samples in sorted order, equal ones merged into one of their joint weight, weights with mean 1.

    A row of weight k is then exactly k equal rows, and the order in which rows arrive does not matter: both hold to
    the last bit. Beyond :data:`MERGED_ROWS` rows, and without ``merged``, the samples keep their order.
    """
    if weight is not None:
        kept = weight > 0
        x, y, weight = x[kept], y[kept], weight[kept]
    if merged and len(x) <= MERGED_ROWS:
        order, is_new = _sorted_rows(x, y)
        weight = None if weight is None else weight[order]
        if not is_new.all():
            weight = np.bincount(np.cumsum(is_new) - 1, weights=weight).astype(np.float64)
        x, y = x[order[is_new]], y[order[is_new]]
    if weight is None or np.all(weight == weight[0]):
        return Samples(x, y, None)
    return Samples(x, y, weight / weight.mean())


def _sorted_rows(x: Array, y: Array) -> tuple[Array, Array]:
    """The order of rows by their columns, and whether each, in this order, differs from the one before it."""
    n_all = x.shape[1] + y.shape[1]
    for n_columns in (1, 2, n_all):  # one or two columns distinguish most rows, in a hundredth of the time
        some = comparable(x[:, :n_columns] if n_columns <= x.shape[1] else np.concatenate([x, y], axis=1))
        order = np.argsort(some[:, 0]) if some.shape[1] == 1 else np.lexsort(some.T[::-1])
        is_new = np.append(True, (some[order[1:]] != some[order[:-1]]).any(axis=1))
        if is_new.all():
            break
    return order, is_new
