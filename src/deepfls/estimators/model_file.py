"""Model files: a fitted estimator as a description in plain values and named arrays, and back."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deepfls._checks.values import Array
from deepfls._files import MODEL, ModelFileError, arrays_under, read_model, write_whole
from deepfls.data.columns import Columns
from deepfls.data.scaling import Scaling
from deepfls.estimators.base import FLSEstimator
from deepfls.estimators.calibration import Calibration
from deepfls.estimators.fit import FitResult
from deepfls.estimators.fls import FLSClassifier, FLSRegressor, names_of_targets
from deepfls.estimators.light import classes_of
from deepfls.estimators.prediction import ScaledSystem
from deepfls.estimators.settings import Settings, is_plain, plain_value, settings_by_name
from deepfls.estimators.structure import Structure
from deepfls.nn.systems import IT2FLS, T1FLS

_CLASSES = {"FLSRegressor": FLSRegressor, "FLSClassifier": FLSClassifier}
# Prefixes of the names of arrays, and fields of a result that are arrays.
_CALIBRATION, _PART = "calibration.", "interval_model."
_DATA = ("input_range", "rule_shares", "feature_importances", "initial_sets", "familiar_firing")
# Letters of the reason why a file is refused.
_REASON = 300


def save(estimator: FLSEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file, completely or not at all."""
    write_whole(Path(path), MODEL.packed(*described(estimator)))


def load(path: str | os.PathLike[str]) -> FLSRegressor | FLSClassifier:
    """Read a model file written by ``save``.

    Parameters
    ----------
    path : path

    Returns
    -------
    FLSRegressor or FLSClassifier
        Fitted, with the settings it was trained with; others than plain values (a callable loss) have their defaults.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from deepfls import FLSRegressor, load
    >>> X = np.linspace(-1, 1, 50).reshape(-1, 1)
    >>> path = Path(mkdtemp()) / "plant.fls"
    >>> model = FLSRegressor(n_rules=2, epochs=2, random_state=0).fit(X, X[:, 0])
    >>> model.save(path)
    >>> bool((load(path).predict(X) == model.predict(X)).all())
    True
    """
    description, arrays = read_model(path)
    try:
        cls = _CLASSES[description["class"]]
        known = cls().get_params()
        estimator = cls(**{name: value for name, value in description["settings"].items() if name in known})
        for name, value in arrays.items():
            # Groups have infinity in place of a value that is not known.
            if np.isnan(value).any() if name.endswith("calibration.groups") else not np.isfinite(value).all():
                raise ValueError(f"{name} has a value that is not finite")
        result = _result(estimator, description, arrays)
        estimator.centers_within = result.structure.centers_within  # files of 0.1.0 do not name it
        columns = _columns(description, result.structure.n_features)
        own = _target_attributes(description, result.structure.n_outputs) if isinstance(estimator, FLSRegressor) else {}
        estimator._adopt(result, columns, description["table"], **own)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        reason = str(error)
        if len(reason) > _REASON:  # a value of the file is in it
            reason = f"{reason[:_REASON]}…"
        raise ModelFileError(f"{str(path)!r} is damaged: its parts do not fit together ({reason}).") from error
    return estimator


