"""From a source of rows on disk to a fitted estimator: one pass for the starting point, then training in bounded memory.

An estimator is ``Any`` here: this file lies below the estimators, which call it.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils import check_random_state

from deepfls import estimator_state
from deepfls._checks import check_absent, check_device, check_unchanged
from deepfls.data.scaling import Scaling
from deepfls.data.sources import ParquetSource
from deepfls.data.summary import HELD_OUT_ROWS, Summary
from deepfls.initialize import initialize_system
from deepfls.train import recipe
from deepfls.train.batches import Preparation, StreamBatches
from deepfls.train.checkpoint import CheckpointFolder, Checkpoints, packed, unpacked
from deepfls.train.config import TrainConfig
from deepfls.train.distributed import Group, own_device, process_group
from deepfls.train.loop import train
from deepfls.train.progress import ReadingBar, TrainingBar
from deepfls.train.state import TrainResult
from deepfls.train.threads import threads_for

Array = np.ndarray[Any, np.dtype[Any]]

# Rows of the sample that stay with a run to tell how much every rule fires.
_SHOWN_ROWS = 16_384
# Settings that do not change what is learned, so a run may go on with others.
_FREE = ("device", "verbose", "warm_start", "random_state")


@dataclass(frozen=True)
class Start:
    """What a run knows of its data before the first step: found in one pass, or read from a checkpoint.

    Attributes
    ----------
    counts : ndarray of int
        Training rows in every row group.
    x_scaling, y_scaling : Scaling
    input_range : ndarray, shape (2, features)
    shown : ndarray, shape (rows, features)
        Part of the sample.
    held_out : ndarray, shape (rows, columns)
        Rows for early stopping in the units of the data.
    classes : ndarray or None
    mean_weight : float or None
    seed : int
        Of everything that is random in the run.
    held_out_share : float
    n_dropped : int
    """

    counts: Array
    x_scaling: Scaling
    y_scaling: Scaling
    input_range: Array
    shown: Array
    held_out: Array
    classes: Array | None
    mean_weight: float | None
    seed: int
    held_out_share: float
    n_dropped: int

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        description = {
            "classes": None if self.classes is None else self.classes.tolist(),
            "mean_weight": self.mean_weight,
            "seed": self.seed,
            "held_out_share": self.held_out_share,
            "n_dropped": self.n_dropped,
        }
        arrays = {"counts": self.counts, "input_range": self.input_range, "shown": self.shown, "held_out": self.held_out}
        for name in ("x_scaling", "y_scaling"):
            scaling = getattr(self, name)
            arrays |= {f"{name}.shift": scaling.shift, f"{name}.scale": scaling.scale}
        return description, arrays

    @classmethod
    def from_state(cls, description: dict[str, Any], arrays: dict[str, Array]) -> Start:
        classes = description["classes"]
        return cls(
            counts=arrays["counts"],
            input_range=arrays["input_range"],
            shown=arrays["shown"],
            held_out=arrays["held_out"],
            x_scaling=Scaling(arrays["x_scaling.shift"], arrays["x_scaling.scale"]),
            y_scaling=Scaling(arrays["y_scaling.shift"], arrays["y_scaling.scale"]),
            classes=None if classes is None else np.array(classes),
            **{name: description[name] for name in ("mean_weight", "seed", "held_out_share", "n_dropped")},
        )


@dataclass(frozen=True)
class Fitted:
    """What :func:`fit_source` gives back, beside what it sets on the estimator."""

    result: TrainResult
    classes: Array | None
    n_rows: int
    n_dropped: int


def fit_source(estimator: Any, source: ParquetSource, *, classes: bool, checkpoints: Checkpoints | None) -> Fitted:
    """Fit an estimator to a source, with all processes that torchrun started."""
    with process_group() as group, contextlib.ExitStack() as stack:
        estimator._check_settings()
        check_absent(
            "coverage", estimator.coverage, "a source", "fit arrays for intervals, a sample of the rows if need be"
        )
        device = own_device(check_device(estimator.device))
        folder = None
        if checkpoints is not None:
            folder = stack.enter_context(checkpoints.opened(_settings(estimator, source), group))
        sample = None
        if folder is not None and folder.start is not None:
            start = Start.from_state(*folder.start)
        else:
            start, sample = _started(estimator, source, classes, group)
        config = estimator._config(int(start.counts.sum()) + len(start.held_out))
        dtype = getattr(torch, estimator.dtype)
        prepared = Preparation(start.x_scaling, start.y_scaling, start.classes, start.mean_weight, device, dtype)
        run = _opened(source, start, prepared, config, group, folder, stack)
        if sample is None:
            system = estimator._new_system(len(source.layout.features), _n_outputs(start, source))
        else:
            # Read while the starting point is sought: a table of one window would otherwise wait for all its rows.
            run.batches.read_ahead(run.generator)
            system = _first_system(estimator, source, start, sample, group, device)
            if folder is not None:
                with group.together():
                    folder.begin(*start.state())
        system.to(device=device, dtype=dtype)
        result = _trained(estimator, system, start, prepared, config, group, folder, run)
        _adopt(estimator, system, start, result, device)
    n_rows = int(start.counts.sum())
    if group.leads and start.n_dropped:
        warnings.warn(f"{start.n_dropped:,} rows with a missing value were left out.", stacklevel=3)
    return Fitted(result, start.classes, n_rows, start.n_dropped)


def _settings(estimator: Any, source: ParquetSource) -> dict[str, Any]:
    """What must be the same for a run to go on from a checkpoint."""
    found: dict[str, Any] = {"class": type(estimator).__name__}
    for name, value in estimator.get_params(deep=False).items():
        if name not in _FREE:
            plain = estimator_state.is_plain(value)
            found[name] = (
                estimator_state.plain_value(value) if plain else getattr(value, "__qualname__", type(value).__name__)
            )
    seed = estimator.random_state
    found["random_state"] = int(seed) if isinstance(seed, (int, np.integer)) else None
    return {**found, **source.fingerprint()}


def _n_outputs(start: Start, source: ParquetSource) -> int:
    return len(source.layout.targets) if start.classes is None else len(start.classes)


def _started(estimator: Any, source: ParquetSource, classes: bool, group: Group) -> tuple[Start, Array]:
    """The pass over the data: the start of the run, the same in every process, and the sample."""
    drawn = check_random_state(estimator.random_state).randint(2**31 - 1)
    seed = int(group.same(torch.tensor(int(drawn))))
    share = 0.0
    if estimator.patience is not None:
        share = min(estimator.validation_fraction, HELD_OUT_ROWS / source.files.n_rows)
    with group.together():
        summary = summarized(source, classes=classes, seed=seed, held_out_share=share, group=group, bar=estimator.verbose)
    summary = _joined(summary, source, group)
    if summary.n_rows == 0:
        raise ValueError(f"{source.files.label} must have rows to learn from, got none without a missing value.")
    return _start_of(estimator, source, summary, seed, share)


def _first_system(
    estimator: Any, source: ParquetSource, start: Start, sample: Array, group: Group, device: torch.device
) -> Any:
    """A system at its starting point, the same in every process."""
    if estimator._continues:
        now = estimator._structure(len(source.layout.features), _n_outputs(start, source))
        check_unchanged(estimator._structure_, now)
        return copy.deepcopy(estimator.system_).requires_grad_(True)
    system = estimator._new_system(len(source.layout.features), _n_outputs(start, source))
    system.to(device=device, dtype=getattr(torch, estimator.dtype))
    _initialize(estimator, system, start, sample, int(start.counts.sum()), group)
    for parameter in system.parameters():
        group.same(parameter.data)
    return system


def _joined(summary: Summary, source: ParquetSource, group: Group) -> Summary:
    """What all processes found, in each of them."""
    if group.size == 1:
        return summary
    # First the keys alone: they tell which rows are in the joint sample, and only those travel.
    keys = [np.frombuffer(content) for content in group.gathered_bytes(summary.sample.keys.tobytes())]
    others = [part for rank, part in enumerate(keys) if rank != group.rank]
    summary.sample.trim(np.concatenate(others))
    joined = Summary.empty(source.n_groups, len(summary.lowest), len(summary.y.mean), weighted=summary.weighted)
    for content in group.gathered_bytes(packed(*summary.state())):
        joined.merge_state(*unpacked(content, Path("summary of a process")))
    return joined


def summarized(
    source: ParquetSource, *, classes: bool, seed: int, held_out_share: float, group: Group, bar: int = 0
) -> Summary:
    """What this process's row groups tell: every ``group.size``-th of them."""
    n_targets = 1 if classes else len(source.layout.targets)
    weighted = source.weight is not None
    summary = Summary.empty(source.n_groups, len(source.layout.features), n_targets, weighted=weighted)
    mine = range(group.rank, source.n_groups, group.size)
    with contextlib.ExitStack() as stack:
        shown = None
        if bar and group.leads:
            shown = stack.enter_context(ReadingBar(sum(source.files.groups[number].n_rows for number in mine)))
        for number, rows in source.all_rows(mine, classes=classes):
            summary.update(number, rows, seed=seed, held_out_share=held_out_share)
            if shown is not None:
                shown.step(source.files.groups[number].n_rows)
    return summary


