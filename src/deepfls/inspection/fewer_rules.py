"""Systems with fewer rules: leave one out, make one of two, fit the consequents again."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from deepfls.data.scaling import Scaling
from deepfls.functional.constants import MAX_SIGMA, MIN_RATIO, MIN_SIGMA
from deepfls.inspection.plain import Array, PlainSystem
from deepfls.inspection.weights import weights_of
from deepfls.nn.systems import IT2FLS, T1FLS

# Fields of a plain with one entry per rule.
_PER_RULE = ("centers", "lower_sigmas", "upper_sigmas", "log_heights", "intercepts", "slopes")
# Unknowns of a refit of slopes and intercepts; beyond, the intercepts alone are fitted again.
_UNKNOWNS = 600
# Penalty on leaving the present consequents, relative to the mean of the diagonal.
_RIDGE = 1e-4


def kept(s: PlainSystem, rules: list[int]) -> PlainSystem:
    """The system with the given rules alone."""
    shares = None if s.rule_shares is None else s.rule_shares[rules]
    return replace(s, rule_shares=shares, **{name: getattr(s, name)[rules] for name in _PER_RULE})


def merged(s: PlainSystem, first: int, second: int, shares: Array) -> PlainSystem:
    """The system with one rule in place of two, at the place of the first.

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
    one = {
        "centers": center,
        "upper_sigmas": upper,
        "lower_sigmas": upper if s.uncertainty in ("", "h") else upper * ratio,
        "log_heights": mean(s.log_heights),
        "intercepts": mean(s.intercepts),
        "slopes": mean(s.slopes),
    }
    fields = {}
    for name in _PER_RULE:
        values = getattr(s, name).copy()
        values[first] = one[name]
        fields[name] = values
    return kept(replace(s, **fields), [rule for rule in range(s.n_rules) if rule != second])


class Fired(NamedTuple):
    """Log-firing, each (rows, rules), and consequents (rows, rules, outputs) of a system on the same rows.

    Kept beside a system while rules go, because a rule that stays fires as before.
    """

    log_lower: Array
    log_upper: Array
    says: Array

    @classmethod
    def of(cls, s: PlainSystem, x: Array) -> Fired:
        return cls(*s.firing(x), s.rule_outputs(x))

    def rows(self, count: int) -> Fired:
        """The first rows alone."""
        return Fired(*(part[:count] for part in self))

    def kept(self, rules: list[int]) -> Fired:
        return Fired(*(np.ascontiguousarray(part[:, rules]) for part in self))

    def merged(self, s: PlainSystem, x: Array, first: int, second: int) -> Fired:
        """After :func:`merged` gave ``s``: the column of the new rule is computed, the others stay."""
        left = self.kept([rule for rule in range(self.says.shape[1]) if rule != second])
        place = first if first < second else first - 1
        for part, column in zip(left, Fired.of(kept(s, [place]), x), strict=True):
            part[:, place] = column[:, 0]
        return left


def refitted(s: PlainSystem, x: Array, fired: Fired, targets: Array) -> PlainSystem:
    """The system with consequents that fit the targets (rows, outputs) best, the weights of the rules held.

    The weights are the derivatives of the output by the consequents, also at the ends of a type-reduced set (envelope
    theorem), so this is a Gauss-Newton step.
    """
    weights = weights_of(s, *fired).crisp
    residual = targets - np.einsum("npk,npk->nk", weights, fired.says)
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
    return replace(s, intercepts=intercepts, slopes=slopes)


def fill_system(system: T1FLS | IT2FLS, s: PlainSystem) -> None:
    """Give a system of the same settings the values of a plain."""

    def tensor(values: Array) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(system.centers)

    # Merged widths and heights may leave their range by a rounding; a trace within it, so that no check trips.
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


def scaled_plain_system(estimator: Any) -> PlainSystem:
    """The plain of an estimator in the scaled units of its system, where no digits are lost to the units of the data."""
    plain = copy.copy(estimator)
    plain.x_scaling_ = Scaling.identity(estimator.system_.n_features)
    plain.y_scaling_ = Scaling.identity(len(estimator.y_scaling_.shift))
    return PlainSystem.of(plain)
