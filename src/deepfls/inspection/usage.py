"""Rules and inputs on a table: usage, dead and near-duplicate rules, inputs ranked in two ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from sklearn.utils import check_random_state

from deepfls import metrics
from deepfls._checks.arguments import counted
from deepfls._checks.values import Array, softmax
from deepfls.inspection.plain import PlainSystem, RuleValues, firing_shares, rule_weights, shares_of
from deepfls.inspection.plain_model import PlainModel, rows_of, true_values, weighted_mean
from deepfls.inspection.pushes import input_terms
from deepfls.inspection.words import TextTable, number_text, rendered, share_text, shortened

if TYPE_CHECKING:
    from deepfls.estimators.base import FLSEstimator

# A rule whose weight stays below this on all rows is dead.
_DEAD = 0.01
# Rules that overlap more than this are near-duplicates if their consequents are also nearly equal: their difference,
# weighted by the firing, is below this share of the spread of all consequents.
_OVERLAP, _SAME = 0.8, 0.1
# Rows used to compare all pairs of rules and to shuffle columns.
_ROWS = 5_000
# With very many inputs fewer rows, so that the table has at most so many numbers, but no fewer rows than this.
_NUMBERS, _FEWEST = 2_000_000, 500
# Rules and inputs that a notebook shows.
_SHOWN = 20


class RulePair(NamedTuple):
    """Two rules, from 0: ``overlap`` is Σ min(f_p, f_q) / Σ max(f_p, f_q) over the rows, and ``difference`` how much their
    consequents differ where they fire, relative to the spread of the outputs."""

    first: int
    second: int
    overlap: float
    difference: float


@dataclass(frozen=True)
class DataExplanation:
    """What rules and inputs do on a table. The rules of several systems stand one after another.

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
        return {
            "rows": self.n_rows,
            "measure": self.measure,
            "rules": [
                {
                    "rule": p + 1,
                    "share": float(self.shares[p]),
                    "leads": float(self.leads[p]),
                    "largest_weight": float(self.largest_weight[p]),
                    "dead": p in self.dead,
                }
                for p in range(len(self.shares))
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
    x = rows_of(estimator, X)
    truth = None if y is None else true_values(s, x, y)
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
        duplicates=_all_near_duplicates(s, x[sample]),
        measure=measure,
        permutation=permutation,
        gradient=_gradient_ranks(estimator, x[sample]),
    )


def _rule_usage(model: PlainModel, x: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Of every system: shares of the firing, shares of the rows led, and largest weights of its rules, each (rules,)."""
    for share, s in zip(model.shares, model.systems, strict=True):
        weights = [rule_weights(s, x[start : start + _ROWS]).crisp for start in range(0, len(x), _ROWS)]
        leading = np.concatenate([part.mean(axis=2).argmax(axis=1) for part in weights])
        leads = np.bincount(leading, minlength=s.n_rules) / len(x)
        yield share * shares_of(s, x), share * leads, np.max([part.max(axis=(0, 2)) for part in weights], axis=0)


def _all_near_duplicates(model: PlainModel, x: Array) -> tuple[RulePair, ...]:
    """The pairs of every system, with the places of the rules among those of all systems; the largest overlap first."""
    found, first = [], 0
    for s in model.systems:
        found += [pair._replace(first=first + pair.first, second=first + pair.second) for pair in _near_duplicates(s, x)]
        first += s.n_rules
    return tuple(sorted(found, key=lambda pair: -pair.overlap))


def rule_overlaps(shares: Array) -> Array:
    """Overlap of every rule with those after it, (rules, rules), from shares of the firing (rows, rules).

    The overlap of two rules is Σ min(f_p, f_q) / Σ max(f_p, f_q) over the rows; 0 for two rules that never fire.
    """
    n_rules = shares.shape[1]
    overlaps = np.zeros((n_rules, n_rules))
    for p in range(n_rules - 1):
        one, others = shares[:, p : p + 1], shares[:, p + 1 :]
        common, either = np.minimum(one, others).sum(axis=0), np.maximum(one, others).sum(axis=0)
        overlaps[p, p + 1 :] = common / np.where(either > 0, either, 1.0)
    return overlaps


def _near_duplicates(s: PlainSystem, x: Array) -> tuple[RulePair, ...]:
    """Pairs of rules of a system that fire together and have nearly equal consequents."""
    log_lower, log_upper, consequents = s.rule_values(x)
    shares = firing_shares(log_lower, log_upper)
    spread = consequents.reshape(-1, s.n_outputs).std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    overlaps = rule_overlaps(shares)
    found = []
    for p, q in np.argwhere(overlaps > _OVERLAP).tolist():
        gap = np.square((consequents[:, p] - consequents[:, q]) / spread).mean(axis=1)
        difference = float(np.sqrt(np.average(gap, weights=np.minimum(shares[:, p], shares[:, q]))))
        if difference < _SAME:
            found.append(RulePair(p, q, float(overlaps[p, q]), difference))
    return tuple(found)


def _permutation_ranks(s: PlainModel, x: Array, y: Array | None, order: Array) -> tuple[str, Array]:
    """The measure, and its growth when each column is shuffled by ``order``."""
    from sklearn.metrics import root_mean_squared_error  # here: slow to import

    values = [system.rule_values(x) for system in s.systems]
    before = _mean_output(s, values)
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
            terms = (input_terms(system, x[rows, m], m) for rows in (order, slice(None)))
            steps = [new - now for new, now in zip(*terms, strict=True)]
            lower, upper, consequents = (value + step for value, step in zip(old, steps, strict=True))
            moved.append(RuleValues(np.minimum(lower, upper), upper, consequents))
        growth[m] = error(_mean_output(s, moved)) - start
    return "change" if y is None else "log_loss" if s.classes is not None else "rmse", growth


def _mean_output(model: PlainModel, values: Sequence[RuleValues]) -> Array:
    """Crisp outputs (rows, outputs) of a model from the rule values of its systems."""
    outputs = [s.reduced(*value) for s, value in zip(model.systems, values, strict=True)]
    return weighted_mean(model.shares, outputs).y


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
