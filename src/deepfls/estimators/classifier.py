"""FLSClassifier: fuzzy systems for two or more classes, as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from deepfls._checks.samples import Array, check_finite_table, check_same_length, check_targets_given
from deepfls.data.arrays import ArraySource
from deepfls.estimators.base import CheckpointsOrPath, checked_weight, is_streamed
from deepfls.estimators.intervals import predicted_set
from deepfls.estimators.result_methods import ResultMethods
from deepfls.estimators.settings import CLASSIFIER_TEXT, ClassifierSettings


class FLSClassifier(ClassifierMixin, ResultMethods, ClassifierSettings):  # type: ignore[misc]  # untyped base
    __doc__ = f"""A Type-1 or Interval Type-2 fuzzy system learned from data, for two or more classes.

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
        self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoints: CheckpointsOrPath | None = None
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
        checkpoints : Checkpoints or path, optional
            How, or in which folder, a run on a source keeps its state, to continue after it was stopped.

        Returns
        -------
        FLSClassifier
            Itself.
        """
        if is_streamed(X, y, sample_weight, checkpoints):
            self._fit(self._described(X), checkpoints, X.layout.as_dict())
            return self
        x, features = self._training_x(X)
        check_targets_given(y)
        labels = column_or_1d(y, warn=True)
        check_same_length(x, labels)
        if labels.dtype.kind == "f":
            check_finite_table("y", labels)
        check_classification_targets(labels)
        classes, places = np.unique(labels, return_inverse=True)
        columns = places.reshape(-1, 1).astype(np.float64)
        weight = checked_weight(sample_weight, x)
        self._fit(ArraySource(x, columns, weight, features, classes, merged=not callable(self.loss)))
        return self

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (rows, classes), in the order of ``classes_``."""
        x = self._known_x(X)
        logits = self._model.outputs(x)
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

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
