"""The training loop: one readable function over tensors in memory."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from deepfls._checks import check_loss_values, check_type_reduced
from deepfls.functional.losses import SetLoss
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.train.config import TrainConfig
from deepfls.train.progress import Progress

# Multiply-adds of the matrix products in one step of work from which a second thread pays for itself.
_THREADED_WORK = 4_000_000
# Times a run that left the finite numbers goes back to its last good epoch, each at a tenth of the rate.
_MAX_RETREATS = 3


@dataclass
class TrainResult:
    """What a run leaves behind, beside the trained parameters."""

    history: list[dict[str, float]] = field(default_factory=list)
    n_steps: int = 0
    stopped_by: str = "epochs"  # or "patience", "interrupt", "divergence"


@dataclass(frozen=True)
class Rows:
    """Samples in scaled units: x (batch, features), target (batch, outputs) and weights (batch,) or None."""

    x: Tensor
    target: Tensor
    weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.x)

    def packed(self) -> Tensor:
        """All columns side by side, so that one indexing operation shuffles them together."""
        parts = [self.x, self.target.to(self.x.dtype)]
        if self.weight is not None:
            parts.append(self.weight.unsqueeze(1).to(self.x.dtype))
        return torch.cat(parts, dim=1)

    def unpacked(self, packed: Tensor) -> Rows:
        n_features, n_outputs = self.x.shape[1], self.target.shape[1]
        x, target = packed[:, :n_features], packed[:, n_features : n_features + n_outputs]
        return Rows(x, target, None if self.weight is None else packed[:, -1])


def train(
    system: T1FLS | IT2FLS,
    rows: Rows,
    config: TrainConfig,
    *,
    generator: torch.Generator,
    validation: Rows | None = None,
    progress: Progress | None = None,
) -> TrainResult:
    """Train a system in place.

    Parameters
    ----------
    system : T1FLS or IT2FLS
    rows : Rows
        Training samples in scaled units, on the device of the system.
    config : TrainConfig
    generator : torch.Generator
        Source of the shuffling.
    validation : Rows, optional
        Samples that decide which epoch's parameters are kept; without them the last ones are.
    progress : Progress, optional
        Told after every step and every epoch.

    Returns
    -------
    TrainResult
    """
    loss_function = config.loss_function()
    parameters = [p for p in system.parameters() if p.requires_grad]
    optimizer = config.build_optimizer(parameters)
    packed = rows.packed()
    size = min(config.batch_size, len(rows))
    starts = range(0, len(rows) - size + 1 if config.drop_last else len(rows), size)
    n_seen = len(starts) * size if config.drop_last else len(rows)
    n_steps = len(starts) * config.epochs
    result = TrainResult()
    keeper = _Keeper(parameters)
    began = time.perf_counter()
    slowdown = 1.0
    with threads_for(size * system.n_rules * system.n_features * (2 + system.n_outputs)):
        epoch = 0
        try:
            while epoch < config.epochs:
                order = torch.randperm(len(rows), generator=generator).to(packed.device)
                shuffled = packed[order]
                losses = []
                for place, start in enumerate(starts):
                    rate = config.rate(epoch * len(starts) + place, n_steps) * slowdown
                    batch = rows.unpacked(shuffled[start : start + size])
                    optimizer.zero_grad()
                    loss = _mean_loss(loss_function, system, batch)
                    loss.backward()
                    if config.gradient_clip is not None:
                        nn.utils.clip_grad_norm_(parameters, config.gradient_clip)
                    for group in optimizer.param_groups:
                        group["lr"] = rate
                    optimizer.step()
                    if config.weight_decay:
                        _decay_slopes(system, min(rate * config.weight_decay, 1.0))
                    losses.append(loss.detach() * len(batch))
                    result.n_steps += 1
                    if progress is not None:
                        progress.step(len(batch))
                epoch += 1
                row = {"epoch": float(epoch), "loss": float(torch.stack(losses).sum() / n_seen) if losses else float("nan")}
                if validation is not None:
                    row["validation_loss"] = _evaluate(system, loss_function, validation)
                row |= {"learning_rate": rate, "seconds": time.perf_counter() - began}
                if not keeper.offer(row.get("validation_loss"), losses):
                    # Left the finite numbers: back to the last good epoch, slower, rather than on with NaN.
                    slowdown *= 0.1
                    optimizer = config.build_optimizer(parameters)
                    if keeper.retreats > _MAX_RETREATS:
                        result.stopped_by = "divergence"
                        break
                    continue
                result.history.append(row)
                if progress is not None:
                    progress.epoch(row)
                if config.patience is not None and validation is not None and keeper.stale >= config.patience:
                    result.stopped_by = "patience"
                    break
        except KeyboardInterrupt:
            result.stopped_by = "interrupt"
        finally:
            optimizer.zero_grad()
    keeper.restore(best=validation is not None)
    if result.stopped_by == "epochs" and keeper.retreats > 0 and not result.history:
        result.stopped_by = "divergence"
    if result.stopped_by == "interrupt":
        kept = "the best epoch's parameters are" if validation is not None else "the parameters reached are"
        warnings.warn(f"Training was interrupted in epoch {epoch + 1} of {config.epochs}; {kept} kept.", stacklevel=2)
    if result.stopped_by == "divergence":
        warnings.warn(
            f"Training left the finite numbers in epoch {epoch} at ever smaller rates and was stopped; the last finite "
            "parameters are kept. A smaller learning_rate or a gradient_clip may help.",
            stacklevel=2,
        )
    return result


class _Keeper:
    """Copies of the parameters: the last finite ones, and the best by validation loss."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters = parameters
        self.last = self._copy()
        self.best = self.last
        self.best_loss = float("inf")
        self.stale = 0
        self.retreats = 0

    def _copy(self) -> list[Tensor]:
        return [p.detach().clone() for p in self.parameters]

    def _finite(self, losses: list[Tensor]) -> bool:
        flags = [torch.isfinite(t).all() for t in (*self.parameters, *losses[-1:])]
        return bool(torch.stack(flags).all())

    def offer(self, validation_loss: float | None, losses: list[Tensor]) -> bool:
        """Take in the parameters after an epoch, or put the last good ones back and say False."""
        if not self._finite(losses):
            self.retreats += 1
            self._put(self.last)
            return False
        self.last = self._copy()
        if validation_loss is not None:
            if validation_loss < self.best_loss:
                self.best, self.best_loss, self.stale = self.last, validation_loss, 0
            else:
                self.stale += 1
        return True

    def restore(self, *, best: bool) -> None:
        if best and self.best_loss < float("inf"):
            self._put(self.best)
        elif not self._finite([]):
            self._put(self.last)

    def _put(self, copies: list[Tensor]) -> None:
        with torch.no_grad():
            for parameter, copy in zip(self.parameters, copies, strict=True):
                parameter.copy_(copy)


