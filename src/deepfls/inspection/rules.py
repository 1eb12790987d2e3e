"""The rules of a trained system in the units of its data: which, in what order, and what leaving sets out costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deepfls._checks import (
    check_count,
    check_number,
    check_option,
    check_same_length,
    check_targets_have_rows,
    check_targets_of,
)
from deepfls.estimators.base import FLSEstimator
from deepfls.inspection import rules_text as render
from deepfls.inspection.plain import Array, PlainSystem
from deepfls.inspection.words import share_text

FORMATS = ("text", "markdown", "table", "json")
# A set whose grade never falls below this share over the range of its input hardly tells one row from another.
_DROP = 0.95
# Rows that pass through a plain at a time.
_CHUNK = 16_384


@dataclass(frozen=True)
class DropEffect:
    """What leaving out sets changed.

    Attributes
    ----------
    n_dropped, n_sets : int
    measure : str
        "RMSE" or "accuracy"; empty where no true values were given.
    before, after : float
        The measure with all sets and without the dropped ones; NaN where no true values were given.
    change : float
        Root mean square of the change of the outputs; NaN where no rows were given.
    """

    n_dropped: int
    n_sets: int
    measure: str
    before: float
    after: float
    change: float

    def __str__(self) -> str:
        text = f"{self.n_dropped} of {self.n_sets} sets left out, wider than the data"
        if self.measure:
            return f"{text}: {self.measure} {self.before:.6g} with all, {self.after:.6g} without."
        if np.isfinite(self.change):
            return f"{text}: outputs change by {self.change:.3g} (root mean square)."
        return f"{text}; the effect was not measured, because no data were given."


@dataclass(frozen=True)
class Rules:
    """Rules that can be shown as text, Markdown, JSON, a table in a terminal and HTML in a notebook.

    Attributes
    ----------
    plain : PlainSystem
        The system as shown: dropped sets are infinitely wide.
    order : tuple of int
        The rules, from 0, in the order in which they are shown.
    shares : ndarray, shape (rules,), or None
        Share of the firing of every rule.
    dropped : ndarray of bool, shape (rules, features)
    effect : DropEffect or None
        None where nothing was to be dropped.
    """

    plain: PlainSystem
    order: tuple[int, ...]
    shares: Array | None
    dropped: Array
    effect: DropEffect | None

    def __len__(self) -> int:
        return len(self.order)

    def render(self, format: str = "text", *, top: int | None = None, digits: int | None = 4) -> str:  # noqa: A002
        """The rules in one of the formats "text", "markdown", "table" and "json".

        Parameters
        ----------
        format : {"text", "markdown", "table", "json"}
        top : int, optional
            How many rules; all by default.
        digits : int or None
            Significant digits; None writes every number so that it reads back exactly. JSON always does.
        """
        check_option("format", format, FORMATS)
        if digits is not None:
            check_count("digits", digits, 1, 17)
        shown = self.top(top)
        if format == "json":
            return render.as_json(shown)
        if format == "table":
            return render.as_table_text(shown, digits)
        return render.as_markdown(shown, digits) if format == "markdown" else render.as_text(shown, digits)

    def top(self, count: int | None) -> Rules:
        """The first ``count`` rules."""
        return self if count is None else replace(self, order=self.order[: check_count("top", count)])

    def share_of(self, rule: int) -> str:
        """The share of a rule in percent, empty where it is not known."""
        return "" if self.shares is None else share_text(float(self.shares[rule]))

    def to_table(self, digits: int | None = 4) -> Any:
        """A table of rich, for terminals."""
        return render.as_table(self, digits)

    def __str__(self) -> str:
        return render.as_text(self, 4)

    def __rich__(self) -> Any:
        return self.to_table()

    def _repr_html_(self) -> str:
        return render.as_html(self, 4)


def rules_of(estimator: FLSEstimator, X: Any = None, y: Any = None, *, drop: bool | float = False) -> Rules:
    """The rules of a fitted estimator; :meth:`FLSEstimator.rules` has the parameters."""
    plain = PlainSystem.of(estimator)
    check_targets_have_rows(X, y)
    x = None if X is None else estimator._validated_x(X, reset=False)
    shares = plain.rule_shares if x is None else shares_of(plain, x)
    dropped = np.zeros(plain.centers.shape, dtype=bool)
    effect = None
    if drop is not False:
        least = _DROP if drop is True else check_number("drop", drop, above=0.0, below=1.0)
        dropped = sets_wider_than(plain, plain.input_range if x is None else np.stack([x.min(0), x.max(0)]), least)
        simpler = without(plain, dropped)
        effect = _effect(estimator, plain, simpler, x, y, dropped)
        plain = simpler
    order = range(plain.n_rules) if shares is None else np.argsort(-shares, kind="stable").tolist()
    return Rules(plain, tuple(order), shares, dropped, effect)


def shares_of(plain: PlainSystem, x: Array) -> Array:
    """Share of the firing of every rule on rows x: the mean over rows of (f̲ + f̄) over its sum."""
    total = np.zeros(plain.n_rules)
    for start in range(0, len(x), _CHUNK):
        log_lower, log_upper = plain.firing(x[start : start + _CHUNK])
        peak = log_upper.max(axis=1, keepdims=True)
        weight = np.exp(log_lower - peak) + np.exp(log_upper - peak)
        total += (weight / weight.sum(axis=1, keepdims=True)).sum(axis=0)
    return total / len(x)


def sets_wider_than(plain: PlainSystem, input_range: Array | None, least: float) -> Array:
    """Sets whose grade, as it enters the firing, stays at or above ``least`` over the range of their input."""
    if input_range is None:
        return np.zeros(plain.centers.shape, dtype=bool)
    exponent = 1.0 if plain.tnorm == "product" else 1.0 / plain.n_features
    farthest = np.maximum(np.abs(input_range[0] - plain.centers), np.abs(input_range[1] - plain.centers))
    return np.exp(-0.5 * exponent * np.square(farthest / plain.lower_sigmas)) >= least


def without(plain: PlainSystem, dropped: Array) -> PlainSystem:
    """The system with the given sets infinitely wide; their heights stay."""
    lower, upper = (np.where(dropped, np.inf, sigmas) for sigmas in (plain.lower_sigmas, plain.upper_sigmas))
    return replace(plain, lower_sigmas=lower, upper_sigmas=upper)


def _effect(
    estimator: FLSEstimator, full: PlainSystem, simpler: PlainSystem, x: Array | None, y: Any, dropped: Array
) -> DropEffect:
    from sklearn.metrics import accuracy_score, root_mean_squared_error

    count, total = int(dropped.sum()), dropped.size
    if x is None:
        return DropEffect(count, total, "", np.nan, np.nan, np.nan)
    before, after = outputs_of(full, x), outputs_of(simpler, x)
    change = float(np.sqrt(np.mean(np.square(after - before))))
    if y is None:
        return DropEffect(count, total, "", np.nan, np.nan, change)
    if full.classes is not None:
        check_same_length(x, y)
        old, new = (accuracy_score(y, full.classes[logits.argmax(axis=1)]) for logits in (before, after))
        return DropEffect(count, total, "accuracy", old, new, change)
    truth = check_targets_of(y, len(x), full.n_outputs)
    old, new = (root_mean_squared_error(np.ravel(truth), np.ravel(outputs)) for outputs in (before, after))
    return DropEffect(count, total, "RMSE", old, new, change)


def outputs_of(plain: PlainSystem, x: Array) -> Array:
    """Crisp outputs (rows, outputs), a chunk of rows at a time."""
    return np.concatenate([plain.output(x[start : start + _CHUNK]).y for start in range(0, len(x), _CHUNK)])


# Rules shown under the diagram of an estimator in a notebook.
_LEADING = 5


def summary_html(estimator: FLSEstimator) -> str:
    """The leading rules of a fitted estimator, for notebooks."""
    rules = rules_of(estimator)
    more = len(rules) - _LEADING
    note = f"<p>{more:,} more: <code>rules()</code> shows them.</p>" if more > 0 else ""
    return render.as_html(rules.top(_LEADING), 4) + note
