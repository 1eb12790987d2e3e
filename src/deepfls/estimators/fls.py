"""FLSRegressor and FLSClassifier: fuzzy systems for numbers and for classes, as scikit-learn estimators."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from deepfls._checks.arguments import check_number, counted
from deepfls._checks.labels import class_labels, labels_of
from deepfls._checks.values import (
    Array,
    check_finite_table,
    check_number_targets,
    check_same_length,
    softmax,
)
from deepfls.data.written import alike
from deepfls.estimators.base import Targets
from deepfls.estimators.intervals import PredictionInterval
from deepfls.estimators.methods import Methods
from deepfls.estimators.settings import CLASSIFIER_TEXT, REGRESSOR_TEXT, ClassifierSettings, RegressorSettings

if TYPE_CHECKING:
    from deepfls.data.sources import ParquetSource


class FLSRegressor(RegressorMixin, Methods, RegressorSettings):  # type: ignore[misc]  # untyped base
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

    def _targets(self, x: Array, y: Any, weight: Array | None) -> Targets:
        targets = check_number_targets(y)
        check_same_length(x, targets)
        check_finite_table("y", targets)
        columns = targets.reshape(len(targets), -1)
        n_targets = columns.shape[1]

        def of_eval_set(values: Any) -> Array:
            found = check_number_targets(values)
            check_finite_table("y of eval_set", found)
            found = found.reshape(len(found), -1)
            if found.shape[1] != n_targets:
                raise ValueError(f"y of eval_set must have {counted(n_targets, 'column')} as y, got {found.shape[1]}.")
            return found

        own = {"target_names_": names_of_targets(y, n_targets), "_single_target_": targets.ndim == 1}
        return Targets(columns, weight, of_eval_set, own)

    def _source_targets(self, source: ParquetSource) -> tuple[ParquetSource, dict[str, Any]]:
        names = source.layout.targets
        return source.with_numbers(), {"target_names_": names, "_single_target_": len(names) == 1}

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


class FLSClassifier(ClassifierMixin, Methods, ClassifierSettings):  # type: ignore[misc]  # untyped base
    __doc__ = f"""A fuzzy system (Type-1, Interval Type-2 or General Type-2) learned from data, for two or more classes.

    The system has one output per class; their softmax are the probabilities.
{CLASSIFIER_TEXT}    classes_ : ndarray
        The classes, in the order of the probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from deepfls import FLSClassifier
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> model = FLSClassifier(n_rules=3, epochs=20, random_state=0).fit(X, np.where(X[:, 0] > 0, "up", "down"))
    >>> str(model.predict([[0.5]])[0])
    'up'
    """

    def _targets(self, x: Array, y: Any, weight: Array | None) -> Targets:
        labels = class_labels(y)
        check_same_length(x, labels)
        classes, places = np.unique(labels, return_inverse=True)
        same = alike(classes) if labels.dtype.kind in "OU" and isinstance(classes[0], str) else None
        if same is not None:
            warnings.warn(
                f"The classes {same} differ in case or blanks alone; write them alike to join them.", stacklevel=3
            )

        def of_eval_set(values: Any) -> Array:
            known = labels_of(values)
            unknown = np.setdiff1d(known, classes)
            if len(unknown):
                raise ValueError(f"y of eval_set must hold classes of y, got {str(unknown[0])!r}.")
            return np.searchsorted(classes, known).reshape(-1, 1).astype(np.float64)

        columns = places.reshape(-1, 1).astype(np.float64)
        return Targets(columns, self._class_weighted(weight, classes, places), of_eval_set, {}, classes)

    def _source_targets(self, source: ParquetSource) -> tuple[ParquetSource, dict[str, Any]]:
        if self.class_weight is not None:
            raise ValueError("class_weight must be None beside a source: give it a column of weights.")
        return source, {}

    def _class_weighted(self, weight: Array | None, classes: Array, places: Array) -> Array | None:
        """Sample weights times those of ``class_weight``, (rows,), or None where all are 1."""
        chosen = self.class_weight
        if chosen is None:
            return weight
        counts = np.bincount(places.ravel(), weights=weight, minlength=len(classes))
        if isinstance(chosen, str) and chosen == "balanced":
            factors = counts.sum() / (len(classes) * np.maximum(counts, np.finfo(np.float64).tiny))
        elif not hasattr(chosen, "items"):
            raise ValueError(f"class_weight must be 'balanced' or a dictionary of weights by class, got {chosen!r}.")
        else:
            named = {str(name): check_number("class_weight", value, minimum=0.0) for name, value in chosen.items()}
            unknown = [name for name in named if name not in set(map(str, classes))]
            if unknown:
                raise ValueError(
                    f"class_weight must name classes of y, {', '.join(map(str, classes))}, got {unknown[0]!r}."
                )
            factors = np.array([named.get(str(name), 1.0) for name in classes])
        found = factors[places.ravel()] * (1.0 if weight is None else weight)
        if not found.any():
            raise ValueError("class_weight must leave a row with a weight above 0, got 0 for every class that has rows.")
        return found

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (rows, classes), in the order of ``classes_``."""
        x = self._known_x(X)  # first: it requires a fitted estimator
        return softmax(self._model.outputs(x))

    def decision_function(self, X: Any) -> Array:
        """Scores of the classes, (rows, classes); for two classes that of the second beyond the first, (rows,)."""
        x = self._known_x(X)
        logits = self._model.outputs(x)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict(self, X: Any) -> Array:
        """The most probable class of each row, (rows,)."""
        x = self._known_x(X)
        return self.classes_[self._model.outputs(x).argmax(axis=1)]

    def predict_set(self, X: Any, coverage: float | None = None) -> Array:
        """Sets of classes that hold the true one with a probability of ``coverage`` or more.

        Parameters
        ----------
        X : array or frame, shape (rows, features)
        coverage : float, optional
            Within (0, 1): any that the held-out rows are enough for; that of the fit by default.

        Returns
        -------
        ndarray of bool, shape (rows, classes)
            Which of ``classes_`` are in the set of each row; the most probable one always is.

        Examples
        --------
        >>> import numpy as np
        >>> from deepfls import FLSClassifier
        >>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
        >>> y = np.where(X[:, 0] > 0, "up", "down")
        >>> model = FLSClassifier(n_rules=3, epochs=20, coverage=0.9, random_state=0).fit(X, y)
        >>> model.classes_[model.predict_set([[0.9]])[0]]
        array(['up'], dtype='<U4')
        """
        x = self._known_x(X)
        return self._calibrated.class_set(x, coverage)


def names_of_targets(y: Any, n_outputs: int) -> tuple[str, ...]:
    """The names of the columns of a frame or a series, else y, or y0, y1 and so on."""
    names = getattr(y, "column_names", None) or getattr(y, "columns", [getattr(y, "name", None)])  # pyarrow's are first
    if len(names) == n_outputs and all(isinstance(name, str) for name in names):
        return tuple(map(str, names))
    return ("y",) if n_outputs == 1 else tuple(f"y{k}" for k in range(n_outputs))
