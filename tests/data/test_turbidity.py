"""The world map of turbidity: against the bytes of pvlib's files, and on a tiny map against a plain loop."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepfls.data import datasets, turbidity
from deepfls.data.datasets import DATASETS, load_dataset, turbidity_blocks, turbidity_map

h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install 'deepfls[examples]'")

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def pvlib_data() -> Path:
    package = importlib.util.find_spec("pvlib")
    if package is None or package.origin is None:
        pytest.skip("pvlib is not installed: pip install 'deepfls[examples]'")
    return Path(package.origin).parent / "data"


@pytest.fixture(scope="module")
def maps(pvlib_data: Path) -> Iterator[tuple[Any, Array]]:
    """Turbidity (2160, 4320, 12), on disk, and altitude (2160, 4320) as pvlib stores them."""
    with h5py.File(pvlib_data / "LinkeTurbidities.h5") as first, h5py.File(pvlib_data / "Altitude.h5") as second:
        yield first["LinkeTurbidity"], second["Altitude"][()]


def write_maps(folder: Path, lines: Array, altitude: Array) -> None:
    with h5py.File(folder / "LinkeTurbidities.h5", "w") as file:
        file["LinkeTurbidity"] = lines
    with h5py.File(folder / "Altitude.h5", "w") as file:
        file["Altitude"] = altitude


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Array, Array]:
    """A folder with a map of 6 x 8 cells, a third of them without an altitude, one slab of them entirely."""
    for name, value in (("N_LATITUDES", 6), ("N_LONGITUDES", 8), ("SLAB", 2)):
        monkeypatch.setattr(turbidity, name, value)
    random = np.random.default_rng(0)
    raw = random.integers(13, 154, (6, 8, 12), dtype=np.uint8)
    altitude = random.integers(0, 255, (6, 8), dtype=np.uint8)
    altitude[2:4] = 255
    altitude[0, ::2] = 255
    write_maps(tmp_path, raw, altitude)
    return tmp_path, raw, altitude


def expected_row(raw: Array, altitude: Array, row: int, column: int, month: int) -> list[float]:
    """Inputs and target by the formulas of the manual, one number at a time."""
    latitude = math.radians(90 - (row + 0.5) * 180 / len(raw))
    longitude = math.radians(-180 + (column + 0.5) * 360 / raw.shape[1])
    angle = 2 * math.pi * month / 12
    code = int(altitude[row, column])
    return [
        math.cos(latitude) * math.cos(longitude),
        math.cos(latitude) * math.sin(longitude),
        math.sin(latitude),
        math.sin(angle),
        math.cos(angle),
        0.0 if code == 255 else 28.0 * code - 450,
        raw[row, column, month] / 20,
    ]


def expected_table(raw: Array, altitude: Array, skip: bool) -> Array:
    cells = [(row, column) for row, column in np.ndindex(*altitude.shape) if not (skip and altitude[row, column] == 255)]
    return np.array([expected_row(raw, altitude, *cell, month) for cell in cells for month in range(12)])


def in_order(table: Array) -> Array:
    # Rounded: the two ways of computing differ in the last bit, which must not change the order.
    table = np.round(table, 9)
    return table[np.lexsort(table.T)]


# --- on the tiny map, completely


@pytest.mark.parametrize("map_rows", [1, 2])
@pytest.mark.parametrize("missing_altitude", ["skip", "zero"])
def test_blocks_are_the_whole_map_in_order(tiny: tuple[Path, Array, Array], map_rows: int, missing_altitude: str) -> None:
    folder, raw, altitude = tiny
    blocks = list(turbidity_blocks(data_dir=folder, map_rows=map_rows, missing_altitude=missing_altitude))
    assert all(len(x) == len(y) > 0 for x, y in blocks)
    table = np.concatenate([np.column_stack(block) for block in blocks])
    np.testing.assert_allclose(table, expected_table(raw, altitude, missing_altitude == "skip"), rtol=0, atol=1e-12)


def test_sample_of_all_rows_is_every_pair(tiny: tuple[Path, Array, Array]) -> None:
    folder, raw, altitude = tiny
    expected = expected_table(raw, altitude, skip=False)
    data = load_dataset("turbidity", data_dir=folder, n_rows=len(expected))
    table = np.column_stack([data.x, data.y])
    np.testing.assert_array_equal(in_order(table), in_order(expected))
    assert not np.array_equal(np.round(table, 9), np.round(expected, 9))
    assert data.source == str(folder / "LinkeTurbidities.h5")


def test_sample_is_uniform_over_pairs(tiny: tuple[Path, Array, Array]) -> None:
    folder, raw, altitude = tiny
    files = turbidity.TurbidityFiles(folder / "LinkeTurbidities.h5", folder / "Altitude.h5")
    rows = {tuple(row): 0 for row in np.round(expected_table(raw, altitude, skip=False), 9)}
    random = np.random.default_rng(0)
    for _ in range(200):
        for row in np.round(np.column_stack(turbidity.sample_pairs(files, len(rows) // 4, random)), 9):
            rows[tuple(row)] += 1
    counts = np.array(list(rows.values()))
    # Binomial(200, 1/4): mean 50, deviation 6.1.
    assert counts.mean() == 50
    assert 4 < counts.std() < 8
    assert 20 < counts.min() <= counts.max() < 80


def test_more_rows_than_pairs_are_refused(tiny: tuple[Path, Array, Array]) -> None:
    folder, _, altitude = tiny
    n_pairs = 12 * altitude.size
    with pytest.raises(ValueError, match=rf"^n_rows of 'turbidity' must be between 1 and {n_pairs}, got {n_pairs + 1}\.$"):
        load_dataset("turbidity", data_dir=folder, n_rows=n_pairs + 1)


def test_sample_has_200_000_rows_by_default(tiny: tuple[Path, Array, Array], monkeypatch: pytest.MonkeyPatch) -> None:
    assert datasets.DEFAULT_TURBIDITY_ROWS == 200_000
    monkeypatch.setattr(datasets, "DEFAULT_TURBIDITY_ROWS", 5)
    assert len(load_dataset("turbidity", data_dir=tiny[0]).x) == 5


@pytest.mark.parametrize("step", [1, 2])
def test_month_map_is_every_nth_cell(tiny: tuple[Path, Array, Array], step: int) -> None:
    folder, raw, altitude = tiny
    (x, y), width = turbidity_map(4, step=step, data_dir=folder)
    cells = [(row, column) for row in range(0, 6, step) for column in range(0, 8, step)]
    expected = np.array([expected_row(raw, altitude, *cell, 4) for cell in cells])
    np.testing.assert_allclose(np.column_stack([x, y]), expected, rtol=0, atol=1e-12)
    assert y.reshape(-1, width).shape == (len(range(0, 6, step)), len(range(0, 8, step)))


# --- on the real map


def test_real_sample_is_what_the_files_say_at_its_places(maps: tuple[Any, Array]) -> None:
    raw, altitude = maps
    before = "pvlib" in sys.modules
    data = load_dataset("turbidity", n_rows=2000, random_state=3)
    assert ("pvlib" in sys.modules) == before
    assert (data.x.shape, data.y.shape) == ((2000, 6), (2000, 1))
    assert data.feature_names == ("cos_lat_cos_lon", "cos_lat_sin_lon", "sin_lat", "sin_month", "cos_month", "altitude")
    row = np.floor((90 - np.degrees(np.arcsin(data.x[:, 2]))) * 12).astype(int)
    column = np.floor((np.degrees(np.arctan2(data.x[:, 1], data.x[:, 0])) + 180) * 12).astype(int)
    month = np.round(np.arctan2(data.x[:, 3], data.x[:, 4]) / (2 * np.pi) * 12).astype(int) % 12
    assert len({*zip(row, column, month, strict=True)}) == 2000
    code = altitude[row, column].astype(float)
    np.testing.assert_array_equal(data.x[:, 5], np.where(code == 255, 0.0, 28 * code - 450))
    for at in range(0, 2000, 400):
        assert data.y[at, 0] == raw[row[at], column[at], month[at]] / 20


def test_real_sample_depends_on_the_seed_only(pvlib_data: Path) -> None:
    first, again, other = (load_dataset("turbidity", n_rows=50, random_state=seed).x for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first[:, 2], np.sort(first[:, 2])[::-1])  # in random order, not from north to south


def test_split_by_the_same_seed_is_still_random(pvlib_data: Path) -> None:
    x = load_dataset("turbidity", n_rows=2000, random_state=0).x
    test = np.random.default_rng(0).permutation(2000)[1500:]
    assert abs(x[test, 2].mean() - x[:, 2].mean()) < 0.15  # sines of latitude, of deviation 0.7


def test_real_blocks_start_in_the_north(maps: tuple[Any, Array]) -> None:
    raw, altitude = maps
    row, column = (int(index) for index in np.argwhere(altitude != 255)[0])
    x, y = next(turbidity_blocks(map_rows=1, missing_altitude="skip"))
    assert len(x) == 12 * int((altitude[row] != 255).sum())
    for month in (0, 5, 11):
        expected = expected_row(raw, altitude, row, column, month)
        np.testing.assert_allclose([*x[month], *y[month]], expected, rtol=0, atol=1e-12)


def test_real_blocks_with_the_sea_hold_every_cell(maps: tuple[Any, Array]) -> None:
    raw, altitude = maps
    blocks = list(islice(turbidity_blocks(map_rows=2, missing_altitude="zero"), 2))
    assert [len(block.x) for block in blocks] == [2 * 4320 * 12] * 2
    assert altitude[3, 100] == 255
    at = (4320 + 100) * 12 + 6
    np.testing.assert_allclose(
        [*blocks[1].x[at], *blocks[1].y[at]], expected_row(raw, altitude, 3, 100, 6), rtol=0, atol=1e-12
    )


def test_real_map_is_as_described(maps: tuple[Any, Array]) -> None:
    raw, altitude = maps
    assert 12 * altitude.size == DATASETS["turbidity"].n_rows
    assert raw.chunks[0] == turbidity.SLAB
    # No byte stands for a missing turbidity: the smallest and largest are 0.65 and 7.65.
    assert {13, 153} == {int(value) for value in (raw[()].min(), raw[()].max())}


# --- what can be wrong


def test_missing_pvlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pvlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pvlib: pip install 'deepfls\[examples\]'\.$"):
        load_dataset("turbidity", n_rows=5)
    with pytest.raises(ModuleNotFoundError, match=r"needs the files LinkeTurbidities\.h5 and Altitude\.h5"):
        turbidity_blocks()


def test_missing_h5py_names_the_extra(tiny: tuple[Path, Array, Array], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs the package h5py .*: pip install 'deepfls\[examples\]'\.$"):
        load_dataset("turbidity", data_dir=tiny[0], n_rows=5)


def test_foreign_map_is_refused_by_name(tmp_path: Path) -> None:
    write_maps(tmp_path, np.zeros((2, 3, 12), np.uint8), np.zeros((2, 3), np.uint8))
    message = r"Altitude.h5' must hold 'Altitude' with shape \(2160, 4320\) and dtype uint8, got \(2, 3\) and uint8\.$"
    with pytest.raises(ValueError, match=message):
        load_dataset("turbidity", data_dir=tmp_path, n_rows=1)


def test_map_of_other_numbers_is_refused(tiny: tuple[Path, Array, Array]) -> None:
    folder, raw, altitude = tiny
    write_maps(folder, raw.astype(np.float32), altitude)
    with pytest.raises(ValueError, match=r"LinkeTurbidities.h5' must hold .* and dtype uint8, got .* and float32\.$"):
        next(turbidity_blocks(data_dir=folder, map_rows=1))


def test_file_without_the_array_is_refused(tiny: tuple[Path, Array, Array]) -> None:
    folder = tiny[0]
    with h5py.File(folder / "Altitude.h5", "w") as file:
        file.create_group("Altitude")
    with pytest.raises(ValueError, match=r"Altitude.h5' must hold an array 'Altitude', got none\.$"):
        load_dataset("turbidity", data_dir=folder, n_rows=1)


@pytest.mark.parametrize("keep", [0, 700, -10])
def test_truncated_file_is_refused(tiny: tuple[Path, Array, Array], keep: int) -> None:
    folder = tiny[0]
    path = folder / "LinkeTurbidities.h5"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(
        ValueError, match=r"LinkeTurbidities.h5' must be a complete HDF5 file, got one that h5py cannot read \("
    ):
        load_dataset("turbidity", data_dir=folder, n_rows=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"map_rows": 0}, "map_rows must be between 1 and 135, got 0"),
        ({"map_rows": 136}, "map_rows must be between 1 and 135, got 136"),
        ({"missing_altitude": "skipp"}, "missing_altitude must be one of .* Did you mean 'skip'?"),
    ],
)
def test_blocks_refuse_impossible_arguments_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        turbidity_blocks(**arguments)
