"""The order of an epoch: every row once, the same for any number of processes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deepfls.data.windows import plan_epoch

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
def test_row_groups_are_dealt_to_all_processes_evenly(counts: np.ndarray, n_processes: int) -> None:
    for window in plan_epoch(0, counts, 100, n_processes):
        owners = window.owners(n_processes)
        loads = np.bincount(owners, weights=window.sizes, minlength=n_processes)
        # The last one dealt went to whoever had least.
        assert loads.max() - loads.min() <= window.sizes.max()


def test_places_are_a_permutation_that_changes_from_window_to_window() -> None:
    first, second = plan_epoch(1, np.full(8, 50), 200, 2)
    assert sorted(first.places()) == list(range(200))
    assert not np.array_equal(first.places(), second.places())
    assert np.array_equal(first.places(), plan_epoch(1, np.full(8, 50), 200, 2)[0].places())
    assert not np.array_equal(first.places(), plan_epoch(2, np.full(8, 50), 200, 2)[0].places())
