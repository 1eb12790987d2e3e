"""Displays of training, predictions and prediction intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deepfls._checks.values import Array, evenly_spaced
from deepfls.inspection.display import COLORS, GREY, Display, draw_points, label, new_axes
from deepfls.inspection.plain_model import PlainModel, rows_of
from deepfls.inspection.words import output_name
from deepfls.metrics import picp

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from deepfls.estimators.base import FLSEstimator
    from deepfls.estimators.fls import FLSRegressor

# Largest number of rows drawn in a band.
_BAND_ROWS = 400


@dataclass
class LearningCurveDisplay(Display):
    """Loss by epoch, for training and validation rows.

    Parameters
    ----------
    history : list of dict
        Rows as in ``history_``.
    """

    history: Sequence[dict[str, float]]

    @classmethod
    def from_estimator(
        cls, estimator: FLSEstimator, *, ax: Axes | None = None, name: str | None = None
    ) -> LearningCurveDisplay:
        """The losses of the last fit."""
        return cls(estimator.history_).plot(ax, name=name)

    def plot(self, ax: Axes | None = None, *, name: str | None = None, color: str = COLORS[0]) -> LearningCurveDisplay:
        """Draw the losses by epoch; ``name`` is that of the model in the legend."""
        ax = new_axes(ax)
        epochs = [row["epoch"] for row in self.history]
        prefix = f"{label(name)}, " if name else ""
        ax.plot(epochs, [row["loss"] for row in self.history], color=color, label=f"{prefix}training")
        if self.history and "validation_loss" in self.history[0]:
            validation = [row["validation_loss"] for row in self.history]
            ax.plot(epochs, validation, color=color, linestyle="--", label=f"{prefix}validation")
        ax.set(xlabel="epoch", ylabel="loss", yscale="log")
        # Within a decade all ticks are minor ones. Plain numbers, not 6 × 10⁻².
        ax.yaxis.set_major_formatter("{x:g}")
        if np.ptp(np.log10(ax.get_ylim())) <= 1.0:
            ax.yaxis.set_minor_formatter("{x:g}")
        ax.legend(frameon=False)
        return self._finish(ax)


@dataclass
class PredictionDisplay(Display):
    """Predicted against true values, in the units of the target.

    Parameters
    ----------
    y_true, y_pred : ndarray, shape (rows,)
    """

    y_true: Array
    y_pred: Array

    @classmethod
    def from_estimator(
        cls, estimator: FLSRegressor, X: Any, y: Any, *, output: int = 0, ax: Axes | None = None
    ) -> PredictionDisplay:
        """Predictions of one output for rows X against their true values y."""
        check_is_fitted(estimator, "system_")
        if estimator._classifies:
            raise ValueError("estimator must be a regressor, got a classifier; scikit-learn has ConfusionMatrixDisplay.")
        truth, predicted = (_output_of(values, output) for values in (y, estimator.predict(X)))
        return cls(truth, predicted).plot(ax, name=estimator.target_names_[output])

    def plot(self, ax: Axes | None = None, *, name: str = "y", color: str = COLORS[0]) -> PredictionDisplay:
        """Draw predictions over true values; ``name`` is that of the target."""
        ax = new_axes(ax)
        self.y_true, self.y_pred = np.asarray(self.y_true), np.asarray(self.y_pred)
        draw_points(ax, self.y_true, self.y_pred, color=color, alpha=0.5)
        low, high = min(self.y_true.min(), self.y_pred.min()), max(self.y_true.max(), self.y_pred.max())
        ax.plot([low, high], [low, high], color=GREY, linewidth=1, linestyle=":")
        ax.set(xlabel=f"true {label(name)}", ylabel=f"predicted {label(name)}", aspect="equal")
        return self._finish(ax)


@dataclass
class BandDisplay(Display):
    """Predictions in order of size with a band around them, and the true values.

    Parameters
    ----------
    y : ndarray, shape (rows,)
        Predictions.
    lower, upper : ndarray, shape (rows,)
        Ends of the band: the type-reduced set, or a prediction interval.
    y_true : ndarray, shape (rows,), optional
    """

    y: Array
    lower: Array
    upper: Array
    y_true: Array | None = None

    @classmethod
    def from_estimator(
        cls, estimator: FLSEstimator, X: Any, y: Any = None, *, output: int = 0, ax: Axes | None = None
    ) -> BandDisplay:
        """The type-reduced set of one output around the crisp output. It is not a prediction interval."""
        s = PlainModel.of(estimator)
        if s.classes is not None and y is not None:
            raise ValueError("y must be None for a classifier, whose band is that of the score of a class.")
        reduced = s.output(rows_of(estimator, X))
        truth = None if y is None else _output_of(y, output)
        display = cls(reduced.y[:, output], reduced.y_left[:, output], reduced.y_right[:, output], truth)
        return display.plot(ax, name=output_name(s, output))

    def plot(self, ax: Axes | None = None, *, name: str = "y", color: str = COLORS[0]) -> BandDisplay:
        """Draw the band, the predictions and, where given, the true values; ``name`` is that of the target."""
        ax = new_axes(ax, 6.0, 3.6)
        order = np.argsort(self.y, kind="stable")
        order = order[evenly_spaced(len(order), _BAND_ROWS)]
        rows = np.arange(len(order))
        if (self.lower < self.upper).any():
            style: dict[str, Any] = {"color": color, "alpha": 0.25, "linewidth": 0, "label": "type-reduced set"}
            ax.fill_between(rows, self.lower[order], self.upper[order], **style)
        ax.plot(rows, self.y[order], color=color, linewidth=1.2, label="predicted")
        if self.y_true is not None:
            ax.scatter(rows, self.y_true[order], s=6, color=GREY, linewidths=0, label="true", zorder=3)
        ax.set(xlabel="rows, in order of their prediction", ylabel=label(name))
        ax.legend(frameon=False)
        return self._finish(ax)


@dataclass
class IntervalDisplay(Display):
    """Predictions with the band of their intervals, and the true values, those outside in another colour.

    Parameters
    ----------
    y_true, y_pred, lower, upper : ndarray, shape (rows,)
    x : ndarray, shape (rows,), optional
        The horizontal axis, such as an input or the time; without it the rows are ranked by their prediction.
    """

    y_true: Array
    y_pred: Array
    lower: Array
    upper: Array
    x: Array | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: FLSRegressor,
        X: Any,
        y: Any,
        *,
        coverage: float | None = None,
        output: int = 0,
        ax: Axes | None = None,
    ) -> IntervalDisplay:
        """Calibrated intervals of one output for rows X, of which at most 400 are used, with their true values y."""
        columns = _interval_columns(estimator, X, y, coverage, output)
        shown = evenly_spaced(len(columns[0]), _BAND_ROWS)
        return cls(*(column[shown] for column in columns)).plot(ax, name=estimator.target_names_[output])

    def plot(
        self, ax: Axes | None = None, *, name: str = "y", x_name: str = "x", color: str = COLORS[0]
    ) -> IntervalDisplay:
        """Draw the band, the predictions and the true values; ``name`` and ``x_name`` label the axes."""
        ax = new_axes(ax, 6.4, 3.8)
        order = np.argsort(self.y_pred if self.x is None else self.x, kind="stable")
        y_true, y_pred, lower, upper = (np.asarray(v)[order] for v in (self.y_true, self.y_pred, self.lower, self.upper))
        x = np.arange(1, len(order) + 1) if self.x is None else np.asarray(self.x)[order]
        inside = (lower <= y_true) & (y_true <= upper)
        ax.fill_between(x, lower, upper, color=color, alpha=0.2, linewidth=0, label="interval")
        ax.plot(x, y_pred, color=color, linewidth=1.2, label="predicted")
        within = f"true, {inside.mean():.1%} inside"
        ax.scatter(x[inside], y_true[inside], s=9, linewidths=0, color=GREY, alpha=0.6, label=within)
        ax.scatter(x[~inside], y_true[~inside], s=9, linewidths=0, color=COLORS[1], label="true, outside")
        ax.set(xlabel="rows, ranked by prediction" if self.x is None else label(x_name), ylabel=label(name))
        ax.legend(frameon=False, fontsize="small", ncols=2)
        return self._finish(ax)


@dataclass
class CoverageDisplay(Display):
    """Share of targets within their intervals against the nominal coverage; on the diagonal the two are equal.

    Parameters
    ----------
    nominal, covered : ndarray, shape (coverages,)
    """

    nominal: Array
    covered: Array

    @classmethod
    def from_estimator(
        cls, estimator: FLSRegressor, x: Any, y: Any, *, coverages: Sequence[float] | None = None, ax: Axes | None = None
    ) -> CoverageDisplay:
        """Coverage of a calibrated regressor on rows x and targets y; by default up to the largest calibrated coverage."""
        check_is_fitted(estimator, "system_")
        if coverages is None:
            grid = np.array([*np.arange(0.1, 0.9, 0.1), 0.9, 0.95, 0.99])
            coverages = grid[grid <= getattr(estimator.calibration_, "largest_coverage", 1.0)].tolist()
        covered = [picp(y, *estimator.predict_interval(x, coverage=coverage)) for coverage in coverages]
        return cls(np.array(coverages), np.array(covered)).plot(ax)

    def plot(self, ax: Axes | None = None, *, name: str | None = None, color: str = COLORS[0]) -> CoverageDisplay:
        """Draw the coverage reached over the nominal one; ``name`` is that of the model in the legend."""
        ax = new_axes(ax, 4.2, 4.0)
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=":")
        ax.plot(
            self.nominal, self.covered, color=color, marker="o", markersize=4, label=None if name is None else label(name)
        )
        ax.set(xlabel="nominal coverage", ylabel="share covered", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        if name is not None:
            ax.legend(frameon=False)
        return self._finish(ax)


@dataclass
class WidthErrorDisplay(Display):
    """Absolute errors against the widths of the intervals, with the mean error of each tenth of the widths.

    Where widths follow the difficulty of a sample, the line of means rises.

    Parameters
    ----------
    width, error : ndarray, shape (rows,)
    """

    width: Array
    error: Array

    @classmethod
    def from_estimator(
        cls,
        estimator: FLSRegressor,
        X: Any,
        y: Any,
        *,
        coverage: float | None = None,
        output: int = 0,
        ax: Axes | None = None,
    ) -> WidthErrorDisplay:
        """Widths of the calibrated intervals and errors of one output, for rows X and their true values y."""
        truth, predicted, lower, upper = _interval_columns(estimator, X, y, coverage, output)
        return cls(upper - lower, truth - predicted).plot(ax, name=estimator.target_names_[output])

    def plot(self, ax: Axes | None = None, *, name: str = "y", color: str = COLORS[0]) -> WidthErrorDisplay:
        """Draw the errors over the widths of the intervals; ``name`` is that of the target."""
        ax = new_axes(ax)
        width, error = np.asarray(self.width), np.abs(np.asarray(self.error))
        draw_points(ax, width, error, color=color, alpha=0.4)
        tenths = [rows for rows in np.array_split(np.argsort(width, kind="stable"), 10) if len(rows)]
        means = [[width[rows].mean() for rows in tenths], [error[rows].mean() for rows in tenths]]
        ax.plot(*means, color=COLORS[1], marker="o", markersize=4, label="mean error of a tenth")
        span = np.array([width.min(), width.max()])
        ax.plot(span, 0.5 * span, color=GREY, linewidth=1, linestyle=":", label="half the width")
        ax.set(xlabel=f"width of the interval of {label(name)}", ylabel="absolute error")
        ax.legend(frameon=False, fontsize="small")
        return self._finish(ax)


def _interval_columns(estimator: FLSRegressor, X: Any, y: Any, coverage: float | None, output: int) -> list[Array]:
    """True values, predictions and both ends of the intervals of one output, each (rows,)."""
    check_is_fitted(estimator, "system_")
    parts = (y, estimator.predict(X), *estimator.predict_interval(X, coverage=coverage))
    return [_output_of(values, output) for values in parts]


def _output_of(values: Any, output: int) -> Array:
    """One output of values (rows,) or (rows, outputs)."""
    found = np.asarray(values, dtype=np.float64)
    return found.reshape(len(found), -1)[:, output]
