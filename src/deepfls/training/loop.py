"""The training loop: one readable function, whatever the batches come from and however many processes share them."""

from __future__ import annotations

import contextlib
import time
import warnings
from typing import Protocol

import torch
from torch import Tensor, nn

from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training.config import TrainConfig
from deepfls.training.distributed import Group
from deepfls.training.gradients import ByKernels, Gradients, LossFunction, gradients_of, mean_loss
from deepfls.training.progress import Progress
from deepfls.training.rows import Batch, Batches, MemoryBatches, Rows
from deepfls.training.state import Run, State, TrainResult
from deepfls.training.threads import threads_for

__all__ = ["Checkpointing", "Rows", "TrainResult", "train"]

# Times a run that left the finite numbers goes back to its last good epoch, each at a tenth of the rate.
_MAX_RETREATS = 3

# Seconds of compiling that a user would notice.
_NOTICED = 1.0


class Checkpointing(Protocol):
    """Where a run leaves its state, and finds an earlier one."""

    def found(self) -> State | None:
        """The state to go on from, if there is one."""

    def due(self, n_steps: int) -> bool:
        """Whether the state after this many steps is to be kept."""

    def keep(self, state: State) -> None:
        """Keep a state."""


def train(
    system: T1FLS | IT2FLS,
    rows: Rows | Batches,
    config: TrainConfig,
    *,
    generator: torch.Generator,
    validation: Rows | None = None,
    progress: Progress | None = None,
    group: Group | None = None,
    checkpoints: Checkpointing | None = None,
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
    checkpoints : Checkpointing, optional
        Where states are kept on the way. A run that goes on from one ends as it would have ended undisturbed.

    Returns
    -------
    TrainResult
    """
    loss_function = config.loss_function()
    group = group or Group()
    parameters = [p for p in system.parameters() if p.requires_grad]
    gradients = gradients_of(system, loss_function, parameters)
    began = time.perf_counter()
    gradients.warm_up()  # so that no reported time has compiling in it
    seconds = time.perf_counter() - began
    if progress is not None and seconds > _NOTICED:
        progress.compiled(seconds)
    batches = rows
    if isinstance(batches, Rows):
        # Without a graph nobody else gets to see a batch, and keeps it.
        in_place = isinstance(gradients, ByKernels)
        batches = MemoryBatches(batches, config.batch_size, drop_last=config.drop_last, in_place=in_place)
    run = Run(config, parameters, generator, batches.n_steps)
    found = None if checkpoints is None else checkpoints.found()
    if found is not None:
        run.load(found)
    result = run.result
    n_steps = batches.n_steps * config.epochs
    with threads_for(batches.largest * system.n_rules * system.n_features * (2 + system.n_outputs)):
        threads = gradients.take_threads()
        try:
            while run.epoch < config.epochs and result.stopped_by == "epochs":
                run.begin_epoch()
                with contextlib.closing(batches.epoch(generator, run.step)) as epoch:  # type: ignore[type-var]
                    for batch in epoch:
                        rate = config.rate(run.epoch * batches.n_steps + run.step, n_steps) * run.slowdown
                        with threads:
                            loss = _step(system, batch, gradients, config, run, rate, group)
                        run.record(loss, batch.n_rows)
                        run.step += 1
                        result.n_steps += 1
                        if progress is not None:
                            progress.step(batch.n_rows)
                        if checkpoints is not None and checkpoints.due(result.n_steps):
                            checkpoints.keep(run.state())
                _end_epoch(run, batches.n_rows, system, loss_function, validation, progress, group)
        except KeyboardInterrupt:
            if group.size > 1:
                raise  # the others may be anywhere: what is kept are the checkpoints
            result.stopped_by = "interrupt"
        finally:
            run.optimizer.zero_grad()
    if checkpoints is not None and result.stopped_by != "interrupt":
        checkpoints.keep(run.state())
    run.keeper.restore(best=validation is not None)
    if result.stopped_by == "epochs" and run.keeper.retreats > 0 and not result.history:
        result.stopped_by = "divergence"
    if group.leads:
        _warn_of_end(run, validation is not None)
    return result


def _end_epoch(
    run: Run,
    n_rows: int,
    system: T1FLS | IT2FLS,
    loss_function: LossFunction,
    validation: Rows | None,
    progress: Progress | None,
    group: Group,
) -> None:
    """Measure, record, and decide how to go on."""
    config, result = run.config, run.result
    rate = config.rate((run.epoch + 1) * len(run.losses) - 1, config.epochs * len(run.losses)) * run.slowdown
    run.epoch += 1
    run.step = 0
    row = {"epoch": float(run.epoch), "loss": run.loss_sum / n_rows if len(run.losses) else float("nan")}
    if validation is not None:
        row["validation_loss"] = _evaluate(system, loss_function, validation, group)
    row |= {"learning_rate": rate, "seconds": run.seconds}
    if not run.keeper.offer(row.get("validation_loss"), run.last_loss):
        # Left the finite numbers: back to the last good epoch, slower, rather than on with NaN.
        run.slow_down()
        if run.keeper.retreats > _MAX_RETREATS:
            result.stopped_by = "divergence"
        return
    result.history.append(row)
    if progress is not None:
        progress.epoch(row)
    if config.patience is not None and validation is not None and run.keeper.stale >= config.patience:
        result.stopped_by = "patience"


def _warn_of_end(run: Run, with_validation: bool) -> None:
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


def _step(
    system: T1FLS | IT2FLS,
    batch: Batch,
    gradients: Gradients,
    config: TrainConfig,
    run: Run,
    rate: float,
    group: Group,
) -> Tensor | float:
    """One step on a batch; its mean loss over the rows of all processes."""
    loss = gradients(batch.rows) if group.size == 1 else _shared_gradients(gradients, batch, run.parameters, group)
    if config.gradient_clip is not None:
        nn.utils.clip_grad_norm_(run.parameters, config.gradient_clip)
    run.update(rate)
    if config.weight_decay:
        _decay_slopes(system, min(rate * config.weight_decay, 1.0))
    return loss


def _shared_gradients(gradients: Gradients, batch: Batch, parameters: list[nn.Parameter], group: Group) -> Tensor:
    """Gradients and mean loss over the rows of all processes, each process counting by its rows.

    They travel as one flat tensor: a message costs about a millisecond whatever its size.
    """
    loss: Tensor | float = 0.0
    if len(batch.rows):
        loss = gradients(batch.rows, len(batch.rows) / batch.n_rows)
        own = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    else:
        own = [torch.zeros_like(p) for p in parameters]
    last = own[0].new_tensor([loss]) if isinstance(loss, float) else loss.reshape(1)
    flat = group.total(torch.cat([*(g.reshape(-1) for g in own), last]))
    for parameter, part in zip(parameters, flat[:-1].split([p.numel() for p in parameters]), strict=True):
        parameter.grad = part.view_as(parameter)
    return flat[-1]


def _decay_slopes(system: T1FLS | IT2FLS, share: float) -> None:
    """Move the slopes by ``share`` of the way to their mean over the rules.

    The data tell little about the slopes of a rule that fires for few rows. Pulled towards zero they would flatten the
    system; pulled towards each other they keep the trend that all rows support.
    """
    slopes = system.consequents.raw_slopes
    if slopes is not None:
        with torch.no_grad():
            slopes.lerp_(slopes.mean(dim=0, keepdim=True), share)


def _evaluate(system: T1FLS | IT2FLS, loss_function: LossFunction, rows: Rows, group: Group) -> float:
    with torch.no_grad():
        if group.size == 1:
            return float(mean_loss(loss_function, system, rows))
        loss = mean_loss(loss_function, system, rows) if len(rows) else rows.x.new_zeros(())
        loss_sum, n_rows = group.total(torch.stack([loss.double() * len(rows), loss.new_tensor(len(rows)).double()]))
        return float(loss_sum / n_rows)
