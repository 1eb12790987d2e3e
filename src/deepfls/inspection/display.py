"""Plots in the manner of scikit-learn's displays: their base, and those of training, predictions, intervals and firing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deepfls._checks.arguments import check_count
from deepfls._checks.values import Array, evenly_spaced
from deepfls.inspection.plain import firing_shares
from deepfls.inspection.plain_model import PlainModel, index_of, system_at, true_values
from deepfls.inspection.words import output_name
from deepfls.metrics import picp

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from typing_extensions import Self

    from deepfls.estimators.base import FLSEstimator
    from deepfls.estimators.fls import FLSRegressor

# Distinguishable with any colour vision (Okabe and Ito).
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#666666")
# Reference lines and true values.
GREY = "#444444"
# More points than this are counted in hexagons instead of being drawn one by one.
_DENSE = 3_000
# Largest number of rows drawn in a band.
_ROWS = 400
# How a type-reduced set is filled.
SET_STYLE: dict[str, Any] = {"alpha": 0.25, "linewidth": 0, "label": "type-reduced set"}


class Display:
    """A plot of the data in its fields; ``plot`` sets ``ax_`` and ``figure_``, the matplotlib axes and their figure."""

    ax_: Axes
    figure_: Figure

    def _finish(self, ax: Axes, *, legend: Mapping[str, Any] | None = None, **axes: Any) -> Self:
        """Set labels and limits, add a legend with the given options, hide two spines, and store the axes."""
        ax.set(**axes)
        if legend is not None:
            ax.legend(frameon=False, **legend)
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, cast("Figure", ax.figure)
        return self


def label(name: object, width: int = 40) -> str:
    """A name as a label: one line, shortened, with "$" escaped so that no part is read as a formula."""
    text = " ".join(str(name).split())
    text = text if len(text) <= width else text[: width - 1] + "…"
    return text.replace("$", r"\$")


def new_figure(width: float, height: float) -> Figure:
    """A figure outside pyplot, which keeps no list of it; width and height are in inches.

    Examples
    --------
    >>> from deepfls.inspection import new_figure
    >>> ax = new_figure(4.0, 3.0).subplots()
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.1)  # inches, so that the last tick label is not cut off
    figure = Figure(figsize=(width, height), layout=layout, dpi=150)
    FigureCanvasAgg(figure)
    return figure


def new_axes(ax: Axes | None, width: float = 5.0, height: float = 4.0) -> Axes:
    """The axes given, or those of a new figure."""
    return new_figure(width, height).subplots() if ax is None else ax


