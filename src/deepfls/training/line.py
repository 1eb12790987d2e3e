"""Linear models of scaled rows: ridge regression for numbers, logistic regression for classes.

They are the simplest systems there are, those whose rules all have one consequent, and what a system is measured against
while its settings are chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.special

from deepfls._checks.values import Array

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
    lines = []
    for inverse in _INVERSE_PENALTIES:
        slopes, intercepts = _logistic(x, y, weight, counts > 0, inverse)
        intercepts = np.where(counts > 0, intercepts, intercepts[counts > 0].min() - np.log(len(x)))
        lines.append(Line(slopes, intercepts))
    return lines


def _logistic(x: Array, y: Array, weight: Array | None, present: Array, inverse: float) -> tuple[Array, Array]:
    """Slopes (classes, features) and intercepts (classes,) that minimise ``inverse`` Σ w loss + ½ |slopes|².

    Not scikit-learn's: it warns where the optimiser stops before the last digits, which do not matter here, and warnings
    cannot be held back in one thread alone.
    """
    n_classes, n_features = len(present), x.shape[1]
    labels = np.eye(n_classes)[y]
    weights = np.ones(len(x)) if weight is None else weight
    absent = np.where(present, 0.0, -np.inf)
    # Two classes share one logit, of which each has half: the penalty is that of the whole.
    penalty = 2.0 if present.sum() == 2 else 1.0

    def loss_and_slope(flat: Array) -> tuple[float, Array]:
        own = flat.reshape(n_classes, n_features + 1)
        logits = x @ own[:, :-1].T + own[:, -1] + absent
        total = scipy.special.logsumexp(logits, axis=1)
        loss = inverse * float(weights @ (total - logits[np.arange(len(y)), y]))
        loss += 0.5 * penalty * float((own[:, :-1] ** 2).sum())
        by_logits = inverse * weights[:, None] * (np.exp(logits - total[:, None]) - labels)
        slope = np.column_stack([by_logits.T @ x + penalty * own[:, :-1], by_logits.sum(axis=0)])
        return loss, slope.ravel()

    start = np.zeros(n_classes * (n_features + 1))
    found = scipy.optimize.minimize(loss_and_slope, start, jac=True, method="L-BFGS-B", options={"maxiter": 300}).x
    own = found.reshape(n_classes, n_features + 1)
    return own[:, :-1], own[:, -1]
