# mypy: disable-error-code="no-untyped-def"
# (compiled functions: Numba infers the types)
"""One round of k-means: the nearest cluster of every row, and the sums of the rows of every cluster."""

from __future__ import annotations

from deepfls.kernels.compiling import compiled


@compiled
def assign_rows(rows, distances, labels, counts, sums):
    """Fill labels (rows,) with the first smallest of distances (rows, clusters), and counts and sums of the clusters.

    Returns the number of rows whose label changed. Rows are added in their order, so that the bits of the sums do not
    depend on anything else.
    """
    n_changed = 0
    for k in range(counts.shape[0]):
        counts[k] = 0
        for m in range(rows.shape[1]):
            sums[k, m] = 0.0
    for i in range(rows.shape[0]):
        best, smallest = 0, distances[i, 0]
        for k in range(1, distances.shape[1]):
            distance = distances[i, k]
            best = k if distance < smallest else best
            smallest = distance if distance < smallest else smallest
        n_changed += labels[i] != best
        labels[i] = best
        counts[best] += 1
        for m in range(rows.shape[1]):
            sums[best, m] += rows[i, m]
    return n_changed