def _start_of(estimator: Any, source: ParquetSource, summary: Summary, seed: int, share: float) -> tuple[Start, Array]:
    """The start of a run, and the sample, whose targets are numbers or places among the sorted classes."""
    n_features = len(source.layout.features)
    sample, held_out = summary.sample.rows.copy(), summary.held_out_rows()
    classes = None
    if summary.labels:
        classes, place = np.unique(np.array(summary.labels), return_inverse=True)
        for rows in (sample, held_out):
            rows[:, n_features] = place[rows[:, n_features].astype(np.int64)]
    standard = estimator.scaling == "standard"
    x_scaling = Scaling(summary.x.mean, summary.x.scale) if standard else Scaling.identity(n_features)
    y_scaling = Scaling.identity(len(summary.y.mean))
    if standard and classes is None:
        y_scaling = Scaling(summary.y.mean, summary.y.scale)
    if estimator._continues:
        x_scaling, y_scaling = estimator.x_scaling_, estimator.y_scaling_
    start = Start(
        summary.counts,
        x_scaling,
        y_scaling,
        np.stack([summary.lowest, summary.highest]),
        sample[:_SHOWN_ROWS, :n_features],
        held_out,
        classes,
        summary.x.count / summary.n_rows if summary.weighted else None,
        seed,
        share,
        summary.n_dropped,
    )
    return start, sample


