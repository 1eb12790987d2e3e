"""Settings of a training run, checked once, and what they build: optimiser, schedule, loss."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from deepfls._checks.values import check_count, check_number, check_option, check_options_of
from deepfls.functional.losses import LOSSES, QuantileLoss, SetLoss

SCHEDULES = ("constant", "cosine", "onecycle", "averaged")
# Share of a one-cycle run spent warming up, and the factor below the peak it starts from.
_WARM_UP, _START_FACTOR = 0.1, 10.0


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a training run. Every value is checked when the object is made.

    Parameters
    ----------
    loss : str or callable
        A name of :data:`deepfls.functional.losses.LOSSES`, or ``f(y, target)`` giving (batch, ...) or, where there are no
        sample weights, a scalar. "quantiles" trains the planes of a GT2FLS.
    optimizer : str or class
        Any ``torch.optim`` class, or its name in any case.
    learning_rate : float
        The peak where the schedule moves it.
    schedule : {"constant", "cosine", "onecycle", "averaged"}
        "averaged": a constant rate; the run leaves an average of the parameters after its epochs.
    weight_decay : float
        Decoupled decay of the slopes of the consequents towards their mean over the rules, whatever the optimiser: a share
        ``learning_rate * weight_decay`` of the way in every step.
    gradient_clip : float, optional
        Largest norm of the gradient.
    patience : int, optional
        Epochs without a better validation loss before training stops.
    drop_last : bool
        Whether to leave out the last, smaller batch of an epoch.
    coverage : float, optional
        Share of the targets that the type-reduced set of an IT2 system is trained to hold.
    interval_weight : float
        Weight of the pinball losses of its ends against the loss; used only with ``coverage``.
    """

    loss: str | Callable[..., Tensor] = "l2"
    loss_options: Mapping[str, Any] = field(default_factory=dict)
    optimizer: str | type[torch.optim.Optimizer] = "adam"
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: float = 0.01
    schedule: str = "constant"
    weight_decay: float = 0.0
    epochs: int = 100
    batch_size: int = 64
    gradient_clip: float | None = None
    patience: int | None = None
    drop_last: bool = False
    coverage: float | None = None
    interval_weight: float = 1.0

    def __post_init__(self) -> None:
        check_number("learning_rate", self.learning_rate, above=0.0)
        check_option("schedule", self.schedule, SCHEDULES)
        check_number("weight_decay", self.weight_decay, minimum=0.0)
        check_count("epochs", self.epochs, minimum=0)
        check_count("batch_size", self.batch_size)
        if self.gradient_clip is not None:
            check_number("gradient_clip", self.gradient_clip, above=0.0)
        if self.patience is not None:
            check_count("patience", self.patience)
        self.loss_function()
        optimizer = self.optimizer_class()
        check_options_of("optimizer_options", optimizer.__name__, self.optimizer_options, _parameters_of(optimizer))

    def loss_function(self) -> Callable[..., Tensor]:
        """The loss with its options bound; with ``coverage`` that of the type-reduced set."""
        if self.loss == "quantiles":
            check_options_of("loss_options", "quantiles", self.loss_options, ())
            return QuantileLoss()
        point = self.point_loss()
        return point if self.coverage is None else SetLoss(point, self.coverage, self.interval_weight)

    def point_loss(self) -> Callable[[Tensor, Tensor], Tensor]:
        """The loss of the crisp output, with its options bound; of "quantiles" that of the median."""
        if self.loss == "quantiles":
            return LOSSES["l1"]
        if callable(self.loss):
            check_options_of("loss_options", "loss", self.loss_options, None)
            return functools.partial(self.loss, **self.loss_options)
        function = LOSSES[check_option("loss", self.loss, (*LOSSES, "quantiles"))]
        check_options_of("loss_options", self.loss, self.loss_options, _parameters_of(function))
        return functools.partial(function, **self.loss_options) if self.loss_options else function

    def optimizer_class(self) -> type[torch.optim.Optimizer]:
        # L-BFGS wants a closure it can call many times per step, SparseAdam sparse gradients, Muon matrices only.
        unfit = ("lbfgs", "sparseadam", "muon")
        name = self.optimizer
        if isinstance(name, type) and issubclass(name, torch.optim.Optimizer):
            if name.__name__.lower() not in unfit:
                return name
            name = name.__name__
        found = {
            name.lower(): value
            for name, value in vars(torch.optim).items()
            if isinstance(value, type) and issubclass(value, torch.optim.Optimizer) and value is not torch.optim.Optimizer
        }
        usable = tuple(sorted(set(found) - set(unfit)))
        return found[check_option("optimizer", name.lower() if isinstance(name, str) else name, usable)]

    def build_optimizer(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimiser, fused into one operation where torch offers that."""
        parameters = list(parameters)
        cls = self.optimizer_class()
        options = {"lr": self.learning_rate, **self.optimizer_options}
        if "fused" in _parameters_of(cls) and not {"fused", "foreach", "differentiable"} & set(options):
            options["fused"] = all(p.device.type in ("cpu", "cuda") for p in parameters)
        return cls(parameters, **options)

    def rate(self, step: int, n_steps: int) -> float:
        """Learning rate of a step, counted from 0."""
        done = step / max(n_steps, 1)
        if self.schedule in ("constant", "averaged"):
            return self.learning_rate
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1.0 + math.cos(math.pi * done))
        if done < _WARM_UP:
            rise = 0.5 * (1.0 - math.cos(math.pi * done / _WARM_UP))
            return self.learning_rate * (1.0 + (_START_FACTOR - 1.0) * rise) / _START_FACTOR
        fall = (done - _WARM_UP) / (1.0 - _WARM_UP)
        return self.learning_rate * 0.5 * (1.0 + math.cos(math.pi * fall))


def _parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names that may be passed as options: all but the data and what the settings name themselves."""
    taken = {"self", "params", "y", "target", "lr"}
    return tuple(name for name in inspect.signature(function).parameters if name not in taken)
