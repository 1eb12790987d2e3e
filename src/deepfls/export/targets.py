"""What several targets need: rows on which an export is measured, and the refusal of systems that a target cannot hold."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from deepfls._checks.samples import check_finite_table
from deepfls.inspection.plain import Array, PlainSystem


def rows_for(plain: PlainSystem, rows: Any, n_drawn: int) -> Array:
    """Rows (rows, features) in the units of the data: those given, or drawn, always the same ones for the same system.

    Half of the drawn rows are uniform over the range of the training data. The other half lie around the centers of the
    rules, where most data are.
    """
    if rows is not None:
        values = np.asarray(rows, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != plain.n_features or len(values) == 0:
            raise ValueError(f"X must have shape (rows, features) with features={plain.n_features}, got {values.shape}.")
        check_finite_table("X", values)
        return values
    low, high = input_box(plain)
    rng = np.random.default_rng(0)
    uniform = rng.uniform(low, high, (n_drawn - n_drawn // 2, plain.n_features))
    rule = rng.integers(plain.n_rules, size=n_drawn // 2)
    near = rng.normal(plain.centers[rule], plain.upper_sigmas[rule])
    return np.concatenate([uniform, np.clip(near, low, high)])


def input_box(plain: PlainSystem) -> tuple[Array, Array]:
    """Smallest and largest value of every input in the training data; if unknown, the sets within two widths."""
    if plain.input_range is not None:
        return plain.input_range[0], plain.input_range[1]
    reach = 2.0 * plain.upper_sigmas
    return (plain.centers - reach).min(axis=0), (plain.centers + reach).max(axis=0)


def refuse_form(target: str, reason: str, remedy: str) -> NoReturn:
    """Raise the error that says why a system cannot be written in the form of a target."""
    raise ValueError(f"{target} cannot express this system: {reason}; {remedy}.")


def check_holdable(what: str, values: Array, limit: float) -> None:
    """Require numbers that the number format of a target can hold."""
    if values.size and not (np.isfinite(values).all() and np.abs(values).max() <= limit):
        largest = np.abs(np.where(np.isfinite(values), values, np.inf)).max()
        raise ValueError(f"{what} must be within ±{limit:.3g} for this target, got {largest:.3g}: scale the data first.")
