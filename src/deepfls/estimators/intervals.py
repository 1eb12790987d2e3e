"""Prediction intervals and sets of classes: their settings, the calibration of a trained system, and the predictions.

With planes the score of a target is the width t of the plane whose end it is: 0 in the middle, 1 at an end of the widest
plane, more beyond it. The width and the level α of a plane determine each other. The ends of a plane of several systems are
the means of theirs: they are nested and never cross, as those of each are.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from deepfls._checks.arguments import check_coverage, check_number, check_option
from deepfls._checks.values import Array, comparable, evenly_spaced
from deepfls.data.arrays import DataPlan, Samples
from deepfls.data.columns import Columns, check_place
from deepfls.estimators import calibration as conformal
from deepfls.estimators.calibration import Calibration
from deepfls.estimators.prediction import ScaledSystem, System, normalised_firing
from deepfls.estimators.settings import RegressorSettings, Settings, check_number_or_auto
from deepfls.functional.reduction import plane_log_firing, type_reduced_set
from deepfls.nn.general import GT2FLS

# Training rows on which reaches are measured and the local scale is fitted.
_FITTED_ROWS = 16_384
# What is added to the learned reaches before they divide a score, as a share of their mean on the training rows.
_FLOOR_SHARE = 0.5
# Penalty of the local scale per row, and the number of terms beyond which it has one constant per rule.
_SCALE_PENALTY, _MAX_TERMS = 0.01, 2_000
# Largest number of rows for which refit="auto" trains a second time, on all rows.
_REFIT_ROWS = 5_000
# Coverage of the fit where calibration="alpha" is given without one.
_USUAL_COVERAGE = 0.9
# Halvings of the widths between which the score of a plane lies: a width is known to a billionth.
_HALVINGS = 30


class PredictionInterval(NamedTuple):
    """Ends of prediction intervals in the units of the target, each (rows,) or (rows, outputs); ``lower <= y <= upper``."""

    lower: Array
    upper: Array


# Settings


def with_intervals(
    settings: Settings, plan: DataPlan, table: Columns, *, streamed: bool, continued: bool
) -> tuple[Settings, DataPlan]:
    """Settings and plan of a fit with intervals: what "auto" stands for, and the rows held out, a share of every group."""
    method, coverage = settings.calibration, settings.coverage
    if method == "auto":
        method = "split" if settings.kind == "t1" else "alpha" if settings.loss == "quantiles" else "cqr"
    coverage = _USUAL_COVERAGE if coverage is None else coverage
    settings = replace(settings, calibration=method, coverage=coverage)
    _check_settings(settings, streamed=streamed, continued=continued)
    several: Any = settings.group_calibration
    if not isinstance(several, (list, tuple, np.ndarray)):
        several = [] if several is None else [several]
    places = [check_place("group_calibration", column, table) for column in several]
    if method is None:
        return settings, plan
    columns = tuple(place for column in places for place in table.places(column))
    count = functools.partial(conformal.held_out_rows, coverage=coverage, fraction=settings.calibration_fraction)
    check = functools.partial(conformal.check_enough_rows, columns=columns, coverage=coverage, table=table)
    return settings, replace(plan, calibration_rows=count, check_calibration=check, group_columns=columns)


def _check_settings(settings: Settings, *, streamed: bool, continued: bool) -> None:
    if settings.refit != "auto":
        _check_flag("refit", settings.refit)
        if streamed and settings.refit:
            raise ValueError(
                "refit must not be given beside a source: the rows that calibrate are few beside the others, so nothing is "
                "trained twice."
            )
    check_coverage(settings.coverage)
    if settings.calibration is not None or not isinstance(settings, RegressorSettings):
        check_option("calibration", settings.calibration, settings._calibrations)
    if isinstance(settings, RegressorSettings):
        if settings.kind == "t1" and settings.calibration != "split":
            raise ValueError(
                f"calibration must be 'split' for kind='t1', whose output is one value, got {settings.calibration!r}; "
                "kind='it2' learns intervals."
            )
        if settings.kind != "gt2" and settings.calibration == "alpha":
            raise ValueError(
                f"calibration='alpha' must come with kind='gt2', which has planes, got kind={settings.kind!r}."
            )
        check_number("interval_weight", settings.interval_weight, minimum=0.0)
        _check_flag("normalized_scores", settings.normalized_scores)
    check_number_or_auto("calibration_fraction", settings.calibration_fraction)
    if settings.calibration_fraction != "auto":
        check_number("calibration_fraction", settings.calibration_fraction, above=0.0, below=1.0)
    seed = settings.random_state
    is_seed = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if continued and settings.calibration is not None and not is_seed:
        # Rows that the first fit held out and the second trains on would make the intervals too narrow.
        raise ValueError(
            "random_state must be an integer with warm_start=True and a calibration, so that the same rows are held out "
            f"again, got {seed!r}."
        )


def _check_flag(name: str, value: Any) -> None:
    if type(value).__name__ not in ("bool", "bool_"):
        raise TypeError(f"{name} must be True or False, got {value!r}.")


def is_refitted(settings: Settings, n_rows: int) -> bool:
    """Whether a second system learns from all rows, where some are held out for a calibration."""
    return n_rows <= _REFIT_ROWS if isinstance(settings.refit, str) else bool(settings.refit)


# Calibration of a trained system


def calibrated(
    model: ScaledSystem, settings: Settings, columns: tuple[int, ...], trained: Samples, held: Samples | None
) -> Calibration:
    """The calibration of a trained system.

    The values of the inputs ``columns`` make groups, the rows ``trained`` give the local scale, and the rows ``held`` out
    give the scores; without these the learned set is not calibrated.
    """
    method = settings.calibration or ("planes" if settings.loss == "quantiles" else "none")
    no_scores = np.zeros((0, trained.y.shape[1]))
    empty = Calibration(method, check_coverage(settings.coverage), normalized=False, scores=no_scores)
    if held is None:
        return empty
    groups = comparable(held.x[:, list(columns)]) if columns else None
    empty = replace(empty, weight=held.weight, group_columns=columns, groups=groups)
    if not isinstance(settings, RegressorSettings):
        scores = _class_scores(model, held.x, method)
        return replace(empty, scores=np.take_along_axis(scores, held.y.astype(np.int64), axis=1))
    some = trained.take(evenly_spaced(trained.n_rows, _FITTED_ROWS))
    if settings.normalized_scores and method == "split":
        empty = replace(empty, normalized=True, scale=_fitted_scale(model, some))
    elif settings.normalized_scores or method == "alpha":
        lower, upper, _ = model.reduced(some.x)
        reach = 0.5 * (upper - lower).mean(axis=0)
        # The set of one rule, or of rules that agree everywhere, has no width: all rows are then alike.
        floor = np.where(reach > 0, _FLOOR_SHARE * reach, model.y_scaling.scale)
        empty = replace(empty, normalized=True, floor=floor)
    if method == "alpha":
        scores, sides = plane_scores(model, held.x, held.y, empty.floor)
        return replace(empty, scores=scores, sides=sides)
    y, below, above = _reaches(model, empty, held.x)
    if method == "cqr" and not empty.normalized:
        scores = conformal.quantile_scores(held.y, y - below, y + above)
    else:
        scores = conformal.interval_scores(held.y, y, below, above)
    return replace(empty, scores=scores, sides=np.where(held.y < y, -1.0, 1.0))


def _reaches(model: ScaledSystem, calibration: Calibration, x: Array) -> tuple[Array, Array, Array]:
    """Crisp output and the reaches below and above it that the calibration scales, each (rows, outputs)."""
    if calibration.method == "split":
        y = model.predictions(x)
        reach = np.ones_like(y) * model.y_scaling.scale
        if calibration.scale is not None:
            reach = reach * _local_scale(model, x, calibration.scale)
        return y, reach, reach
    lower, upper, y = model.reduced(x)
    floor = 0.0 if calibration.floor is None else calibration.floor
    return y, y - lower + floor, upper - y + floor


def _terms(system: System, z: Tensor, *, linear: bool) -> Tensor:
    """Normalised firing and, where ``linear``, its products with the inputs: terms in which a fuzzy system is linear."""
    share = normalised_firing(system, z)
    if not linear:
        return share
    # In place of an unknown input the mean, 0 in scaled units.
    return torch.cat([share, (share[:, :, None] * z.nan_to_num()[:, None, :]).flatten(1)], dim=1)


def _fitted_scale(model: ScaledSystem, rows: Samples) -> Array:
    """Coefficients of the local scale: a fuzzy system with the sets of the model for the size of its residuals."""
    linear = model.system.n_rules * (model.system.n_features + 1) <= _MAX_TERMS
    (design,) = model.evaluated(rows.x, lambda system, z: (_terms(system, z, linear=linear),))
    return conformal.fit_log_scale(design, rows.y - model.predictions(rows.x), _SCALE_PENALTY)


def _local_scale(model: ScaledSystem, x: Array, coefficients: Array) -> Array:
    """The local scale at rows in the units of the data, (rows, outputs)."""
    linear = len(coefficients) > model.system.n_rules + 1

    def scale(system: System, z: Tensor) -> tuple[Tensor, ...]:
        # Chunk by chunk: the terms of all rows together may not fit into memory.
        terms = _terms(system, z, linear=linear).cpu().numpy()
        return (torch.from_numpy(conformal.local_scale(terms, coefficients)),)

    return model.evaluated(x, scale)[0]


# Predictions


@dataclass(frozen=True)
class CalibratedModel:
    """A model with its calibration; rows x (rows, features) are in the units of the data.

    ``part`` is the system that was calibrated where it is not the model, which learned from all rows: the intervals of the
    part are widened to hold the predictions of the model.
    """

    model: ScaledSystem
    calibration: Calibration | None
    part: ScaledSystem | None = None
    table: Columns | None = None

    def interval(self, x: Array, coverage: float | None = None) -> PredictionInterval:
        """Ends (rows, outputs) of intervals; ``coverage`` is that of the fit by default."""
        calibration, coverage = self._asked(coverage, "predict_interval")
        source = self.part or self.model
        if calibration.method == "none":
            if coverage != calibration.coverage:
                raise ValueError(
                    f"coverage must be {calibration.coverage:g}, for which the set was trained, with calibration=None, got "
                    f"{coverage:g}; calibration='cqr' gives any."
                )
            return PredictionInterval(*source.reduced(x)[:2])
        if calibration.method == "planes":
            tails = np.array([0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage])
            lower, upper = _learned_quantiles(source, x, tails).swapaxes(0, 1)
        else:
            radius = calibration.quantile(coverage, x, self.table)[:, None]
            lower, upper = (end[:, 0] for end in _calibrated_ends(source, calibration, x, radius))
        for model in (self.model,) if self.part is None else (self.part, self.model):
            y = model.predictions(x)
            lower, upper = np.minimum(lower, y), np.maximum(upper, y)
        return PredictionInterval(lower, upper)

    def quantiles(self, x: Array, levels: Any, *, learned: bool) -> Array:
        """Quantiles (rows, levels, outputs) in the order of ``levels``, each within (0, 1).

        They come from the calibration where there is one, else from the planes of a system that ``learned`` all of them.
        """
        try:
            asked = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        except (TypeError, ValueError):
            raise TypeError(f"levels must be numbers, got {levels!r:.80}.") from None
        if asked.ndim != 1 or len(asked) == 0:
            raise ValueError(f"levels must be one level or a list of them, got shape {asked.shape}.")
        outside = ~((asked > 0) & (asked < 1))
        if outside.any():
            raise ValueError(f"levels must be greater than 0 and less than 1, got {asked[outside][0]:g}.")
        rising, places = np.unique(asked, return_inverse=True)
        calibration = self.calibration
        if calibration is not None and len(calibration.scores):
            pairs = [calibration.signed_quantile(float(level), x, self.table) for level in rising]
            sides, scores = (np.stack(column, axis=1) for column in zip(*pairs, strict=True))
            lower, upper = _calibrated_ends(self.part or self.model, calibration, x, scores)
            found = np.where(sides < 0, lower, upper)
        elif learned:
            found = _learned_quantiles(self.model, x, rising)
        else:
            raise ValueError(
                "predict_quantiles must follow a fit with a coverage, whose calibration gives them, or with kind='gt2' and "
                "loss='quantiles', which learns them."
            )
        # They rise by construction; rounding may still cross two by the last bit.
        return np.maximum.accumulate(found, axis=1)[:, places.ravel()]

    def class_set(self, x: Array, coverage: float | None = None) -> Array:
        """Which classes are in the set of each row, boolean (rows, classes)."""
        calibration, coverage = self._asked(coverage, "predict_set")
        scores = _class_scores(self.part or self.model, x, calibration.method)
        chosen = scores <= calibration.quantile(coverage, x, self.table)
        # The most probable class is always included: an empty set would say that no class is possible.
        chosen[np.arange(len(x)), _class_scores(self.model, x, calibration.method).argmin(axis=1)] = True
        return chosen

    def _asked(self, coverage: float | None, method: str) -> tuple[Calibration, float]:
        if self.calibration is None:
            raise ValueError(
                f"{method} must follow a fit with a coverage, got coverage=None; train again with coverage=0.9."
            )
        return self.calibration, self.calibration.coverage if coverage is None else check_coverage(coverage)


def _calibrated_ends(model: ScaledSystem, calibration: Calibration, x: Array, radius: Array) -> tuple[Array, Array]:
    """Ends of the intervals of some scores, (rows or 1, scores, outputs); each (rows, scores, outputs)."""
    if calibration.method == "alpha":
        return plane_interval(model, x, radius, calibration.floor)
    y, below, above = (part[:, None] for part in _reaches(model, calibration, x))
    if calibration.method == "cqr" and not calibration.normalized:
        # A small coverage may move the ends past the crisp output. They stop there, which covers no less.
        return np.minimum(y - below - radius, y), np.maximum(y + above + radius, y)
    return y - radius * below, y + radius * above


def _class_scores(model: ScaledSystem, x: Array, method: str) -> Array:
    """Scores (rows, classes) of the classes of a classifier; the most probable one has the smallest."""
    # torch's softmax, with which the scores in existing model files were computed.
    probabilities = torch.from_numpy(model.outputs(x)).softmax(dim=1).numpy()
    # 1 - p gives the smallest sets on average (Sadinle et al. 2019).
    return conformal.adaptive_scores(probabilities) if method == "aps" else 1.0 - probabilities


# Planes


def _learned_quantiles(model: ScaledSystem, x: Array, levels: Array) -> Array:
    """Quantiles (rows, levels, outputs) as they were trained: the ends of plane α are the quantiles α/2 and 1 - α/2."""
    alphas = torch.from_numpy(np.minimum(2.0 * levels, 2.0 - 2.0 * levels))
    below = torch.from_numpy(levels < 0.5)[:, None]

    def quantiles(systems: Sequence[GT2FLS], z: Tensor) -> tuple[Tensor, ...]:
        found = torch.zeros((), dtype=z.dtype, device=z.device)
        for share, system in zip(model.shares.tolist(), systems, strict=True):
            planes = system.planes(z, alphas)
            found = found + share * torch.where(below.to(z.device), planes.y_left, planes.y_right)
        return (found,)

    return model.y_scaling.invert(model.evaluated_by_all(x, quantiles)[0])


class _PlaneEnds:
    """Ends of one output of a batch of scaled rows for any widths t of their planes; firing is computed once."""

    def __init__(self, model: ScaledSystem, systems: Sequence[GT2FLS], z: Tensor, output: int, floor: Array | None) -> None:
        self._floor = 0.0 if floor is None else float(floor[output] / model.y_scaling.scale[output])
        self._parts = [
            (share, system.antecedents.plane_firing(z), system._rule_outputs(z)[:, :, output : output + 1])
            for share, system in zip(model.shares.tolist(), systems, strict=True)
        ]

    def __call__(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Left and right end, each (batch,), of the planes of widths t (batch,)."""
        left, right = torch.zeros_like(t), torch.zeros_like(t)
        for share, firing, consequents in self._parts:
            lower, upper = plane_log_firing(*firing, t.unsqueeze(1))
            ends = type_reduced_set(lower, upper, consequents)
            left, right = left + share * ends[0][:, 0], right + share * ends[1][:, 0]
        return left, right

    def unit(self, left: Tensor, right: Tensor) -> Tensor:
        """The distance beyond the ends of the widest plane that counts as one more in the score."""
        return 0.5 * (right - left) + self._floor

    def score(self, target: Tensor) -> Tensor:
        """Width of the plane whose end is the target, by bisection: ends of wider planes never lie further inside."""
        low, high = torch.zeros_like(target), torch.ones_like(target)
        left, right = self(high)
        distance = torch.maximum(left - target, target - right).clamp(min=0.0)
        beyond = 1.0 + distance / self.unit(left, right)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            left, right = self(middle)
            inside = (left <= target) & (target <= right)
            low, high = torch.where(inside, low, middle), torch.where(inside, middle, high)
        return torch.where(distance > 0, beyond, high)


