"""Parquet files as one table of row groups that are read one at a time. CSV files are converted to Parquet first.

Files may be on the local disk or on any filesystem pyarrow opens (``s3://bucket/rows/*.parquet``). Opening reads only the
footers. An error in a row group names its file and its number, counted from 0. The copies of CSV files are in the cache.
"""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from deepfls._checks.arguments import listed, quoted
from deepfls._files import cache_folder, replaced_file
from deepfls.data.csv_form import open_csv_form
from deepfls.data.frames import KINDS, kind_of
from deepfls.data.tables import (
    CSV_ENDINGS,
    PANDAS_INDEX,
    DataTable,
    TableError,
    file_errors,
    find_files,
    hint_for,
    of_address,
)

# Largest number of open files: shuffled row groups come from all files, and each open file holds its footer in memory.
_OPEN_FILES = 16
# Characters shown of the name of a file. The end is shown, because it distinguishes the files of a folder.
_SHOWN_CHARACTERS = 200
# Bytes of CSV that are parsed at a time, and rows of a row group of the Parquet copy.
_BLOCK_BYTES = 16 << 20
_GROUP_ROWS = 65_536
# A new number where CSV files are read in another way, so that earlier copies are made again.
_FORM = 3


def quoted_file(name: object) -> str:
    """The name of a file in a message: quoted and, if very long, without its beginning."""
    text = str(name)
    return repr(text if len(text) <= _SHOWN_CHARACTERS else "…" + text[1 - _SHOWN_CHARACTERS :])


class RowGroup(NamedTuple):
    """A row group: number of its file, its number in that file, its rows, and the rows before it in the table."""

    file: int
    group: int
    n_rows: int
    first_row: int