def described(estimator: FLSEstimator) -> tuple[dict[str, Any], dict[str, Array]]:
    """Description and arrays of a fitted estimator."""
    settings = {name: plain_value(value) for name, value in settings_by_name(estimator).items() if is_plain(value)}
    description: dict[str, Any] = {
        "class": "FLSClassifier" if estimator._classifies else "FLSRegressor",  # of a subclass too
        "settings": settings,
        "structure": plain_value(dataclasses.asdict(estimator._structure_)),
        "tnorm": estimator.system_.tnorm,
        # JSON cannot hold a loss that is not finite.
        "history": [{k: v if math.isfinite(v) else None for k, v in row.items()} for row in estimator.history_],
        "stopped_by": estimator.stopped_by_,
        "columns": estimator.columns_.as_list(),
        "columns_named": estimator.columns_.named,
        "missing": estimator.system_.missing,
        "table": getattr(estimator, "table_", None),
    }
    if hasattr(estimator, "chosen_"):
        description["chosen"] = plain_value(estimator.chosen_)
    if isinstance(estimator, FLSRegressor):
        description |= {"single_target": estimator._single_target_, "target_names": list(estimator.target_names_)}
    else:
        description |= {"classes": estimator.classes_.tolist(), "classes_dtype": estimator.classes_.dtype.kind}
    if len(estimator.systems_) > 1:
        description["n_systems"] = len(estimator.systems_)
    arrays: dict[str, Array] = {}
    for prefix, system in zip(_prefixes(len(estimator.systems_)), estimator.systems_, strict=True):
        arrays |= {f"{prefix}{name}": value.cpu().numpy() for name, value in system.state_dict().items()}
    for name in ("x_scaling", "y_scaling"):
        parts = vars(getattr(estimator, f"{name}_"))
        arrays |= {f"{name}.{key}": value for key, value in parts.items() if value is not None}
    for name in _DATA:
        if hasattr(estimator, f"{name}_"):
            arrays[f"data.{name}"] = getattr(estimator, f"{name}_")
    part, calibration = (getattr(estimator, name, None) for name in ("interval_model_", "calibration_"))
    if part is not None:
        description["interval_model"], inner = described(part)
        arrays |= {f"{_PART}{name}": value for name, value in inner.items()}
    elif calibration is not None:
        description["calibration"] = plain_value(calibration.description())
        arrays |= {f"{_CALIBRATION}{name}": value for name, value in calibration.arrays().items()}
    return description, arrays


def _prefixes(n_systems: int) -> list[str]:
    """What the names of the arrays of every system begin with."""
    return ["system.", *(f"other_system.{number}." for number in range(1, n_systems))]


def _result(settings: Settings, description: Mapping[str, Any], arrays: Mapping[str, Array]) -> FitResult:
    """The result of the fit that was described. KeyError, TypeError or ValueError where the parts do not fit together."""
    structure = Structure(**description["structure"])
    n_systems = description.get("n_systems", 1)
    _check_sizes([n_systems], arrays)
    system, *others = (
        _system(structure, description, arrays_under(prefix, arrays)) for prefix in _prefixes(int(n_systems))
    )
    n_rules, n_features = system.n_rules * n_systems, system.n_features
    n_targets = 1 if settings._classifies else system.n_outputs
    x_scaling, y_scaling = (
        Scaling(**{part: _shaped(arrays, f"{name}.{part}", (n_columns,)) for part in arrays_under(f"{name}.", arrays)})
        for name, n_columns in (("x_scaling", n_features), ("y_scaling", n_targets))
    )
    shapes: dict[str, tuple[int, ...]] = {
        "input_range": (2, n_features),
        "rule_shares": (n_rules,),
        "feature_importances": (len(description.get("columns", range(n_features))),),
        "initial_sets": (4, n_rules, n_features),
        "familiar_firing": (n_systems,),
    }
    part, calibration = None, None
    if "interval_model" in description:
        if "interval_model" in description["interval_model"]:
            raise ValueError("the model of the intervals has another one inside")
        part = _result(settings, description["interval_model"], arrays_under(_PART, arrays))
        calibration = part.calibration
        # Trained without the rows of the calibration, it may have fewer rules.
        if dataclasses.replace(part.structure, n_rules=structure.n_rules) != structure or calibration is None:
            raise ValueError("the model of the intervals has another structure, or no calibration")
    elif "calibration" in description:
        calibration = Calibration.restored(description["calibration"], arrays_under(_CALIBRATION, arrays))
        _check_calibration(calibration, settings, structure)
    classes = None
    if settings._classifies:
        classes = classes_of(description)
        if len(classes) != structure.n_outputs:
            raise ValueError(f"{len(classes)} classes for {structure.n_outputs} outputs")
    chosen = description.get("chosen")
    if chosen is not None and not isinstance(chosen, dict):
        raise ValueError(f"what was chosen is {chosen!r}")
    return FitResult(
        structure=structure,
        model=ScaledSystem(system, x_scaling, y_scaling, tuple(others)),
        history=[{k: math.nan if v is None else float(v) for k, v in row.items()} for row in description["history"]],
        stopped_by=description["stopped_by"],
        classes=classes,
        calibration=calibration,
        chosen=chosen,
        part=part,
        # Files of the first versions have none of these.
        **{name: _shaped(arrays, f"data.{name}", shapes[name]) for name in _DATA if f"data.{name}" in arrays},
    )


