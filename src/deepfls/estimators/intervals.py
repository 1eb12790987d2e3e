"""Intervals and sets of a fitted estimator: which rows calibrate it, what it keeps of them, and what it promises from that.

An estimator is ``Any`` here: this file lies below the estimators, which call it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from deepfls._checks import (
    check_calibration_of_kind,
    check_calibration_rows,
    check_column,
    check_coverage,
    check_flag,
    check_number,
    check_number_or_auto,
    check_option,
    check_same_rows_held_out,
    check_trained_for_intervals,
    check_uncalibrated_coverage,
)
from deepfls.estimators import calibration as conformal
from deepfls.estimators.calibration import Calibration
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training.config import TrainConfig

Array = np.ndarray[Any, np.dtype[Any]]

# Rows that pass through a system at a time.
_CHUNK = 16_384
# What is added to the learned reaches before they divide a score, as a share of their mean on the training rows.
_FLOOR_SHARE = 0.5
# Penalty of the local scale per row, and the number of its terms beyond which it has one constant to a rule.
_SCALE_PENALTY, _MAX_TERMS = 0.01, 2_000
# Up to here "auto" trains a second time on all rows.
_REFIT_ROWS = 5_000


class PredictionInterval(NamedTuple):
    """Ends of prediction intervals in the units of the target, each (rows,) or (rows, outputs); ``lower <= y <= upper``."""

    lower: Array
    upper: Array


# Before training


def check_settings(estimator: Any, n_features: int, *, continued: bool) -> None:
    """Check what the settings say about intervals, before any work is done."""
    if estimator.coverage is None:
        return
    check_coverage(estimator.coverage)
    regression = "cqr" in estimator._CALIBRATIONS
    if estimator.calibration is not None or not regression:
        check_option("calibration", estimator.calibration, estimator._CALIBRATIONS)
    if regression:
        check_calibration_of_kind(estimator.kind, estimator.calibration)
        check_number("interval_weight", estimator.interval_weight, minimum=0.0)
        check_flag("normalized_scores", estimator.normalized_scores)
    check_number_or_auto("calibration_fraction", estimator.calibration_fraction)
    if estimator.calibration_fraction != "auto":
        check_number("calibration_fraction", estimator.calibration_fraction, above=0.0, below=1.0)
    if estimator.refit != "auto":
        check_flag("refit", estimator.refit)
    _group_columns(estimator, n_features)
    if continued and estimator.calibration is not None:
        check_same_rows_held_out(estimator.random_state)


def _group_columns(estimator: Any, n_features: int) -> tuple[int, ...]:
    chosen = estimator.group_calibration
    if chosen is None:
        return ()
    columns: Sequence[Any] = chosen if isinstance(chosen, (list, tuple)) else [chosen]
    names = getattr(estimator, "feature_names_in_", None)
    return tuple(check_column("group_calibration", column, n_features, names) for column in columns)


def hold_out(estimator: Any, x: Array, weight: Array | None, random: np.random.RandomState) -> tuple[Array, Array] | None:
    """Sorted rows to train on and to calibrate on, or None where nothing is held out; a share of every group."""
    if estimator.coverage is None or estimator.calibration is None:
        return None
    usable = np.arange(len(x)) if weight is None else np.flatnonzero(weight > 0)
    columns = _group_columns(estimator, x.shape[1])
    values, member = np.unique(x[usable][:, list(columns)], axis=0, return_inverse=True)
    held = []
    for place, value in enumerate(values):
        rows = random.permutation(usable[member.ravel() == place])
        n_held = conformal.held_out_rows(len(rows), estimator.coverage, estimator.calibration_fraction)
        check_calibration_rows(n_held, estimator.coverage, conformal.group_name(value))
        held.append(rows[:n_held])
    calibrated = np.sort(np.concatenate(held))
    return np.setdiff1d(usable, calibrated), calibrated


def check_held_out(estimator: Any, x: Array) -> None:
    """Require that rows held out of a source, (rows, features), are enough for the coverage, in every group."""
    columns = _group_columns(estimator, x.shape[1])
    check_calibration_rows(len(x), estimator.coverage)
    values, counts = np.unique(x[:, list(columns)], axis=0, return_counts=True)
    for value, count in zip(values, counts, strict=True):
        check_calibration_rows(int(count), estimator.coverage, conformal.group_name(value))


def fit_on_part(
    estimator: Any, x: Array, y: Array, weight: Array | None, target_scaling: str, start_targets: Array | None
) -> tuple[Any, bool]:
    """A model of the same settings, trained and calibrated on parts of the rows, where the estimator learns from all.

    Returns the model, None where nothing is to be refitted, and whether it was interrupted: its state is then that of the
    estimator, which has no more time to learn.
    """
    calibrated = estimator.coverage is not None and estimator.calibration is not None
    if not calibrated or estimator.refit is False or (estimator.refit == "auto" and len(x) > _REFIT_ROWS):
        return None, False
    earlier = getattr(estimator, "interval_model_", None) if estimator._continues else None
    model = clone(estimator) if earlier is None else copy.deepcopy(earlier).set_params(**estimator.get_params())
    model.refit = False
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(estimator, name):
            setattr(model, name, getattr(estimator, name))
    model._fit_arrays(x, y, weight, target_scaling=target_scaling, start_targets=start_targets)
    if model.stopped_by_ == "interrupt":
        vars(estimator).update({name: value for name, value in vars(model).items() if name.endswith("_")})
        return None, True
    return model, False


def set_objective(estimator: Any, config: TrainConfig) -> TrainConfig:
    """The settings of training, with the objective of the type-reduced set where that is to be an interval."""
    if estimator.coverage is None or estimator.kind == "t1" or estimator.calibration not in ("cqr", None):
        return config
    return replace(config, coverage=estimator.coverage, interval_weight=estimator.interval_weight)


# After training


def calibrate(estimator: Any, x: Array, y: Array, held: tuple[Array, Array, Array | None] | None) -> Calibration | None:
    """The calibration of a trained estimator from held-out inputs, targets and weights.

    ``x`` and ``y`` are the rows it was trained on, which give the local scale.
    """
    if estimator.coverage is None:
        return None
    settings: dict[str, Any] = {"method": estimator.calibration or "none", "coverage": float(estimator.coverage)}
    if held is None:
        return Calibration(**settings, normalized=False, scores=np.zeros((0, y.shape[1])))
    x_held, y_held, weight = held
    columns = _group_columns(estimator, x.shape[1])
    settings |= {"weight": weight, "group_columns": columns, "groups": x_held[:, list(columns)] if columns else None}
    if "cqr" not in estimator._CALIBRATIONS:
        scores = class_scores(estimator, x_held, settings["method"])
        own = np.take_along_axis(scores, y_held.astype(np.int64), axis=1)
        return Calibration(**settings, normalized=False, scores=own)
    normalized = bool(estimator.normalized_scores)
    settings |= {"normalized": normalized}
    sample = slice(None, None, -(-len(x) // _CHUNK))
    if settings["method"] == "split":
        scale = _fit_scale(estimator, x[sample], y[sample]) if normalized else None
        empty = Calibration(**settings, scores=np.zeros((0, y.shape[1])), scale=scale)
    else:
        lower, upper, _ = learned_ends(estimator, x[sample])
        reach = 0.5 * (upper - lower).mean(axis=0)
        # One rule, or rules that agree everywhere, have a set of no width: then all rows are alike.
        floor = np.where(reach > 0, _FLOOR_SHARE * reach, estimator.y_scaling_.scale)
        empty = Calibration(**settings, scores=np.zeros((0, y.shape[1])), floor=floor if normalized else None)
    parts = _parts(estimator, empty, x_held)
    if settings["method"] == "cqr" and not normalized:
        scores = conformal.quantile_scores(y_held, parts.y - parts.below, parts.y + parts.above)
    else:
        scores = conformal.interval_scores(y_held, parts.y, parts.below, parts.above)
    return replace(empty, scores=scores)


class _Parts(NamedTuple):
    """Crisp output and the reaches below and above it that the calibration scales, each (rows, outputs)."""

    y: Array
    below: Array
    above: Array


def _parts(estimator: Any, calibration: Calibration, x: Array) -> _Parts:
    if calibration.method == "split":
        y = _crisp(estimator, x)
        reach = np.ones_like(y) * estimator.y_scaling_.scale
        if calibration.scale is not None:
            order = _scale_order(estimator.system_, len(calibration.scale))
            scales = [conformal.local_scale(part, calibration.scale) for part in _designs(estimator, x, order)]
            reach = reach * np.concatenate(scales)
        return _Parts(y, reach, reach)
    lower, upper, y = learned_ends(estimator, x)
    floor = 0.0 if calibration.floor is None else calibration.floor
    return _Parts(y, y - lower + floor, upper - y + floor)


def learned_ends(estimator: Any, x: Array) -> tuple[Array, Array, Array]:
    """Ends of the type-reduced set and crisp output in the units of the target, for rows in those of the data."""
    parts = []
    with torch.no_grad():
        for z in _scaled_chunks(estimator, x):
            reduced = estimator.system_.reduce(z)
            parts.append([estimator.y_scaling_.invert(end.cpu().numpy()) for end in reduced])
    lower, upper, y = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    # The change of units may round them past each other.
    return np.minimum(lower, y), np.maximum(upper, y), y


def _crisp(estimator: Any, x: Array) -> Array:
    with torch.no_grad():
        parts = [estimator.system_(z).cpu().numpy() for z in _scaled_chunks(estimator, x)]
    return estimator.y_scaling_.invert(np.concatenate(parts))


def _scaled_chunks(estimator: Any, x: Array) -> Iterator[Tensor]:
    device = estimator.system_.centers.device
    for first in range(0, len(x), _CHUNK):
        yield torch.from_numpy(estimator.x_scaling_.apply(x[first : first + _CHUNK])).to(device)


def _scale_order(system: T1FLS | IT2FLS, n_coefficients: int) -> int:
    return 0 if n_coefficients == system.n_rules + 1 else 1


def _designs(estimator: Any, x: Array, order: int) -> Iterator[Array]:
    """Normalised firing and, of order 1, its products with the inputs: the terms that a fuzzy system is linear in."""
    for z in _scaled_chunks(estimator, x):
        with torch.no_grad():
            firing = estimator.system_.firing(z)
            weight: Tensor = torch.stack(firing).sum(dim=0) if isinstance(firing, tuple) else firing
            share = weight / weight.sum(dim=1, keepdim=True)
            terms = share if order == 0 else torch.cat([share, (share[:, :, None] * z[:, None, :]).flatten(1)], dim=1)
        yield terms.cpu().numpy()


def _fit_scale(estimator: Any, x: Array, y: Array) -> Array:
    """Coefficients of the local scale: a fuzzy system with the sets of the model for the size of its residuals."""
    system = estimator.system_
    order = 1 if system.n_rules * (system.n_features + 1) <= _MAX_TERMS else 0
    (design,) = _designs(estimator, x, order)
    return conformal.fit_log_scale(design, y - _crisp(estimator, x), None, _SCALE_PENALTY)


# From a fitted estimator to intervals and sets


def predict_interval(estimator: Any, x: Array, coverage: float | None) -> PredictionInterval:
    """Ends (rows, outputs) for checked rows; ``coverage`` is that of the fit by default."""
    calibration: Calibration | None = getattr(estimator, "calibration_", None)
    coverage = _asked_coverage(calibration, coverage, "predict_interval")
    assert calibration is not None
    if getattr(estimator, "interval_model_", None) is not None:
        lower, upper = predict_interval(estimator.interval_model_, x, coverage)
        y = _crisp(estimator, x)
        return PredictionInterval(np.minimum(lower, y), np.maximum(upper, y))
    if calibration.method == "none":
        check_uncalibrated_coverage(coverage, calibration.coverage)
        lower, upper, y = learned_ends(estimator, x)
        return PredictionInterval(lower, upper)
    radius = calibration.quantile(coverage, x)
    y, below, above = _parts(estimator, calibration, x)
    if calibration.method == "cqr" and not calibration.normalized:
        # A small coverage may draw the ends in past the crisp output: they stop there, which covers no less.
        return PredictionInterval(np.minimum(y - below - radius, y), np.maximum(y + above + radius, y))
    return PredictionInterval(y - radius * below, y + radius * above)


def predict_set(estimator: Any, x: Array, coverage: float | None) -> Array:
    """Which classes are in the set of each row, boolean (rows, classes); never none."""
    calibration: Calibration | None = getattr(estimator, "calibration_", None)
    coverage = _asked_coverage(calibration, coverage, "predict_set")
    assert calibration is not None
    model = getattr(estimator, "interval_model_", None) or estimator
    chosen = class_scores(model, x, calibration.method) <= calibration.quantile(coverage, x)
    scores = class_scores(estimator, x, calibration.method)
    # The most probable class always: an empty set would say that no class is possible.
    chosen[np.arange(len(x)), scores.argmin(axis=1)] = True
    return chosen


def _asked_coverage(calibration: Calibration | None, coverage: float | None, method: str) -> float:
    check_trained_for_intervals(calibration, method)
    assert calibration is not None
    return calibration.coverage if coverage is None else check_coverage(coverage)


def class_scores(estimator: Any, x: Array, method: str) -> Array:
    """Scores (rows, classes) of the classes of a classifier; the most probable one has the smallest."""
    with torch.no_grad():
        parts = [estimator.system_(z).softmax(dim=1).cpu().numpy() for z in _scaled_chunks(estimator, x)]
    probabilities = np.concatenate(parts)
    return (conformal.adaptive_scores if method == "aps" else conformal.least_ambiguous_scores)(probabilities)