class ParquetFiles:
    """The row groups of Parquet files of the same columns.

    ``path`` is a path, a pattern, an address such as ``"s3://bucket/rows/*.parquet"``, or a sequence of them;
    ``filesystem`` (of pyarrow) is that of paths that are no addresses, the local disk by default. ``text_columns`` of a CSV
    are text even where they look like numbers. ``bar`` shows the progress of a conversion from CSV.
    """

    def __init__(self, path: Any, *, filesystem: Any = None, text_columns: Collection[str] = (), bar: bool = False) -> None:
        paths = [path] if isinstance(path, (str, Path)) else list(path)
        if not paths:
            raise TableError("The list of Parquet files must not be empty.")
        self.label = listed(paths)
        places = [place for one in paths for place in _found(one, filesystem)]
        self._systems = [place[0] for place in places]
        self.files = tuple(place[1] for place in places)  # for messages: a CSV file has its own name, not that of its copy
        self._places = [
            str(parquet_copy(Path(file), text_columns=text_columns, bar=bar))
            if system is None and file.lower().endswith(CSV_ENDINGS)
            else file
            for system, file in places
        ]
        self.groups: list[RowGroup] = []  # those that have rows, in the order of the files
        self.sizes: list[int] = []
        self._digests: list[str] = []  # of the footers, which hold size, smallest and largest value of every column
        self._other_schemas: dict[int, pa.Schema] = {}
        self._open: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()
        n_rows = 0
        for number in range(len(self.files)):
            opened = self._opened(number)
            schema = opened.schema_arrow.remove_metadata()
            if number == 0:
                self.schema = schema
            elif not schema.equals(self.schema):
                self._other_schemas[number] = schema
            before = n_rows
            for group in range(opened.metadata.num_row_groups):
                count = opened.metadata.row_group(group).num_rows
                if count:
                    self.groups.append(RowGroup(number, group, count, n_rows))
                n_rows += count
            self.sizes.append(n_rows - before)
            footer = pa.BufferOutputStream()
            opened.metadata.write_metadata_file(footer)
            self._digests.append(hashlib.sha256(footer.getvalue()).hexdigest()[:16])
        self.n_rows = n_rows
        if n_rows == 0:
            raise TableError(f"{self.label} must have rows, got column names only.")

    def __getstate__(self) -> dict[str, Any]:
        # Another process has its own handles, and perhaps another working directory.
        places = [
            place if system is not None else str(Path(place).absolute())
            for system, place in zip(self._systems, self._places, strict=True)
        ]
        return {**self.__dict__, "_places": places, "_open": OrderedDict(), "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    @property
    def names(self) -> list[str]:
        """Columns of the first file, without the row index of pandas."""
        return [name for name in self.schema.names if not PANDAS_INDEX.fullmatch(name)]

    def locations(self) -> tuple[Any, list[str]]:
        """The filesystem of the files, None for the local disk, and their paths in it."""
        if any(system != self._systems[0] for system in self._systems):
            raise TableError(f"{self.label} must be files of one filesystem.")
        return self._systems[0], list(self.__getstate__()["_places"])

    def check_alike(self, names: Iterable[str]) -> None:
        """Refuse files without these columns of the first file, or with other kinds of values in them."""
        names = list(names)
        for number, schema in self._other_schemas.items():
            file, first = quoted_file(self.files[number]), quoted_file(self.files[0])
            missing = [name for name in names if name not in schema.names]
            if missing:
                raise TableError(f"{file} must have the columns of {first}, got no column {listed(missing)}.")
            for name in names:
                kinds = [kind_of(part.field(name).type) for part in (self.schema, schema)]
                if kinds[0] != kinds[1]:
                    raise TableError(
                        f"Column {quoted(name)} must hold the same in every file, got {KINDS[kinds[0]]} in {first} and "
                        f"{KINDS[kinds[1]]} in {file}."
                    )

    def table(self, number: int, columns: Sequence[str] | None = None) -> DataTable:
        """The row group of that number in :attr:`groups`."""
        group = self.groups[number]
        _check_distinct(columns or (), self.label)
        label = f"row group {group.group} of {quoted_file(self.files[group.file])}"
        try:
            table = self._opened(group.file).read_row_group(group.group, columns=columns, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())[:200].rstrip(".")
            raise TableError(f"R{label[1:]} is damaged: {reason}.") from error
        if table.num_rows != group.n_rows:
            raise TableError(f"R{label[1:]} must keep its {group.n_rows:,} rows while in use, got {table.num_rows:,}.")
        if columns is not None and table.schema.names != list(columns):
            table = table.select(list(columns))
        return DataTable(table, label, (Path(self.files[group.file]),), (group.n_rows,))

    def fingerprint(self) -> list[list[Any]]:
        """Names, rows and digests of the files, which distinguish these data from others, also from newer ones.

        A change that leaves the size, the smallest and the largest value of every column as they are is not noticed.
        """
        facts = zip(self.files, self.sizes, self._digests, strict=True)
        return [[Path(file).name, size, digest] for file, size, digest in facts]

    def _opened(self, number: int) -> Any:
        from pyarrow import parquet

        with self._lock:
            if number in self._open:
                self._open.move_to_end(number)
                return self._open[number]
        file, place, system = self.files[number], self._places[number], self._systems[number]
        try:
            handle = pa.OSFile(place) if system is None else system.open_input_file(place)
            if handle.size() == 0:
                raise TableError(f"{quoted_file(file)} is empty.")
            # On a remote filesystem many small reads take longer than one that fetches a little too much.
            opened = parquet.ParquetFile(handle, pre_buffer=system is not None)
        except pa.ArrowInvalid:
            advice = hint_for(file, stream=True)
            raise TableError(f"{quoted_file(file)} is not a Parquet file, or it is truncated or damaged{advice}.") from None
        except (pa.ArrowException, OSError) as error:
            reason = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise TableError(f"{quoted_file(file)} cannot be read: {reason.rstrip('.')}.") from error
        with self._lock:
            self._open[number] = opened
            while len(self._open) > _OPEN_FILES:
                self._open.popitem(last=False)
        return opened


def _check_distinct(names: Sequence[str], label: str) -> None:
    """Refuse repeated names of columns, which a table in memory may have."""
    if len(set(names)) < len(names):
        raise TableError(f"{label} must have distinct column names to be read in parts: rename those that come again.")


def _found(path: str | Path, filesystem: Any) -> list[tuple[Any, str]]:
    """Filesystem (None for the local disk) and path of every file that a path or pattern names."""
    from pyarrow import fs

    text = str(path)
    if filesystem is None and "://" not in text:
        return [(None, str(file)) for file in find_files(path)]
    if filesystem is None and text.lower().startswith("http"):
        raise TableError(of_address(text))
    try:
        if filesystem is None:
            plain = text if not glob.has_magic(text) else _folder_before_pattern(text)
            filesystem, inner = fs.FileSystem.from_uri(plain)
            text = inner if plain == text else inner.rstrip("/") + text[len(plain.rstrip("/")) :]
        if glob.has_magic(text):
            selector = fs.FileSelector(_folder_before_pattern(text), recursive=True)
            infos = [info for info in filesystem.get_file_info(selector) if fnmatch.fnmatch(info.path, text)]
        else:
            infos = [filesystem.get_file_info(text)]
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{quoted(path)} cannot be opened: {' '.join(str(error).split()).rstrip('.')}.") from error
    found = sorted(info.path for info in infos if info.type == fs.FileType.File)
    if not found:
        raise TableError(f"No file matches {quoted(path)}.")
    return [(filesystem, file) for file in found]


def _folder_before_pattern(path: str) -> str:
    """The folder above the first part of a path with a wildcard."""
    parts = path.split("/")
    first = next(place for place, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:first]) or "/"


