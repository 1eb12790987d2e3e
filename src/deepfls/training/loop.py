"""The training loop: one function for batches from memory and from disk, in one process or several.

:class:`TrainingState` is the state between two steps: all that is needed to continue from there with the same result.
"""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from deepfls._files import arrays_under
from deepfls.kernels.threads import one_blas_thread
from deepfls.training.distributed import Group
from deepfls.training.steps import (
    Batch,
    ByAutograd,
    ByKernel,
    FlatParameters,
    LossFunction,
    Rows,
    mean_loss,
    optimizer_for,
    step_for,
    take_steps,
)

if TYPE_CHECKING:
    from deepfls.nn.systems import IT2FLS, T1FLS
    from deepfls.training.checkpoint import CheckpointFolder, State
    from deepfls.training.progress import TrainingBar
    from deepfls.training.recipe import TrainConfig
    from deepfls.training.stream_batches import StreamBatches

# How often a run with values that are not finite returns to its last finite epoch, each time at a tenth of the rate.
_MAX_RETREATS = 3

# The averaged schedule weighs the parameters after epoch t by about t to this power: half of the weight lies on the last
# 7 % of the epochs. docs/recipe.md has the effect of other powers.
_AVERAGE_POWER = 8.0

# Rows of the steps that one batch holds: few enough that an interrupt and a progress bar are not delayed much.
_ROWS_TOGETHER = 1 << 16

# Seconds of compiling that a user would notice.
_NOTICED = 1.0


@dataclass
class TrainResult:
    """The record of a run, beside the trained parameters."""

    history: list[dict[str, float]] = field(default_factory=list)
    n_steps: int = 0
    stopped_by: str = "epochs"  # or "patience", "interrupt", "divergence"


def _is_finite(vector: Tensor) -> bool:
    """Whether all numbers are finite. The largest magnitude shows it in a third of the time of ``isfinite``."""
    return math.isfinite(vector.abs().max()) if len(vector) else True


