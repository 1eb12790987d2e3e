"""Displays of how outputs follow inputs: the response to one input or two, and the pushes of all inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepfls._checks.values import Array, evenly_spaced, softmax
from deepfls.inspection.display import COLORS, GREY, Display, label, new_axes
from deepfls.inspection.plain import PlainOutput
from deepfls.inspection.plain_model import AnyModel, PlainModel, index_of, one_row, reference_row, rows_of
from deepfls.inspection.pushes import pushes_of_rows
from deepfls.inspection.words import output_name, read_inputs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from deepfls.estimators.base import FLSEstimator

# Colour of values that are not known or have no order.
_NO_ORDER = "#999999"
# Largest number of rows whose pushes are drawn.
_MOST_ROWS = 400


def _held_row(estimator: FLSEstimator, s: AnyModel, at: Any) -> Array:
    """The row around which inputs vary: the one given, else the middle of the ranges."""
    if at is not None:
        return one_row(estimator, "at", at)
    return np.array([sum(s.input_span(m)) / 2.0 for m in range(s.n_features)])


def _responses(s: PlainModel, rows: Array) -> PlainOutput:
    """Outputs for rows; probabilities for classes, which have no type-reduced set."""
    found = s.output(rows)
    return found if s.classes is None else PlainOutput(*[softmax(found.y)] * 3)


def _response_name(s: PlainModel, k: int) -> str:
    return s.output_names[k] if s.classes is None else f"probability of {s.output_names[k]}"


@dataclass
class ResponseCurveDisplay(Display):
    """The output along one input, the others held, with the type-reduced set as a band; of a class its probability.

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

    @classmethod
    def from_estimator(
        cls,
        estimator: FLSEstimator,
        feature: int | str = 0,
        *,
        at: Any = None,
        output: int | str = 0,
        n_points: int = 200,
        ax: Axes | None = None,
    ) -> ResponseCurveDisplay:
        """The response over the range of the training data, the other inputs as in ``at``, a row, or in mid-range."""
        s = PlainModel.of(estimator)
        m, k = index_of(feature, s.feature_names, "feature"), index_of(output, s.output_names, "output")
        rows = np.repeat(_held_row(estimator, s, at)[np.newaxis], n_points, axis=0)
        rows[:, m] = np.linspace(*s.input_span(m), n_points)
        ends = (column[:, k] for column in _responses(s, rows))
        return cls(s.feature_names[m], _response_name(s, k), rows[:, m], *ends).plot(ax)

    def plot(self, ax: Axes | None = None, *, color: str = COLORS[0]) -> ResponseCurveDisplay:
        """Draw the curve."""
        ax = new_axes(ax, 5.0, 3.4)
        if (self.y_left < self.y_right).any():
            ax.fill_between(
                self.x, self.y_left, self.y_right, color=color, alpha=0.25, linewidth=0, label="type-reduced set"
            )
        ax.plot(self.x, self.y, color=color, linewidth=1.5, label="crisp output")
        if ax.collections:
            ax.legend(frameon=False)
        ax.set(xlabel=label(self.name), ylabel=label(self.output))
        return self._finish(ax)


