"""Simplification: merge and prune rules step by step while the error stays within a tolerance."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from deepfls._checks.values import check_number
from deepfls.estimators.base import FLSEstimator
from deepfls.inspection.arguments import rows_of, true_values
from deepfls.inspection.fewer_rules import RuleSubset, fill_system
from deepfls.inspection.plain import Array, PlainSystem, firing_shares, outputs_of, shares_of, softmax
from deepfls.inspection.usage import rule_overlaps

# Rows on which errors are measured, on which consequents are fitted, and on which candidates are compared first.
_ROWS, _FIT_ROWS, _FIRST_ROWS = 10_000, 5_000, 500
# Candidates of each kind that are compared first, and the number of them that are fitted and measured.
_CANDIDATES, _MEASURED = 16, 2
# One rule in so many is pruned at once, in systems of at least twice as many rules.
_AT_ONCE = 20


class Step(NamedTuple):
    """One step: "prune" or "merge", the numbers of its rules in the original, and the error after it."""

    action: str
    rules: tuple[str, ...]
    error: float


@dataclass(frozen=True)
class SimplifyReport:
    """Steps of a simplification and their effect on the error.

    Attributes
    ----------
    n_rules_before, n_rules_after : int
    measure : str
        Name of the error.
    error_before, error_after : float
        On the rows given.
    tolerance : float
        Largest relative increase that was allowed.
    steps : tuple of Step
    """

    n_rules_before: int
    n_rules_after: int
    measure: str
    error_before: float
    error_after: float
    tolerance: float
    steps: tuple[Step, ...]

    @property
    def increase(self) -> float:
        """Relative increase of the error; negative where it fell."""
        return self.error_after / self.error_before - 1.0 if self.error_before > 0 else 0.0

    def __str__(self) -> str:
        if self.n_rules_before == 1:
            return "The system has 1 rule: there is nothing to simplify."
        if not self.steps:
            return (
                f"All {self.n_rules_before} rules stay: every step would increase the {self.measure} by more than "
                f"{self.tolerance:.2%}."
            )
        lines = [
            f"{self.n_rules_before} rules became {self.n_rules_after}: {self.measure} {self.error_before:.5g} became "
            f"{self.error_after:.5g} ({self.increase:+.2%}, {self.tolerance:+.2%} allowed)."
        ]
        for step in self.steps:
            what = f"merged {' and '.join(step.rules)}" if step.action == "merge" else f"pruned {step.rules[0]}"
            lines.append(f"  {what}: {step.error:.5g}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**vars(self), "increase": self.increase, "steps": [step._asdict() for step in self.steps]}


class Simplification(NamedTuple):
    """A new estimator with fewer rules, and the report of its simplification."""

    estimator: FLSEstimator
    report: SimplifyReport


def simplify(estimator: FLSEstimator, X: Any, y: Any, *, tolerance: float = 0.01) -> Simplification:
    """A simpler estimator; :meth:`FLSEstimator.simplify` has the parameters."""
    check_number("tolerance", tolerance, minimum=0.0)
    # In the scaled units of training, where the units of the data cost no digits.
    s = PlainSystem.of(estimator, scaled=True)
    x = rows_of(estimator, X)
    truth = true_values(s, x, y)
    rows = np.random.default_rng(0).permutation(len(x))[:_ROWS]
    z = estimator.x_scaling_.apply(x[rows])
    objective = _Objective.of(estimator, s, z, truth[rows])
    subset = RuleSubset.of(s, z)
    before = objective.error(subset)
    # The addend lets a step pass that changes the error by rounding alone.
    allowed = before * (1.0 + tolerance) + 1e-12
    steps: list[Step] = []
    at_once = _AT_ONCE
    while subset.plain.n_rules > 1:
        # Of very many rules several are pruned at once: one by one would cost the square of their number.
        count = subset.plain.n_rules // at_once
        if count < 2:
            found = _best_step(subset, z, objective)
        else:
            found = _pruned_at_once(subset, z, objective, min(count, _CANDIDATES))
        if found.error > allowed or not np.isfinite(found.error):
            if count < 2:
                break
            at_once *= 2
            continue
        subset = found.subset
        steps += found.steps
    fewer = _estimator_with(estimator, subset.plain, x)
    after = objective.error(RuleSubset.of(PlainSystem.of(fewer, scaled=True), z))
    report = SimplifyReport(
        s.n_rules,
        subset.plain.n_rules,
        objective.measure,
        before * objective.unit,
        after * objective.unit,
        tolerance,
        tuple(step._replace(error=step.error * objective.unit) for step in steps),
    )
    return Simplification(fewer, report)


class _Objective(NamedTuple):
    """The error measure in scaled units, and the targets of the consequents, both (rows, outputs)."""

    measure: str
    unit: float
    truth: Array
    targets: Array
    classifies: bool

    @classmethod
    def of(cls, estimator: FLSEstimator, s: PlainSystem, z: Array, y: Array) -> _Objective:
        if s.classes is not None:
            unknown = sorted({str(value) for value in y[~np.isin(y, s.classes)].tolist()})
            if unknown:
                raise ValueError(f"y must hold classes the model was trained on, got {unknown[0]!r}.")
            # The consequents are fitted to the logits of the original: classes do not determine the size of logits.
            truth = (y[:, np.newaxis] == s.classes).astype(np.float64)
            return cls("RMSE of the probabilities", 1.0, truth, outputs_of(s, z), True)
        truth = estimator.y_scaling_.apply(y)
        if s.n_outputs == 1:
            return cls("RMSE", float(estimator.y_scaling_.scale[0]), truth, truth, False)
        return cls("RMSE in standard deviations of the targets", 1.0, truth, truth, False)

    def error(self, subset: RuleSubset) -> float:
        """RMSE on the rows of the subset, which are the first rows of ``truth``."""
        outputs = subset.plain.reduced(*subset.values).y
        if self.classifies:
            outputs = softmax(outputs)
        return float(np.sqrt(np.mean(np.square(outputs - self.truth[: len(outputs)]))))


class _Found(NamedTuple):
    error: float
    subset: RuleSubset
    steps: list[Step]


def _best_step(subset: RuleSubset, z: Array, objective: _Objective) -> _Found:
    """The step of the smallest error among the candidates that are best on the first rows."""
    first = subset.first_rows(_FIRST_ROWS)
    row_shares = firing_shares(first.values.log_lower, first.values.log_upper)
    shares = row_shares.mean(axis=0)
    rarest: list[tuple[int, ...]] = [(rule,) for rule in np.argsort(shares, kind="stable")[:_CANDIDATES].tolist()]

    def changed(now: RuleSubset, rules: tuple[int, ...], rows: Array) -> RuleSubset:
        return now.pruned([rules[0]]) if len(rules) == 1 else now.merged(rules[0], rules[1], shares, rows)

    def first_error(rules: tuple[int, ...]) -> float:
        return objective.error(changed(first, rules, z[:_FIRST_ROWS]))

    found = []
    for candidates in (rarest, _closest_pairs(row_shares)):
        for rules in sorted(candidates, key=first_error)[:_MEASURED]:
            error, fewer = _fitted(changed(subset, rules, z), z, objective)
            numbers = tuple(subset.numbers[rule] for rule in rules)
            found.append(_Found(error, fewer, [Step("merge" if len(rules) == 2 else "prune", numbers, error)]))
    return min(found, key=lambda one: one.error)


def _pruned_at_once(subset: RuleSubset, z: Array, objective: _Objective, count: int) -> _Found:
    """Without the ``count`` rules of the smallest share of the firing."""
    first = subset.first_rows(_FIRST_ROWS).values
    shares = firing_shares(first.log_lower, first.log_upper).mean(axis=0)
    rules = np.argsort(shares, kind="stable")[:count].tolist()
    error, fewer = _fitted(subset.pruned(rules), z, objective)
    return _Found(error, fewer, [Step("prune", (subset.numbers[rule],), error) for rule in rules])


def _fitted(subset: RuleSubset, z: Array, objective: _Objective) -> tuple[float, RuleSubset]:
    """Error and rules, with the consequents fitted again if that lowers the error."""
    refitted = subset.refitted(z, objective.targets, _FIT_ROWS)
    return min((objective.error(subset), subset), (objective.error(refitted), refitted), key=lambda pair: pair[0])


def _closest_pairs(row_shares: Array) -> list[tuple[int, ...]]:
    """Pairs of rules in descending order of their overlap."""
    first, second = np.triu_indices(row_shares.shape[1], 1)
    order = np.argsort(-rule_overlaps(row_shares)[first, second], kind="stable")[:_CANDIDATES]
    return list(zip(first[order].tolist(), second[order].tolist(), strict=True))


def _estimator_with(estimator: FLSEstimator, s: PlainSystem, x: Array) -> FLSEstimator:
    """A copy of an estimator with the rules of a PlainSystem in scaled units."""
    fewer = copy.copy(estimator)
    fewer.__dict__ = {name: copy.copy(value) for name, value in vars(estimator).items() if name != "initial_sets_"}
    fewer.n_rules = s.n_rules
    fewer._structure_ = replace(estimator._structure_, n_rules=s.n_rules)
    # "auto" was decided when the system was made.
    system = replace(fewer._structure_, tnorm=estimator.system_.tnorm).new_system()
    device = estimator.system_.centers.device
    system.to(device=device, dtype=torch.float64)
    fill_system(system, s)
    fewer.system_ = system.requires_grad_(False)
    fewer.rule_shares_ = shares_of(s, estimator.x_scaling_.apply(x))
    return fewer