def plane_scores(model: ScaledSystem, x: Array, y: Array, floor: Array | None) -> tuple[Array, Array]:
    """Scores of targets y (rows, outputs) and the sides of the middle on which they lie, each (rows, outputs).

    Beyond the widest plane the score is 1 plus the distance from it over half its width and ``floor`` (outputs,).
    """

    def scores(systems: Sequence[GT2FLS], z: Tensor, target: Tensor) -> tuple[Tensor, ...]:
        found, sides = torch.empty_like(target), torch.empty_like(target)
        for output in range(target.shape[1]):
            ends, t = _PlaneEnds(model, systems, z, output, floor), target[:, output]
            found[:, output] = ends.score(t)
            sides[:, output] = torch.where(t < ends(torch.zeros_like(t))[0], -1.0, 1.0)
        return found, sides

    return model.evaluated_by_all(x, scores, model.y_scaling.apply(y))  # type: ignore[return-value]  # two arrays


def plane_interval(model: ScaledSystem, x: Array, scores: Array, floor: Array | None) -> tuple[Array, Array]:
    """Ends of the intervals that hold all targets of at most some scores, each (rows, scores, outputs).

    Scores are (rows, scores, outputs), or (1, scores, outputs) where they are the same for all rows.
    """

    def interval(systems: Sequence[GT2FLS], z: Tensor, score: Tensor) -> tuple[Tensor, ...]:
        lower, upper = torch.empty_like(score), torch.empty_like(score)
        for output in range(score.shape[2]):
            ends = _PlaneEnds(model, systems, z, output, floor)
            for place in range(score.shape[1]):
                own = score[:, place, output]
                left, right = ends(own.clamp(max=1.0))
                reach = (own - 1.0).clamp(min=0.0) * ends.unit(left, right)
                lower[:, place, output], upper[:, place, output] = left - reach, right + reach
        return lower, upper

    every_row = np.broadcast_to(scores, (len(x), *scores.shape[1:])).copy()
    lower, upper = model.evaluated_by_all(x, interval, every_row)
    return model.y_scaling.invert(lower), model.y_scaling.invert(upper)
