"""Where sets start, from arrays of rows: clusters of the inputs, a grid over them, or the leaves of a regression tree.

K-means looks at the inputs alone, so it misses narrow ranges of single inputs on which the targets depend, such as days
that share a reading. A tree cuts where the targets change; with few inputs, where two lines fit them better than one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deepfls._checks.values import Array, evenly_spaced

CENTERS = ("kmeans", "kmeans-per-input", "grid")

# Of tables larger than this, k-means uses a sample and few rounds; docs/recipe.md has the effect of more of both.
_KMEANS_SAMPLE, _KMEANS_ROWS_PER_RULE, _KMEANS_ROUNDS = 5_000, 20, 25
# Fewest rows of a leaf, and largest number of rows that a tree learns from.
_LEAF_ROWS, _TREE_ROWS = 10, 100_000
# Inputs and targets up to which leaves have lines, largest number of rows of such a tree, cuts of an input that are
# compared, and the penalty of slopes, in rows.
_LINEAR_INPUTS, _LINEAR_TARGETS, _LINEAR_ROWS, _CUTS, _SLOPE_PENALTY = 10, 10, 20_000, 100, 1.0


def start_centers(rows: Array, n_rules: int, method: str, random_state: np.random.RandomState) -> Array:
    """Starting centers (rules, features) by one of :data:`CENTERS`."""
    max_iter = 300
    size = max(_KMEANS_SAMPLE, _KMEANS_ROWS_PER_RULE * n_rules)
    if len(rows) > size and method != "grid":
        max_iter = _KMEANS_ROUNDS
        rows = rows[np.sort(random_state.choice(len(rows), size, replace=False))]
    if method == "kmeans":
        return _kmeans(rows, n_rules, random_state, max_iter)
    if method == "kmeans-per-input":
        # The clusters of k-means have no order, so rules combine the sets of different inputs arbitrarily.
        return np.concatenate(
            [_kmeans(rows[:, [m]], n_rules, random_state, max_iter) for m in range(rows.shape[1])], axis=1
        )
    return _grid(rows, n_rules, random_state)


def _kmeans(rows: Array, n_clusters: int, random_state: np.random.RandomState, max_iter: int) -> Array:
    """Cluster centers by Lloyd's algorithm; rows in turn where they have fewer distinct values than clusters.

    Not scikit-learn's: its sums depend on the order in which OpenMP threads arrive, unless the number of threads of the
    whole process is changed, and OpenMP does not survive a fork.
    """
    # One column with enough different values suffices. Sorting a column is much faster than sorting all rows.
    if all(len(np.unique(column)) <= n_clusters for column in rows.T):
        distinct = np.unique(rows, axis=0)
        if len(distinct) <= n_clusters:
            return distinct[np.arange(n_clusters) % len(distinct)]
    from deepfls.kernels.mixing import assign_rows  # here: Numba is slow to import

    rows = np.ascontiguousarray(rows)
    # Labels follow from distances in float32 of centered rows; centers are means in float64.
    mean = rows.mean(axis=0)
    near = rows - mean
    unit = np.abs(near).max()
    table = np.ones((rows.shape[1] + 1, len(rows)), dtype=np.float32)  # a last line of ones, for the squares of the centers
    table[:-1] = near.T / unit
    centers = rows[_spread_rows(table[:-1], n_clusters, random_state)]
    tolerance = 1e-4 * np.square(near).mean()
    labels, counts, sums = np.full(len(rows), -1), np.empty(n_clusters, dtype=np.int64), np.empty_like(centers)
    weights, distances = np.empty((n_clusters, len(table)), np.float32), np.empty((n_clusters, len(rows)), np.float32)
    for _ in range(max_iter):
        near_centers = (centers - mean) / unit
        weights[:, :-1], weights[:, -1] = -near_centers, 0.5 * (near_centers * near_centers).sum(axis=1)
        np.matmul(weights, table, out=distances)  # half the squared ones, up to half the squares of the rows
        if assign_rows(rows, distances, labels, counts, sums) == 0:
            break
        moved = sums / np.maximum(counts, 1)[:, None]
        n_empty = int((counts == 0).sum())
        if n_empty:  # an empty cluster moves to one of the rows farthest from their centers
            own = distances[labels, np.arange(len(rows))] + 0.5 * (table[:-1] * table[:-1]).sum(axis=0)
            moved[counts == 0] = rows[np.argsort(-own, kind="stable")[:n_empty]]
        shift = ((moved - centers) ** 2).sum()
        centers = moved
        if shift <= tolerance:
            break
    return centers


def _spread_rows(columns: Array, n_clusters: int, random_state: np.random.RandomState) -> list[int]:
    """Places of rows far from each other: greedy k-means++, the best of a few draws at a time; columns (features, rows)."""
    n_draws, n_rows = 2 + int(np.log(n_clusters)), columns.shape[1]
    squares = (columns * columns).sum(axis=0)

    def distances(places: Array) -> Array:
        found = columns[:, places].T @ columns
        found *= -2.0
        found += squares
        found += squares[places, None]
        return np.maximum(found, 0.0, out=found)

    chosen = [int(random_state.randint(n_rows))]
    nearest = distances(np.array(chosen))[0]
    for _ in range(1, n_clusters):
        totals = np.cumsum(nearest, dtype=np.float64)
        draws = np.minimum(np.searchsorted(totals, random_state.uniform(size=n_draws) * totals[-1]), n_rows - 1)
        candidates = np.minimum(nearest, distances(draws))
        best = int(candidates.sum(axis=1).argmin())
        nearest = candidates[best]
        chosen.append(int(draws[best]))
    return chosen


def _grid(rows: Array, n_rules: int, random_state: np.random.RandomState) -> Array:
    """Points of a grid over the box of the data, finest where the box is longest; the rest are rows of the data."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    levels = np.ones(rows.shape[1], dtype=int)
    for _ in range(n_rules):  # every round adds a level, and with it a rule at least
        spacing = (high - low) / levels
        for m in np.argsort(-spacing, kind="stable"):
            if spacing[m] > 0 and levels.prod() // levels[m] * (levels[m] + 1) <= n_rules:
                levels[m] += 1
                break
        else:
            break
    axes = [
        np.linspace(lo, hi, k) if k > 1 else np.array([(lo + hi) / 2]) for lo, hi, k in zip(low, high, levels, strict=True)
    ]
    # Only inputs with several levels take part, so that thousands of inputs cost nothing.
    several = np.flatnonzero(levels > 1)
    points = np.tile(np.array([axis[0] for axis in axes]), (int(levels.prod()), 1))
    if len(several):
        mesh = np.meshgrid(*(axes[m] for m in several), indexing="ij")
        points[:, several] = np.stack([axis.ravel() for axis in mesh], axis=1)
    others = rows[random_state.choice(len(rows), n_rules - len(points))]
    return np.concatenate([points, others])


