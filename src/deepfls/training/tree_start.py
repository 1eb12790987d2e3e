"""Sets at the leaves of a regression tree, and the consequents that go with them: a starting point, or a system as it is.

K-means looks at the inputs alone, so it misses narrow ranges of single inputs on which the targets depend, such as days
that share a reading. A tree cuts where the targets change; with few inputs, where two lines fit them better than one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepfls._checks.values import Array, evenly_spaced
from deepfls.functional.firing import share_of
from deepfls.nn.general import GT2FLS
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training.start import filled, solve_consequents, width_limits

# Fewest rows of a leaf, and rows that a tree sees at most.
_LEAF_ROWS, _TREE_ROWS = 10, 100_000
# Inputs and targets up to which leaves have lines, rows that such a tree sees at most, cuts of an input that are compared,
# and the penalty of slopes, in rows.
_LINEAR_INPUTS, _LINEAR_TARGETS, _LINEAR_ROWS, _CUTS, _SLOPE_PENALTY = 10, 10, 20_000, 100, 1.0
# Width of a set in lengths of the side of its leaf, also where training follows; in ranges where a leaf is not bounded;
# penalty of the consequents.
_SIDE_SHARE, _TRAINED_SHARE, _OPEN_SHARE, _RIDGE = 0.3, 0.4, 2.0, 1e-4
# Heights and relative widths of the lower sets of an IT2 system: nearly those of the upper ones, because the consequents
# are solved for the mean of both; also where training follows.
_LOWER, _TRAINED_LOWER = 0.99, 0.9


def takes_lines(n_features: int, n_targets: int) -> bool:
    """Whether the leaves of a tree may have lines: its numbers grow with the square of the inputs."""
    return n_features <= _LINEAR_INPUTS and n_targets <= _LINEAR_TARGETS


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
    from sklearn.tree import DecisionTreeRegressor

    rows = x.detach().cpu().double().numpy()
    if system.missing:
        rows = filled(rows)
    target = y.detach().cpu().double().numpy()
    weight = None if sample_weight is None else sample_weight.detach().cpu().double().numpy()
    span = np.stack([rows.min(axis=0), rows.max(axis=0)])
    has_lines = system.order == 1 and takes_lines(system.n_features, target.shape[1])
    seen = np.arange(len(rows))
    if row_share < 1.0:
        seen = np.sort(random_state.choice(len(rows), max(1, round(row_share * len(rows))), replace=False))
    seen = seen[evenly_spaced(len(seen), _LINEAR_ROWS if has_lines else _TREE_ROWS)]
    data = rows[seen], target[seen], None if weight is None else weight[seen]
    if has_lines:
        low, high = LinearTree(*data).boxes(system.n_rules, span)
    else:
        tree = DecisionTreeRegressor(
            max_leaf_nodes=max(system.n_rules, 2),
            min_samples_leaf=_LEAF_ROWS,
            random_state=int(random_state.randint(2**31 - 1)),
        )
        low, high = leaf_boxes(tree.fit(*data).tree_, span)
    taken = np.arange(system.n_rules) % len(low)
    low, high = low[taken], high[taken]
    length = span[1] - span[0]
    # The geometric mean of grades widens the sets of a rule of many inputs.
    sides = (_TRAINED_SHARE if trained else _SIDE_SHARE) * np.sqrt(share_of(system.tnorm, system.n_features)) * (high - low)
    sigmas = np.where(high - low < 0.999 * length, sides, _OPEN_SHARE * length)
    limits = width_limits(rows, span)
    sigmas = np.clip(sigmas, 1.02 * limits[0], limits[1] / 1.02)
    centers, widths = (torch.from_numpy(value).to(system.centers) for value in ((low + high) / 2, sigmas))
    bounds = system.antecedents.bounds
    system.centers = centers if bounds is None else centers.clamp(*bounds[:2])
    own = system.antecedents.width_limits
    if own is not None:
        widths = widths.clamp(1.02 * own[0].to(widths), own[1].to(widths) / 1.02)
    if isinstance(system, IT2FLS):
        lower = _TRAINED_LOWER if trained else _LOWER
        system.set_sigmas(widths * (lower if "s" in system.uncertainty else 1.0), widths)
        if "h" in system.uncertainty:
            system.heights = torch.full_like(centers, lower)
    else:
        system.sigmas = widths
    if isinstance(system, GT2FLS) and not trained:  # all planes are the Type-1 system, whose consequents are solved
        system.lower_spreads = system.upper_spreads = 0.0
    solve_consequents(system, x, y, ridge=_RIDGE, sample_weight=sample_weight)


def leaf_boxes(tree: Any, span: Array) -> tuple[Array, Array]:
    """Lower and upper ends (leaves, features) of the leaves of scikit-learn's ``tree_`` within a span (2, features)."""
    lows, highs = [], []
    waiting = [(0, span[0], span[1])]
    for _ in range(tree.node_count):
        node, low, high = waiting.pop()
        if tree.children_left[node] < 0:
            lows.append(low)
            highs.append(high)
            continue
        place, cut = tree.feature[node], tree.threshold[node]
        left_high, right_low = high.copy(), low.copy()
        left_high[place], right_low[place] = cut, cut
        waiting += [(tree.children_right[node], right_low, high), (tree.children_left[node], low, left_high)]
    return np.array(lows), np.array(highs)


