"""Tables that starting points are tested on."""

from __future__ import annotations

import numpy as np

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-1, 1, size=(600, 3))
STEPS = np.floor(10 * X[:, [1]]) % 2  # twenty narrow parts of one input


def seeded() -> np.random.RandomState:
    return np.random.RandomState(0)


NASTY_ROWS = {
    "1 row": np.array([[1.0, 2.0]]),
    "2 rows": np.array([[1.0, 2.0], [3.0, -1.0]]),
    "duplicates": np.tile([[0.0, 1.0], [2.0, -1.0], [0.0, 1.0]], (10, 1)),
    "constant column": np.column_stack([np.arange(20.0), np.full(20, 0.1)]),
    "all constant": np.full((20, 2), 0.1),
    "1 column": np.arange(12.0).reshape(-1, 1),
    "2 distinct values": (np.arange(40.0) % 2).reshape(-1, 1),
    "rows that differ by rounding": 1.0 + np.arange(30.0).reshape(-1, 1) * 2.0**-52,
    "1,000 columns": seeded().normal(size=(12, 1000)),
}
