"""Systems that begin at the leaves of a tree."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.tree import DecisionTreeRegressor

from deepfls.nn.general import GT2FLS
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training.tree_start import LinearTree, leaf_boxes, start_from_tree

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-1, 1, size=(600, 3))
STEPS = np.floor(10 * X[:, [1]]) % 2  # twenty narrow parts of one input


def test_boxes_hold_the_rows_of_their_leaves() -> None:
    tree = DecisionTreeRegressor(max_leaf_nodes=7, random_state=0).fit(X, STEPS)
    low, high = leaf_boxes(tree.tree_, np.stack([X.min(axis=0), X.max(axis=0)]))
    assert low.shape == high.shape == (7, 3)
    inside = ((X[:, None] >= low - 1e-6) & (X[:, None] <= high + 1e-6)).all(axis=2)
    assert (inside.sum(axis=1) == 1).mean() > 0.99
    for leaf in np.unique(tree.apply(X)):
        assert inside[tree.apply(X) == leaf].all(axis=0).any()


def test_tree_of_lines_cuts_where_a_slope_changes() -> None:
    y = np.column_stack([np.abs(X[:, 0] - 0.25), X[:, 2]])
    low, high = LinearTree(X, y, None).boxes(2, np.stack([X.min(axis=0), X.max(axis=0)]))
    assert np.sort(low[:, 0])[1] == np.sort(high[:, 0])[0] == pytest.approx(0.25, abs=0.05)
    np.testing.assert_array_equal(low[:, 1:], np.tile(X[:, 1:].min(axis=0), (2, 1)))
    np.testing.assert_array_equal(high[:, 1:], np.tile(X[:, 1:].max(axis=0), (2, 1)))


def test_tree_of_lines_needs_rows_on_both_sides() -> None:
    y = np.abs(X[:, :1])
    for n_rows in (1, 19, 20):
        low, _ = LinearTree(X[:n_rows], y[:n_rows], None).boxes(5, np.stack([X.min(axis=0), X.max(axis=0)]))
        assert len(low) == 1 + (n_rows == 20)


def test_many_inputs_have_a_tree_of_constants() -> None:
    wide = np.column_stack([X, RANDOM.uniform(-1, 1, size=(600, 30))])
    system = T1FLS(33, 1, n_rules=24, dtype=torch.float64)
    x, y = torch.from_numpy(wide), torch.from_numpy(STEPS)
    start_from_tree(system, x, y, random_state=np.random.RandomState(0))
    assert float(((system(x).detach() - y) ** 2).mean().sqrt()) < 0.8 * STEPS.std()


@pytest.mark.parametrize("cls", [T1FLS, IT2FLS, GT2FLS])
def test_narrow_parts_of_an_input_are_found_without_training(cls: type) -> None:
    system = cls(3, 1, n_rules=24, dtype=torch.float64)
    x, y = torch.from_numpy(X), torch.from_numpy(STEPS)
    start_from_tree(system, x, y, random_state=np.random.RandomState(0))
    error = float(((system(x).detach() - y) ** 2).mean().sqrt())
    assert error < 0.5 * STEPS.std()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_planes_of_a_general_system_have_no_width(dtype: torch.dtype) -> None:
    system = GT2FLS(3, 1, n_rules=24, dtype=dtype)
    x, y = torch.from_numpy(X).to(dtype), torch.from_numpy(STEPS).to(dtype)
    start_from_tree(system, x, y, random_state=np.random.RandomState(0))
    _, y_left, y_right = system.planes(x, [0.01, 1.0])
    torch.testing.assert_close(y_left, y_right, atol=1e-5, rtol=0.0)


def test_a_tree_of_one_leaf_gives_a_line() -> None:
    system = T1FLS(3, 1, n_rules=4, dtype=torch.float64)
    x = torch.from_numpy(X[:8])
    y = x[:, :1] + 2.0
    start_from_tree(system, x, y, random_state=np.random.RandomState(0))
    torch.testing.assert_close(system(x).detach(), y, atol=0.05, rtol=0.0)


def test_heavy_rows_decide() -> None:
    system = T1FLS(3, 1, n_rules=6, dtype=torch.float64)
    x, y = torch.from_numpy(X), torch.from_numpy(np.where(np.arange(600) % 2, 1.0, -1.0)[:, None])
    weight = torch.from_numpy(np.where(np.arange(600) % 2, 1.0, 1e-6))
    start_from_tree(system, x, y, sample_weight=weight, random_state=np.random.RandomState(0))
    assert float(system(x).detach().mean()) > 0.95


@pytest.mark.parametrize("cls", [T1FLS, IT2FLS, GT2FLS])
def test_sets_that_are_trained_afterwards_are_wider_and_keep_a_footprint(cls: type) -> None:
    x, y = torch.from_numpy(X), torch.from_numpy(STEPS)
    first, second = cls(3, 1, n_rules=24, dtype=torch.float64), cls(3, 1, n_rules=24, dtype=torch.float64)
    start_from_tree(first, x, y, random_state=np.random.RandomState(0))
    start_from_tree(second, x, y, random_state=np.random.RandomState(0), trained=True)
    torch.testing.assert_close(first.centers, second.centers)
    widths = [system.upper_sigmas if isinstance(system, IT2FLS) else system.sigmas for system in (first, second)]
    assert (widths[1] >= widths[0]).all()
    assert (widths[1] > widths[0]).any()
    if cls is not T1FLS:
        spreads = [(y_right - y_left).mean().item() for y_left, y_right, _ in (s.reduce(x) for s in (first, second))]
        assert spreads[1] > 5.0 * spreads[0]


def test_trees_of_shares_of_the_rows_differ_by_their_seed() -> None:
    x, y = torch.from_numpy(X), torch.from_numpy(STEPS)
    centers = []
    for seed in (0, 1, 0):
        system = T1FLS(3, 1, n_rules=12, dtype=torch.float64)
        start_from_tree(system, x, y, random_state=np.random.RandomState(seed), trained=True, row_share=0.7)
        centers.append(system.centers.detach().clone())
    assert not torch.equal(centers[0], centers[1])
    assert torch.equal(centers[0], centers[2])