def draw_points(ax: Axes, x: Array, y: Array, *, color: str, alpha: float) -> None:
    """Points, or counts in hexagons for many points."""
    if len(x) > _DENSE:
        ax.hexbin(x, y, gridsize=60, bins="log", cmap="Blues", mincnt=1, linewidths=0)
    else:
        ax.scatter(x, y, s=8, alpha=alpha, color=color, linewidths=0)


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
    def from_estimator(cls, estimator: FLSEstimator, *, ax: Axes | None = None, name: str | None = None) -> Self:
        """The losses of the last fit."""
        check_is_fitted(estimator, "system_")
        return cls(estimator.history_).plot(ax, name=name)

    def plot(self, ax: Axes | None = None, *, name: str | None = None, color: str = COLORS[0]) -> Self:
        """Draw the losses by epoch; ``name`` is that of the model in the legend."""
        ax = new_axes(ax)
        epochs = [row["epoch"] for row in self.history]
        prefix = f"{label(name)}, " if name else ""
        for key, line, text in (("loss", "-", "training"), ("validation_loss", "--", "validation")):
            if key == "loss" or (self.history and key in self.history[0]):
                losses = [row[key] for row in self.history]
                ax.plot(epochs, losses, color=color, linestyle=line, label=f"{prefix}{text}")
        ax.set(xlabel="epoch", ylabel="loss", yscale="log")
        # Within a decade all ticks are minor ones. Plain numbers, not 6 × 10⁻².
        ax.yaxis.set_major_formatter("{x:g}")
        if np.ptp(np.log10(ax.get_ylim())) <= 1.0:
            ax.yaxis.set_minor_formatter("{x:g}")
        return self._finish(ax, legend={})


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
        cls, estimator: FLSRegressor, X: Any, y: Any, *, output: int | str = 0, ax: Axes | None = None
    ) -> Self:
        """Predictions of one output for rows X against their true values y."""
        _check_regressor(estimator, "scikit-learn has ConfusionMatrixDisplay")
        name, (truth, predicted) = _columns(estimator, y, output, estimator.predict(X))
        return cls(truth, predicted).plot(ax, name=name)

    def plot(self, ax: Axes | None = None, *, name: str = "y", color: str = COLORS[0]) -> Self:
        """Draw predictions over true values; ``name`` is that of the target."""
        ax = new_axes(ax)
        self.y_true, self.y_pred = np.asarray(self.y_true), np.asarray(self.y_pred)
        draw_points(ax, self.y_true, self.y_pred, color=color, alpha=0.5)
        low, high = min(self.y_true.min(), self.y_pred.min()), max(self.y_true.max(), self.y_pred.max())
        ax.plot([low, high], [low, high], color=GREY, linewidth=1, linestyle=":")
        return self._finish(ax, xlabel=f"true {label(name)}", ylabel=f"predicted {label(name)}", aspect="equal")


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
        cls, estimator: FLSEstimator, X: Any, y: Any = None, *, output: int | str = 0, ax: Axes | None = None
    ) -> Self:
        """The type-reduced set of one output around the crisp output. It is not a prediction interval."""
        s = PlainModel.of(estimator)
        if s.classes is not None and y is not None:
            raise ValueError("y must be None for a classifier, whose band is that of the score of a class.")
        output = index_of(output, s.output_names, "output")
        reduced = s.output(estimator._known_x(X))
        truth = None if y is None else true_values(s, reduced.y, y)[:, output]
        display = cls(reduced.y[:, output], reduced.y_left[:, output], reduced.y_right[:, output], truth)
        return display.plot(ax, name=output_name(s, output))

    def plot(self, ax: Axes | None = None, *, name: str = "y", color: str = COLORS[0]) -> Self:
        """Draw the band, the predictions and, where given, the true values; ``name`` is that of the target."""
        ax = new_axes(ax, 6.0, 3.6)
        order = np.argsort(self.y, kind="stable")[evenly_spaced(len(self.y), _ROWS)]
        rows = np.arange(len(order))
        if (self.lower < self.upper).any():
            ax.fill_between(rows, self.lower[order], self.upper[order], **SET_STYLE, color=color)
        ax.plot(rows, self.y[order], color=color, linewidth=1.2, label="predicted")
        if self.y_true is not None:
            ax.scatter(rows, self.y_true[order], s=6, color=GREY, linewidths=0, label="true", zorder=3)
        return self._finish(ax, legend={}, xlabel="rows, in order of their prediction", ylabel=label(name))


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
        output: int | str = 0,
        ax: Axes | None = None,
    ) -> Self:
        """Calibrated intervals of one output for rows X, of which at most 400 are used, with their true values y."""
        name, columns = _interval_columns(estimator, X, y, coverage, output)
        shown = evenly_spaced(len(columns[0]), _ROWS)
        return cls(*(column[shown] for column in columns)).plot(ax, name=name)

    def plot(self, ax: Axes | None = None, *, name: str = "y", x_name: str = "x", color: str = COLORS[0]) -> Self:
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
        x_label = "rows, ranked by prediction" if self.x is None else label(x_name)
        return self._finish(ax, legend={"fontsize": "small", "ncols": 2}, xlabel=x_label, ylabel=label(name))


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
        cls, estimator: FLSRegressor, X: Any, y: Any, *, coverages: Sequence[float] | None = None, ax: Axes | None = None
    ) -> Self:
        """Coverage of a calibrated regressor on rows X and targets y; by default up to the largest calibrated coverage."""
        _check_regressor(estimator, "predict_set gives sets of classes")
        if coverages is None:
            grid = np.array([*np.arange(0.1, 0.9, 0.1), 0.9, 0.95, 0.99])
            coverages = grid[grid <= getattr(estimator.calibration_, "largest_coverage", 1.0)].tolist()
        predicted = estimator.predict(X)
        truth = true_values(PlainModel.of(estimator), predicted, y).reshape(predicted.shape)
        covered = [picp(truth, *estimator.predict_interval(X, coverage=coverage)) for coverage in coverages]
        return cls(np.array(coverages), np.array(covered)).plot(ax)

    def plot(self, ax: Axes | None = None, *, name: str | None = None, color: str = COLORS[0]) -> Self:
        """Draw the coverage reached over the nominal one; ``name`` is that of the model in the legend."""
        ax = new_axes(ax, 4.2, 4.0)
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=":")
        shown = None if name is None else label(name)
        ax.plot(self.nominal, self.covered, color=color, marker="o", markersize=4, label=shown)
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        return self._finish(ax, legend={} if name else None, xlabel="nominal coverage", ylabel="share covered")


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
        output: int | str = 0,
        ax: Axes | None = None,
    ) -> Self:
        """Widths of the calibrated intervals and errors of one output, for rows X and their true values y."""
        name, (truth, predicted, lower, upper) = _interval_columns(estimator, X, y, coverage, output)
        return cls(upper - lower, truth - predicted).plot(ax, name=name)

    def plot(self, ax: Axes | None = None, *, name: str = "y", color: str = COLORS[0]) -> Self:
        """Draw the errors over the widths of the intervals; ``name`` is that of the target."""
        ax = new_axes(ax)
        width, error = np.asarray(self.width), np.abs(np.asarray(self.error))
        draw_points(ax, width, error, color=color, alpha=0.4)
        tenths = [rows for rows in np.array_split(np.argsort(width, kind="stable"), 10) if len(rows)]
        means = [[width[rows].mean() for rows in tenths], [error[rows].mean() for rows in tenths]]
        ax.plot(*means, color=COLORS[1], marker="o", markersize=4, label="mean error of a tenth")
        span = np.array([width.min(), width.max()])
        ax.plot(span, 0.5 * span, color=GREY, linewidth=1, linestyle=":", label="half the width")
        x_label = f"width of the interval of {label(name)}"
        return self._finish(ax, legend={"fontsize": "small"}, xlabel=x_label, ylabel="absolute error")


