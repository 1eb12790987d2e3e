"""Named data sets: from a local folder, the user's cache, a checked download, or a package that carries them.

docs/datasets.md says what each is, where files are looked for, and under which terms.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import io
import os
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from deepfls._checks import check_count, check_option
from deepfls._files import write_whole
from deepfls.data import turbidity
from deepfls.data.catalog import DATASETS, DatasetInfo
from deepfls.data.turbidity import Block
from deepfls.data.xlsx import first_sheet, zip_member

Array = np.ndarray[Any, np.dtype[Any]]

__all__ = [
    "DATASETS",
    "Block",
    "Dataset",
    "DatasetInfo",
    "cache_folder",
    "load_dataset",
    "turbidity_blocks",
    "turbidity_map",
]

# The largest of the files has 4 MB.
MAX_BYTES = 32 << 20
TIMEOUT_SECONDS = 30.0
DEFAULT_TURBIDITY_ROWS = 200_000


@dataclass(frozen=True, eq=False)
class Dataset:
    """A named set in memory.

    Attributes
    ----------
    name : str
        Its key in :data:`DATASETS`.
    x : ndarray of shape (rows, features), float64
        Inputs.
    y : ndarray of shape (rows, outputs), float64
        Targets.
    feature_names, target_names : tuple of str
        Names of the columns of ``x`` and ``y``.
    description, citation, licence : str
        What it is, whom to cite, and the terms of use.
    source : str
        The file or package it was read from.
    """

    name: str
    x: Array
    y: Array
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    description: str
    citation: str
    licence: str
    source: str


def load_dataset(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    n_rows: int | None = None,
    random_state: int | None = 0,
    download: bool = True,
) -> Dataset:
    """A named data set.

    Its file is looked for in ``data_dir`` (else in the folder named by the environment variable ``DEEPFLS_DATA``), then in
    the user's cache, then downloaded, compared with its official SHA-256, and kept in that cache.

    Parameters
    ----------
    name : {"ccpp", "boston", "enb", "turbidity", "diabetes"}
        A key of :data:`DATASETS`.
    data_dir : path, optional
        Folder with files under one of the names in ``DATASETS[name].files``.
    n_rows : int, optional
        Size of a random sample without replacement, in random order. All rows in their order by default, except for
        "turbidity": 200,000 of its 112 million.
    random_state : int or None
        Seed of the sample: the same seed gives the same rows. None gives others each time.
    download : bool
        Whether a file that is nowhere else may be downloaded.

    Returns
    -------
    Dataset
        ``x`` (rows, features) and ``y`` (rows, outputs) with their names and terms.

    Raises
    ------
    FileNotFoundError
        The file is nowhere and could not be downloaded; the message says what to put where.
    ValueError
        A file that was found is truncated, damaged or another set.

    Examples
    --------
    >>> data = load_dataset("diabetes", n_rows=100)
    >>> data.x.shape, data.y.shape, data.target_names
    ((100, 10), (100, 1), ('progression',))
    """
    info = DATASETS[check_option("name", name, tuple(DATASETS))]
    if n_rows is not None:
        n_rows = check_count("n_rows", n_rows)
    seed = None if random_state is None else check_count("random_state", random_state, 0)
    # A stream of its own: who splits the rows with default_rng of the same seed would otherwise repeat the permutation that
    # ordered them, and test on the last rows of the file.
    random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    if name == "turbidity":
        files = _turbidity_files(data_dir)
        (x, y), source = turbidity.sample_pairs(files, n_rows or DEFAULT_TURBIDITY_ROWS, random), str(files.turbidity)
    else:
        table, source = _diabetes() if name == "diabetes" else _read_or_download(name, info, data_dir, download)
        if n_rows is not None:
            check_count(f"n_rows of {name!r}", n_rows, maximum=len(table))
            table = table[random.choice(len(table), n_rows, replace=False)]
        x, y = (np.ascontiguousarray(part) for part in np.split(table, [len(info.feature_names)], axis=1))
    return Dataset(
        name=name,
        x=x,
        y=y,
        feature_names=info.feature_names,
        target_names=info.target_names,
        description=info.description,
        citation=info.citation,
        licence=info.licence,
        source=source,
    )


def turbidity_map(month: int, *, step: int = 6, data_dir: str | os.PathLike[str] | None = None) -> tuple[Block, int]:
    """One month of the set "turbidity" as a map.

    Parameters
    ----------
    month : int
        0 for January to 11.
    step : int
        Every how many cells one is taken, in both directions; 6 gives half a degree.
    data_dir : path, optional
        Folder with the two files of pvlib, as in :func:`load_dataset`.

    Returns
    -------
    Block, int
        Rows from north to south and west to east, and how many stand side by side: ``y.reshape(-1, n)`` is the map.
    """
    check_count("month", month, minimum=0, maximum=turbidity.N_MONTHS - 1)
    check_count("step", step, maximum=turbidity.SLAB)
    rows = turbidity.month_rows(_turbidity_files(data_dir), month, step)
    return rows, len(range(0, turbidity.N_LONGITUDES, step))


def turbidity_blocks(
    *, data_dir: str | os.PathLike[str] | None = None, map_rows: int = 10, missing_altitude: str = "zero"
) -> Iterator[Block]:
    """All rows of the set "turbidity" in bounded memory, a few rows of the world map at a time.

    Parameters
    ----------
    data_dir : path, optional
        Folder with the two files of pvlib, as in :func:`load_dataset`.
    map_rows : int
        Rows of the map in a block, 1 to 135; each has up to 4,320 cells times 12 months, 2.9 MB.
    missing_altitude : {"zero", "skip"}
        What becomes of cells without an altitude, the sea: put at 0 m as pvlib does, which gives all 111,974,400 rows, or
        left out, which leaves 35,744,004.

    Returns
    -------
    iterator of Block
        ``x`` (rows, 6) and ``y`` (rows, 1), float64, from north to south, west to east and January to December.
    """
    check_count("map_rows", map_rows, maximum=turbidity.SLAB)
    check_option("missing_altitude", missing_altitude, turbidity.MISSING_ALTITUDE)
    return turbidity.all_blocks(_turbidity_files(data_dir), int(map_rows), missing_altitude)


def cache_folder() -> Path:
    """The folder that keeps downloads: ``DEEPFLS_CACHE``, else ``deepfls`` in the system's place for caches."""
    chosen = os.environ.get("DEEPFLS_CACHE", "")
    try:
        if chosen:
            return Path(chosen).expanduser()
        shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
        # A relative path there is to be ignored: XDG Base Directory Specification.
        if not shared.is_absolute():
            if sys.platform == "darwin":
                shared = Path.home() / "Library" / "Caches"
            elif sys.platform == "win32":
                shared = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
            else:
                shared = Path.home() / ".cache"
        return shared / "deepfls"
    except RuntimeError as error:
        raise RuntimeError("DEEPFLS_CACHE must name a folder where the user has no home, got none.") from error