def _initialize(estimator: Any, system: Any, start: Start, sample: Array, n_rows: int, group: Group) -> None:
    """Centers from the sample; consequents from its normal equations, to which every process adds those of its part."""
    like = system.centers
    n_features, n_targets = len(start.x_scaling.shift), len(start.y_scaling.shift)
    x = torch.from_numpy(start.x_scaling.apply(sample[:, :n_features])).to(like)
    y = torch.from_numpy(start.y_scaling.apply(sample[:, n_features : n_features + n_targets])).to(like)
    if start.classes is not None:
        y = torch.from_numpy(estimator._start_targets(len(start.classes))).to(like)[y[:, 0].long()]
    weight = None if start.mean_weight is None else torch.from_numpy(sample[:, -1] / start.mean_weight).to(like)
    bounds = [len(x) * place // group.size for place in (group.rank, group.rank + 1)]
    with threads_for((bounds[1] - bounds[0]) * (system.n_rules * (system.n_features + 1)) ** 2):
        initialize_system(
            system,
            x,
            y,
            centers=estimator.centers,
            consequents=estimator.consequents,
            width=recipe.width(n_rows) if estimator.width == "auto" else estimator.width,
            ridge=estimator.ridge,
            sample_weight=weight,
            random_state=np.random.RandomState(start.seed),
            part=slice(*bounds),
            total=group.total if group.size > 1 else None,
        )


class _Opened(NamedTuple):
    """Where a run gets its rows and their order from."""

    batches: StreamBatches
    generator: torch.Generator
    n_done: int


def _opened(
    source: ParquetSource,
    start: Start,
    prepared: Preparation,
    config: TrainConfig,
    group: Group,
    folder: CheckpointFolder | None,
    stack: contextlib.ExitStack,
) -> _Opened:
    """The batches of a run, open as long as the stack is, and the rows it has seen in an earlier life."""
    if start.held_out_share > 0:
        source = source.part(start.seed + 1, start.held_out_share, 1.0)
    found = None if folder is None else folder.found()
    epoch, step = (0, 0) if found is None else (found[0]["epoch"], found[0]["step"])
    n_epochs = config.epochs - epoch
    batches = stack.enter_context(StreamBatches(source, start.counts, prepared, config.batch_size, group, n_epochs))
    n_done = epoch * batches.n_rows + step * config.batch_size
    return _Opened(batches, torch.Generator().manual_seed(start.seed), n_done)


def _trained(
    estimator: Any,
    system: Any,
    start: Start,
    prepared: Preparation,
    config: TrainConfig,
    group: Group,
    folder: CheckpointFolder | None,
    run: _Opened,
) -> TrainResult:
    validation = None
    if len(start.held_out):
        n_features, n_targets = len(start.x_scaling.shift), len(start.y_scaling.shift)
        mine = start.held_out[group.rank :: group.size]
        y = start.y_scaling.apply(mine[:, n_features : n_features + n_targets])
        columns = [start.x_scaling.apply(mine[:, :n_features]), y]
        if start.mean_weight is not None:
            columns.append(mine[:, -1:] / start.mean_weight)
        validation = prepared.rows(torch.from_numpy(np.concatenate(columns, axis=1)).to(prepared.device, prepared.dtype))
    with contextlib.ExitStack() as stack:
        bar = None
        if estimator.verbose and group.leads:
            bar = stack.enter_context(TrainingBar(config.epochs, run.batches.n_rows, n_done=run.n_done))
        return train(
            system,
            run.batches,
            config,
            generator=run.generator,
            validation=validation,
            progress=bar,
            group=group,
            checkpoints=folder,
        )


def _adopt(estimator: Any, system: Any, start: Start, result: TrainResult, device: torch.device) -> None:
    """Make the estimator a fitted one."""
    estimator._adopt(system.to(device=device), start.x_scaling, start.y_scaling, result)
    estimator._summarize(start.shown)
    estimator.input_range_ = start.input_range
