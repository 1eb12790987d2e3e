"""Tables larger than memory as sources of training samples.

A source says which columns are inputs, targets and weights, and gives the samples of one row group at a time. Which rows
are held out, and which are drawn into a sample, depends on the number of a row in the whole table only: not on how it is
cut into row groups, nor on which process reads it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from deepfls._checks import LARGEST, NULLS, check_count, check_option
from deepfls.data.layout import learn_layout, numbers, refuse_missing, targets
from deepfls.data.parquet import ParquetFiles
from deepfls.data.tables import DataTable, TableError, kind_of, quoted

Array = np.ndarray[Any, np.dtype[Any]]

# Numbers, and rows, of the buffer that mixes row groups: 2^25 numbers in float32 take 134 MB.
_BUFFER_NUMBERS, _BUFFER_ROWS = 2**25, 2**20


@dataclass(frozen=True)
class SourceRows:
    """Samples of one row group in the units of the data.

    Attributes
    ----------
    columns : ndarray (columns, rows)
        Inputs, targets unless they are classes, and weights where there are any; float32 where all are stored so.
    labels : ndarray (rows,) or None
        Targets that are classes.
    n_features : int
    weighted : bool
    rows : ndarray (rows,)
        Their numbers in the whole table.
    n_dropped : int
        Rows left out because of a missing value.
    """

    columns: Array
    labels: Array | None
    n_features: int
    weighted: bool
    rows: Array
    n_dropped: int

    @property
    def x(self) -> Array:
        """Inputs (rows, features), float64."""
        return self.columns[: self.n_features].T.astype(np.float64, copy=False)

    @property
    def y(self) -> Array:
        """Targets: numbers (rows, targets), float64, or classes (rows,)."""
        if self.labels is not None:
            return self.labels
        return self.columns[self.n_features : len(self.columns) - self.weighted].T.astype(np.float64, copy=False)

    @property
    def weight(self) -> Array | None:
        """Weights (rows,), float64, or None."""
        return self.columns[-1].astype(np.float64, copy=False) if self.weighted else None


@dataclass(frozen=True)
class _Share:
    """The rows whose draw lies in [low, high)."""

    seed: int
    low: float
    high: float


def uniform(seed: int, rows: Array) -> Array:
    """A random number in [0, 1) for every row, from the seed and the number of the row alone (splitmix64).

    Examples
    --------
    >>> import numpy as np
    >>> bool(uniform(1, np.arange(5))[3] == uniform(1, np.array([3]))[0])
    True
    """
    with np.errstate(over="ignore"):
        z = np.asarray(rows, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(seed) * np.uint64(0xD1342543DE82EF95) + np.uint64(0x632BE59BD9B4E019)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


class ParquetSource:
    """Training samples in Parquet files, read a row group at a time.

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
    nulls : {"error", "drop"}
        What a missing value (null or NaN) in a column in use is: an error, or a reason to leave its row out. The number of
        rows left out is told.
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

    def __init__(
        self,
        path: Any,
        *,
        target: str | Sequence[str],
        features: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        weight: str | None = None,
        nulls: str = "error",
        buffer_rows: int | str = "auto",
        filesystem: Any = None,
        verbose: int = 0,
    ) -> None:
        self.nulls = check_option("nulls", nulls, NULLS)
        self.files = ParquetFiles(path, filesystem=filesystem, bar=bool(verbose))
        self.weight = weight
        chosen = [target] if isinstance(target, str) else list(target)
        first = self.files.table(0, self.files.names)
        known = DataTable(first.table, self.files.label, first.files, first.sizes)
        self.layout = learn_layout(known, chosen, features=features, drop=drop, weight=weight)
        self.files.check_alike(self._columns)
        if buffer_rows == "auto":
            buffer_rows = min(_BUFFER_ROWS, _BUFFER_NUMBERS // len(self._columns) + 1)
        self.buffer_rows = check_count("buffer_rows", buffer_rows)
        self._shares: tuple[_Share, ...] = ()

    @property
    def _columns(self) -> list[str]:
        return [*self.layout.features, *self.layout.targets, *([] if self.weight is None else [self.weight])]

    @property
    def n_groups(self) -> int:
        """Number of row groups."""
        return len(self.files.groups)

    def with_numbers(self) -> ParquetSource:
        """The same source with targets taken as numbers: true and false as 1 and 0, text refused."""
        other = copy.copy(self)
        other.layout = replace(self.layout, target_kind="number")
        return other

    def part(self, seed: int, low: float, high: float) -> ParquetSource:
        """The rows whose random draw lies between two shares.

        ``source.part(0, 0.0, 0.2)`` and ``source.part(0, 0.2, 1.0)`` are about a fifth of the rows, and all others.
        """
        other = copy.copy(self)
        other._shares = (*self._shares, _Share(seed, low, high))
        return other

    def read(self, number: int, *, classes: bool = False) -> SourceRows:
        """Samples of a row group; ``classes`` takes the target as the name of a class."""
        data = self.files.table(number, self._columns)
        group = self.files.groups[number]
        rows = group.first_row + np.arange(group.n_rows)
        n_dropped = 0
        if self.nulls == "drop":
            missing = missing_rows(data, self._columns)
            n_dropped = int((missing & self._chosen(rows)).sum())
            if missing.any():
                rows = rows[~missing]
                table = data.table.filter(~missing)
                data = DataTable(table, data.label, data.files, (table.num_rows,))
        try:
            labels = targets(data, self.layout, classes=True) if classes else None
            named = [name for name in self._columns if labels is None or name not in self.layout.targets]
            columns = _number_columns(data, named)
        except TableError as error:
            hint = "; nulls='drop' (--nulls drop) leaves such rows out." if "a missing value" in str(error) else "."
            raise TableError(str(error).removesuffix(".") + hint) from None
        used = self._chosen(rows)
        if self.weight is not None:
            weight = columns[-1]
            wrong = weight < 0
            if wrong.any():
                row, count = int(np.argmax(wrong)), int(wrong.sum())
                refuse_missing(data, self.weight, "a weight of at least 0", f"{weight[row]:g}", row, count)
            used &= weight > 0
        if not used.all():
            columns, rows = columns[:, used], rows[used]
            labels = None if labels is None else labels[used]
        return SourceRows(columns, labels, len(self.layout.features), self.weight is not None, rows, n_dropped)

    def _chosen(self, rows: Array) -> Array:
        """Which rows belong to this part, (rows,)."""
        chosen = np.ones(len(rows), dtype=bool)
        for share in self._shares:
            draw = uniform(share.seed, rows)
            chosen &= (draw >= share.low) & (draw < share.high)
        return chosen

    def all_rows(self, numbers: Sequence[int], *, classes: bool = False) -> Iterator[tuple[int, SourceRows]]:
        """Number and samples of row groups in turn, the next one read in the background."""
        with ThreadPoolExecutor(1) as pool:
            ahead = pool.submit(self.read, numbers[0], classes=classes) if len(numbers) else None
            for place, number in enumerate(numbers):
                assert ahead is not None
                rows = ahead.result()
                if place + 1 < len(numbers):
                    ahead = pool.submit(self.read, numbers[place + 1], classes=classes)
                yield number, rows

    def fingerprint(self) -> dict[str, Any]:
        """What tells a run on these data from one on others."""
        return {
            "files": self.files.fingerprint(),
            "features": list(self.layout.features),
            "targets": list(self.layout.targets),
            "weight": self.weight,
            "nulls": self.nulls,
            "buffer_rows": self.buffer_rows,
            "parts": [[share.seed, share.low, share.high] for share in self._shares],
        }


def missing_rows(data: DataTable, columns: Sequence[str]) -> Array:
    """Which rows have a null or a NaN in one of the columns, (rows,)."""
    found = np.zeros(data.n_rows, dtype=bool)
    for name in columns:
        column = data.column(name)
        if column.null_count or kind_of(column.type) == "number":
            floating = "float" in str(column.type) or str(column.type) == "double"
            found |= np.asarray(pc.is_null(column, nan_is_null=floating).to_numpy())
    return found


def _number_columns(data: DataTable, names: Sequence[str]) -> Array:
    """Columns of numbers one after the other, (columns, rows), all finite and with squares that stay so."""
    types = [str(data.column(name).type) for name in names]
    single = all(kind == "float" for kind in types)
    values = np.empty((len(names), data.n_rows), dtype=np.float32 if single else np.float64)
    for place, (name, kind) in enumerate(zip(names, types, strict=True)):
        column = data.column(name)
        # Without nulls such a column is a view of what was read; the others are converted, and checked, one by one.
        plain = column.null_count == 0 and kind in ("float", "double")
        values[place] = column.to_numpy() if plain else numbers(data, name)
    # One look at all of them: NaN fails it as well. As Python's numbers: the bound itself has no float32.
    if values.size == 0 or (float(values.max()) <= LARGEST and float(values.min()) >= -LARGEST):
        return values
    for name in names:
        checked = numbers(data, name)
        wrong = np.abs(checked) > LARGEST
        if wrong.any():
            row = int(np.argmax(wrong))
            rule, got = f"must be within ±{LARGEST:g}", f"{checked[row]:g} in {data.place(row)}"
            raise TableError(f"Column {quoted(name)} of {data.label} {rule}, got {got}.")
    raise AssertionError("one of the columns must have been refused")