def _decay_slopes(system: T1FLS | IT2FLS, share: float) -> None:
    """Move the slopes by ``share`` of the way to their mean over the rules.

    The data tell little about the slopes of a rule that fires for few rows. Pulled towards zero they would flatten the
    system; pulled towards each other they keep the trend that all rows support.
    """
    slopes = system.consequents.raw_slopes
    if slopes is not None:
        with torch.no_grad():
            slopes.lerp_(slopes.mean(dim=0, keepdim=True), share)


def _mean_loss(loss_function: Callable[..., Tensor], system: T1FLS | IT2FLS, batch: Rows) -> Tensor:
    """Mean over outputs and samples, by weight where there are weights."""
    if isinstance(loss_function, SetLoss):
        y_left, y_right, y = check_type_reduced(system).reduce(batch.x)
        losses = loss_function(y_left, y_right, y, batch.target)
    else:
        y = system(batch.x)
        losses = loss_function(y, batch.target)
    losses = check_loss_values(losses, y, weighted=batch.weight is not None)
    if batch.weight is None:
        return losses.mean()
    # Weights have mean 1 over all rows, so a batch's own sum need not divide: it may be 0.
    return (losses.mean(dim=1) * batch.weight).mean()


def _evaluate(system: T1FLS | IT2FLS, loss_function: Callable[..., Tensor], rows: Rows) -> float:
    with torch.no_grad():
        return float(_mean_loss(loss_function, system, rows))


@contextlib.contextmanager
def threads_for(work: int) -> Iterator[None]:
    """One thread for small work, where a second costs more than it gives; the setting from before afterwards."""
    before = torch.get_num_threads()
    if work < _THREADED_WORK:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
