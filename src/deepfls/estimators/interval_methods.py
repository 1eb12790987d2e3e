"""How estimators offer intervals and sets: the text of their settings, and the methods."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deepfls.estimators.intervals import PredictionInterval, predict_interval, predict_set

Array = np.ndarray[Any, np.dtype[Any]]

_SHARED = """    refit : bool or "auto"
        Whether the rows held out for calibration are trained on after all: a model without them gives the intervals, and
        another one, trained on all rows, the predictions and the rules. "auto": up to 5,000 rows, where a fifth of them is
        dear and a second training cheap.
    group_calibration : str, int or list of them, optional
        Columns of X, by name or place, whose values make groups: each is calibrated on rows of its own, and keeps the
        coverage by itself.
"""
INTERVAL_SETTINGS = f"""    coverage : float, optional
        Share of the targets that prediction intervals are to hold, within (0, 1). An IT2 system is then trained for its
        type-reduced set to be that interval, and :meth:`predict_interval` gives calibrated ones of this and any other
        coverage.
    calibration : {{"cqr", "split", None}}
        "cqr": the learned ends are calibrated on held-out rows (conformalised quantile regression; "it2" only). "split":
        ends around the crisp output, which alone is trained, calibrated likewise. None: the learned set as it is ("it2"
        only).
    interval_weight : float
        Weight of the pinball losses of the ends in training, beside the loss, in scaled units.
    calibration_fraction : float or "auto"
        Share of the rows held out for calibration. "auto": a fifth, less from 5,000 rows on, and at least what ``coverage``
        needs.
    normalized_scores : bool
        Whether the correction by the calibration is in proportion to a local scale (the learned widths, or for "split" a
        fuzzy model of the residuals with the same sets) instead of the same for all rows.
{_SHARED}"""
SET_SETTINGS = f"""    coverage : float, optional
        Share of the rows whose class the sets of :meth:`predict_set` are to hold, within (0, 1).
    calibration : {{"split", "aps"}}
        Scores of the classes in the calibration on held-out rows: "split" gives the smallest sets on average, "aps" larger
        ones where classes are close and smaller ones where not.
    calibration_fraction : float or "auto"
        Share of the rows held out for calibration. "auto": a fifth, less from 5,000 rows on, and at least what ``coverage``
        needs.
{_SHARED}"""


class PredictsIntervals:
    """What a regressor gives beside the crisp output."""

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
        estimator: Any = self
        check_is_fitted(estimator, "system_")
        ends = predict_interval(estimator, estimator._validated_x(X, reset=False), coverage)
        return PredictionInterval(*(end[:, 0] for end in ends)) if estimator._single_target_ else ends


class PredictsSets:
    """What a classifier gives beside the most probable class."""

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
        estimator: Any = self
        check_is_fitted(estimator, "system_")
        return predict_set(estimator, estimator._validated_x(X, reset=False), coverage)
