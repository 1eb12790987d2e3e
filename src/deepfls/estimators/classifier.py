"""FLSClassifier: fuzzy systems for two or more classes, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import column_or_1d

from deepfls._checks.arguments import check_number, counted
from deepfls._checks.values import (
    Array,
    check_finite_table,
    check_same_length,
    check_targets_given,
    softmax,
    without_torch,
)
from deepfls.data.arrays import ArraySource
from deepfls.data.frames import is_none
from deepfls.data.written import alike
from deepfls.estimators.base import CheckpointsOrPath, checked_weight, is_streamed
from deepfls.estimators.file_methods import FileMethods
from deepfls.estimators.intervals import predicted_set
from deepfls.estimators.result_methods import ResultMethods
from deepfls.estimators.settings import CLASSIFIER_TEXT, ClassifierSettings


class FLSClassifier(ClassifierMixin, ResultMethods, FileMethods, ClassifierSettings):  # type: ignore[misc]  # untyped base
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

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        checkpoints: CheckpointsOrPath | None = None,
    ) -> FLSClassifier:
        """Learn from rows X (rows, features) and classes y (rows,), or from a source of both.

        Parameters
        ----------
        X : array or frame, shape (rows, features), or ParquetSource
            Numbers, text, booleans, categories, dates; NaN and None are missing values. Names of columns are kept and
            checked in predictions.
        y : array, shape (rows,)
            Classes: text, integers or booleans. None beside a source, which names its target itself.
        sample_weight : array, shape (rows,), optional
        eval_set : (X, y), optional
            Rows whose loss is measured after every epoch, ``validation_loss`` in ``history_``; with ``patience`` they
            decide when training stops.
        checkpoints : Checkpoints or path, optional
            How, or in which folder, a run on a source keeps its state, to continue after it was stopped.

        Returns
        -------
        FLSClassifier
            Itself.
        """
        if is_streamed(X, y, sample_weight, eval_set, checkpoints):
            if self.class_weight is not None:
                raise ValueError("class_weight must be None beside a source: give it a column of weights.")
            self._fit(self._described(X), checkpoints, X.layout.as_dict())
            return self
        x, features = self._training_x(X)
        check_targets_given(y)
        labels = _labels(y)
        check_same_length(x, labels)
        if labels.dtype.kind == "f":
            check_finite_table("y", labels)
            fractions = labels[labels != np.rint(labels)]
            if len(fractions):
                raise ValueError(
                    f"y must hold classes, got numbers with fractions such as {fractions[0]:g} (Unknown label type: "
                    "continuous); FLSRegressor (--task regression) learns numbers."
                )
        elif labels.dtype.kind == "O":
            _check_objects(labels)
        classes, places = np.unique(labels, return_inverse=True)
        same = alike(classes) if labels.dtype.kind in "OU" and isinstance(classes[0], str) else None
        if same is not None:
            warnings.warn(
                f"The classes {same} differ in case or blanks alone; write them alike to join them.", stacklevel=2
            )
        columns = places.reshape(-1, 1).astype(np.float64)
        weight = self._class_weighted(checked_weight(sample_weight, x), classes, places)

        def places_of(values: Any) -> Array:
            known = _labels(values)
            unknown = np.setdiff1d(known, classes)
            if len(unknown):
                raise ValueError(f"y of eval_set must hold classes of y, got {str(unknown[0])!r}.")
            return np.searchsorted(classes, known).reshape(-1, 1).astype(np.float64)

        watched = self._watched(eval_set, features, places_of)
        self._fit(ArraySource(x, columns, weight, features, classes, merged=not callable(self.loss)), watched=watched)
        return self

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
        return predicted_set(self._model, getattr(self, "calibration_", None), x, coverage, self._interval_system)


def _labels(y: Any) -> Array:
    """Classes (rows,) as they are named; numbers and booleans in a column of objects, or nullable ones, are such."""
    y = without_torch(y)
    is_boolean = str(getattr(y, "dtype", "")) == "boolean" and not y.isna().any()
    if isinstance(y, list | tuple) and any(map(is_none, y)):
        y = np.array(y, dtype=object)  # NumPy would write NaN beside text as the text "nan"
    labels = np.asarray(column_or_1d(y.to_numpy(dtype=bool) if is_boolean else y, warn=True))
    if labels.dtype.kind == "S":
        return np.char.decode(labels)
    if labels.dtype.kind in "Mm":
        raise ValueError(_no_classes("dates" if labels.dtype.kind == "M" else "durations"))
    if labels.dtype.kind == "O" and all(isinstance(v, Real) and v == v for v in labels):  # not NaN
        numbers = np.array(labels.tolist())
        return numbers if numbers.dtype.kind in "bif" else labels
    return labels


def _check_objects(labels: Array) -> None:
    """Refuse missing classes and classes of several types among Python objects."""
    missing = [row for row, label in enumerate(labels) if is_none(label)]
    if missing:
        rows = f"{counted(len(missing), 'such row')} in all"
        raise ValueError(f"y must have a class in every row, got none in row {missing[0]} ({rows}).")
    types = sorted({type(label).__name__ for label in labels})
    if len(types) > 1 and "str" in types:
        raise ValueError(f"y must hold classes of one type, got {' and '.join(types)} (Unknown label type: unknown).")
    if "str" not in types:
        raise ValueError(_no_classes(f"values of the type {types[0]}"))


def _no_classes(got: str) -> str:
    """The error for labels that are no classes, with the words that scikit-learn's checks look for."""
    return (
        f"y must hold text, numbers or booleans as classes, got {got} (Unknown label type: unknown); their texts, such as "
        "pandas.Series(y).astype(str), can be classes."
    )
