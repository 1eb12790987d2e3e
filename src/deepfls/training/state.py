"""The state of a run between two steps: all that is needed to go on from there as if nothing had happened."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch._utils import _flatten_dense_tensors

from deepfls.training.adam import RepeatedAdam
from deepfls.training.config import TrainConfig

State = tuple[dict[str, Any], dict[str, Tensor]]


@dataclass
class TrainResult:
    """What a run leaves behind, beside the trained parameters."""

    history: list[dict[str, float]] = field(default_factory=list)
    n_steps: int = 0
    stopped_by: str = "epochs"  # or "patience", "interrupt", "divergence"


def _is_finite(flat: Tensor) -> bool:
    """Whether all numbers are: the largest magnitude is NaN where one of them is. A third of the time of ``isfinite``."""
    return math.isfinite(flat.abs().max())


class Keeper:
    """Copies of the parameters, each one flat tensor: the last finite ones, and the best by validation loss."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters = parameters
        self._last = self._best = self._together()
        self.best_loss = float("inf")
        self.stale = 0
        self.retreats = 0

    @property
    def last(self) -> list[Tensor]:
        return self._apart(self._last)

    @last.setter
    def last(self, copies: list[Tensor]) -> None:
        self._last = torch.cat([copy.reshape(-1) for copy in copies])

    @property
    def best(self) -> list[Tensor]:
        return self._apart(self._best)

    @best.setter
    def best(self, copies: list[Tensor]) -> None:
        self._best = torch.cat([copy.reshape(-1) for copy in copies])

    @torch.no_grad()
    def _together(self) -> Tensor:
        # In one operation what detach, reshape and cat would do in thirteen, of a system of six parameters.
        flat = _flatten_dense_tensors(self.parameters)
        return flat.clone() if len(self.parameters) == 1 else flat  # one alone is given back as it is

    def _apart(self, flat: Tensor) -> list[Tensor]:
        parts = flat.split([p.numel() for p in self.parameters])
        return [part.view_as(p).clone() for part, p in zip(parts, self.parameters, strict=True)]

    def offer(self, validation_loss: float | None, last_loss: float) -> bool:
        """Take in the parameters after an epoch, or put the last good ones back and say False."""
        now = self._together()
        if not (math.isfinite(last_loss) and _is_finite(now)):
            self.retreats += 1
            self.put(self.last)
            return False
        self._last = now
        if validation_loss is not None:
            if validation_loss < self.best_loss:
                self._best, self.best_loss, self.stale = self._last, validation_loss, 0
            else:
                self.stale += 1
        return True

    def restore(self, *, best: bool) -> None:
        if best and self.best_loss < float("inf"):
            self.put(self.best)
        elif not _is_finite(self._together()):
            self.put(self.last)

    def put(self, copies: list[Tensor]) -> None:
        with torch.no_grad():
            for parameter, copy in zip(self.parameters, copies, strict=True):
                parameter.copy_(copy)


