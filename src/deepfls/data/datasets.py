"""Named data sets: their description, and their rows from a local file, a checked download or an installed package.

docs/datasets.md describes the sets, the folders that are searched and the terms of use.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import tempfile
import textwrap
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from types import MappingProxyType

import numpy as np

from deepfls._checks.arguments import check_count, check_option
from deepfls._checks.values import Array
from deepfls._files import cache_folder, search_folders
from deepfls.data.turbidity import (
    FEATURE_NAMES,
    FILE_NAMES,
    Block,
    sample_pairs,
    turbidity_blocks,
    turbidity_files,
    turbidity_map,
)

__all__ = ["DATASETS", "Block", "Dataset", "DatasetInfo", "load_dataset", "turbidity_blocks", "turbidity_map"]

DEFAULT_TURBIDITY_ROWS = 200_000
# The largest file of a named set has 4 MB.
MAX_BYTES = 32 << 20
TIMEOUT_SECONDS = 30.0
# Limits for spreadsheets, against files made to exhaust the memory. The largest workbook unpacks to about 15 MB.
_MAX_SHEET_ROWS, _MAX_SHEET_COLUMNS = 100_000, 100
_MAX_UNPACKED = 64 << 20
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a named set.

    Attributes
    ----------
    n_rows : int
        Rows of the set.
    feature_names, target_names : tuple of str
        Columns, in order.
    description, citation, licence : str
        Content, reference to cite, and terms of use.
    files : tuple of str
        Accepted file names, in the order of the search.
    url, sha256 : str
        Address of the official file and the checksum of its bytes; empty for a set that comes with a package.
    """

    n_rows: int
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    description: str
    citation: str
    licence: str
    files: tuple[str, ...] = ()
    url: str = ""
    sha256: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.feature_names, *self.target_names)


DATASETS: Mapping[str, DatasetInfo] = MappingProxyType(
    {
        "ccpp": DatasetInfo(
            n_rows=9_568,
            feature_names=("AT", "V", "AP", "RH"),
            target_names=("PE",),
            description="Hourly electrical output (MW) of a combined cycle power plant at full load over six years, from "
            "ambient temperature, exhaust vacuum, ambient pressure and relative humidity; its 41 duplicate rows stay.",
            citation="P. Tüfekci, Prediction of full load electrical power output of a base load operated combined cycle "
            "power plant using machine learning methods, Int. J. Electr. Power Energy Syst. 60 (2014) 126-140; UCI 294.",
            licence="CC BY 4.0",
            files=("ccpp.csv", "Folds5x2_pp.xlsx", "CCPP.zip"),
            url=f"{_UCI}/00294/CCPP.zip",
            sha256="cc7b2a4977c0a44e8221c91d9a7e5746b3c68186cff7e5c61c70af6432b98c7a",
        ),
        "boston": DatasetInfo(
            n_rows=506,
            feature_names=(
                *("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE"),
                *("DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT"),
            ),
            target_names=("MEDV",),
            description="Median value (1000 $) of homes in the census tracts of Boston, 1970. Column B encodes the share "
            "of Black residents on an assumption that is ethically contested: the set is here only to compare with "
            "published results. boston.csv, as the paper used it, is a rounded copy of the official housing.data.",
            citation="D. Harrison and D. L. Rubinfeld, Hedonic housing prices and the demand for clean air, J. Environ. "
            "Econ. Manag. 5 (1978) 81-102; StatLib.",
            licence="none stated",
            files=("boston.csv", "housing.data"),
            url=f"{_UCI}/housing/housing.data",
            sha256="baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
        ),
        "enb": DatasetInfo(
            n_rows=768,
            feature_names=("X1", "X2", "X3", "X4", "X5", "X6", "X7", "X8"),
            target_names=("Y1", "Y2"),
            description="Heating (Y1) and cooling (Y2) load of simulated buildings, from compactness, surface, wall and "
            "roof area, height, orientation, glazing area and its distribution; several inputs take few values.",
            citation="A. Tsanas and A. Xifara, Accurate quantitative estimation of energy performance of residential "
            "buildings using statistical machine learning tools, Energy Build. 49 (2012) 560-567; UCI 242.",
            licence="CC BY 4.0",
            files=("enb.csv", "ENB2012_data.xlsx"),
            url=f"{_UCI}/00242/ENB2012_data.xlsx",
            sha256="0089fcffc1415e41e2ff63730cca5280efe54fc43d722dfde1b0aaa808e35dc4",
        ),
        "turbidity": DatasetInfo(
            n_rows=111_974_400,
            feature_names=FEATURE_NAMES,
            target_names=("turbidity",),
            description="Linke turbidity of the air in every month and cell (1/12 degree) of a world map, from the place "
            "on the unit sphere, the month on the unit circle and the altitude (m); cells without an altitude, nearly all "
            "of them sea, are at 0 m.",
            citation="J. Remund, L. Wald, M. Lefèvre, T. Ranchin and J. Page, Worldwide Linke turbidity information, "
            "Proc. ISES Solar World Congress, Göteborg (2003); files of pvlib.",
            licence="BSD-3-Clause (pvlib)",
            files=FILE_NAMES,
        ),
        "diabetes": DatasetInfo(
            n_rows=442,
            feature_names=("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"),
            target_names=("progression",),
            description="Progression of diabetes in one year, from ten measurements of each patient in their own units.",
            citation="B. Efron, T. Hastie, I. Johnstone and R. Tibshirani, Least angle regression, Ann. Statist. 32 (2004) "
            "407-499; file of scikit-learn.",
            licence="BSD-3-Clause (scikit-learn)",
        ),
    }
)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A named set in memory.

    Attributes
    ----------
    name : str
        The key in :data:`DATASETS`.
    x : ndarray of shape (rows, features), float64
        Inputs.
    y : ndarray of shape (rows, outputs), float64
        Targets.
    feature_names, target_names : tuple of str
        Names of the columns of ``x`` and ``y``.
    description, citation, licence : str
        Content, reference to cite, and terms of use.
    source : str
        The file or package that was read.
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


