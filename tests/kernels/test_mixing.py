"""A round of k-means against NumPy, to the last bit."""

from __future__ import annotations

import numpy as np

from deepfls.kernels.mixing import assign_rows


def test_round_gives_first_nearest_clusters_counts_and_sums() -> None:
    random = np.random.default_rng(0)
    n_rows = 2000  # more than a block
    rows = random.standard_normal((n_rows, 3))
    distances = random.integers(0, 4, (5, n_rows)).astype(np.float32)  # with ties
    labels, counts, sums = np.full(n_rows, -1), np.empty(5, dtype=np.int64), np.empty((5, 3))
    assert assign_rows(rows, distances, labels, counts, sums) == n_rows
    assert np.array_equal(labels, distances.argmin(axis=0))
    assert np.array_equal(counts, np.bincount(labels, minlength=5))
    expected = np.stack([np.bincount(labels, column, 5) for column in rows.T], axis=1)
    assert np.array_equal(sums, expected)
    distances[:, 1900] = -1.0
    distances[(labels[1900] + 1) % 5, 1900] = -2.0
    assert assign_rows(rows, distances, labels, counts, sums) == 1