def _system(structure: Structure, description: Mapping[str, Any], arrays: Mapping[str, Array]) -> T1FLS | IT2FLS:
    _check_sizes([structure.n_rules * structure.n_features, structure.n_rules * structure.n_outputs], arrays)
    _check_sizes([n_terms * structure.n_features for n_terms in structure.terms_per_input], arrays)
    if structure.kind == "gt2":
        _check_sizes([structure.n_planes], arrays)
    # "auto" was resolved when the system was made.
    system = dataclasses.replace(structure, tnorm=description["tnorm"]).new_system().double()
    system.load_state_dict({name: torch.from_numpy(value) for name, value in arrays.items()})
    system.missing = bool(description.get("missing", False))
    return system.requires_grad_(False)


def _check_sizes(sizes: list[int], arrays: Mapping[str, Array]) -> None:
    """Refuse numbers of values far beyond those in the file, before memory is taken for them."""
    stored = sum(array.size for array in arrays.values())
    for size in sizes:
        if size > stored + 1_000:
            raise ValueError(f"{size} values are described, {stored} are stored")


def _columns(description: Mapping[str, Any], n_inputs: int) -> Columns:
    """What the columns of X are; files of version 0.1 have names of numbers only."""
    if "columns" in description:
        columns = Columns.from_list(description["columns"], named=bool(description["columns_named"]))
    else:
        columns = Columns.numbers(n_inputs, description["feature_names"])
    if columns.width != n_inputs:
        raise ValueError(f"columns of {columns.width} input(s) for a system of {n_inputs}")
    return columns


def _target_attributes(description: Mapping[str, Any], n_outputs: int) -> dict[str, Any]:
    names = description.get("target_names", names_of_targets(None, n_outputs))
    if len(names) != n_outputs:
        raise ValueError(f"{len(names)} names of targets for {n_outputs} outputs")
    return {"target_names_": tuple(map(str, names)), "_single_target_": bool(description["single_target"])}


def _check_calibration(calibration: Calibration, settings: Settings, structure: Structure) -> None:
    """Require a calibration made for the targets of a system, or for the class of a classifier."""
    n_rules, n_features = structure.n_rules, structure.n_features
    n_scored = 1 if settings._classifies else structure.n_outputs
    if calibration.method not in (*settings._calibrations, "none", "planes") or calibration.scores.shape[1] != n_scored:
        raise ValueError(f"a calibration {calibration.method!r} of {calibration.scores.shape[1]} output(s)")
    if not all(0 <= column < n_features for column in calibration.group_columns):
        raise ValueError(f"groups by the columns {calibration.group_columns} of {n_features}")
    terms = {(n + 1, n_scored) for n in (n_rules, n_rules * (n_features + 1))}
    if calibration.scale is not None and calibration.scale.shape not in terms:
        raise ValueError(f"calibration.scale has the shape {calibration.scale.shape}")


def _shaped(arrays: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    if arrays[name].shape != shape:
        raise ValueError(f"{name} has the shape {arrays[name].shape}, not {shape}")
    return arrays[name]
