"""Tables larger than memory as sources of training rows.

A source has columns of inputs, targets and weights, and reads the rows of one row group at a time. Which rows are held out,
and which are in the sample, depends on the number of a row in the table: not on the row groups, nor on the process that
reads the row.
"""

from __future__ import annotations

import contextlib
import copy
import pickle
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from deepfls._checks.arguments import check_count, check_option
from deepfls._checks.values import LARGEST, Array
from deepfls.data.arrays import DataPlan, Processes, ProgressMaker, Samples, StreamPlan, TrainingData
from deepfls.data.columns import Columns
from deepfls.data.frames import filled_array, kind_of, raw_table
from deepfls.data.layout import Layout, class_targets, has_targets, inputs, learn_layout, numbers, require_rows
from deepfls.data.learning import ColumnSettings, learn_columns
from deepfls.data.parquet import ParquetFiles
from deepfls.data.scaling import Scaling, Standardizer, wild_bounds
from deepfls.data.summary import HELD_OUT_ROWS, SourceRows, Summary, uniform
from deepfls.data.tables import DataTable, TableError

_Read = TypeVar("_Read")

NULLS = ("error", "drop")
# Numbers, and rows, of the buffer that mixes row groups: 2^25 numbers in float32 take 134 MB.
_BUFFER_NUMBERS, _BUFFER_ROWS = 2**25, 2**20
# Rows from which categories, formats and dates are learned, about.
_DESCRIBED_ROWS = 2**22
# Rows of the sample on which the firing of the rules is measured after training.
_MEASURED_ROWS = 16_384


