"""How the output responds to one input or two, the others held."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deepfls.estimators.base import FLSEstimator
from deepfls.inspection.canvas import COLORS, input_span, label, middle, new_axes, place_of, plain
from deepfls.inspection.plain import Array, PlainSystem, one_row


def _base(estimator: FLSEstimator, plain: PlainSystem, at: Any) -> Array:
    """The row around which inputs vary: the one given, else the middle of the ranges."""
    return middle(plain) if at is None else one_row(estimator, "at", at)


@dataclass
class ResponseCurveDisplay:
    """The output along one input, the others held, with the type-reduced set as a band.

    Parameters
    ----------
    name, output : str
    x : ndarray, shape (points,)
    y_left, y_right, y : ndarray, shape (points,)
    """

    name: str
    output: str
    x: Array
    y_left: Array
    y_right: Array
    y: Array
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: FLSEstimator,
        feature: int | str = 0,
        *,
        at: Any = None,
        output: int | str = 0,
        n_points: int = 200,
        ax: Any = None,
    ) -> ResponseCurveDisplay:
        """The response over the range of the training data, the other inputs as in ``at``, a row, or in mid-range."""
        s = PlainSystem.of(estimator)
        m, k = place_of(feature, s.feature_names, "feature"), place_of(output, s.output_names, "output")
        rows = np.repeat(_base(estimator, s, at)[np.newaxis], n_points, axis=0)
        rows[:, m] = np.linspace(*input_span(s, m), n_points)
        ends = (column[:, k] for column in s.output(rows))
        return cls(s.feature_names[m], s.output_names[k], rows[:, m], *ends).plot(ax)

    def plot(self, ax: Any = None, *, color: str = COLORS[0]) -> ResponseCurveDisplay:
        ax = new_axes(ax, 5.0, 3.4)
        if (self.y_left < self.y_right).any():
            ax.fill_between(
                self.x, self.y_left, self.y_right, color=color, alpha=0.25, linewidth=0, label="type-reduced set"
            )
        ax.plot(self.x, self.y, color=color, linewidth=1.5, label="crisp output")
        ax.set(xlabel=label(self.name), ylabel=label(self.output))
        ax.legend(frameon=False)
        plain(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass
class ResponseSurfaceDisplay:
    """The output over two inputs, the others held.

    Parameters
    ----------
    names : tuple of str
        The inputs along the horizontal and the vertical axis.
    output : str
    x, y : ndarray, shape (points,)
        Values of the two inputs.
    values : ndarray, shape (points of y, points of x)
    """

    names: tuple[str, str]
    output: str
    x: Array
    y: Array
    values: Array
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: FLSEstimator,
        features: tuple[int | str, int | str] = (0, 1),
        *,
        at: Any = None,
        output: int | str = 0,
        n_points: int = 60,
        ax: Any = None,
    ) -> ResponseSurfaceDisplay:
        """The response over the ranges of the training data, the other inputs as in ``at``, a row, or in mid-range."""
        s = PlainSystem.of(estimator)
        first, second = (place_of(feature, s.feature_names, "features") for feature in features)
        k = place_of(output, s.output_names, "output")
        x, y = (np.linspace(*input_span(s, m), n_points) for m in (first, second))
        rows = np.repeat(_base(estimator, s, at)[np.newaxis], n_points**2, axis=0)
        rows[:, first], rows[:, second] = np.tile(x, n_points), np.repeat(y, n_points)
        values = s.output(rows).y[:, k].reshape(n_points, n_points)
        return cls((s.feature_names[first], s.feature_names[second]), s.output_names[k], x, y, values).plot(ax)

    def plot(self, ax: Any = None, *, cmap: str = "viridis") -> ResponseSurfaceDisplay:
        ax = new_axes(ax, 5.4, 4.0)
        filled = ax.contourf(self.x, self.y, self.values, levels=24, cmap=cmap)
        if np.ptp(self.values) > 0.0:
            ax.contour(self.x, self.y, self.values, levels=8, colors="white", linewidths=0.5, alpha=0.6)
        ax.figure.colorbar(filled, ax=ax, label=label(self.output))
        ax.set(xlabel=label(self.names[0]), ylabel=label(self.names[1]))
        plain(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
