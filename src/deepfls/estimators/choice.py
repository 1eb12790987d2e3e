"""How closely a system may follow its training rows, chosen from these rows alone.

Inner folds are held out in turn. For every fold systems are trained along the paths of :mod:`deepfls.training.recipe`,
and a linear model beside them. What is chosen, by the loss on the rows held out, is the path, the number of epochs on it,
and how much of the linear model to mix into the system. The mixture of a system and a line is a system again, because
the consequents of rules are linear: ``a y_p + b (s · x + t)`` has the slopes ``a a_p + b s`` and the intercept
``a a_p0 + b t``. So the model stays one set of rules, and on rows of noise that a system would learn by heart it becomes a
line.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
import torch

from deepfls._checks.samples import Array
from deepfls.estimators.settings import Settings
from deepfls.functional.losses import QuantileLoss
from deepfls.nn.general import GT2FLS
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training import recipe
from deepfls.training.batches import Rows
from deepfls.training.config import TrainConfig
from deepfls.training.line import Line, class_lines, regression_lines

System = T1FLS | IT2FLS
# Trains a new system of a number of rules, the one of a number from 0 on, and calls back after every epoch with its number
# and the system.
Trainer = Callable[[Rows, int, TrainConfig, int, Callable[[int, System], None]], None]

# Levels of the planes whose ends are compared as quantiles.
_LEVELS = (0.04, 0.2, 0.4, 0.6, 0.8, 1.0)
# Fewest rows that are divided, and of the second most frequent class.
_FEWEST_ROWS, _FEWEST_OF_CLASS = 12, 4
# Largest mean number of copies of a row that are laid out.
_MOST_COPIES = 3
# Factor of the loss on the first fold from which longer runs are left out on the other folds.
_RISEN = 1.1
# Largest share of a system or a line in logits: a mixture of them may be steeper than either.
_STEEPEST = 2.0
# n_rules="auto" takes the fewest rules whose loss is within this factor of the smallest, and compares at this share of
# the epochs.
_ENOUGH, _COMPARED_SHARE = 1.02, 0.25


def is_chosen(settings: Settings) -> bool:
    """Whether a fit to arrays compares settings on training rows held out in turn."""
    return settings.patience is None and (settings.epochs == "auto" or settings.n_rules == "auto")


def choice_paths(settings: Settings, config: TrainConfig) -> tuple[recipe.Path, ...]:
    """The runs that are compared; what a user has set stays."""
    if settings.epochs != "auto":
        return (recipe.Path(),)
    paths = recipe.PATHS[: 2 if settings.learning_rate == "auto" else 1]
    if settings.weight_decay != "auto":
        paths = tuple(dataclasses.replace(path, decay=1.0) for path in paths)
    if config.schedule in ("averaged", "constant"):
        return paths
    # The rate follows from the number of epochs, so every number of them is a run of its own.
    return tuple(dataclasses.replace(path, shares=path.shares[-1:]) for path in paths)


@dataclass(frozen=True)
class Task:
    """What is learned: numbers, or ``n_classes`` classes."""

    n_classes: int | None
    constant: bool  # whether the consequents are constants
    mixed: bool  # whether a line may be mixed in
    planes: bool = False  # whether the ends of planes are compared, as quantiles, instead of crisp outputs

    @classmethod
    def of(cls, settings: Settings, classes: Array | None) -> Task:
        """The task of these settings. A line is mixed in if epochs are chosen and the loss is that of a mean."""
        is_mean = settings.loss in ("l2", "l1", "huber", "log-cosh", "cross-entropy")
        is_learned_set = settings.coverage is not None and settings.calibration is None
        mixed = settings.epochs == "auto" and is_mean and not is_learned_set
        return cls(None if classes is None else len(classes), settings.order == 0, mixed, settings.loss == "quantiles")

    def outputs(self, system: System, x: torch.Tensor) -> Array:
        """What is compared of a system for scaled rows, (rows, outputs) or, for planes, (rows, 2 levels outputs)."""
        with torch.no_grad():
            if not self.planes:
                return _array(system(x))
            assert isinstance(system, GT2FLS)
            _, left, right = system.planes(x, _LEVELS)
            return _array(torch.stack([left, right], dim=1).flatten(1))

    def losses(self, outputs: torch.Tensor, target: torch.Tensor, point: Callable[..., torch.Tensor]) -> torch.Tensor:
        """Losses of outputs by the ``point`` loss; of planes by the pinball losses of their ends."""
        if not self.planes:
            return point(outputs, target)
        ends = outputs.reshape(len(target), 2, len(_LEVELS), target.shape[1])
        alphas = torch.tensor(_LEVELS, dtype=outputs.dtype)
        losses = [QuantileLoss()(ends[:, 0, k], ends[:, 1, k], target, alphas[[k]]) for k in range(len(_LEVELS))]
        return torch.stack(losses, dim=1)

    def lines(self, rows: Rows) -> list[Line]:
        """Linear models of these rows, for every penalty."""
        x, y = _inputs(rows), _array(rows.target)
        weight = None if rows.weight is None else _array(rows.weight)
        if self.n_classes is None:
            return regression_lines(x, y, weight, constant=self.constant)
        return class_lines(x, y[:, 0].astype(np.int64), weight, self.n_classes, constant=self.constant)


@dataclass(frozen=True)
class Choice:
    """What was chosen. The shares are those of the system and of the line in every output."""

    n_rules: int
    rate: float = 1.0  # times the learning rate
    decay: float = 1.0  # times the weight decay
    epoch_share: float = 1.0
    system_share: Array | float = 1.0  # (outputs,)
    line_share: Array | float = 0.0  # (outputs,)
    penalty: int = 0  # place of the penalty of the line
    loss: float = float("nan")  # on the rows held out
    line_loss: float = float("nan")
    n_held_out: int = 0

    def config(self, config: TrainConfig) -> TrainConfig:
        """The settings of the training loop with the choice."""
        epochs = max(1, round(self.epoch_share * config.epochs))
        rate, decay = self.rate * config.learning_rate, self.decay * config.weight_decay
        return dataclasses.replace(config, learning_rate=rate, weight_decay=decay, epochs=epochs)

    def description(self, config: TrainConfig) -> dict[str, Any]:
        """The choice in plain values, with the settings of the loop that follow from it."""
        return {
            "n_rules": self.n_rules,
            "epochs": config.epochs,
            "learning_rate": config.learning_rate,
            "weight_decay": config.weight_decay,
            "system_share": np.atleast_1d(self.system_share).tolist(),
            "line_share": np.atleast_1d(self.line_share).tolist(),
            "loss": self.loss if math.isfinite(self.loss) else None,
            "line_loss": self.line_loss if math.isfinite(self.line_loss) else None,
            "n_held_out": self.n_held_out,
        }

    def mix(self, system: System, rows: Rows, task: Task) -> None:
        """Mix the line of these rows into the consequents of a trained system."""
        if not np.any(self.line_share) and np.all(np.equal(self.system_share, 1.0)):
            return
        line = task.lines(rows)[self.penalty]
        own, other = (torch.as_tensor(share, dtype=torch.float64) for share in (self.system_share, self.line_share))
        intercepts = own * system.intercepts.double() + other * torch.from_numpy(line.intercepts)
        if task.n_classes is None:
            intercepts += (1.0 - own - other) * torch.from_numpy(_mean_target(rows))
        system.intercepts = intercepts.to(system.intercepts)
        if system.order == 1:
            slopes = own[..., None] * system.slopes.double() + other[..., None] * torch.from_numpy(line.slopes)
            system.slopes = slopes.to(system.slopes)


def choose(
    rows: Rows,
    config: TrainConfig,
    task: Task,
    trained: Trainer,
    random: np.random.RandomState,
    *,
    rule_numbers: tuple[int, ...],
    paths: tuple[recipe.Path, ...],
    n_systems: int,
) -> Choice | None:
    """The choice for scaled rows; None where they are too few to hold some out.

    ``config`` states the settings of all rows; of more rows than :data:`recipe.CHOICE_ROWS` a sample is used. With several
    systems it is their mean that is compared: what a mean of systems needs least is that each of them is smooth.
    """
    rows = _with_copies(rows)
    order = random.permutation(len(rows))[: recipe.CHOICE_ROWS]
    if len(order) < len(rows):
        size = recipe.batch_size(len(order))
        config = dataclasses.replace(config, batch_size=size, epochs=recipe.epochs(len(order), size))
    folds = list(_folds(rows, order, task))
    if not folds:
        return None
    held = _HeldOut(rows, folds, config, task, trained, n_systems)
    return held.best(held.fewest_rules(rule_numbers, paths[0]), paths)


def _folds(rows: Rows, order: Array, task: Task) -> Iterator[tuple[Array, Array]]:
    """Places of the training rows and of the rows held out; classes are divided evenly. None where rows are too few."""
    if len(order) < _FEWEST_ROWS:
        return
    if task.n_classes is not None:
        classes = _array(rows.target)[order, 0]
        counts = np.sort(np.bincount(classes.astype(np.int64)))
        if len(counts) < 2 or counts[-2] < _FEWEST_OF_CLASS:
            return
        order = order[np.argsort(classes, kind="stable")]
    n_parts, n_held = recipe.fold_shares(len(order))
    part = np.arange(len(order)) % n_parts
    for number in range(n_held):
        yield np.sort(order[part != number]), np.sort(order[part == number])


class _HeldOut:
    """Rows held out, their linear predictions, and the losses of systems on them."""

    def __init__(
        self,
        rows: Rows,
        folds: list[tuple[Array, Array]],
        config: TrainConfig,
        task: Task,
        trained: Trainer,
        n_systems: int,
    ) -> None:
        self._config, self._task, self._trained, self._n_systems = config, task, trained, n_systems
        self._mean = _mean_target(rows)
        self._parts = [(_taken(rows, kept), _taken(rows, held)) for kept, held in folds]
        together = _taken(rows, np.concatenate([held for _, held in folds]))
        self._target = together.target.cpu().double()
        self._weight = None if together.weight is None else together.weight.cpu().double()
        lines: list[list[Array]] = [
            [line(_inputs(held)) for line in task.lines(kept)] if task.mixed else [] for kept, held in self._parts
        ]
        joined = [np.concatenate(parts) for parts in zip(*lines, strict=True)]
        losses = [self._loss(outputs) for outputs in joined]
        self._penalty = int(np.argmin(losses)) if losses else 0
        self._line = joined[self._penalty] if joined else None
        self._line_loss = losses[self._penalty] if losses else float("inf")

    def _loss(self, outputs: Array) -> float:
        """Mean loss of outputs (rows, outputs) for the first of the rows held out."""
        target = self._target[: len(outputs)]
        weight = None if self._weight is None else self._weight[: len(outputs)]
        losses = self._task.losses(torch.from_numpy(outputs), target, self._config.point_loss())
        if losses.ndim:
            losses = losses.flatten(1).mean(dim=1) if losses.ndim > 1 else losses
            losses = losses.mean() if weight is None else (losses * weight).mean()
        return float(losses)

    def _outputs(self, n_rules: int, path: recipe.Path) -> dict[float, Array]:
        """Outputs for the rows held out, by the shares of the epochs."""
        epochs = {max(1, round(share * self._config.epochs)): share for share in path.shares}
        found: dict[float, list[Array]] = {share: [] for share in epochs.values()}
        choice = Choice(n_rules, path.rate, path.decay, max(path.shares))
        for kept, held in self._parts:
            sums: dict[float, list[Array]] = {share: [] for share in epochs.values()}

            def note(
                epoch: int,
                system: System,
                held: Rows = held,
                sums: dict[float, list[Array]] = sums,
                epochs: dict[int, float] = epochs,
            ) -> None:
                if epoch in epochs:
                    sums[epochs[epoch]].append(self._task.outputs(system, held.x))

            for number in range(self._n_systems):
                self._trained(kept, n_rules, choice.config(self._config), number, note)
            for share, outputs in sums.items():
                if len(outputs) == self._n_systems:
                    found[share].append(np.mean(outputs, axis=0))
            if len(self._parts) > 1 and held is self._parts[0][1]:
                longest = self._useful_share({share: parts[0] for share, parts in found.items() if parts})
                epochs = {epoch: share for epoch, share in epochs.items() if share <= longest}
                choice = dataclasses.replace(choice, epoch_share=longest)
        return {share: np.concatenate(parts) for share, parts in found.items() if len(parts) == len(self._parts)}

    def _useful_share(self, outputs: dict[float, Array]) -> float:
        """The largest share of the epochs that the other folds need to see, from the outputs of the first one.

        Beyond twice the best share only if the loss has not risen by much: where it has, rows are learned by heart.
        """
        losses = {share: self._loss(found) for share, found in outputs.items() if np.isfinite(found).all()}
        if not losses:
            return 1.0
        best = min(losses, key=lambda share: losses[share])
        return max(share for share in losses if share <= 2.1 * best or losses[share] <= _RISEN * losses[best])

    def fewest_rules(self, numbers: tuple[int, ...], path: recipe.Path) -> int:
        """The fewest rules that are nearly as good as the best number."""
        if len(numbers) == 1:
            return numbers[0]
        share = max((share for share in path.shares if share <= _COMPARED_SHARE), default=path.shares[-1])
        path = dataclasses.replace(path, shares=(share,))
        losses = []
        for n_rules in numbers:
            outputs = self._outputs(n_rules, path)
            losses.append(min((self._mixed(found)[0] for found in outputs.values()), default=float("inf")))
        enough = min(losses) * (_ENOUGH if min(losses) > 0 else 1.0)
        return next(n_rules for n_rules, loss in zip(numbers, losses, strict=True) if loss <= enough)

    def best(self, n_rules: int, paths: tuple[recipe.Path, ...]) -> Choice:
        """The path, epochs and shares with the smallest loss."""
        best = Choice(n_rules, loss=float("inf"))
        for path in paths:
            for share, outputs in self._outputs(n_rules, path).items():
                loss, own, other = self._mixed(outputs)
                if loss < best.loss:
                    best = Choice(n_rules, path.rate, path.decay, share, own, other, self._penalty, loss)
        return dataclasses.replace(best, line_loss=self._line_loss, n_held_out=len(self._target))

    def _mixed(self, outputs: Array) -> tuple[float, Array | float, Array | float]:
        """The smallest loss of mixtures of a system and the line, and their shares."""
        if not np.isfinite(outputs).all():
            return float("inf"), 1.0, 0.0
        if self._line is None:
            return self._loss(outputs), 1.0, 0.0
        shares = self._number_shares(outputs, self._line) if self._task.n_classes is None else None
        own, other = self._class_shares(outputs, self._line) if shares is None else shares
        mixture = own * outputs + other * self._line
        if self._task.n_classes is None:
            mixture = mixture + (1.0 - own - other) * self._mean
        loss, pure = self._loss(mixture), self._loss(outputs)
        # Systems of the folds have fewer rows than the one to come, and deserve a smaller share than that one.
        return (pure, 1.0, 0.0) if pure <= _ENOUGH * loss else (loss, own, other)

    def _number_shares(self, outputs: Array, line: Array) -> tuple[Array, Array]:
        """Shares of a system and a line (outputs,): at least 0, together at most 1, by least squares."""
        # What the shares leave to 1 is that of the mean of the targets.
        target, outputs, line = (values - self._mean for values in (self._target.numpy(), outputs, line))
        root = np.ones(len(target)) if self._weight is None else np.sqrt(self._weight.numpy())
        shares = []
        for k in range(target.shape[1]):
            design = np.stack([outputs[:, k], line[:, k]], axis=1) * root[:, None]
            found, _ = scipy.optimize.nnls(design, target[:, k] * root)
            if found.sum() > 1.0:
                step = design[:, 0] - design[:, 1]
                own = step @ (target[:, k] * root - design[:, 1]) / max(float(step @ step), 1e-300)
                found = np.array([np.clip(own, 0.0, 1.0), 1.0 - np.clip(own, 0.0, 1.0)])
            shares.append(found)
        own, other = np.transpose(shares)
        return own, other

    def _class_shares(self, outputs: Array, line: Array) -> tuple[Array, Array]:
        """Shares of the logits of a system and of a line, the same for all classes, by the cross-entropy."""
        target = self._target.numpy()[:, 0].astype(np.int64)
        weight = np.ones(len(target)) if self._weight is None else self._weight.numpy()
        terms = np.stack([outputs, line])
        of_class = terms[:, np.arange(len(target)), target]

        def loss(shares: Array) -> tuple[float, Array]:
            logits = np.tensordot(shares, terms, axes=1)
            logits -= logits.max(axis=1, keepdims=True)
            odds = np.exp(logits)
            total = odds.sum(axis=1, keepdims=True)
            losses = np.log(total[:, 0]) - logits[np.arange(len(target)), target]
            slopes = (odds / total * terms).sum(axis=2) - of_class
            return float(losses @ weight) / len(target), slopes @ weight / len(target)

        bounds = [(0.0, _STEEPEST)] * 2
        found = scipy.optimize.minimize(loss, np.array([0.5, 0.5]), jac=True, bounds=bounds, method="L-BFGS-B").x
        own, other = (np.full(outputs.shape[1], share) for share in found)
        return own, other


def _with_copies(rows: Rows) -> Rows:
    """Rows of whole weights as so many copies.

    A fit merges equal rows. New rows may equal training rows as often as these equal each other, and a choice has to see
    that: copies may lie on both sides of a fold.
    """
    if rows.weight is None:
        return rows
    weight = _array(rows.weight)
    copies = np.rint(weight / weight[weight > 0].min(initial=np.inf)) if (weight > 0).any() else np.ones(len(rows))
    whole = np.allclose(copies * weight[weight > 0].min(initial=np.inf), weight, rtol=1e-4)
    if not whole or copies.sum() > _MOST_COPIES * len(rows):
        return rows
    places = torch.from_numpy(np.repeat(np.arange(len(rows)), copies.astype(np.int64)))
    return Rows(rows.packed[places][:, :-1].contiguous(), rows.n_features, rows.n_targets)


def _taken(rows: Rows, places: Array) -> Rows:
    return Rows(rows.packed[torch.from_numpy(places)], rows.n_features, rows.n_targets)


def _inputs(rows: Rows) -> Array:
    """The inputs in scaled units, with their means in place of those that are not known."""
    return np.nan_to_num(_array(rows.x), nan=0.0)


def _mean_target(rows: Rows) -> Array:
    return np.average(_array(rows.target), axis=0, weights=None if rows.weight is None else _array(rows.weight))


def _array(tensor: Any) -> Array:
    return np.asarray(tensor.detach().cpu().double().numpy())
