"""Prediction intervals and sets of classes: their settings, the calibration of a trained system, and the predictions."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from deepfls._checks.arguments import check_coverage, check_number, check_option
from deepfls._checks.values import Array, comparable, evenly_spaced
from deepfls.data.arrays import DataPlan, Samples
from deepfls.data.columns import Columns, check_place
from deepfls.estimators import calibration as conformal
from deepfls.estimators import plane_ends
from deepfls.estimators.calibration import Calibration
from deepfls.estimators.prediction import ScaledSystem, System, normalised_firing
from deepfls.estimators.settings import RegressorSettings, Settings, check_number_or_auto

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


class PredictionInterval(NamedTuple):
    """Ends of prediction intervals in the units of the target, each (rows,) or (rows, outputs); ``lower <= y <= upper``."""

    lower: Array
    upper: Array


# Settings


def with_auto_calibration(settings: Settings) -> Settings:
    """The settings with the method that ``calibration="auto"`` stands for, and with a coverage for planes to calibrate."""
    method, coverage = settings.calibration, settings.coverage
    if method == "auto":
        method = "split" if settings.kind == "t1" else "alpha" if settings.loss == "quantiles" else "cqr"
    elif method == "alpha" and coverage is None:
        coverage = _USUAL_COVERAGE
    return replace(settings, calibration=method, coverage=coverage)


def check_interval_settings(settings: Settings, *, streamed: bool, continued: bool) -> None:
    """Check the settings of intervals before any work is done."""
    if settings.coverage is None:
        return
    if streamed and settings.refit is True:
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
    if settings.refit != "auto":
        _check_flag("refit", settings.refit)
    seed = settings.random_state
    calibrates = settings.calibration is not None
    if continued and calibrates and (isinstance(seed, bool) or not isinstance(seed, int | np.integer)):
        # Rows that the first fit held out and the second trains on would make the intervals too narrow.
        raise ValueError(
            "random_state must be an integer with warm_start=True and a calibration, so that the same rows are held out "
            f"again, got {seed!r}."
        )


def _check_flag(name: str, value: Any) -> None:
    if type(value).__name__ not in ("bool", "bool_"):
        raise TypeError(f"{name} must be True or False, got {value!r}.")


def is_refitted(settings: Settings, n_rows: int) -> bool:
    """Whether a second system learns from all rows, those of the calibration included."""
    if settings.coverage is None or settings.calibration is None or settings.refit is False:
        return False
    return settings.refit != "auto" or n_rows <= _REFIT_ROWS


def group_columns(settings: Settings, columns: Columns) -> tuple[int, ...]:
    """Places of the inputs whose values make groups; empty without ``coverage``."""
    chosen = settings.group_calibration
    if settings.coverage is None or chosen is None:
        return ()
    several: Any = chosen if isinstance(chosen, (list, tuple)) else [chosen]
    places = [check_place("group_calibration", column, columns) for column in several]
    return tuple(place for column in places for place in columns.places(column))


def with_calibration(plan: DataPlan, settings: Settings, columns: tuple[int, ...]) -> DataPlan:
    """The plan with rows held out for calibration, a share of every group by the values of some columns."""
    if settings.coverage is None or settings.calibration is None:
        return plan
    return replace(
        plan,
        calibration_rows=functools.partial(
            conformal.held_out_rows, coverage=settings.coverage, fraction=settings.calibration_fraction
        ),
        check_calibration=functools.partial(conformal.check_enough_rows, columns=columns, coverage=settings.coverage),
        group_columns=columns,
    )


# Calibration of a trained system


def calibrated(
    model: ScaledSystem, settings: Settings, columns: tuple[int, ...], trained: Samples, held: Samples | None
) -> Calibration | None:
    """The calibration of a trained system; None without ``coverage``.

    The values of the inputs ``columns`` make groups, the rows ``trained`` give the local scale, and the rows ``held`` out
    give the scores; without these the learned set is not calibrated.
    """
    if settings.coverage is None:
        return None
    n_targets = trained.y.shape[1]
    method = settings.calibration or ("planes" if settings.loss == "quantiles" else "none")
    empty = Calibration(method, float(settings.coverage), normalized=False, scores=np.zeros((0, n_targets)))
    if held is None:
        return empty
    groups = comparable(held.x[:, list(columns)]) if columns else None
    empty = replace(empty, weight=held.weight, group_columns=columns, groups=groups)
    if not isinstance(settings, RegressorSettings):
        scores = class_scores(model, held.x, method)
        return replace(empty, scores=np.take_along_axis(scores, held.y.astype(np.int64), axis=1))
    some = trained.take(evenly_spaced(trained.n_rows, _FITTED_ROWS))
    if settings.normalized_scores and method == "split":
        empty = replace(empty, normalized=True, scale=_fitted_scale(model, some))
    elif settings.normalized_scores or method == "alpha":
        empty = replace(empty, normalized=True, floor=_reach_floor(model, some.x))
    if method == "alpha":
        scores, sides = plane_ends.plane_scores(model, held.x, held.y, empty.floor)
        return replace(empty, scores=scores, sides=sides)
    y, below, above = _parts(model, empty, held.x)
    if method == "cqr" and not empty.normalized:
        scores = conformal.quantile_scores(held.y, y - below, y + above)
    else:
        scores = conformal.interval_scores(held.y, y, below, above)
    return replace(empty, scores=scores, sides=np.where(held.y < y, -1.0, 1.0))


def _reach_floor(model: ScaledSystem, x: Array) -> Array:
    lower, upper, _ = model.reduced(x)
    reach = 0.5 * (upper - lower).mean(axis=0)
    # The set of one rule, or of rules that agree everywhere, has no width: all rows are then alike.
    return np.where(reach > 0, _FLOOR_SHARE * reach, model.y_scaling.scale)


def _parts(model: ScaledSystem, calibration: Calibration, x: Array) -> tuple[Array, Array, Array]:
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
    return conformal.fit_log_scale(design, rows.y - model.predictions(rows.x), None, _SCALE_PENALTY)


def _local_scale(model: ScaledSystem, x: Array, coefficients: Array) -> Array:
    """The local scale at rows in the units of the data, (rows, outputs)."""
    linear = len(coefficients) > model.system.n_rules + 1

    def scale(system: System, z: Tensor) -> tuple[Tensor, ...]:
        # Chunk by chunk: the terms of all rows together may not fit into memory.
        terms = _terms(system, z, linear=linear).cpu().numpy()
        return (torch.from_numpy(conformal.local_scale(terms, coefficients)),)

    return model.evaluated(x, scale)[0]


# Predictions


def predicted_interval(
    model: ScaledSystem, calibration: Calibration | None, x: Array, coverage: float | None, part: ScaledSystem | None
) -> PredictionInterval:
    """Ends (rows, outputs) for rows in the units of the data.

    ``coverage`` is that of the fit by default. ``part`` is the system that was calibrated where it is not the model, which
    learned from all rows: the intervals of the part are widened to hold the predictions of the model.
    """
    calibration, coverage = _asked(calibration, coverage, "predict_interval")
    if part is not None:
        lower, upper = predicted_interval(part, calibration, x, coverage, None)
        y = model.predictions(x)
        return PredictionInterval(np.minimum(lower, y), np.maximum(upper, y))
    if calibration.method == "none":
        if coverage != calibration.coverage:
            raise ValueError(
                f"coverage must be {calibration.coverage:g}, for which the set was trained, with calibration=None, got "
                f"{coverage:g}; calibration='cqr' gives any."
            )
        return PredictionInterval(*model.reduced(x)[:2])
    if calibration.method == "planes":
        tails = np.array([0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage])
        lower, upper = plane_ends.learned_quantiles(model, x, tails).swapaxes(0, 1)
    else:
        radius = calibration.quantile(coverage, x)[:, None]
        lower, upper = (end[:, 0] for end in _calibrated_ends(model, calibration, x, radius))
    y = model.predictions(x)
    return PredictionInterval(np.minimum(lower, y), np.maximum(upper, y))


def _calibrated_ends(model: ScaledSystem, calibration: Calibration, x: Array, radius: Array) -> tuple[Array, Array]:
    """Ends of the intervals of some scores, (rows or 1, scores, outputs); each (rows, scores, outputs)."""
    if calibration.method == "alpha":
        return plane_ends.plane_interval(model, x, radius, calibration.floor)
    y, below, above = (part[:, None] for part in _parts(model, calibration, x))
    if calibration.method == "cqr" and not calibration.normalized:
        # A small coverage may move the ends past the crisp output. They stop there, which covers no less.
        return np.minimum(y - below - radius, y), np.maximum(y + above + radius, y)
    return y - radius * below, y + radius * above


def predicted_quantiles(
    model: ScaledSystem,
    calibration: Calibration | None,
    x: Array,
    levels: Array,
    part: ScaledSystem | None,
    *,
    learned: bool,
) -> Array:
    """Quantiles (rows, levels, outputs) for rows in the units of the data, in the order of ``levels``.

    They come from the calibration where there is one, of the ``part`` that was calibrated, else from the planes of a system
    that ``learned`` all of them.
    """
    rising, places = np.unique(levels, return_inverse=True)
    if calibration is None or not len(calibration.scores):
        if not learned:
            raise ValueError(
                "predict_quantiles must follow a fit with a coverage, whose calibration gives them, or with kind='gt2' and "
                "loss='quantiles', which learns them."
            )
        found = plane_ends.learned_quantiles(model, x, rising)
    else:
        pairs = [calibration.signed_quantile(float(level), x) for level in rising]
        sides, scores = (np.stack(column, axis=1) for column in zip(*pairs, strict=True))
        lower, upper = _calibrated_ends(part or model, calibration, x, scores)
        found = np.where(sides < 0, lower, upper)
    # They rise by construction; rounding may still cross two by the last bit.
    return np.maximum.accumulate(found, axis=1)[:, places.ravel()]


def check_levels(levels: Any) -> Array:
    """Levels of quantiles as an array (levels,), each within (0, 1), in any order."""
    try:
        found = np.atleast_1d(np.asarray(levels, dtype=np.float64))
    except (TypeError, ValueError):
        raise TypeError(f"levels must be numbers, got {levels!r:.80}.") from None
    if found.ndim != 1 or len(found) == 0:
        raise ValueError(f"levels must be one level or a list of them, got shape {found.shape}.")
    outside = ~((found > 0) & (found < 1))
    if outside.any():
        raise ValueError(f"levels must be greater than 0 and less than 1, got {found[outside][0]:g}.")
    return found


def predicted_set(
    model: ScaledSystem, calibration: Calibration | None, x: Array, coverage: float | None, part: ScaledSystem | None
) -> Array:
    """Which classes are in the set of each row, boolean (rows, classes); arguments as in :func:`predicted_interval`."""
    calibration, coverage = _asked(calibration, coverage, "predict_set")
    chosen = class_scores(part or model, x, calibration.method) <= calibration.quantile(coverage, x)
    # The most probable class is always included: an empty set would say that no class is possible.
    chosen[np.arange(len(x)), class_scores(model, x, calibration.method).argmin(axis=1)] = True
    return chosen


def _asked(calibration: Calibration | None, coverage: float | None, method: str) -> tuple[Calibration, float]:
    if calibration is None:
        raise ValueError(f"{method} must follow a fit with a coverage, got coverage=None; train again with coverage=0.9.")
    return calibration, calibration.coverage if coverage is None else check_coverage(coverage)


def class_scores(model: ScaledSystem, x: Array, method: str) -> Array:
    """Scores (rows, classes) of the classes of a classifier; the most probable one has the smallest."""
    # torch's softmax, with which the scores in existing model files were computed.
    probabilities = torch.from_numpy(model.outputs(x)).softmax(dim=1).numpy()
    # 1 - p gives the smallest sets on average (Sadinle et al. 2019).
    return conformal.adaptive_scores(probabilities) if method == "aps" else 1.0 - probabilities