def _search_folders(data_dir: str | os.PathLike[str] | None) -> Iterator[Path]:
    """The folder given, if any, then the cache. Lazy: a file found in the first needs no cache."""
    origin, given = ("DEEPFLS_DATA", os.environ.get("DEEPFLS_DATA", "")) if data_dir is None else ("data_dir", data_dir)
    if data_dir is not None or given:
        folder = Path(given).expanduser()
        if not folder.is_dir():
            raise NotADirectoryError(f"{origin} must be an existing folder, got {str(folder)!r}.")
        yield folder
    yield cache_folder()


def _read_or_download(
    name: str, info: DatasetInfo, data_dir: str | os.PathLike[str] | None, download: bool
) -> tuple[Array, str]:
    """The table (rows, columns) of a set that is one file, and where it came from."""
    searched = []
    for folder in _search_folders(data_dir):
        searched.append(repr(str(folder)))
        for path in (folder / file for file in info.files):
            if path.is_file():
                if path.stat().st_size > MAX_BYTES:
                    raise ValueError(f"{str(path)!r} must have at most {MAX_BYTES:,} bytes, got {path.stat().st_size:,}.")
                return _parse(name, info, path, path.read_bytes()), str(path)
    try:
        if not download:
            raise OSError("download=False")
        content = _download(info.url, info.sha256)
    except OSError as error:
        reason = str(error) or type(error).__name__
        raise FileNotFoundError(
            f"the data set {name!r} needs one of the files {', '.join(info.files)} in {' or '.join(searched)}, or in a "
            "folder given as data_dir or in the environment variable DEEPFLS_DATA; none is there, and it was not "
            f"downloaded from {info.url} ({reason})."
        ) from error
    path = cache_folder() / PurePosixPath(info.url).name
    table = _parse(name, info, path, content)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        warnings.warn(f"{path.name} was downloaded but could not be kept in the cache ({error}).", stacklevel=3)
        return table, info.url
    return table, str(path)


