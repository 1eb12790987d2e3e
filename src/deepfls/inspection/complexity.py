"""The readability card of a system: how much there is to read, and how well it separates rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepfls._checks.arguments import counted
from deepfls._checks.values import Array
from deepfls.inspection.plain import PlainSystem, rule_weights
from deepfls.inspection.plain_model import AnyModel, PlainModel, rows_of
from deepfls.inspection.words import TextTable, number_text, read_inputs, rendered, share_text

if TYPE_CHECKING:
    from deepfls.estimators.base import FLSEstimator

# A condition whose grade in the firing stays at or above this share over the range of its input says nothing.
_NO_CONDITION = 0.95
# Sets of an input are one if centers and half-widths differ by less than this share of the range.
_SAME = 1e-3
# A row is explained by its strongest rule if that has at least this weight, and known if a rule fires at least so much.
_EXPLAINED, _KNOWN = 0.5, 0.05
# Rows of a pass.
_ROWS = 5_000


@dataclass(frozen=True)
class Complexity:
    """How much there is to read in a model.

    With several systems there is all of them to read: rules follow one another, and different sets are added up. Overlap
    and shares of rows are means over the systems, each by itself.

    Attributes
    ----------
    n_rules, n_inputs : int
    conditions_per_rule : ndarray of int, shape (rules,)
        Conditions that say something: their grade in the firing falls below 0.95 somewhere in the range of the input.
        A category is one condition.
    sets_per_input : ndarray of int, shape (features,)
        Different sets among these conditions.
    overlap : float
        Mean grade at which neighbouring sets of an input cross, as it acts in the firing; NaN where no input has two sets.
    n_rows : int
        Rows of the two shares; 0 without rows.
    explained : float
        Share of the rows on which the strongest rule has a weight of 0.5 or more; NaN without rows.
    unknown : float
        Share of the rows on which no rule fires with a strength of 0.05 or more; NaN without rows.
    n_systems : int
    """

    n_rules: int
    n_inputs: int
    conditions_per_rule: Array
    sets_per_input: Array
    overlap: float
    n_rows: int
    explained: float
    unknown: float
    n_systems: int = 1

    @property
    def table(self) -> TextTable:
        """The card as lines of a table."""
        conditions, sets = self.conditions_per_rule, self.sets_per_input
        rows = [
            ["rules", str(self.n_rules) + (f" in {self.n_systems} systems" if self.n_systems > 1 else "")],
            ["conditions per rule", f"{_numbers(conditions)}, of {counted(self.n_inputs, 'input')}"],
            ["different sets per input", _numbers(sets)],
            ["neighbouring sets cross at a grade of", "no neighbours" if np.isnan(self.overlap) else f"{self.overlap:.2f}"],
        ]
        if self.n_rows:
            rows += [
                ["rows explained by their strongest rule", share_text(self.explained)],
                ["rows on which no rule fires well", share_text(self.unknown)],
            ]
        return TextTable(["readability", f"on {counted(self.n_rows, 'row')}" if self.n_rows else ""], rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "systems": self.n_systems,
            "rules": self.n_rules,
            "inputs": self.n_inputs,
            "conditions_per_rule": self.conditions_per_rule.tolist(),
            "sets_per_input": self.sets_per_input.tolist(),
            "overlap": None if np.isnan(self.overlap) else self.overlap,
            "rows": self.n_rows,
            "explained": self.explained if self.n_rows else None,
            "unknown": self.unknown if self.n_rows else None,
        }

    def __str__(self) -> str:
        return self.table.text()

    def _repr_html_(self) -> str:
        return rendered("tables.html", parts=[("", [self.table])], note="")


def complexity(estimator: FLSEstimator, X: Any = None) -> Complexity:
    """The readability card; :meth:`FLSRegressor.complexity` has the parameters."""
    return complexity_of(PlainModel.of(estimator), None if X is None else rows_of(estimator, X))


def complexity_of(model: AnyModel, x: Array | None = None) -> Complexity:
    """The card of a plain model, with the shares of rows x (rows, features) in its units."""
    parts = [_system_complexity(s, x) for s in model.systems]
    if len(parts) == 1:
        return parts[0]
    crossed = [(part.overlap, share) for part, share in zip(parts, model.shares, strict=True) if part.overlap >= 0]
    explained, unknown = ([getattr(part, name) for part in parts] for name in ("explained", "unknown"))
    return Complexity(
        n_rules=model.n_rules,
        n_inputs=parts[0].n_inputs,
        conditions_per_rule=np.concatenate([part.conditions_per_rule for part in parts]),
        sets_per_input=np.sum([part.sets_per_input for part in parts], axis=0),
        overlap=float(np.average(np.array(crossed)[:, 0], weights=np.array(crossed)[:, 1])) if crossed else np.nan,
        n_rows=parts[0].n_rows,
        explained=float(np.dot(model.shares, explained)),
        unknown=float(np.dot(model.shares, unknown)),
        n_systems=len(parts),
    )


def _system_complexity(s: PlainSystem, x: Array | None) -> Complexity:
    active = conditions_of(s)
    inputs = read_inputs(s.feature_names, s.columns)
    sets = [_different_sets(s, m, active[:, m]) for m in range(s.n_features)]
    crossings = [grade for m, rules in enumerate(sets) for grade in _crossings(s, m, rules)]
    explained = unknown = np.nan
    n_rows = 0 if x is None else len(x)
    if x is not None and n_rows:
        parts = [x[first : first + _ROWS] for first in range(0, n_rows, _ROWS)]
        leading = np.concatenate([rule_weights(s, part).crisp.mean(axis=2).max(axis=1) for part in parts])
        strongest = np.concatenate([s.firing(part)[1].max(axis=1) for part in parts])
        explained, unknown = float((leading >= _EXPLAINED).mean()), float((strongest < np.log(_KNOWN)).mean())
    return Complexity(
        n_rules=s.n_rules,
        n_inputs=len(inputs),
        conditions_per_rule=np.sum([active[:, first:end].any(axis=1) for _, first, end, _ in inputs], axis=0),
        sets_per_input=np.array([len(rules) for rules in sets]),
        overlap=float(np.mean(crossings)) if crossings else np.nan,
        n_rows=n_rows,
        explained=explained,
        unknown=unknown,
    )


def conditions_of(s: PlainSystem) -> Array:
    """The conditions that say something, boolean (rules, features)."""
    active = np.isfinite(s.upper_sigmas)
    if s.input_range is None:
        return active
    farthest = np.abs(s.input_range[:, np.newaxis] - s.centers).max(axis=0)
    return active & (np.exp2(-np.square(farthest / s.half_widths[0])) < _NO_CONDITION)


def _different_sets(s: PlainSystem, feature: int, active: Array) -> list[int]:
    """Rules with different sets on an input, in the order of their centers; of equal sets the first."""
    low, high = s.input_span(feature)
    found: list[int] = []
    values = np.stack([s.centers[:, feature], s.half_widths[1][:, feature]], axis=1) / (high - low)
    for rule in np.flatnonzero(active):
        if not any(np.abs(values[rule] - values[other]).max() < _SAME for other in found):
            found.append(int(rule))
    return sorted(found, key=lambda rule: float(s.centers[rule, feature]))


def _crossings(s: PlainSystem, feature: int, rules: list[int]) -> list[float]:
    """Grades in the firing at which each set of an input crosses the next one."""
    centers, widths = s.centers[rules, feature], s.half_widths[1][rules, feature]
    # Between two Gaussians the grades are equal where the distances from both centers are in proportion to the widths.
    distances = np.diff(centers) / (widths[:-1] + widths[1:])
    return np.exp2(-np.square(distances)).tolist()


def _numbers(counts: Array) -> str:
    """Least, mean and largest of some counts, or the one they all are."""
    least, largest = int(counts.min()), int(counts.max())
    return str(least) if least == largest else f"{least} to {largest}, {number_text(float(counts.mean()), 2)} on average"
