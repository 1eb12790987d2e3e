"""How much there is to read in a model, and what its rules and inputs do on a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from sklearn.utils import check_random_state

from deepfls import metrics
from deepfls._checks.arguments import counted
from deepfls._checks.tensors import usual_torch
from deepfls._checks.values import Array, softmax
from deepfls.inspection import plain_model
from deepfls.inspection.plain import PlainSystem, RuleValues, firing_shares
from deepfls.inspection.plain_model import AnyModel, PlainModel
from deepfls.inspection.words import TextTable, number_text, read_inputs, rendered, share_text, shortened

if TYPE_CHECKING:
    from deepfls.estimators.base import FLSEstimator

# A condition whose grade in the firing stays at or above this share over the range of its input has no effect.
_NO_CONDITION = 0.95
# Sets of an input are one if centers and half-widths differ by less than this share of the range.
_SAME_SET = 1e-3
# Least weight of a rule that explains a row, and least firing of a rule by which a row is known.
_EXPLAINED, _KNOWN = 0.5, 0.05
# A rule whose weight stays below this on all rows is dead.
_DEAD = 0.01
# Rules that overlap more than this are near-duplicates if their consequents are also nearly equal: their difference,
# weighted by the firing, is below this share of the spread of all consequents.
_OVERLAP, _SAME = 0.8, 0.1
# Rows of a pass, and those used to compare all pairs of rules and to shuffle columns.
_ROWS = 5_000
# Largest number of values of that table, which has fewer rows if inputs are very many, and its least number of rows.
_NUMBERS, _FEWEST = 2_000_000, 500
_SHOWN = 20  # rules and inputs that a notebook shows


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
    return complexity_of(PlainModel.of(estimator), None if X is None else estimator._known_x(X))


def complexity_of(model: AnyModel, x: Array | None = None) -> Complexity:
    """The card of a plain model, with the shares of rows x (rows, features) in its units."""
    inputs = read_inputs(model.feature_names, model.columns)
    n_rows = 0 if x is None else len(x)
    conditions, n_sets, overlaps, of_rows = [], [], [], []
    for s in model.systems:
        active = _conditions(s)
        sets = [_different_sets(s, m, active[:, m]) for m in range(s.n_features)]
        crossings = [grade for m, rules in enumerate(sets) for grade in _crossings(s, m, rules)]
        conditions.append(np.sum([active[:, first:end].any(axis=1) for _, first, end, _ in inputs], axis=0))
        n_sets.append([len(rules) for rules in sets])
        overlaps.append(np.mean(crossings) if crossings else np.nan)
        of_rows.append(_explained_and_unknown(s, x) if x is not None and n_rows else (np.nan, np.nan))
    shares, found = np.array(model.shares), np.array(overlaps)
    crossed = ~np.isnan(found)
    explained, unknown = (float(np.dot(shares, values)) for values in zip(*of_rows, strict=True))
    return Complexity(
        n_rules=model.n_rules,
        n_inputs=len(inputs),
        conditions_per_rule=np.concatenate(conditions),
        sets_per_input=np.sum(n_sets, axis=0),
        overlap=float(np.average(found[crossed], weights=shares[crossed])) if crossed.any() else np.nan,
        n_rows=n_rows,
        explained=explained,
        unknown=unknown,
        n_systems=len(model.systems),
    )


def _explained_and_unknown(s: PlainSystem, x: Array) -> tuple[float, float]:
    """Share of rows x on which the strongest rule has a large weight, and of those on which no rule fires well."""
    parts = [x[first : first + _ROWS] for first in range(0, len(x), _ROWS)]
    leading = np.concatenate([plain_model.rule_weights(s, part).crisp.mean(axis=2).max(axis=1) for part in parts])
    strongest = np.concatenate([s.firing(part)[1].max(axis=1) for part in parts])
    return float((leading >= _EXPLAINED).mean()), float((strongest < np.log(_KNOWN)).mean())


def _conditions(s: PlainSystem) -> Array:
    """The conditions that have an effect, boolean (rules, features)."""
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
        if not any(np.abs(values[rule] - values[other]).max() < _SAME_SET for other in found):
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


class RulePair(NamedTuple):
    """Two rules, from 0: ``overlap`` is Σ min(f_p, f_q) / Σ max(f_p, f_q) over the rows, and ``difference`` how much their
    consequents differ where they fire, relative to the spread of the outputs."""

    first: int
    second: int
    overlap: float
    difference: float


@dataclass(frozen=True)
class DataExplanation:
    """What rules and inputs do on a table. The rules of several systems follow one another.

    Attributes
    ----------
    feature_names : tuple of str
    n_rows : int
    shares : ndarray, shape (rules,)
        Share of the firing; they add up to 1.
    leads : ndarray, shape (rules,)
        Share of the rows on which the rule has the largest weight; with several systems in its system, times its share.
    largest_weight : ndarray, shape (rules,)
        Largest weight in any row and output, within its system.
    dead : tuple of int
        Rules, from 0, whose weight stays below 0.01 on all rows.
    duplicates : tuple of RulePair
        Pairs that fire together and have nearly equal consequents.
    measure : {"rmse", "log_loss", "change"}
        The measure of the permutations: the error where y is given, else the root mean square change of the outputs.
    permutation : ndarray, shape (features,)
        Growth of that measure when the column is shuffled; the mean over outputs in units of their spread if there are
        several.
    gradient : ndarray, shape (features,)
        Root mean square of the output's derivative by the input, times the standard deviation of the input on these rows.
    """

    feature_names: tuple[str, ...]
    n_rows: int
    shares: Array
    leads: Array
    largest_weight: Array
    dead: tuple[int, ...]
    duplicates: tuple[RulePair, ...]
    measure: str
    permutation: Array
    gradient: Array

    def to_text(self, *, top: int = 20) -> str:
        """Both tables as text, the ``top`` rules and inputs."""
        return "\n\n".join(f"{heading}\n{table.text()}" for heading, table in _tables(self, top)) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        of_rules = self.shares.tolist(), self.leads.tolist(), self.largest_weight.tolist()
        return {
            "rows": self.n_rows,
            "measure": self.measure,
            "rules": [
                {"rule": p + 1, "share": share, "leads": leads, "largest_weight": largest, "dead": p in self.dead}
                for p, (share, leads, largest) in enumerate(zip(*of_rules, strict=True))
            ],
            "duplicates": [
                {"rules": [pair.first + 1, pair.second + 1], "overlap": pair.overlap, "difference": pair.difference}
                for pair in self.duplicates
            ],
            "inputs": [
                {"name": name, "permutation": float(self.permutation[m]), "gradient": float(self.gradient[m])}
                for m, name in enumerate(self.feature_names)
            ],
        }

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return rendered("tables.html", parts=[(heading, [table]) for heading, table in _tables(self, _SHOWN)])


def explain_data(estimator: FLSEstimator, X: Any, y: Any = None, *, random_state: Any = 0) -> DataExplanation:
    """What rules and inputs do on rows X; :meth:`FLSRegressor.explain_data` has the parameters."""
    s = PlainModel.of(estimator)
    x = estimator._known_x(X)
    truth = None if y is None else plain_model.true_values(s, x, y)
    shares, leads, largest = (np.concatenate(column) for column in zip(*_rule_usage(s, x), strict=True))
    n_sample = min(_ROWS, max(_FEWEST, _NUMBERS // s.n_features))
    sample = check_random_state(random_state).permutation(len(x))[:n_sample]
    order = check_random_state(random_state).permutation(len(sample))
    measure, permutation = _permutation_ranks(s, x[sample], None if truth is None else truth[sample], order)
    return DataExplanation(
        feature_names=s.feature_names,
        n_rows=len(x),
        shares=shares,
        leads=leads,
        largest_weight=largest,
        dead=tuple(np.flatnonzero(largest < _DEAD).tolist()),
        duplicates=_near_duplicates(s, x[sample]),
        measure=measure,
        permutation=permutation,
        gradient=_gradient_ranks(estimator, x[sample]),
    )


def _rule_usage(model: PlainModel, x: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Of every system: shares of the firing, shares of the rows led, and largest weights of its rules, each (rules,)."""
    for share, s in zip(model.shares, model.systems, strict=True):
        weights = [plain_model.rule_weights(s, x[start : start + _ROWS]).crisp for start in range(0, len(x), _ROWS)]
        leading = np.concatenate([part.mean(axis=2).argmax(axis=1) for part in weights])
        leads = np.bincount(leading, minlength=s.n_rules) / len(x)
        yield (
            share * plain_model.shares_of(s, x),
            share * leads,
            np.max([part.max(axis=(0, 2)) for part in weights], axis=0),
        )


