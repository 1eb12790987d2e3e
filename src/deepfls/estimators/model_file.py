"""A fitted estimator as a description in plain values and a set of named arrays, and back: what a model file holds.

An estimator is ``Any`` here: this file lies below the estimators, which call it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from deepfls.data.scaling import Scaling
from deepfls.estimators.calibration import Calibration
from deepfls.nn.systems import IT2FLS, T1FLS

Array = np.ndarray[Any, np.dtype[Any]]

# Before the names of the arrays of a model inside another, which gives its intervals.
_INTERVAL_MODEL = "interval_model."
# What a fitted estimator knows about its training data, beside the scaling.
_SUMMARY = ("input_range", "rule_shares", "initial_sets")


def of(estimator: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Description and arrays of a fitted estimator."""
    settings = {name: plain_value(value) for name, value in estimator.get_params(deep=False).items() if is_plain(value)}
    names = getattr(estimator, "feature_names_in_", None)
    description: dict[str, Any] = {
        "class": type(estimator).__name__,
        "settings": settings,
        "structure": plain_value(estimator._structure_),
        "tnorm": estimator.system_.tnorm,
        # JSON has no word for a loss that is not finite.
        "history": [{k: v if math.isfinite(v) else None for k, v in row.items()} for row in estimator.history_],
        "stopped_by": estimator.stopped_by_,
        "feature_names": None if names is None else [str(name) for name in names],
        "table": getattr(estimator, "table_", None),
        **estimator._own_description(),
    }
    arrays = {f"system.{name}": value.cpu().numpy() for name, value in estimator.system_.state_dict().items()}
    for name in ("x_scaling", "y_scaling"):
        scaling = getattr(estimator, f"{name}_")
        arrays |= {f"{name}.shift": scaling.shift, f"{name}.scale": scaling.scale}
    for name in _SUMMARY:
        if hasattr(estimator, f"{name}_"):
            arrays[f"data.{name}"] = getattr(estimator, f"{name}_")
    interval_model, calibration = (getattr(estimator, name, None) for name in ("interval_model_", "calibration_"))
    if interval_model is not None:
        description["interval_model"], inner = of(interval_model)
        arrays |= {f"{_INTERVAL_MODEL}{name}": value for name, value in inner.items()}
    elif calibration is not None:
        description["calibration"] = calibration.description()
        arrays |= {f"calibration.{name}": value for name, value in calibration.arrays().items()}
    return description, arrays


