"""The columns of a table and how they become the inputs of a system: numbers, categories, dates, columns left out.

A description is learned from the training table (:mod:`deepfls.data.learning`), stored in the model file, and applied to
every table that follows: frames, arrays, CSV files and streams. A missing value is NaN in all inputs of its column.

- A number is one input.
- A category is one input per category, 1 in its own and 0 in the others; two categories share one input, 0 and 1.
- A date is its number of days since 1970, with sine and cosine of the time of the day, and of the year, where the training
  table spans them.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepfls._checks.arguments import counted, did_you_mean, listed, quoted
from deepfls._checks.values import LARGEST, Array
from deepfls.data import written
from deepfls.data.frames import RawTable, as_text, filled_array, is_text, number_array
from deepfls.data.written import DAY

OTHER = "other"
# Other texts of true and false, which arrow writes in lower case.
_BOOLEANS = {"false": ("False", "FALSE", "0"), "true": ("True", "TRUE", "1")}
ROLES = ("number", "category", "date", "left out")
# Inputs of a date, and the words of their names.
DATE_PARTS = {
    "days": "days since 1970",
    "hours": "hours",
    "day_sin": "sine of the day",
    "day_cos": "cosine of the day",
    "year_sin": "sine of the year",
    "year_cos": "cosine of the year",
}
_PERIODS = {"day": DAY, "year": DAY * 365.2425}  # in seconds


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    role: str = "number"
    categories: tuple[str, ...] = ()  # of a category, in the order of their inputs
    # Rare categories that are read as the last one, "other"; of numbers, texts that were in the training table.
    pooled: tuple[str, ...] = ()
    decimal: str = "."  # of numbers that are written as text
    unit: str = ""  # behind such numbers
    date_format: str = ""  # of dates that are written as text or as numbers
    date_parts: tuple[str, ...] = ()  # keys of DATE_PARTS
    reason: str = ""  # why a column is left out
    missing_values: tuple[str, ...] | None = None  # texts that mean a missing value; None: the usual ones

    @property
    def width(self) -> int:
        """Number of inputs."""
        if self.role == "category":
            return len(self.categories) if len(self.categories) != 2 else 1
        return {"number": 1, "date": len(self.date_parts), "left out": 0}[self.role]

    @property
    def is_read_as_text(self) -> bool:
        """Whether a CSV reader must not take the column for numbers: words, codes, 1.304 for 1304."""
        words = [text for text in self.categories if text not in _BOOLEANS]
        return self.decimal == "," or written.are_codes(words) or any(written.number_of(text) is None for text in words)

    @property
    def input_names(self) -> list[str]:
        if self.role == "category":
            return [f"{self.name}={value}" for value in self.categories[-self.width :]]
        if self.role == "date":
            return [f"{self.name} ({DATE_PARTS[part]})" for part in self.date_parts]
        return [self.name] if self.role == "number" else []

    @property
    def codes(self) -> Array:
        """The inputs of every category, (categories, width)."""
        n = len(self.categories)
        return np.array([[0.0], [1.0]]) if n == 2 else np.eye(n)

    def category(self, inputs: Array) -> str:
        """The category with these inputs (width,), or "missing"."""
        places = np.flatnonzero((self.codes == inputs).all(axis=1))
        return self.categories[places[0]] if len(places) else "missing"

    def encoded(self, values: Any, unknown: list[str] | None = None) -> Array:
        """The inputs (rows, width) for values: float64 numbers, or an arrow array; NaN where there is no value.

        Texts that the column does not know are added to ``unknown`` and count as missing.
        """
        unknown = [] if unknown is None else unknown
        if self.role == "number":
            return self._numbers(values, unknown)[:, None]
        if self.role == "date":
            return date_inputs(self._seconds(values, unknown), self.date_parts)
        return np.concatenate([self.codes, np.full((1, self.width), np.nan)])[self._places(values, unknown)]

    def _places(self, values: Any, unknown: list[str]) -> Array:
        """Places (rows,) in the categories; -1 where there is no value or an unknown one."""
        distinct, rows = distinct_texts(values, self.missing_values, known=self.categories)
        known = {text: place for place, text in enumerate(self.categories)}
        known |= dict.fromkeys(self.pooled, len(self.categories) - 1)
        if set(self.categories) == set(_BOOLEANS):  # other tables may write them in another way
            known |= {other: known[name] for name, others in _BOOLEANS.items() for other in others}
        unknown += [text for text in distinct if text not in known]
        return np.array([*(known.get(text, -1) for text in distinct), -1], dtype=np.int64)[rows]

    def _numbers(self, values: Any, unknown: list[str]) -> Array:
        if isinstance(values, np.ndarray):
            return without_sentinels(values, self.missing_values)
        if str(values.type) == "bool":
            return number_array(values)
        distinct, places = distinct_texts(values, self.missing_values)
        read = {
            mark: [written.number_of(text.removesuffix(self.unit), mark) for text in distinct] for mark in written.DECIMALS
        }
        wrong = {
            mark: [t for t, n in zip(distinct, read[mark], strict=True) if n is None and not written.is_no_number(t)]
            for mark in written.DECIMALS
        }
        # A table with the other decimal mark, such as 0,5 where training had 0.5, is read with that mark.
        best = min(written.DECIMALS, key=lambda mark: (bool(wrong[mark]), mark != self.decimal))
        unknown += [text for text in wrong[best] if text not in self.pooled]
        return np.array([*read[best], None], dtype=np.float64)[places]

    def _seconds(self, values: Any, unknown: list[str]) -> Array:
        if isinstance(values, np.ndarray):
            seconds = date_seconds(values, self.date_format)
            unknown += [f"{number:.15g}" for number in np.unique(values[np.isnan(seconds) & ~np.isnan(values)])]
            return seconds
        if not is_text(values.type):
            return date_seconds(values, self.date_format)
        import pyarrow as pa

        distinct, places = distinct_texts(values, self.missing_values)
        texts = pa.array(distinct, pa.string())
        seconds = date_seconds(texts, self.date_format)
        other = written.date_format(distinct) if np.isnan(seconds).all() else None
        if other is not None and other[1]:  # the dates of this table are written in another way
            seconds = date_seconds(texts, other[0])
        unknown += [text for text, second in zip(distinct, seconds, strict=True) if np.isnan(second)]
        return np.append(seconds, np.nan)[places]


def without_sentinels(values: Array, missing_values: Sequence[str] | None) -> Array:
    """Numbers with NaN in place of those that the user named as missing, such as -999."""
    for text in missing_values or ():
        word = str(text).strip().casefold()
        number = float(word) if word in ("inf", "-inf") else written.number_of(word)
        if number is not None:
            # "inf" means all numbers that are too large to be used.
            values = np.where(np.abs(values) > LARGEST if word == "inf" else values == number, np.nan, values)
    return values


def distinct_texts(
    values: Any, missing_values: Sequence[str] | None, *, strip: bool = True, known: Sequence[str] = ()
) -> tuple[list[str], Array]:
    """Distinct texts of an arrow array, or of numbers, and the place of every row among them: -1 where there is no value.

    Of the texts that mean a missing value, those that are ``known`` are values, and - is one beside +.
    """
    import pyarrow as pa

    if isinstance(values, np.ndarray):
        values = pa.array(without_sentinels(values, missing_values), from_pandas=True)
    elif isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not pa.types.is_dictionary(values.type):
        values = as_text(values).dictionary_encode()
    texts = [str(text) if text is not None else "" for text in values.dictionary.to_pylist()]
    kept = [text.strip() for text in texts] if strip else texts
    meant = {*known, *(["-"] if "+" in kept else [])} if missing_values is None else set()
    distinct = list(dict.fromkeys(t for t in kept if not written.is_missing_text(t, missing_values) or t.strip() in meant))
    place = {text: number for number, text in enumerate(distinct)}
    mapped = np.array([place.get(text, -1) for text in kept] + [-1], dtype=np.int64)
    return distinct, mapped[filled_array(values.indices.cast(pa.int64()), len(texts))]


def date_seconds(values: Any, form: str) -> Array:
    """Seconds since 1970 of dates, or of midnight for times of the day; NaN where there is none."""
    import pyarrow as pa

    if isinstance(values, np.ndarray):
        form = form if form in written.NUMBER_FORMATS else written.number_date_format(values) or ""
        return written.number_seconds(values, form) if form else values * DAY  # days since 1970 as numbers
    types, kind = pa.types, values.type
    if types.is_dictionary(kind):
        values, kind = values.cast(kind.value_type), kind.value_type
    if is_text(kind):
        if form in written.NUMBER_FORMATS:
            return written.number_seconds(
                np.array([written.number_of(text or "") for text in values.to_pylist()], np.float64), form
            )
        return written.seconds_of(values.cast(pa.string()), form or "%Y-%m-%d")
    if not types.is_temporal(kind):
        return np.full(len(values), np.nan)
    if types.is_date(kind):
        values = values.cast(pa.timestamp("s"))
    elif types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us"), safe=False)
    unit = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[values.type.unit]
    if types.is_time32(values.type):
        values = values.cast(pa.int32())
    return number_array(values.cast(pa.int64())) * unit


def date_inputs(seconds: Array, parts: Sequence[str]) -> Array:
    """The inputs of dates, (rows, parts)."""
    # The rest of a division keeps the digits of the angle, and rounding makes noon and midnight exact.
    angles = {name: 2.0 * np.pi * np.mod(seconds, length) / length for name, length in _PERIODS.items()}
    made = {"days": seconds / DAY, "hours": seconds / 3600.0}
    for name, angle in angles.items():
        made |= {f"{name}_sin": np.sin(angle).round(12), f"{name}_cos": np.cos(angle).round(12)}
    return np.stack([made[part] for part in parts], axis=1)


@dataclass(frozen=True)
class Columns:
    """All columns of a table, in order."""

    columns: tuple[Column, ...]
    named: bool = True  # False for arrays, whose columns are called x0, x1 and so on

    @classmethod
    def numbers(cls, n_columns: int, names: Sequence[str] | None = None) -> Columns:
        """A table of numbers, as many as it has columns."""
        if names is None:
            return cls(tuple(Column(f"x{place}") for place in range(n_columns)), named=False)
        return cls(tuple(Column(str(name)) for name in names))

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def used_names(self) -> list[str]:
        """Names of the columns that are not left out."""
        return [column.name for column in self.columns if column.role != "left out"]

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs of the system."""
        return [name for column in self.columns for name in column.input_names]

    @property
    def width(self) -> int:
        """Number of inputs of the system."""
        return sum(column.width for column in self.columns)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First and end of the inputs of every column."""
        ends = np.cumsum([column.width for column in self.columns]).tolist()
        return list(zip([0, *ends[:-1]], ends, strict=True))

    @property
    def groups(self) -> list[tuple[Column, int, int]]:
        """The categories, with first and end of their inputs."""
        return [(c, *span) for c, span in zip(self.columns, self.spans, strict=True) if c.role == "category"]

    @property
    def read_inputs(self) -> list[tuple[str, int, int, Column | None]]:
        """Inputs as they are shown: name, first and end; those of a category together, with their column."""
        found: list[tuple[str, int, int, Column | None]] = []
        for column, (first, end) in zip(self.columns, self.spans, strict=True):
            is_group = column.role == "category"
            alone = [(name, place, place + 1, None) for place, name in enumerate(column.input_names, first)]
            found += [(column.name, first, end, column)] if is_group else alone
        return found

    @property
    def text_columns(self) -> list[str]:
        """Columns of a CSV to read as text even where a table happens to hold numbers alone."""
        return [column.name for column in self.columns if column.is_read_as_text]

    @property
    def kept_numbers(self) -> Array | None:
        """Places of the inputs among the columns where all inputs are numbers, else None."""
        if any(column.role not in ("number", "left out") or column.missing_values for column in self.columns):
            return None
        return np.array([place for place, column in enumerate(self.columns) if column.role == "number"])

    def places(self, column: str | int) -> tuple[int, ...]:
        """Places of the inputs of a column, which is given by its name or its place."""
        number = self.names.index(column) if isinstance(column, str) else int(column)
        return tuple(range(*self.spans[number]))

    def values_text(self, places: Sequence[int], values: Array) -> str:
        """Values of the inputs at some places as text, a category by its name; several stand in parentheses."""
        known = dict(zip(places, values.tolist(), strict=True))
        texts = []
        for _, first, end, column in self.read_inputs:
            if first in known and column is not None:
                texts.append(column.category(np.array([known[place] for place in range(first, end)])))
            elif first in known:
                texts.append(f"{known[first]:g}" if np.isfinite(known[first]) else "missing")
        return f"({', '.join(texts)})" if len(texts) > 1 else "".join(texts)

    def summed(self, values: Array) -> Array:
        """Sums over the inputs of every column, (columns,), of values (inputs,)."""
        return np.array([values[first:end].sum() for first, end in self.spans])

    def encoded(self, table: RawTable, *, warns: bool = True) -> Array:
        """The inputs (rows, width) for a table of these columns; ``warns``: of values that are not known."""
        parts = [np.zeros((table.n_rows, 0))]
        for column, values in zip(self.columns, table.values, strict=True):
            unknown: list[str] = []
            if column.role != "left out":
                parts.append(column.encoded(values, unknown))
            if unknown and warns:
                known_not = f"has values that the model does not know, which count as missing: {listed(unknown)}"
                warnings.warn(f"Column {quoted(column.name)} {known_not}.", stacklevel=5)
        return np.concatenate(parts, axis=1)

    def check_known(self, x: Array) -> None:
        """Refuse missing values in inputs x (rows, width)."""
        unknown = np.isnan(x)
        if unknown.any():
            row, place = np.argwhere(unknown)[0]
            column = next(c for c, (first, end) in zip(self.columns, self.spans, strict=True) if first <= place < end)
            got = f"got one in row {row}, column {column.name!r}"
            rows = f"{counted(int(unknown.any(axis=1).sum()), 'such row')} in all"
            raise ValueError(f"X must have no missing value with missing='error', {got} ({rows}).")

    def as_list(self) -> list[dict[str, Any]]:
        """The columns for JSON, without what has its default."""
        default = Column("")
        return [
            {
                key: list(value) if isinstance(value, tuple) else value
                for key, value in dataclasses.asdict(column).items()
                if key == "name" or value != getattr(default, key)
            }
            for column in self.columns
        ]

    @classmethod
    def from_list(cls, content: Any, *, named: bool) -> Columns:
        """The columns of :meth:`as_list`; ValueError or TypeError where the content does not make sense."""
        columns = []
        for entry in content:
            given = {key: tuple(map(str, value)) if isinstance(value, list) else value for key, value in entry.items()}
            column = Column(**given)  # type: ignore[arg-type]  # checked below
            if column.role not in ROLES or not all(part in DATE_PARTS for part in column.date_parts):
                raise ValueError(f"a column of the role {column.role!r}")
            if column.role == "category" and not column.categories:
                raise ValueError("a category without categories")
            columns.append(column)
        return cls(tuple(columns), named)


def check_place(name: str, column: Any, columns: Columns) -> int:
    """The place of a column that a setting gives by its name or its place."""
    if isinstance(column, str):
        if not columns.named:
            raise ValueError(f"{name} must be a column of X, a place, because X has no column names, got {column!r}.")
        if column not in columns.names:
            known, hint = ", ".join(map(repr, columns.names[:20])), did_you_mean(column, columns.names)
            raise ValueError(f"{name} must be a column of X, one of {known}, got {column!r}.{hint}")
        return columns.names.index(column)
    if isinstance(column, bool) or not isinstance(column, int | np.integer):
        raise TypeError(f"{name} must be the name or the place of a column of X, or a list of them, got {column!r}.")
    if not 0 <= column < len(columns.columns):
        raise ValueError(f"{name} must be a place from 0 to {len(columns.columns) - 1}, got {int(column)}.")
    return int(column)