# Copies of CSV files


def parquet_copy(path: Path, *, text_columns: Collection[str] = (), bar: bool = False) -> Path:
    """The Parquet copy of a CSV file in the cache, made if there is none of this version of the file.

    Numbers become float64, so that a column that begins with integers can continue with fractions. ``text_columns`` are
    read as text even if they look like numbers. ``bar`` shows the progress.
    """
    from filelock import FileLock

    status = path.stat()
    identity = (_FORM, str(path.resolve()), status.st_size, status.st_mtime_ns, sorted(text_columns))
    version = hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
    target = cache_folder() / "parquet" / f"{path.name[:80]}-{version}.parquet"
    if not target.is_file():
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(target.with_suffix(".lock")).acquire()
        except OSError as error:
            message = f"A Parquet copy of {quoted(path)} cannot be stored in the cache folder {quoted(target.parent)}"
            advice = "set DEEPFLS_CACHE to a folder that has room for it"
            raise TableError(f"{message} ({error.strerror or error}); {advice}.") from error
        with lock:
            if not target.is_file():  # another process may have made it in the meantime
                _convert(path, target, text_columns, bar=bar)
    return target


def _convert(path: Path, target: Path, text_columns: Collection[str], *, bar: bool) -> None:
    from pyarrow import csv, parquet
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    label = quoted(path)
    shown = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed:,} rows"), TimeElapsedColumn())
    with file_errors(label, "converted to Parquet"), replaced_file(target) as temporary:
        source, form = open_csv_form(path, label)
        # The types are those of the first block.
        with csv.open_csv(source, **form.options(one_thread=True, block_size=_BLOCK_BYTES)) as first:
            types = {field.name: field.type for field in first.schema}
            types |= {name: pa.float64() for name, kind in types.items() if kind_of(kind) in ("number", "empty")}
            types |= {name: pa.string() for name in (*text_columns, *form.texts) if name in types}
        _check_distinct(first.schema.names, label)
        with (
            csv.open_csv(source, **form.options(types, one_thread=True, block_size=_BLOCK_BYTES)) as blocks,
            parquet.ParquetWriter(temporary, blocks.schema) as writer,
            Progress(*shown, console=Console(stderr=True), disable=not bar) as progress,
        ):
            task = progress.add_task(f"converting {escape(quoted(path.name))} to Parquet", total=None)
            for block in blocks:
                writer.write_table(pa.Table.from_batches([block]), row_group_size=_GROUP_ROWS)
                progress.advance(task, block.num_rows)
