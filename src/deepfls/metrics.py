"""Measures of predictions that scikit-learn lacks: prediction intervals, and classes that a model does not know."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deepfls._checks.arguments import check_count, check_coverage
from deepfls._checks.values import check_same_length


def log_loss(y_true: ArrayLike, probabilities: ArrayLike, classes: ArrayLike) -> float:
    """Log loss of scikit-learn, extended to classes in ``y_true`` that the model does not know: their probability is 0.

    scikit-learn replaces a probability of 0 by the machine epsilon, so that the loss stays finite.

    Parameters
    ----------
    y_true : array, shape (rows,)
    probabilities : array, shape (rows, classes)
    classes : array, shape (classes,)
        The class of each column of ``probabilities``.

    Examples
    --------
    >>> round(log_loss(["a"], [[0.5, 0.5]], ["a", "b"]), 4)
    0.6931
    >>> round(log_loss(["c"], [[0.5, 0.5]], ["a", "b"]), 4)
    36.0437
    """
    from sklearn.metrics import log_loss as log_loss_of_known_classes  # here: keeps `import deepfls` light

    known, predicted = np.asarray(classes), np.asarray(probabilities)
    labels = np.union1d(known, y_true)
    n_labels = max(2, len(labels))  # scikit-learn refuses a single one
    columns = np.zeros((len(predicted), n_labels), dtype=predicted.dtype)
    columns[:, np.searchsorted(labels, known)] = predicted
    return float(log_loss_of_known_classes(np.searchsorted(labels, y_true), columns, labels=np.arange(n_labels)))


def picp(y_true: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> float:
    """Prediction interval coverage probability: the share of targets within their interval, ends included.

    Parameters
    ----------
    y_true, lower, upper : array, shape (rows,) or (rows, outputs)

    Examples
    --------
    >>> picp([1.0, 2.0, 3.0, 9.0], [0.0, 0.0, 3.0, 0.0], [2.0, 2.0, 4.0, 5.0])
    0.75
    """
    y_true, lower, upper = _check_interval_arrays(y_true, lower, upper)
    return float(np.mean((lower <= y_true) & (y_true <= upper)))


def mean_width(lower: ArrayLike, upper: ArrayLike) -> float:
    """Mean width of intervals, in the units of the target.

    Parameters
    ----------
    lower, upper : array, shape (rows,) or (rows, outputs)

    Examples
    --------
    >>> mean_width([0.0, 1.0], [2.0, 5.0])
    3.0
    """
    _, lower, upper = _check_interval_arrays(lower, lower, upper)
    return float(np.mean(upper - lower))


def pinaw(y_true: ArrayLike, lower: ArrayLike, upper: ArrayLike, *, target_range: float | ArrayLike | None = None) -> float:
    """Prediction interval normalised average width: the mean width over the range of the target, the mean over outputs.

    Parameters
    ----------
    y_true, lower, upper : array, shape (rows,) or (rows, outputs)
    target_range : float or array, shape (outputs,), optional
        Largest minus smallest target; that of ``y_true`` by default. Infinity is returned where it is 0 and a width is not.

    Examples
    --------
    >>> pinaw([0.0, 10.0], [0.0, 8.0], [1.0, 11.0])
    0.2
    """
    columns = [np.reshape(part, (len(part), -1)) for part in _check_interval_arrays(y_true, lower, upper)]
    span = np.ptp(columns[0], axis=0) if target_range is None else np.asarray(target_range, dtype=np.float64)
    widths = (columns[2] - columns[1]).mean(axis=0)
    shares = np.where(span > 0, widths / np.where(span > 0, span, 1.0), np.where(widths > 0, np.inf, 0.0))
    return float(np.mean(shares))


def interval_score(y_true: ArrayLike, lower: ArrayLike, upper: ArrayLike, coverage: float) -> float:
    """Interval (Winkler) score: the width, plus ``2 / (1 - coverage)`` times how far a target lies outside; the mean.

    It is smallest in expectation at the true quantiles, so it weighs coverage and width together. Lower is better.

    Parameters
    ----------
    y_true, lower, upper : array, shape (rows,) or (rows, outputs)
    coverage : float
        Nominal coverage of the intervals, within (0, 1).

    Examples
    --------
    >>> round(interval_score([1.0, 5.0], [0.0, 0.0], [2.0, 4.0], coverage=0.9), 9)  # (2 + 4 + 20 * 1) / 2
    13.0
    """
    tail = 1.0 - check_coverage(coverage)
    y_true, lower, upper = _check_interval_arrays(y_true, lower, upper)
    outside = np.maximum(lower - y_true, 0.0) + np.maximum(y_true - upper, 0.0)
    return float(np.mean(upper - lower + 2.0 / tail * outside))


def crps(y_true: ArrayLike, predicted: ArrayLike, quantiles: ArrayLike) -> float:
    """Continuous ranked probability score from a grid of quantiles: twice the pinball loss, integrated over the levels.

    The integral is the trapezoidal rule over the levels given, the ends of the grid held constant to 0 and 1. It has the
    units of the target, and for a prediction that is one point it is the absolute error.

    Parameters
    ----------
    y_true : array, shape (rows,)
    predicted : array, shape (rows, levels)
        Predicted quantiles.
    quantiles : array, shape (levels,)
        Their levels, rising, within (0, 1).

    Examples
    --------
    >>> levels = [0.1, 0.3, 0.5, 0.7, 0.9]
    >>> round(crps([3.0], [[1.0] * 5], levels), 12)  # one point: the absolute error
    2.0
    """
    levels = _check_levels(quantiles)
    truth, predicted = np.asarray(y_true, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    _check_paired_arrays(y_true=np.broadcast_to(truth[:, None], (len(truth), len(levels))), predicted=predicted)
    error = truth[:, None] - predicted
    losses = np.maximum(levels * error, (levels - 1.0) * error)
    # To either side the loss of a constant quantile is linear in the level, so two more points close the grid exactly.
    first, last = np.maximum(-error[:, 0], 0.0), np.maximum(error[:, -1], 0.0)
    losses = np.concatenate([first[:, None], losses, last[:, None]], axis=1)
    grid = np.concatenate([[0.0], levels, [1.0]])
    return float(np.mean(np.sum((losses[:, 1:] + losses[:, :-1]) * np.diff(grid), axis=1)))


class PartCoverage(NamedTuple):
    """Coverage within one part of the rows.

    ``part`` names it, ``coverage`` is the share of its targets within their interval, ``width`` the mean width, ``n_rows``
    how many rows it has.
    """

    part: Any
    coverage: float
    width: float
    n_rows: int


def coverage_by_group(y_true: ArrayLike, lower: ArrayLike, upper: ArrayLike, groups: ArrayLike) -> list[PartCoverage]:
    """Coverage and mean width for every distinct value of ``groups``, in sorted order.

    Parameters
    ----------
    y_true, lower, upper : array, shape (rows,) or (rows, outputs)
    groups : array, shape (rows,)

    Examples
    --------
    >>> for part in coverage_by_group([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [2.0, 1.0, 4.0], ["a", "a", "b"]):
    ...     print(part)
    PartCoverage(part='a', coverage=0.5, width=1.5, n_rows=2)
    PartCoverage(part='b', coverage=1.0, width=4.0, n_rows=1)
    """
    y_true, lower, upper = _check_interval_arrays(y_true, lower, upper)
    check_same_length(y_true, names := np.asarray(groups))
    values, member = np.unique(names, return_inverse=True)
    rows = [np.flatnonzero(member == place) for place in range(len(values))]
    return [_part(value, y_true[r], lower[r], upper[r]) for value, r in zip(values.tolist(), rows, strict=True)]


def coverage_by_width(y_true: ArrayLike, lower: ArrayLike, upper: ArrayLike, n_parts: int = 10) -> list[PartCoverage]:
    """Coverage and mean width by decile (or another number of parts) of the width, narrowest first.

    Intervals whose width follows the difficulty of a sample cover alike in all parts. Parts are as equal in size as the
    number of rows allows, and numbered from 1.

    Parameters
    ----------
    y_true, lower, upper : array, shape (rows,) or (rows, outputs)
    n_parts : int

    Examples
    --------
    >>> for part in coverage_by_width([1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 2.0, 9.0], [2.0, 3.0, 9.0, 19.0], n_parts=2):
    ...     print(part)
    PartCoverage(part=1, coverage=1.0, width=2.0, n_rows=2)
    PartCoverage(part=2, coverage=0.5, width=8.5, n_rows=2)
    """
    check_count("n_parts", n_parts)
    y_true, lower, upper = (np.ravel(part) for part in _check_interval_arrays(y_true, lower, upper))
    order = np.argsort(upper - lower, kind="stable")
    parts = [rows for rows in np.array_split(order, n_parts) if len(rows)]
    return [_part(place, y_true[r], lower[r], upper[r]) for place, r in enumerate(parts, start=1)]


def _part(name: Any, y_true: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]) -> PartCoverage:
    return PartCoverage(name, picp(y_true, lower, upper), mean_width(lower, upper), len(y_true))


def _check_paired_arrays(**arrays: Any) -> tuple[NDArray[Any], ...]:
    """Return two arrays of the same shape, not empty."""
    (first_name, first), (second_name, second) = ((name, np.asarray(value)) for name, value in arrays.items())
    if first.shape != second.shape:
        raise ValueError(f"{second_name} must have the shape of {first_name}, {first.shape}, got {second.shape}.")
    if first.size == 0:
        raise ValueError(f"{first_name} must have at least one value, got shape {first.shape}.")
    return first, second


def _check_levels(quantiles: Any) -> NDArray[np.float64]:
    """Return levels of quantiles, (levels,), rising and within (0, 1)."""
    levels = np.asarray(quantiles, dtype=np.float64)
    if levels.ndim != 1 or len(levels) < 1 or not ((levels > 0) & (levels < 1)).all() or (np.diff(levels) <= 0).any():
        raise ValueError(f"quantiles must be rising levels greater than 0 and less than 1, got {quantiles!r}.")
    return levels


def _check_interval_arrays(y_true: Any, lower: Any, upper: Any) -> tuple[NDArray[np.float64], ...]:
    """Return targets and both ends as float64 of one shape, no lower end above its upper one. Reads values."""
    truth, low = _check_paired_arrays(y_true=y_true, lower=lower)
    _, high = _check_paired_arrays(y_true=y_true, upper=upper)
    truth, low, high = (np.asarray(part, dtype=np.float64) for part in (truth, low, high))
    crossed = low > high
    if crossed.any():
        at = tuple(int(i) for i in np.argwhere(crossed)[0])
        raise ValueError(f"lower must be at most upper, got {low[at]:g} and {high[at]:g} in row {at[0]}.")
    return truth, low, high
