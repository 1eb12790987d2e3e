"""Starting points: centers, widths and consequents of a system from data, before the first gradient step.

The data are expected in scaled units (about zero mean and unit spread per column); constant columns are fine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from deepfls._checks.arguments import check_number, check_option
from deepfls._checks.tensors import check_magnitude_values
from deepfls._checks.values import Array, evenly_spaced, fold_rows, known_mean
from deepfls.functional.constants import MAX_SIGMA, MIN_SIGMA
from deepfls.functional.firing import relative_firing, share_of
from deepfls.nn.general import GT2FLS
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training.partition import CENTERS, start_centers, takes_lines, tree_boxes
from deepfls.training.terms import start_terms

CONSEQUENTS = ("ridge", "random")

# Largest number of elements of one chunk of the design matrix, and of unknowns of one linear solve.
_CHUNK_ELEMENTS = 2**18
_MAX_UNKNOWNS = 3_000
# Rows from which the starting widths are taken.
_WIDTH_ROWS = 5_000
# Least width of a set in spacings of the data, largest in ranges of it, and the rows from which the spacing is taken.
_NARROWEST, _WIDEST, SPACING_ROWS = 0.05, 4.0, 1_000
# Width of a set in lengths of the side of its leaf, also where training follows; in ranges where a leaf is not bounded;
# penalty of the consequents.
_SIDE_SHARE, _TRAINED_SHARE, _OPEN_SHARE, _LEAF_RIDGE = 0.3, 0.4, 2.0, 1e-4
# Heights and relative widths of the lower sets of an IT2 system that starts from a tree: nearly those of the upper ones,
# because the consequents are solved for the mean of both; also where training follows.
_LOWER, _TRAINED_LOWER = 0.99, 0.9


def initialize_system(
    system: T1FLS | IT2FLS,
    x: Tensor,
    y: Tensor,
    *,
    centers: str = "kmeans",
    consequents: str = "ridge",
    width: float = 1.0,
    ridge: float = 1e-3,
    sample_weight: Tensor | None = None,
    n_terms: Sequence[int] = (),
    groups: Sequence[tuple[int, int]] = (),
    random_state: np.random.RandomState,
    part: slice = slice(None),
    total: Callable[[Tensor], Tensor] | None = None,
) -> None:
    """Set the parameters of a system from data x (batch, features) and y (batch, outputs), in place.

    ``centers`` and ``consequents`` are explained with the settings of the estimators; ``width`` is in standard deviations
    of the inputs, ``ridge`` a penalty per row. ``n_terms`` are the terms of every input that the rules share; empty where
    every rule has sets of its own. ``groups`` are first and end of the inputs of each category. Where several processes
    share the rows, each adds up the normal equations of its ``part``, and ``total`` gives the sum of a tensor over them,
    in place.
    """
    check_option("centers", centers, CENTERS)
    check_option("consequents", consequents, CONSEQUENTS)
    check_number("width", width, above=0.0)
    check_number("ridge", ridge, above=0.0)
    check_magnitude_values("x", x.nan_to_num(nan=0.0) if system.missing else x)
    check_magnitude_values("y", y)
    rows = _known_rows(system, x)
    found = start_centers(rows, system.n_rules, centers, random_state)
    if n_terms:
        power = share_of(system.tnorm, system.n_features)
        terms = start_terms(rows, np.stack([rows.min(axis=0), rows.max(axis=0)]), found, n_terms, power)
        system.antecedents.share_terms(terms.chosen, max(n_terms))
        system.antecedents.set_range(terms.low, terms.high, terms.smallest, terms.largest)
        found = terms.centers
    _set_centers(system, found)
    n_sets = system.antecedents.n_sets
    # In a geometric mean of grades every input has its share; the inputs of a category have that of one input together.
    n_inputs = system.n_features - sum(end - first - 1 for first, end in groups)
    width *= float(np.sqrt(share_of(system.tnorm, system.n_features) / share_of(system.tnorm, n_inputs)))
    some = rows[evenly_spaced(len(rows), _WIDTH_ROWS)]
    sigmas = _within_limits(system, torch.from_numpy(start_sigmas(some, width, groups)).expand(n_sets, -1))
    generator = torch.Generator().manual_seed(int(random_state.randint(2**31 - 1)))
    random: dict[str, Any] = {"generator": generator, "dtype": torch.float32}  # whatever torch's default is
    shape = (n_sets, system.n_features)
    if isinstance(system, IT2FLS):
        # As in the paper: σ' ± |Δ| with Δ ~ U(0, 0.01), and h = sigmoid(U(0, 1)).
        # DIFF(paper): Δ is relative to the width, about 1 in the paper's units, so that narrow sets start valid too.
        delta = 0.01 * torch.rand(shape, **random) if "s" in system.uncertainty else torch.zeros(shape)
        system.set_sigmas(sigmas - delta * sigmas, sigmas + delta * sigmas)
        if "h" in system.uncertainty:
            system.heights = torch.sigmoid(torch.rand(shape, **random))
    else:
        system.sigmas = sigmas
    if consequents == "random":
        system.intercepts = 0.01 * torch.rand(system.n_rules, system.n_outputs, **random)
        if system.order == 1:
            system.slopes = 0.01 * torch.rand(system.n_rules, system.n_outputs, system.n_features, **random)
    else:
        weight = None if sample_weight is None else sample_weight[part]
        solve_consequents(system, x[part], y[part], ridge=ridge, sample_weight=weight, total=total)


def start_from_tree(
    system: T1FLS | IT2FLS,
    x: Tensor,
    y: Tensor,
    *,
    sample_weight: Tensor | None = None,
    random_state: np.random.RandomState,
    trained: bool = False,
    row_share: float = 1.0,
) -> None:
    """Set the parameters of a system: a rule for every leaf of a tree that learned y (batch, outputs) from x.

    Where the system is ``trained`` afterwards, its sets are wider, and its planes keep their widths. The tree learns from a
    random share of the rows. One with fewer leaves than the system has rules gives several rules the same sets.
    """
    rows, target = _known_rows(system, x), _array(y)
    weight = None if sample_weight is None else _array(sample_weight)
    span = np.stack([rows.min(axis=0), rows.max(axis=0)])
    has_lines = system.order == 1 and takes_lines(system.n_features, target.shape[1])
    low, high = tree_boxes(
        rows, target, weight, span, system.n_rules, lines=has_lines, row_share=row_share, random_state=random_state
    )
    taken = np.arange(system.n_rules) % len(low)
    low, high = low[taken], high[taken]
    length = span[1] - span[0]
    # The geometric mean of grades widens the sets of a rule of many inputs.
    sides = (_TRAINED_SHARE if trained else _SIDE_SHARE) * np.sqrt(share_of(system.tnorm, system.n_features)) * (high - low)
    sigmas = np.where(high - low < 0.999 * length, sides, _OPEN_SHARE * length)
    limits = width_limits(rows, span)
    sigmas = np.clip(sigmas, 1.02 * limits[0], limits[1] / 1.02)
    _set_centers(system, (low + high) / 2)
    widths = _within_limits(system, torch.from_numpy(sigmas).to(system.centers))
    if isinstance(system, IT2FLS):
        lower = _TRAINED_LOWER if trained else _LOWER
        system.set_sigmas(widths * (lower if "s" in system.uncertainty else 1.0), widths)
        if "h" in system.uncertainty:
            system.heights = torch.full_like(widths, lower)
    else:
        system.sigmas = widths
    if isinstance(system, GT2FLS) and not trained:  # all planes are the Type-1 system, whose consequents are solved
        system.lower_spreads = system.upper_spreads = 0.0
    solve_consequents(system, x, y, ridge=_LEAF_RIDGE, sample_weight=sample_weight)


def _known_rows(system: T1FLS | IT2FLS, x: Tensor) -> Array:
    """Rows x as an array, without unknown values if the system has them."""
    return filled(_array(x)) if system.missing else _array(x)


def _set_centers(system: T1FLS | IT2FLS, centers: Array) -> None:
    """Assign centers (sets, features), the nearest ones within the bounds of the system."""
    bounds, values = system.antecedents.bounds, torch.from_numpy(centers).to(system.antecedents.raw_centers)
    system.centers = values if bounds is None else values.clamp(*bounds[:2])


def _within_limits(system: T1FLS | IT2FLS, sigmas: Tensor) -> Tensor:
    """Widths within the limits of the system, with a margin for the ± of the two widths."""
    limits = system.antecedents.width_limits
    return sigmas if limits is None else sigmas.clamp(1.02 * limits[0].to(sigmas), limits[1].to(sigmas) / 1.02)


def filled(rows: Array) -> Array:
    """Rows with the mean of each input in place of its unknown values, NaN, and 0 for an input of which none is known."""
    unknown = np.isnan(rows)
    return np.where(unknown, known_mean(rows), rows)


def start_sigmas(rows: Array, width: float, groups: Sequence[tuple[int, int]] = ()) -> Array:
    """Standard deviation of each input, or of all inputs of a category together, times ``width``, 1 where it is 0."""
    squares = rows - fold_rows(np.sum, rows) / len(rows)
    squares *= squares  # in place: to allocate a second large array takes longer than to fill it
    deviation = np.sqrt(fold_rows(np.sum, squares) / max(len(rows) - 1, 1))
    for first, end in groups:
        deviation[first:end] = np.sqrt(np.square(deviation[first:end]).sum())
    deviation = np.where(deviation > 0, deviation, 1.0)
    # The bounds leave a margin for the ± of the two widths.
    return np.clip(deviation * width, MIN_SIGMA * 2, MAX_SIGMA / 2)


def width_limits(rows: Array, span: Array) -> Array:
    """Least and largest sensible width of the sets of every input, (2, features).

    A twentieth of the spacing of the data, their range over the number of different values less 1, as far as rows tell, of
    which :data:`SPACING_ROWS` are enough; and four ranges, where a grade hardly changes over the data. No limits for an
    input of one value.
    """
    length = span[1] - span[0]
    n_gaps = np.maximum((np.diff(np.sort(rows, axis=0), axis=0) > 0).sum(axis=0) + np.isnan(rows).any(axis=0), 1)
    limits = np.stack([_NARROWEST * length / n_gaps, _WIDEST * length])
    # A range of the size of rounding errors has no limits: they would leave no width between them.
    limits = np.where(_WIDEST * length > 8 * MIN_SIGMA, limits, [[MIN_SIGMA], [MAX_SIGMA]])
    return np.clip(limits, 2 * MIN_SIGMA, MAX_SIGMA / 2)


def solve_consequents(
    system: T1FLS | IT2FLS,
    x: Tensor,
    y: Tensor,
    *,
    ridge: float,
    sample_weight: Tensor | None = None,
    total: Callable[[Tensor], Tensor] | None = None,
) -> None:
    """Set the consequents to the ridge solution for the present sets: the linear half of hybrid learning.

    A Type-1 output is linear in its consequents, ``y = Σ_p f̂_p (a_p · x + a_p0)`` with normalised firing f̂; for IT2 systems
    the mean of lower and upper firing stands in, for which the solution is close to that of the exact reduction. The
    penalty pulls every rule towards one common linear model, which is fitted first: rules that hardly fire get
    that model instead of zeros or noise. The normal equations are sums over rows, so they may come in parts from several
    processes, whose ``total`` each of them solves.
    """
    n_rules, n_outputs, n_features = system.n_rules, system.n_outputs, system.n_features
    linear = system.order == 1
    inputs, targets = _known_rows(system, x), _array(y)
    weight = None if sample_weight is None else _array(sample_weight)
    ones = np.ones((len(inputs), 1))
    basis = np.concatenate([inputs, ones], axis=1) if linear else ones
    # One ridge regression for all rules first, its intercept free; that alone if a system has too many unknowns.
    small = linear and n_features < _MAX_UNKNOWNS
    common = np.zeros((basis.shape[1], n_outputs))
    shared = _NormalEquations(n_features + 1 if small else 1, n_outputs)
    shared.add(basis if small else ones, targets, weight)
    solved = shared.summed(total).solve(ridge, free=1)
    common[-len(solved) :] = solved
    weights = np.tile(common, (n_rules, 1, 1))  # (rules, features + 1, outputs)
    local = basis if n_rules * basis.shape[1] <= _MAX_UNKNOWNS else ones
    if n_rules * local.shape[1] <= _MAX_UNKNOWNS and n_rules > 1:
        residual = targets - basis @ common
        unknown = np.isnan(_array(x)) if system.missing and linear else None
        moments = _NormalEquations(n_rules * local.shape[1], n_outputs)
        n_chunk = max(1, _CHUNK_ELEMENTS // (n_rules * local.shape[1]))
        for first in range(0, len(inputs), n_chunk):
            part = slice(first, first + n_chunk)
            firing = _normalised_firing(system, x[part])[:, :, None]
            rule_inputs, left = local[part, None], residual[part]
            if unknown is not None:
                # Every rule takes the center of its own set in place of an unknown input.
                own = np.where(unknown[part, None], _array(system.centers), inputs[part, None])
                own = np.concatenate([own, np.ones((*own.shape[:2], 1))], axis=2)
                left = targets[part] - (firing * own).sum(axis=1) @ common
                rule_inputs = own if local is basis else rule_inputs
            design = (firing * rule_inputs).reshape(-1, n_rules * local.shape[1])
            moments.add(design, left, None if weight is None else weight[part])
        found = moments.summed(total).solve(ridge).reshape(n_rules, local.shape[1], n_outputs)
        weights[:, -local.shape[1] :] += found
    system.intercepts = torch.from_numpy(weights[:, -1])
    if linear:
        system.slopes = torch.from_numpy(weights[:, :-1].transpose(0, 2, 1))


def _array(tensor: Tensor) -> Array:
    return tensor.detach().cpu().double().numpy()


class _NormalEquations:
    """Sums of a weighted least-squares problem, from chunks of rows."""

    def __init__(self, n_unknowns: int, n_outputs: int) -> None:
        self._gram = np.zeros((n_unknowns, n_unknowns))
        self._moment = np.zeros((n_unknowns, n_outputs))
        self._weight = np.zeros(1)

    def add(self, design: Array, target: Array, sample_weight: Array | None) -> None:
        weighted = design if sample_weight is None else design * sample_weight[:, None]
        self._gram += weighted.T @ design
        self._moment += weighted.T @ target
        self._weight += float(len(design)) if sample_weight is None else sample_weight.sum()

    def summed(self, total: Callable[[Tensor], Tensor] | None) -> _NormalEquations:
        """The equations of all processes together."""
        if total is not None:
            for part in (self._gram, self._moment, self._weight):
                total(torch.from_numpy(part))
        return self

    def solve(self, ridge: float, free: int = 0) -> Array:
        """Minimiser with the penalty on all but the last ``free`` unknowns."""
        penalty = np.full(len(self._gram), ridge * max(float(self._weight[0]), 1e-30))
        if free:
            penalty[-free:] = 0.0
        regular = self._gram + np.diag(penalty)
        try:
            return scipy.linalg.cho_solve(scipy.linalg.cho_factor(regular, lower=True), self._moment)
        except np.linalg.LinAlgError:
            # Singular to the last digit, as equal columns are beside a tiny penalty: the smallest of the minimisers.
            return np.linalg.lstsq(regular, self._moment, rcond=None)[0]


def _normalised_firing(system: T1FLS | IT2FLS, x: Tensor) -> Array:
    """Firing as shares that add up to 1 over the rules, (batch, rules)."""
    with torch.no_grad():
        # The narrow planes of a General Type-2 system weigh most in its output, so its Type-1 system is used.
        firing = relative_firing(system.antecedents(x)) if isinstance(system, GT2FLS) else system.firing(x)
        weights = _array(firing if isinstance(firing, Tensor) else torch.stack(firing).sum(dim=0))
    return weights / weights.sum(axis=1, keepdims=True)
