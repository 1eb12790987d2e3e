"""Tables of any library as raw columns: arrays and lists, sparse matrices, frames of pandas, polars and pyarrow."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from deepfls._checks.values import Array, is_none, without_mask, without_torch

if TYPE_CHECKING:
    import pyarrow as pa

# Largest number of values of a sparse matrix that is made dense: 1 GB of float64.
MAX_DENSE = 2**27
# Names of types of numbers in any of the libraries, such as int64, UInt8, Float32, double and decimal128(5, 2).
_NUMBER_TYPE = re.compile(r"(sparse\[)?(u?int(?!erval)|float)|double|halffloat|decimal", re.IGNORECASE)
_COMPLEX = "X must hold real numbers, got: Complex data not supported."  # with the words of scikit-learn


@dataclass(frozen=True)
class RawTable:
    """The raw columns of a table: float64 numbers with NaN, or arrow arrays of anything else."""

    names: tuple[str, ...]
    values: tuple[Any, ...]
    n_rows: int


def as_table(table: Any) -> Any:
    """X as a frame or as an array; a sparse matrix is made dense, and masked values become missing ones.

    Anything else raises an error that says what to do.
    """
    if hasattr(table, "toarray") and hasattr(table, "nnz"):
        _check_dense_size(*table.shape)
        return np.asarray(table.toarray())
    table = without_mask(without_torch(table))
    if _has_arrow_interface(type(table)):
        import pyarrow as pa

        table = pa.table(table)
    hint = _not_a_table(table)
    if hint:
        raise TypeError(f"X must be a table of rows and columns, got {hint}.")
    if is_frame(table):
        names, kinds = _fields(table)
        twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
        if twice is not None:
            raise ValueError(f"X must have distinct column names, got {twice!r} more than once: rename one of them.")
        if 0 in table.shape:
            raise ValueError(f"X must have rows and columns, got shape {tuple(table.shape)}.")
        if any(kind.startswith("complex") for kind in kinds):
            raise ValueError(_COMPLEX)
        sparse = [k for k, kind in enumerate(kinds) if kind.startswith("Sparse[")]  # of pandas
        if sparse:
            _check_dense_size(len(table), len(sparse))
            table = table.astype({names[k]: table.dtypes.iloc[k].subtype for k in sparse})
        return table
    if not hasattr(table, "iloc") and not isinstance(table, np.ndarray):
        try:
            table = np.asarray(table)
        except ValueError:
            raise ValueError("X must have rows of the same length, got rows of different lengths.") from None
    if getattr(table.dtype, "kind", "O") == "c":
        raise ValueError(_COMPLEX)
    return table


def _has_arrow_interface(kind: type) -> bool:
    """Whether a type is a table of another library, such as narwhals or DuckDB, that pyarrow can read.

    Record batches of pyarrow are such tables too: scikit-learn does not read their column names.
    """
    known = hasattr(kind, "iloc") or hasattr(kind, "get_columns") or hasattr(kind, "to_batches")  # pandas, polars, pyarrow
    has_columns = hasattr(kind, "columns") and not hasattr(kind, "collect")
    return not known and has_columns and (hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__"))


def _not_a_table(table: Any) -> str:
    """What is given instead of a table, and what to do; "" for an array or lists."""
    rows = table if isinstance(table, list | tuple) else ()
    if table is None:
        return "None"
    if isinstance(table, str | bytes | PathLike):
        return f"{str(table)[:80]!r}: read the file first, for example with pandas.read_csv"
    readers = {"collect_schema": "collect", "dask": "compute", "scanner": "to_table", "read_next_batch": "read_all"}
    for mark, reader in readers.items():  # of polars and narwhals, dask, and pyarrow
        if hasattr(type(table), mark) and hasattr(type(table), reader):
            return f"a lazy frame: X.{reader}() reads it"
    if isinstance(table, Iterator):
        return "an iterator: list(X) makes a table of it"
    if isinstance(table, Mapping) or any(isinstance(row, Mapping) for row in rows[:1]):
        return "a dict: pandas.DataFrame(X) makes a table of it, and of a list of them"
    if isinstance(table, np.ndarray) and table.dtype.kind == "V":
        return "a structured array: pandas.DataFrame(X) makes a table of it"
    return ""


def _check_dense_size(n_rows: int, n_columns: int) -> None:
    n_values = int(n_rows) * int(n_columns)
    if n_values > MAX_DENSE:
        raise ValueError(
            f"X must have at most {MAX_DENSE:,} values in sparse form, which are made dense, got {n_values:,}; "
            "choose fewer columns or rows."
        )


def is_frame(table: Any) -> bool:
    """Whether it has columns by name: a frame of pandas or polars, or a table of pyarrow."""
    has_names = hasattr(table, "columns") or hasattr(table, "column_names")
    return has_names and hasattr(table, "__getitem__") and hasattr(table, "shape")


def _fields(frame: Any) -> tuple[list[Any], list[str]]:
    """Names of the columns, and of their types."""
    if hasattr(frame, "column_names"):  # pyarrow
        return list(frame.column_names), [str(field.type) for field in frame.schema]
    return list(frame.columns), list(map(str, frame.dtypes))


def holds_numbers(table: Any) -> bool:
    """Whether all columns are numbers, so that one array holds them."""
    if is_frame(table):
        return all(map(_NUMBER_TYPE.match, _fields(table)[1]))
    return getattr(table, "dtype", None) is not None and getattr(table.dtype, "kind", "O") in "iufcb"


def raw_table(table: Any, names: Sequence[str]) -> RawTable:
    """Raw columns of these names, from a frame or an array (rows, columns)."""
    if not is_frame(table):
        columns: Any = np.asarray(table).T
    elif hasattr(table, "column_names"):  # pyarrow
        columns = table.columns
    elif hasattr(table, "get_columns"):  # polars
        # The buffers of Python objects hold their addresses.
        columns = [c.to_list() if str(c.dtype) == "Object" else c.to_arrow() for c in table.get_columns()]
    else:
        columns = [table.iloc[:, place] for place in range(len(names))]
    return RawTable(tuple(names), tuple(map(raw_values, columns)), np.shape(table)[0])


def raw_values(column: Any) -> Any:
    """A column as float64 numbers with NaN, or as an arrow array of anything else."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
        return np.asarray(column, dtype=np.float64)
    import pyarrow as pa

    if isinstance(column, pa.Array | pa.ChunkedArray):
        return _simple(column)
    kind = str(getattr(column, "dtype", ""))
    if kind.startswith("period"):
        column = column.dt.to_timestamp()
    elif isinstance(column, np.ndarray):
        # Arrow supports dates and durations of some units only.
        column = column.astype(f"{column.dtype.kind}8[us]") if column.dtype.kind in "Mm" else column.tolist()
    try:
        values = pa.array(column, from_pandas=True)
        is_known = not isinstance(getattr(values.type, "value_type", values.type), pa.BaseExtensionType)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        is_known = False
    if not is_known:  # intervals of pandas, values of several types, or numbers of types that arrow does not have
        column = column.astype(object) if kind == "category" else column
        known = [None if is_none(value) else value for value in column]
        if any(isinstance(value, complex | np.complexfloating) for value in known):
            raise ValueError(_COMPLEX)
        with contextlib.suppress(OverflowError):
            if any(isinstance(value, Fraction) for value in known) and all(isinstance(v, Real | None) for v in known):
                return np.array([np.nan if value is None else float(value) for value in known])
        values = pa.array([None if value is None else str(value) for value in known], pa.string())
    return _simple(values)


