"""Fewer rules for a stated price: merge and prune, step by step, as long as the error allows."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from deepfls._checks import check_classes_known, check_number, check_same_length, check_targets_of
from deepfls.explain.fewer import fill_system, kept, merged, refitted, scaled_snapshot
from deepfls.learner import FLSEstimator
from deepfls.rules.ruleset import outputs_of, shares_of
from deepfls.snapshot import Array, Snapshot

# Rows on which errors are measured and consequents fitted, and on which candidates are compared before that.
_ROWS, _FIRST_LOOK = 20_000, 1_000
_FIT_ROWS = 5_000
# Candidates of each kind that get a first look, and those of them that are fitted and measured.
_CANDIDATES, _SERIOUS = 16, 2


class Step(NamedTuple):
    """One step: "prune" or "merge", the rules it took by their numbers in the original, and the error after it."""

    action: str
    rules: tuple[str, ...]
    error: float


@dataclass(frozen=True)
class SimplifyReport:
    """What a simplification did and cost.

    Attributes
    ----------
    n_rules_before, n_rules_after : int
    measure : str
        What ``error`` is.
    error_before, error_after : float
        On the rows given.
    tolerance : float
        Relative increase that was allowed.
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
        if not self.steps:
            return f"All {self.n_rules_before} rules stay: no step keeps the {self.measure} within {self.tolerance:.3g}."
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
    """A new estimator with fewer rules, and what it cost."""

    estimator: Any
    report: SimplifyReport


def simplify(estimator: FLSEstimator, X: Any, y: Any, *, tolerance: float = 0.01) -> Simplification:
    """A simpler estimator; :meth:`FLSEstimator.simplify` has the parameters."""
    check_number("tolerance", tolerance, minimum=0.0)
    s = scaled_snapshot(estimator)
    x = estimator._validated_x(X, reset=False)
    check_same_length(x, y)
    y = np.asarray(y) if s.classes is not None else check_targets_of(y, len(x), s.n_outputs)
    rows = np.random.default_rng(0).permutation(len(x))[:_ROWS]
    z = estimator.x_scaling_.apply(x[rows])
    task = _Task.of(estimator, s, z, y[rows])
    numbers = [str(rule + 1) for rule in range(s.n_rules)]
    before = task.error(s)
    steps: list[Step] = []
    while s.n_rules > 1:
        found = _best_step(s, z, task, numbers)
        # A trace above, so that a step that changes nothing is never refused by a rounding.
        if found is None or not found.error <= before * (1.0 + tolerance) + 1e-12:
            break
        s, numbers = found.snapshot, found.numbers
        steps.append(found.step)
    fewer = _estimator_with(estimator, s, x)
    after = task.error(scaled_snapshot(fewer))
    report = SimplifyReport(
        estimator.system_.n_rules,
        s.n_rules,
        task.measure,
        before * task.unit,
        after * task.unit,
        tolerance,
        tuple(step._replace(error=step.error * task.unit) for step in steps),
    )
    return Simplification(fewer, report)


class _Task(NamedTuple):
    """What a system is measured by, in scaled units, and what its consequents are fitted to."""

    measure: str
    unit: float
    truth: Array
    aim: Array
    z: Array
    classifies: bool

    @classmethod
    def of(cls, estimator: FLSEstimator, s: Snapshot, z: Array, y: Array) -> _Task:
        if s.classes is not None:
            check_classes_known(y, s.classes)
            # Fitted to its own scores: the classes say nothing of their size.
            truth = (y[:, np.newaxis] == s.classes).astype(np.float64)
            return cls("RMSE of the probabilities", 1.0, truth, outputs_of(s, z), z, True)
        truth = estimator.y_scaling_.apply(y)
        single = s.n_outputs == 1
        unit = float(estimator.y_scaling_.scale[0]) if single else 1.0
        return cls("RMSE" if single else "RMSE in standard deviations of the targets", unit, truth, truth, z, False)

    def error(self, s: Snapshot, rows: slice = slice(None)) -> float:
        return self.error_of(outputs_of(s, self.z[rows]), rows)

    def error_of(self, outputs: Array, rows: slice) -> float:
        if self.classifies:
            odds = np.exp(outputs - outputs.max(axis=1, keepdims=True))
            outputs = odds / odds.sum(axis=1, keepdims=True)
        return float(np.sqrt(np.mean(np.square(outputs - self.truth[rows]))))


