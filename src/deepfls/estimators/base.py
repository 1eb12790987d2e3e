"""FLSEstimator: what FLSRegressor and FLSClassifier share between their settings and the fit pipeline."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from deepfls._checks.arguments import check_option
from deepfls._checks.tensors import usual_torch
from deepfls._checks.values import (
    Array,
    check_finite_table,
    check_same_length,
    quoted_text,
    without_mask,
    without_torch,
)
from deepfls.data.arrays import ArraySource, Samples
from deepfls.data.columns import Columns
from deepfls.data.frames import as_table, holds_numbers, is_frame, raw_table
from deepfls.data.learning import ColumnSettings, learn_columns
from deepfls.data.scaling import Scaling
from deepfls.estimators.calibration import Calibration
from deepfls.estimators.fit import FitResult, fit
from deepfls.estimators.intervals import CalibratedModel
from deepfls.estimators.prediction import ScaledSystem
from deepfls.estimators.settings import MISSING, ClassifierSettings, RegressorSettings, Settings, settings_by_name
from deepfls.estimators.structure import Structure
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training.checkpoint import Checkpoints

if TYPE_CHECKING:
    from typing_extensions import Self

    from deepfls.data.sources import ParquetSource

# Fields of a result that not every fit has; each is an attribute of the estimator with an underscore behind its name.
_OPTIONAL = ("classes", "input_range", "rule_shares", "feature_importances", "initial_sets", "familiar_firing", "chosen")


class FiringStrengths(NamedTuple):
    """Lower and upper firing strength of every rule, each (rows, rules); equal for Type-1 systems."""

    lower: Array
    upper: Array


class Targets(NamedTuple):
    """What a system learns of y: targets (rows, targets), weights (rows,), and how the y of an eval_set becomes targets."""

    y: Array
    weight: Array | None
    of_eval_set: Callable[[Any], Array]
    attributes: dict[str, Any]  # of one kind of estimator
    classes: Array | None = None


class FLSEstimator(BaseEstimator, Settings):  # type: ignore[misc]  # scikit-learn is untyped
    """Base of FLSRegressor and FLSClassifier, which document settings and attributes."""

    system_: T1FLS | IT2FLS
    _others_: tuple[T1FLS | IT2FLS, ...]
    x_scaling_: Scaling
    y_scaling_: Scaling
    history_: list[dict[str, float]]
    n_epochs_: int
    stopped_by_: str
    columns_: Columns
    n_features_in_: int
    feature_names_in_: Array
    input_range_: Array
    rule_shares_: Array
    feature_importances_: Array
    calibration_: Calibration | None
    interval_model_: FLSEstimator | None
    initial_sets_: Array
    familiar_firing_: Array
    chosen_: dict[str, Any]
    table_: dict[str, Any]
    classes_: Array
    _structure_: Structure

    # From data to a fitted estimator

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        checkpoints: Checkpoints | str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn from rows X (rows, features) and targets y (rows,) or (rows, outputs), or from a source of both.

        Parameters
        ----------
        X : array or frame, shape (rows, features), or ParquetSource
            Numbers, text, booleans, categories, dates; NaN and None are missing values. Names of columns are kept and
            checked in predictions.
        y : array or frame, shape (rows,) or (rows, outputs)
            Numbers; for a classifier classes (rows,): text, integers or booleans. None beside a source, which names its
            targets and weights itself.
        sample_weight : array, shape (rows,), optional
        eval_set : (X, y), optional
            Rows whose loss is measured after every epoch, ``validation_loss`` in ``history_``; with ``patience`` they
            decide when training stops.
        checkpoints : Checkpoints or path, optional
            How, or in which folder, a run on a source keeps its state, to continue after it was stopped.

        Returns
        -------
        FLSRegressor or FLSClassifier
            Itself.
        """
        source: ArraySource | ParquetSource
        watched, table = None, None
        if _is_streamed(X, y, sample_weight, eval_set, checkpoints):
            source, attributes = self._source_targets(X)
            source = source.with_columns(self._column_settings, self.columns_ if self._continues else None)
            table = source.layout.as_dict()
        else:
            x, columns = self._training_x(X)
            targets = self._targets(x, y, _checked_weight(sample_weight, x))
            attributes = targets.attributes
            if eval_set is not None:
                watched = self._watched(eval_set, columns, targets.of_eval_set)
            merged = not callable(self.loss)
            source = ArraySource(x, targets.y, targets.weight, columns, targets.classes, merged=merged)
        if isinstance(checkpoints, (str, os.PathLike)):
            checkpoints = Checkpoints(checkpoints)
        settings = (ClassifierSettings if self._classifies else RegressorSettings)(**settings_by_name(self))
        earlier = self._result() if self._continues else None
        with usual_torch():
            result = fit(settings, source, earlier=earlier, checkpoints=checkpoints, watched=watched)
        self._adopt(result, source.columns, table, **attributes)
        return self

    def _targets(self, x: Array, y: Any, weight: Array | None) -> Targets:
        """The targets of a y, after checks."""
        raise NotImplementedError

    def _source_targets(self, source: ParquetSource) -> tuple[ParquetSource, dict[str, Any]]:
        """A source with targets of the kind of this estimator, and attributes that follow from them."""
        raise NotImplementedError

    @property
    def _continues(self) -> bool:
        """Whether a fit continues from an earlier one."""
        return bool(self.warm_start) and hasattr(self, "system_")

    @property
    def _column_settings(self) -> ColumnSettings:
        return ColumnSettings(self.categorical, self.min_category_rows, self.missing_values, self.decimal)

    def _checked_x(self, X: Any, *, reset: bool) -> Any:
        """X after scikit-learn's checks: an array of float64, or a frame or an array of objects that holds other things."""
        table = as_table(X)
        if not holds_numbers(table):
            if is_frame(table):
                validate_data(self, table, reset=reset, skip_check_array=True)
                return table
            if getattr(table.dtype, "kind", "O") in "OUSTMm":
                return validate_data(self, table, reset=reset, dtype=None, ensure_all_finite=False)
        return validate_data(self, table, reset=reset, dtype=np.float64, order="C", ensure_all_finite=False)

    def _known_x(self, X: Any) -> Array:
        """Inputs of the system (rows, inputs) for rows with the columns of the fit."""
        check_is_fitted(self, "system_")
        columns = self.columns_
        is_array = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.flags.c_contiguous and len(X) > 0
        if is_array and not columns.named and X.shape[1] == len(columns.columns):
            checked = X  # nothing to convert; scikit-learn's validation takes longer than the prediction of a row
        else:
            checked = self._checked_x(X, reset=False)
        return self._encoded(checked, columns)

    def _encoded(self, checked: Any, columns: Columns, *, warns: bool = True) -> Array:
        is_numbers = isinstance(checked, np.ndarray) and checked.dtype.kind == "f"
        kept = columns.kept_numbers if is_numbers else None
        if kept is None:
            x = columns.encoded(raw_table(checked, columns.names), warns=warns)
        else:
            x = checked if len(kept) == checked.shape[1] else np.ascontiguousarray(checked[:, kept])
        if check_option("missing", self.missing, MISSING) == "error":
            columns.check_known(x)
        check_finite_table("X", x, columns.input_names if columns.named else None, missing=True)
        return x

    def _training_x(self, X: Any) -> tuple[Array, Columns]:
        """Inputs to learn from, and what the columns of X are. The estimator stays as it is."""
        new = copy.copy(self)
        checked = new._checked_x(X, reset=not self._continues)
        if self._continues:
            return self._encoded(checked, self.columns_), self.columns_
        known = Columns.numbers(new.n_features_in_, getattr(new, "feature_names_in_", None))
        columns = learn_columns(raw_table(checked, known.names), self._column_settings, named=known.named)
        # Values of the training table that are no numbers or categories have been reported already.
        return self._encoded(checked, columns, warns=False), columns

    def _watched(self, eval_set: Any, columns: Columns, targets: Callable[[Any], Array]) -> Samples:
        """The rows of an eval_set, (X, y) or a list of one such pair."""
        pair = eval_set[0] if isinstance(eval_set, list) and len(eval_set) == 1 else eval_set
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or all(isinstance(part, tuple) for part in pair):
            raise ValueError("eval_set must be (X, y), or a list of one such pair.")
        new = copy.copy(self)
        new.columns_, new.n_features_in_ = columns, len(columns.columns)
        if columns.named:
            new.feature_names_in_ = np.array(columns.names, dtype=object)
        x, y = self._encoded(new._checked_x(pair[0], reset=False), columns), targets(pair[1])
        check_same_length(x, y)
        return Samples(x, y)

    def _result(self) -> FitResult:
        """The fitted attributes as the result of a fit."""
        part = self.interval_model_
        return FitResult(
            structure=self._structure_,
            model=self._model,
            history=self.history_,
            stopped_by=self.stopped_by_,
            calibration=self.calibration_,
            part=None if part is None else part._result(),
            **{name: getattr(self, f"{name}_", None) for name in _OPTIONAL},
        )

    def _adopt(self, result: FitResult, columns: Columns, table: dict[str, Any] | None, **own: Any) -> None:
        """Take over the result of a fit; ``table`` describes the columns of a table on disk. It does not fail."""
        part = None
        if result.part is not None:
            part = clone(self).set_params(refit=False)
            part._adopt(result.part, columns, None, **own)
        self.interval_model_ = part
        self._structure_ = result.structure
        self.system_, self.x_scaling_, self.y_scaling_ = result.model.system, result.model.x_scaling, result.model.y_scaling
        self._others_ = result.model.others
        self.history_, self.n_epochs_, self.stopped_by_ = result.history, len(result.history), result.stopped_by
        self.calibration_ = result.calibration
        self.columns_, self.n_features_in_ = columns, len(columns.columns)
        optional = {name: getattr(result, name) for name in _OPTIONAL}
        optional["feature_names_in"] = np.array(columns.names, dtype=object) if columns.named else None
        optional["table"] = table
        for name, value in optional.items():
            self.__dict__.pop(f"{name}_", None)  # of an earlier fit
            if value is not None:
                setattr(self, f"{name}_", value)
        self.__dict__.update(own)

    # From a fitted estimator to numbers

    @property
    def _model(self) -> ScaledSystem:
        return ScaledSystem(self.system_, self.x_scaling_, self.y_scaling_, getattr(self, "_others_", ()))

    @property
    def _calibrated(self) -> CalibratedModel:
        part = getattr(self, "interval_model_", None)
        known = self._model, getattr(self, "calibration_", None), None if part is None else part._model
        return CalibratedModel(*known, self.columns_)

    @property
    def systems_(self) -> list[T1FLS | IT2FLS]:
        """All systems of the model; ``system_`` is the first."""
        return list(self._model.systems)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "auto"
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.sparse = True
        return tags

    def firing_strengths(self, X: Any) -> FiringStrengths:
        """How strongly every rule fires for every row.

        Returns
        -------
        FiringStrengths
            Named tuple (lower, upper), each (rows, rules), in [0, 1]; equal for Type-1 systems. With several systems the
            rules of the second follow those of the first, and so on.
        """
        x = self._known_x(X)
        return FiringStrengths(*self._model.firing_strengths(x))

    def score_samples(self, X: Any) -> Array:
        """Logarithm of :meth:`familiarity`, (rows,): 0 for usual rows, lower the less a row is like the training data.

        The name and the direction are those of scikit-learn's detectors of outliers.
        """
        return np.log(np.maximum(self.familiarity(X), np.finfo(np.float64).tiny))

    def familiarity(self, X: Any) -> Array:
        """How familiar rows are: how strongly their best-fitting rule fires, as a share of what training rows had.

        Returns
        -------
        ndarray, shape (rows,)
            From 0 to 1: 1 where the firing is that of the median training row or more, near 0 for a row unlike all training
            rows, for which a prediction is a guess. With several systems the mean over them.

        Examples
        --------
        >>> import numpy as np
        >>> from deepfls import FLSRegressor
        >>> X = np.linspace(-1, 1, 50).reshape(-1, 1)
        >>> model = FLSRegressor(n_rules=3, epochs=5, random_state=0).fit(X, X[:, 0])
        >>> near, far = model.familiarity([[0.1], [10.0]])
        >>> bool(near > 0.5), bool(far < 0.01)
        (True, True)
        """
        x = self._known_x(X)
        usual = getattr(self, "familiar_firing_", None)
        if usual is None:
            raise ValueError(
                "familiarity must follow a fit of this version, got a model without its record: train it again."
            )
        found = np.minimum(self._model.best_firing(x) / np.maximum(usual, np.finfo(np.float64).tiny), 1.0)
        return np.asarray(found @ self._model.shares)


