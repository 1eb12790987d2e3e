"""The turbidity of the air, month by month and cell by cell of the world map inside the package pvlib.

Two HDF5 files hold bytes: ``LinkeTurbidities.h5`` 20 times the Linke turbidity in (latitude, longitude, month), and
``Altitude.h5`` the altitude of a cell, metres = 28 v - 450, with 255 where there is none: the sea, nearly always. Such
cells count as sea level, as in pvlib. That gives 111,974,400 pairs (cell, month), 35,744,004 of them with an altitude of
their own; no turbidity is missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepfls._checks import check_count

Array = np.ndarray[Any, np.dtype[Any]]

FILE_NAMES = ("LinkeTurbidities.h5", "Altitude.h5")
FEATURE_NAMES = ("cos_lat_cos_lon", "cos_lat_sin_lon", "sin_lat", "sin_month", "cos_month", "altitude")
MISSING_ALTITUDE = ("skip", "zero")
N_LATITUDES, N_LONGITUDES, N_MONTHS = 2160, 4320, 12
NO_ALTITUDE = 255
# Map rows in one compressed chunk of the file: reading fewer at a time would unpack the same bytes again.
SLAB = 135


class Block(NamedTuple):
    """Some rows of the set.

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
    """Where the two files are."""

    turbidity: Path
    altitude: Path


def sample_pairs(files: TurbidityFiles, n_rows: int, random: np.random.Generator) -> Block:
    """A sample without replacement, in random order, of the pairs (cell, month).

    How many pairs fall into each slab of the map is drawn first, then which: the sample is as random as one drawn at once
    from all 112 million, and needs the memory of one slab.
    """
    altitude = _read_altitude(files.altitude)
    starts = range(0, N_LATITUDES, SLAB)
    n_pairs = np.array([N_MONTHS * altitude[start : start + SLAB].size for start in starts])
    check_count("n_rows of 'turbidity'", n_rows, maximum=int(n_pairs.sum()))
    shares = random.multivariate_hypergeometric(n_pairs, n_rows, method="marginals")
    places = np.split(random.permutation(n_rows), np.cumsum(shares)[:-1])
    x, y = np.empty((n_rows, len(FEATURE_NAMES))), np.empty((n_rows, 1))
    with _open_map(files.turbidity, "LinkeTurbidity", (N_LATITUDES, N_LONGITUDES, N_MONTHS)) as turbidity:
        for start, pairs, place in zip(starts, n_pairs, places, strict=True):
            if len(place) == 0:
                continue
            cell, month = np.divmod(random.choice(pairs, len(place), replace=False), N_MONTHS)
            slab = slice(start, start + SLAB)
            x[place], y[place] = _rows_at(start, altitude[slab], turbidity[slab], cell, month)
    return Block(x, y)


def month_rows(files: TurbidityFiles, month: int, step: int) -> Block:
    """Every ``step``-th cell of the map in both directions in one month (0 to 11), from north to south and west to east."""
    altitude = _read_altitude(files.altitude)
    blocks = []
    with _open_map(files.turbidity, "LinkeTurbidity", (N_LATITUDES, N_LONGITUDES, N_MONTHS)) as turbidity:
        for start in range(0, N_LATITUDES, SLAB):
            rows = np.arange(-start % step, SLAB, step)
            cells = (rows[:, None] * N_LONGITUDES + np.arange(0, N_LONGITUDES, step)).ravel()
            slab = slice(start, start + SLAB)
            blocks.append(_rows_at(start, altitude[slab], turbidity[slab], cells, np.full(len(cells), month)))
    return Block(*(np.concatenate(part) for part in zip(*blocks, strict=True)))


def all_blocks(files: TurbidityFiles, map_rows: int, missing_altitude: str) -> Iterator[Block]:
    """Every pair (cell, month), from north to south, west to east and January to December, ``map_rows`` rows at a time."""
    altitude = _read_altitude(files.altitude)
    with _open_map(files.turbidity, "LinkeTurbidity", (N_LATITUDES, N_LONGITUDES, N_MONTHS)) as turbidity:
        for start in range(0, N_LATITUDES, SLAB):
            slab = turbidity[start : start + SLAB]
            for first in range(0, SLAB, map_rows):
                here = slice(start + first, start + min(first + map_rows, SLAB))
                known = altitude[here] != NO_ALTITUDE
                cells = np.flatnonzero(known) if missing_altitude == "skip" else np.arange(known.size)
                if len(cells):
                    months = np.tile(np.arange(N_MONTHS), len(cells))
                    yield _rows_at(
                        start + first, altitude[here], slab[first : first + map_rows], np.repeat(cells, N_MONTHS), months
                    )


def _rows_at(first_row: int, altitude: Array, turbidity: Array, cells: Array, months: Array) -> Block:
    """Inputs and targets at flat ``cells`` (rows,) and ``months`` (rows,) of a part of the map from ``first_row`` on."""
    row, column = np.divmod(cells, N_LONGITUDES)
    latitude = np.radians(90 - (first_row + row + 0.5) * (180 / N_LATITUDES))
    longitude = np.radians(-180 + (column + 0.5) * (360 / N_LONGITUDES))
    angle = months * (2 * np.pi / N_MONTHS)
    code = altitude[row, column]
    # A cell without an altitude lies at sea level, as in pvlib; callers that want none do not ask for its rows.
    metres = np.where(code == NO_ALTITUDE, 0.0, 28.0 * code - 450.0)
    from_axis = np.cos(latitude)
    x = np.empty((len(cells), len(FEATURE_NAMES)))
    x[:, 0] = from_axis * np.cos(longitude)
    x[:, 1] = from_axis * np.sin(longitude)
    x[:, 2] = np.sin(latitude)
    x[:, 3] = np.sin(angle)
    x[:, 4] = np.cos(angle)
    x[:, 5] = metres
    return Block(x, turbidity[row, column, months][:, None] / 20.0)


def _read_altitude(path: Path) -> Array:
    with _open_map(path, "Altitude", (N_LATITUDES, N_LONGITUDES)) as altitude:
        return np.asarray(altitude[()])


@contextlib.contextmanager
def _open_map(path: Path, key: str, shape: tuple[int, ...]) -> Iterator[Any]:
    """The array ``key`` of an HDF5 file, still on disk, after checking that it is the one meant."""
    try:
        import h5py  # here: optional
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
        raise ValueError(f"{str(path)!r} must be a whole HDF5 file, got one that h5py cannot read ({error}).") from error
