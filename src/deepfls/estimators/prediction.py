"""Predictions: the outputs of a trained system for rows in memory, and predictions of whole tables.

Rows in memory are divided over threads, and each computes its rows in chunks, at bounds of blocks that do not depend on the
number of threads, so the bits of a prediction do not either. Tables are read a row group at a time, and processes share the
row groups.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from deepfls._checks.samples import Array
from deepfls._files import replaced_file, write_whole
from deepfls.data.scaling import Scaling
from deepfls.kernels import CompiledOutputs, compiled_outputs
from deepfls.kernels.switch import kernels_are_off
from deepfls.nn.general import GT2FLS
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training.distributed import Group

if TYPE_CHECKING:
    import pyarrow as pa

    from deepfls.data.parquet import ParquetFiles
    from deepfls.data.tables import DataTable

    Tables = Generator[DataTable, None, None]

System = T1FLS | IT2FLS
# Tensors (rows, ...) from a system and scaled rows (rows, features).
RowFunction = Callable[..., tuple[Tensor, ...]]
# The same from all systems of a model.
SystemsFunction = Callable[..., tuple[Tensor, ...]]

# Rows of a chunk, which bounds the memory beside the rows and the results; a multiple of the blocks of the kernels.
CHUNK = 8_192
# Rows of one part of the output, about.
PART_ROWS = 2**20
MANIFEST = "_deepfls.json"


# Rows in memory


class ReducedSet(NamedTuple):
    """Ends of the type-reduced set and crisp output, each (rows, outputs); ``lower <= y <= upper``."""

    lower: Array
    upper: Array
    y: Array


@dataclass(frozen=True)
class ScaledSystem:
    """A trained system and the scalings between its units and those of the data.

    Where there are ``others``, outputs are means over all systems.
    """

    system: System
    x_scaling: Scaling
    y_scaling: Scaling
    others: tuple[System, ...] = ()

    @property
    def systems(self) -> tuple[System, ...]:
        return (self.system, *self.others)

    @property
    def shares(self) -> Array:
        """Share of every system in the outputs, (systems,); they add up to 1."""
        return np.full(len(self.systems), 1.0 / len(self.systems))

    def alone(self, number: int) -> ScaledSystem:
        """The system of that number, from 0, without the others."""
        return ScaledSystem(self.systems[number], self.x_scaling, self.y_scaling)

    def clipped(self, input_range: Array) -> ScaledSystem:
        """The same with inputs held within a range (2, features), in the units of the data."""
        low, high = input_range
        if self.x_scaling.low is not None and self.x_scaling.high is not None:
            low, high = np.maximum(low, self.x_scaling.low), np.minimum(high, self.x_scaling.high)
        scaling = Scaling(self.x_scaling.shift, self.x_scaling.scale, low, high)
        return replace(self, x_scaling=scaling)

    def best_firing(self, x: Array) -> Array:
        """Firing strength of the best-fitting rule of every system, (rows, systems), of values as they are, not clipped."""
        free = replace(self, x_scaling=Scaling(self.x_scaling.shift, self.x_scaling.scale))
        return np.stack([model.firing_strengths(x)[1].max(axis=1) for model in free._each()], axis=1)

    def _each(self) -> list[ScaledSystem]:
        return [self.alone(number) for number in range(len(self.systems))]

    def evaluated(self, x: Array, function: RowFunction, *columns: Array) -> tuple[Array, ...]:
        """The arrays of a row function of the first system for rows x (rows, features), a chunk at a time.

        Rows are in the units of the data. The function gets the same rows of the ``columns``, arrays (rows, ...), as
        further tensors.
        """
        return self.evaluated_by_all(x, lambda systems, *tensors: function(systems[0], *tensors), *columns)

    def evaluated_by_all(self, x: Array, function: SystemsFunction, *columns: Array) -> tuple[Array, ...]:
        """The same of a function of all systems."""
        if not self.system.missing and np.isnan(x).any():
            return self.taking_nan().evaluated_by_all(x, function, *columns)
        device = self.system.centers.device
        parts = []
        with torch.no_grad():
            for first in range(0, max(len(x), 1), CHUNK):
                z = torch.from_numpy(self.x_scaling.apply(x[first : first + CHUNK])).to(device)
                more = (torch.from_numpy(column[first : first + CHUNK]).to(device) for column in columns)
                parts.append([value.cpu().numpy() for value in function(self.systems, z, *more)])
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    def _values(self, x: Array, first: int) -> Array:
        """Of y_left, y_right and y those from ``first`` on, in scaled units, (rows, values, outputs).

        All three are equal for Type-1 systems.
        """
        if self.others:
            parts = (model._values(x, first) for model in self._each())
            return np.asarray(sum(share * part for share, part in zip(self.shares, parts, strict=True)))
        compiled = _compiled(self.system)
        if compiled is None:
            return self.evaluated(x, _plain_outputs)[0][:, first:]
        unknown = np.zeros(0, dtype=bool) if self.system.missing else np.isnan(x).any(axis=1)
        if unknown.any():
            values = np.empty((len(x), 3 - first, self.system.n_outputs))
            values[~unknown] = self._values(x[~unknown], first)
            values[unknown] = self.taking_nan().evaluated(x[unknown], _plain_outputs)[0][:, first:]
            return values
        values = np.empty((len(x), 3 - first, self.system.n_outputs))

        def run(_: int, begin: int, end: int) -> None:
            for start in range(begin, end, CHUNK):
                part = slice(start, min(start + CHUNK, end))
                values[part] = compiled(self.x_scaling.apply(x[part]))[:, first:]

        compiled.over_rows(run, len(x))
        return values

    def taking_nan(self) -> ScaledSystem:
        """The same, where the systems take NaN for an input that is not known."""
        system, *others = map(_with_missing, self.systems)
        return replace(self, system=system, others=tuple(others))

    def outputs(self, x: Array) -> Array:
        """Crisp outputs in scaled units, (rows, outputs): the logits of a classifier."""
        return self._values(x, 2)[:, 0]

    def predictions(self, x: Array) -> Array:
        """Crisp outputs in the units of the targets, (rows, outputs)."""
        return self.y_scaling.invert(self.outputs(x))

    def reduced(self, x: Array) -> ReducedSet:
        """The type-reduced set of an IT2 system, or of the widest plane of a GT2 one, in the units of the targets."""
        lower, upper, y = map(self.y_scaling.invert, self._values(x, 0).transpose(1, 0, 2))
        # The change of units may round the ends past the crisp output.
        return ReducedSet(np.minimum(lower, y), np.maximum(upper, y), y)

    def rule_weights(self, x: Array) -> Array:
        """Firing of the rules, lower and upper together, as shares that add up to 1, (rows, rules of all systems)."""
        if self.others:
            parts = zip(self.shares, self._each(), strict=True)
            return np.concatenate([share * model.rule_weights(x) for share, model in parts], axis=1)
        return self.evaluated(x, lambda system, z: (normalised_firing(system, z),))[0]

    def firing_strengths(self, x: Array) -> tuple[Array, ...]:
        """Lower and upper firing strength, each (rows, rules of all systems), in [0, 1]; equal for Type-1 systems.

        Those of the widest plane for General Type-2 systems.
        """

        if self.others:
            ends = zip(*(model.firing_strengths(x) for model in self._each()), strict=True)
            return tuple(np.concatenate(end, axis=1) for end in ends)

        def strengths(system: System, z: Tensor) -> tuple[Tensor, ...]:
            logs = system.widest_log_firing(z) if isinstance(system, GT2FLS) else system.antecedents(z)
            # At a center rounding may leave the logarithm a little above 0.
            return tuple(log.clamp(max=0.0).exp() for log in (logs if isinstance(logs, tuple) else (logs, logs)))

        return self.evaluated(x, strengths)


def _with_missing(original: System) -> System:
    system = copy.copy(original)
    system._modules = dict(system._modules)
    system.antecedents = copy.copy(original.antecedents)
    system.missing = True
    return system


# Compiled outputs of systems that have predicted before: to make them takes longer than a prediction of one row.
_COMPILED: weakref.WeakKeyDictionary[System, CompiledOutputs | None] = weakref.WeakKeyDictionary()


def _compiled(system: System) -> CompiledOutputs | None:
    # Raw values may have been set since: outside their bounds they are not the values, which the kernels take them for.
    if kernels_are_off() or not system.antecedents.within_bounds():
        return None
    if system not in _COMPILED:
        _COMPILED[system] = compiled_outputs(system)
    return _COMPILED[system]


def _plain_outputs(system: System, z: Tensor) -> tuple[Tensor, ...]:
    """Both ends and the crisp output by torch operations, for devices and systems without compiled outputs."""
    ends = system.reduce(z) if isinstance(system, (IT2FLS, GT2FLS)) else (system(z),) * 3
    return (torch.stack(tuple(ends), dim=1),)


def normalised_firing(system: System, z: Tensor) -> Tensor:
    """Firing of the rules for scaled rows, as shares that add up to 1, (rows, rules)."""
    firing = system.firing(z)
    weight = firing.lower + firing.upper if isinstance(firing, tuple) else firing
    return weight / weight.sum(dim=1, keepdim=True)


# Tables


class PartsWritten(NamedTuple):
    """Rows and parts in the folder of :func:`write_parts`, and how many of the parts already existed."""

    n_rows: int
    n_parts: int
    n_found: int


def tables_of(files: ParquetFiles, numbers: Sequence[int], columns: Sequence[str], nulls: str = "keep") -> Tables:
    """Row groups in turn, the next one read in the background; ``nulls="drop"`` leaves out rows with a missing value."""
    from deepfls.data.sources import missing_rows, read_ahead, without_missing

    with contextlib.closing(read_ahead(lambda number: files.table(number, columns), numbers)) as tables:
        for data in tables:
            yield without_missing(data, missing_rows(data, columns)) if nulls == "drop" else data


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

    ``predicted`` maps the table of a row group, with these ``columns``, to the table of its predictions. ``about``
    distinguishes the predictions from others and is stored beside them. ``resume`` keeps existing parts, ``force`` replaces
    them. The processes of ``group`` share the parts. ``step`` is called with the number of rows of every table written. A
    part gets its name when it is complete.
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
    """Make the folder; keep, replace or refuse the predictions in it."""
    from deepfls.data.tables import TableError, quoted

    out.mkdir(parents=True, exist_ok=True)
    manifest = out / MANIFEST
    mark = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    for unfinished in out.glob(".part-*.tmp"):
        unfinished.unlink()
    existing = sorted(out.glob("part-*.parquet"))
    if existing or manifest.exists():
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
        for old in existing:
            old.unlink()
    write_whole(manifest, json.dumps({**about, "sha256": mark}, indent=1).encode())


def _write_part(
    path: Path, tables: Tables, predicted: Callable[[DataTable], pa.Table], step: Callable[[int], None] | None
) -> None:
    from pyarrow import parquet

    from deepfls.data.tables import TableError, quoted

    writer = None
    try:
        with replaced_file(path) as temporary, contextlib.ExitStack() as stack:
            for data in stack.enter_context(contextlib.closing(tables)):
                table = predicted(data)
                writer = writer or stack.enter_context(parquet.ParquetWriter(temporary, table.schema))
                writer.write_table(table.cast(writer.schema))
                if step is not None:
                    step(data.n_rows)
    except OSError as error:
        reason = error.strerror or str(error)
        raise TableError(f"{quoted(path)} cannot be written: {reason}; the parts before it are whole.") from error
