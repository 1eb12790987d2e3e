"""Rows on which an export is measured: those given, or drawn from the range of the training data."""

from __future__ import annotations

from typing import Any

import numpy as np

from deepfls._checks import check_rows
from deepfls.inspection.plain import Snapshot

Array = np.ndarray[Any, np.dtype[Any]]


def rows_for(snapshot: Snapshot, rows: Any, n_drawn: int) -> Array:
    """Rows (rows, features) in the units of the data; the same ones for the same system.

    Half of those that are drawn are uniform over the range, and half lie about the centers of the rules, where data are.
    """
    if rows is not None:
        return check_rows(rows, snapshot.n_features)
    low, high = input_box(snapshot)
    rng = np.random.default_rng(0)
    uniform = rng.uniform(low, high, (n_drawn - n_drawn // 2, snapshot.n_features))
    rule = rng.integers(snapshot.n_rules, size=n_drawn // 2)
    near = rng.normal(snapshot.centers[rule], snapshot.upper_sigmas[rule])
    return np.concatenate([uniform, np.clip(near, low, high)])


def input_box(snapshot: Snapshot) -> tuple[Array, Array]:
    """Smallest and largest value of every input in the training data, or, where unknown, of the sets within two widths."""
    if snapshot.input_range is not None:
        return snapshot.input_range[0], snapshot.input_range[1]
    reach = 2.0 * snapshot.upper_sigmas
    return (snapshot.centers - reach).min(axis=0), (snapshot.centers + reach).max(axis=0)
