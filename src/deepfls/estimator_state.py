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

Array = np.ndarray[Any, np.dtype[Any]]

# What a fitted estimator knows about its training data, beside the scaling.
_SUMMARY = ("input_range", "rule_shares")


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
    for name, shape in (("input_range", (2, system.n_features)), ("rule_shares", (system.n_rules,))):
        if f"data.{name}" in arrays:  # files of the first versions have none
            setattr(estimator, f"{name}_", _shaped(arrays, f"data.{name}", shape))
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
