"""Arrays as a source: equal rows are merged, and rows are held out as the plan asks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepfls import FLSRegressor
from deepfls._checks.values import fold_rows
from deepfls.data import arrays
from deepfls.data.arrays import ArraySource, DataPlan, Samples, range_of, weighted_samples

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


@pytest.mark.parametrize("n_rows", [1, 15, 16, 17, 300, 2_100])
@pytest.mark.parametrize("n_columns", [1, 4, 65])
def test_range_is_that_of_every_column(n_rows: int, n_columns: int) -> None:
    x = np.random.default_rng(0).normal(size=(n_rows, n_columns))
    np.testing.assert_array_equal(range_of(x), [x.min(axis=0), x.max(axis=0)])
    np.testing.assert_array_equal(range_of(x[::-1]), range_of(x))
    np.testing.assert_array_equal(fold_rows(np.sum, x > 0.5), (x > 0.5).sum(axis=0))
    np.testing.assert_allclose(fold_rows(np.sum, x), x.sum(axis=0), rtol=1e-12, atol=1e-12)


def test_range_leaves_out_what_is_not_known() -> None:
    x = np.array([[np.nan, 2.0, np.nan], [3.0, -1.0, np.nan], [1.0, 0.0, np.nan]])
    np.testing.assert_array_equal(range_of(x), [[1.0, -1.0, 0.0], [3.0, 2.0, 0.0]])


# Arrays as a source

RANDOM = np.random.default_rng(0)
ROWS = np.column_stack([RANDOM.normal(size=100), np.repeat([0.0, 1.0], [80, 20])])
TARGETS = RANDOM.normal(size=(100, 2))


def keys_of(samples: Samples | None) -> set[float]:
    """The first input of every row, which no two rows share."""
    return set() if samples is None else set(samples.x[:, 0])


def a_quarter(n_rows: int) -> int:
    return n_rows // 4


def test_source_without_a_plan_gives_all_rows_and_their_scaling() -> None:
    data = ArraySource(ROWS, TARGETS).prepared(DataPlan(), np.random.RandomState(0))
    assert data.sample is data.measured
    assert keys_of(data.sample) == set(ROWS[:, 0])
    assert (data.validation, data.calibration, data.stream) == (None, None, None)
    assert (data.n_rows, data.n_outputs) == (100, 2)
    np.testing.assert_allclose(data.x_scaling.shift, ROWS.mean(axis=0))
    np.testing.assert_allclose(data.y_scaling.scale, TARGETS.std(axis=0, ddof=1))
    np.testing.assert_array_equal(data.input_range, [ROWS.min(axis=0), ROWS.max(axis=0)])


def test_rows_that_calibrate_or_watch_are_not_trained_on() -> None:
    plan = DataPlan(calibration_rows=a_quarter, validation_fraction=0.2)
    data = ArraySource(ROWS, TARGETS).prepared(plan, np.random.RandomState(0))
    parts = [keys_of(part) for part in (data.sample, data.validation, data.calibration)]
    assert [len(part) for part in parts] == [60, 15, 25]
    assert set.union(*parts) == set(ROWS[:, 0])
    # Scaling and ranges are those of the training rows.
    assert data.sample is not None
    np.testing.assert_allclose(data.x_scaling.shift, data.sample.x.mean(axis=0))
    np.testing.assert_array_equal(data.input_range[0], data.sample.x.min(axis=0))


def test_every_group_gives_its_share_of_the_calibration_rows() -> None:
    plan = DataPlan(calibration_rows=a_quarter, group_columns=(1,))
    data = ArraySource(ROWS, TARGETS).prepared(plan, np.random.RandomState(0))
    assert data.calibration is not None
    assert np.unique(data.calibration.x[:, 1], return_counts=True)[1].tolist() == [20, 5]


def test_too_few_calibration_rows_are_refused_before_anything_else() -> None:
    def refuse(x: np.ndarray) -> None:
        raise ValueError(f"{len(x)} rows")

    plan = DataPlan(calibration_rows=lambda n_rows: n_rows, check_calibration=refuse)
    with pytest.raises(ValueError, match=r"^100 rows$"):
        ArraySource(ROWS, TARGETS).prepared(plan, np.random.RandomState(0))


def test_fit_to_one_row_with_a_coverage_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^X must have rows to train on beside 1 row for the calibration, got none\.$"):
        FLSRegressor(n_rules=2, coverage=0.3).fit([[1.0], [2.0]], [1.0, 2.0], sample_weight=[1.0, 0.0])


def test_rows_of_weight_zero_neither_train_nor_calibrate() -> None:
    weight = np.repeat([0.0, 2.0], 50)
    plan = DataPlan(calibration_rows=a_quarter)
    data = ArraySource(ROWS, TARGETS, weight).prepared(plan, np.random.RandomState(0))
    assert keys_of(data.sample) | keys_of(data.calibration) == set(ROWS[50:, 0])
    assert data.calibration is not None
    assert data.calibration.weight is not None
    np.testing.assert_array_equal(data.calibration.weight, np.full(12, 2.0))


def test_places_of_classes_are_not_scaled() -> None:
    places = (ROWS[:, :1] > 0).astype(float)
    data = ArraySource(ROWS, places, classes=np.array(["a", "b"])).prepared(
        DataPlan(classes=True), np.random.RandomState(0)
    )
    assert (data.y_scaling.shift, data.y_scaling.scale) == (0.0, 1.0)
    assert data.n_outputs == 2


def test_plan_without_scaling_keeps_the_units() -> None:
    data = ArraySource(ROWS, TARGETS).prepared(DataPlan(scaled=False), np.random.RandomState(0))
    np.testing.assert_array_equal(data.x_scaling.apply(ROWS), ROWS)
    np.testing.assert_array_equal(data.y_scaling.apply(TARGETS), TARGETS)


def test_equal_rows_stay_apart_where_not_to_be_merged() -> None:
    source = ArraySource(np.zeros((5, 1)), np.zeros((5, 1)), merged=False)
    assert source.prepared(DataPlan(), np.random.RandomState(0)).n_rows == 5