def _near_duplicates(model: PlainModel, x: Array) -> tuple[RulePair, ...]:
    """Pairs of rules of one system that fire together and have nearly equal consequents; the largest overlap first."""
    found, before = [], 0  # the rules of the systems before this one
    for s in model.systems:
        log_lower, log_upper, consequents = s.rule_values(x)
        shares = firing_shares(log_lower, log_upper)
        spread = consequents.reshape(-1, s.n_outputs).std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        overlaps = plain_model.rule_overlaps(shares)
        for p, q in np.argwhere(overlaps > _OVERLAP).tolist():
            gap = np.square((consequents[:, p] - consequents[:, q]) / spread).mean(axis=1)
            difference = float(np.sqrt(np.average(gap, weights=np.minimum(shares[:, p], shares[:, q]))))
            if difference < _SAME:
                found.append(RulePair(before + p, before + q, float(overlaps[p, q]), difference))
        before += s.n_rules
    return tuple(sorted(found, key=lambda pair: -pair.overlap))


def _permutation_ranks(s: PlainModel, x: Array, y: Array | None, order: Array) -> tuple[str, Array]:
    """The measure, and its growth when each column is shuffled by ``order``."""
    from sklearn.metrics import root_mean_squared_error  # here: slow to import

    def outputs_from(values: Sequence[RuleValues]) -> Array:
        return plain_model.weighted_mean(
            s.shares, [system.reduced(*own) for system, own in zip(s.systems, values, strict=True)]
        ).y

    values = [system.rule_values(x) for system in s.systems]
    before = outputs_from(values)
    spread = np.ones(s.n_outputs)
    if s.n_outputs > 1 and s.classes is None:
        spread = np.where(before.std(axis=0) > 0, before.std(axis=0), 1.0)

    def error(outputs: Array) -> float:
        if y is None:
            return float(np.sqrt(np.mean(np.square((outputs - before) / spread))))
        if s.classes is not None:
            return metrics.log_loss(y, softmax(outputs), s.classes)
        return float(root_mean_squared_error(np.ravel(y / spread), np.ravel(outputs / spread)))

    start = error(before)
    growth = np.empty(s.n_features)
    for m in range(s.n_features):
        # Only one term of every sum changes: a full pass per input would cost the square of the number of inputs.
        moved = []
        for system, old in zip(s.systems, values, strict=True):
            terms = (plain_model.input_terms(system, x[rows, m], m) for rows in (order, slice(None)))
            steps = [new - now for new, now in zip(*terms, strict=True)]
            lower, upper, consequents = (value + step for value, step in zip(old, steps, strict=True))
            moved.append(RuleValues(np.minimum(lower, upper), upper, consequents))
        growth[m] = error(outputs_from(moved)) - start
    return "change" if y is None else "log_loss" if s.classes is not None else "rmse", growth


