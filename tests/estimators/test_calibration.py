"""Conformal calibration: ranks, weights, groups, the local scale, and how many rows are held out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepfls.estimators.calibration import (
    Calibration,
    adaptive_scores,
    conformal_quantile,
    fit_log_scale,
    held_out_rows,
    interval_scores,
    local_scale,
    quantile_scores,
)

COVERAGES = st.sampled_from([0.1, 0.5, 0.77, 0.8, 0.9, 0.95, 0.99])


@given(coverage=COVERAGES, extra=st.integers(0, 60), seed=st.integers(0, 10_000))
def test_conformal_quantile_covers_exactly_the_stated_ranks(coverage: float, extra: int, seed: int) -> None:
    n_rows = math.ceil(round(coverage / (1.0 - coverage), 9)) + extra
    scores = np.random.default_rng(seed).permutation(n_rows + 1).astype(float)
    # Each of n + 1 exchangeable rows is as likely to be the new one, so leaving each out in turn is the whole law.
    covered = sum(
        scores[new] <= conformal_quantile(np.delete(scores, new)[:, None], coverage)[0] for new in range(n_rows + 1)
    )
    assert covered == math.ceil(round((n_rows + 1) * coverage, 9))
    assert coverage <= covered / (n_rows + 1) + 1e-12 < coverage + 1.0 / (n_rows + 1) + 1e-9


@pytest.mark.parametrize(
    ("coverage", "needed", "largest"), [(0.9, 9, "0.8888"), (0.95, 19, "0.9473"), (0.99, 99, "0.9898"), (0.5, 1, "0")]
)
def test_conformal_quantile_refuses_too_few_rows(coverage: float, needed: int, largest: str) -> None:
    scores = np.arange(float(needed))[:, None]
    assert conformal_quantile(scores, coverage)[0] == needed - 1
    with pytest.raises(
        ValueError,
        match=rf"^The calibration set must have {needed} rows or more to promise a coverage of {coverage:g}, got "
        rf"{needed - 1}; hold more out with calibration_fraction, train on more rows, or ask for {largest} or less.$",
    ):
        conformal_quantile(scores[:-1], coverage)


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.1, 2.0, math.nan])
def test_conformal_quantile_refuses_a_coverage_that_is_no_share(coverage: float) -> None:
    with pytest.raises(ValueError, match="coverage must be greater than 0 and less than 1, got"):
        conformal_quantile(np.zeros((50, 1)), coverage)


@given(seed=st.integers(0, 10_000), coverage=COVERAGES)
def test_equal_weights_change_nothing(seed: int, coverage: float) -> None:
    scores = np.random.default_rng(seed).normal(size=(150, 2))
    expected = conformal_quantile(scores, coverage)
    np.testing.assert_array_equal(conformal_quantile(scores, coverage, np.full(150, 3.0)), expected)


def test_weights_move_the_quantile_as_their_sums_do() -> None:
    scores = np.arange(1.0, 10.0)[:, None]
    weight = np.array([1.0] * 8 + [10.0])
    # Mean weight 2: with the new row the sum is 20, and 0.5 of it is first reached by the heavy last row (8 < 10 <= 18).
    assert conformal_quantile(scores, 0.5, weight)[0] == 9.0
    assert conformal_quantile(scores, 0.4, weight)[0] == 8.0


def test_interval_scores_are_one_at_the_ends_and_zero_at_the_output() -> None:
    y, below, above = np.array([[1.0]]), np.array([[2.0]]), np.array([[4.0]])
    for target, score in ((1.0, 0.0), (-1.0, 1.0), (5.0, 1.0), (-5.0, 3.0), (9.0, 2.0)):
        assert interval_scores(np.array([[target]]), y, below, above)[0, 0] == score


def test_quantile_scores_are_the_distance_outside() -> None:
    target = np.array([[0.0], [1.5], [4.0]])
    np.testing.assert_array_equal(
        quantile_scores(target, np.full((3, 1), 1.0), np.full((3, 1), 2.0))[:, 0], [1.0, -0.5, 2.0]
    )


@given(seed=st.integers(0, 10_000), n_classes=st.integers(1, 6))
def test_adaptive_scores_equal_brute_force(seed: int, n_classes: int) -> None:
    probabilities = np.random.default_rng(seed).dirichlet(np.ones(n_classes), size=5)
    expected = [[row[row >= row[c]].sum() for c in range(n_classes)] for row in probabilities]
    np.testing.assert_allclose(adaptive_scores(probabilities), expected, rtol=1e-12)


@given(n_rows=st.integers(20, 200_000), coverage=st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99]))
def test_automatic_number_of_rows_loses_nothing_to_rounding(n_rows: int, coverage: float) -> None:
    n_held = held_out_rows(n_rows, coverage, "auto")
    assert 1 <= n_held <= n_rows // 2
    if n_held < n_rows // 2:
        ranks = (n_held + 1) * coverage
        assert abs(ranks - round(ranks)) < 1e-6
        assert ranks <= n_held + 1e-6


@pytest.mark.parametrize(("fraction", "rows"), [(0.25, 25), (0.001, 1), (0.999, 99)])
def test_given_fraction_is_kept(fraction: float, rows: int) -> None:
    assert held_out_rows(100, 0.9, fraction) == rows


def test_local_scale_finds_where_residuals_are_large() -> None:
    random = np.random.default_rng(0)
    design = random.uniform(0, 1, size=(4_000, 1))
    residuals = np.exp(1.5 * design) * random.laplace(size=(4_000, 1))
    coefficients = fit_log_scale(design, residuals, penalty=1e-4)
    low, high = local_scale(np.array([[0.0], [1.0]]), coefficients)[:, 0]
    # A third of the scale is common to all rows; the learned part rises by e^1.5 = 4.5.
    assert (1.5 * high - 0.5) / (1.5 * low - 0.5) == pytest.approx(math.exp(1.5), rel=0.15)


@pytest.mark.parametrize("n_rows", [3, 50], ids=["fewer rows than terms", "residuals all zero"])
def test_local_scale_is_the_same_everywhere_where_nothing_can_be_learned(n_rows: int) -> None:
    random = np.random.default_rng(0)
    residuals = random.normal(size=(n_rows, 1)) if n_rows == 3 else np.zeros((n_rows, 1))
    coefficients = fit_log_scale(random.normal(size=(n_rows, 6)), residuals, penalty=0.01)
    np.testing.assert_array_equal(local_scale(random.normal(size=(9, 6)), coefficients), np.ones((9, 1)))


def test_local_scale_is_bounded_far_from_the_data() -> None:
    coefficients = np.array([[1.0], [0.0]])
    scale = local_scale(np.array([[-1e3], [1e3]]), coefficients)
    np.testing.assert_allclose(scale[:, 0], [0.5, 3.0])


def grouped(**more: object) -> Calibration:
    groups = np.repeat([[0.0], [1.0]], 19, axis=0)
    scores = np.concatenate([np.arange(1.0, 20.0), np.arange(101.0, 120.0)])[:, None]
    options: dict[str, object] = {"groups": groups, "scores": scores, "group_columns": (1,), **more}
    return Calibration(method="split", coverage=0.9, normalized=False, **options)  # type: ignore[arg-type]


def test_groups_have_their_own_quantiles() -> None:
    x = np.array([[7.0, 1.0], [8.0, 0.0], [9.0, 1.0]])
    np.testing.assert_array_equal(grouped().quantile(0.9, x)[:, 0], [118.0, 18.0, 118.0])


def test_unseen_group_is_refused_by_name() -> None:
    with pytest.raises(
        ValueError,
        match=r"^group must be one that was calibrated, 0, 1, got 2.5 \(and 1 more\); fit with rows of that group, or with "
        r"group_calibration=None.$",
    ):
        grouped().quantile(0.9, np.array([[0.0, 2.5], [0.0, 3.0], [0.0, 0.0]]))


def test_too_small_a_group_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"must have 99 rows or more in the group 1 to promise a coverage of 0.99, got 19"):
        grouped().quantile(0.99, np.array([[0.0, 1.0]]))


def test_largest_coverage_is_that_of_the_smallest_group() -> None:
    assert grouped().largest_coverage == 0.95
    assert Calibration("split", 0.9, False, scores=np.zeros((99, 1))).largest_coverage == 0.99


def test_calibration_comes_back_from_its_parts() -> None:
    before = grouped(weight=np.linspace(1, 2, 38))
    after = Calibration.restored(before.description(), before.arrays())
    assert after.description() == before.description()
    assert all((value == after.arrays()[name]).all() for name, value in before.arrays().items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": np.ones(3)}, "calibration.weight has the shape"),
        ({"floor": np.ones(2)}, "calibration.floor has the shape"),
        ({"group_columns": ()}, "calibration.groups has the shape"),
        ({"groups": None}, "columns without groups"),
    ],
    ids=str,
)
def test_parts_that_do_not_fit_are_refused(change: dict[str, object], message: str) -> None:
    wrong = grouped(**change)
    with pytest.raises(ValueError, match=message):
        Calibration.restored(wrong.description(), wrong.arrays())
