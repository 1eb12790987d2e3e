"""FLSEstimator: what FLSRegressor and FLSClassifier share between their settings and the fit pipeline."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from deepfls._checks.samples import Array, check_finite_table, name_text_columns
from deepfls.data.arrays import Source
from deepfls.data.scaling import Scaling
from deepfls.estimators.calibration import Calibration
from deepfls.estimators.fit import FitResult, fit
from deepfls.estimators.prediction import ScaledSystem
from deepfls.estimators.settings import ClassifierSettings, RegressorSettings, Settings, Structure, settings_by_name
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training.checkpoint import Checkpoints

CheckpointsOrPath = Checkpoints | str | os.PathLike[str]

# Fields of a result that not every fit has; each is an attribute of the estimator with an underscore behind its name.
_OPTIONAL = ("classes", "input_range", "rule_shares", "feature_importances", "initial_sets")


class FiringStrengths(NamedTuple):
    """Lower and upper firing strength of every rule, each (rows, rules); equal for Type-1 systems."""

    lower: Array
    upper: Array


class FLSEstimator(BaseEstimator, Settings):  # type: ignore[misc]  # scikit-learn is untyped
    """Base of FLSRegressor and FLSClassifier, which document settings and attributes."""

    system_: T1FLS | IT2FLS
    x_scaling_: Scaling
    y_scaling_: Scaling
    history_: list[dict[str, float]]
    n_epochs_: int
    stopped_by_: str
    n_features_in_: int
    feature_names_in_: Array
    input_range_: Array
    rule_shares_: Array
    feature_importances_: Array
    calibration_: Calibration | None
    interval_model_: FLSEstimator | None
    initial_sets_: Array
    table_: dict[str, Any]
    classes_: Array
    _structure_: Structure

    # From data to a fitted estimator

    @property
    def _continues(self) -> bool:
        """Whether a fit continues from an earlier one."""
        return bool(self.warm_start) and hasattr(self, "system_")

    def _validated_x(self, X: Any, *, reset: bool) -> Array:
        """Rows (rows, features) in float64, with the columns of the fit unless ``reset``."""
        names = getattr(self, "feature_names_in_", None)
        is_array = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.flags.c_contiguous and len(X) > 0
        if is_array and not reset and names is None and X.shape[1] == self.n_features_in_:
            x = X  # nothing to convert; scikit-learn's validation takes longer than the prediction of a row
        else:
            with name_text_columns(X):
                x = validate_data(self, X, reset=reset, dtype=np.float64, order="C", ensure_all_finite=False)
        check_finite_table("X", x, getattr(self, "feature_names_in_", None))
        return x

    def _training_x(self, X: Any) -> tuple[Array, Sequence[str] | None]:
        """Rows to learn from and the names of their columns. The estimator stays as it is."""
        checked = copy.copy(self)
        x = checked._validated_x(X, reset=not self._continues)
        return x, getattr(checked, "feature_names_in_", None)

    def _fit(
        self, source: Source, checkpoints: CheckpointsOrPath | None = None, table: dict[str, Any] | None = None, **own: Any
    ) -> None:
        """Fit a source and adopt the result.

        ``table`` describes the columns of a table on disk; ``own`` are attributes of one kind of estimator.
        """
        if isinstance(checkpoints, (str, os.PathLike)):
            checkpoints = Checkpoints(checkpoints)
        earlier = self._result() if self._continues else None
        settings = (ClassifierSettings if self._classifies else RegressorSettings)(**settings_by_name(self))
        result = fit(settings, source, earlier=earlier, checkpoints=checkpoints)
        self._adopt(result, source.feature_names, table, **own)

    def _result(self) -> FitResult:
        """The fitted attributes as the result of a fit."""
        part = getattr(self, "interval_model_", None)
        optional = (*_OPTIONAL, "calibration")
        return FitResult(
            structure=self._structure_,
            model=self._model,
            history=self.history_,
            stopped_by=self.stopped_by_,
            part=None if part is None else part._result(),
            **{name: getattr(self, f"{name}_", None) for name in optional},
        )

    def _adopt(self, result: FitResult, feature_names: Any, table: dict[str, Any] | None, **own: Any) -> None:
        """Take over the result of a fit. Everything that can fail comes before this."""
        part = None
        if result.part is not None:
            part = clone(self).set_params(refit=False)
            part._adopt(result.part, feature_names, None, **own)
        self.interval_model_ = part
        self._structure_ = result.structure
        self.system_, self.x_scaling_, self.y_scaling_ = result.model.system, result.model.x_scaling, result.model.y_scaling
        self.history_, self.n_epochs_, self.stopped_by_ = result.history, len(result.history), result.stopped_by
        self.calibration_ = result.calibration
        self.n_features_in_ = result.structure.n_features
        optional = {name: getattr(result, name) for name in _OPTIONAL}
        optional |= {
            "feature_names_in": None if feature_names is None else np.array(feature_names, dtype=object),
            "table": table,
        }
        for name, value in optional.items():
            if value is None:
                self.__dict__.pop(f"{name}_", None)  # of an earlier fit
            else:
                setattr(self, f"{name}_", value)
        self.__dict__.update(own)

    # From a fitted estimator to numbers

    @property
    def _model(self) -> ScaledSystem:
        return ScaledSystem(self.system_, self.x_scaling_, self.y_scaling_)

    @property
    def _interval_system(self) -> ScaledSystem | None:
        """The system that was calibrated, where it is not that of the predictions."""
        part = getattr(self, "interval_model_", None)
        return None if part is None else part._model

    def _known_x(self, X: Any) -> Array:
        """Rows (rows, features) with the columns of the fit."""
        check_is_fitted(self, "system_")
        return self._validated_x(X, reset=False)

    def firing_strengths(self, X: Any) -> FiringStrengths:
        """How strongly every rule fires for every row.

        Returns
        -------
        FiringStrengths
            Named tuple (lower, upper), each (rows, rules), in [0, 1]; equal for Type-1 systems.
        """
        x = self._known_x(X)
        return FiringStrengths(*self._model.firing_strengths(x))


def is_streamed(X: Any, y: Any, sample_weight: Any, checkpoints: Any) -> bool:
    """Whether X is a source that is read in parts; arguments that do not belong to such an X are refused."""
    # The type is asked, because a frame may have a column of any name.
    if getattr(type(X), "streamed", False) is not True:
        if checkpoints is not None:
            raise ValueError("checkpoints must come with a source such as ParquetSource, got it without.")
        return False
    for name, value, column in (("y", y, "its target"), ("sample_weight", sample_weight, "a column of weights")):
        if value is not None:
            raise ValueError(f"{name} must not be given beside a source: it names {column} itself.")
    return True


def checked_weight(sample_weight: Any, x: Array) -> Array | None:
    """Sample weights (rows,), none of them negative, or None."""
    if sample_weight is None:
        return None
    return np.asarray(_check_sample_weight(sample_weight, x, ensure_non_negative=True))
