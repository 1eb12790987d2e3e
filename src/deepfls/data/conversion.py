"""CSV files as Parquet in the cache: converted once, a piece at a time, so that they can be streamed."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from deepfls.data.datasets import cache_folder
from deepfls.data.tables import TableError, delimiter_of, quoted

# Bytes of CSV that are parsed at a time, and rows of a row group of the copy.
_PIECE = 16 << 20
_GROUP_ROWS = 65_536
_HEAD = 1 << 20


def converted(path: Path, *, text_columns: Collection[str] = (), bar: bool = False) -> Path:
    """The Parquet copy of a CSV file, made if there is none of this version of the file yet.

    Numbers become float64, so that a column that begins with whole numbers may go on with fractions; ``text_columns`` stay
    text even where they look like numbers. ``bar`` shows progress.
    """
    facts = path.stat()
    known = (str(path.resolve()), facts.st_size, facts.st_mtime_ns, sorted(text_columns))
    version = hashlib.sha256(repr(known).encode()).hexdigest()[:16]
    target = cache_folder() / "parquet" / f"{path.name[:80]}-{version}.parquet"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(target.with_suffix(".lock")):
            if not target.is_file():  # another process may have made it meanwhile
                _convert(path, target, text_columns, bar=bar)
    return target


def _convert(path: Path, target: Path, text_columns: Collection[str], *, bar: bool) -> None:
    from pyarrow import csv, parquet

    label = quoted(path)
    with pa.input_stream(path) as stream:
        head = stream.read(_HEAD)
    lines = [line for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    if not lines:
        raise TableError(f"{label} is empty.")
    reading = csv.ReadOptions(block_size=_PIECE, use_threads=False)
    parsing = csv.ParseOptions(delimiter=delimiter_of(path, lines[0]), newlines_in_values=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        # The first piece tells the types.
        with csv.open_csv(path, reading, parsing) as first:
            types = {field.name: pa.float64() if _may_be_number(field.type) else field.type for field in first.schema}
            types |= {name: pa.string() for name in text_columns if name in types}
        if len(types) < len(first.schema):
            raise TableError(f"{label} must have distinct column names.")
        converting = csv.ConvertOptions(column_types=types)
        with (
            csv.open_csv(path, reading, parsing, converting) as pieces,
            parquet.ParquetWriter(temporary, pieces.schema) as writer,
            _shown(path, bar) as step,
        ):
            for piece in pieces:
                writer.write_table(pa.Table.from_batches([piece]), row_group_size=_GROUP_ROWS)
                step(piece.num_rows)
        temporary.replace(target)
    except UnicodeDecodeError:
        raise TableError(f"{label} must be UTF-8 text: save it in that encoding.") from None
    except (pa.ArrowException, OSError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise TableError(f"{label} cannot be converted to Parquet: {reason.rstrip('.')}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def _may_be_number(column_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(column_type) or pa.types.is_floating(column_type) or pa.types.is_null(column_type))


@contextlib.contextmanager
def _shown(path: Path, bar: bool) -> Iterator[Any]:
    """A function to be told of rows that were converted."""
    if not bar:
        yield lambda n_rows: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.completed:,} rows"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(f"converting {escape(quoted(path.name))} to Parquet", total=None)
        yield lambda n_rows: progress.advance(task, n_rows)


@contextlib.contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Processes that need the same copy wait for the one that makes it."""
    try:
        import fcntl
    except ImportError:  # Windows: each makes its own, and the last one stays
        yield
        return
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    path.unlink(missing_ok=True)
