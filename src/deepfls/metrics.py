"""Measures of predictions: NumPy in, float out."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deepfls._checks import check_paired_arrays


def _paired_numbers(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both as float64: differences of unsigned, small or boolean types would wrap around or fail."""
    y_true, y_pred = check_paired_arrays(y_true=y_true, y_pred=y_pred)
    return y_true.astype(np.float64), y_pred.astype(np.float64)


def rmse(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Root of the mean squared error, over all samples and outputs.

    Examples
    --------
    >>> rmse([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    y_true, y_pred = _paired_numbers(y_true, y_pred)
    return float(np.sqrt(np.mean(np.square(y_true - y_pred))))


def mae(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Mean absolute error, over all samples and outputs.

    Examples
    --------
    >>> mae([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    y_true, y_pred = _paired_numbers(y_true, y_pred)
    return float(np.mean(np.abs(y_true - y_pred)))


def r2(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Share of the variance explained, the mean over outputs; 0 for an output that does not vary, unless it is hit exactly.

    Examples
    --------
    >>> r2([1.0, 2.0, 3.0], [1.0, 2.0, 2.0])
    0.5
    """
    y_true, y_pred = (np.reshape(y, (len(y), -1)) for y in _paired_numbers(y_true, y_pred))
    errors = np.square(y_true - y_pred).sum(axis=0)
    spread = np.square(y_true - y_true.mean(axis=0)).sum(axis=0)
    # Not by the spread: the mean of equal numbers may differ from them in the last bit.
    varies = (y_true != y_true[0]).any(axis=0) & (spread > 0)
    explained = np.where(varies, 1.0 - errors / np.where(varies, spread, 1.0), (errors == 0).astype(float))
    return float(np.mean(explained))


def accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Share of classes that are right.

    Examples
    --------
    >>> accuracy(["a", "b", "b"], ["a", "b", "a"])
    0.6666666666666666
    """
    y_true, y_pred = check_paired_arrays(y_true=y_true, y_pred=y_pred)
    return float(np.mean(y_true == y_pred))


def log_loss(y_true: ArrayLike, probabilities: ArrayLike, classes: ArrayLike) -> float:
    """Mean of ``-log p`` of the true class, for probabilities (batch, classes).

    Examples
    --------
    >>> round(log_loss(["a"], [[0.5, 0.5]], ["a", "b"]), 4)
    0.6931
    """
    labels, probabilities, classes = np.asarray(y_true), np.asarray(probabilities, dtype=float), np.asarray(classes)
    check_paired_arrays(y_true=labels, probabilities=probabilities[:, 0])
    # A class the model has never seen has probability 0, held at the smallest number whose logarithm is finite.
    known = labels[:, None] == classes[None, :]
    of_truth = np.where(known, probabilities, 0.0).sum(axis=1)
    return float(np.mean(-np.log(np.maximum(of_truth, np.finfo(float).tiny))))
