"""Sets at the leaves of a regression tree, and the consequents that go with them: a system without gradient steps.

K-means looks at the inputs alone, so it misses narrow ranges of single inputs on which the targets depend, such as days
that share a reading. A tree splits where the targets change.
"""

from __future__ import annotations

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
# Width of a set in lengths of the side of its leaf; in ranges where a leaf is not bounded; penalty of the consequents.
_SIDE_SHARE, _OPEN_SHARE, _RIDGE = 0.3, 2.0, 1e-4
# Heights and relative widths of the lower sets of an IT2 system: nearly those of the upper ones, because the consequents
# are solved for the mean of both.
_HEIGHT, _LOWER_SHARE = 0.99, 0.99


def start_from_tree(
    system: T1FLS | IT2FLS,
    x: Tensor,
    y: Tensor,
    *,
    sample_weight: Tensor | None = None,
    random_state: np.random.RandomState,
) -> None:
    """Set the parameters of a system: a rule for every leaf of a tree that learned y (batch, outputs) from x.

    A tree with fewer leaves than the system has rules gives several rules the same sets.
    """
    from sklearn.tree import DecisionTreeRegressor

    rows = x.detach().cpu().double().numpy()
    if system.missing:
        rows = filled(rows)
    target = y.detach().cpu().double().numpy()
    weight = None if sample_weight is None else sample_weight.detach().cpu().double().numpy()
    seen = evenly_spaced(len(rows), _TREE_ROWS)
    tree = DecisionTreeRegressor(
        max_leaf_nodes=max(system.n_rules, 2),
        min_samples_leaf=_LEAF_ROWS,
        random_state=int(random_state.randint(2**31 - 1)),
    )
    tree.fit(rows[seen], target[seen], None if weight is None else weight[seen])
    span = np.stack([rows.min(axis=0), rows.max(axis=0)])
    low, high = leaf_boxes(tree.tree_, span)
    taken = np.arange(system.n_rules) % len(low)
    low, high = low[taken], high[taken]
    length = span[1] - span[0]
    # The geometric mean of grades widens the sets of a rule of many inputs.
    sides = _SIDE_SHARE * np.sqrt(share_of(system.tnorm, system.n_features)) * (high - low)
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
        system.set_sigmas(widths * (_LOWER_SHARE if "s" in system.uncertainty else 1.0), widths)
        if "h" in system.uncertainty:
            system.heights = torch.full_like(centers, _HEIGHT)
    else:
        system.sigmas = widths
    if isinstance(system, GT2FLS):  # all planes are the Type-1 system, whose consequents are solved
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