def restore(estimator: Any, description: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Make an estimator the fitted one that was described. KeyError, TypeError or ValueError where the parts do not fit."""
    for name, value in arrays.items():
        if not np.isfinite(value).all():
            raise ValueError(f"{name} has a value that is not finite")
    structure = description["structure"]
    estimator._structure_ = structure
    chosen = {**estimator.get_params(deep=False), **{name: structure[name] for name in estimator._STRUCTURE}}
    system = type(estimator)(**{**chosen, "tnorm": description["tnorm"]})._new_system(
        structure["n_features"], structure["n_outputs"]
    )
    system.double()
    prefix = "system."
    system.load_state_dict({k.removeprefix(prefix): torch.from_numpy(v) for k, v in arrays.items() if k.startswith(prefix)})
    estimator.system_ = system.requires_grad_(False)
    for name, n_columns in (("x_scaling", system.n_features), ("y_scaling", estimator._n_scaled_targets(system))):
        parts = [_shaped(arrays, f"{name}.{part}", (n_columns,)) for part in ("shift", "scale")]
        setattr(estimator, f"{name}_", Scaling(*parts))
    for name, shape in (
        ("input_range", (2, system.n_features)),
        ("rule_shares", (system.n_rules,)),
        ("initial_sets", (4, system.n_rules, system.n_features)),
    ):
        if f"data.{name}" in arrays:  # files of the first versions have none
            setattr(estimator, f"{name}_", _shaped(arrays, f"data.{name}", shape))
    estimator.interval_model_ = _interval_model(estimator, description.get("interval_model"), arrays)
    if estimator.interval_model_ is not None:
        estimator.calibration_ = estimator.interval_model_.calibration_
    else:
        estimator.calibration_ = _calibration(estimator, description.get("calibration"), arrays)
    rows = description["history"]
    estimator.history_ = [{name: math.nan if v is None else float(v) for name, v in row.items()} for row in rows]
    estimator.n_epochs_ = len(estimator.history_)
    estimator.stopped_by_ = description["stopped_by"]
    estimator.n_features_in_ = structure["n_features"]
    names = description["feature_names"]
    if names is not None:
        if not isinstance(names, list) or len(names) != system.n_features:
            raise ValueError(f"feature names {names!r} for {system.n_features} column(s)")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if description["table"] is not None:
        estimator.table_ = description["table"]
    estimator._restore_own(description)


def _interval_model(estimator: Any, description: dict[str, Any] | None, arrays: dict[str, Array]) -> Any:
    """The model that gives the intervals of another: of the same structure, and calibrated."""
    if description is None:
        return None
    if "interval_model" in description:
        raise ValueError("the model of the intervals has another one inside")
    model = type(estimator)(**estimator.get_params(deep=False))
    model.refit = False
    inner = {n.removeprefix(_INTERVAL_MODEL): value for n, value in arrays.items() if n.startswith(_INTERVAL_MODEL)}
    restore(model, description, inner)
    if model._structure_ != estimator._structure_ or model.calibration_ is None:
        raise ValueError("the model of the intervals has another structure, or no calibration")
    return model


def _calibration(estimator: Any, description: dict[str, Any] | None, arrays: dict[str, Array]) -> Calibration | None:
    """The calibration of a model that has one: made for its targets, or for the class of a classifier."""
    if description is None:
        return None
    prefix = "calibration."
    own = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
    calibration = Calibration.restored(description, own)
    system = estimator.system_
    n_scored = estimator._n_scaled_targets(system)
    if calibration.method not in (*estimator._CALIBRATIONS, "none") or calibration.scores.shape[1] != n_scored:
        raise ValueError(f"a calibration {calibration.method!r} of {calibration.scores.shape[1]} output(s)")
    if not all(0 <= column < system.n_features for column in calibration.group_columns):
        raise ValueError(f"groups by the columns {calibration.group_columns} of {system.n_features}")
    terms = {(n + 1, n_scored) for n in (system.n_rules, system.n_rules * (system.n_features + 1))}
    if calibration.scale is not None and calibration.scale.shape not in terms:
        raise ValueError(f"calibration.scale has the shape {calibration.scale.shape}")
    return calibration


def sets_of(system: T1FLS | IT2FLS, scaling: Scaling) -> Array:
    """Centers, lower widths, upper widths and heights of the sets in the units of the data, (4, rules, features)."""
    lower, upper = (system.lower_sigmas, system.upper_sigmas) if isinstance(system, IT2FLS) else (system.sigmas,) * 2
    heights = system.heights if isinstance(system, IT2FLS) else torch.ones_like(system.centers)
    centers, lower, upper, heights = (
        value.detach().cpu().double().numpy() for value in (system.centers, lower, upper, heights)
    )
    return np.stack([scaling.invert(centers), lower * scaling.scale, upper * scaling.scale, heights])


def _shaped(arrays: dict[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    if arrays[name].shape != shape:
        raise ValueError(f"{name} has the shape {arrays[name].shape}, not {shape}")
    return arrays[name]


def is_plain(value: Any) -> bool:
    """Whether a setting can stand in a model file; a callable or a generator cannot, and is left out."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and is_plain(v) for key, v in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(is_plain, value))
    return value is None or isinstance(value, (str, bool, int, float, np.bool_, np.integer, np.floating))


def plain_value(value: Any) -> Any:
    """The same value in types that JSON has."""
    if isinstance(value, Mapping):
        return {key: plain_value(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value
