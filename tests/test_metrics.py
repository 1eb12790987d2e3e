"""Measures of classes and intervals: values by hand and by brute force, laws, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics
from sklearn.metrics import mean_pinball_loss

from deepfls.metrics import (
    coverage_by_group,
    coverage_by_width,
    crps,
    interval_score,
    log_loss,
    mean_width,
    picp,
    pinaw,
)

RANDOM = np.random.default_rng(0)
Y = RANDOM.normal(size=(200, 2))
LOWER, UPPER = Y - RANDOM.exponential(size=(200, 2)) + 0.3, Y + RANDOM.exponential(size=(200, 2)) + 0.3


PROBABILITIES = np.array([[0.2, 0.5, 0.3], [0.9, 0.05, 0.05], [0.1, 0.1, 0.8]])


@pytest.mark.parametrize("classes", [["x", "y", "z"], [3, 5, 7], [-1.0, 0.0, 1.0]], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda t: t.__name__)
def test_log_loss_equals_scikit_learn(classes: list[object], dtype: type) -> None:
    truth, probabilities = [classes[1], classes[0], classes[0]], PROBABILITIES.astype(dtype)
    expected = sklearn_metrics.log_loss(truth, probabilities, labels=classes)
    assert log_loss(truth, probabilities, classes) == expected


@pytest.mark.parametrize("unknown", ["a", "xy", "zz"])
def test_log_loss_of_an_unknown_class_is_that_of_probability_zero(unknown: str) -> None:
    known = log_loss(["y", "x"], PROBABILITIES[:2], ["x", "y", "z"])
    expected = (2 * known - math.log(np.finfo(np.float64).eps)) / 3
    assert log_loss(["y", "x", unknown], PROBABILITIES, ["x", "y", "z"]) == pytest.approx(expected)


def test_coverage_counts_the_ends() -> None:
    assert picp([1.0, 2.0, 3.0], [1.0, 0.0, 3.1], [2.0, 2.0, 4.0]) == pytest.approx(2 / 3)


def test_width_is_relative_to_the_range_of_each_output() -> None:
    spans = np.ptp(Y, axis=0)
    expected = np.mean((UPPER - LOWER).mean(axis=0) / spans)
    assert pinaw(Y, LOWER, UPPER) == pytest.approx(expected)
    assert pinaw(Y, LOWER, UPPER, target_range=2 * spans) == pytest.approx(expected / 2)
    assert pinaw([1.0, 1.0], [1.0, 1.0], [1.0, 1.0]) == 0.0
    assert pinaw([1.0, 1.0], [1.0, 1.0], [2.0, 1.0]) == math.inf
    assert mean_width(LOWER, UPPER) == pytest.approx((UPPER - LOWER).mean())


@given(coverage=st.floats(0.01, 0.99))
def test_interval_score_is_the_scaled_sum_of_the_pinball_losses(coverage: float) -> None:
    tail = (1 - coverage) / 2
    both = mean_pinball_loss(Y, LOWER, alpha=tail) + mean_pinball_loss(Y, UPPER, alpha=1 - tail)
    assert interval_score(Y, LOWER, UPPER, coverage) == pytest.approx(both / tail, rel=1e-9)


def test_interval_score_is_smallest_at_the_true_quantiles() -> None:
    y = np.random.default_rng(1).normal(size=200_000)
    end = np.full_like(y, 1.6448536)
    best = interval_score(y, -end, end, 0.9)
    for factor in (0.8, 0.9, 1.1, 1.2):
        assert interval_score(y, -factor * end, factor * end, 0.9) > best


def test_crps_of_normal_quantiles_is_that_of_the_normal_law() -> None:
    from statistics import NormalDist

    levels = np.linspace(0.001, 0.999, 999)
    quantiles = np.array([NormalDist().inv_cdf(level) for level in levels])
    for y in (0.0, 0.7, -2.0):
        exact = y * (2 * NormalDist().cdf(y) - 1) + 2 * NormalDist().pdf(y) - 1 / math.sqrt(math.pi)
        assert crps([y], quantiles[None, :], levels) == pytest.approx(exact, abs=2e-3)


@given(value=st.floats(-5, 5), target=st.floats(-5, 5), n_levels=st.integers(1, 9))
def test_crps_of_a_point_is_the_absolute_error(value: float, target: float, n_levels: int) -> None:
    levels = np.arange(1, n_levels + 1) / (n_levels + 1)
    assert crps([target], np.full((1, n_levels), value), levels) == pytest.approx(abs(value - target), abs=1e-12)


def test_coverage_by_group_equals_a_loop() -> None:
    groups = np.array(["b", "a", "c", "a"] * 50)
    y, lower, upper = Y[:, 0], LOWER[:, 0], UPPER[:, 0]
    parts = coverage_by_group(y, lower, upper, groups)
    assert [part.part for part in parts] == ["a", "b", "c"]
    for part in parts:
        rows = groups == part.part
        assert part.coverage == picp(y[rows], lower[rows], upper[rows])
        assert part.width == mean_width(lower[rows], upper[rows])
        assert part.n_rows == rows.sum()


def test_coverage_by_width_goes_from_narrow_to_wide_and_holds_every_row() -> None:
    y, lower, upper = Y[:, 0], LOWER[:, 0], UPPER[:, 0]
    parts = coverage_by_width(y, lower, upper)
    widths = [part.width for part in parts]
    assert [part.part for part in parts] == list(range(1, 11))
    assert widths == sorted(widths)
    assert sum(part.n_rows for part in parts) == len(y)
    assert sum(part.n_rows * part.coverage for part in parts) == pytest.approx(len(y) * picp(y, lower, upper))
    assert len(coverage_by_width(y[:3], lower[:3], upper[:3])) == 3


def test_crossed_ends_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^lower must be at most upper, got 2 and 1 in row 1.$"):
        picp([0.0, 0.0], [0.0, 2.0], [1.0, 1.0])


@pytest.mark.parametrize("coverage", [0.0, 1.0, 90.0])
def test_coverage_that_is_no_share_is_refused(coverage: float) -> None:
    with pytest.raises(ValueError, match="coverage must be greater than 0 and less than 1, got"):
        interval_score([0.0], [0.0], [1.0], coverage)


@pytest.mark.parametrize("levels", [[0.5, 0.5], [0.9, 0.1], [0.0, 0.5], [0.5, 1.0], [], [[0.5]]], ids=str)
def test_levels_that_do_not_rise_within_the_unit_interval_are_refused(levels: list[float]) -> None:
    with pytest.raises(ValueError, match="quantiles must be rising levels greater than 0 and less than 1, got"):
        crps([0.0], [[0.0] * len(levels)], levels)


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"upper must have the shape of y_true, \(2,\), got \(3,\)"):
        picp([0.0, 0.0], [0.0, 0.0], [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="same number of rows, got 2 and 1"):
        coverage_by_group([0.0, 0.0], [0.0, 0.0], [1.0, 1.0], ["a"])


def test_log_loss_of_a_single_class_is_zero() -> None:
    assert log_loss(["a", "a"], [[1.0], [1.0]], ["a"]) == pytest.approx(0.0, abs=1e-12)
