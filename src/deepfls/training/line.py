"""Linear models of scaled rows: ridge regression for numbers, logistic regression for classes.

They are the simplest systems there are, those whose rules all have one consequent, and what a system is measured against
while its settings are chosen.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

Array = np.ndarray[Any, np.dtype[Any]]

# Penalties of the ridge per row, of which one is chosen, and inverse penalties of the logistic regression.
_PENALTIES, _INVERSE_PENALTIES = (1e-7, 1e-3, 1e-2, 0.1, 1.0), (1.0, 0.03)
# Inputs beyond which a line would cost more than the system.
_MAX_INPUTS = 1_000


@dataclass(frozen=True)
class Line:
    """y = slopes · x + intercepts."""

    slopes: Array  # (outputs, features)
    intercepts: Array  # (outputs,)

    def __call__(self, x: Array) -> Array:
        """Outputs (rows, outputs) for rows x (rows, features)."""
        return np.asarray(x @ self.slopes.T + self.intercepts)


def regression_lines(x: Array, y: Array, weight: Array | None, *, constant: bool) -> list[Line]:
    """Ridge solutions for every penalty, from rows x (rows, features) and y (rows, outputs); with ``constant`` the mean."""
    share = np.full(len(x), 1.0 / len(x)) if weight is None else weight / weight.sum()
    x_mean, y_mean = share @ x, share @ y
    if constant or x.shape[1] > _MAX_INPUTS:
        return [Line(np.zeros((y.shape[1], x.shape[1])), y_mean)]
    centered = x - x_mean
    weighted = centered * share[:, None]
    values, vectors = scipy.linalg.eigh(weighted.T @ centered)
    moments = vectors.T @ (weighted.T @ (y - y_mean))
    slopes = [(vectors @ (moments / (np.maximum(values, 0.0) + penalty)[:, None])).T for penalty in _PENALTIES]
    return [Line(found, y_mean - found @ x_mean) for found in slopes]


def class_lines(x: Array, y: Array, weight: Array | None, n_classes: int, *, constant: bool) -> list[Line]:
    """Logistic regressions for every penalty, from rows x (rows, features) and the places y (rows,) of their classes.

    A class without rows gets a logit below all others. With ``constant`` the logarithms of the shares of the classes.
    """
    counts = np.bincount(y, weights=weight, minlength=n_classes)
    if constant or x.shape[1] > _MAX_INPUTS:
        shares = (counts + 0.5) / (counts + 0.5).sum()
        return [Line(np.zeros((n_classes, x.shape[1])), np.log(shares))]
    from sklearn.linear_model import LogisticRegression  # here: slow to import

    lines = []
    for inverse in _INVERSE_PENALTIES:
        with warnings.catch_warnings():
            # The optimiser may stop before the last digits of the optimum, which do not matter here.
            warnings.simplefilter("ignore")
            model = LogisticRegression(C=inverse, max_iter=300).fit(x, y, sample_weight=weight)
        slopes, intercepts = model.coef_, model.intercept_
        if len(slopes) == 1:  # of two classes: the logit of the second
            slopes, intercepts = np.concatenate([-slopes, slopes]) / 2, np.concatenate([-intercepts, intercepts]) / 2
        line = Line(np.zeros((n_classes, x.shape[1])), np.full(n_classes, intercepts.min() - np.log(len(x))))
        line.slopes[model.classes_], line.intercepts[model.classes_] = slopes, intercepts
        lines.append(line)
    return lines
