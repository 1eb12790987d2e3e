"""Displays of training and of predictions: learning curve, predicted against true values, band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deepfls.estimators.base import FLSEstimator
from deepfls.inspection.canvas import COLORS, label, new_axes, plain
from deepfls.inspection.plain import Array, PlainSystem

# More points than this are counted in hexagons rather than drawn one by one.
DENSE = 3_000
# Rows of a band that a page can tell apart.
_BAND_ROWS = 400


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
        ax = new_axes(ax)
        epochs = [row["epoch"] for row in self.history]
        prefix = f"{label(name)}, " if name else ""
        ax.plot(epochs, [row["loss"] for row in self.history], color=color, label=f"{prefix}training")
        if self.history and "validation_loss" in self.history[0]:
            validation = [row["validation_loss"] for row in self.history]
            ax.plot(epochs, validation, color=color, linestyle="--", label=f"{prefix}validation")
        ax.set(xlabel="epoch", ylabel="loss", yscale="log")
        ax.legend(frameon=False)
        plain(ax)
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
        ax = new_axes(ax)
        self.y_true, self.y_pred = np.asarray(self.y_true), np.asarray(self.y_pred)
        if len(self.y_true) > DENSE:
            ax.hexbin(self.y_true, self.y_pred, gridsize=60, bins="log", cmap="Blues", mincnt=1, linewidths=0)
        else:
            ax.scatter(self.y_true, self.y_pred, s=8, alpha=0.5, color=color, linewidths=0)
        low, high = min(self.y_true.min(), self.y_pred.min()), max(self.y_true.max(), self.y_pred.max())
        ax.plot([low, high], [low, high], color="#444444", linewidth=1, linestyle=":")
        ax.set(xlabel=f"true {label(name)}", ylabel=f"predicted {label(name)}", aspect="equal")
        plain(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass
class BandDisplay:
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
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: FLSEstimator,
        X: Any,
        y: Any = None,
        *,
        output: int = 0,
        ax: Any = None,
    ) -> BandDisplay:
        """The type-reduced set of one output around the crisp output. It is no prediction interval."""
        plain = PlainSystem.of(estimator)
        reduced = plain.output(estimator._validated_x(X, reset=False))
        truth = None if y is None else np.asarray(y, dtype=np.float64).reshape(len(reduced.y), -1)[:, output]
        display = cls(reduced.y[:, output], reduced.y_left[:, output], reduced.y_right[:, output], truth)
        return display.plot(ax, name=plain.output_names[output])

    def plot(self, ax: Any = None, *, name: str = "y", color: str = COLORS[0]) -> BandDisplay:
        ax = new_axes(ax, 6.0, 3.6)
        order = np.argsort(self.y, kind="stable")
        order = order[:: -(-len(order) // _BAND_ROWS)]
        rows = np.arange(len(order))
        ax.fill_between(rows, self.lower[order], self.upper[order], color=color, alpha=0.25, linewidth=0, label="band")
        ax.plot(rows, self.y[order], color=color, linewidth=1.2, label="predicted")
        if self.y_true is not None:
            ax.scatter(rows, self.y_true[order], s=6, color="#444444", linewidths=0, label="true", zorder=3)
        ax.set(xlabel="rows, in order of their prediction", ylabel=label(name))
        ax.legend(frameon=False)
        plain(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
