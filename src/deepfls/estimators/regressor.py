"""FLSRegressor: fuzzy systems for one or several targets, as a scikit-learn estimator."""

from __future__ import annotations

import functools
from typing import Any

from sklearn.base import RegressorMixin

from deepfls._checks.values import Array, check_finite_table, check_number_targets, check_same_length
from deepfls.data.arrays import ArraySource
from deepfls.estimators.base import CheckpointsOrPath, checked_weight, is_streamed
from deepfls.estimators.file_methods import FileMethods
from deepfls.estimators.intervals import PredictionInterval
from deepfls.estimators.result_methods import ResultMethods
from deepfls.estimators.settings import REGRESSOR_TEXT, RegressorSettings


class FLSRegressor(RegressorMixin, ResultMethods, FileMethods, RegressorSettings):  # type: ignore[misc]  # untyped base
    __doc__ = f"""A Type-1, Interval Type-2 or General Type-2 fuzzy system learned from data, for one or several targets.
{REGRESSOR_TEXT}    target_names_ : tuple of str
        Names of the targets: those of the columns of y where it has names, else y, or y0, y1 and so on.

    Notes
    -----
    Rows of equal inputs and targets are merged before training (up to 20,000 rows, and not for a callable loss), so a
    sample weight of k is exactly k equal rows, and the order of the rows does not matter.

    Examples
    --------
    >>> import numpy as np
    >>> from deepfls import FLSRegressor
    >>> X = np.linspace(-3, 3, 200).reshape(-1, 1)
    >>> model = FLSRegressor(n_rules=5, epochs=30, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[1.5]])[0] - 0.997) < 0.05)
    True
    """

    target_names_: tuple[str, ...]
    _single_target_: bool

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        checkpoints: CheckpointsOrPath | None = None,
    ) -> FLSRegressor:
        """Learn from rows X (rows, features) and targets y (rows,) or (rows, outputs), or from a source of both.

        Parameters
        ----------
        X : array or frame, shape (rows, features), or ParquetSource
            Numbers, text, booleans, categories, dates; NaN and None are missing values. Names of columns are kept and
            checked in predictions.
        y : array or frame, shape (rows,) or (rows, outputs)
            None beside a source, which names its targets and weights itself.
        sample_weight : array, shape (rows,), optional
        eval_set : (X, y), optional
            Rows whose loss is measured after every epoch, ``validation_loss`` in ``history_``; with ``patience`` they
            decide when training stops.
        checkpoints : Checkpoints or path, optional
            How, or in which folder, a run on a source keeps its state, to continue after it was stopped.

        Returns
        -------
        FLSRegressor
            Itself.
        """
        if is_streamed(X, y, sample_weight, eval_set, checkpoints):
            stream = self._described(X.with_numbers())
            names, table = stream.layout.targets, stream.layout.as_dict()
            self._fit(stream, checkpoints, table, target_names_=names, _single_target_=len(names) == 1)
            return self
        x, features = self._training_x(X)
        targets = check_number_targets(y)
        check_same_length(x, targets)
        check_finite_table("y", targets)
        columns = targets.reshape(len(targets), -1)
        watched = self._watched(eval_set, features, functools.partial(_eval_targets, n_targets=columns.shape[1]))
        weight = checked_weight(sample_weight, x)
        source = ArraySource(x, columns, weight, features, merged=not callable(self.loss))
        names = names_of_targets(y, columns.shape[1])
        self._fit(source, watched=watched, target_names_=names, _single_target_=targets.ndim == 1)
        return self

    def predict(self, X: Any) -> Array:
        """Predictions in the units of y: (rows,) where y was a vector, else (rows, outputs)."""
        x = self._known_x(X)
        y = self._model.predictions(x)
        return y[:, 0] if self._single_target_ else y

    def predict_interval(self, X: Any, coverage: float | None = None) -> PredictionInterval:
        """Prediction intervals in the units of y, calibrated unless ``calibration=None``.

        Parameters
        ----------
        X : array or frame, shape (rows, features)
        coverage : float, optional
            Share of the targets to hold, within (0, 1): any that the held-out rows are enough for; that of the fit by
            default. With several targets each has this coverage by itself.

        Returns
        -------
        PredictionInterval
            Named tuple (lower, upper), each of the shape of :meth:`predict`, which lies between.

        Examples
        --------
        >>> import numpy as np
        >>> from deepfls import FLSRegressor
        >>> X = np.linspace(-3, 3, 300).reshape(-1, 1)
        >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=300)
        >>> model = FLSRegressor(n_rules=5, epochs=30, coverage=0.9, random_state=0).fit(X, y)
        >>> lower, upper = model.predict_interval(X, coverage=0.8)
        >>> bool(((lower <= model.predict(X)) & (model.predict(X) <= upper)).all())
        True
        """
        x = self._known_x(X)
        ends = self._calibrated.interval(x, coverage)
        return PredictionInterval(*(end[:, 0] for end in ends)) if self._single_target_ else ends

    def predict_quantiles(self, X: Any, levels: Any) -> Array:
        """Quantiles of the target for every row, none of which cross.

        After a fit with a ``coverage`` they come from the scores of the held-out rows, and a share ``level`` of new targets
        lies below each of them, with the promise of the intervals. Without, a fit of kind "gt2" with ``loss="quantiles"``
        gives those that it learned: the ends of its planes.

        Parameters
        ----------
        X : array or frame, shape (rows, features)
        levels : float or list of float
            Levels within (0, 1), in any order; only those that the held-out rows are enough for.

        Returns
        -------
        ndarray, shape (rows, levels) or (rows, levels, outputs)
            In the units and of the shape of y, in the order of ``levels``.

        Examples
        --------
        >>> import numpy as np
        >>> from deepfls import FLSRegressor
        >>> X = np.linspace(-3, 3, 300).reshape(-1, 1)
        >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=300)
        >>> model = FLSRegressor(kind="gt2", n_rules=5, epochs=30, loss="quantiles", random_state=0).fit(X, y)
        >>> model.predict_quantiles(X, [0.05, 0.5, 0.95]).shape
        (300, 3)
        """
        x = self._known_x(X)
        found = self._calibrated.quantiles(x, levels, learned=isinstance(self.loss, str) and self.loss == "quantiles")
        return found[:, :, 0] if self._single_target_ else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _eval_targets(y: Any, n_targets: int) -> Array:
    """Targets of an eval_set, (rows, targets)."""
    values = check_number_targets(y)
    check_finite_table("y of eval_set", values)
    values = values.reshape(len(values), -1)
    if values.shape[1] != n_targets:
        raise ValueError(f"y of eval_set must have {n_targets} column(s) as y, got {values.shape[1]}.")
    return values


def names_of_targets(y: Any, n_outputs: int) -> tuple[str, ...]:
    """The names of the columns of a frame or a series, else y, or y0, y1 and so on."""
    names = getattr(y, "columns", None)
    if names is None:
        names = [getattr(y, "name", None)]
    if len(names) == n_outputs and all(isinstance(name, str) for name in names):
        return tuple(map(str, names))
    return ("y",) if n_outputs == 1 else tuple(f"y{k}" for k in range(n_outputs))