class _Found(NamedTuple):
    error: float
    snapshot: Snapshot
    numbers: list[str]
    step: Step


def _best_step(s: Snapshot, z: Array, task: _Task, numbers: list[str]) -> _Found | None:
    """The step that costs least, of a few that a first look on some rows singled out."""
    look = slice(0, _FIRST_LOOK)
    shares = shares_of(s, z[look])
    pruned = [
        ((p,), kept(s, [q for q in range(s.n_rules) if q != p]))
        for p in np.argsort(shares, kind="stable")[:_CANDIDATES].tolist()
    ]
    joined = [((p, q), merged(s, p, q, shares)) for p, q in _closest_pairs(s, z[look])]
    best: _Found | None = None
    for group in (pruned, joined):
        group.sort(key=lambda candidate: task.error(candidate[1], look))
        for rules, fewer in group[:_SERIOUS]:
            fit = refitted(fewer, z[:_FIT_ROWS], task.aim[:_FIT_ROWS])
            error, chosen = min(((task.error(one), place, one) for place, one in enumerate((fewer, fit))))[::2]
            if best is None or error < best.error:
                names = tuple(numbers[rule] for rule in rules)
                left = [name for rule, name in enumerate(numbers) if rule != rules[-1]]
                if len(rules) == 2:
                    left[rules[0]] = "+".join(names)
                best = _Found(error, chosen, left, Step("merge" if len(rules) == 2 else "prune", names, error))
    return best


def _closest_pairs(s: Snapshot, z: Array) -> list[tuple[int, int]]:
    """Pairs of rules by their overlap, the share of their common firing, the closest first."""
    _, log_upper = s.firing(z)
    firing = np.exp(log_upper - log_upper.max(axis=1, keepdims=True))
    firing /= firing.sum(axis=1, keepdims=True)
    overlaps = []
    for p in range(s.n_rules - 1):
        common, either = (
            combined(firing[:, p : p + 1], firing[:, p + 1 :]).sum(axis=0) for combined in (np.minimum, np.maximum)
        )
        shares = common / np.where(either > 0, either, 1.0)
        overlaps += [(-float(share), p, p + 1 + place) for place, share in enumerate(shares)]
    return [(p, q) for _, p, q in sorted(overlaps)[:_CANDIDATES]]


def _estimator_with(estimator: FLSEstimator, s: Snapshot, x: Array) -> FLSEstimator:
    """A copy of an estimator with the rules of a snapshot in its scaled units."""
    fewer = copy.copy(estimator)
    fewer.__dict__ = {name: copy.copy(value) for name, value in vars(estimator).items() if name != "initial_sets_"}
    fewer.n_rules = s.n_rules
    # "auto" was decided when the system was made.
    maker = copy.copy(fewer)
    maker.tnorm = estimator.system_.tnorm
    for name in ("kind", "order", "uncertainty", "type_reduction"):
        setattr(maker, name, estimator._structure_[name])
    system = maker._new_system(s.n_features, s.n_outputs)
    device = estimator.system_.centers.device
    system.to(device=device, dtype=torch.float64)
    fill_system(system, s)
    fewer.system_ = system.requires_grad_(False)
    fewer._structure_ = {**estimator._structure_, "n_rules": s.n_rules}
    fewer.rule_shares_ = shares_of(s, estimator.x_scaling_.apply(x))
    return fewer
