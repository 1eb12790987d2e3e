"""Equal rows become one, whatever their order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepfls.data import arrays
from deepfls.data.arrays import Samples, weighted_samples

X = np.array([[1.0, 2.0], [0.0, 5.0], [1.0, 2.0], [1.0, 2.0], [0.0, 5.0]])
Y = np.array([[3.0], [4.0], [3.0], [9.0], [4.0]])


def assert_same(first: Samples, second: Samples) -> None:
    np.testing.assert_array_equal(first.x, second.x)
    np.testing.assert_array_equal(first.y, second.y)
    assert (first.weight is None) == (second.weight is None)
    if first.weight is not None and second.weight is not None:
        np.testing.assert_array_equal(first.weight, second.weight)


def test_equal_rows_are_merged_into_one_of_their_joint_weight() -> None:
    found = weighted_samples(X, Y, np.array([1.0, 2.0, 3.0, 5.0, 4.0]))
    np.testing.assert_array_equal(found.x, [[0.0, 5.0], [1.0, 2.0], [1.0, 2.0]])
    np.testing.assert_array_equal(found.y, [[4.0], [3.0], [9.0]])
    assert found.weight is not None
    np.testing.assert_allclose(found.weight, np.array([6.0, 4.0, 5.0]) / 5.0)


def test_rows_of_equal_inputs_and_different_targets_stay_apart() -> None:
    assert weighted_samples(X[:1].repeat(2, axis=0), np.array([[1.0], [2.0]]), None).n_rows == 2


def test_weights_have_mean_one() -> None:
    found = weighted_samples(X, Y, np.array([0.5, 8.0, 1.0, 1.0, 1.0]))
    assert found.weight is not None
    assert found.weight.mean() == pytest.approx(1.0)


def test_weights_are_none_when_all_rows_count_the_same() -> None:
    assert weighted_samples(X[:2], Y[:2], np.array([7.0, 7.0])).weight is None


@given(st.permutations(range(5)))
@settings(deadline=None, max_examples=30)
def test_samples_do_not_depend_on_the_order_of_rows(order: list[int]) -> None:
    assert_same(weighted_samples(X[order], Y[order], None), weighted_samples(X, Y, None))


@given(st.lists(st.integers(0, 4), min_size=5, max_size=5).filter(any))
@settings(deadline=None, max_examples=60)
def test_whole_weights_equal_repeats(counts: list[int]) -> None:
    repeated = weighted_samples(np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0), None)
    assert_same(weighted_samples(X, Y, np.array(counts, dtype=float)), repeated)


def test_rows_of_weight_zero_are_left_out() -> None:
    found = weighted_samples(X, Y, np.array([0.0, 1.0, 0.0, 0.0, 0.0]))
    np.testing.assert_array_equal(found.x, [[0.0, 5.0]])


def test_large_tables_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MERGED_ROWS", 4)
    assert_same(weighted_samples(X, Y, None), Samples(X, Y, None))


def test_rows_stay_as_they_are_when_not_to_be_merged() -> None:
    assert_same(weighted_samples(X, Y, None, merged=False), Samples(X, Y, None))


def test_arguments_are_left_alone() -> None:
    x, y, weight = X.copy(), Y.copy(), np.array([1.0, 2.0, 3.0, 0.0, 4.0])
    weighted_samples(x, y, weight)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(weight, [1.0, 2.0, 3.0, 0.0, 4.0])


def test_take_keeps_rows_and_their_weights_together() -> None:
    taken = Samples(X, Y, np.arange(5.0)).take(np.array([3, 1]))
    np.testing.assert_array_equal(taken.y, [[9.0], [4.0]])
    assert taken.weight is not None
    np.testing.assert_array_equal(taken.weight, [3.0, 1.0])


@pytest.mark.parametrize("n_levels", [3, 40, 10_000])
def test_rows_that_two_columns_tell_apart_have_the_order_of_whole_rows(n_levels: int) -> None:
    random = np.random.RandomState(0)
    x = np.column_stack([random.randint(n_levels, size=300), random.normal(size=300), random.normal(size=300)])
    y = random.normal(size=(300, 1))
    _, first = np.unique(np.concatenate([x, y], axis=1), axis=0, return_index=True)
    found = weighted_samples(x, y, None)
    np.testing.assert_array_equal(found.x, x[first])
    np.testing.assert_array_equal(found.y, y[first])
