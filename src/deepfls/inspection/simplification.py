"""Fewer rules for a stated price: merge and prune, step by step, as long as the error allows."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from deepfls._checks import check_classes_known, check_number, check_same_length, check_targets_of
from deepfls.estimators.base import FLSEstimator
from deepfls.inspection.fewer_rules import Fired, fill_system, kept, merged, refitted, scaled_plain_system
from deepfls.inspection.plain import Array, PlainSystem
from deepfls.inspection.rules import outputs_of, shares_of

# Rows on which errors are measured and consequents fitted, and on which candidates are compared before that.
_ROWS, _FIRST_LOOK = 10_000, 500
_FIT_ROWS = 5_000
# Candidates of each kind that get a first look, and those of them that are fitted and measured.
_CANDIDATES, _SERIOUS = 16, 2
# From twice so many rules on, one in so many goes at once.
_AT_ONCE = 20


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
    s = scaled_plain_system(estimator)
    x = estimator._validated_x(X, reset=False)
    check_same_length(x, y)
    y = np.asarray(y) if s.classes is not None else check_targets_of(y, len(x), s.n_outputs)
    rows = np.random.default_rng(0).permutation(len(x))[:_ROWS]
    z = estimator.x_scaling_.apply(x[rows])
    task = _Task.of(estimator, s, z, y[rows])
    state = _State(s, Fired.of(s, z), [str(rule + 1) for rule in range(s.n_rules)])
    before = task.error(s, state.fired)
    # A trace above, so that a step that changes nothing is never refused by a rounding.
    allowed = before * (1.0 + tolerance) + 1e-12
    steps: list[Step] = []
    at_once = _AT_ONCE
    while state.plain.n_rules > 1:
        # Of very many rules some go at once, as long as that is cheap: one by one would take the square of their number.
        count = state.plain.n_rules // at_once
        found = _best_step(state, z, task) if count < 2 else _pruned_at_once(state, z, task, min(count, _CANDIDATES))
        if found.error > allowed or not np.isfinite(found.error):
            if count < 2:
                break
            at_once *= 2
            continue
        state = found.state
        steps += found.steps
    s = state.plain
    fewer = _estimator_with(estimator, s, x)
    simpler = scaled_plain_system(fewer)
    after = task.error(simpler, Fired.of(simpler, z))
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
    def of(cls, estimator: FLSEstimator, s: PlainSystem, z: Array, y: Array) -> _Task:
        if s.classes is not None:
            check_classes_known(y, s.classes)
            # Fitted to its own scores: the classes say nothing of their size.
            truth = (y[:, np.newaxis] == s.classes).astype(np.float64)
            return cls("RMSE of the probabilities", 1.0, truth, outputs_of(s, z), z, True)
        truth = estimator.y_scaling_.apply(y)
        single = s.n_outputs == 1
        unit = float(estimator.y_scaling_.scale[0]) if single else 1.0
        return cls("RMSE" if single else "RMSE in standard deviations of the targets", unit, truth, truth, z, False)

    def error(self, s: PlainSystem, fired: Fired) -> float:
        """On the rows that fired: all, or the first of them."""
        outputs = s.reduced(*fired).y
        if self.classifies:
            odds = np.exp(outputs - outputs.max(axis=1, keepdims=True))
            outputs = odds / odds.sum(axis=1, keepdims=True)
        return float(np.sqrt(np.mean(np.square(outputs - self.truth[: len(outputs)]))))


class _State(NamedTuple):
    """A system on its way, how it fires on the rows, and the numbers that its rules had in the original."""

    plain: PlainSystem
    fired: Fired
    numbers: list[str]

    def pruned(self, rules: list[int]) -> _State:
        left = [rule for rule in range(self.plain.n_rules) if rule not in rules]
        return _State(kept(self.plain, left), self.fired.kept(left), [self.numbers[rule] for rule in left])

    def joined(self, first: int, second: int, shares: Array, z: Array) -> _State:
        s = merged(self.plain, first, second, shares)
        numbers = list(self.numbers)
        numbers[first] = f"{numbers[first]}+{numbers[second]}"
        del numbers[second]
        return _State(s, self.fired.merged(s, z, first, second), numbers)

    def look(self) -> _State:
        """The same on some rows."""
        return self._replace(fired=self.fired.rows(_FIRST_LOOK))

    def fitted(self, z: Array, task: _Task) -> tuple[float, _State]:
        """Error and state, with the consequents fitted again if that lowers the error."""
        fit = refitted(self.plain, z[:_FIT_ROWS], self.fired.rows(_FIT_ROWS), task.aim[:_FIT_ROWS])
        again = self._replace(plain=fit, fired=self.fired._replace(says=fit.rule_outputs(z)))
        errors = task.error(self.plain, self.fired), task.error(fit, again.fired)
        return (errors[1], again) if errors[1] < errors[0] else (errors[0], self)


class _Found(NamedTuple):
    error: float
    state: _State
    steps: list[Step]


def _best_step(state: _State, z: Array, task: _Task) -> _Found:
    """The step that costs least, of a few that a first look on some rows singled out."""
    look = state.look()
    shares = _shares(look.fired)
    rules = np.argsort(shares, kind="stable")[:_CANDIDATES].tolist()
    groups: list[list[tuple[int, ...]]] = [[(p,) for p in rules], list(_closest_pairs(look.fired))]

    def changed(now: _State, chosen: tuple[int, ...], rows: Array) -> _State:
        return now.pruned([chosen[0]]) if len(chosen) == 1 else now.joined(chosen[0], chosen[1], shares, rows)

    def first_error(chosen: tuple[int, ...]) -> float:
        tried = changed(look, chosen, z[:_FIRST_LOOK])
        return task.error(tried.plain, tried.fired)

    found = []
    for group in groups:
        for chosen in sorted(group, key=first_error)[:_SERIOUS]:
            error, fewer = changed(state, chosen, z).fitted(z, task)
            names = tuple(state.numbers[rule] for rule in chosen)
            found.append(_Found(error, fewer, [Step("merge" if len(chosen) == 2 else "prune", names, error)]))
    return min(found, key=lambda one: one.error)


def _pruned_at_once(state: _State, z: Array, task: _Task, count: int) -> _Found:
    """Without the rules that fire least."""
    rules = np.argsort(_shares(state.look().fired), kind="stable")[:count].tolist()
    error, fewer = state.pruned(rules).fitted(z, task)
    return _Found(error, fewer, [Step("prune", (state.numbers[rule],), error) for rule in rules])


def _shares(fired: Fired) -> Array:
    return np.asarray(_normalized(fired).mean(axis=0))


def _normalized(fired: Fired) -> Array:
    peak = fired.log_upper.max(axis=1, keepdims=True)
    firing = np.exp(fired.log_lower - peak) + np.exp(fired.log_upper - peak)
    return np.asarray(firing / firing.sum(axis=1, keepdims=True))


def _closest_pairs(fired: Fired) -> list[tuple[int, int]]:
    """Pairs of rules by their overlap, the share of their common firing, the closest first."""
    firing = _normalized(fired)
    overlaps = []
    for p in range(firing.shape[1] - 1):
        common, either = (
            combined(firing[:, p : p + 1], firing[:, p + 1 :]).sum(axis=0) for combined in (np.minimum, np.maximum)
        )
        shares = common / np.where(either > 0, either, 1.0)
        overlaps += [(-float(share), p, p + 1 + place) for place, share in enumerate(shares)]
    return [(p, q) for _, p, q in sorted(overlaps)[:_CANDIDATES]]


def _estimator_with(estimator: FLSEstimator, s: PlainSystem, x: Array) -> FLSEstimator:
    """A copy of an estimator with the rules of a plain in its scaled units."""
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
