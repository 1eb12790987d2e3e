"""Sets that rules share: where they start, which of them every rule has, and conditions that are left out.

With shared terms every input has a few sets, ordered and apart from each other: each center has a box of its own on the
axis, and each width a range in proportion to the distance of the neighbouring centers. A rule has one term of every input,
or none ("any"). Which one is revised a few times in the first three fifths of the training: a condition changes if that
lowers the squared error on a sample, with everything else held. The same revision leaves out conditions where rules may
have only so many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from deepfls._checks.values import Array
from deepfls.nn.systems import IT2FLS, T1FLS

# Share of the distance to a neighbour's center, at the start, that a center may move towards it: two neighbours stay at
# least 1 - 2 times this apart.
_FREEDOM = 0.25
# Half-widths at half grade, as they act in the firing, in distances to the nearest neighbour: least and largest. Neighbours
# then cross at a grade of at most 2^-(1/3)² = 0.93.
_HALF_WIDTHS = (0.05, 0.75)
# Shares of the training after which conditions are revised.
_REVISIONS = tuple(np.linspace(0.02, 0.6, 14).tolist())
# Changes of a rule in one revision, and the least relative gain in squared error of a change; a condition is left out if
# that costs no more than the last.
_CHANGES, _GAIN, _COST = 2, 1e-3, 1e-3
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
        grades, consequents = self._log_grades(), self._consequents()
        n_features = chosen.shape[1]
        allowed = n_features
        if self._max_conditions is not None:
            # The number falls by equal factors, so that the first revisions leave out more, while there is most to recover.
            cap = min(self._max_conditions, n_features)
            allowed = max(cap, round(n_features * (cap / n_features) ** progress)) if progress < 1.0 else cap
        logs = _summed(grades, chosen)
        for rule in range(len(chosen)):
            if self._frozen[rule]:
                continue
            for _ in range(_CHANGES):
                if not self._changed(rule, chosen, grades, logs, consequents):
                    break
            while (chosen[rule] >= 0).sum() > allowed:
                self._left_out(rule, chosen, grades, logs, consequents)
        return chosen

    def _changed(self, rule: int, chosen: Array, grades: Array, logs: Array, consequents: Array) -> bool:
        """Give a rule the one other condition that lowers the squared error most; False if none does."""
        now = self._errors(rule, logs[:, :, rule][..., np.newaxis], logs, consequents)[0]
        options = [(m, -1) for m in range(chosen.shape[1]) if chosen[rule, m] >= 0]
        for m, count in enumerate(self._n_terms):
            options += [(m, t) for t in range(count) if t != chosen[rule, m]]
        if not options or now <= 0.0:
            return False
        errors = self._errors(rule, _candidates(rule, options, chosen, grades, logs), logs, consequents)
        # A condition that hardly matters is left out, even at a small cost.
        gains = 1.0 - errors / now + np.array([_COST if t < 0 else 0.0 for _, t in options])
        best = int(gains.argmax())
        if gains[best] < _GAIN or ((chosen[rule] >= 0).sum() == 1 and options[best][1] < 0):
            return False
        _set(rule, options[best], chosen, grades, logs)
        return True

    def _left_out(self, rule: int, chosen: Array, grades: Array, logs: Array, consequents: Array) -> None:
        """Leave out the condition of a rule that costs least."""
        options = [(m, -1) for m in range(chosen.shape[1]) if chosen[rule, m] >= 0]
        errors = self._errors(rule, _candidates(rule, options, chosen, grades, logs), logs, consequents)
        _set(rule, options[int(errors.argmin())], chosen, grades, logs)

    def _errors(self, rule: int, changed: Array, logs: Array, consequents: Array) -> Array:
        """Squared error for log-firing (2, rows, options) of one rule in place of its own, (options,).

        As in the ridge start the mean of lower and upper firing stands in for the exact reduction.
        """
        peak = logs.max(axis=(0, 2))
        others = np.exp(logs - peak[:, np.newaxis]).sum(axis=0)
        others[:, rule] = 0.0
        weight = np.exp(np.minimum(changed - peak[:, np.newaxis], 50.0)).sum(axis=0)  # (rows, options)
        total = others.sum(axis=1)[:, np.newaxis] + weight + 1e-300
        errors = np.zeros(changed.shape[2])
        for k in range(consequents.shape[2]):
            base = (others * consequents[:, :, k]).sum(axis=1)[:, np.newaxis]
            output = (base + weight * consequents[:, rule, k][:, np.newaxis]) / total
            errors += np.square(output - self._y[:, k][:, np.newaxis]).sum(axis=0)
        return errors

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
            power = 1.0 if antecedents.tnorm == "product" else 1.0 / antecedents.n_features
            distance = (self._x[None] - centers[:, None]).double()
            found = [
                power * (h[:, None] - 0.5 * (distance / s[:, None]) ** 2) for s, h in zip(sigmas, heights, strict=True)
            ]
        logs = torch.stack(found).cpu().numpy()
        return np.concatenate([logs, np.zeros_like(logs[:, :1])], axis=1)

    def _consequents(self) -> Array:
        with torch.no_grad():
            return self._system.consequents(self._x).double().cpu().numpy()


def _summed(grades: Array, chosen: Array) -> Array:
    """Log-firing (2, rows, rules) of all rules. The last set, of index -1, is no condition."""
    features = np.arange(chosen.shape[1])
    return np.stack([grades[:, terms, :, features].sum(axis=0).T for terms in chosen], axis=2).transpose(1, 0, 2)


def _candidates(rule: int, options: Sequence[tuple[int, int]], chosen: Array, grades: Array, logs: Array) -> Array:
    """Log-firing (2, rows, options) of a rule with one condition changed."""
    return np.stack([logs[:, :, rule] - grades[:, chosen[rule, m], :, m] + grades[:, t, :, m] for m, t in options], axis=2)


def _set(rule: int, option: tuple[int, int], chosen: Array, grades: Array, logs: Array) -> None:
    m, t = option
    logs[:, :, rule] += grades[:, t, :, m] - grades[:, chosen[rule, m], :, m]
    chosen[rule, m] = t
