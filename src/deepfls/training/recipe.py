"""The settings that "auto" stands for: functions of the number of rows, chosen by the experiment in docs/recipe.md."""

from __future__ import annotations

import math

import numpy as np


def batch_size(n_rows: int) -> int:
    """About thirteen batches to the epoch, a power of two from 32 to 4,096."""
    return int(2 ** np.clip(np.round(np.log2(max(n_rows, 1) / 13)), 5, 12))


def epochs(n_rows: int, batch_size: int) -> int:
    """About 600 steps times the fourth root of the rows: 3,400 for a thousand rows, 19,000 for a million.

    And no more than nine for every two rows: few rows are learned by heart.
    """
    n_steps = min(600.0 * n_rows**0.25, 4.5 * n_rows)
    return int(np.clip(round(n_steps / math.ceil(n_rows / batch_size)), 5, 400))


def learning_rate(n_rows: int) -> float:
    """0.05 up to 500 rows, then falling with their fifth root, down to the paper's 0.01."""
    return float(np.clip(0.05 * (500 / n_rows) ** 0.2, 0.01, 0.05))


def width(n_rows: int) -> float:
    """Wide sets, nearly one common model, where rows are few; narrower the more there are, as bandwidths are."""
    return float(np.clip((500 / n_rows) ** 0.25, 0.3, 1.0))


def weight_decay(n_rows: int) -> float:
    """1 up to 350 rows, then falling as their number grows: a pull as strong as 350 rows are."""
    return min(1.0, 350 / n_rows)