@dataclass
class ResponseSurfaceDisplay(Display):
    """The output over two inputs, the others held; of a class its probability.

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

    @classmethod
    def from_estimator(
        cls,
        estimator: FLSEstimator,
        features: tuple[int | str, int | str] = (0, 1),
        *,
        at: Any = None,
        output: int | str = 0,
        n_points: int = 60,
        ax: Axes | None = None,
    ) -> ResponseSurfaceDisplay:
        """The response over the ranges of the training data, the other inputs as in ``at``, a row, or in mid-range."""
        s = PlainModel.of(estimator)
        if isinstance(features, str) or len(features) != 2:
            raise ValueError(f"features must be two inputs, by name or place, got {features!r:.80}.")
        first, second = (index_of(feature, s.feature_names, "features") for feature in features)
        k = index_of(output, s.output_names, "output")
        x, y = (np.linspace(*s.input_span(m), n_points) for m in (first, second))
        rows = np.repeat(_held_row(estimator, s, at)[np.newaxis], n_points**2, axis=0)
        rows[:, first], rows[:, second] = np.tile(x, n_points), np.repeat(y, n_points)
        values = _responses(s, rows).y[:, k].reshape(n_points, n_points)
        return cls((s.feature_names[first], s.feature_names[second]), _response_name(s, k), x, y, values).plot(ax)

    def plot(self, ax: Axes | None = None, *, cmap: str = "viridis") -> ResponseSurfaceDisplay:
        """Draw the surface."""
        ax = new_axes(ax, 5.4, 4.0)
        filled = ax.contourf(self.x, self.y, self.values, levels=24, cmap=cmap)
        if np.ptp(self.values) > 0.0:
            ax.contour(self.x, self.y, self.values, levels=8, colors="white", linewidths=0.5, alpha=0.6)
        ax.figure.colorbar(filled, ax=ax, label=label(self.output))
        ax.set(xlabel=label(self.names[0]), ylabel=label(self.names[1]))
        return self._finish(ax)


@dataclass
class PushesDisplay(Display):
    """The pushes of the inputs on the predictions of many rows: a dot for each row, the most important input at the top.

    Dots are coloured by the value of their input, from its least (blue) to its largest (red); those of values that are not
    known, and of categories, which have no order, are grey.

    Parameters
    ----------
    names : list of str
        The inputs.
    pushes, values : ndarray, shape (rows, features)
        Values are NaN where they are not known or have no order.
    output : str
    """

    names: Sequence[str]
    pushes: Array
    values: Array
    output: str = "y"

    @classmethod
    def from_estimator(
        cls, estimator: FLSEstimator, X: Any, *, output: int | str = 0, top: int = 10, ax: Axes | None = None
    ) -> PushesDisplay:
        """Pushes for rows X, of which at most 400 are used, on one output: for a classifier on the score of a class."""
        s = PlainModel.of(estimator)
        x = rows_of(estimator, X)
        x = x[evenly_spaced(len(x), _MOST_ROWS)]
        k = index_of(output, s.output_names, "output")
        of_inputs = pushes_of_rows(s, x, reference_row(estimator, s))[:, :, k]
        inputs = read_inputs(s.feature_names, s.columns)
        pushes = np.stack([of_inputs[:, first:end].sum(axis=1) for _, first, end, _ in inputs], axis=1)
        values = [x[:, first] if column is None else np.full(len(x), np.nan) for _, first, _, column in inputs]
        return cls([one for one, *_ in inputs], pushes, np.stack(values, axis=1), output_name(s, k)).plot(ax, top=top)

    def plot(self, ax: Axes | None = None, *, top: int = 10) -> PushesDisplay:
        """Draw the pushes of the ``top`` inputs, a point for every row."""
        order = np.argsort(-np.abs(self.pushes).mean(axis=0), kind="stable")[:top]
        ax = new_axes(ax, 6.0, 1.2 + 0.35 * len(order))
        ax.axvline(0.0, color=GREY, linewidth=1, linestyle=":")
        for place, m in enumerate(order):
            pushes, values = self.pushes[:, m], self.values[:, m]
            known = np.isfinite(values)
            least, largest = (values[known].min(), values[known].max()) if known.any() else (0.0, 0.0)
            shade = (values[known] - least) / (largest - least) if largest > least else np.full(known.sum(), 0.5)
            heights = place + _spread(pushes)
            ax.scatter(pushes[~known], heights[~known], color=_NO_ORDER, s=7, linewidths=0)
            dots = ax.scatter(pushes[known], heights[known], c=shade, cmap="coolwarm", vmin=0, vmax=1, s=7, linewidths=0)
        ax.set_yticks(range(len(order)), [label(self.names[m], 24) for m in order])
        ax.invert_yaxis()
        shown = "" if len(order) == len(self.names) else f", {len(order)} of {len(self.names):,} inputs shown"
        ax.set(xlabel=f"push on {label(self.output)}", ylabel=f"input{shown}")
        bar = ax.figure.colorbar(dots, ax=ax, ticks=[0, 1], label="value of the input", aspect=30)
        bar.ax.set_yticklabels(["least", "largest"])
        return self._finish(ax)


def _spread(values: Array) -> Array:
    """Offsets within ±0.35 that keep dots of nearly equal values apart: those of a bin in turn above and below."""
    bins = np.floor(60 * (values - values.min()) / (np.ptp(values) or 1.0))
    offsets = np.zeros(len(values))
    for number in np.unique(bins):
        chosen = np.flatnonzero(bins == number)
        steps = (np.arange(len(chosen)) + 1) // 2 * np.where(np.arange(len(chosen)) % 2, 1, -1)
        offsets[chosen] = steps
    return 0.35 * offsets / max(float(np.abs(offsets).max()), 4.0)
