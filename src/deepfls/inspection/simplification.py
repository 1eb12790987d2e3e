"""Simplification: merge and prune rules, and fit the consequents again, while the error stays within a tolerance."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from deepfls._checks.values import check_number
from deepfls.estimators.base import FLSEstimator
from deepfls.functional.constants import MAX_SIGMA, MIN_RATIO, MIN_SIGMA
from deepfls.inspection.arguments import rows_of, true_values
from deepfls.inspection.plain import Array, PlainSystem, RuleValues, firing_shares, outputs_of, shares_of, softmax
from deepfls.inspection.usage import rule_overlaps
from deepfls.nn.general import GT2FLS
from deepfls.nn.systems import IT2FLS, T1FLS

# Rows on which errors are measured, on which consequents are fitted, and on which candidates are compared first.
_ROWS, _FIT_ROWS, _FIRST_ROWS = 10_000, 5_000, 500
# Candidates of each kind that are compared first, and the number of them that are fitted and measured.
_CANDIDATES, _MEASURED = 16, 2
# One rule in so many is pruned at once, in systems of at least twice as many rules.
_AT_ONCE = 20
# Fields of a PlainSystem with one entry per rule.
_PER_RULE = ("centers", "lower_sigmas", "upper_sigmas", "log_heights", "intercepts", "slopes")
# Largest number of unknowns of a refit of slopes and intercepts; beyond it, only the intercepts are fitted again.
_UNKNOWNS = 600
# Penalty on the distance from the present consequents, relative to the mean of the diagonal.
_RIDGE = 1e-4


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
    system.to(device=estimator.system_.centers.device, dtype=torch.float64)
    fill_system(system, s)
    fewer.system_ = system.requires_grad_(False)
    fewer.rule_shares_ = shares_of(s, estimator.x_scaling_.apply(x))
    return fewer


class RuleSubset(NamedTuple):
    """A system, its rule values for rows z, and the numbers of its rules in the original system.

    The values are stored with the system because a rule that stays has the same values after every step.
    """

    plain: PlainSystem
    values: RuleValues
    numbers: list[str]

    @classmethod
    def of(cls, s: PlainSystem, z: Array) -> RuleSubset:
        """All rules of a system."""
        return cls(s, s.rule_values(z), [str(rule + 1) for rule in range(s.n_rules)])

    def first_rows(self, count: int) -> RuleSubset:
        """The same system with the values of the first rows alone."""
        return self._replace(values=RuleValues(*(part[:count] for part in self.values)))

    def pruned(self, rules: list[int]) -> RuleSubset:
        """Without the given rules."""
        kept = [rule for rule in range(self.plain.n_rules) if rule not in rules]
        values = RuleValues(*(np.take(part, kept, axis=1) for part in self.values))
        return RuleSubset(_with_rules(self.plain, kept), values, [self.numbers[rule] for rule in kept])

    def merged(self, first: int, second: int, shares: Array, z: Array) -> RuleSubset:
        """One rule in place of two, at the index of the first."""
        s = _with_merged_rule(self.plain, first, second, shares)
        values = RuleValues(*(part.copy() for part in self.values))
        for part, column in zip(values, _with_rules(s, [first]).rule_values(z), strict=True):
            part[:, first] = column[:, 0]
        numbers = list(self.numbers)
        numbers[first] = f"{numbers[first]}+{numbers[second]}"
        return RuleSubset(s, values, numbers).pruned([second])

    def refitted(self, z: Array, targets: Array, n_rows: int) -> RuleSubset:
        """With consequents that fit the targets (rows, outputs) of the first rows best, the weights of the rules held.

        The weights are the derivatives of the output by the consequents, also at the ends of a type-reduced set (envelope
        theorem), so this is a Gauss-Newton step.
        """
        s, x, values = self.plain, z[:n_rows], self.first_rows(n_rows).values
        weights = s.weights(*values).crisp
        residual = targets[:n_rows] - np.einsum("npk,npk->nk", weights, values.consequents)
        linear = s.order == 1 and s.n_rules * (s.n_features + 1) <= _UNKNOWNS
        columns = np.concatenate([np.ones((len(x), 1)), x], axis=1) if linear else np.ones((len(x), 1))
        intercepts, slopes = s.intercepts.copy(), s.slopes.copy()
        for k in range(s.n_outputs):
            design = (weights[:, :, k, np.newaxis] * columns[:, np.newaxis, :]).reshape(len(x), -1)
            gram = design.T @ design
            gram[np.diag_indices_from(gram)] += _RIDGE * np.trace(gram) / len(gram)
            step = np.linalg.solve(gram, design.T @ residual[:, k]).reshape(s.n_rules, -1)
            intercepts[:, k] += step[:, 0]
            if linear:
                slopes[:, k] += step[:, 1:]
        fitted = replace(s, intercepts=intercepts, slopes=slopes)
        return self._replace(plain=fitted, values=self.values._replace(consequents=fitted.rule_outputs(z)))


def _with_rules(s: PlainSystem, rules: list[int]) -> PlainSystem:
    """The system with the given rules alone."""
    shares = None if s.rule_shares is None else s.rule_shares[rules]
    return replace(s, rule_shares=shares, **{name: getattr(s, name)[rules] for name in _PER_RULE})


def _with_merged_rule(s: PlainSystem, first: int, second: int, shares: Array) -> PlainSystem:
    """The system with the first rule replaced by the mean of both; the second stays.

    Centers and consequents are averaged with the shares of the firing as weights. The squared width is the mean one plus
    the variance of the two centers, as of a mixture; the ratio of the widths and the logarithm of the height are averaged.
    """
    pair = [first, second]
    weight = shares[pair] / shares[pair].sum() if shares[pair].sum() > 0 else np.array([0.5, 0.5])

    def mean(values: Array) -> Array:
        return np.asarray(np.tensordot(weight, values[pair], axes=1))

    center = mean(s.centers)
    upper = np.sqrt(mean(np.square(s.upper_sigmas)) + mean(np.square(s.centers - center)))
    ratio = np.minimum(mean(s.lower_sigmas / s.upper_sigmas), 1.0)
    merged = {
        "centers": center,
        "upper_sigmas": upper,
        "lower_sigmas": upper if s.uncertainty in ("", "h") else upper * ratio,
        "log_heights": mean(s.log_heights),
        "intercepts": mean(s.intercepts),
        "slopes": mean(s.slopes),
    }
    fields = {}
    for name in _PER_RULE:
        fields[name] = getattr(s, name).copy()
        fields[name][first] = merged[name]
    return replace(s, **fields)


def fill_system(system: T1FLS | IT2FLS, s: PlainSystem) -> None:
    """Assign the values of a PlainSystem to a torch system of the same settings."""

    def tensor(values: Array) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(system.centers)

    # Rounding may move merged widths and heights out of their range, and assignment checks the range.
    upper = np.clip(s.upper_sigmas, MIN_SIGMA * (1 + 1e-12), MAX_SIGMA * (1 - 1e-12))
    system.centers = tensor(s.centers)
    if isinstance(system, GT2FLS):
        primary = np.clip(s.lower_sigmas, MIN_SIGMA * (1 + 1e-12), MAX_SIGMA * (1 - 1e-12))
        upper_spreads = np.clip(1.0 - np.square(s.lower_sigmas / s.upper_sigmas), 0.0, 1.0 - MIN_RATIO)
        lower_spreads = np.clip(1.0 - np.exp(s.log_heights), 0.0, 1.0 - 1e-12)
        if system.shared_spread:
            lower_spreads, upper_spreads = lower_spreads.mean(), upper_spreads.mean()
        system.sigmas, system.lower_spreads, system.upper_spreads = map(tensor, (primary, lower_spreads, upper_spreads))
    elif isinstance(system, IT2FLS):
        ratio = np.clip(s.lower_sigmas / s.upper_sigmas, MIN_RATIO * (1 + 1e-12), 1.0)
        system.set_sigmas(tensor(upper if s.uncertainty == "h" else upper * ratio), tensor(upper))
        system.heights = tensor(np.exp(np.clip(s.log_heights, -79.9, 0.0)))
        if s.mix is not None:
            system.mix = tensor(s.mix)
    else:
        system.sigmas = tensor(upper)
    system.intercepts = tensor(s.intercepts)
    if s.order == 1:
        system.slopes = tensor(s.slopes)
