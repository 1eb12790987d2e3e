"""A system with fewer rules: prune a rule, merge two, fit the consequents again, fill a torch system."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from deepfls.functional.constants import MAX_SIGMA, MIN_RATIO, MIN_SIGMA
from deepfls.inspection.plain import Array, PlainSystem, RuleValues
from deepfls.nn.systems import IT2FLS, T1FLS

# Fields of a PlainSystem with one entry per rule.
_PER_RULE = ("centers", "lower_sigmas", "upper_sigmas", "log_heights", "intercepts", "slopes")
# Largest number of unknowns of a refit of slopes and intercepts; beyond it, only the intercepts are fitted again.
_UNKNOWNS = 600
# Penalty on the distance from the present consequents, relative to the mean of the diagonal.
_RIDGE = 1e-4


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
    if isinstance(system, IT2FLS):
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