def _download(url: str, sha256: str) -> bytes:
    """The bytes at ``url`` if they are the ones expected; any failure is an OSError."""
    from http.client import HTTPException  # here: keeps `import deepfls` light
    from urllib.request import Request, urlopen

    try:
        with urlopen(Request(url, headers={"User-Agent": "deepfls"}), timeout=TIMEOUT_SECONDS) as response:
            content: bytes = response.read(MAX_BYTES + 1)
    except HTTPException as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    if len(content) > MAX_BYTES:
        raise OSError(f"what came has more than {MAX_BYTES:,} bytes")
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise OSError(f"what came is not the official file: its SHA-256 is {found}, not {sha256}")
    return content


def _parse(name: str, info: DatasetInfo, path: Path, content: bytes) -> Array:
    """The table (rows, columns) in a file's content, after checking that it is this set and that it is whole."""
    where = repr(str(path))
    try:
        rows = _READERS[path.suffix](content)
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{where} cannot be read as the data set {name!r} ({error}).") from error
    header, body = (info.columns, rows) if path.suffix == ".data" else (tuple(rows[0]) if rows else (), rows[1:])
    if header != info.columns:
        got = repr(textwrap.shorten(", ".join(header), 200)) if header else "an empty file"
        raise ValueError(f"{where} must have the columns {', '.join(info.columns)}, got {got}.")
    if len(body) != info.n_rows:
        raise ValueError(f"{where} must have {info.n_rows:,} rows, got {len(body):,}: it is truncated or another set.")
    table = np.empty((info.n_rows, len(header)))
    for number, row in enumerate(body):
        if len(row) != len(header):
            raise ValueError(
                f"{where} must have {len(header)} columns in every row, got {len(row)} in data row {number + 1}."
            )
        for column, cell in enumerate(row):
            table[number, column] = _number(cell)
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        number, column = bad[0]
        got = repr(body[number][column][:40])
        place = f"data row {number + 1}, column {header[column]!r}"
        raise ValueError(f"{where} must hold finite numbers, got {got} in {place}.")
    return table


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def _csv_rows(content: bytes) -> list[list[str]]:
    rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
    return [[cell.strip() for cell in row] for row in rows if row]


def _spaced_rows(content: bytes) -> list[list[str]]:
    return [line.split() for line in content.decode("utf-8").splitlines() if line.strip()]


def _zipped_sheet(content: bytes) -> list[list[str]]:
    return first_sheet(zip_member(content, "Folds5x2_pp.xlsx"))


_READERS: Mapping[str, Callable[[bytes], list[list[str]]]] = {
    ".csv": _csv_rows,
    ".data": _spaced_rows,
    ".xlsx": first_sheet,
    ".zip": _zipped_sheet,
}


def _turbidity_files(data_dir: str | os.PathLike[str] | None) -> turbidity.TurbidityFiles:
    package = importlib.util.find_spec("pvlib")  # not imported: that takes seconds
    inside = [Path(folder) / "data" for folder in (package.submodule_search_locations or ())] if package else []
    for folder in (*_search_folders(data_dir), *inside):
        files = turbidity.TurbidityFiles(*(folder / file for file in turbidity.FILE_NAMES))
        if all(path.is_file() for path in files):
            return files
    raise ModuleNotFoundError(
        f"the data set 'turbidity' needs the files {' and '.join(turbidity.FILE_NAMES)}, which come with the package "
        "pvlib: pip install 'deepfls[examples]'."
    )


def _diabetes() -> tuple[Array, str]:
    from sklearn.datasets import load_diabetes  # here: keeps `import deepfls` light

    x, y = load_diabetes(return_X_y=True, scaled=False)
    return np.column_stack([x, y]).astype(np.float64), "sklearn.datasets.load_diabetes"