class Run:
    """Where a run is: parameters, optimiser, schedule, position in the data, and the record so far.

    Parameters
    ----------
    config : TrainConfig
    parameters : list of Parameter
    generator : torch.Generator
        Source of the shuffling.
    n_steps : int
        Steps of an epoch.
    """

    def __init__(
        self, config: TrainConfig, parameters: list[nn.Parameter], generator: torch.Generator, n_steps: int
    ) -> None:
        self.config = config
        self.parameters = parameters
        self.generator = generator
        self.optimizer = config.build_optimizer(parameters)
        self._repeated: RepeatedAdam | None = None
        self.keeper = Keeper(parameters)
        self.result = TrainResult()
        self.epoch = 0  # epochs behind us
        self.step = 0  # steps of this epoch behind us
        self.slowdown = 1.0
        self.losses = parameters[0].detach().new_zeros(n_steps)  # of the steps of this epoch, times their rows
        in_numpy = self.losses.is_cpu and self.losses.dtype in (torch.float32, torch.float64)
        self._loss_values = self.losses.numpy() if in_numpy else None
        self.epoch_generator = generator.get_state()  # as it was when this epoch began
        self._earlier = 0.0
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Time spent in training, earlier sittings included."""
        return self._earlier + time.perf_counter() - self._began

    def begin_epoch(self) -> None:
        if self.step == 0:
            self.epoch_generator = self.generator.get_state()

    @property
    def _losses_here(self) -> Any:
        """As an array where they are in memory that NumPy knows: that is quicker to ask."""
        return self.losses if self._loss_values is None else self._loss_values

    @property
    def loss_sum(self) -> float:
        """Of the steps of this epoch, each counted by its rows."""
        return float(self._losses_here.sum())

    @property
    def last_loss(self) -> float:
        """Of the last step of this epoch, times its rows; 0 where there are none."""
        return float(self._losses_here[-1]) if len(self.losses) else 0.0

    def record(self, loss: Tensor | float, n_rows: int) -> None:
        """Keep the mean loss of a step, times its rows, without waiting for a device to compute it."""
        if self._loss_values is not None:
            self._loss_values[self.step] = float(loss) * n_rows
        else:
            self.losses[self.step] = loss * n_rows

    def update(self, rate: float) -> None:
        """Take a step of the optimiser along the gradients, at a rate."""
        for entry in self.optimizer.param_groups:
            entry["lr"] = rate
        if self._repeated is not None:
            self._repeated.step()
            return
        self.optimizer.step()
        if RepeatedAdam.can_repeat(self.optimizer):
            self._repeated = RepeatedAdam(self.optimizer)

    def slow_down(self) -> None:
        """Go on at a tenth of the rate, with an optimiser that remembers nothing."""
        self.slowdown *= 0.1
        self.optimizer, self._repeated = self.config.build_optimizer(self.parameters), None

    def state(self) -> State:
        """The run as plain values and tensors."""
        tensors = {"generator": self.epoch_generator, "losses": self.losses[: self.step]}
        for name, values in (("parameter", self.parameters), ("last", self.keeper.last), ("best", self.keeper.best)):
            tensors |= {f"{name}.{place}": value.detach() for place, value in enumerate(values)}
        plain: dict[str, dict[str, Any]] = {}
        for place, entry in self.optimizer.state_dict()["state"].items():
            for name, value in entry.items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer.{place}.{name}"] = value.detach()
                else:
                    plain.setdefault(str(place), {})[name] = value
        description = {
            "epoch": self.epoch,
            "step": self.step,
            "slowdown": self.slowdown,
            "n_steps": self.result.n_steps,
            "stopped_by": self.result.stopped_by,
            "history": [{k: v if math.isfinite(v) else repr(v) for k, v in row.items()} for row in self.result.history],
            "best_loss": self.keeper.best_loss if math.isfinite(self.keeper.best_loss) else None,
            "stale": self.keeper.stale,
            "retreats": self.keeper.retreats,
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
        self.losses[: self.step] = tensors["losses"].to(self.losses)
        self.epoch_generator = tensors["generator"]
        self.generator.set_state(self.epoch_generator)
        count = range(len(self.parameters))
        self.keeper.put([tensors[f"parameter.{place}"] for place in count])
        for name in ("last", "best"):
            copies = [tensors[f"{name}.{place}"].to(parameter) for place, parameter in enumerate(self.parameters)]
            setattr(self.keeper, name, copies)
        best_loss = description["best_loss"]
        self.keeper.best_loss = math.inf if best_loss is None else float(best_loss)
        self.keeper.stale, self.keeper.retreats = int(description["stale"]), int(description["retreats"])
        self._earlier, self._began = float(description["seconds"]), time.perf_counter()
        self._load_optimizer(description["optimizer"], tensors)

    def _load_optimizer(self, plain: dict[str, dict[str, Any]], tensors: dict[str, Tensor]) -> None:
        entries: dict[int, dict[str, Any]] = {int(place): dict(values) for place, values in plain.items()}
        for key, value in tensors.items():
            if key.startswith("optimizer."):
                _, place, name = key.split(".", 2)
                entries.setdefault(int(place), {})[name] = value
        self._repeated = None
        self.optimizer.load_state_dict({"state": entries, "param_groups": self.optimizer.state_dict()["param_groups"]})
