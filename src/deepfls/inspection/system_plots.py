"""Displays of a system: sets over the inputs, and the response to one input or two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from deepfls._checks.arguments import check_count
from deepfls._checks.values import Array, softmax
from deepfls.inspection.display import COLORS, SET_STYLE, Display, label, new_axes, new_figure
from deepfls.inspection.plain import PlainOutput, PlainSystem
from deepfls.inspection.plain_model import PlainModel, index_of, most_important, one_row, system_at
from deepfls.inspection.words import category_inputs, read_inputs, used_terms

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import Self

    from deepfls.estimators.base import FLSEstimator

# Number of inputs drawn by default.
_PANELS = 9
# Distances from a center at which grades are always drawn, in half widths; the grade at 3 is 0.002.
_STEPS = (-3.0, -2.0, -1.5, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)


@dataclass
class MembershipsDisplay:
    """The sets of every rule over each input, in the units of the data; those of type 2 with the footprint of each plane.

    Grades are drawn as they act in the firing: under "htsk" a set acts √inputs wider than it is alone.

    Parameters
    ----------
    names : list of str
        Names of the inputs shown.
    grids : list of ndarray, shape (points,)
        Values of each input, in order: ``n_points`` evenly spaced ones and some around the centers of sets.
    lower, upper : list of ndarray, shape (points, rules)
        Grades at these values; equal for Type-1 sets.
    before : list of ndarray, shape (points, rules), optional
        Upper grades of the sets at the start of training.
    leading : list of int, optional
        Rules in descending order of their firing.
    inner : list of list of pair of ndarray, shape (points, rules), optional
        Lower and upper grades of the planes of General Type-2 sets inside the widest one, for each input.
    n_inputs : int, optional
        Inputs of the system, of which ``names`` may be a part.
    words : list of list of str, optional
        Where rules share terms: the words of the terms of each input. Grades are then (points, terms).
    title : str, optional
        Which of several systems is shown.
    """

    names: Sequence[str]
    grids: Sequence[Array]
    lower: Sequence[Array]
    upper: Sequence[Array]
    before: Sequence[Array] | None = None
    leading: Sequence[int] | None = None
    inner: Sequence[Sequence[tuple[Array, Array]]] | None = None
    n_inputs: int | None = None
    words: Sequence[Sequence[str]] | None = None
    title: str = ""
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: FLSEstimator,
        *,
        features: Sequence[int | str] | None = None,
        before: bool = False,
        n_points: int = 200,
        system: int = 0,
    ) -> Self:
        """Sets of the given inputs over the range of the data; with ``before`` also those at the start of training.

        Without ``features`` all inputs up to nine, or the nine most important ones, the most important first. ``system`` is
        the place, from 0, of one of several systems.
        """
        s, title = system_at(estimator, system)
        if features is None:
            chosen = _shown_inputs(estimator, s)
        else:
            given: Any = [features] if isinstance(features, str) or not np.iterable(features) else features
            chosen = [index_of(feature, s.feature_names, "features") for feature in given]
            if not chosen:
                raise ValueError("features must name at least one input, got none.")
        start = _sets_at_start(estimator, s, system) if before else None
        planes = [plane for _, plane in s.planes()[1:]]
        grids, lower, upper, at_start, inner = [], [], [], [], []
        terms = [used_terms(s, m) for m in chosen]
        for m, used in zip(chosen, terms, strict=True):
            centers = s.centers[:, m] if start is None else np.concatenate([s.centers[:, m], start[0, :, m]])
            low, high = s.input_span(m)
            grid = _grid(min(low, float(centers.min())), max(high, float(centers.max())), n_points, s, m)
            grids.append(grid)
            columns = slice(None) if s.terms is None else [rule for _, rule in used]
            low_grades, high_grades = _interval_grades(grid, s, m)
            lower.append(low_grades[:, columns])
            upper.append(high_grades[:, columns])
            inner.append([_interval_grades(grid, plane, m) for plane in planes])
            if start is not None:
                widths = start[2, :, m] * math.sqrt(2.0 * math.log(2.0) / s.grade_power)
                at_start.append(_grades(grid, start[0, :, m], widths))
        return cls(
            [s.feature_names[m] for m in chosen],
            grids,
            lower,
            upper,
            before=at_start or None,
            leading=None if s.rule_shares is None else np.argsort(-s.rule_shares, kind="stable").tolist(),
            inner=inner if planes else None,
            n_inputs=len(read_inputs(s.feature_names, s.columns)),
            words=None if s.terms is None else [[s.words[m][t] for t, _ in u] for m, u in zip(chosen, terms, strict=True)],
            title=title,
        )

    def plot(self, axes: Any = None, *, rules: Sequence[int] | None = None) -> Self:
        """Draw the sets of ``rules`` in colours of their own, the others in the background.

        Without ``rules`` these are the seven that fire most.
        """
        if self.words is not None:
            return self._plot_words(axes)
        n_rules = self.upper[0].shape[1]
        ranked = list(range(n_rules)) if self.leading is None else list(self.leading)
        given: Any = sorted(ranked[: len(COLORS)]) if rules is None else rules
        shown = [check_count("rules", rule, 0, n_rules - 1) for rule in (given if np.iterable(given) else [given])]
        others = [rule for rule in range(n_rules) if rule not in shown]
        axes = _panels(axes, len(self.names))
        for panel, (ax, name, grid) in enumerate(zip(axes, self.names, self.grids, strict=False)):
            lower, upper = self.lower[panel], self.upper[panel]
            if others:
                ax.plot(grid, upper[:, others], color="#CCCCCC", linewidth=0.5)
            for number, rule in enumerate(shown):
                color = COLORS[number % len(COLORS)]
                if self.before is not None:
                    ax.plot(grid, self.before[panel][:, rule], color=color, linewidth=1.0, linestyle=":")
                ax.fill_between(grid, lower[:, rule], upper[:, rule], color=color, alpha=0.25, linewidth=0)
                ax.plot(grid, upper[:, rule], color=color, linewidth=1.2, label=f"rule {rule + 1}")
                for inner_lower, inner_upper in () if self.inner is None else self.inner[panel]:
                    ax.fill_between(grid, inner_lower[:, rule], inner_upper[:, rule], color=color, alpha=0.25, linewidth=0)
                    ax.plot(grid, inner_upper[:, rule], color=color, linewidth=0.6)
            ax.set(xlabel=label(name), ylabel="grade in the firing", ylim=(0, 1.05))
        handles, labels = axes[0].get_legend_handles_labels()
        if self.before is not None:
            from matplotlib.lines import Line2D

            handles.append(Line2D([], [], color=COLORS[-1], linewidth=1.0, linestyle=":"))
            labels.append("before training")
        left_out = self._notes()
        if others:
            left_out.append(f"{len(shown)} of {n_rules:,} rules in colour, the others grey")
        axes[0].figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=min(len(labels), 3 * min(len(self.names), 3)),
            frameon=False,
            fontsize="small",
            title="; ".join(left_out) or None,
            title_fontsize="small",
        )
        return self._finish(axes)

    def _plot_words(self, axes: Any) -> Self:
        """Draw the vocabulary: the terms of every input, each with its word."""
        assert self.words is not None
        axes = _panels(axes, len(self.names))
        for panel, (ax, name, grid) in enumerate(zip(axes, self.names, self.grids, strict=False)):
            last, level = -np.inf, 0  # of the word before: close words alternate between two lines
            for place, word in enumerate(self.words[panel]):
                color, upper = COLORS[place % len(COLORS)], self.upper[panel][:, place]
                ax.fill_between(grid, self.lower[panel][:, place], upper, color=color, alpha=0.25, linewidth=0)
                ax.plot(grid, upper, color=color, linewidth=1.4)
                peak = int(upper.argmax())
                side = "left" if peak < len(grid) // 8 else "right" if peak > len(grid) * 7 // 8 else "center"
                level = 1 - level if peak - last < len(grid) // 3 else 0
                last = peak
                height = 1.04 + 0.13 * level
                ax.text(grid[peak], height, label(word, 16), color=color, ha=side, va="bottom", fontsize="small")
            if not self.words[panel]:
                ax.text(0.5, 0.5, "no rule asks for it", ha="center", va="center", transform=ax.transAxes, color=COLORS[-1])
            ax.set(xlabel=label(name), ylabel="grade in the firing", ylim=(0, 1.34), yticks=[0, 0.5, 1])
        if self._notes():
            axes[0].figure.supxlabel("; ".join(self._notes()), fontsize="small")
        return self._finish(axes)

    def _notes(self) -> list[str]:
        """Which system and how many of its inputs are shown, if not all."""
        part = self.n_inputs is not None and len(self.names) < self.n_inputs
        inputs = [f"{len(self.names)} of {self.n_inputs:,} inputs shown"] if part else []
        return [self.title] * bool(self.title) + inputs

    def _finish(self, axes: Any) -> Self:
        """Hide two spines and the axes without an input, and store the axes and their figure."""
        for place, ax in enumerate(axes):
            ax.set_visible(place < len(self.names))
            ax.spines[["top", "right"]].set_visible(False)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


def _panels(axes: Any, count: int) -> Any:
    """The axes given, or those of a new figure with two or three panels in a row."""
    if axes is None:
        n_columns = 2 if count == 4 else min(count, 3)
        n_rows = math.ceil(count / n_columns)
        axes = new_figure(3.6 * n_columns, 2.3 * n_rows + 0.4).subplots(n_rows, n_columns, squeeze=False)
    return np.asarray(axes).ravel()


def _shown_inputs(estimator: FLSEstimator, s: PlainSystem) -> list[int]:
    """The inputs drawn by default. Rules name categories, not the sets of the inputs that a category makes."""
    ranked = list(range(s.n_features)) if s.n_features <= _PANELS else most_important(estimator, s.n_features)
    named = category_inputs(s)
    return ([m for m in ranked if m not in named] or ranked)[:_PANELS]


def _sets_at_start(estimator: FLSEstimator, s: PlainSystem, number: int) -> Array:
    """The sets of a system that training began with, (4, rules, features)."""
    start: Array | None = getattr(estimator, "initial_sets_", None)
    if start is None:
        raise ValueError("before must be False for a model that has no record of the sets that training began with.")
    if s.terms is not None:
        raise ValueError("before must be False for a model with n_terms, whose picture shows terms, not rules.")
    first = sum(other.n_rules for other in estimator.systems_[:number])
    return start[:, first : first + s.n_rules]


def _grid(low: float, high: float, n_points: int, s: PlainSystem, m: int) -> Array:
    """Evenly spaced values of input m, and some around every center: sets may be narrower than the spacing."""
    used = np.isfinite(s.half_widths[1][:, m])  # sets that were left out of a rule have infinite widths
    around = np.stack([s.centers[used, m] + step * widths[used, m] for widths in s.half_widths for step in _STEPS])
    return np.unique(np.concatenate([np.linspace(low, high, n_points), around[(around >= low) & (around <= high)]]))


def _interval_grades(grid: Array, s: PlainSystem, m: int) -> tuple[Array, Array]:
    """Lower and upper grades (points, rules) of the sets over input m, as they act in the firing."""
    narrow, wide = (widths[:, m] for widths in s.half_widths)
    upper = _grades(grid, s.centers[:, m], wide)
    return np.minimum(s.acting_heights[:, m] * _grades(grid, s.centers[:, m], narrow), upper), upper


def _grades(grid: Array, centers: Array, half_widths: Array) -> Array:
    """Gaussian grades (points, rules) without heights, as they act in the firing."""
    return np.exp2(-np.square((grid[:, np.newaxis] - centers) / half_widths))


def _responses(estimator: FLSEstimator, inputs: dict[int, Array], output: int, at: Any) -> PlainOutput:
    """One output, each (rows,), for values (rows,) of some inputs, the others as in ``at``, a row, or in mid-range.

    Of a class it is the probability, which has no type-reduced set.
    """
    s = PlainModel.of(estimator)
    middle = [sum(s.input_span(m)) / 2.0 for m in range(s.n_features)]
    held = np.array(middle) if at is None else one_row(estimator, "at", at)
    rows = np.repeat(held[np.newaxis], len(next(iter(inputs.values()))), axis=0)
    for m, values in inputs.items():
        rows[:, m] = values
    found = s.output(rows)
    ends = found if s.classes is None else [softmax(found.y)] * 3
    return PlainOutput(*(end[:, output] for end in ends))


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
    ) -> Self:
        """The response over the range of the training data, the other inputs as in ``at``, a row, or in mid-range."""
        s = PlainModel.of(estimator)
        m, k = index_of(feature, s.feature_names, "feature"), index_of(output, s.output_names, "output")
        x = np.linspace(*s.input_span(m), n_points)
        return cls(s.feature_names[m], _response_name(s, k), x, *_responses(estimator, {m: x}, k, at)).plot(ax)

    def plot(self, ax: Axes | None = None, *, color: str = COLORS[0]) -> Self:
        """Draw the curve."""
        ax = new_axes(ax, 5.0, 3.4)
        if (self.y_left < self.y_right).any():
            ax.fill_between(self.x, self.y_left, self.y_right, **SET_STYLE, color=color)
        ax.plot(self.x, self.y, color=color, linewidth=1.5, label="crisp output")
        return self._finish(ax, legend={} if ax.collections else None, xlabel=label(self.name), ylabel=label(self.output))


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
    ) -> Self:
        """The response over the ranges of the training data, the other inputs as in ``at``, a row, or in mid-range."""
        s = PlainModel.of(estimator)
        if isinstance(features, str) or len(features) != 2:
            raise ValueError(f"features must be two inputs, by name or place, got {features!r:.80}.")
        first, second = (index_of(feature, s.feature_names, "features") for feature in features)
        k = index_of(output, s.output_names, "output")
        x, y = (np.linspace(*s.input_span(m), n_points) for m in (first, second))
        inputs = {first: np.tile(x, n_points), second: np.repeat(y, n_points)}
        values = _responses(estimator, inputs, k, at).y.reshape(n_points, n_points)
        return cls((s.feature_names[first], s.feature_names[second]), _response_name(s, k), x, y, values).plot(ax)

    def plot(self, ax: Axes | None = None, *, cmap: str = "viridis") -> Self:
        """Draw the surface."""
        ax = new_axes(ax, 5.4, 4.0)
        filled = ax.contourf(self.x, self.y, self.values, levels=24, cmap=cmap)
        if np.ptp(self.values) > 0.0:
            ax.contour(self.x, self.y, self.values, levels=8, colors="white", linewidths=0.5, alpha=0.6)
        ax.figure.colorbar(filled, ax=ax, label=label(self.output))
        return self._finish(ax, xlabel=label(self.names[0]), ylabel=label(self.names[1]))