class ParquetSource:
    """Training rows in Parquet files, read a row group at a time.

    Parameters
    ----------
    path : path, pattern, address, or a sequence of them
        ``"rows/*.parquet"``, or an address that pyarrow opens, such as ``"s3://bucket/rows/*.parquet"``. Local CSV files
        are converted to Parquet in the cache, once.
    target : str or sequence of str
        Column or columns to predict.
    features : sequence of str, optional
        Columns to learn from; all others by default.
    drop : sequence of str
        Columns to leave out.
    weight : str, optional
        Column of sample weights.
    nulls : {"drop", "error"}
        Whether rows without a target or a weight are left out, of which a warning states the number, or an error.
    buffer_rows : int or "auto"
        Rows that are mixed at a time, of all processes together. "auto" is about a million, less for many columns.
    filesystem : pyarrow.fs.FileSystem, optional
        Where paths are looked for; the local disk by default.
    verbose : int
        1 shows the progress of a conversion from CSV on standard error.

    Examples
    --------
    >>> import tempfile, numpy as np, pyarrow as pa, pyarrow.parquet as pq
    >>> from deepfls import FLSRegressor
    >>> folder = tempfile.mkdtemp()
    >>> x = np.linspace(-3, 3, 200)
    >>> pq.write_table(pa.table({"x": x, "y": np.sin(x)}), f"{folder}/rows.parquet", row_group_size=50)
    >>> source = ParquetSource(f"{folder}/*.parquet", target="y")
    >>> model = FLSRegressor(n_rules=5, epochs=30, random_state=0).fit(source)
    >>> bool(abs(model.predict(pa.table({"x": [1.5]}))[0] - 0.997) < 0.05)
    True
    """

    streamed: ClassVar[bool] = True

    def __init__(
        self,
        path: Any,
        *,
        target: str | Sequence[str],
        features: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        weight: str | None = None,
        nulls: str = "drop",
        buffer_rows: int | str = "auto",
        filesystem: Any = None,
        verbose: int = 0,
    ) -> None:
        self.nulls = check_option("nulls", nulls, NULLS)
        self.files = ParquetFiles(path, filesystem=filesystem, bar=bool(verbose))
        chosen = [target] if isinstance(target, str) else list(target)
        first = replace(self.files.table(0, self.files.names), label=self.files.label)
        self.layout = learn_layout(first, chosen, features=features, drop=drop, weight=weight)
        self.files.check_alike(self._columns)
        if buffer_rows == "auto":
            buffer_rows = min(_BUFFER_ROWS, _BUFFER_NUMBERS // len(self._columns) + 1)
        self.buffer_rows = check_count("buffer_rows", buffer_rows)
        self._table: Columns | None = None
        # Seed, low and high of each part: it holds the rows whose draw lies in [low, high).
        self._shares: tuple[tuple[int, float, float], ...] = ()

    @property
    def columns(self) -> Columns:
        """What the columns of the inputs are; numbers, unless :meth:`with_columns` described them."""
        return self._table or Columns.numbers(len(self.layout.features), self.layout.features)

    def with_columns(self, settings: ColumnSettings, columns: Columns | None = None) -> ParquetSource:
        """The same source with its columns described: as in an earlier fit, or by settings, from its rows."""
        other = self.with_layout(missing_values=settings.missing_values, decimal=settings.decimal)
        if columns is not None:
            other._table = columns
            return other
        names = list(self.layout.features)
        types = [self.files.schema.field(name).type for name in names]
        numbers = [kind_of(kind) == "number" for kind in types]
        if all(numbers) and settings.categorical is None and settings.missing_values is None:
            return other
        # Row groups evenly over the table: all of them unless it is very large.
        rows_of_group = self.files.n_rows / len(self.files.groups)
        step = max(1, int(len(self.files.groups) * rows_of_group / _DESCRIBED_ROWS))
        parts = [self.files.table(number, names).table for number in range(0, len(self.files.groups), step)]
        table = pa.concat_tables(parts, promote_options="permissive")
        other._table = learn_columns(raw_table(table, names), settings, named=True, complete=False)
        return other

    @property
    def _columns(self) -> list[str]:
        return [*self.layout.features, *self.layout.targets, *self._weights]

    @property
    def _weights(self) -> list[str]:
        """The column of weights, if there is one."""
        return [] if self.layout.weight is None else [self.layout.weight]

    @property
    def n_groups(self) -> int:
        """Number of row groups."""
        return len(self.files.groups)

    @property
    def n_rows(self) -> int:
        """Rows of the files."""
        return self.files.n_rows

    @property
    def n_features(self) -> int:
        """Number of inputs."""
        return self.columns.width

    def with_layout(self, **changes: Any) -> ParquetSource:
        """The same source with other fields of its layout."""
        other = copy.copy(self)
        other.layout = replace(self.layout, **changes)
        return other

    def with_numbers(self) -> ParquetSource:
        """The same source with targets taken as numbers: true and false as 1 and 0, text refused."""
        return self.with_layout(target_kind="number")

    def part(self, seed: int, low: float, high: float) -> ParquetSource:
        """The rows whose random draw lies between two shares.

        ``source.part(0, 0.0, 0.2)`` and ``source.part(0, 0.2, 1.0)`` are about a fifth of the rows, and all others.
        """
        other = copy.copy(self)
        other._shares = (*self._shares, (seed, low, high))
        return other

    def read(self, number: int, *, classes: bool = False, inputs: bool = True) -> SourceRows:
        """Rows of a row group; ``classes`` takes the target as the name of a class, and inputs may be left out."""
        data = self.files.table(number, self._columns)
        group = self.files.groups[number]
        rows = group.first_row + np.arange(group.n_rows)
        n_dropped = 0
        if self.nulls == "drop":
            known = has_targets(data, self.layout) & data.known(self._weights)
            n_dropped = int((~known & self._chosen(rows)).sum())
            rows, data = rows[known], data.filtered(known)
        try:
            labels = class_targets(data, self.layout) if classes else None
            last = [*([] if classes else self.layout.targets), *self._weights]
            columns = self._encoded(data, last) if inputs else _number_columns(data, last, self.layout)
        except TableError as error:
            hint = "; nulls='drop' (--nulls drop) leaves such rows out." if "a missing value" in str(error) else "."
            raise TableError(str(error).removesuffix(".") + hint) from None
        used = self._chosen(rows)
        for name in self._weights:
            require_rows(data, name, "a weight of at least 0", columns[-1] < 0, columns[-1])
            used &= columns[-1] > 0
        if not used.all():
            columns, rows = columns[:, used], rows[used]
            labels = None if labels is None else labels[used]
        return SourceRows(columns, labels, self.n_features if inputs else 0, bool(self._weights), rows, n_dropped)

    def _encoded(self, data: DataTable, last: list[str]) -> Array:
        """Inputs, then the columns of numbers ``last``, (columns, rows)."""
        names = list(self.layout.features)
        if self._table is None:
            return _number_columns(data, [*names, *last], self.layout, n_inputs=len(names))
        x = self._table.encoded(raw_table(inputs(data, self.layout), names), warns=False)
        return np.concatenate([x.T, _number_columns(data, last, self.layout)])

    def _chosen(self, rows: Array) -> Array:
        """Which rows belong to this part, (rows,)."""
        chosen = np.ones(len(rows), dtype=bool)
        for seed, low, high in self._shares:
            draw = uniform(seed, rows)
            chosen &= (draw >= low) & (draw < high)
        return chosen

    def all_rows(self, numbers: Sequence[int], *, classes: bool = False) -> Iterator[tuple[int, SourceRows]]:
        """Numbers and rows of row groups in turn, the next one read in the background."""
        return zip(numbers, read_ahead(lambda number: self.read(number, classes=classes), numbers), strict=True)

    def tables(self, numbers: Sequence[int], *, classes: bool = False) -> Iterator[tuple[pa.Table, Array]]:
        """Inputs as they are in the files, and targets, of row groups in turn."""
        for number in numbers:
            rows = self.read(number, classes=classes, inputs=False)
            table = self.files.table(number, list(self.layout.features)).table
            yield table.take(rows.rows - self.files.groups[number].first_row), rows.y

    def fingerprint(self) -> dict[str, Any]:
        """What distinguishes a run on these data from a run on others."""
        return {
            "files": self.files.fingerprint(),
            "columns": self.columns.as_list(),
            "targets": list(self.layout.targets),
            "weight": self.layout.weight,
            "nulls": self.nulls,
            "buffer_rows": self.buffer_rows,
            "parts": [list(share) for share in self._shares],
        }

    def prepared(
        self, plan: DataPlan, random: np.random.RandomState, processes: Processes, progress: ProgressMaker | None = None
    ) -> TrainingData:
        """The data of a fit from one pass over the rows, the same in every process."""
        seed = int(processes.same_bytes(str(random.randint(2**31 - 1)).encode()))
        n_rows = self.files.n_rows
        calibrating = watching = 0.0
        if plan.calibration_rows is not None:
            calibrating = min(plan.calibration_rows(n_rows), HELD_OUT_ROWS) / n_rows
        if plan.validation_fraction is not None:
            watching = min(plan.validation_fraction * (1.0 - calibrating), HELD_OUT_ROWS / n_rows)
        share = calibrating + watching
        with processes.together():
            own = self.summary(processes, classes=plan.classes, seed=seed, held_out_share=share, progress=progress)
        summary = self._joined(own, processes)
        if summary.n_rows == 0:
            what = "a target and a weight greater than 0" if self._weights else "a target"
            raise ValueError(f"{self.files.label} must have rows to learn from, got none with {what}.")
        held = summary.split_held_out(seed, watching)
        if plan.calibration_rows is not None and plan.check_calibration is not None:
            plan.check_calibration(held[1][:, : self.n_features])
        return self._training_data(summary, held, plan, seed, share)

    def summary(
        self,
        processes: Processes,
        *,
        classes: bool = False,
        seed: int,
        held_out_share: float,
        progress: ProgressMaker | None = None,
    ) -> Summary:
        """Summary of the row groups of this process: every ``processes.size``-th one."""
        n_targets = 1 if classes else len(self.layout.targets)
        summary = Summary.empty(self.n_groups, self.n_features, n_targets, weighted=bool(self._weights))
        mine = range(processes.rank, self.n_groups, processes.size)
        n_rows = sum(self.files.groups[number].n_rows for number in mine)
        with contextlib.nullcontext() if progress is None else progress(n_rows) as shown:
            for number, rows in self.all_rows(mine, classes=classes):
                summary.update(number, rows, seed=seed, held_out_share=held_out_share)
                if shown is not None:
                    shown.step(self.files.groups[number].n_rows)
        return summary

    def _joined(self, summary: Summary, processes: Processes) -> Summary:
        """The summary of all processes, in each of them."""
        if processes.size == 1:
            return summary
        # The keys first: they determine which rows are in the joint sample, so that only these rows are sent.
        keys = [np.frombuffer(content) for content in processes.gathered_bytes(summary.sample.keys.tobytes())]
        summary.sample.trim(np.concatenate([part for rank, part in enumerate(keys) if rank != processes.rank]))
        joined = Summary.empty(self.n_groups, self.n_features, len(summary.y.mean), weighted=summary.weighted)
        for content in processes.gathered_bytes(pickle.dumps(summary)):
            joined.merge(pickle.loads(content))
        return joined

    def _training_data(
        self, summary: Summary, held: tuple[Array, Array], plan: DataPlan, seed: int, share: float
    ) -> TrainingData:
        n_features, n_targets = self.n_features, len(summary.y.mean)
        tables = [summary.sample.rows.copy(), *held]
        classes = None
        if summary.labels:
            classes, place = np.unique(np.array(summary.labels), return_inverse=True)
            for rows in tables:
                rows[:, n_features] = place[rows[:, n_features].astype(np.int64)]
        sample, validation, calibration = tables
        mean_weight = float(summary.y.count[0]) / summary.n_rows if summary.weighted else None
        has_missing = bool((summary.x.count < summary.y.count[0]).any()) or bool(np.isnan(validation).any())

        def samples(rows: Array, unit: float | None) -> Samples:
            weight = None if unit is None else rows[:, -1] / unit
            return Samples(rows[:, :n_features], rows[:, n_features : n_features + n_targets], weight)

        whole = samples(sample, mean_weight)
        x_scaling = _scaling(summary.x, whole.x, plan, scaled=plan.scaled)
        return TrainingData(
            sample=whole,
            measured=samples(sample[:_MEASURED_ROWS], None),
            validation=samples(validation, mean_weight) if len(validation) else None,
            calibration=samples(calibration, None if mean_weight is None else 1.0) if len(calibration) else None,
            x_scaling=x_scaling.joint(self.columns) if plan.scaled else x_scaling,
            y_scaling=_scaling(summary.y, whole.y, plan, scaled=plan.scaled and classes is None),
            input_range=np.nan_to_num(np.stack([summary.lowest, summary.highest]), posinf=0.0, neginf=0.0),
            n_rows=summary.n_rows,
            classes=classes,
            stream=StreamPlan(summary.counts, mean_weight, seed, share, summary.n_dropped, has_missing),
        )


def _scaling(seen: Standardizer, sample: Array, plan: DataPlan, *, scaled: bool) -> Scaling:
    """Scaling by all rows, and for columns whose sample has wild values by the others of the sample."""
    if not scaled:
        return Scaling.identity(sample.shape[1])
    bounds = wild_bounds(sample) if plan.clips else None
    if bounds is None:
        return Scaling(seen.mean, seen.scale)
    within = Scaling.standard(sample, None, bounds)
    is_clipped = bounds.high < LARGEST
    mean, scale = np.where(is_clipped, within.shift, seen.mean), np.where(is_clipped, within.scale, seen.scale)
    return Scaling(mean, scale, *bounds)


def read_ahead(read: Callable[[int], _Read], numbers: Sequence[int]) -> Generator[_Read, None, None]:
    """What a function reads for each number in turn, the next one in the background."""
    with ThreadPoolExecutor(1) as pool:
        ahead = [pool.submit(read, number) for number in numbers[:1]]
        for place in range(len(numbers)):
            found = ahead.pop().result()
            ahead += [pool.submit(read, number) for number in numbers[place + 1 : place + 2]]
            yield found


def _number_columns(data: DataTable, names: Sequence[str], layout: Layout, n_inputs: int = 0) -> Array:
    """Columns of numbers one after the other, (columns, rows): finite squares, and NaN in the first ``n_inputs`` only."""
    types = [str(data.column(name).type) for name in names]
    single = all(kind == "float" for kind in types)
    values = np.empty((len(names), data.n_rows), dtype=np.float32 if single else np.float64)
    for place, (name, kind) in enumerate(zip(names, types, strict=True)):
        column = data.column(name)
        # Without nulls such a column is a view of what was read; the others are converted and checked one by one.
        plain = column.null_count == 0 and kind in ("float", "double")
        values[place] = filled_array(column, np.nan) if plain else numbers(data, name, layout)
    # One test of all columns, which NaN fails as well. As Python's numbers: the bound is no float32.
    if values.size == 0 or (float(values.max()) <= LARGEST and float(values.min()) >= -LARGEST):
        return values
    for place, name in enumerate(names):
        checked = numbers(data, name, layout)  # refuses numbers that are too large
        if place >= n_inputs:
            require_rows(data, name, "a number", np.isnan(checked))
    return values
