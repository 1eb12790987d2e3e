"""Sources of training rows: what a fit asks of a source, what it gets, and arrays in memory as a source.

:class:`deepfls.data.sources.ParquetSource` is the other source, for tables larger than memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from deepfls.data.scaling import Scaling

Array = np.ndarray[Any, np.dtype[Any]]

# Largest number of rows among which equal ones are merged: sorting a larger table costs too much time.
MERGED_ROWS = 20_000
_SAMPLES = ("measured", "validation", "calibration")
_STREAM_VALUES = ("mean_weight", "seed", "held_out_share", "n_dropped")


@dataclass(frozen=True)
class Samples:
    """Inputs (rows, features), targets (rows, targets) and weights (rows,), or None where all weights are 1."""

    x: Array
    y: Array
    weight: Array | None

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
    """What a fit asks of its source.

    Attributes
    ----------
    classes : bool
        Whether targets are the names of classes.
    scaled : bool
        Whether inputs, and targets that are numbers, get mean 0 and standard deviation 1.
    calibration_rows : callable, optional
        How many of a number of rows are held out for calibration. None: no row is.
    check_calibration : callable, optional
        Called with the inputs (rows, features) of the calibration rows before anything else is done; raises an error where
        the rows are too few.
    group_columns : tuple of int
        Inputs whose values make groups; each group gives its share of the calibration rows.
    validation_fraction : float, optional
        Share of the other rows held out for early stopping. None: no row is.
    """

    classes: bool = False
    scaled: bool = True
    calibration_rows: Callable[[int], int] | None = None
    check_calibration: Callable[[Array], None] | None = None
    group_columns: tuple[int, ...] = ()
    validation_fraction: float | None = None


@dataclass(frozen=True)
class StreamPlan:
    """What the batches of a table on disk follow from.

    Attributes
    ----------
    counts : ndarray of int, shape (row groups,)
        Training rows of every row group.
    mean_weight : float or None
        Mean weight of the training rows; None without weights.
    seed : int
        Seed of everything random in the run.
    held_out_share : float
        Share of the rows held out for calibration and early stopping together.
    n_dropped : int
        Rows left out because of a missing value.
    """

    counts: Array
    mean_weight: float | None
    seed: int
    held_out_share: float
    n_dropped: int


@dataclass(frozen=True)
class TrainingData:
    """What a fit gets from its source before the first step.

    Attributes
    ----------
    sample : Samples or None
        Rows of the starting point. Arrays give all training rows, and batches come from them. None: the starting point
        is behind, because the run continues from a checkpoint.
    measured : Samples
        Training rows on which the firing of the rules and the local scale of intervals are measured.
    validation, calibration : Samples or None
        Rows held out for early stopping, and for the calibration of intervals; the weights of the latter are as given.
    x_scaling, y_scaling : Scaling
    input_range : ndarray, shape (2, features)
        Smallest and largest value of every input.
    n_rows : int
        Training rows.
    classes : ndarray or None
        Sorted classes; targets are their places.
    stream : StreamPlan or None
        Where batches come from a table on disk.
    """

    sample: Samples | None
    measured: Samples
    validation: Samples | None
    calibration: Samples | None
    x_scaling: Scaling
    y_scaling: Scaling
    input_range: Array
    n_rows: int
    classes: Array | None = None
    stream: StreamPlan | None = None

    @property
    def n_outputs(self) -> int:
        """Outputs of a system for these data: one per target, or one per class."""
        return len(self.y_scaling.shift) if self.classes is None else len(self.classes)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays of a stream, for a checkpoint; the sample is left out."""
        assert self.stream is not None
        description = {name: getattr(self.stream, name) for name in _STREAM_VALUES}
        description["classes"] = None if self.classes is None else self.classes.tolist()
        arrays: dict[str, Array] = {"counts": self.stream.counts, "input_range": self.input_range}
        for name in _SAMPLES:
            samples: Samples | None = getattr(self, name)
            if samples is not None:
                arrays |= {f"{name}.{part}": value for part, value in vars(samples).items() if value is not None}
        for name in ("x_scaling", "y_scaling"):
            arrays |= {f"{name}.{part}": value for part, value in vars(getattr(self, name)).items()}
        return description, arrays

    @classmethod
    def from_state(cls, description: Mapping[str, Any], arrays: Mapping[str, Array]) -> TrainingData:
        """The data of :meth:`state`, without a sample."""

        def samples(name: str) -> Samples | None:
            if f"{name}.x" not in arrays:
                return None
            return Samples(arrays[f"{name}.x"], arrays[f"{name}.y"], arrays.get(f"{name}.weight"))

        measured, validation, calibration = map(samples, _SAMPLES)
        assert measured is not None
        classes = description["classes"]
        return cls(
            sample=None,
            measured=measured,
            validation=validation,
            calibration=calibration,
            x_scaling=Scaling(arrays["x_scaling.shift"], arrays["x_scaling.scale"]),
            y_scaling=Scaling(arrays["y_scaling.shift"], arrays["y_scaling.scale"]),
            input_range=arrays["input_range"],
            n_rows=int(arrays["counts"].sum()),
            classes=None if classes is None else np.array(classes),
            stream=StreamPlan(counts=arrays["counts"], **{name: description[name] for name in _STREAM_VALUES}),
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


class RowProgress(Protocol):
    """A display of rows that were read."""

    def step(self, n_rows: int) -> None:
        """Count rows."""


# From the number of rows that will be read to a display of them.
ProgressMaker = Callable[[int], AbstractContextManager[RowProgress]]


class Source(Protocol):
    """Rows to learn from: inputs, targets, and weights where there are any."""

    streamed: ClassVar[bool]  # whether rows are read in parts, by all processes of a run

    @property
    def n_rows(self) -> int:
        """Rows, before any is held out or left out."""

    @property
    def n_features(self) -> int: ...

    @property
    def feature_names(self) -> Sequence[str] | None: ...

    def prepared(
        self, plan: DataPlan, random: np.random.RandomState, processes: Processes, progress: ProgressMaker | None = None
    ) -> TrainingData:
        """The data of a fit, the same in every process."""


@dataclass(frozen=True)
class ArraySource:
    """Arrays in memory as a source.

    Parameters
    ----------
    x : ndarray, shape (rows, features)
    y : ndarray, shape (rows, targets)
        Numbers, or with ``classes`` places in these, (rows, 1).
    weight : ndarray, shape (rows,), optional
    feature_names : sequence of str, optional
    classes : ndarray, optional
    merged : bool
        Whether equal rows are merged; not for a loss that averages over its batch, where a merged row would count once.
    """

    streamed: ClassVar[bool] = False

    x: Array
    y: Array
    weight: Array | None = None
    feature_names: Sequence[str] | None = None
    classes: Array | None = None
    merged: bool = True

    @property
    def n_rows(self) -> int:
        return len(self.x)

    @property
    def n_features(self) -> int:
        return self.x.shape[1]

    @property
    def n_outputs(self) -> int:
        return self.y.shape[1] if self.classes is None else len(self.classes)

    def prepared(
        self,
        plan: DataPlan,
        random: np.random.RandomState,
        processes: Processes | None = None,
        progress: ProgressMaker | None = None,
    ) -> TrainingData:
        rows, calibration = Samples(self.x, self.y, self.weight), None
        if plan.calibration_rows is not None:
            held = self._calibration_rows(plan, random, plan.calibration_rows)
            if plan.check_calibration is not None:
                plan.check_calibration(self.x[held])
            rows, calibration = rows.take(np.setdiff1d(self._usable(), held)), rows.take(held)
        rows = weighted_samples(rows.x, rows.y, rows.weight, merged=self.merged)
        validation = None
        if plan.validation_fraction is not None:
            rows, validation = rows.split(plan.validation_fraction, random)
        numbers = plan.scaled and self.classes is None
        return TrainingData(
            sample=rows,
            measured=rows,
            validation=validation,
            calibration=calibration,
            x_scaling=Scaling.standard(rows.x, rows.weight) if plan.scaled else Scaling.identity(self.n_features),
            y_scaling=Scaling.standard(rows.y, rows.weight) if numbers else Scaling.identity(self.y.shape[1]),
            input_range=np.stack([rows.x.min(axis=0), rows.x.max(axis=0)]),
            n_rows=rows.n_rows,
            classes=self.classes,
        )

    def _usable(self) -> Array:
        return np.arange(len(self.x)) if self.weight is None else np.flatnonzero(self.weight > 0)

    def _calibration_rows(self, plan: DataPlan, random: np.random.RandomState, count: Callable[[int], int]) -> Array:
        """Rows held out for calibration, sorted: a share of every group."""
        usable = self._usable()
        values, member = np.unique(self.x[usable][:, list(plan.group_columns)], axis=0, return_inverse=True)
        held = []
        for place in range(len(values)):
            rows = random.permutation(usable[member.ravel() == place])
            held.append(rows[: count(len(rows))])
        return np.sort(np.concatenate(held))


def weighted_samples(x: Array, y: Array, weight: Array | None, *, merged: bool = True) -> Samples:
    """Samples in sorted order, equal ones merged into one of their joint weight, weights with mean 1.

    A row of weight k is then exactly k equal rows, and the order in which rows arrive does not matter: both hold to
    the last bit. Beyond :data:`MERGED_ROWS` rows, and without ``merged``, the samples keep their order.
    """
    if weight is not None:
        kept = weight > 0
        x, y, weight = x[kept], y[kept], weight[kept]
    if merged and len(x) <= MERGED_ROWS:
        order = _order_of_distinct_rows(x)
        if order is not None:
            x, y, weight = x[order], y[order], None if weight is None else weight[order]
        else:
            joined = np.concatenate([x, y], axis=1)
            _, first, inverse = np.unique(joined, axis=0, return_index=True, return_inverse=True)
            weight = np.bincount(inverse.ravel(), weights=weight, minlength=len(first)).astype(np.float64)
            x, y = x[first], y[first]
    if weight is None or np.all(weight == weight[0]):
        return Samples(x, y, None)
    return Samples(x, y, weight / weight.mean())


def _order_of_distinct_rows(x: Array) -> Array | None:
    """The sorted order of rows where one or two columns distinguish all rows, else None.

    It equals the order of complete rows, in a twentieth of the time.
    """
    for n_columns in range(1, min(x.shape[1], 2) + 1):
        keys = x[:, :n_columns]
        order = np.lexsort(keys.T[::-1])
        if (np.diff(keys[order], axis=0) != 0).any(axis=1).all():
            return order
    return None
