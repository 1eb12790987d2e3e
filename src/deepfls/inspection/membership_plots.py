"""The sets of the rules over the inputs, with footprints, before and after training; and where the rules fire."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deepfls.estimators.base import FLSEstimator
from deepfls.inspection.canvas import COLORS, input_span, label, new_axes, new_figure, place_of, plain
from deepfls.inspection.plain import Array, PlainSystem

# Inputs drawn where none are chosen.
_PANELS = 9


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
    before : list of ndarray, shape (points, rules), optional
        Upper grades of the sets that training began with.
    leading : list of int, optional
        Rules in the order in which they fire most.
    """

    names: Sequence[str]
    grids: Sequence[Array]
    lower: Sequence[Array]
    upper: Sequence[Array]
    before: Sequence[Array] | None = None
    leading: Sequence[int] | None = None
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
        span: float = 1.5,
    ) -> MembershipsDisplay:
        """Sets of the given inputs, the first nine by default, from ``span`` typical widths below the lowest center to as
        many above the highest; with ``before`` also those that training began with."""
        s = PlainSystem.of(estimator)
        if features is None:
            chosen = list(range(min(s.n_features, _PANELS)))
        else:
            chosen = [place_of(feature, s.feature_names, "features") for feature in features]
        start: Any = getattr(estimator, "initial_sets_", None)
        if before and start is None:
            raise ValueError("before must be False for a model that has no record of the sets that training began with.")
        leading = None if s.rule_shares is None else np.argsort(-s.rule_shares, kind="stable").tolist()
        display = cls([s.feature_names[m] for m in chosen], [], [], [], [] if before else None, leading)
        for m in chosen:
            centers = s.centers[:, m] if not before else np.concatenate([s.centers[:, m], start[0, :, m]])
            margin = span * float(np.median(s.upper_sigmas[:, m]))
            x = np.linspace(centers.min() - margin, centers.max() + margin, n_points)[:, np.newaxis]

            def grades(center: Array, sigma: Array, at: Array = x) -> Array:
                return np.exp(-0.5 * np.square((at - center) / sigma))

            display.grids = [*display.grids, x[:, 0]]
            display.upper = [*display.upper, grades(s.centers[:, m], s.upper_sigmas[:, m])]
            lower = np.exp(s.log_heights[:, m]) * grades(s.centers[:, m], s.lower_sigmas[:, m])
            display.lower = [*display.lower, np.minimum(lower, display.upper[-1])]
            if display.before is not None:
                display.before = [*display.before, grades(start[0, :, m], start[2, :, m])]
        return display

    def plot(self, axes: Any = None, *, rules: Sequence[int] | None = None) -> MembershipsDisplay:
        """Draw the sets of ``rules`` in colours of their own, the others in the background.

        Without ``rules`` these are the seven that fire most.
        """
        n_shown = len(self.names)
        n_rules = self.upper[0].shape[1]
        ranked = list(range(n_rules)) if self.leading is None else list(self.leading)
        shown = sorted(ranked[: len(COLORS)]) if rules is None else list(rules)
        others = [rule for rule in range(n_rules) if rule not in shown]
        n_columns = min(n_shown, 3)
        if axes is None:
            n_rows = math.ceil(n_shown / n_columns)
            axes = new_figure(3.6 * n_columns, 2.3 * n_rows + 0.4).subplots(n_rows, n_columns, squeeze=False)
        axes = np.asarray(axes).ravel()
        for place, (ax, name, grid) in enumerate(zip(axes, self.names, self.grids, strict=False)):
            lower, upper = self.lower[place], self.upper[place]
            if others:
                ax.plot(grid, upper[:, others], color="#CCCCCC", linewidth=0.5)
            for number, rule in enumerate(shown):
                color = COLORS[number % len(COLORS)]
                if self.before is not None:
                    ax.plot(grid, self.before[place][:, rule], color=color, linewidth=1.0, linestyle=":")
                ax.fill_between(grid, lower[:, rule], upper[:, rule], color=color, alpha=0.25, linewidth=0)
                ax.plot(grid, upper[:, rule], color=color, linewidth=1.2, label=f"rule {rule + 1}")
            ax.set(xlabel=label(name), ylim=(0, 1.05))
            plain(ax)
        for ax in axes[n_shown:]:
            ax.set_visible(False)
        axes[0].set_ylabel("grade")
        handles, labels = axes[0].get_legend_handles_labels()
        if self.before is not None:
            from matplotlib.lines import Line2D

            handles.append(Line2D([], [], color="#666666", linewidth=1.0, linestyle=":"))
            labels.append("before training")
        columns = min(len(labels), 3 * n_columns)
        axes[0].figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize="small")
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


@dataclass
class FiringMapDisplay:
    """Which rules fire along an input: the share of the firing of every rule, averaged over the rows of each bin.

    Parameters
    ----------
    name : str
        The input along which rows are put into bins.
    edges : ndarray, shape (bins + 1,)
    shares : ndarray, shape (rules, bins)
        NaN in bins without rows.
    """

    name: str
    edges: Array
    shares: Array
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: FLSEstimator,
        X: Any,
        *,
        feature: int | str = 0,
        n_bins: int = 40,
        ax: Any = None,
    ) -> FiringMapDisplay:
        s = PlainSystem.of(estimator)
        x = estimator._validated_x(X, reset=False)
        m = place_of(feature, s.feature_names, "feature")
        log_lower, log_upper = s.firing(x)
        peak = log_upper.max(axis=1, keepdims=True)
        weight = np.exp(log_lower - peak) + np.exp(log_upper - peak)
        weight /= weight.sum(axis=1, keepdims=True)
        low, high = float(x[:, m].min()), float(x[:, m].max())
        edges = np.linspace(*((low, high) if high > low else input_span(s, m)), n_bins + 1)
        bins = np.clip(np.searchsorted(edges, x[:, m], side="right") - 1, 0, n_bins - 1)
        counts = np.bincount(bins, minlength=n_bins)
        sums = np.stack([np.bincount(bins, weights=column, minlength=n_bins) for column in weight.T])
        shares = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        return cls(s.feature_names[m], edges, shares).plot(ax)

    def plot(self, ax: Any = None) -> FiringMapDisplay:
        n_rules = len(self.shares)
        ax = new_axes(ax, 6.0, 1.4 + 0.2 * min(max(n_rules, 4), 30))
        image = ax.pcolormesh(self.edges, np.arange(n_rules + 1) + 0.5, self.shares, cmap="Blues", vmin=0.0)
        step = max(1, math.ceil(n_rules / 20))
        ax.set_yticks(range(1, n_rules + 1, step))
        ax.set(xlabel=label(self.name), ylabel="rule")
        ax.invert_yaxis()
        ax.figure.colorbar(image, ax=ax, label="share of the firing")
        plain(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
