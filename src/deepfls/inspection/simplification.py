"""Simplification: merge and prune rules, and fit the consequents again, while the error stays within a tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deepfls._checks.arguments import check_number
from deepfls._checks.values import Array, softmax
from deepfls.inspection.plain import PlainSystem, RuleValues, firing_shares
from deepfls.inspection.plain_model import PlainModel, estimator_with, outputs_of, rule_overlaps, true_values
from deepfls.inspection.usage import Complexity, complexity_of
from deepfls.inspection.words import TextTable

if TYPE_CHECKING:
    from deepfls.estimators.base import FLSEstimator

# Rows on which errors are measured, on which consequents are fitted, and on which candidates are compared first.
_ROWS, _FIT_ROWS, _FIRST_ROWS = 10_000, 5_000, 500
# Candidates of each kind that are compared first, and the number of them that are fitted and measured.
_CANDIDATES, _MEASURED = 16, 2
# One rule in 20 is pruned at once, in systems of at least 40 rules.
_AT_ONCE = 20
# Fields of a PlainSystem with one entry per rule.
_PER_RULE = ("centers", "lower_sigmas", "upper_sigmas", "log_heights", "intercepts", "slopes")
# Largest number of unknowns of a refit of slopes and intercepts; beyond it, only the intercepts are fitted again.
_UNKNOWNS = 600
# Penalty on the distance from the present consequents, relative to the mean of the diagonal.
_RIDGE = 1e-4


class Step(NamedTuple):
    """One step: "prune", "merge" or "drop", the numbers of its rules in the original, and the error after it.

    "drop" leaves out a condition: the number of the rule and the name of the input.
    """

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
    before, after : Complexity
        The readability cards, on the rows given.
    """

    n_rules_before: int
    n_rules_after: int
    measure: str
    error_before: float
    error_after: float
    tolerance: float
    steps: tuple[Step, ...]
    before: Complexity
    after: Complexity

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
        what = {"merge": "merged {} and {}", "prune": "pruned {}", "drop": "rule {} without {}"}
        lines += [f"  {what[step.action].format(*step.rules)}: {step.error:.5g}" for step in self.steps]
        rows = [
            [name, old, new] for (name, old), (_, new) in zip(self.before.table.rows, self.after.table.rows, strict=True)
        ]
        return "\n".join([*lines, "", TextTable(["readability", "before", "after"], rows).text()])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        own = {"increase": self.increase, "steps": [step._asdict() for step in self.steps]}
        return {**vars(self), **own, "before": self.before.to_dict(), "after": self.after.to_dict()}


class Simplification(NamedTuple):
    """A new estimator with fewer rules, and the report of its simplification."""

    estimator: FLSEstimator
    report: SimplifyReport


