"""The cache folder of the user: downloads with a checksum, and Parquet copies of CSV files that can be streamed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from deepfls._checks.arguments import quoted
from deepfls._files import replaced_file

# The largest file of a named set has 4 MB.
MAX_BYTES = 32 << 20
TIMEOUT_SECONDS = 30.0
# Bytes of CSV that are parsed at a time, and rows of a row group of the Parquet copy.
_BLOCK_BYTES = 16 << 20
_GROUP_ROWS = 65_536
# A new number where CSV files are read in another way, so that earlier copies are made again.
_FORM = 3


def cache_folder() -> Path:
    """The folder for downloads and copies: ``DEEPFLS_CACHE``, or else ``deepfls`` in the cache folder of the system."""
    import platformdirs

    chosen = os.environ.get("DEEPFLS_CACHE", "")
    try:
        return Path(chosen or platformdirs.user_cache_dir("deepfls", appauthor=False, opinion=False)).expanduser()
    except RuntimeError as error:
        raise RuntimeError("DEEPFLS_CACHE must name a folder for a user without a home folder, got none.") from error


def search_folders(data_dir: str | os.PathLike[str] | None) -> Iterator[Path]:
    """Folders to search for the files of a named set: ``data_dir`` or else ``DEEPFLS_DATA``, then the cache."""
    origin, given = ("DEEPFLS_DATA", os.environ.get("DEEPFLS_DATA", "")) if data_dir is None else ("data_dir", data_dir)
    if data_dir is not None or given:
        folder = Path(given).expanduser()
        if not folder.is_dir():
            raise NotADirectoryError(f"{origin} must be an existing folder, got {str(folder)!r}.")
        yield folder
    yield cache_folder()


def checked_download(url: str, sha256: str) -> tuple[bytes, str]:
    """Download a file into the cache: its content, and its path, or its address where the cache is not writable.

    OSError where the download failed, or where the checksum (hexadecimal digits) or the size is wrong; no file is kept.
    """
    import pooch

    with contextlib.ExitStack() as stack:
        folder, refused = cache_folder(), None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(tempfile.TemporaryFile(dir=folder))
        except OSError as error:
            folder, refused = Path(stack.enter_context(tempfile.TemporaryDirectory())), error
        try:
            path = pooch.retrieve(url, f"sha256:{sha256}", PurePosixPath(url).name, folder, downloader=_fetch)
        except ValueError as error:
            raise OSError(f"the file received is not the official one: its SHA-256 is not {sha256}") from error
        except OSError as error:
            # requests wraps the reason of a failed connection in two other errors.
            reason = getattr(error.args[0], "reason", error) if error.args else error
            raise OSError(" ".join(str(reason).split()) or type(error).__name__) from error
        content = Path(path).read_bytes()
    if refused is not None:
        message = f"{PurePosixPath(url).name} was downloaded but could not be kept in the cache ({refused})."
        warnings.warn(message, stacklevel=4)  # the caller of load_dataset
        return content, url
    return content, path


def _fetch(url: str, file: str, _: object) -> None:
    """Write the bytes at ``url`` to a file, at most :data:`MAX_BYTES`; pooch's own downloader has no limit."""
    import requests

    n_bytes = 0
    with (
        requests.get(url, stream=True, timeout=TIMEOUT_SECONDS, headers={"User-Agent": "deepfls"}) as response,
        Path(file).open("wb") as output,
    ):
        response.raise_for_status()
        for chunk in response.iter_content(1 << 16):
            n_bytes += output.write(chunk)
            if n_bytes > MAX_BYTES:
                raise OSError(f"the file received has more than {MAX_BYTES:,} bytes")


def parquet_copy(path: Path, *, text_columns: Collection[str] = (), bar: bool = False) -> Path:
    """The Parquet copy of a CSV file in the cache, made if there is none of this version of the file.

    Numbers become float64, so that a column that begins with integers can continue with fractions. ``text_columns`` are
    read as text even if they look like numbers. ``bar`` shows the progress.
    """
    from filelock import FileLock

    from deepfls.data.csv_form import TableError

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
    import pyarrow as pa
    from pyarrow import csv, parquet
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from deepfls.data.csv_form import NULL_TEXTS, open_csv_form
    from deepfls.data.tables import TableError, file_errors, kind_of

    label = quoted(path)
    shown = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed:,} rows"), TimeElapsedColumn())
    with file_errors(label, "converted to Parquet"), replaced_file(target) as temporary:
        source, form = open_csv_form(path, label)
        reading = form.reading(block_size=_BLOCK_BYTES, use_threads=False)
        parsing = csv.ParseOptions(delimiter=form.delimiter, newlines_in_values=True)
        # The types are those of the first block.
        with csv.open_csv(source, reading, parsing, csv.ConvertOptions(null_values=NULL_TEXTS)) as first:
            types = {field.name: field.type for field in first.schema}
            types |= {name: pa.float64() for name, kind in types.items() if kind_of(kind) in ("number", "empty")}
            types |= {name: pa.string() for name in (*text_columns, *form.texts) if name in types}
        if len(types) < len(first.schema):
            raise TableError(f"{label} must have distinct column names to be read in parts: rename those that come again.")
        if not isinstance(source, Path):
            source.seek(0)
        with (
            csv.open_csv(
                source, reading, parsing, csv.ConvertOptions(column_types=types, null_values=NULL_TEXTS)
            ) as blocks,
            parquet.ParquetWriter(temporary, blocks.schema) as writer,
            Progress(*shown, console=Console(stderr=True), disable=not bar) as progress,
        ):
            task = progress.add_task(f"converting {escape(quoted(path.name))} to Parquet", total=None)
            for block in blocks:
                writer.write_table(pa.Table.from_batches([block]), row_group_size=_GROUP_ROWS)
                progress.advance(task, block.num_rows)