class MemoryBatches:
    """Pieces of the shuffled rows; ``drop_last`` leaves out the last, smaller one. The rows themselves are not moved.

    An epoch has ``n_rows`` rows in ``n_steps`` steps. Its order follows from the state of the generator at its start, so
    that state and the number of a step are all that a checkpoint needs to hold about the position in the data.
    """

    def __init__(self, rows: Rows, batch_size: int, *, drop_last: bool = False) -> None:
        self._size = min(batch_size, len(rows))
        self.n_steps = len(rows) // self._size if drop_last else -(-len(rows) // self._size)
        self.n_rows = self.n_steps * self._size if drop_last else len(rows)
        self._rows = rows

    def epoch(self, generator: torch.Generator, first_step: int) -> Iterator[Batch]:
        """The batches from ``first_step`` on, each of one step or more; draws the same whatever ``first_step`` is."""
        order = torch.randperm(len(self._rows), generator=generator).numpy()
        n_together = self._size * max(1, _ROWS_TOGETHER // self._size)
        for first in range(first_step * self._size, self.n_rows, n_together):
            end = min(first + n_together, self.n_rows)
            yield Batch(self._rows, order, first, end, self._size, end - first)


class TrainingState:
    """Parameters, optimiser, position in the data, best and last finite parameters, and the record so far.

    The generator is the source of the shuffling; an epoch has ``n_steps`` steps.
    """

    def __init__(self, config: TrainConfig, flat: FlatParameters, generator: torch.Generator, n_steps: int) -> None:
        self.config, self.flat, self.generator, self.n_steps = config, flat, generator, n_steps
        self.optimizer = optimizer_for(config, flat)
        self.result = TrainResult()
        self.epoch = 0  # epochs done
        self.step = 0  # steps of this epoch done
        self.slowdown = 1.0
        self.losses: list[Tensor | float] = []  # of the steps of this epoch, times their rows
        self.epoch_generator = generator.get_state()  # at the beginning of this epoch
        self.last = self.best = flat.copy()
        self.average = flat.copy() if config.schedule == "averaged" else None  # of the parameters after the epochs
        self.best_loss = math.inf
        self.stale = 0  # epochs since the best one
        self.retreats = 0  # epochs that left the finite numbers
        self._earlier = 0.0
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds of training, those before the run was resumed included."""
        return self._earlier + time.perf_counter() - self._began

    def add(self, batch: Batch, losses: list[Tensor | float]) -> None:
        """Record the losses of steps that were taken."""
        self.losses += [loss * size for loss, size in zip(losses, batch.sizes, strict=True)]
        self.step += batch.n_steps
        self.result.n_steps += batch.n_steps

    def end_epoch(self) -> tuple[float, float]:
        """The sum of the losses of this epoch, each times its rows, and the last of them; the next epoch begins."""
        losses = [float(loss) for loss in self.losses]
        self.epoch, self.step, self.losses = self.epoch + 1, 0, []
        return math.fsum(losses) if all(map(math.isfinite, losses)) else math.nan, losses[-1] if losses else 0.0

    def keep(self, last_loss: float) -> bool:
        """Keep the parameters after an epoch; or put the last finite ones back and return False."""
        now = self.flat.copy()
        if not (math.isfinite(last_loss) and _is_finite(now)):
            self.retreats += 1
            self.flat.put(self.last)
            return False
        self.last = now
        if self.average is not None:
            self.average.lerp_(now, min((_AVERAGE_POWER + 1.0) / (self.epoch + _AVERAGE_POWER), 1.0))
        return True

    @contextlib.contextmanager
    def final_parameters(self) -> Iterator[None]:
        """Inside, the system has the parameters that a run that ends after this epoch leaves."""
        if self.average is not None:
            self.flat.put(self.average)
        try:
            yield
        finally:
            if self.average is not None:
                self.flat.put(self.last)

    def compare(self, validation_loss: float) -> None:
        """Remember the parameters after an epoch if they are the best so far."""
        if validation_loss < self.best_loss:
            best = self.last if self.average is None else self.average.clone()
            self.best, self.best_loss, self.stale = best, validation_loss, 0
        else:
            self.stale += 1

    def restore(self, *, best: bool) -> None:
        """Leave the best parameters in the system, or the average, or at least finite ones."""
        if best and self.best_loss < math.inf:
            self.flat.put(self.best)
        elif self.average is not None and self.result.history:
            self.flat.put(self.average)
        elif not _is_finite(self.flat.free.detach()):
            self.flat.put(self.last)

    def forget_best(self) -> None:
        """Restart the search for the best parameters and the average: the conditions of the rules changed."""
        self.best_loss, self.stale = math.inf, 0
        if self.average is not None:
            self.average = self.flat.copy()

    def state(self) -> State:
        """The run as plain values and tensors."""
        plain, vectors = self.optimizer.state()
        losses = torch.tensor([float(loss) for loss in self.losses], dtype=torch.float64)
        tensors = {"generator": self.epoch_generator, "losses": losses, "parameters": self.flat.free.detach()}
        tensors |= {"last": self.last, "best": self.best}
        if self.average is not None:
            tensors["average"] = self.average
        if self.flat.terms is not None:
            tensors["terms"] = self.flat.terms
        tensors |= {f"optimizer.{name}": value for name, value in vectors.items()}
        description = {
            "epoch": self.epoch,
            "step": self.step,
            "slowdown": self.slowdown,
            "n_steps": self.result.n_steps,
            "stopped_by": self.result.stopped_by,
            "history": [{k: v if math.isfinite(v) else repr(v) for k, v in row.items()} for row in self.result.history],
            "best_loss": self.best_loss if math.isfinite(self.best_loss) else None,
            "stale": self.stale,
            "retreats": self.retreats,
            "seconds": self.seconds,
            "optimizer": plain,
        }
        return description, tensors

    def load(self, state: State) -> None:
        """Continue from :meth:`state`."""
        description, tensors = state
        self.epoch, self.step = int(description["epoch"]), int(description["step"])
        self.slowdown = float(description["slowdown"])
        history = [{k: float(v) for k, v in row.items()} for row in description["history"]]
        self.result = TrainResult(history, int(description["n_steps"]), str(description["stopped_by"]))
        self.losses = list(map(float, tensors["losses"]))
        self.epoch_generator = tensors["generator"]
        self.generator.set_state(self.epoch_generator)
        self.flat.put(tensors["parameters"])
        if self.flat.terms is not None:
            self.flat.terms.copy_(tensors["terms"])
        self.last, self.best = (tensors[name].to(self.flat.values) for name in ("last", "best"))
        if self.average is not None:
            self.average = tensors["average"].to(self.flat.values)
        best_loss = description["best_loss"]
        self.best_loss = math.inf if best_loss is None else float(best_loss)
        self.stale, self.retreats = int(description["stale"]), int(description["retreats"])
        self._earlier, self._began = float(description["seconds"]), time.perf_counter()
        self.optimizer.load(description["optimizer"], arrays_under("optimizer.", tensors))


def train(
    system: T1FLS | IT2FLS,
    rows: Rows | StreamBatches,
    config: TrainConfig,
    *,
    generator: torch.Generator,
    validation: Rows | None = None,
    progress: TrainingBar | None = None,
    group: Group | None = None,
    checkpoints: CheckpointFolder | None = None,
    watch: Callable[[int], None] | None = None,
    warns: bool = True,
    frozen: Mapping[str, Tensor] | None = None,
    revise: Callable[[int, int], bool] | None = None,
) -> TrainResult:
    """Train a system in place, the same in every process of a ``group``.

    ``rows`` are samples in scaled units on the device of the system, or where batches of them come from. The ``generator``
    shuffles them; it is in the same state in every process. The loss of the ``validation`` rows, of every process its own,
    is measured after every epoch. With ``patience`` the parameters of the best epoch are kept, otherwise the last ones.
    ``checkpoints`` store the state of the run while it trains. ``frozen`` has masks, by name of the parameter, of the
    values that stay as they are. Without ``warns`` a run that was interrupted or left the finite numbers gives no warning.

    ``watch`` is called with the number of every epoch done, while the system has the parameters that a run of that many
    epochs leaves (unless the schedule follows from the number of epochs). ``revise`` is called after every epoch with its
    number, from 1, and the number of epochs; it returns True if it changed conditions of rules, after which earlier
    parameters no longer count as the best.
    """
    loss_function, group = config.loss_function(), group or Group()
    keeps_best = validation is not None and config.patience is not None
    flat = FlatParameters(system, frozen)
    step = step_for(system, loss_function, flat)
    began = time.perf_counter()
    step.warm_up()  # so that reported times do not include compilation
    seconds = time.perf_counter() - began
    if progress is not None and seconds > _NOTICED:
        progress.compiled(seconds)
    batches: MemoryBatches | StreamBatches
    batches = MemoryBatches(rows, config.batch_size, drop_last=config.drop_last) if isinstance(rows, Rows) else rows
    run = TrainingState(config, flat, generator, batches.n_steps)
    found = None if checkpoints is None else checkpoints.found
    if found is not None:
        run.load(found)
    with one_blas_thread() if isinstance(step, ByKernel) else contextlib.nullcontext():
        try:
            while run.epoch < config.epochs and run.result.stopped_by == "epochs":
                _take_epoch(run, batches, step, progress, group, checkpoints)
                _end_epoch(run, batches.n_rows, system, loss_function, validation, progress, group, watch)
                if revise is not None and revise(run.epoch, config.epochs):
                    run.forget_best()
            if checkpoints is not None:
                checkpoints.keep(run.state())
        except KeyboardInterrupt:
            if group.size > 1:
                raise  # the state of the other processes is unknown; only the checkpoints are consistent
            run.result.stopped_by = "interrupt"
        finally:
            run.restore(best=keeps_best)
            flat.release()
    result = run.result
    if result.stopped_by == "epochs" and run.retreats > 0 and not result.history:
        result.stopped_by = "divergence"
    if warns and group.leads:
        _warn_of_end(run, keeps_best)
    return result


def _take_epoch(
    run: TrainingState,
    batches: MemoryBatches | StreamBatches,
    step: ByKernel | ByAutograd,
    progress: TrainingBar | None,
    group: Group,
    checkpoints: CheckpointFolder | None,
) -> None:
    """Take the steps of an epoch from the position of the run on."""
    config, n_steps = run.config, run.n_steps * run.config.epochs
    if run.step == 0:
        run.epoch_generator = run.generator.get_state()
    with contextlib.closing(batches.epoch(run.generator, run.step)) as epoch:  # type: ignore[type-var]
        for batch in epoch:
            first = run.epoch * run.n_steps + run.step
            rates = [config.rate(first + k, n_steps) * run.slowdown for k in range(batch.n_steps)]
            for part, losses in take_steps(step, run.optimizer, batch, rates, run.result.n_steps, run.flat, group):
                run.add(part, losses)
                if progress is not None:
                    progress.step(part.n_rows)
                if checkpoints is not None and checkpoints.due(run.result.n_steps):
                    checkpoints.keep(run.state())


def _end_epoch(
    run: TrainingState,
    n_rows: int,
    system: T1FLS | IT2FLS,
    loss_function: LossFunction,
    validation: Rows | None,
    progress: TrainingBar | None,
    group: Group,
    watch: Callable[[int], None] | None,
) -> None:
    """Measure and record an epoch, and decide whether training continues."""
    config, result = run.config, run.result
    n_steps = run.n_steps
    loss_sum, last_loss = run.end_epoch()
    rate = config.rate(run.epoch * n_steps - 1, config.epochs * n_steps) * run.slowdown
    row = {"epoch": float(run.epoch), "loss": loss_sum / n_rows if n_steps else float("nan")}
    if not run.keep(last_loss):
        # Values are not finite: back to the last finite epoch, with a new optimiser and a tenth of the rate.
        run.slowdown *= 0.1
        run.optimizer = optimizer_for(config, run.flat)
        if run.retreats > _MAX_RETREATS:
            result.stopped_by = "divergence"
        return
    if validation is not None or watch is not None:
        with run.final_parameters():
            if validation is not None:
                row["validation_loss"] = _evaluate(system, loss_function, validation, group)
                run.compare(row["validation_loss"])
            if watch is not None:
                watch(run.epoch)
    row |= {"learning_rate": rate, "seconds": run.seconds}
    result.history.append(row)
    if progress is not None:
        progress.epoch(row)
    if config.patience is not None and validation is not None and run.stale >= config.patience:
        result.stopped_by = "patience"


def _warn_of_end(run: TrainingState, keeps_best: bool) -> None:
    if run.result.stopped_by == "interrupt":
        kept = "the best epoch's parameters are" if keeps_best else "the parameters reached are"
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
