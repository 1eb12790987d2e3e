"""The mergeable standardiser, and the maps it makes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from deepfls.data import scaling
from deepfls.data.scaling import Scaling, Standardizer, wild_bounds

# Whole and half numbers: far apart or equal, so that a column's spread is never lost in rounding.
tables = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 30), st.integers(1, 3)),
    elements=st.integers(-2000, 2000).map(lambda i: i / 2.0),
)


def seen(*chunks: np.ndarray) -> Standardizer:
    found = Standardizer(chunks[0].shape[1])
    for chunk in chunks:
        found.update(chunk)
    return found


def assert_same(first: Standardizer, second: Standardizer) -> None:
    np.testing.assert_array_equal(first.count, second.count)
    np.testing.assert_allclose(first.mean, second.mean, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(first.scale, second.scale, rtol=1e-9)


def random_table(n_rows: int = 50, n_columns: int = 3) -> np.ndarray:
    return np.random.RandomState(0).normal(size=(n_rows, n_columns)) * [1.0, 1e-3, 50.0][:n_columns]


def test_standardizer_equals_numpy() -> None:
    rows = random_table()
    found = seen(rows)
    np.testing.assert_allclose(found.mean, rows.mean(axis=0))
    np.testing.assert_allclose(found.scale, rows.std(axis=0, ddof=1))


@given(tables, st.lists(st.integers(0, 30), max_size=5))
@settings(deadline=None, max_examples=60)
def test_standardizer_does_not_depend_on_the_chunks(rows: np.ndarray, cuts: list[int]) -> None:
    assert_same(seen(*np.split(rows, sorted(min(c, len(rows)) for c in cuts))), seen(rows))


@given(tables, st.integers(0, 30))
@settings(deadline=None, max_examples=60)
def test_standardizer_merge_equals_one_pass(rows: np.ndarray, cut: int) -> None:
    first, second = np.split(rows, [min(cut, len(rows))])
    assert_same(seen(first).merge(seen(second)), seen(rows))


@given(tables, st.data())
@settings(deadline=None, max_examples=60)
def test_standardizer_weights_equal_repeats(rows: np.ndarray, data: st.DataObject) -> None:
    counts = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows))))
    weighted = Standardizer(rows.shape[1]).update(rows, counts.astype(float))
    assert_same(weighted, seen(np.repeat(rows, counts, axis=0)))


def test_standardizer_merge_with_an_empty_one_changes_nothing() -> None:
    rows = random_table()
    assert_same(seen(rows).merge(Standardizer(3)), seen(rows))


def test_standardizer_keeps_digits_when_the_offset_is_1e12() -> None:
    rows = random_table() * 1000.0
    found = seen(*np.array_split(rows + 1e12, 7))
    np.testing.assert_allclose(found.mean - 1e12, rows.mean(axis=0), atol=1e-2)
    np.testing.assert_allclose(found.scale[[0, 2]], rows.std(axis=0, ddof=1)[[0, 2]], rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e-12, 1e12, 1e40, 0.1 * 1e100])
@pytest.mark.parametrize("n_rows", [1, 7, 40])
def test_constant_column_scales_to_zero_exactly(value: float, n_rows: int) -> None:
    rows = np.full((n_rows, 1), value)
    np.testing.assert_array_equal(Scaling.standard(rows).apply(rows), np.zeros((n_rows, 1)))


def test_constant_column_stays_exact_when_it_comes_in_chunks() -> None:
    rows = np.full((41, 1), 0.1 * 1e100)
    found = seen(*np.array_split(rows, 6))
    assert (found.mean[0], found.squares[0]) == (rows[0, 0], 0.0)


def test_column_that_varies_in_late_rows_is_not_constant() -> None:
    rows = np.column_stack([np.ones(500), np.append(np.ones(499), 3.0), np.arange(500.0)])
    found = Scaling.standard(rows)
    np.testing.assert_allclose(found.shift, rows.mean(axis=0))
    np.testing.assert_allclose(found.scale, [1.0, *rows[:, 1:].std(axis=0, ddof=1)])


@pytest.mark.parametrize("magnitude", [1.0, 1e12, 1e40])
def test_column_that_differs_by_rounding_only_scales_to_about_zero(magnitude: float) -> None:
    rows = magnitude * (1.0 + np.arange(10).reshape(-1, 1) % 3 * 2.0**-52)
    assert np.abs(Scaling.standard(rows).apply(rows)).max() < 1e-12


@pytest.mark.parametrize("magnitude", [1e-100, 1e-12, 1.0, 1e12, 1e100])
def test_scaled_table_has_unit_spread_at_any_magnitude(magnitude: float) -> None:
    rows = random_table() * magnitude
    scaled = Scaling.standard(rows).apply(rows)
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0, ddof=1), 1.0)


@given(tables)
@settings(deadline=None, max_examples=60)
def test_invert_undoes_apply(rows: np.ndarray) -> None:
    scaling = Scaling.standard(rows)
    np.testing.assert_allclose(scaling.invert(scaling.apply(rows)), rows, rtol=1e-12, atol=1e-9)


def test_apply_stays_finite_when_a_row_is_absurdly_far() -> None:
    scaling = Scaling(np.zeros(1), np.full(1, 1e-160))
    assert np.isfinite(np.square(scaling.apply(np.array([[1e150], [-1e150]])))).all()


def test_identity_changes_nothing() -> None:
    rows = random_table()
    scaling = Scaling.identity(3)
    np.testing.assert_array_equal(scaling.apply(rows), rows)
    np.testing.assert_array_equal(scaling.invert(rows), rows)


def test_apply_subtracts_in_float64_when_rows_are_float32() -> None:
    rows = np.array([[16_777_216.0], [16_777_218.0]], dtype=np.float32)
    scaling = Scaling(np.array([16_777_217.0]), np.ones(1))
    np.testing.assert_array_equal(scaling.apply(rows), [[-1.0], [1.0]])


def test_apply_leaves_its_argument_alone() -> None:
    rows = random_table()
    before = rows.copy()
    Scaling.standard(rows).apply(rows)
    np.testing.assert_array_equal(rows, before)


COLUMNS = {
    "normal": lambda random: random.standard_normal(2_000),
    "wild": lambda random: np.append(random.standard_normal(1_999), 1e4),
    "just inside": lambda random: np.append(random.uniform(-1.0, 1.0, 1_999), 18.0),
    "just outside": lambda random: np.append(random.uniform(-1.0, 1.0, 1_999), 20.0),
    "constant": lambda random: np.ones(2_000),
    "mostly 0": lambda random: np.where(np.arange(2_000) % 50 == 0, 50.0 + random.standard_normal(2_000), 0.0),
    "long tail": lambda random: np.exp(3.0 * random.standard_normal(2_000)),
    "few values": lambda random: random.integers(0, 3, 2_000).astype(float),
    "missing": lambda random: np.where(np.arange(2_000) % 3 == 0, np.nan, random.standard_normal(2_000)),
    "ordered": lambda random: np.sort(random.standard_normal(2_000)) ** 3,
}


@pytest.mark.parametrize("name", COLUMNS)
def test_tame_columns_are_those_without_values_beyond_the_limits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    column = COLUMNS[name](np.random.default_rng(0))[:, np.newaxis]
    found = wild_bounds(column)
    monkeypatch.setattr(scaling, "_surely_tame", lambda rows: np.zeros(rows.shape[1], dtype=bool))
    expected = wild_bounds(column)
    assert (found is None) == (expected is None) == (name not in ("wild", "just outside"))
    if found is not None and expected is not None:
        assert found.low == expected.low
        assert found.high == expected.high


def test_ordinary_columns_need_no_quantiles() -> None:
    columns = [COLUMNS[name](np.random.default_rng(0)) for name in ("normal", "few values", "wild", "missing")]
    assert scaling._surely_tame(np.stack(columns, axis=1)).tolist() == [True, True, False, False]
