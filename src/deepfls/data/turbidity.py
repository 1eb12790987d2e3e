"""The data set "turbidity": the Linke turbidity of the air in every month and cell of a world map in the package pvlib.

Two HDF5 files hold bytes. ``LinkeTurbidities.h5`` is 20 times the Linke turbidity in (latitude, longitude, month).
``Altitude.h5`` is the altitude of a cell, metres = 28 v - 450; 255 marks a cell without an altitude, mostly sea. Such
cells are at sea level, as in pvlib. There are 111,974,400 pairs (cell, month), 35,744,004 of them with an altitude. No
turbidity is missing.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepfls._checks.arguments import check_count, check_option
from deepfls._checks.values import Array
from deepfls._files import search_folders

FILE_NAMES = ("LinkeTurbidities.h5", "Altitude.h5")
FEATURE_NAMES = ("cos_lat_cos_lon", "cos_lat_sin_lon", "sin_lat", "sin_month", "cos_month", "altitude")
N_LATITUDES, N_LONGITUDES, N_MONTHS = 2160, 4320, 12
NO_ALTITUDE = 255
# Map rows in one compressed chunk of the file: a read of fewer rows would unpack the same bytes several times.
SLAB = 135


class Block(NamedTuple):
    """Rows of the set.

    Attributes
    ----------
    x : ndarray of shape (rows, 6)
        The point of the unit sphere, sin and cos of the month's angle (January 0, then 30 degrees a month), and metres.
    y : ndarray of shape (rows, 1)
        Linke turbidity.
    """

    x: Array
    y: Array


class TurbidityFiles(NamedTuple):
    """Paths of the two files."""

    turbidity: Path
    altitude: Path


def turbidity_files(data_dir: str | os.PathLike[str] | None) -> TurbidityFiles:
    """The two files in the first folder that has both: ``data_dir`` or ``DEEPFLS_DATA``, the cache, the package pvlib."""
    package = importlib.util.find_spec("pvlib")  # an import would take seconds
    inside = [Path(folder) / "data" for folder in (package.submodule_search_locations or ())] if package else []
    for folder in (*search_folders(data_dir), *inside):
        files = TurbidityFiles(*(folder / file for file in FILE_NAMES))
        if all(path.is_file() for path in files):
            return files
    raise ModuleNotFoundError(
        f"the data set 'turbidity' needs the files {' and '.join(FILE_NAMES)}, which come with the package pvlib: "
        "pip install 'deepfls[examples]'."
    )


def sample_pairs(files: TurbidityFiles, n_rows: int, random: np.random.Generator) -> Block:
    """A sample without replacement, in random order, of the pairs (cell, month).

    The number of pairs in each slab of the map is drawn first, then the pairs. The sample has the distribution of one drawn
    from all 112 million pairs at once, and needs the memory of one slab.
    """
    n_pairs = np.full(N_LATITUDES // SLAB, SLAB * N_LONGITUDES * N_MONTHS)
    check_count("n_rows of 'turbidity'", n_rows, maximum=int(n_pairs.sum()))
    shares = random.multivariate_hypergeometric(n_pairs, n_rows, method="marginals")
    places = np.split(random.permutation(n_rows), np.cumsum(shares)[:-1])
    x, y = np.empty((n_rows, len(FEATURE_NAMES))), np.empty((n_rows, 1))
    for slab, pairs, place in zip(_slabs(files), n_pairs, places, strict=True):
        cell, month = np.divmod(random.choice(pairs, len(place), replace=False), N_MONTHS)
        x[place], y[place] = _rows_at(*slab, cell, month)
    return Block(x, y)


def _slabs(files: TurbidityFiles) -> Iterator[tuple[int, Array, Array]]:
    """First row of the map, altitudes (latitude, longitude) and turbidities of each slab, from north to south."""
    with _open_map(files.altitude, "Altitude", (N_LATITUDES, N_LONGITUDES)) as file:
        altitude = np.asarray(file[()])
    with _open_map(files.turbidity, "LinkeTurbidity", (*altitude.shape, N_MONTHS)) as turbidity:
        for start in range(0, N_LATITUDES, SLAB):
            yield start, altitude[start : start + SLAB], turbidity[start : start + SLAB]


def turbidity_map(month: int, *, step: int = 6, data_dir: str | os.PathLike[str] | None = None) -> tuple[Block, int]:
    """One month of the set "turbidity" as a map.

    Parameters
    ----------
    month : int
        0 for January to 11.
    step : int
        One of ``step`` cells is taken in both directions; 6 gives half a degree.
    data_dir : path, optional
        Folder with the two files of pvlib, as in :func:`~deepfls.data.datasets.load_dataset`.

    Returns
    -------
    Block, int
        Rows from north to south and west to east, and the width n of the map: ``y.reshape(-1, n)`` is the map.
    """
    check_count("month", month, minimum=0, maximum=N_MONTHS - 1)
    check_count("step", step, maximum=SLAB)
    columns = np.arange(0, N_LONGITUDES, step)
    blocks = []
    for slab in _slabs(turbidity_files(data_dir)):
        cells = (np.arange(-slab[0] % step, SLAB, step)[:, None] * N_LONGITUDES + columns).ravel()
        blocks.append(_rows_at(*slab, cells, np.full(len(cells), month)))
    return Block(*(np.concatenate(part) for part in zip(*blocks, strict=True))), len(columns)


def turbidity_blocks(
    *, data_dir: str | os.PathLike[str] | None = None, map_rows: int = 10, missing_altitude: str = "zero"
) -> Iterator[Block]:
    """All rows of the set "turbidity" in bounded memory, in blocks of a few rows of the world map.

    Parameters
    ----------
    data_dir : path, optional
        Folder with the two files of pvlib, as in :func:`~deepfls.data.datasets.load_dataset`.
    map_rows : int
        Rows of the map in a block, 1 to 135; each has up to 4,320 cells times 12 months, 2.9 MB.
    missing_altitude : {"zero", "skip"}
        Cells without an altitude, the sea: "zero" places them at 0 m as pvlib does and gives all 111,974,400 rows; "skip"
        leaves them out and gives 35,744,004.

    Returns
    -------
    iterator of Block
        ``x`` (rows, 6) and ``y`` (rows, 1), float64, from north to south, west to east and January to December.
    """
    check_count("map_rows", map_rows, maximum=SLAB)
    check_option("missing_altitude", missing_altitude, ("skip", "zero"))
    return _blocks(turbidity_files(data_dir), int(map_rows), missing_altitude)


def _blocks(files: TurbidityFiles, map_rows: int, missing_altitude: str) -> Iterator[Block]:
    for start, altitude, turbidity in _slabs(files):
        for first in range(0, SLAB, map_rows):
            here = slice(first, first + map_rows)
            known = altitude[here] != NO_ALTITUDE
            cells = np.flatnonzero(known) if missing_altitude == "skip" else np.arange(known.size)
            if len(cells):
                months = np.tile(np.arange(N_MONTHS), len(cells))
                yield _rows_at(start + first, altitude[here], turbidity[here], np.repeat(cells, N_MONTHS), months)


def _rows_at(first_row: int, altitude: Array, turbidity: Array, cells: Array, months: Array) -> Block:
    """Inputs and targets at flat ``cells`` (rows,) and ``months`` (rows,) of the part of the map from ``first_row``."""
    row, column = np.divmod(cells, N_LONGITUDES)
    latitude = np.radians(90 - (first_row + row + 0.5) * (180 / N_LATITUDES))
    longitude = np.radians(-180 + (column + 0.5) * (360 / N_LONGITUDES))
    angle = months * (2 * np.pi / N_MONTHS)
    code = altitude[row, column]
    metres = np.where(code == NO_ALTITUDE, 0.0, 28.0 * code - 450.0)
    point = (np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude))
    x = np.stack([*point, np.sin(angle), np.cos(angle), metres], axis=1)
    return Block(x, turbidity[row, column, months][:, None] / 20.0)


@contextlib.contextmanager
def _open_map(path: Path, key: str, shape: tuple[int, ...]) -> Iterator[Any]:
    """The array ``key`` of an HDF5 file, on disk, after a check of its shape and dtype."""
    try:
        import h5py  # an optional dependency
    except ImportError as error:
        raise ModuleNotFoundError(
            "the data set 'turbidity' needs the package h5py to read its files: pip install 'deepfls[examples]'."
        ) from error
    try:
        with h5py.File(path, "r") as file:
            found = file.get(key)
            if not isinstance(found, h5py.Dataset):
                raise ValueError(f"{str(path)!r} must hold an array {key!r}, got none.")
            if found.shape != shape or found.dtype != np.uint8:
                got = f"{found.shape} and {found.dtype}"
                raise ValueError(f"{str(path)!r} must hold {key!r} with shape {shape} and dtype uint8, got {got}.")
            yield found
    except OSError as error:
        raise ValueError(f"{str(path)!r} must be a complete HDF5 file, got one that h5py cannot read ({error}).") from error
