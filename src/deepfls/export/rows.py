"""Rows on which an export is measured: those given, or drawn from the range of the training data."""

from __future__ import annotations

from typing import Any

import numpy as np

from deepfls._checks import check_rows
from deepfls.inspection.plain import PlainSystem

Array = np.ndarray[Any, np.dtype[Any]]


def rows_for(plain: PlainSystem, rows: Any, n_drawn: int) -> Array:
    """Rows (rows, features) in the units of the data; the same ones for the same system.

    Half of those that are drawn are uniform over the range, and half lie about the centers of the rules, where data are.
    """
    if rows is not None:
        return check_rows(rows, plain.n_features)
    low, high = input_box(plain)
    rng = np.random.default_rng(0)
    uniform = rng.uniform(low, high, (n_drawn - n_drawn // 2, plain.n_features))
    rule = rng.integers(plain.n_rules, size=n_drawn // 2)
    near = rng.normal(plain.centers[rule], plain.upper_sigmas[rule])
    return np.concatenate([uniform, np.clip(near, low, high)])


def input_box(plain: PlainSystem) -> tuple[Array, Array]:
    """Smallest and largest value of every input in the training data, or, where unknown, of the sets within two widths."""
    if plain.input_range is not None:
        return plain.input_range[0], plain.input_range[1]
    reach = 2.0 * plain.upper_sigmas
    return (plain.centers - reach).min(axis=0), (plain.centers + reach).max(axis=0)
