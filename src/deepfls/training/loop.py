"""The training loop: one readable function, whatever the batches come from and however many processes share them."""

from __future__ import annotations

import contextlib
import time
import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from deepfls.kernels.threads import one_blas_thread
from deepfls.training.batches import Batch, Batches, MemoryBatches, Rows
from deepfls.training.distributed import Group
from deepfls.training.flat import FlatParameters, SlopeDecay
from deepfls.training.state import TrainingState, TrainResult
from deepfls.training.steps import ByAutograd, ByKernel, LossFunction, mean_loss, step_for

if TYPE_CHECKING:
    from deepfls.nn.systems import IT2FLS, T1FLS
    from deepfls.training.checkpoint import CheckpointFolder
    from deepfls.training.config import TrainConfig
    from deepfls.training.progress import Progress

# Times a run that left the finite numbers goes back to its last good epoch, each at a tenth of the rate.
_MAX_RETREATS = 3

# Seconds of compiling that a user would notice.
_NOTICED = 1.0


def train(
    system: T1FLS | IT2FLS,
    rows: Rows | Batches,
    config: TrainConfig,
    *,
    generator: torch.Generator,
    validation: Rows | None = None,
    progress: Progress | None = None,
    group: Group | None = None,
    checkpoints: CheckpointFolder | None = None,
) -> TrainResult:
    """Train a system in place.

    Parameters
    ----------
    system : T1FLS or IT2FLS
        The same in every process.
    rows : Rows or Batches
        Training samples in scaled units, on the device of the system, or where batches of them come from.
    config : TrainConfig
    generator : torch.Generator
        Source of the shuffling; in the same state in every process.
    validation : Rows, optional
        Samples that decide which epoch's parameters are kept, of every process its own; without them the last ones are.
    progress : Progress, optional
        Told after every step and every epoch.
    group : Group, optional
        The processes that train together; by default this one alone.
    checkpoints : CheckpointFolder, optional
        Where states are kept on the way. A run that goes on from one ends as it would have ended undisturbed.

    Returns
    -------
    TrainResult
    """
    loss_function = config.loss_function()
    group = group or Group()
    flat = FlatParameters(system)
    step = step_for(system, loss_function, flat)
    began = time.perf_counter()
    step.warm_up()  # so that no reported time has compiling in it
    seconds = time.perf_counter() - began
    if progress is not None and seconds > _NOTICED:
        progress.compiled(seconds)
    batches = rows
    if isinstance(batches, Rows):
        batches = MemoryBatches(batches, config.batch_size, drop_last=config.drop_last)
    run = TrainingState(config, flat, generator, batches.n_steps)
    found = None if checkpoints is None else checkpoints.found()
    if found is not None:
        run.load(found)
    decay = SlopeDecay(system, flat)
    n_steps = batches.n_steps * config.epochs
    with one_blas_thread() if isinstance(step, ByKernel) else contextlib.nullcontext():
        try:
            while run.epoch < config.epochs and run.result.stopped_by == "epochs":
                run.begin_epoch()
                with contextlib.closing(batches.epoch(generator, run.step)) as epoch:  # type: ignore[type-var]
                    for batch in epoch:
                        rate = config.rate(run.epoch * batches.n_steps + run.step, n_steps) * run.slowdown
                        loss = step(batch) if group.size == 1 else _summed_step(step, batch, flat, group)
                        if config.gradient_clip is not None:
                            nn.utils.clip_grad_norm_([flat.free], config.gradient_clip)
                        run.optimizer.update(rate)
                        if config.weight_decay:
                            decay(min(rate * config.weight_decay, 1.0))
                        run.losses.append(loss * batch.n_rows)
                        run.step += 1
                        run.result.n_steps += 1
                        if progress is not None:
                            progress.step(batch.n_rows)
                        if checkpoints is not None and checkpoints.due(run.result.n_steps):
                            checkpoints.keep(run.state())
                _end_epoch(run, batches.n_rows, system, loss_function, validation, progress, group)
            if checkpoints is not None:
                checkpoints.keep(run.state())
        except KeyboardInterrupt:
            if group.size > 1:
                raise  # the other processes may be anywhere: what is kept are the checkpoints
            run.result.stopped_by = "interrupt"
        finally:
            run.restore(best=validation is not None)
            flat.release()
    result = run.result
    if result.stopped_by == "epochs" and run.retreats > 0 and not result.history:
        result.stopped_by = "divergence"
    if group.leads:
        _warn_of_end(run, validation is not None)
    return result


def _summed_step(step: ByKernel | ByAutograd, batch: Batch, flat: FlatParameters, group: Group) -> Tensor:
    """Mean loss and gradient over the rows of all processes, each process counting by its rows.

    They travel as one vector: a message costs about a millisecond whatever its size.
    """
    loss: Tensor | float = 0.0
    if batch.size:
        loss = step(batch, batch.size / batch.n_rows)
    else:
        flat.gradient.zero_()
    gradient = flat.gradient[: flat.free.numel()]
    message = torch.cat([gradient, gradient.new_tensor([loss]) if isinstance(loss, float) else loss.reshape(1)])
    group.total(message)
    gradient.copy_(message[:-1])
    return message[-1]


def _end_epoch(
    run: TrainingState,
    n_rows: int,
    system: T1FLS | IT2FLS,
    loss_function: LossFunction,
    validation: Rows | None,
    progress: Progress | None,
    group: Group,
) -> None:
    """Measure, record, and decide how to go on."""
    config, result = run.config, run.result
    n_steps = run.n_steps
    loss_sum, last_loss = run.end_epoch()
    rate = config.rate(run.epoch * n_steps - 1, config.epochs * n_steps) * run.slowdown
    row = {"epoch": float(run.epoch), "loss": loss_sum / n_rows if n_steps else float("nan")}
    if validation is not None:
        row["validation_loss"] = _evaluate(system, loss_function, validation, group)
    row |= {"learning_rate": rate, "seconds": run.seconds}
    if not run.offer(row.get("validation_loss"), last_loss):
        # Not finite: back to the last good epoch, slower, rather than on with NaN.
        run.slow_down()
        if run.retreats > _MAX_RETREATS:
            result.stopped_by = "divergence"
        return
    result.history.append(row)
    if progress is not None:
        progress.epoch(row)
    if config.patience is not None and validation is not None and run.stale >= config.patience:
        result.stopped_by = "patience"


def _warn_of_end(run: TrainingState, with_validation: bool) -> None:
    if run.result.stopped_by == "interrupt":
        kept = "the best epoch's parameters are" if with_validation else "the parameters reached are"
        warnings.warn(
            f"Training was interrupted in epoch {run.epoch + 1} of {run.config.epochs}; {kept} kept.", stacklevel=3
        )
    if run.result.stopped_by == "divergence":
        warnings.warn(
            f"Training left the finite numbers in epoch {run.epoch} at ever smaller rates and was stopped; the last finite "
            "parameters are kept. A smaller learning_rate or a gradient_clip may help.",
            stacklevel=3,
        )


def _evaluate(system: T1FLS | IT2FLS, loss_function: LossFunction, rows: Rows, group: Group) -> float:
    with torch.no_grad():
        if group.size == 1:
            return float(mean_loss(loss_function, system, rows))
        loss = mean_loss(loss_function, system, rows) if len(rows) else rows.packed.new_zeros(())
        loss_sum, n_rows = group.total(torch.stack([loss.double() * len(rows), loss.new_tensor(len(rows)).double()]))
        return float(loss_sum / n_rows)