def _is_streamed(X: Any, y: Any, sample_weight: Any, eval_set: Any, checkpoints: Any) -> bool:
    """Whether X is a source that is read in parts; arguments that do not belong to such an X are refused."""
    # The attribute of the type, because a frame may have a column of any name.
    if getattr(type(X), "streamed", False) is not True:
        if checkpoints is not None:
            raise ValueError("checkpoints must come with a source such as ParquetSource, got it without.")
        return False
    if eval_set is not None:
        raise ValueError("eval_set must not be given beside a source: patience holds rows out and measures them.")
    for name, value, column in (("y", y, "its target"), ("sample_weight", sample_weight, "a column of weights")):
        if value is not None:
            raise ValueError(f"{name} must not be given beside a source: it names {column} itself.")
    return True


def _checked_weight(sample_weight: Any, x: Array) -> Array | None:
    """Sample weights (rows,), none of them negative, or None."""
    if sample_weight is None:
        return None
    given = without_mask(without_torch(sample_weight))
    kind = np.asarray(given).dtype
    if kind.kind in "cmM":
        raise ValueError(f"sample_weight must hold real numbers, got {kind}.")
    try:
        weight = np.asarray(_check_sample_weight(given, x, ensure_non_negative=True))
    except TypeError:
        raise TypeError(f"sample_weight must hold numbers, got {type(given).__name__}.") from None
    except ValueError as error:
        if "string to float" not in str(error):
            raise
        raise ValueError(f"sample_weight must hold numbers, got text ({quoted_text(error)}).") from None
    if not (weight > 0).any():  # older versions of scikit-learn accept it
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weight