@dataclass(frozen=True, eq=False)
class _Leaf:
    """Rows of a leaf, its box, and what the best cut of it gains: the fall of the squared error, an input and a value."""

    rows: Array
    low: Array
    high: Array
    gain: float
    cut: tuple[int, float]


class LinearTree:
    """Boxes of a tree that cuts where two lines fit better than one, instead of two constants.

    Consequents of rules are lines, so the cuts that they need are other ones than those of a tree of constants.
    """

    def __init__(self, x: Array, y: Array, weight: Array | None) -> None:
        self._x = x
        scaled = np.column_stack([np.ones(len(x)), (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12)])
        weighted = scaled if weight is None else scaled * (weight / weight.mean())[:, None]
        self._n = scaled.shape[1]
        # Of every row its part of the normal equations: design times design, design times targets.
        parts = (weighted[:, :, None] * scaled[:, None, :], weighted[:, :, None] * y[:, None, :])
        self._sums = np.concatenate(parts, axis=2)
        self._penalty = np.diag([1e-9, *[_SLOPE_PENALTY] * (self._n - 1)])

    def boxes(self, n_leaves: int, span: Array) -> tuple[Array, Array]:
        """Lower and upper ends (leaves, features) of at most ``n_leaves`` leaves."""
        leaves = [self._leaf(np.arange(len(self._x)), span[0], span[1])]
        for _ in range(n_leaves - 1):
            leaf = max(leaves, key=lambda leaf: leaf.gain)
            if leaf.gain <= 0.0:
                break
            leaves.remove(leaf)
            place, value = leaf.cut
            left = self._x[leaf.rows, place] <= value
            high, low = leaf.high.copy(), leaf.low.copy()
            high[place] = low[place] = value
            leaves += [self._leaf(leaf.rows[left], leaf.low, high), self._leaf(leaf.rows[~left], low, leaf.high)]
        return np.array([leaf.low for leaf in leaves]), np.array([leaf.high for leaf in leaves])

    def _leaf(self, rows: Array, low: Array, high: Array) -> _Leaf:
        sums = self._sums[rows]
        best, cut = 0.0, (0, 0.0)
        for place in range(self._x.shape[1]):
            values = self._x[rows, place]
            order = np.argsort(values, kind="stable")
            values = values[order]
            # Ends of the left side: the last rows of equal values, that leave rows enough on both sides.
            ends = np.flatnonzero(values[:-1] < values[1:]) + 1
            ends = ends[(ends >= _LEAF_ROWS) & (ends <= len(rows) - _LEAF_ROWS)]
            if not len(ends):
                continue
            ends = ends[evenly_spaced(len(ends), _CUTS)]
            parts = np.add.reduceat(sums[order], np.concatenate([[0], ends]), axis=0)
            whole, left = parts.sum(axis=0), np.cumsum(parts[:-1], axis=0)
            gains = self._explained(left) + self._explained(whole - left) - self._explained(whole[None])
            if gains.max() > best:
                end = ends[int(np.argmax(gains))]
                best, cut = float(gains.max()), (place, float(values[end - 1] + values[end]) / 2)
        return _Leaf(rows, low, high, best, cut)

    def _explained(self, sums: Array) -> Array:
        """By how much ridge lines lower the squared error of nodes (nodes, n, n + outputs)."""
        moments = sums[:, :, self._n :]
        found = np.linalg.solve(sums[:, :, : self._n] + self._penalty, moments)
        return np.asarray((found * moments).sum(axis=(1, 2)))