def simplify(estimator: FLSEstimator, X: Any, y: Any, *, tolerance: float = 0.01) -> Simplification:
    """A simpler estimator; :meth:`FLSRegressor.simplify` has the parameters."""
    check_number("tolerance", tolerance, minimum=0.0)
    n_systems = len(PlainModel.of(estimator).systems)
    if n_systems > 1:
        raise ValueError(
            f"n_systems must be 1 for simplify, got {n_systems}: the rules of one system correct those of the others, so "
            "none can be judged alone; train with n_systems=1, and with n_terms and max_conditions for few words."
        )
    # In the scaled units of training, where the units of the data cost no digits.
    s = PlainSystem.of(estimator, scaled=True)
    x = estimator._known_x(X)
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
    shares_terms = estimator.system_.antecedents.terms is not None
    while subset.plain.n_rules > 1:
        # Of very many rules several are pruned at once: one by one would cost the square of their number.
        count = max(1, min(subset.plain.n_rules // at_once, _CANDIDATES))
        # Where rules share terms no merged rule would have terms, so rules are pruned only.
        found = _best(subset, z, objective, _fewer_rules(subset, count, merges=not shares_terms))
        if found is not None and np.isfinite(found.error) and found.error <= allowed:
            subset = found.subset
            steps += found.steps
        elif count == 1:
            break
        else:
            at_once *= 2
    while shares_terms:
        found = _best(subset, z, objective, _fewer_conditions(subset))
        if found is None or found.error > allowed:
            break
        subset = found.subset
        steps += found.steps
    fewer = estimator_with(estimator, subset.plain, subset.numbers, x)
    after = objective.error(RuleSubset.of(PlainSystem.of(fewer, scaled=True), z))
    report = SimplifyReport(
        s.n_rules,
        subset.plain.n_rules,
        objective.measure,
        before * objective.unit,
        after * objective.unit,
        tolerance,
        tuple(step._replace(error=step.error * objective.unit) for step in steps),
        before=complexity_of(PlainSystem.of(estimator), x[rows]),
        after=complexity_of(PlainSystem.of(fewer), x[rows]),
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


# Places of what steps may change, by their action: rules, a pair of rules, or a rule and an input.
_Options = dict[str, list[tuple[int, ...]]]


def _fewer_rules(subset: RuleSubset, count: int, *, merges: bool) -> _Options:
    """To prune one of the rules that fire least, or ``count`` of them at once; to merge a pair that overlaps most."""
    row_shares = _first_shares(subset)
    rarest = np.argsort(row_shares.mean(axis=0), kind="stable").tolist()
    if count > 1:
        return {"prune": [tuple(rarest[:count])]}
    first, second = np.triu_indices(row_shares.shape[1], 1)
    order = np.argsort(-rule_overlaps(row_shares)[first, second], kind="stable")[:_CANDIDATES]
    pairs: list[tuple[int, ...]] = list(zip(first[order].tolist(), second[order].tolist(), strict=True)) if merges else []
    return {"prune": [(rule,) for rule in rarest[:_CANDIDATES]], "merge": pairs}


def _fewer_conditions(subset: RuleSubset) -> _Options:
    """To leave out a condition of a rule that has others."""
    active = np.isfinite(subset.plain.upper_sigmas)
    return {"drop": [(p, m) for p, m in np.argwhere(active).tolist() if active[p].sum() > 1]}


def _best(subset: RuleSubset, z: Array, objective: _Objective, options: _Options) -> _Found | None:
    """The step of the smallest error among those of each action that are best on the first rows; None without options."""
    first, rows, shares = subset.first_rows(_FIRST_ROWS), z[:_FIRST_ROWS], _first_shares(subset).mean(axis=0)
    found = []
    for action, places in options.items():
        ranked = sorted(places, key=lambda at: objective.error(first.changed(action, at, shares, rows)))
        for at in ranked[:_MEASURED]:
            error, fewer = _fitted(subset.changed(action, at, shares, z), z, objective)
            names = [subset.numbers[rule] for rule in (at[:1] if action == "drop" else at)]
            names += [subset.plain.feature_names[at[1]]] if action == "drop" else []
            of_steps = [(name,) for name in names] if action == "prune" else [tuple(names)]
            found.append(_Found(error, fewer, [Step(action, own, error) for own in of_steps]))
    return min(found, key=lambda one: one.error, default=None)


def _first_shares(subset: RuleSubset) -> Array:
    """Shares of the firing, (rows, rules), on the first rows."""
    first = subset.first_rows(_FIRST_ROWS).values
    return firing_shares(first.log_lower, first.log_upper)


def _fitted(subset: RuleSubset, z: Array, objective: _Objective) -> tuple[float, RuleSubset]:
    """Error and rules, with the consequents fitted again if that lowers the error."""
    refitted = subset.refitted(z, objective.targets, _FIT_ROWS)
    return min((objective.error(subset), subset), (objective.error(refitted), refitted), key=lambda pair: pair[0])


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

    def changed(self, action: str, at: tuple[int, ...], shares: Array, z: Array) -> RuleSubset:
        """After a step; shares of the firing (rules,) weigh the rules that are merged."""
        if action == "prune":
            return self.pruned(list(at))
        first, second = at
        return self.merged(first, second, shares, z) if action == "merge" else self.without_condition(first, second, z)

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

    def without_condition(self, rule: int, feature: int, z: Array) -> RuleSubset:
        """Without the condition of a rule on an input."""
        at = (rule, feature)
        s = _with_values(self.plain, at, {"lower_sigmas": np.inf, "upper_sigmas": np.inf, "log_heights": 0.0})
        values = self.values._replace(log_lower=self.values.log_lower.copy(), log_upper=self.values.log_upper.copy())
        for part, column in zip(values[:2], _with_rules(s, [rule]).firing(z), strict=True):
            part[:, rule] = column[:, 0]
        return self._replace(plain=s, values=values)

    def refitted(self, z: Array, targets: Array, n_rows: int) -> RuleSubset:
        """With consequents that fit the targets (rows, outputs) of the first rows best, the weights of the rules held.

        The weights are the derivatives of the output by the consequents, also at the ends of a type-reduced set (envelope
        theorem), so this is a Gauss-Newton step.
        """
        s, x, values = self.plain, self.plain.clipped(z[:n_rows]), self.first_rows(n_rows).values
        weights = s.weights(*values).crisp
        residual = targets[:n_rows] - np.einsum("npk,npk->nk", weights, values.consequents)
        linear = s.order == 1 and s.n_rules * (s.n_features + 1) <= _UNKNOWNS
        columns = np.ones((len(x), 1, 1))
        if linear:
            unknown = np.isnan(x)[:, np.newaxis]  # a rule takes the center of its set in place of an unknown input
            inputs = np.where(unknown, s.centers, x[:, np.newaxis]) if unknown.any() else x[:, np.newaxis]
            columns = np.concatenate([np.ones((*inputs.shape[:2], 1)), inputs], axis=2)
        intercepts, slopes = s.intercepts.copy(), s.slopes.copy()
        for k in range(s.n_outputs):
            design = (weights[:, :, k, np.newaxis] * columns).reshape(len(x), -1)
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
    terms = None if s.terms is None else s.terms[rules]
    return replace(s, rule_shares=shares, terms=terms, **{name: getattr(s, name)[rules] for name in _PER_RULE})


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
    return _with_values(s, first, merged)


def _with_values(s: PlainSystem, place: Any, values: Mapping[str, Any]) -> PlainSystem:
    """The system with other values at a place of some of its fields."""
    fields = {name: getattr(s, name).copy() for name in values}
    for name, value in values.items():
        fields[name][place] = value
    return replace(s, **fields)
