"""Displays of prediction intervals: band, coverage against nominal, width against error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deepfls.inspection.canvas import COLORS, label, new_axes, plain
from deepfls.inspection.plain import Array
from deepfls.inspection.prediction_plots import DENSE
from deepfls.metrics import picp


@dataclass
class IntervalDisplay:
    """Predictions with the band of their intervals, and the true values, those outside in another colour.

    Parameters
    ----------
    y_true, y_pred, lower, upper : ndarray, shape (rows,)
    x : ndarray, shape (rows,), optional
        What the rows are drawn over, such as an input or the time; without it they are ranked by their prediction.
    """

    y_true: Array
    y_pred: Array
    lower: Array
    upper: Array
    x: Array | None = None
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    def plot(self, ax: Any = None, *, name: str = "y", x_name: str = "x", color: str = COLORS[0]) -> IntervalDisplay:
        ax = new_axes(ax, 6.4, 3.8)
        order = np.argsort(self.y_pred if self.x is None else self.x, kind="stable")
        y_true, y_pred, lower, upper = (np.asarray(v)[order] for v in (self.y_true, self.y_pred, self.lower, self.upper))
        place = np.arange(1, len(order) + 1) if self.x is None else np.asarray(self.x)[order]
        inside = (lower <= y_true) & (y_true <= upper)
        ax.fill_between(place, lower, upper, color=color, alpha=0.2, linewidth=0, label="interval")
        ax.plot(place, y_pred, color=color, linewidth=1.2, label="predicted")
        dots = {"s": 9, "linewidths": 0}
        ax.scatter(
            place[inside], y_true[inside], color="#444444", alpha=0.6, label=f"true, {inside.mean():.1%} inside", **dots
        )
        ax.scatter(place[~inside], y_true[~inside], color=COLORS[1], label="true, outside", **dots)
        ax.set(xlabel="rows, ranked by prediction" if self.x is None else label(x_name), ylabel=label(name))
        ax.legend(frameon=False, fontsize="small", ncols=2)
        plain(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass
class CoverageDisplay:
    """Share of targets within their intervals against the nominal coverage; on the diagonal a promise is kept.

    Parameters
    ----------
    nominal, covered : ndarray, shape (coverages,)
    """

    nominal: Array
    covered: Array
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_estimator(
        cls, estimator: Any, x: Any, y: Any, *, coverages: Sequence[float] | None = None, ax: Any = None
    ) -> CoverageDisplay:
        """Coverage of a calibrated regressor on rows x and targets y; up to what its calibration can promise by default."""
        check_is_fitted(estimator, "system_")
        if coverages is None:
            grid = np.array([*np.arange(0.1, 0.9, 0.1), 0.9, 0.95, 0.99])
            coverages = grid[grid <= getattr(estimator.calibration_, "largest_coverage", 1.0)].tolist()
        covered = [picp(y, *estimator.predict_interval(x, coverage=coverage)) for coverage in coverages]
        return cls(np.array(coverages), np.array(covered)).plot(ax)

    def plot(self, ax: Any = None, *, name: str | None = None, color: str = COLORS[0]) -> CoverageDisplay:
        ax = new_axes(ax, 4.2, 4.0)
        ax.plot([0, 1], [0, 1], color="#444444", linewidth=1, linestyle=":")
        ax.plot(
            self.nominal, self.covered, color=color, marker="o", markersize=4, label=None if name is None else label(name)
        )
        ax.set(xlabel="nominal coverage", ylabel="share covered", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        if name is not None:
            ax.legend(frameon=False)
        plain(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass
class WidthErrorDisplay:
    """Absolute errors against the widths of the intervals, with the mean error of each tenth of the widths.

    Where widths follow the difficulty of a sample, the line of means rises.

    Parameters
    ----------
    width, error : ndarray, shape (rows,)
    """

    width: Array
    error: Array
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    def plot(self, ax: Any = None, *, name: str = "y", color: str = COLORS[0]) -> WidthErrorDisplay:
        ax = new_axes(ax)
        width, error = np.asarray(self.width), np.abs(np.asarray(self.error))
        if len(width) > DENSE:
            ax.hexbin(width, error, gridsize=60, bins="log", cmap="Blues", mincnt=1, linewidths=0)
        else:
            ax.scatter(width, error, s=8, alpha=0.4, color=color, linewidths=0)
        tenths = [rows for rows in np.array_split(np.argsort(width, kind="stable"), 10) if len(rows)]
        means = [[width[rows].mean() for rows in tenths], [error[rows].mean() for rows in tenths]]
        ax.plot(*means, color=COLORS[1], marker="o", markersize=4, label="mean error of a tenth")
        span = np.array([width.min(), width.max()])
        ax.plot(span, 0.5 * span, color="#444444", linewidth=1, linestyle=":", label="half the width")
        ax.set(xlabel=f"width of the interval of {label(name)}", ylabel="absolute error")
        ax.legend(frameon=False, fontsize="small")
        plain(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