def _check_regressor(estimator: FLSEstimator, instead: str) -> None:
    check_is_fitted(estimator, "system_")
    if estimator._classifies:
        raise ValueError(f"estimator must be a regressor, got a classifier; {instead}.")


def _interval_columns(
    estimator: FLSRegressor, X: Any, y: Any, coverage: float | None, output: int | str
) -> tuple[str, list[Array]]:
    """Name of one output; its true values, predictions and both ends of the intervals, each (rows,)."""
    _check_regressor(estimator, "predict_set gives sets of classes")
    return _columns(estimator, y, output, estimator.predict(X), *estimator.predict_interval(X, coverage=coverage))


def _columns(estimator: FLSRegressor, y: Any, output: int | str, *predicted: Array) -> tuple[str, list[Array]]:
    """Name of one output; its true values and predictions, each (rows,)."""
    place = index_of(output, estimator.target_names_, "output")
    truth = true_values(PlainModel.of(estimator), predicted[0], y)
    return estimator.target_names_[place], [values.reshape(len(truth), -1)[:, place] for values in (truth, *predicted)]


@dataclass
class FiringMapDisplay(Display):
    """Firing of the rules along an input: the share of the firing of every rule, averaged over the rows of each bin.

    Parameters
    ----------
    name : str
        The input along which rows are put into bins.
    edges : ndarray, shape (bins + 1,)
    shares : ndarray, shape (rules, bins)
        NaN in bins without rows.
    title : str, optional
        Which of several systems is shown.
    """

    name: str
    edges: Array
    shares: Array
    title: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: FLSEstimator,
        X: Any,
        *,
        feature: int | str = 0,
        n_bins: int = 40,
        system: int = 0,
        ax: Axes | None = None,
    ) -> Self:
        """Firing on the rows of X whose value is known; ``system`` is the place, from 0, of one of several systems."""
        s, title = system_at(estimator, system)
        m = index_of(feature, s.feature_names, "feature")
        x = estimator._known_x(X)
        x = x[~np.isnan(x[:, m])]
        low, high = (float(x[:, m].min()), float(x[:, m].max())) if len(x) else (0.0, 0.0)
        edges = np.linspace(*((low, high) if high > low else s.input_span(m)), check_count("n_bins", n_bins) + 1)
        bins = np.clip(np.searchsorted(edges, x[:, m], side="right") - 1, 0, n_bins - 1)
        counts = np.bincount(bins, minlength=n_bins)
        row_shares = firing_shares(*s.firing(x))
        sums = np.stack([np.bincount(bins, weights=column, minlength=n_bins) for column in row_shares.T])
        shares = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        return cls(s.feature_names[m], edges, shares, title).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the map."""
        n_rules = len(self.shares)
        ax = new_axes(ax, 6.0, 1.4 + 0.2 * min(max(n_rules, 4), 30))
        ax.set_facecolor("0.88")  # bins without rows
        image = ax.pcolormesh(self.edges, np.arange(n_rules + 1) + 0.5, self.shares, cmap="Blues", vmin=0.0)
        step = max(1, math.ceil(n_rules / 20))
        ax.set_yticks(range(1, n_rules + 1, step))
        ax.invert_yaxis()
        ax.figure.colorbar(image, ax=ax, label="share of the firing")
        return self._finish(ax, xlabel=label(self.name), ylabel="rule", title=self.title)