def _simple(values: Any) -> Any:
    """An arrow array of numbers or durations as float64 with NaN; other values decoded from run lengths and bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = values.type, pa.types
    if types.is_run_end_encoded(kind):
        values = pc.run_end_decode(values)
        kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        return _simple(pa.chunked_array([chunk.storage for chunk in chunks], kind.storage_type))
    if types.is_dictionary(kind) and types.is_nested(kind.value_type):
        whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        return whole.dictionary.take(whole.indices)  # lists, which cast() does not decode
    if types.is_dictionary(kind) and not is_text(kind):
        # Categories that are numbers stay categories, under their texts.
        return as_text(values.cast(kind.value_type)).dictionary_encode()
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return number_array(values)
    if types.is_duration(kind):
        return number_array(values.cast(pa.duration("us"), safe=False).cast(pa.int64())) / 86_400e6  # days
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        try:
            return values.cast(pa.string())
        except pa.ArrowException:  # no text
            return values
    return values


def number_array(values: Any) -> Array:
    """An arrow array of numbers as float64, with NaN for nulls."""
    import pyarrow as pa

    # safe=False: integers above 2^53 are rounded, as in any float64 table.
    return filled_array(values.cast(pa.float64(), safe=False), np.nan)


def filled_array(values: Any, missing: float) -> Array:
    """An arrow array of numbers in NumPy's type, by its buffers: arrow's own way imports pandas where it is installed."""
    if hasattr(values, "combine_chunks"):
        values = values.combine_chunks()
    kind, n_values = np.dtype(values.type.to_pandas_dtype()), len(values)
    if values.null_count == n_values:
        return np.full(n_values, missing, kind)
    validity, numbers = values.buffers()
    found = np.frombuffer(numbers, kind, n_values, values.offset * kind.itemsize)
    if values.null_count == 0:
        return found
    is_known = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")[values.offset :][:n_values]
    return np.where(is_known, found, kind.type(missing))


def arrow_array(values: Any) -> pa.Array:
    """An array of numbers, or anything else that has an order, as an arrow array; numbers by their buffer."""
    import pyarrow as pa

    if getattr(values, "dtype", None) != np.float64:
        return pa.array(values)
    return pa.Array.from_buffers(pa.float64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def as_text(values: pa.Array) -> pa.Array:
    """An arrow array as text; 1.0 and 1 are the same text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(values.type) and pc.all(pc.equal(values, pc.round(values))).as_py() is not False:
        values = values.cast(pa.int64(), safe=False)
    try:
        return values.cast(pa.string())
    except pa.ArrowException:  # lists, records, bytes
        return pa.array([None if value is None else str(value) for value in values.to_pylist()], pa.string())


def is_text(kind: pa.DataType) -> bool:
    """Whether an arrow type is text, or a dictionary of texts."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view"


# Kinds of columns, and the words of messages for their values.
KINDS = {
    "number": "numbers",
    "boolean": "true and false",
    "text": "text",
    "category": "categories",
    "date": "dates or times",
    "empty": "no values",
    "bytes": "bytes that are not UTF-8 text",
    "interval": "intervals of months and days",
    "nested": "lists or records",
}


def kind_of(values: Any) -> str:
    """The key of :data:`KINDS` for an array of numbers, an arrow array, or a type of arrow."""
    if isinstance(values, np.ndarray):
        return "number"
    from pyarrow import types

    kind = getattr(values, "type", values)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_dictionary(kind):
        return "category"
    if is_text(kind):
        return "text"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "bytes"
    if types.is_interval(kind):
        return "interval"
    tests = {"boolean": types.is_boolean, "date": types.is_temporal, "empty": types.is_null}
    return next((name for name, test in tests.items() if test(kind)), "nested")
