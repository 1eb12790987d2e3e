"""Plots of learned systems, in the manner of scikit-learn's displays: data in, ``plot(ax=None)`` returns the display.

matplotlib is imported inside, without pyplot, so that nothing global changes and no window system is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from deepfls.functional.memberships import gaussian_grades, interval_gaussian_grades
from deepfls.learner import FLSEstimator
from deepfls.metrics import picp
from deepfls.nn.systems import IT2FLS

Array = np.ndarray[Any, np.dtype[Any]]

# Distinguishable with any colour vision (Okabe and Ito).
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#666666")
# More points than this are counted in hexagons rather than drawn one by one.
_DENSE = 3_000


def label(name: object, width: int = 40) -> str:
    """A name as a label: shortened, on one line, and never read as a formula."""
    text = " ".join(str(name).split())
    text = text if len(text) <= width else text[: width - 1] + "…"
    return text.replace("$", r"\$")


def new_figure(width: float, height: float) -> Any:
    """A figure that belongs to nobody else."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    return figure


def _axes(ax: Any | None, width: float = 5.0, height: float = 4.0) -> Any:
    return new_figure(width, height).subplots() if ax is None else ax


@dataclass
class LearningCurveDisplay:
    """Loss by epoch, for training and validation rows.

    Parameters
    ----------
    history : list of dict
        Rows as in ``history_``.
    """

    history: Sequence[dict[str, float]]
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_estimator(cls, estimator: FLSEstimator, *, ax: Any = None, name: str | None = None) -> LearningCurveDisplay:
        return cls(estimator.history_).plot(ax, name=name)

    def plot(self, ax: Any = None, *, name: str | None = None, color: str = COLORS[0]) -> LearningCurveDisplay:
        ax = _axes(ax)
        epochs = [row["epoch"] for row in self.history]
        prefix = f"{label(name)}, " if name else ""
        ax.plot(epochs, [row["loss"] for row in self.history], color=color, label=f"{prefix}training")
        if self.history and "validation_loss" in self.history[0]:
            validation = [row["validation_loss"] for row in self.history]
            ax.plot(epochs, validation, color=color, linestyle="--", label=f"{prefix}validation")
        ax.set(xlabel="epoch", ylabel="loss", yscale="log")
        ax.legend(frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass
class PredictionDisplay:
    """Predicted against true values, in the units of the target.

    Parameters
    ----------
    y_true, y_pred : ndarray, shape (rows,)
    """

    y_true: Array
    y_pred: Array
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    def plot(self, ax: Any = None, *, name: str = "y", color: str = COLORS[0]) -> PredictionDisplay:
        ax = _axes(ax)
        self.y_true, self.y_pred = np.asarray(self.y_true), np.asarray(self.y_pred)
        if len(self.y_true) > _DENSE:
            ax.hexbin(self.y_true, self.y_pred, gridsize=60, bins="log", cmap="Blues", mincnt=1, linewidths=0)
        else:
            ax.scatter(self.y_true, self.y_pred, s=8, alpha=0.5, color=color, linewidths=0)
        low, high = min(self.y_true.min(), self.y_pred.min()), max(self.y_true.max(), self.y_pred.max())
        ax.plot([low, high], [low, high], color="#444444", linewidth=1, linestyle=":")
        ax.set(xlabel=f"true {label(name)}", ylabel=f"predicted {label(name)}", aspect="equal")
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass
class MembershipsDisplay:
    """The sets of every rule over each input, in the units of the data; IT2 sets with their footprint.

    Parameters
    ----------
    names : list of str
        Names of the inputs shown.
    grids : list of ndarray, shape (points,)
        Values of each input.
    lower, upper : list of ndarray, shape (points, rules)
        Grades at these values; equal for Type-1 sets.
    """

    names: Sequence[str]
    grids: Sequence[Array]
    lower: Sequence[Array]
    upper: Sequence[Array]
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_estimator(
        cls, estimator: FLSEstimator, *, features: Sequence[int] | None = None, n_points: int = 200, span: float = 1.5
    ) -> MembershipsDisplay:
        """Sets of the given inputs, the first nine by default, from ``span`` typical widths below the lowest center to as
        many above the highest."""
        check_is_fitted(estimator, "system_")
        system, scaling = estimator.system_, estimator.x_scaling_
        chosen = list(range(min(system.n_features, 9))) if features is None else list(features)
        names = getattr(estimator, "feature_names_in_", [f"x{m}" for m in range(system.n_features)])
        widths = system.upper_sigmas if isinstance(system, IT2FLS) else system.sigmas
        display = cls([str(names[m]) for m in chosen], [], [], [])
        for m in chosen:
            column = slice(m, m + 1)
            centers = system.centers[:, column]
            margin = span * widths[:, m].median().item()
            z = torch.linspace(centers.min().item() - margin, centers.max().item() + margin, n_points, dtype=torch.float64)
            x = z.to(centers.device).unsqueeze(1)
            if isinstance(system, IT2FLS):
                lower_sigmas, upper_sigmas = system.lower_sigmas[:, column], system.upper_sigmas[:, column]
                grades = interval_gaussian_grades(x, centers, lower_sigmas, upper_sigmas, system.heights[:, column])
            else:
                one = gaussian_grades(x, centers, system.sigmas[:, column])
                grades = (one, one)  # type: ignore[assignment]  # unpacked below like the named tuple
            lower, upper = (grade[:, :, 0].detach().cpu().numpy() for grade in grades)
            display.grids = [*display.grids, z.numpy() * scaling.scale[m] + scaling.shift[m]]
            display.lower, display.upper = [*display.lower, lower], [*display.upper, upper]
        return display

    def plot(self, axes: Any = None, *, rules: Sequence[int] | None = None) -> MembershipsDisplay:
        """Draw the sets of ``rules``, the first seven by default, in colours of their own, the others in the background."""
        n_shown = len(self.names)
        n_rules = self.upper[0].shape[1]
        shown = list(range(min(n_rules, len(COLORS)))) if rules is None else list(rules)
        others = [rule for rule in range(n_rules) if rule not in shown]
        n_columns = min(n_shown, 3)
        if axes is None:
            n_rows = math.ceil(n_shown / n_columns)
            axes = new_figure(3.6 * n_columns, 2.3 * n_rows).subplots(n_rows, n_columns, squeeze=False)
        axes = np.asarray(axes).ravel()
        for ax, name, grid, lower, upper in zip(axes, self.names, self.grids, self.lower, self.upper, strict=False):
            if others:
                ax.plot(grid, upper[:, others], color="#CCCCCC", linewidth=0.5)
            for place, rule in enumerate(shown):
                color = COLORS[place % len(COLORS)]
                ax.fill_between(grid, lower[:, rule], upper[:, rule], color=color, alpha=0.25, linewidth=0)
                ax.plot(grid, upper[:, rule], color=color, linewidth=1.2, label=f"rule {rule + 1}")
            ax.set(xlabel=label(name), ylim=(0, 1.05))
            ax.spines[["top", "right"]].set_visible(False)
        for ax in axes[n_shown:]:
            ax.set_visible(False)
        axes[0].set_ylabel("grade")
        handles, labels = axes[0].get_legend_handles_labels()
        axes[0].figure.legend(
            handles, labels, loc="outside lower center", ncols=len(COLORS), frameon=False, fontsize="small"
        )
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


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
        ax = _axes(ax, 6.4, 3.8)
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
        ax.spines[["top", "right"]].set_visible(False)
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
        ax = _axes(ax, 4.2, 4.0)
        ax.plot([0, 1], [0, 1], color="#444444", linewidth=1, linestyle=":")
        ax.plot(
            self.nominal, self.covered, color=color, marker="o", markersize=4, label=None if name is None else label(name)
        )
        ax.set(xlabel="nominal coverage", ylabel="share covered", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        if name is not None:
            ax.legend(frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
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
        ax = _axes(ax)
        width, error = np.asarray(self.width), np.abs(np.asarray(self.error))
        if len(width) > _DENSE:
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
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
