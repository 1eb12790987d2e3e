"""What rules and inputs do on a table: usage, dead and near-duplicate rules, inputs ranked in two ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils import check_random_state

from deepfls import metrics
from deepfls._checks import check_same_length, check_targets_of
from deepfls.estimators.base import FLSEstimator
from deepfls.inspection import explanation_text as show
from deepfls.inspection.plain import Array, PlainSystem
from deepfls.inspection.rules import shares_of
from deepfls.inspection.weights import rule_weights

# A rule whose weight never reaches this on any row is dead.
_DEAD = 0.01
# Rules overlapping more than this, by the share of their common firing, are near-duplicates if they also say the same.
_OVERLAP = 0.8
# "The same": consequents that differ by less than this share of the spread of the outputs, weighed by the firing.
_SAME = 0.1
# Rows used where every rule meets every other, and where columns are shuffled.
_ROWS = 5_000
# With very many inputs fewer rows, as many as keep the table this large.
_NUMBERS, _FEWEST = 2_000_000, 500


class RulePair(NamedTuple):
    """Two rules, from 0: ``overlap`` is Σ min(f_p, f_q) / Σ max(f_p, f_q) over the rows, and ``difference`` how much their
    consequents differ where they fire, relative to the spread of the outputs."""

    first: int
    second: int
    overlap: float
    difference: float


@dataclass(frozen=True)
class DataExplanation:
    """What rules and inputs do on a table.

    Attributes
    ----------
    feature_names : tuple of str
    n_rows : int
    shares : ndarray, shape (rules,)
        Share of the firing; they add up to 1.
    leads : ndarray, shape (rules,)
        Share of the rows on which the rule weighs most.
    largest_weight : ndarray, shape (rules,)
        Largest weight in any row and output.
    dead : tuple of int
        Rules, from 0, whose weight stays below 0.01 on all rows.
    duplicates : tuple of RulePair
        Pairs that fire together and say nearly the same.
    measure : {"rmse", "log_loss", "change"}
        What permutations are measured by: the error where y is given, else the root mean square change of the outputs.
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
        return show.usage_text(self, top)

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
        return show.usage_html(self)


