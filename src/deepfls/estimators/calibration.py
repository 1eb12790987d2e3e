"""Conformal calibration: from scores of held-out rows to intervals and sets of a stated coverage. NumPy only.

A score states how far a target lies from its prediction, in units in which all rows are alike. If the held-out rows and a
new row are exchangeable, the score of the new row is at most the k-th smallest of n scores with a probability of
k / (n + 1) or more, for any model and any distribution of the data. So ``k = ceil((n + 1) coverage)`` gives the coverage
(Vovk, Gammerman and Shafer 2005; Lei et al. 2018; Romano, Patterson and Candès 2019).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize

from deepfls._checks.arguments import check_coverage
from deepfls._checks.values import Array, comparable
from deepfls.data.columns import Columns

# The local scale is held within these factors of its mean: beyond them it is an extrapolation. A part is common to all
# rows, because residuals of training rows predict the difficulty of new rows only in part.
_SCALE_RANGE, _COMMON = (0.25, 4.0), 0.5
# Share of the mean residual that is added to each: the logarithm of 0 is not finite.
_RESIDUAL_FLOOR = 0.05
# Bound of the logarithm of a local scale while it is fitted, so that its exponential stays finite.
_LARGEST_LOG = 50.0


def conformal_quantile(scores: Array, coverage: float, weight: Array | None = None, *, group: str = "") -> Array:
    """The score that a new row does not exceed with a probability of ``coverage`` or more.

    It is the ``ceil((n + 1) coverage)``-th smallest of n scores, (outputs,) for scores (rows, outputs). With weights
    (rows,) it is the smallest score up to which the weights add up to ``coverage`` of their sum, a new row of the mean
    weight included. ``group`` names the rows in the error about too few of them.
    """
    coverage = check_coverage(coverage)
    n_rows = len(scores)
    check_calibration_rows(n_rows, coverage, group)
    # (n + 1) coverage may miss a whole number by the last bit.
    needed = round((n_rows + 1) * coverage, 9)
    if weight is None:
        return np.sort(scores, axis=0)[math.ceil(needed) - 1]
    order = np.argsort(scores, axis=0, kind="stable")
    reached = np.cumsum((weight / weight.mean())[order], axis=0)
    place = np.minimum((reached < needed - 1e-9).sum(axis=0), n_rows - 1)
    return np.take_along_axis(scores, np.take_along_axis(order, place[None], axis=0), axis=0)[0]


def conformal_level(scores: Array, sides: Array, level: float, weight: Array | None = None, *, group: str = "") -> Array:
    """Side and score (2, outputs) of the ``level`` quantile of a new row.

    Held-out targets in their order, from the farthest below the middle of their interval to the farthest above it, have
    ranks from 1 to n. A new target is equally likely to fall between any two of them, so the quantile is that of rank
    ``(n + 1) level``, rounded away from the middle: at most a share ``level`` of new targets lies below it for levels under
    1/2, and at least this share for the others.
    """
    n_rows = len(scores)
    needed = round((n_rows + 1) * level, 9)
    if not 1.0 <= needed <= n_rows:
        where = f" of the group {group}" if group else ""
        lowest = math.ceil(1e4 / (n_rows + 1)) / 1e4  # never rounded outwards
        raise ValueError(
            f"levels must be between {lowest:g} and {1 - lowest:g} for {n_rows} calibration rows{where}, got {level:g}; "
            "hold more out with calibration_fraction, train on more rows, or ask for other levels."
        )
    found = np.empty((2, scores.shape[1]))
    for output in range(scores.shape[1]):
        order = np.lexsort((sides[:, output] * scores[:, output], sides[:, output]))
        reached = np.arange(1.0, n_rows + 1) if weight is None else np.cumsum((weight / weight.mean())[order])
        below = (reached <= needed + 1e-9).sum() - 1 if level < 0.5 else (reached < needed - 1e-9).sum()
        row = order[min(max(below, 0), n_rows - 1)]
        found[:, output] = sides[row, output], scores[row, output]
    return found


def interval_scores(y_true: Array, y: Array, below: Array, above: Array) -> Array:
    """How many times the reaches ``below`` and ``above`` of an interval around y a target lies from y.

    All arrays are (rows, outputs), the reaches positive. A target at y has the score 0, one at either end the score 1.
    """
    error = y_true - y
    return np.maximum(-error / below, error / above)


def quantile_scores(y_true: Array, lower: Array, upper: Array) -> Array:
    """How far a target lies outside the interval, negative inside: the score of conformalised quantile regression."""
    return np.maximum(lower - y_true, y_true - upper)


def adaptive_scores(probabilities: Array) -> Array:
    """Summed probability of the classes at least as probable as each, (rows, classes): larger sets where classes are close.

    Romano, Sesia and Candès (2020), without their randomisation, so that a row always gets the same set.
    """
    order = np.argsort(-probabilities, axis=1, kind="stable")
    sums = np.cumsum(np.take_along_axis(probabilities, order, axis=1), axis=1)
    scores = np.empty_like(sums)
    np.put_along_axis(scores, order, sums, axis=1)
    return scores


def fit_log_scale(design: Array, residuals: Array, penalty: float) -> Array:
    """Coefficients (terms + 1, outputs) of the logarithm of a local scale, the constant last.

    ``log s = design · b + b₀`` maximises the likelihood of residuals whose absolute values have the mean s (an exponential
    law, which is gamma regression with a logarithmic link), with a ridge penalty on b. Zeros where residuals are all equal
    or fewer than the terms.
    """
    n_rows, n_terms = design.shape
    found = np.zeros((n_terms + 1, residuals.shape[1]))
    if n_rows < n_terms:
        # A system that can pass through every row has residuals without information about new rows.
        return found
    for output, sizes in enumerate(np.abs(residuals).T):
        mean = float(np.average(sizes))
        if not mean > 0 or np.ptp(sizes) == 0:
            continue
        coefficients = _gamma_regression(design, sizes / mean + _RESIDUAL_FLOOR, penalty)
        if np.isfinite(coefficients).all():
            found[:, output] = coefficients
    return found


def _gamma_regression(design: Array, sizes: Array, penalty: float) -> Array:
    """Coefficients (terms + 1,) that minimise the mean of ``log s + sizes / s`` plus ``penalty`` / 2 |b|².

    Not scikit-learn's: it warns where the optimiser stops before the last digits, which do not matter here, and warnings
    cannot be held back in one thread alone.
    """
    share = np.full(len(sizes), 1.0 / len(sizes))

    def loss_and_slope(own: Array) -> tuple[float, Array]:
        logs = np.clip(design @ own[:-1] + own[-1], -_LARGEST_LOG, _LARGEST_LOG)
        ratios = sizes * np.exp(-logs)
        by_logs = share * (1.0 - ratios)
        loss = float(share @ (logs + ratios)) + 0.5 * penalty * float(own[:-1] @ own[:-1])
        return loss, np.append(design.T @ by_logs + penalty * own[:-1], by_logs.sum())

    start = np.append(np.zeros(design.shape[1]), np.log(share @ sizes))
    return np.asarray(
        scipy.optimize.minimize(loss_and_slope, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    )


def local_scale(design: Array, coefficients: Array) -> Array:
    """The scale of :func:`fit_log_scale` at new rows, (rows, outputs), about 1 on average."""
    low, high = np.log(_SCALE_RANGE)
    own = np.exp(np.clip(design @ coefficients[:-1] + coefficients[-1], low, high))
    return (own + _COMMON) / (1.0 + _COMMON)


@dataclass(frozen=True)
class Calibration:
    """Scores of held-out rows, from which intervals of any coverage follow; made by a fit with ``coverage``."""

    # "cqr", "split", "alpha", "aps"; not calibrated: "none", the set as it was trained, or "planes", all of them as trained
    method: str
    coverage: float  # of the fit
    normalized: bool  # whether scores are relative to a local scale
    scores: Array  # (rows, outputs): those of the held-out rows; for classes (rows, 1)
    weight: Array | None = None  # (rows,)
    group_columns: tuple[int, ...] = ()  # inputs whose values make the groups; empty where there are none
    groups: Array | None = None  # (rows, columns): their values in the held-out rows
    # (outputs,): added to the learned reaches before scores are divided by them ("cqr", normalised)
    floor: Array | None = None
    scale: Array | None = None  # (terms + 1, outputs): coefficients of the local scale ("split", normalised)
    sides: Array | None = None  # (rows, outputs): -1 where the target lies below the middle of its interval, else 1

    @property
    def n_rows(self) -> int:
        return len(self.scores)

    @property
    def largest_coverage(self) -> float:
        """The largest coverage that the rows can give; with groups, the rows of the smallest one."""
        counts = [self.n_rows] if self.groups is None else np.unique(self.groups, axis=0, return_counts=True)[1]
        return largest_coverage(int(min(counts)))

    def quantile(self, coverage: float, x: Array, table: Columns | None = None) -> Array:
        """The calibrated score for rows x (rows, features) in the units of the data, (rows, outputs) or (1, outputs).

        Errors name the groups as in the ``table``.
        """
        return self._by_group(
            x,
            lambda rows, weight, group: conformal_quantile(self.scores[rows], coverage, weight, group=group),
            table,
        )

    def signed_quantile(self, level: float, x: Array, table: Columns | None = None) -> tuple[Array, Array]:
        """Side and score of a quantile of the target for rows x, each (rows, outputs) or (1, outputs)."""
        if self.sides is None:
            raise ValueError("predict_quantiles must follow a calibration that kept the sides of its scores; fit again.")
        sides = self.sides
        found = self._by_group(
            x,
            lambda rows, weight, group: conformal_level(self.scores[rows], sides[rows], level, weight, group=group),
            table,
        )
        return found[:, 0], found[:, 1]

    def _by_group(
        self, x: Array, quantile: Callable[[Array | slice, Array | None, str], Array], table: Columns | None
    ) -> Array:
        """What a function of calibration rows, their weights and the name of their group gives for rows x, (rows, ...)."""
        if self.groups is None:
            return quantile(slice(None), self.weight, "")[None]
        known, member = np.unique(self.groups, axis=0, return_inverse=True)
        asked, place = np.unique(comparable(x[:, list(self.group_columns)]), axis=0, return_inverse=True)
        found = (asked[:, None, :] == known[None, :, :]).all(axis=2)
        if not found.any(axis=1).all():
            parts = asked[~found.any(axis=1)], known
            unknown, names = ([group_name(group, self.group_columns, table) for group in part] for part in parts)
            more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
            shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
            raise ValueError(
                f"group must be one that was calibrated, {shown}, got {unknown[0]}{more}; fit with rows of that group, or "
                "with group_calibration=None."
            )
        quantiles = []
        for at in found.argmax(axis=1):
            rows, name = member.ravel() == at, group_name(known[at], self.group_columns, table)
            quantiles.append(quantile(rows, None if self.weight is None else self.weight[rows], name))
        return np.stack(quantiles)[place.ravel()]

    def arrays(self) -> dict[str, Array]:
        """The arrays by name, for a model file."""
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    def description(self) -> dict[str, Any]:
        """Everything but the arrays, in plain values."""
        names = ("method", "coverage", "normalized", "group_columns")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def restored(cls, description: dict[str, Any], arrays: dict[str, Array]) -> Calibration:
        """The calibration of :meth:`description` and :meth:`arrays`; KeyError or ValueError where they do not fit."""
        scores, columns = arrays["scores"], tuple(int(column) for column in description["group_columns"])
        n_rows, n_outputs = scores.shape
        shapes = {"weight": (n_rows,), "groups": (n_rows, len(columns)), "floor": (n_outputs,), "sides": scores.shape}
        for name, shape in shapes.items():
            if name in arrays and arrays[name].shape != shape:
                raise ValueError(f"calibration.{name} has the shape {arrays[name].shape}, not {shape}")
        if bool(columns) != ("groups" in arrays):
            raise ValueError("the calibration has groups without columns, or columns without groups")
        return cls(
            method=str(description["method"]),
            coverage=check_coverage(description["coverage"]),
            normalized=bool(description["normalized"]),
            group_columns=columns,
            **arrays,
        )


def largest_coverage(n_rows: int) -> float:
    """The largest coverage that a number of calibration rows can give."""
    return n_rows / (n_rows + 1)


def check_calibration_rows(n_rows: int, coverage: float, group: str = "") -> None:
    """Require as many calibration rows as the coverage needs: the fewest n with ``(n + 1) coverage <= n``."""
    # 1 / (1 - 0.9) is a little above 10 in binary.
    needed = max(1, math.ceil(round(1.0 / (1.0 - coverage), 9)) - 1)
    if n_rows < needed:
        where = f" in the group {group}" if group else ""
        possible = math.floor(largest_coverage(n_rows) * 1e4) / 1e4  # never rounded up
        raise ValueError(
            f"The calibration set must have {needed} rows or more{where} to promise a coverage of {coverage:g}, got "
            f"{n_rows}; hold more out with calibration_fraction, train on more rows, or ask for {possible:g} or less."
        )


def check_enough_rows(x: Array, columns: tuple[int, ...], coverage: float, table: Columns) -> None:
    """Require as many calibration rows x (rows, features) as the coverage needs, in every group."""
    values, counts = np.unique(comparable(x[:, list(columns)]), axis=0, return_counts=True)
    for value, count in zip(values, counts, strict=True):
        check_calibration_rows(int(count), coverage, group_name(value, columns, table))
    check_calibration_rows(len(x), coverage)


def group_name(values: Array, columns: tuple[int, ...], table: Columns | None = None) -> str:
    """A group as text, by the values of its inputs; "" without groups. Without a ``table`` all inputs are numbers."""
    return (table or Columns.numbers(max(columns, default=-1) + 1)).values_text(columns, values)


def held_out_rows(n_rows: int, coverage: float, fraction: float | str) -> int:
    """How many of ``n_rows`` to hold out for a calibration.

    "auto" takes a fifth, and from 5,000 rows on ``sqrt(200 n)``: the scatter of the coverage falls with the root of the
    rows held out, so more rows cost the model more than the intervals gain. It takes at least as many as the coverage needs
    where that leaves half of the rows, and a number at which ``(n + 1) coverage`` is an integer, so that no coverage is
    lost to rounding.

    Examples
    --------
    >>> held_out_rows(354, 0.9, "auto"), held_out_rows(354, 0.99, "auto"), held_out_rows(20_000, 0.9, "auto")
    (69, 99, 1999)
    """
    if fraction != "auto":
        return min(max(1, round(float(fraction) * n_rows)), max(n_rows - 1, 1))
    wanted = min(0.2 * n_rows, math.sqrt(200.0 * n_rows))
    step = round(1.0 / (1.0 - coverage), 6)
    whole = max(1, math.floor((wanted + 1) / step)) * step
    return min(math.ceil(round(whole, 6)) - 1, max(n_rows // 2, 1))
