"""Exponentials and maxima of rows, called from a small compiled function each."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deepfls.functional.constants import LOG_FLOOR
from deepfls.kernels import arithmetic
from deepfls.kernels.compiling import compiled


@compiled
def exponentials(values, n_bytes):  # type: ignore[no-untyped-def]
    arithmetic.exponentials(values, n_bytes)


@compiled
def largest(values, row, n):  # type: ignore[no-untyped-def]
    return arithmetic.largest(values, row, n)


def test_exponentials_are_right_to_one_unit_in_the_last_place() -> None:
    values = -np.concatenate([np.linspace(0.0, 600.0, 100_001), np.logspace(-300, 2, 1_000)])
    expected = np.exp(values.astype(np.longdouble)).astype(np.float64)  # older NumPy errs by a unit of its own in float64
    short = values.copy()
    exponentials(values, 8)
    np.testing.assert_array_max_ulp(values, expected, maxulp=1)
    exponentials(short, 4)
    np.testing.assert_array_max_ulp(short.astype(np.float32), expected.astype(np.float32), maxulp=1)


def test_exponentials_hold_the_floor_and_keep_nan() -> None:
    values = np.array([-np.inf, -1e9, np.nan, -0.0])
    exponentials(values, 8)
    np.testing.assert_allclose(values[:2], np.exp(LOG_FLOOR), rtol=1e-15)
    assert np.isnan(values[2])
    assert values[3] == 1.0


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.data())
def test_largest_is_the_maximum_of_the_beginning_of_a_row(row: list[float], data: st.DataObject) -> None:
    n = data.draw(st.integers(1, len(row)))
    rows = np.array([[np.inf] * len(row), row, [np.inf] * len(row)])
    assert largest(rows, 1, n) == max(row[:n])