# Trees


def takes_lines(n_features: int, n_targets: int) -> bool:
    """Whether the leaves of a tree may have lines: its numbers grow with the square of the inputs."""
    return n_features <= _LINEAR_INPUTS and n_targets <= _LINEAR_TARGETS


def tree_boxes(
    rows: Array,
    target: Array,
    weight: Array | None,
    span: Array,
    n_leaves: int,
    *,
    lines: bool,
    row_share: float,
    random_state: np.random.RandomState,
) -> tuple[Array, Array]:
    """Lower and upper ends (leaves, features) of the leaves of a tree, which have ``lines`` or constants.

    The tree learns the target (rows, targets) from a random share of the rows (rows, features). Leaves at its border end
    with the ``span`` (2, features) of the rows.
    """
    seen = np.arange(len(rows))
    if row_share < 1.0:
        seen = np.sort(random_state.choice(len(rows), max(1, round(row_share * len(rows))), replace=False))
    seen = seen[evenly_spaced(len(seen), _LINEAR_ROWS if lines else _TREE_ROWS)]
    data = rows[seen], target[seen], None if weight is None else weight[seen]
    if lines:
        return LinearTree(*data).boxes(n_leaves, span)
    from sklearn.tree import DecisionTreeRegressor  # here: slow to import

    seed = int(random_state.randint(2**31 - 1))
    tree = DecisionTreeRegressor(max_leaf_nodes=max(n_leaves, 2), min_samples_leaf=_LEAF_ROWS, random_state=seed)
    return leaf_boxes(tree.fit(*data).tree_, span)


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
            # Ends of the left side: the last rows of equal values that leave enough rows on both sides.
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
