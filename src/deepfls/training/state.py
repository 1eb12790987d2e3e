"""The state of a run between two steps: all that is needed to go on from there as if nothing had happened."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from deepfls.training.flat import optimizer_for

if TYPE_CHECKING:
    from deepfls.training.config import TrainConfig
    from deepfls.training.flat import FlatParameters

State = tuple[dict[str, Any], dict[str, Tensor]]


@dataclass
class TrainResult:
    """What a run leaves behind, beside the trained parameters."""

    history: list[dict[str, float]] = field(default_factory=list)
    n_steps: int = 0
    stopped_by: str = "epochs"  # or "patience", "interrupt", "divergence"


def _is_finite(vector: Tensor) -> bool:
    """The largest magnitude is NaN if one number is. A third of the time of ``isfinite``."""
    return math.isfinite(vector.abs().max()) if len(vector) else True


class TrainingState:
    """Parameters, optimiser, position in the data, best and last finite parameters, and the record so far.

    Parameters
    ----------
    config : TrainConfig
    flat : FlatParameters
    generator : torch.Generator
        Source of the shuffling.
    n_steps : int
        Steps of an epoch.
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
        self.best_loss = math.inf
        self.stale = 0  # epochs since the best one
        self.retreats = 0  # epochs that left the finite numbers
        self._earlier = 0.0
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Time spent in training, earlier sittings included."""
        return self._earlier + time.perf_counter() - self._began

    def begin_epoch(self) -> None:
        if self.step == 0:
            self.epoch_generator = self.generator.get_state()

    def end_epoch(self) -> tuple[float, float]:
        """The sum of the losses of this epoch, each times its rows, and the last of them; the next epoch begins."""
        losses = [float(loss) for loss in self.losses]
        self.epoch, self.step, self.losses = self.epoch + 1, 0, []
        return math.fsum(losses) if all(map(math.isfinite, losses)) else math.nan, losses[-1] if losses else 0.0

    def offer(self, validation_loss: float | None, last_loss: float) -> bool:
        """Keep the parameters after an epoch; or put the last finite ones back and return False."""
        now = self.flat.copy()
        if not (math.isfinite(last_loss) and _is_finite(now)):
            self.retreats += 1
            self.flat.put(self.last)
            return False
        self.last = now
        if validation_loss is not None:
            if validation_loss < self.best_loss:
                self.best, self.best_loss, self.stale = now, validation_loss, 0
            else:
                self.stale += 1
        return True

    def restore(self, *, best: bool) -> None:
        """Leave the best parameters in the system, or at least finite ones."""
        if best and self.best_loss < math.inf:
            self.flat.put(self.best)
        elif not _is_finite(self.flat.free.detach()):
            self.flat.put(self.last)

    def slow_down(self) -> None:
        """Go on at a tenth of the rate, with a new optimiser."""
        self.slowdown *= 0.1
        self.optimizer = optimizer_for(self.config, self.flat)

    def state(self) -> State:
        """The run as plain values and tensors."""
        plain, vectors = self.optimizer.state()
        losses = torch.tensor([float(loss) for loss in self.losses], dtype=torch.float64)
        tensors = {"generator": self.epoch_generator, "losses": losses, "parameters": self.flat.free.detach()}
        tensors |= {"last": self.last, "best": self.best}
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
        """Go on from :meth:`state`."""
        description, tensors = state
        self.epoch, self.step = int(description["epoch"]), int(description["step"])
        self.slowdown = float(description["slowdown"])
        history = [{k: float(v) for k, v in row.items()} for row in description["history"]]
        self.result = TrainResult(history, int(description["n_steps"]), str(description["stopped_by"]))
        self.losses = list(map(float, tensors["losses"]))
        self.epoch_generator = tensors["generator"]
        self.generator.set_state(self.epoch_generator)
        self.flat.put(tensors["parameters"])
        self.last, self.best = (tensors[name].to(self.flat.values) for name in ("last", "best"))
        best_loss = description["best_loss"]
        self.best_loss = math.inf if best_loss is None else float(best_loss)
        self.stale, self.retreats = int(description["stale"]), int(description["retreats"])
        self._earlier, self._began = float(description["seconds"]), time.perf_counter()
        prefix = "optimizer."
        vectors = {name.removeprefix(prefix): v for name, v in tensors.items() if name.startswith(prefix)}
        self.optimizer.load(description["optimizer"], vectors)
