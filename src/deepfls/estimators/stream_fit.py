"""From a source of rows on disk to a fitted estimator: a starting point from one pass, then training in bounded memory.

An estimator is ``Any`` here: this file lies below the estimators, which call it.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from deepfls._checks import check_absent, check_device, check_unchanged
from deepfls.data.sources import ParquetSource
from deepfls.estimators import intervals, model_file
from deepfls.estimators.calibration import Calibration
from deepfls.estimators.stream_start import Start, find_start, named_copy
from deepfls.training import recipe
from deepfls.training.checkpoint import CheckpointFolder, Checkpoints
from deepfls.training.config import TrainConfig
from deepfls.training.distributed import Group, own_device, process_group
from deepfls.training.loop import train
from deepfls.training.progress import TrainingBar
from deepfls.training.start import initialize_system
from deepfls.training.state import TrainResult
from deepfls.training.stream_batches import Preparation, StreamBatches

Array = np.ndarray[Any, np.dtype[Any]]

# Settings that do not change what is learned, so a run may go on with others.
_FREE = ("device", "verbose", "warm_start", "random_state")


@dataclass(frozen=True)
class Fitted:
    """What :func:`fit_source` gives back, beside what it sets on the estimator."""

    result: TrainResult
    classes: Array | None
    n_rows: int
    n_dropped: int
    calibration: Calibration | None


def fit_source(estimator: Any, source: ParquetSource, *, classes: bool, checkpoints: Checkpoints | None) -> Fitted:
    """Fit an estimator to a source, with all processes that torchrun started."""
    with process_group() as group, contextlib.ExitStack() as stack:
        estimator._check_settings()
        _check_intervals(estimator, source)
        device = own_device(check_device(estimator.device))
        folder = None
        if checkpoints is not None:
            folder = stack.enter_context(checkpoints.opened(_settings(estimator, source), group))
        sample = None
        if folder is not None and folder.start is not None:
            start = Start.from_state(*folder.start)
        else:
            start, sample = find_start(estimator, source, classes, group)
        config = intervals.set_objective(estimator, estimator._config(int(start.counts.sum()) + len(start.held_out)))
        dtype = getattr(torch, estimator.dtype)
        prepared = Preparation(start.x_scaling, start.y_scaling, start.classes, start.mean_weight, device, dtype)
        run = _opened(source, start, prepared, config, group, folder, stack)
        if sample is None:
            system = estimator._new_system(len(source.layout.features), _n_outputs(start, source))
        else:
            # Read while the starting point is sought: a table of one window would otherwise wait for all its rows.
            run.batches.read_ahead(run.generator)
            system = _first_system(estimator, source, start, sample, group, device)
            sample = None  # a large array that training has no use for
            if folder is not None:
                with group.together():
                    folder.begin(*start.state())
        system.to(device=device, dtype=dtype)
        result = _trained(estimator, system, start, prepared, config, group, folder, run)
        calibration = _adopt(estimator, source, system, start, result, device)
    n_rows = int(start.counts.sum())
    if group.leads and start.n_dropped:
        warnings.warn(f"{start.n_dropped:,} rows with a missing value were left out.", stacklevel=3)
    return Fitted(result, start.classes, n_rows, start.n_dropped, calibration)


def _check_intervals(estimator: Any, source: ParquetSource) -> None:
    """Refuse settings of intervals that a source has no room for."""
    if estimator.coverage is not None:
        rule = "the rows that calibrate are few beside the others, so nothing is trained twice"
        check_absent("refit", True if estimator.refit is True else None, "a source", rule)
    intervals.check_settings(named_copy(estimator, source), len(source.layout.features), continued=estimator._continues)


def _settings(estimator: Any, source: ParquetSource) -> dict[str, Any]:
    """What must be the same for a run to go on from a checkpoint."""
    found: dict[str, Any] = {"class": type(estimator).__name__}
    for name, value in estimator.get_params(deep=False).items():
        if name not in _FREE:
            plain = model_file.is_plain(value)
            found[name] = model_file.plain_value(value) if plain else getattr(value, "__qualname__", type(value).__name__)
    seed = estimator.random_state
    found["random_state"] = int(seed) if isinstance(seed, (int, np.integer)) else None
    return {**found, **source.fingerprint()}


def _n_outputs(start: Start, source: ParquetSource) -> int:
    return len(source.layout.targets) if start.classes is None else len(start.classes)


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


def _adopt(
    estimator: Any, source: ParquetSource, system: Any, start: Start, result: TrainResult, device: torch.device
) -> Calibration | None:
    """Make the estimator a fitted one; the calibration of its intervals, if it is to have any."""
    estimator._adopt(system.to(device=device), start.x_scaling, start.y_scaling, result)
    n_features, n_targets = len(start.x_scaling.shift), len(start.y_scaling.shift)
    x, y = np.split(start.shown, [n_features], axis=1)
    estimator._summarize(x)
    estimator.input_range_ = start.input_range
    held = None
    if len(start.calibrating):
        targets = start.calibrating[:, n_features : n_features + n_targets]
        weight = None if start.mean_weight is None else start.calibrating[:, -1]
        held = (start.calibrating[:, :n_features], targets, weight)
    return intervals.calibrate(named_copy(estimator, source), x, y, held)