# Fields of a description that a set in memory has too.
_SHARED = ("feature_names", "target_names", "description", "citation", "licence")


def load_dataset(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    n_rows: int | None = None,
    random_state: int | None = 0,
    download: bool = True,
) -> Dataset:
    """A named data set.

    Its file is searched in ``data_dir`` (or else in the folder named by the environment variable ``DEEPFLS_DATA``), then in
    the cache of the user. If neither has it, it is downloaded, compared with its official SHA-256 and kept in the cache.

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
        Seed of the sample: the same seed gives the same rows. None gives other rows in each call.
    download : bool
        Whether a file that is in none of the folders may be downloaded.

    Returns
    -------
    Dataset
        ``x`` (rows, features) and ``y`` (rows, outputs) with their names and terms.

    Raises
    ------
    FileNotFoundError
        The file was neither found nor downloaded; the message names the file and the folders.
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
    # A separate random stream: a split of the rows with default_rng of the same seed would otherwise repeat the permutation
    # that ordered them, and the test rows would be the last rows of the file.
    random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    if name == "turbidity":
        files = turbidity_files(data_dir)
        (x, y), source = sample_pairs(files, n_rows or DEFAULT_TURBIDITY_ROWS, random), str(files.turbidity)
    else:
        if name == "diabetes":
            from sklearn.datasets import load_diabetes  # here: keeps the import of this file light

            table = np.column_stack(load_diabetes(return_X_y=True, scaled=False)).astype(np.float64)
            source = "sklearn.datasets.load_diabetes"
        else:
            table, source = _read_or_download(name, info, data_dir, download)
        if n_rows is not None:
            check_count(f"n_rows of {name!r}", n_rows, maximum=len(table))
            table = table[random.choice(len(table), n_rows, replace=False)]
        x, y = (np.ascontiguousarray(part) for part in np.split(table, [len(info.feature_names)], axis=1))
    return Dataset(name=name, x=x, y=y, source=source, **{field: getattr(info, field) for field in _SHARED})


def _read_or_download(
    name: str, info: DatasetInfo, data_dir: str | os.PathLike[str] | None, download: bool
) -> tuple[Array, str]:
    """The table (rows, columns) of a set in one file, and the file or address that was read."""
    searched = []
    for folder in search_folders(data_dir):
        searched.append(repr(str(folder)))
        for path in (folder / file for file in info.files):
            if path.is_file():
                if path.stat().st_size > MAX_BYTES:
                    raise ValueError(f"{str(path)!r} must have at most {MAX_BYTES:,} bytes, got {path.stat().st_size:,}.")
                return _parse(name, info, str(path), path.read_bytes()), str(path)
    try:
        if not download:
            raise OSError("download=False")
        content, source = checked_download(info.url, info.sha256)
    except OSError as error:
        raise FileNotFoundError(
            f"the data set {name!r} needs one of the files {', '.join(info.files)} in {' or '.join(searched)}, or in a "
            "folder given as data_dir or in the environment variable DEEPFLS_DATA; none was found, and it was not "
            f"downloaded from {info.url} ({error})."
        ) from error
    return _parse(name, info, source, content), source


def _parse(name: str, info: DatasetInfo, source: str, content: bytes) -> Array:
    """The table (rows, columns) in the content of a file, after a check of its columns, rows and numbers."""
    where, ending = repr(source), PurePath(source).suffix
    try:
        rows = _cells(content, ending)
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{where} cannot be read as the data set {name!r} ({error}).") from error
    header, body = (info.columns, rows) if ending == ".data" else (tuple(rows[0]) if rows else (), rows[1:])
    if header != info.columns:
        got = repr(textwrap.shorten(", ".join(header), 200)) if header else "an empty file"
        raise ValueError(f"{where} must have the columns {', '.join(info.columns)}, got {got}.")
    if len(body) != info.n_rows:
        raise ValueError(f"{where} must have {info.n_rows:,} rows, got {len(body):,}: it is truncated or another set.")
    for number, row in enumerate(body, start=1):
        if len(row) != len(header):
            raise ValueError(f"{where} must have {len(header)} columns in every row, got {len(row)} in data row {number}.")
    table = np.array([[_number(cell) for cell in row] for row in body])
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


def _cells(content: bytes, ending: str) -> list[list[str]]:
    """The rows of a file by its ending; a .zip archive has the workbook of the power plant in one of its folders."""
    if ending == ".csv":
        rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        return [[cell.strip() for cell in row] for row in rows if row]
    if ending == ".data":
        return [line.split() for line in content.decode("utf-8").splitlines() if line.strip()]
    from deepfls.data.csv_form import first_sheet, opened_archive  # here: pyarrow is slow to import

    if ending == ".zip":
        with opened_archive(content, _MAX_UNPACKED) as archive:
            found = [member for member in archive.namelist() if PurePath(member).name == "Folds5x2_pp.xlsx"]
            if not found:
                raise ValueError("the archive has no 'Folds5x2_pp.xlsx'")
            content = archive.read(found[0])
    return first_sheet(content, max_rows=_MAX_SHEET_ROWS, max_columns=_MAX_SHEET_COLUMNS, max_unpacked=_MAX_UNPACKED).rows


# Downloads


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