@usual_torch()
def _gradient_ranks(estimator: FLSEstimator, x: Array) -> Array:
    """Root mean square derivative by every input times the spread of the input, the mean over outputs."""
    model = estimator._model if not np.isnan(x).any() else estimator._model.taking_nan()
    system = model.system
    z = torch.from_numpy(estimator.x_scaling_.apply(x)).to(system.centers.device).requires_grad_(True)
    outputs = sum(share * member(z) for share, member in zip(model.shares.tolist(), model.systems, strict=True))
    assert isinstance(outputs, torch.Tensor)
    classifier = hasattr(estimator, "classes_")
    scale = np.ones(system.n_outputs) if classifier or system.n_outputs > 1 else estimator.y_scaling_.scale
    ranks = np.zeros(x.shape[1])
    for k in range(system.n_outputs):
        (slope,) = torch.autograd.grad(outputs[:, k].sum(), z, retain_graph=True)
        ranks += scale[k] * slope.nan_to_num().square().mean(dim=0).sqrt().cpu().numpy()
    # In scaled units: the derivative by z times the spread of z equals the derivative by x times the spread of x.
    spread = np.ma.masked_invalid(z.detach().cpu().numpy()).std(axis=0)
    return ranks * np.ma.filled(spread, 0.0) / system.n_outputs


def _tables(u: DataExplanation, top: int) -> list[tuple[str, TextTable]]:
    """Tables of rules and inputs, each with a heading."""
    notes = dict.fromkeys(u.dead, "dead")
    for pair in u.duplicates:
        for rule, other in ((pair.first, pair.second), (pair.second, pair.first)):
            notes[rule] = f"{notes[rule]}, {other + 1}" if rule in notes else f"much like {other + 1}"
    rules = []
    for p in np.argsort(-u.shares, kind="stable")[:top].tolist():
        shares = (share_text(float(values[p])) for values in (u.shares, u.leads))
        rules.append([str(p + 1), *shares, f"{u.largest_weight[p]:.3f}", notes.get(p, "")])
    inputs = [
        [shortened(u.feature_names[m]), number_text(u.permutation[m], 4), number_text(u.gradient[m], 4)]
        for m in np.argsort(-u.permutation, kind="stable")[:top].tolist()
    ]
    growth = {"rmse": "RMSE grows by", "log_loss": "log loss grows by", "change": "outputs move by"}[u.measure]
    rules_table = TextTable(["rule", "of the firing", "rows led", "largest weight", "note"], rules)
    inputs_table = TextTable(["input", f"shuffled: {growth}", "gradient times spread"], inputs)
    return [(f"Rules on {counted(u.n_rows, 'row')}", rules_table), ("Inputs", inputs_table)]
