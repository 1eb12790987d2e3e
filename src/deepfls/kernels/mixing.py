"""Kernels for tables of rows: the random order of a window and its scaled rows; the clusters of k-means."""

from __future__ import annotations

import numpy as np

from deepfls.kernels.arithmetic import index
from deepfls.kernels.compiling import compiled, inner

# Numbers in one piece of scratch: 12 kB, so that it stays in the first-level cache.
_BLOCK_NUMBERS = 1536

# Odd numbers whose bits look random (of the finalisers of murmur3 and splitmix64).
_FACTORS = (
    np.uint64(0xFF51AFD7ED558CCD),
    np.uint64(0xC4CEB9FE1A85EC53),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


@inner
def _mixed(place, keys, mask, half):
    """Another number of as many bits: each of the steps, on the bits of the mask, can be undone."""
    for turn in range(4):
        place = ((place + keys[turn]) * _FACTORS[turn]) & mask
        place ^= place >> half
    return place


@compiled
def places_among(first, n_rows, keys, places):
    """Fill places with where the numbers from ``first`` on go in a random order of 0 to ``n_rows`` - 1, set by four keys.

    An order of which any part can be had without the rest. Numbers are mixed among those below the next power of two; one
    that lands beyond the last place is mixed again, which ends because the mixing, repeated, comes back to where it began.
    """
    n_bits = 1
    while n_rows > (1 << n_bits):
        n_bits += 1
    mask = np.uint64((1 << n_bits) - 1)
    half = np.uint64((n_bits + 1) // 2)
    size = np.uint64(n_rows)
    for i in range(len(places)):
        place = _mixed(np.uint64(first + i), keys, mask, half)
        while place >= size:
            place = _mixed(place, keys, mask, half)
        places[i] = np.int64(place)


@compiled
def count_ranks(places, n_rows, ascending, ranks):
    """Fill ascending with the places, all different and below ``n_rows``, in that order, and ranks with their ranks.

    ``ascending`` has room for one more: every number is written there until the next place is found, without asking whether
    this is one, which the processor could not guess.
    """
    taken = np.zeros(n_rows, np.uint8)
    for place in places:
        taken[place] = 1
    before = np.empty(n_rows, np.int32)
    n_before = 0
    for place in range(n_rows):
        ascending[n_before] = place
        before[place] = n_before
        n_before += taken[place]
    for i in range(len(places)):
        ranks[i] = before[places[i]]


@compiled
def put_rows(columns, shift, scale, farthest, goes, out):
    """Scale columns (columns, rows) and put row i at out[goes[i]].

    A block of rows is scaled column by column into scratch that stays in the cache: then every row of the window, which
    does not, is touched once. In float64: subtracting a large mean in float32 would lose the digits that matter.
    """
    n_columns, n_rows = columns.shape
    block = max(1, _BLOCK_NUMBERS // n_columns)
    scratch = np.empty((n_columns, block), out.dtype)
    for first in range(0, n_rows, block):
        n = min(block, n_rows - first)
        for c in range(n_columns):
            for i in range(n):
                value = (np.float64(columns[c, first + i]) - shift[c]) / scale[c]
                value = farthest if value > farthest else value
                scratch[c, i] = -farthest if value < -farthest else value
        for i in range(n):
            row = out[goes[first + i]]
            for c in range(n_columns):
                row[c] = scratch[c, i]


@compiled
def assign_rows(rows, distances, labels, counts, sums):
    """Fill labels (rows,) with the first smallest of distances (clusters, rows), and counts and sums of the clusters.

    Returns the number of rows whose label changed. Rows are added in their order, so that the bits of the sums do not
    depend on anything else.
    """
    n_changed = 0
    for k in range(counts.shape[0]):
        counts[k] = 0
        for m in range(rows.shape[1]):
            sums[k, m] = 0.0
    best, smallest = np.empty(_BLOCK_NUMBERS, np.int32), np.empty(_BLOCK_NUMBERS, distances.dtype)
    for first in range(0, rows.shape[0], _BLOCK_NUMBERS):
        n = min(_BLOCK_NUMBERS, rows.shape[0] - first)
        for i in range(n):
            best[i], smallest[i] = 0, distances[0, index(first, i)]
        for k in range(1, distances.shape[0]):  # cluster by cluster, so that the loop over rows vectorises
            for i in range(n):
                distance, least = distances[k, index(first, i)], smallest[i]
                best[i] = k if distance < least else best[i]
                smallest[i] = distance if distance < least else least
        for i in range(n):
            row, label = first + i, best[i]
            n_changed += labels[row] != label
            labels[row] = label
            counts[label] += 1
            for m in range(rows.shape[1]):
                sums[label, m] += rows[row, m]
    return n_changed
