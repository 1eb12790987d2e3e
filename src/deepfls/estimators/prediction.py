"""Predictions and measures of a model over tables larger than memory, a row group at a time, shared by all processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from deepfls._files import write_whole
from deepfls.data.parquet import ParquetFiles
from deepfls.data.scaling import Standardizer
from deepfls.data.sources import missing_rows
from deepfls.data.tables import DataTable, TableError, quoted
from deepfls.training.distributed import Group

Array = np.ndarray[Any, np.dtype[Any]]

# Rows of one part of the output, about.
PART_ROWS = 2**20
MANIFEST = "_deepfls.json"


class PartsWritten(NamedTuple):
    """What :func:`write_parts` did: rows and parts in the folder, and how many parts were there already."""

    n_rows: int
    n_parts: int
    n_found: int


def tables_of(files: ParquetFiles, numbers: Sequence[int], columns: Sequence[str], nulls: str) -> Iterator[DataTable]:
    """Row groups in turn, the next one read in the background; rows with a missing value left out where so asked."""
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(files.table, numbers[0], columns) if len(numbers) else None
        for place in range(len(numbers)):
            assert ahead is not None
            data = ahead.result()
            if place + 1 < len(numbers):
                ahead = pool.submit(files.table, numbers[place + 1], columns)
            if nulls == "drop":
                missing = missing_rows(data, columns)
                if missing.any():
                    table = data.table.filter(~missing)
                    data = DataTable(table, data.label, data.files, (table.num_rows,))
            yield data


def parts_of(files: ParquetFiles, part_rows: int = PART_ROWS) -> list[list[int]]:
    """Row groups, in their order, in parts of about ``part_rows`` rows."""
    parts: list[list[int]] = []
    n_rows = part_rows
    for number, group in enumerate(files.groups):
        if n_rows >= part_rows:
            parts.append([])
            n_rows = 0
        parts[-1].append(number)
        n_rows += group.n_rows
    return parts


def write_parts(
    files: ParquetFiles,
    columns: Sequence[str],
    predicted: Callable[[DataTable], pa.Table],
    out: Path,
    *,
    about: Mapping[str, Any],
    nulls: str,
    resume: bool,
    force: bool,
    group: Group,
    step: Callable[[int], None] | None = None,
    part_rows: int = PART_ROWS,
) -> PartsWritten:
    """Write a folder of Parquet files with the predictions for row groups, in their order.

    Parameters
    ----------
    files : ParquetFiles
    columns : sequence of str
        Columns to read.
    predicted : callable
        From the table of a row group to that of its predictions.
    out : Path
        Folder; made where there is none. A part has its name only when it is whole.
    about : mapping
        What tells these predictions from others, kept beside them.
    nulls : {"error", "drop"}
    resume : bool
        Whether to go on where an earlier run stopped: parts that are there stay.
    force : bool
        Whether to replace predictions that are there.
    group : Group
        Processes that share the parts.
    step : callable, optional
        Told of rows done.
    part_rows : int
    """
    parts = parts_of(files, part_rows)
    names = [f"part-{number:06d}.parquet" for number in range(len(parts))]
    about = {**about, "files": files.fingerprint(), "parts": len(parts), "nulls": nulls}
    with group.together():
        if group.leads:
            _prepare(out, about, resume=resume, force=force)
    group.barrier()
    n_found = sum((out / name).is_file() for name in names)
    group.barrier()
    with group.together():
        for number in range(group.rank, len(parts), group.size):
            if not (out / names[number]).is_file():
                _write_part(out / names[number], tables_of(files, parts[number], columns, nulls), predicted, step)
    group.barrier()
    from pyarrow import parquet

    n_rows = sum(parquet.read_metadata(out / name).num_rows for name in names) if group.leads else 0
    return PartsWritten(n_rows, len(parts), n_found)


def _prepare(out: Path, about: Mapping[str, Any], *, resume: bool, force: bool) -> None:
    """Make the folder, or see whether what it holds may stay, or go."""
    out.mkdir(parents=True, exist_ok=True)
    manifest = out / MANIFEST
    mark = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    for unfinished in out.glob(".part-*.tmp"):
        unfinished.unlink()
    there = sorted(out.glob("part-*.parquet"))
    if there or manifest.exists():
        if resume and not force:
            try:
                known = json.loads(manifest.read_text(encoding="utf-8"))["sha256"]
            except (OSError, ValueError, KeyError, TypeError):
                known = None
            if known != mark:
                raise TableError(
                    f"{quoted(out)} must hold predictions of this model for this table to go on with --resume, got others: "
                    "replace them with --force, or give another folder."
                )
            return
        if not force:
            raise TableError(
                f"{quoted(out)} holds predictions already: go on with --resume, replace them with --force, or give another "
                "folder."
            )
        for old in there:
            old.unlink()
    write_whole(manifest, json.dumps({**about, "sha256": mark}, indent=1).encode())


def _write_part(
    path: Path,
    tables: Iterator[DataTable],
    predicted: Callable[[DataTable], pa.Table],
    step: Callable[[int], None] | None,
) -> None:
    from pyarrow import parquet

    temporary = path.with_name(f".{path.name}.tmp")
    writer = None
    try:
        with contextlib.closing(tables) as opened:  # type: ignore[type-var]  # a generator
            for data in opened:
                table = predicted(data)
                writer = writer or parquet.ParquetWriter(temporary, table.schema)
                writer.write_table(table.cast(writer.schema))
                if step is not None:
                    step(data.n_rows)
        assert writer is not None
        writer.close()
        temporary.replace(path)
    except BaseException as error:
        if writer is not None:
            writer.close()
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise TableError(f"{quoted(path)} cannot be written: {reason}; the parts before it are whole.") from error
        raise


class NumberScores:
    """RMSE, MAE and R² of one target, from chunks of rows that may come in any order, and merge.

    Examples
    --------
    >>> import numpy as np
    >>> scores = NumberScores()
    >>> scores.update(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    >>> scores.update(np.array([3.0]), np.array([3.0]))
    >>> {name: round(value, 3) for name, value in scores.values().items()}
    {'rmse': 1.155, 'mae': 0.667, 'r2': -1.0}
    """

    def __init__(self) -> None:
        self._sums = np.zeros(3)  # rows, squared errors, absolute errors
        self._truth = Standardizer(1)

    def update(self, truth: Array, predicted: Array) -> None:
        error = truth - predicted
        self._sums += [len(error), float(error @ error), float(np.abs(error).sum())]
        self._truth.update(truth[:, None])

    def state(self) -> list[float]:
        return [*self._sums.tolist(), float(self._truth.mean[0]), float(self._truth.squares[0])]

    def merge_state(self, state: Sequence[float]) -> None:
        self._sums += state[:3]
        other = Standardizer(1)
        other.count, other.mean, other.squares = state[0], np.array(state[3:4]), np.array(state[4:5])
        self._truth.merge(other)

    def values(self) -> dict[str, float]:
        n_rows, squares, sizes = self._sums.tolist()
        spread = float(self._truth.squares[0])
        r2 = 1.0 - squares / spread if spread > 0 else (1.0 if squares == 0 else 0.0)
        return {"rmse": float(np.sqrt(squares / n_rows)), "mae": sizes / n_rows, "r2": r2}


class ClassScores:
    """Accuracy and log loss, from chunks of rows that may come in any order, and merge."""

    def __init__(self, classes: Array) -> None:
        self._classes = classes
        self._sums = np.zeros(3)  # rows, right ones, losses
        self.unknown: list[Any] = []

    def update(self, truth: Array, probabilities: Array) -> None:
        from deepfls import metrics

        right = self._classes[probabilities.argmax(axis=1)] == truth
        losses = len(truth) * metrics.log_loss(truth, probabilities, self._classes) if len(truth) else 0.0
        self._sums += [len(truth), int(right.sum()), losses]
        for value in np.setdiff1d(truth, self._classes).tolist()[:5]:
            if value not in self.unknown and len(self.unknown) < 5:
                self.unknown.append(value)

    def state(self) -> list[Any]:
        return [*self._sums.tolist(), self.unknown]

    def merge_state(self, state: Sequence[Any]) -> None:
        self._sums += state[:3]
        self.unknown += [value for value in state[3] if value not in self.unknown]

    def values(self) -> dict[str, float]:
        n_rows, right, losses = self._sums.tolist()
        return {"accuracy": right / n_rows, "log_loss": losses / n_rows}


def merged_scores(scores: Mapping[str, Any], group: Group) -> None:
    """Every process's scores, in each of them."""
    if group.size == 1:
        return
    states = group.gathered_bytes(json.dumps({name: score.state() for name, score in scores.items()}).encode())
    for rank, content in enumerate(states):
        if rank != group.rank:
            for name, state in json.loads(content).items():
                scores[name].merge_state(state)
