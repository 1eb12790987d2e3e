"""Sets that rules share: where they start, which of them every rule has, and conditions that are left out.

With shared terms every input has a few sets, ordered and apart from each other: each center has a box of its own on the
axis, and each width a range in proportion to the distance of the neighbouring centers. A rule has one term of every input,
or none ("any"). Which one is revised a few times in the first three fifths of the training: a condition changes if that,
with the best intercepts of the rule, lowers the squared error on a sample. The same revision leaves out conditions where
the number of conditions is limited.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from deepfls._checks.values import Array
from deepfls.functional.firing import share_of
from deepfls.nn.systems import IT2FLS, T1FLS

# Share of the distance to a neighbour's center, at the start, that a center may move towards it: two neighbours stay at
# least 1 - 2 times this apart.
_FREEDOM = 0.1
# Half-widths at half grade, as they act in the firing, in distances to the nearest neighbour: least and largest. Neighbours
# then cross at a grade of at most 2^-(0.8/3)² = 0.952, and no word means a single value.
_HALF_WIDTHS = (0.2, 1.5)
# Shares of the training after which conditions are revised.
_REVISIONS = tuple(np.linspace(0.02, 0.6, 14).tolist())
# Changes of a rule in one revision, and the least relative gain in squared error of a change; a condition is left out if
# that costs no more than the last.
_CHANGES, _GAIN, _COST = 2, 1e-3, 1e-3
# Penalty per row of the shift of a rule's intercepts.
_RIDGE = 1e-3
# Rows of the sample.
SAMPLE_ROWS = 1_000


class Terms(NamedTuple):
    """Terms of every input: centers and bounds, and the term of every rule.

    ``centers`` and ``widths`` are (terms, features), ``low``, ``high``, ``smallest`` and ``largest`` their bounds, and
    ``chosen`` (rules, features) the term of every rule.
    """

    centers: Array
    low: Array
    high: Array
    smallest: Array
    largest: Array
    chosen: Array


def start_terms(rows: Array, span: Array, rule_centers: Array, n_terms: Sequence[int], grade_power: float) -> Terms:
    """Terms from rows (rows, features) with the range ``span`` (2, features), and the nearest one of every rule.

    Centers start midway between the quantiles of the data and an even spread over the range, so that they follow the data
    and are never equal. Inputs with fewer terms than others repeat their last one, which no rule has.
    """
    most = max(n_terms)
    n_features = rows.shape[1]
    centers = np.empty((most, n_features))
    bounds = np.empty((4, most, n_features))
    factor = math.sqrt(grade_power / (2.0 * math.log(2.0)))  # from half-widths in the firing to sigmas
    for m, count in enumerate(n_terms):
        low, high = span[:, m]
        length = high - low if high > low else 1.0
        shares = (np.arange(count) + 0.5) / count
        even = low + length * shares
        own = 0.5 * (np.quantile(rows[:, m], shares) + even) if high > low else even - 0.5 * length
        gaps = np.diff(own)
        left = np.concatenate([[np.inf], gaps])
        right = np.concatenate([gaps, [np.inf]])
        near = np.minimum(np.minimum(left, right), length)
        ends = [
            np.where(np.isinf(left), low, own - _FREEDOM * left),
            np.where(np.isinf(right), high, own + _FREEDOM * right),
        ]
        if not high > low:
            ends = [np.minimum(own, low), np.maximum(own, low)]
        places = np.minimum(np.arange(most), count - 1)
        centers[:, m] = own[places]
        for row, values in enumerate((*ends, _HALF_WIDTHS[0] * near * factor, _HALF_WIDTHS[1] * near * factor)):
            bounds[row, :, m] = values[places]
    distance = np.abs(rule_centers[:, np.newaxis] - centers)
    for m, count in enumerate(n_terms):
        distance[:, count:, m] = np.inf
    return Terms(centers, bounds[0], bounds[1], bounds[2], bounds[3], distance.argmin(axis=1))


class ConditionRevision:
    """Revises the conditions of the rules while a system trains, by changing its ``antecedents.terms``.

    The sample x (rows, features) is in scaled units, y (rows, outputs) what the outputs should be. Rules choose from
    ``n_terms`` terms of every input, or keep the sets they have where it is empty; after the last revision they have at
    most ``max_conditions``. Rules marked in ``frozen`` (rules,) stay as they are.
    """

    def __init__(
        self,
        system: T1FLS | IT2FLS,
        x: Tensor,
        y: Tensor,
        *,
        n_terms: Sequence[int] = (),
        max_conditions: int | None = None,
        frozen: Array | None = None,
    ) -> None:
        # Inputs that are not known are taken as the mean.
        step = -(-len(x) // SAMPLE_ROWS)
        self._system, self._x = system, x[::step].nan_to_num(nan=0.0)
        self._y = y[::step].double().cpu().numpy()
        self._n_terms, self._max_conditions = tuple(n_terms), max_conditions
        self._frozen = np.zeros(system.n_rules, dtype=bool) if frozen is None else frozen

    def __call__(self, epoch: int, n_epochs: int) -> bool:
        """Revise after some epochs; True if conditions changed."""
        due = [math.ceil(share * n_epochs) for share in _REVISIONS]
        if epoch not in due:
            return False
        place = len(due) - 1 - due[::-1].index(epoch)
        terms = self._system.antecedents.terms
        assert terms is not None
        before = terms.clone()
        chosen = self._revised(terms.cpu().numpy().copy(), (place + 1) / len(due))
        terms.copy_(torch.from_numpy(chosen))
        return not torch.equal(before, terms)

    def _revised(self, chosen: Array, progress: float) -> Array:
        """Conditions (rules, features) in place of the given ones; ``progress`` is 1 at the last revision."""
        n_features = chosen.shape[1]
        allowed = n_features
        if self._max_conditions is not None:
            # The number falls by equal factors: the first revisions leave out most, and most of the training follows them.
            cap = min(self._max_conditions, n_features)
            allowed = max(cap, round(n_features * (cap / n_features) ** progress)) if progress < 1.0 else cap
        rules = _Rules(chosen, self._log_grades(), self._consequents())
        for rule in np.flatnonzero(~self._frozen).tolist():
            for _ in range(_CHANGES):
                if not self._changed(rule, rules):
                    break
            while (chosen[rule] >= 0).sum() > allowed:
                options = _omissions(chosen[rule])
                errors, shifts = self._errors(rule, options, rules)
                best = int(errors.argmin())
                rules.change(rule, options[best], shifts[best])
        with torch.no_grad():
            self._system.consequents.raw_intercepts.add_(torch.from_numpy(rules.shifts).to(self._x))
        return chosen

    def _changed(self, rule: int, rules: _Rules) -> bool:
        """Give a rule the one other condition that lowers the squared error most; False if none does."""
        own = rules.chosen[rule]
        options = [(0, int(own[0])), *_omissions(own)]  # the first leaves the rule as it is
        for m, count in enumerate(self._n_terms):
            options += [(m, t) for t in range(count) if t != own[m]]
        errors, shifts = self._errors(rule, options, rules)
        if len(options) == 1 or errors[0] <= 0.0:
            return False
        # A condition that hardly matters is left out, even at a small cost.
        gains = 1.0 - errors[1:] / errors[0] + np.array([_COST if t < 0 else 0.0 for _, t in options[1:]])
        best = int(gains.argmax()) + 1
        if gains[best - 1] < _GAIN or ((own >= 0).sum() == 1 and options[best][1] < 0):
            return False
        rules.change(rule, options[best], shifts[best])
        return True

    def _errors(self, rule: int, options: Sequence[tuple[int, int]], rules: _Rules) -> tuple[Array, Array]:
        """Squared error with each option (options,), and the shift of the rule's intercepts with it (options, outputs).

        The shift is the least-squares one, so that a rule is judged by its conditions, not by the output it had before.
        """
        base, total, weight = rules.with_options(rule, options)
        shares = weight / total  # (rows, options)
        residuals = self._y[:, np.newaxis] - base[:, np.newaxis] / total[..., np.newaxis]
        residuals -= shares[..., np.newaxis] * rules.consequents[:, np.newaxis, rule]
        squares = np.square(shares).sum(axis=0)[:, np.newaxis]
        products = np.einsum("no,nok->ok", shares, residuals)
        shifts = products / (squares + _RIDGE * len(shares))
        errors = np.square(residuals).sum(axis=(0, 2)) - (shifts * (2.0 * products - squares * shifts)).sum(axis=1)
        return errors, shifts

    def _log_grades(self) -> Array:
        """Logarithms of the grades as they act, (2, sets + 1, rows, features), lower and upper; zeros for no condition."""
        antecedents = self._system.antecedents
        terms = antecedents.terms
        with torch.no_grad():
            try:
                # Without the choice of the rules the values are those of the sets.
                antecedents.terms = None
                centers = antecedents.centers
                if isinstance(self._system, IT2FLS):
                    sigmas = (self._system.lower_sigmas, self._system.upper_sigmas)
                    heights = (self._system.antecedents.log_heights, torch.zeros_like(centers))
                else:
                    sigmas, heights = (self._system.sigmas,) * 2, (torch.zeros_like(centers),) * 2
            finally:
                antecedents.terms = terms
            power = share_of(antecedents.tnorm, antecedents.n_features)
            distance = (self._x[None] - centers[:, None]).double()
            found = [
                power * (h[:, None] - 0.5 * (distance / s[:, None]) ** 2) for s, h in zip(sigmas, heights, strict=True)
            ]
        logs = torch.stack(found).cpu().numpy()
        return np.concatenate([logs, np.zeros_like(logs[:, :1])], axis=1)

    def _consequents(self) -> Array:
        with torch.no_grad():
            return self._system.consequents(self._x).double().cpu().numpy()


class _Rules:
    """Conditions (rules, features) of rules with their firing on the rows of a sample, kept up to date with changes.

    ``grades`` (2, sets + 1, rows, features) are logarithms, lower and upper; the last set, of index -1, is no condition.
    As in the ridge start the mean of lower and upper firing stands in for the exact reduction.
    """

    def __init__(self, chosen: Array, grades: Array, consequents: Array) -> None:
        self.chosen, self._grades, self.consequents = chosen, grades, consequents
        features = np.arange(chosen.shape[1])
        logs = [grades[:, terms, :, features].sum(axis=0) for terms in chosen]
        self._logs = np.stack(logs, axis=2)  # (2, rows, rules)
        self._peak = self._logs.max(axis=(0, 2))[:, np.newaxis]
        self._weights = self._firing(self._logs)
        self.shifts = np.zeros(consequents.shape[1:])  # of the intercepts, (rules, outputs)

    def _firing(self, logs: Array) -> Array:
        """Firing relative to the strongest rule of every row before the changes."""
        return np.exp(np.minimum(logs - self._peak, 50.0)).sum(axis=0)

    def _changed_logs(self, rule: int, option: tuple[int, int]) -> Array:
        m, t = option
        return self._logs[:, :, rule] + self._grades[:, t, :, m] - self._grades[:, self.chosen[rule, m], :, m]

    def with_options(self, rule: int, options: Sequence[tuple[int, int]]) -> tuple[Array, Array, Array]:
        """Sum of the other rules' consequents by firing (rows, outputs), firing of all and of this one (rows, options)."""
        weight = self._firing(np.stack([self._changed_logs(rule, option) for option in options], axis=2))
        others = self._weights.copy()
        others[:, rule] = 0.0
        total = others.sum(axis=1)[:, np.newaxis] + weight + 1e-300
        return np.einsum("np,npk->nk", others, self.consequents), total, weight

    def change(self, rule: int, option: tuple[int, int], shift: Array) -> None:
        """Give a rule another condition, and shift its consequents (outputs,)."""
        self._logs[:, :, rule] = self._changed_logs(rule, option)
        self._weights[:, [rule]] = self._firing(self._logs[:, :, [rule]])
        self.chosen[rule, option[0]] = option[1]
        self.consequents[:, rule] += shift
        self.shifts[rule] += shift


def _omissions(own: Array) -> list[tuple[int, int]]:
    """The options of a rule with these conditions (features,) to leave one out."""
    return [(m, -1) for m in np.flatnonzero(own >= 0).tolist()]