def explain_data(estimator: FLSEstimator, X: Any, y: Any = None, *, random_state: Any = 0) -> DataExplanation:
    """What rules and inputs do on rows X; :meth:`FLSEstimator.explain_data` has the parameters."""
    s = PlainSystem.of(estimator)
    x = estimator._validated_x(X, reset=False)
    if y is not None:
        check_same_length(x, y)
        y = np.asarray(y) if s.classes is not None else check_targets_of(y, len(x), s.n_outputs)
    weights = [rule_weights(s, x[start : start + _ROWS]).crisp for start in range(0, len(x), _ROWS)]
    largest = np.max([part.max(axis=(0, 2)) for part in weights], axis=0)
    leading = np.concatenate([part.mean(axis=2).argmax(axis=1) for part in weights])
    n_sample = min(_ROWS, max(_FEWEST, _NUMBERS // s.n_features))
    sample = check_random_state(random_state).permutation(len(x))[:n_sample]
    truth = None if y is None else y[sample]
    measure, permutation = permutation_ranks(s, x[sample], truth, check_random_state(random_state))
    return DataExplanation(
        feature_names=s.feature_names,
        n_rows=len(x),
        shares=shares_of(s, x),
        leads=np.bincount(leading, minlength=s.n_rules) / len(x),
        largest_weight=largest,
        dead=tuple(np.flatnonzero(largest < _DEAD).tolist()),
        duplicates=near_duplicates(s, x[sample]),
        measure=measure,
        permutation=permutation,
        gradient=gradient_ranks(estimator, x[sample]),
    )


def near_duplicates(s: PlainSystem, x: Array) -> tuple[RulePair, ...]:
    """Pairs of rules that fire together and say nearly the same, the closest first."""
    log_lower, log_upper = s.firing(x)
    peak = log_upper.max(axis=1, keepdims=True)
    firing = np.exp(log_lower - peak) + np.exp(log_upper - peak)
    firing /= firing.sum(axis=1, keepdims=True)
    says = s.rule_outputs(x)
    spread = says.reshape(-1, s.n_outputs).std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    found = []
    for p in range(s.n_rules - 1):
        others = slice(p + 1, s.n_rules)
        common = np.minimum(firing[:, p : p + 1], firing[:, others])
        either = np.maximum(firing[:, p : p + 1], firing[:, others]).sum(axis=0)
        # Two rules that never fire have nothing in common.
        overlap = common.sum(axis=0) / np.where(either > 0, either, 1.0)
        for q in (p + 1 + np.flatnonzero(overlap > _OVERLAP)).tolist():
            weight = np.minimum(firing[:, p], firing[:, q])
            gap = np.square((says[:, p] - says[:, q]) / spread).mean(axis=1)
            difference = float(np.sqrt(np.average(gap, weights=weight)))
            if difference < _SAME:
                found.append(RulePair(p, q, float(overlap[q - p - 1]), difference))
    return tuple(sorted(found, key=lambda pair: -pair.overlap))


def permutation_ranks(s: PlainSystem, x: Array, y: Array | None, random: np.random.RandomState) -> tuple[str, Array]:
    """The measure, and its growth when each column is shuffled."""
    from sklearn.metrics import root_mean_squared_error

    firing, says = s.firing(x), s.rule_outputs(x)
    before = s.reduced(*firing, says).y
    spread = np.ones(s.n_outputs)
    if s.n_outputs > 1 and s.classes is None:
        spread = np.where(before.std(axis=0) > 0, before.std(axis=0), 1.0)

    def error(outputs: Array) -> float:
        if y is None:
            return float(np.sqrt(np.mean(np.square((outputs - before) / spread))))
        if s.classes is not None:
            odds = np.exp(outputs - outputs.max(axis=1, keepdims=True))
            return metrics.log_loss(y, odds / odds.sum(axis=1, keepdims=True), s.classes)
        return float(root_mean_squared_error(np.ravel(y / spread), np.ravel(outputs / spread)))

    start = error(before)
    order = random.permutation(len(x))
    growth = np.empty(s.n_features)
    exponent = -0.5 if s.tnorm == "product" else -0.5 / s.n_features
    for m in range(s.n_features):
        # Only one term of every sum changes: a full pass per input would take the square of their number.
        old, new = x[:, m : m + 1], x[order, m : m + 1]
        moved = []
        for log, sigmas in zip(firing, (s.lower_sigmas[:, m], s.upper_sigmas[:, m]), strict=True):
            before_term, after_term = (exponent * np.square((value - s.centers[:, m]) / sigmas) for value in (old, new))
            moved.append(log - before_term + after_term)
        shifted = says + (new - old)[:, :, np.newaxis] * s.slopes[:, :, m]
        growth[m] = error(s.reduced(np.minimum(*moved), moved[1], shifted).y) - start
    return "change" if y is None else "log_loss" if s.classes is not None else "rmse", growth


def gradient_ranks(estimator: FLSEstimator, x: Array) -> Array:
    """Root mean square derivative by every input times the spread of the input, the mean over outputs."""
    system = estimator.system_
    z = torch.from_numpy(estimator.x_scaling_.apply(x)).to(system.centers.device).requires_grad_(True)
    outputs = system(z)
    classifier = hasattr(estimator, "classes_")
    scale = np.ones(system.n_outputs) if classifier or system.n_outputs > 1 else estimator.y_scaling_.scale
    ranks = np.zeros(x.shape[1])
    for k in range(system.n_outputs):
        (slope,) = torch.autograd.grad(outputs[:, k].sum(), z, retain_graph=True)
        ranks += scale[k] * slope.square().mean(dim=0).sqrt().cpu().numpy()
    # Both in scaled units: the derivative by z times the spread of z is that by x times the spread of x.
    return ranks * z.detach().cpu().numpy().std(axis=0) / system.n_outputs
