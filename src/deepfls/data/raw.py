"""Tables of any library as raw columns: NumPy arrays and lists, sparse matrices, frames of pandas, polars and pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deepfls.data.columns import RawTable, number_array

# Largest number of values of a sparse matrix that is made dense: 1 GB of float64.
MAX_DENSE = 2**27


def dense(table: Any) -> Any:
    """The table, or a sparse matrix as an array if it is not too large."""
    if not hasattr(table, "toarray") or not hasattr(table, "nnz"):
        return table
    n_values = int(table.shape[0]) * int(table.shape[1])
    if n_values > MAX_DENSE:
        raise ValueError(
            f"X must have at most {MAX_DENSE:,} values as a sparse matrix, which is made dense, got {n_values:,}; "
            "choose columns or rows before."
        )
    return table.toarray()


def is_frame(table: Any) -> bool:
    """Whether it has columns by name: a frame of pandas or polars, or a table of pyarrow."""
    return (
        (hasattr(table, "columns") or hasattr(table, "column_names"))
        and hasattr(table, "__getitem__")
        and hasattr(table, "shape")
    )


def holds_numbers(table: Any) -> bool:
    """Whether all columns are numbers, so that one array holds them."""
    if is_frame(table):
        if hasattr(table, "column_names"):  # pyarrow
            return all(_is_number_type(str(field.type)) for field in table.schema)
        types = table.dtypes
        return all(_is_number_type(str(kind)) for kind in (types.tolist() if hasattr(types, "tolist") else types))
    return getattr(table, "dtype", None) is not None and getattr(table.dtype, "kind", "O") in "iufcb"


def _is_number_type(kind: str) -> bool:
    """By the name of a type in any of the libraries, such as int64, UInt8, Float32, double or decimal128(5, 2)."""
    kind = kind.lower()
    return kind.startswith(
        ("int", "uint", "float", "double", "halffloat", "decimal", "sparse[float", "sparse[int", "complex")
    )


def raw_table(table: Any, names: Sequence[str]) -> RawTable:
    """Raw columns of these names, from a frame or an array (rows, columns)."""
    if is_frame(table):
        if hasattr(table, "column_names"):
            columns = [table.column(place) for place in range(len(names))]
        elif hasattr(table, "get_columns"):  # polars
            columns = [column.to_arrow() for column in table.get_columns()]
        else:
            columns = [table.iloc[:, place] for place in range(len(names))]
        return RawTable(
            tuple(names), tuple(map(raw_values, columns)), len(table) if not hasattr(table, "num_rows") else table.num_rows
        )
    rows = np.asarray(table)
    return RawTable(tuple(names), tuple(raw_values(rows[:, place]) for place in range(rows.shape[1])), len(rows))


def raw_values(column: Any) -> Any:
    """A column as float64 numbers with NaN, or as an arrow array of anything else."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
        return column.astype(np.float64)
    import pyarrow as pa

    values = column
    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        kind = getattr(column, "dtype", None)
        if isinstance(column, np.ndarray):
            column = column.tolist()
        try:
            values = pa.array(column, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            if str(kind) == "category":
                column = column.astype(object)
            values = pa.array([None if _is_none(value) else str(value) for value in column], pa.string())
    return _numbers(values)


def _is_none(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def _numbers(values: Any) -> Any:
    """An arrow array of numbers as float64 with NaN; others as they are."""
    import pyarrow as pa

    kind, types = values.type, pa.types
    if types.is_dictionary(kind) and not types.is_string(kind.value_type) and not types.is_large_string(kind.value_type):
        # Categories that are numbers stay categories, under their texts.
        decoded = values.cast(kind.value_type)
        return _as_text(decoded).dictionary_encode()
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return number_array(values)
    return values


def _as_text(values: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(values.type) and pc.all(pc.equal(values, pc.round(values))).as_py() is not False:
        values = values.cast(pa.int64(), safe=False)
    return values.cast(pa.string())
