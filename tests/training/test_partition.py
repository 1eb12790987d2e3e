"""Centers within the data, and boxes of trees that hold the rows of their leaves."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from deepfls.training import partition
from deepfls.training.partition import CENTERS, LinearTree, leaf_boxes, start_centers
from start_cases import NASTY_ROWS, STEPS, X, seeded


@pytest.mark.parametrize("method", CENTERS)
@pytest.mark.parametrize("name", NASTY_ROWS)
def test_centers_lie_within_the_data(method: str, name: str) -> None:
    rows = NASTY_ROWS[name]
    centers = start_centers(rows, 7, method, seeded())
    assert centers.shape == (7, rows.shape[1])
    room = 1e-12 * np.abs(rows).max()
    assert (centers >= rows.min(axis=0) - room).all()
    assert (centers <= rows.max(axis=0) + room).all()


@pytest.mark.parametrize("method", ["kmeans", "kmeans-per-input"])
def test_centers_are_the_distinct_values_when_there_are_fewer_than_rules(method: str) -> None:
    rows = np.array([[3.0], [1.0], [3.0], [1.0]])
    centers = start_centers(rows, 5, method, seeded())
    assert sorted(set(centers[:, 0])) == [1.0, 3.0]


@pytest.mark.parametrize("method", CENTERS)
def test_centers_are_the_same_for_the_same_seed(method: str) -> None:
    rows = seeded().normal(size=(50, 3))
    np.testing.assert_array_equal(*(start_centers(rows, 6, method, seeded()) for _ in range(2)))


def test_kmeans_finds_clusters() -> None:
    middles = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    rows = np.concatenate([m + 0.1 * seeded().normal(size=(20, 2)) for m in middles])
    found = start_centers(rows, 3, "kmeans", seeded())
    distances = np.abs(found[:, None] - middles).sum(axis=2).min(axis=0)
    assert distances.max() < 0.3


def test_kmeans_per_input_covers_every_input() -> None:
    rows = np.column_stack([np.repeat([0.0, 5.0], 10), np.tile([1.0, 7.0], 10)])
    found = start_centers(rows, 2, "kmeans-per-input", seeded())
    assert [sorted(column) for column in found.T] == [[0.0, 5.0], [1.0, 7.0]]


def test_kmeans_looks_at_a_share_of_the_rows_when_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "_KMEANS_SAMPLE", 50)
    seen = []
    monkeypatch.setattr(partition, "_kmeans", lambda rows, *others: seen.append((len(rows), others[-1])))
    for n_rows, n_rules in ((50, 2), (100, 2), (100, 4), (100, 5)):
        start_centers(np.arange(float(n_rows)).reshape(-1, 1), n_rules, "kmeans", seeded())
    # All of few rows, in as many rounds as they take; of many a sample, but twenty rows for each rule at least.
    assert seen == [(50, 300), (50, 25), (80, 25), (100, 300)]


def test_grid_is_even_over_one_input() -> None:
    rows = np.array([[0.0], [4.0], [1.0]])
    np.testing.assert_allclose(start_centers(rows, 5, "grid", seeded())[:, 0], [0.0, 1.0, 2.0, 3.0, 4.0])


def test_grid_takes_the_corners_of_the_box() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.2]])
    found = start_centers(rows, 4, "grid", seeded())
    assert sorted(map(tuple, found)) == [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]


def test_grid_fills_up_with_rows_of_the_data() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.2]])
    extra = start_centers(rows, 5, "grid", seeded())[4]
    assert extra.tolist() in rows.tolist()


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
