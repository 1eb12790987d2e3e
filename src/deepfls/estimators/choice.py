"""How closely a system may follow its training rows: what may be chosen, and what a choice makes of a system.

:mod:`deepfls.estimators.comparison` chooses the path, the number of epochs on it, whether most of several systems are
corrections, and how much of a linear model to mix into a system. The mixture of a system and a line is a system
again, because the consequents of rules are linear: ``a y_p + b (s · x + t)`` has the slopes ``a a_p + b s`` and the
intercept ``a a_p0 + b t``. So the model stays one set of rules, and becomes a line where a system would memorise
noise.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.special
import torch

from deepfls._checks.values import Array
from deepfls.estimators.settings import Settings
from deepfls.functional.losses import QuantileLoss
from deepfls.nn.general import GT2FLS
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training import recipe
from deepfls.training.recipe import TrainConfig
from deepfls.training.steps import Rows

System = T1FLS | IT2FLS
# The path of a fit without a comparison.
USUAL_PATH = recipe.Path()
# Factor of the loss of a long run below which that of a short one is clearly better, where rules share terms.
_CLEARLY = 0.8
# Largest loss, in variances of the targets, with which no decay is compared there.
_LITTLE_NOISE = 0.1
# Levels of the planes whose ends are compared as quantiles.
_LEVELS = (0.04, 0.2, 0.4, 0.6, 0.8, 1.0)
# Their mean loss where they are the quantiles of normal noise of variance 1: that of 2 φ(z) at the quantiles z of α/2.
_LOSS_OF_NOISE = 0.5456
# Penalties of the ridge per row, of which one is chosen, and inverse penalties of the logistic regression.
_PENALTIES, _INVERSE_PENALTIES = (1e-7, 1e-3, 1e-2, 0.1, 1.0), (1.0, 0.03)
# Inputs beyond which a line would cost more than the system.
_MAX_INPUTS = 1_000


def is_chosen(settings: Settings) -> bool:
    """Whether a fit to arrays compares settings on training rows held out in turn."""
    return settings.patience is None and (settings.epochs == "auto" or settings.n_rules == "auto")


def choice_paths(
    settings: Settings, config: TrainConfig, n_rows: int, *, may_grow: bool = False
) -> tuple[recipe.Path, ...]:
    """The runs that are compared; what a user has set stays. ``may_grow``: one may start at the leaves of a tree."""
    if settings.epochs != "auto":
        return (USUAL_PATH,)
    restricted = settings.n_terms is not None or settings.max_conditions is not None
    slow = settings.loss == "quantiles" and settings.learning_rate == "auto" and not restricted
    several = settings.n_systems > 1 and settings.width == "auto"
    paths = recipe.paths(n_rows, several=several, slow=slow, tree=may_grow, classifies=settings._classifies)
    if settings.loss == "quantiles":  # its losses are those of absolute errors; the limits are of squared ones
        limits = [(_LOSS_OF_NOISE * math.sqrt(path.below), math.sqrt(path.factor)) for path in paths]
        paths = tuple(dataclasses.replace(p, below=b, factor=f) for p, (b, f) in zip(paths, limits, strict=True))
    if settings.learning_rate != "auto":
        paths = tuple(path for path in paths if path.rate == 1.0)
    if settings.weight_decay != "auto":
        paths = tuple(dataclasses.replace(path, decay=1.0) for path in paths if path.decay > 0.0)
    if restricted:
        # Conditions are revised at shares of a run, so every number of epochs is a run of its own. Runs scatter by the
        # conditions they find: few are compared, and fewer epochs than usual must be clearly better.
        long, *others = (path for path in paths if path.rate == path.width == 1.0)
        short = [dataclasses.replace(long, shares=(share,), factor=_CLEARLY) for share in long.shares[:-1:2]]
        # Sets that rules share and few conditions hold a system back by themselves: of the paths for little noise the one
        # without decay is compared, earlier than in other fits, and need not be better by a factor.
        exact = [
            dataclasses.replace(path, shares=path.shares[-1:], below=_LITTLE_NOISE, factor=1.0) for path in others[-1:]
        ]
        return (dataclasses.replace(long, shares=long.shares[-1:]), *reversed(short), *exact)
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
                return array_of(system(x))
            assert isinstance(system, GT2FLS)
            _, left, right = system.planes(x, _LEVELS)
            return array_of(torch.stack([left, right], dim=1).flatten(1))

    def middles(self, outputs: Array) -> Array:
        """Crisp outputs (rows, outputs) among those compared; of planes the mean of their ends, a mean of quantiles."""
        return outputs.reshape(len(outputs), 2 * len(_LEVELS), -1).mean(axis=1) if self.planes else outputs

    def narrowed(self, outputs: Array, share: float) -> Array:
        """Ends of planes at ``share`` times their distance from the narrowest plane."""
        ends = outputs.reshape(len(outputs), 2, len(_LEVELS), -1)
        middle = ends[:, :, -1:]
        return np.asarray(middle + share * (ends - middle)).reshape(outputs.shape)

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
        x, y = inputs_of(rows), array_of(rows.target)
        weight = None if rows.weight is None else array_of(rows.weight)
        if self.n_classes is None:
            return regression_lines(x, y, weight, constant=self.constant)
        return class_lines(x, y[:, 0].astype(np.int64), weight, self.n_classes, constant=self.constant)


@dataclass(frozen=True)
class Choice:
    """What was chosen. The shares are those of the system and of the line in every output."""

    n_rules: int
    path: recipe.Path = USUAL_PATH
    epoch_share: float = 1.0
    corrected: bool = False  # whether most of several systems are corrections
    system_share: Array | float = 1.0  # (outputs,)
    line_share: Array | float = 0.0  # (outputs,)
    plane_share: float = 1.0  # of the widths of planes
    penalty: int = 0  # place of the penalty of the line
    loss: float = float("nan")  # on the rows held out
    line_loss: float = float("nan")
    n_held_out: int = 0

    def config(self, config: TrainConfig) -> TrainConfig:
        """The settings of the training loop with the choice."""
        epochs = max(1, round(self.epoch_share * config.epochs))
        rate, decay = self.path.rate * config.learning_rate, self.path.decay * config.weight_decay
        return dataclasses.replace(config, learning_rate=rate, weight_decay=decay, epochs=epochs)

    def description(self, config: TrainConfig) -> dict[str, Any]:
        """The choice in plain values, with the settings of the loop that follow from it."""
        return {
            "n_rules": self.n_rules,
            "epochs": config.epochs,
            "learning_rate": config.learning_rate,
            "weight_decay": config.weight_decay,
            "width": self.path.width,
            "tree": self.path.tree,
            "corrected": self.corrected,
            "system_share": np.atleast_1d(self.system_share).tolist(),
            "line_share": np.atleast_1d(self.line_share).tolist(),
            "plane_share": self.plane_share,
            "loss": self.loss if math.isfinite(self.loss) else None,
            "line_loss": self.line_loss if math.isfinite(self.line_loss) else None,
            "n_held_out": self.n_held_out,
        }

    def mix(self, system: System, rows: Rows, task: Task) -> None:
        """Mix the line of these rows into the consequents of a trained system; narrow its planes."""
        if isinstance(system, GT2FLS) and self.plane_share != 1.0:
            system.narrow_planes(self.plane_share)
        if not np.any(self.line_share) and np.all(np.equal(self.system_share, 1.0)):
            return
        line = task.lines(rows)[self.penalty]
        rest = mean_target(rows) * (1.0 - self.system_share - self.line_share) if task.n_classes is None else 0.0
        scale_consequents(system, self.system_share, line, self.line_share, rest)


def scale_consequents(
    system: System, own: Array | float, line: Line, other: Array | float, rest: Array | float = 0.0
) -> None:
    """Let a system give ``own`` times its outputs plus ``other`` times a line plus ``rest``, each (outputs,)."""
    of_system, of_line = (torch.as_tensor(share, dtype=torch.float64) for share in (own, other))
    intercepts = (
        of_system * system.intercepts.double() + of_line * torch.from_numpy(line.intercepts) + torch.as_tensor(rest)
    )
    system.intercepts = intercepts.to(system.intercepts)
    if system.order == 1:
        slopes = of_system[..., None] * system.slopes.double() + of_line[..., None] * torch.from_numpy(line.slopes)
        system.slopes = slopes.to(system.slopes)


def inputs_of(rows: Rows) -> Array:
    """The inputs in scaled units, with their means in place of those that are not known."""
    return np.nan_to_num(array_of(rows.x), nan=0.0)


def mean_target(rows: Rows) -> Array:
    return np.average(array_of(rows.target), axis=0, weights=None if rows.weight is None else array_of(rows.weight))


def array_of(tensor: Any) -> Array:
    return np.asarray(tensor.detach().cpu().double().numpy())


# Lines, of scaled rows: the simplest systems there are, those whose rules all have one consequent


@dataclass(frozen=True)
class Line:
    """y = slopes · x + intercepts."""

    slopes: Array  # (outputs, features)
    intercepts: Array  # (outputs,)

    def __call__(self, x: Array) -> Array:
        """Outputs (rows, outputs) for rows x (rows, features)."""
        return np.asarray(x @ self.slopes.T + self.intercepts)


def regression_lines(x: Array, y: Array, weight: Array | None, *, constant: bool) -> list[Line]:
    """Ridge solutions for every penalty, from rows x (rows, features) and y (rows, outputs); with ``constant`` the mean."""
    share = np.full(len(x), 1.0 / len(x)) if weight is None else weight / weight.sum()
    x_mean, y_mean = share @ x, share @ y
    if constant or x.shape[1] > _MAX_INPUTS:
        return [Line(np.zeros((y.shape[1], x.shape[1])), y_mean)]
    centered = x - x_mean
    weighted = centered * share[:, None]
    values, vectors = scipy.linalg.eigh(weighted.T @ centered)
    moments = vectors.T @ (weighted.T @ (y - y_mean))
    slopes = [(vectors @ (moments / (np.maximum(values, 0.0) + penalty)[:, None])).T for penalty in _PENALTIES]
    return [Line(found, y_mean - found @ x_mean) for found in slopes]


def class_lines(x: Array, y: Array, weight: Array | None, n_classes: int, *, constant: bool) -> list[Line]:
    """Logistic regressions for every penalty, from rows x (rows, features) and the places y (rows,) of their classes.

    A class without rows gets a logit below all others. With ``constant`` the logarithms of the shares of the classes.
    """
    counts = np.bincount(y, weights=weight, minlength=n_classes)
    if constant or x.shape[1] > _MAX_INPUTS:
        shares = (counts + 0.5) / (counts + 0.5).sum()
        return [Line(np.zeros((n_classes, x.shape[1])), np.log(shares))]
    lines = []
    for inverse in _INVERSE_PENALTIES:
        slopes, intercepts = _logistic(x, y, weight, counts > 0, inverse)
        intercepts = np.where(counts > 0, intercepts, intercepts[counts > 0].min() - np.log(len(x)))
        lines.append(Line(slopes, intercepts))
    return lines


def _logistic(x: Array, y: Array, weight: Array | None, present: Array, inverse: float) -> tuple[Array, Array]:
    """Slopes (classes, features) and intercepts (classes,) that minimise ``inverse`` Σ w loss + ½ |slopes|².

    Not scikit-learn's: it warns where the optimiser stops before the last digits, which do not matter here, and warnings
    cannot be held back in one thread alone.
    """
    n_classes, n_features = len(present), x.shape[1]
    labels = np.eye(n_classes)[y]
    weights = np.ones(len(x)) if weight is None else weight
    absent = np.where(present, 0.0, -np.inf)
    # Two classes share one logit, of which each has half: the penalty is that of the whole.
    penalty = 2.0 if present.sum() == 2 else 1.0

    def loss_and_slope(flat: Array) -> tuple[float, Array]:
        own = flat.reshape(n_classes, n_features + 1)
        logits = x @ own[:, :-1].T + own[:, -1] + absent
        total = scipy.special.logsumexp(logits, axis=1)
        loss = inverse * float(weights @ (total - logits[np.arange(len(y)), y]))
        loss += 0.5 * penalty * float((own[:, :-1] ** 2).sum())
        by_logits = inverse * weights[:, None] * (np.exp(logits - total[:, None]) - labels)
        slope = np.column_stack([by_logits.T @ x + penalty * own[:, :-1], by_logits.sum(axis=0)])
        return loss, slope.ravel()

    start = np.zeros(n_classes * (n_features + 1))
    found = scipy.optimize.minimize(loss_and_slope, start, jac=True, method="L-BFGS-B", options={"maxiter": 300}).x
    own = found.reshape(n_classes, n_features + 1)
    return own[:, :-1], own[:, -1]
