"""The order of an epoch: every row once, the same for any number of processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepfls.training.stream_batches import Window, plan_epoch, ranked

COUNTS = st.lists(st.integers(0, 60), min_size=1, max_size=30).filter(any).map(np.array)


@settings(max_examples=100, deadline=None)
@given(COUNTS, st.integers(1, 100), st.integers(1, 4), st.integers(0, 2**40))
def test_every_row_group_with_rows_is_in_one_window(counts: np.ndarray, buffer: int, groups: int, seed: int) -> None:
    windows = plan_epoch(seed, counts, buffer, groups)
    assert sorted(np.concatenate([w.groups for w in windows])) == np.flatnonzero(counts).tolist()
    assert [w.first for w in windows] == np.cumsum([0, *(w.n_rows for w in windows)])[:-1].tolist()
    assert all(w.n_rows >= buffer // 2 and len(w.groups) >= groups for w in windows) or len(windows) == 1


@settings(max_examples=100, deadline=None)
@given(COUNTS, st.integers(1, 5))
def test_row_groups_are_divided_evenly_among_processes(counts: np.ndarray, n_processes: int) -> None:
    for window in plan_epoch(0, counts, 100, n_processes):
        owners = window.owners(n_processes)
        loads = np.bincount(owners, weights=window.sizes, minlength=n_processes)
        # The last one dealt went to whoever had least.
        assert loads.max() - loads.min() <= window.sizes.max()


@settings(max_examples=100, deadline=None)
@given(COUNTS, st.integers(0, 2**40), st.randoms())
def test_places_of_some_row_groups_are_those_they_have_among_all(counts: np.ndarray, seed: int, random: Any) -> None:
    (window,) = plan_epoch(seed, counts, 10**6, 1)
    places = window.places()
    assert sorted(places) == list(range(window.n_rows))
    some = np.array([random.random() < 0.5 for _ in window.groups])
    assert np.array_equal(window.places(some), places[np.repeat(some, window.sizes)])


@pytest.mark.parametrize("n_places", [0, 1, 14, 15, 700, 1000])
def test_ranks_are_those_of_sorting(n_places: int) -> None:
    places = np.random.default_rng(0).permutation(1000)[:n_places]
    ascending, ranks = ranked(places, 1000)
    assert ascending.tolist() == sorted(places)
    assert np.array_equal(ascending[ranks], places)


@pytest.mark.parametrize("n_rows", [2**16, 2**16 + 1, 100_000])
def test_rows_are_mixed_as_by_chance(n_rows: int) -> None:
    """How many rows of each row group are in each batch, against independence: as with any good shuffle."""
    n_groups, n_batches = 16, 64
    found = []
    for seed in range(20):
        window = Window(np.arange(1), np.array([n_rows]), 0, (seed, 0))
        places = window.places()
        cells = np.arange(n_rows) * n_groups // n_rows * n_batches + places * n_batches // n_rows
        table = np.bincount(cells, minlength=n_groups * n_batches).reshape(n_groups, n_batches)
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / n_rows
        freedom = (n_groups - 1) * (n_batches - 1)
        found.append((((table - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom))
        # Neighbours in the table are strangers in the order.
        assert abs(np.corrcoef(places[:-1], places[1:])[0, 1]) < 4 / np.sqrt(n_rows)
    assert abs(np.mean(found)) < 4 / np.sqrt(20)
    assert 0.5 < np.std(found) < 1.7


def test_places_are_a_permutation_that_changes_from_window_to_window() -> None:
    first, second = plan_epoch(1, np.full(8, 50), 200, 2)
    assert sorted(first.places()) == list(range(200))
    assert not np.array_equal(first.places(), second.places())
    assert np.array_equal(first.places(), plan_epoch(1, np.full(8, 50), 200, 2)[0].places())
    assert not np.array_equal(first.places(), plan_epoch(2, np.full(8, 50), 200, 2)[0].places())
