"""A round of k-means against NumPy, to the last bit."""

from __future__ import annotations

import numpy as np

from deepfls.kernels.mixing import assign_rows


def test_round_gives_first_nearest_clusters_counts_and_sums() -> None:
    random = np.random.default_rng(0)
    rows, distances = random.standard_normal((50, 3)), random.integers(0, 4, (50, 5)).astype(float)  # with ties
    labels, counts, sums = np.full(50, -1), np.empty(5, dtype=np.int64), np.empty((5, 3))
    assert assign_rows(rows, distances, labels, counts, sums) == 50
    assert np.array_equal(labels, distances.argmin(axis=1))
    assert np.array_equal(counts, np.bincount(labels, minlength=5))
    expected = np.stack([np.bincount(labels, column, 5) for column in rows.T], axis=1)
    assert np.array_equal(sums, expected)
    distances[7] = -1.0
    distances[7, (labels[7] + 1) % 5] = -2.0
    assert assign_rows(rows, distances, labels, counts, sums) == 1
