"""The settings that "auto" stands for, chosen by the experiments in docs/recipe.md: functions of the number of rows, and
the paths along which a fit looks for the complexity that its rows support. Then the settings of a run, checked once, and
what they build: loss, optimiser, schedule.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deepfls._checks.arguments import check_count, check_number, check_option, check_options_of
from deepfls.functional.losses import LOSSES, QuantileLoss, SetLoss


@dataclass(frozen=True)
class Path:
    """Runs that differ in their number of epochs alone, so that one run shows them all."""

    rate: float = 1.0  # times the learning rate
    decay: float = 1.0  # times the weight decay
    width: float = 1.0  # times the starting width
    shares: tuple[float, ...] = (1.0,)  # of the epochs
    below: float = math.inf  # largest loss on earlier paths, in variances of the targets, with which it is compared
    factor: float = 1.0  # of the smallest loss on earlier paths, below which its own has to be
    tree: bool = False  # whether it starts at the leaves of a tree


# Rows from which one part is held out instead of folds, and rows beyond which a sample of so many is used.
FOLD_ROWS, CHOICE_ROWS = 4_000, 16_000
_N_FOLDS = 3
# Factor of the learning rate on slow paths.
_SLOW = 0.4
# That of a run from a tree, and the share of the rows that each of several trees learns from.
_FROM_TREE, TREE_ROWS = 1.0 / 3.0, 0.7
# Fewest rows of which the errors of trained systems are worth systems of their own.
CORRECTION_ROWS = 2_000
# Inputs beyond which the learning rate falls.
_USUAL_INPUTS = 64
# Numbers of rules that n_rules="auto" compares, and the rows that each rule needs.
_RULES, _ROWS_PER_RULE = (3, 6, 12, 25, 50, 100), 8


def paths(
    n_rows: int, *, several: bool, slow: bool = False, tree: bool = False, classifies: bool = False
) -> tuple[Path, ...]:
    """The runs that are compared; of several systems and few rows one more, of many rows one from a ``tree``.

    Where rows are few the slopes are nearly common to all rules. The second path has three times the rate: averaged over
    the epochs it fits noise less closely, and needs fewer of them. The third has narrow sets: what is too rough in one
    system is even in a mean; with many rows, corrections find narrow structure. The last two are for rows with little
    noise: little decay or none, and for small tables twice the epochs, of several systems for numbers four times.

    A tree of lines puts its rules where one line does not fit, so a run that starts at its leaves is a short way to a good
    system: a smaller rate and less decay keep it there. It was better on nearly all tables tried, so it may look a little
    worse on the rows held out.

    ``slow``: the second path and the last two have a smaller rate than the usual one. Losses whose gradients scatter, such
    as those of quantiles of random levels, need it where rows have little noise of their own.
    """
    decay = 100.0 * min(1.0, 1_000 / n_rows)
    usual = Path(1.0, decay, shares=(0.06, 0.12, 0.25, 0.5, 1.0))
    second = Path(_SLOW, decay, shares=usual.shares) if slow else Path(3.0, decay / 3.0, shares=(0.06, 0.12, 0.25))
    narrow = Path(1.0, decay, 0.25, shares=(0.25, 0.5, 1.0))
    # Strong decay is the safer guess, so these must be better by a factor. Large tables have steps enough.
    shares = (1.0,) if n_rows >= FOLD_ROWS else (1.0, 2.0, 4.0) if several and not classifies else (1.0, 2.0)
    rate = _SLOW if slow else 1.0
    long = Path(rate, 1.0, shares=shares, below=0.1, factor=0.95)
    exact = Path(rate, 0.0, shares=shares, below=0.01, factor=0.95)
    if several and n_rows < CORRECTION_ROWS:
        return usual, second, narrow, long, exact
    leaves = (Path(_FROM_TREE, 1.0, shares=(0.5, 1.0), factor=1.03, tree=True),) if tree and n_rows >= FOLD_ROWS else ()
    return (usual, second, *leaves, long, exact) if long.decay < decay else (usual, second, *leaves, exact)


def batch_size(n_rows: int) -> int:
    """About thirteen batches to the epoch, a power of two from 32 to 4,096."""
    return int(2 ** np.clip(np.round(np.log2(max(n_rows, 1) / 13)), 5, 12))


def epochs(n_rows: int, batch_size: int) -> int:
    """About 600 steps times the fourth root of the rows: 3,400 for a thousand rows, 19,000 for a million.

    At most 4.5 steps for each row: with more, a system memorises small tables.
    """
    n_steps = min(600.0 * n_rows**0.25, 4.5 * n_rows)
    return int(np.clip(round(n_steps / math.ceil(n_rows / batch_size)), 5, 400))


def learning_rate(n_rows: int, n_features: int = 1) -> float:
    """0.05 up to 500 rows, then falling with their fifth root, down to the paper's 0.01; for many inputs with their number.

    A step of Adam moves every slope by the rate, so an output moves by the rate times the number of inputs.
    """
    return float(np.clip(0.05 * (500 / n_rows) ** 0.2, 0.01, 0.05)) * min(1.0, _USUAL_INPUTS / n_features)


def width(n_rows: int) -> float:
    """Wide sets, nearly one common model, for few rows; narrower with more rows, like a kernel bandwidth."""
    return float(np.clip((500 / n_rows) ** 0.25, 0.3, 1.0))


def weight_decay(n_rows: int) -> float:
    """1 up to 350 rows, then 350 / rows: the penalty weighs as much as 350 rows."""
    return min(1.0, 350 / n_rows)


def fold_shares(n_rows: int) -> tuple[int, int]:
    """Parts into which rows are divided, and how many of them are held out in turn."""
    return (_N_FOLDS, _N_FOLDS) if n_rows < FOLD_ROWS else (5, 1)


def usual_rules(n_rows: int) -> int:
    """The number of rules that ``n_rules="auto"`` stands for where none is compared: eighty rows to a rule, 3 to 50.

    One for each of fewer rows than three.
    """
    return max((count for count in _RULES[:5] if 10 * count * _ROWS_PER_RULE <= n_rows), default=min(_RULES[0], n_rows))


def rule_numbers(n_rows: int) -> tuple[int, ...]:
    """Numbers of rules that ``n_rules="auto"`` compares, at least eight rows to a rule."""
    return tuple(count for count in _RULES if count * _ROWS_PER_RULE <= n_rows) or _RULES[:1]


# The settings of a run

SCHEDULES = ("constant", "cosine", "onecycle", "averaged")
# Share of a one-cycle run spent warming up, and the factor below the peak it starts from.
_WARM_UP, _START_FACTOR = 0.1, 10.0


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a training run, as the estimators explain them. Every value is checked when the object is made.

    A callable loss gives (batch, ...) or, where there are no sample weights, a scalar. ``drop_last`` leaves out the last,
    smaller batch of an epoch. ``coverage`` and ``interval_weight`` train the type-reduced set of an IT2 system.
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
        if self.loss_options and isinstance(self.loss, str):  # the compiled step does not check them
            self._try_loss()
        optimizer = self.optimizer_class()
        check_options_of("optimizer_options", optimizer.__name__, self.optimizer_options, _parameters_of(optimizer))
        if self.optimizer_options and isinstance(self.optimizer, str):  # a class of the user may count its instances
            self._try_optimizer()

    def _try_loss(self) -> None:
        """Take the loss of one sample, so that values which the loss does not take are an error of the settings."""
        one = torch.zeros(1, 1)
        try:
            self.point_loss()(one, one)
        except (ValueError, TypeError) as error:
            options, reason = dict(self.loss_options), str(error).rstrip(".")
            raise ValueError(f"loss_options must be values that the loss takes, got {options} ({reason}).") from error

    def _try_optimizer(self) -> None:
        """Take one step of one parameter, so that values which the optimizer does not take are an error of the settings."""
        parameter = nn.Parameter(torch.zeros(1))
        parameter.grad = torch.ones(1)
        options = dict(self.optimizer_options)
        try:
            self.build_optimizer([parameter]).step()
        except (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError) as error:
            reason = " ".join(str(error).split())[:200].rstrip(".")
            raise ValueError(
                f"optimizer_options must be values that the optimizer takes, got {options} ({reason})."
            ) from error
        if not torch.isfinite(parameter).all():
            raise ValueError(f"optimizer_options must give a finite step, got {options}.")

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
