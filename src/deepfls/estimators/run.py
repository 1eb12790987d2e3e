"""A fit on a table on disk: what identifies the run, its batches, its position, and the device and the bar of any fit."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from deepfls.data.arrays import Source, TrainingData
from deepfls.estimators.settings import Settings, is_plain, plain_value, settings_by_name
from deepfls.training.checkpoint import CheckpointFolder
from deepfls.training.config import TrainConfig
from deepfls.training.distributed import Group
from deepfls.training.progress import TrainingBar

if TYPE_CHECKING:
    from deepfls.data.sources import ParquetSource
    from deepfls.training.stream_batches import StreamBatches

# Settings that do not change what is learned, so a run may continue with other values of them.
_FREE = ("device", "verbose", "warm_start", "random_state")


def check_device(name: Any) -> torch.device:
    """The torch device of that name, if this machine has it; "auto" takes a CUDA device where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (AssertionError, RuntimeError, TypeError):
        raise ValueError(f"device must be 'auto' or a torch device of this machine, got {name!r}.") from None


def run_facts(settings: Settings, source: Source) -> dict[str, Any]:
    """What must be the same for a run to continue from a checkpoint."""
    facts: dict[str, Any] = {"task": "classification" if settings._classifies else "regression"}
    for name, value in settings_by_name(settings).items():
        if name not in _FREE:
            facts[name] = plain_value(value) if is_plain(value) else getattr(value, "__qualname__", type(value).__name__)
    seed = settings.random_state
    facts["random_state"] = int(seed) if isinstance(seed, (int, np.integer)) else None
    return {**facts, **_on_disk(source).fingerprint()}


def _on_disk(source: Source) -> ParquetSource:
    from deepfls.data.sources import ParquetSource  # here: it needs pyarrow, which a fit to arrays does not

    assert isinstance(source, ParquetSource)
    return source


def stream_batches(
    source: Source,
    data: TrainingData,
    config: TrainConfig,
    device: torch.device,
    dtype: torch.dtype,
    group: Group,
    folder: CheckpointFolder | None,
) -> StreamBatches:
    """The batches of a table on disk; the caller closes them."""
    from deepfls.training.stream_batches import Preparation, StreamBatches  # here: it needs pyarrow

    table, stream = _on_disk(source), data.stream
    assert stream is not None
    if stream.held_out_share > 0:
        table = table.part(stream.seed + 1, stream.held_out_share, 1.0)
    prepared = Preparation(data.x_scaling, data.y_scaling, data.classes, stream.mean_weight, device, dtype)
    n_epochs = config.epochs - _position(folder)[0]
    return StreamBatches(table, stream.counts, prepared, config.batch_size, group, n_epochs)


def progress_bar(
    settings: Settings, data: TrainingData, config: TrainConfig, group: Group, folder: CheckpointFolder | None
) -> contextlib.AbstractContextManager[TrainingBar | None]:
    """The progress bar of a verbose fit, in the first process."""
    if not (settings.verbose and group.leads):
        return contextlib.nullcontext()
    epoch, step = _position(folder)
    return TrainingBar(config.epochs, data.n_rows, n_done=epoch * data.n_rows + step * config.batch_size)


def _position(folder: CheckpointFolder | None) -> tuple[int, int]:
    """Epoch and step at which a run starts: those of its checkpoint, if there is one."""
    found = None if folder is None else folder.found()
    return (0, 0) if found is None else (found[0]["epoch"], found[0]["step"])
