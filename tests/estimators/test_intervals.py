"""Intervals of the regressor: coverage for every calibration, groups, and refused settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import root_mean_squared_error

from deepfls import FLSRegressor, metrics
from interval_cases import CALIBRATED, NOISE, RANDOM, TEST, TRAIN, X, Y, classifier, every_calibration, regressor


@every_calibration
def test_calibrated_intervals_cover_and_hold_the_prediction(options: dict[str, Any]) -> None:
    model = regressor(**options).fit(X[TRAIN], Y[TRAIN])
    y = model.predict(X[TEST])
    before: tuple[Any, Any] | None = None
    for coverage in (0.05, 0.5, 0.8, 0.9, 0.95):
        lower, upper = model.predict_interval(X[TEST], coverage=coverage)
        assert lower.shape == upper.shape == y.shape
        assert (lower <= y).all()
        assert (y <= upper).all()
        # 99 calibration and 400 test rows: the standard deviation of the share is at most 0.056.
        assert metrics.picp(Y[TEST], lower, upper) == pytest.approx(coverage, abs=0.15)
        if before is not None:
            assert (lower <= before[0] + 1e-12).all()
            assert (upper >= before[1] - 1e-12).all()
        before = lower, upper


@every_calibration
def test_coverage_is_that_of_the_fit_by_default(options: dict[str, Any]) -> None:
    model = regressor(**options, coverage=0.8).fit(X[TRAIN], Y[TRAIN])
    for end, expected in zip(model.predict_interval(X[TEST]), model.predict_interval(X[TEST], coverage=0.8), strict=True):
        np.testing.assert_array_equal(end, expected)


@pytest.mark.parametrize("options", [CALIBRATED["cqr"], CALIBRATED["split of T1"]], ids=["cqr", "split of T1"])
def test_normalised_widths_follow_the_difficulty(options: dict[str, Any]) -> None:
    model = regressor(**options, epochs=60, n_rules=8).fit(X[TRAIN], Y[TRAIN])
    lower, upper = model.predict_interval(X[TEST])
    hard = np.abs(X[TEST, 0]) > 1.0
    assert (upper - lower)[hard].mean() > 1.3 * (upper - lower)[~hard].mean()


def test_widths_of_plain_split_are_all_the_same() -> None:
    lower, upper = regressor(**CALIBRATED["split, same for all"]).fit(X[TRAIN], Y[TRAIN]).predict_interval(X[TEST])
    np.testing.assert_allclose(upper - lower, (upper - lower)[0], rtol=1e-9)


def test_plain_cqr_shifts_the_learned_ends_by_one_number() -> None:
    model = regressor(normalized_scores=False).fit(X[TRAIN], Y[TRAIN])
    left, right, _ = model._model.reduced(X[TEST])
    lower, upper = model.predict_interval(X[TEST])
    np.testing.assert_allclose(left[:, 0] - lower, (left[:, 0] - lower)[0], rtol=1e-9)
    np.testing.assert_allclose(upper - right[:, 0], left[:, 0] - lower, rtol=1e-9)


def test_ends_are_trained_as_quantiles() -> None:
    plain = regressor(coverage=None, epochs=60).fit(X[TRAIN], Y[TRAIN])
    trained = regressor(calibration=None, epochs=60).fit(X[TRAIN], Y[TRAIN])
    covered = [metrics.picp(Y[TEST][:, None], *model._model.reduced(X[TEST])[:2]) for model in (plain, trained)]
    assert covered[1] == pytest.approx(0.9, abs=0.1)
    assert abs(covered[1] - 0.9) < abs(covered[0] - 0.9)
    # The crisp output is not paid for it.
    errors = [root_mean_squared_error(Y[TEST], model.predict(X[TEST])) for model in (plain, trained)]
    assert errors[1] < 1.1 * errors[0]


def test_weight_of_zero_trains_the_crisp_output_alone() -> None:
    plain = regressor(coverage=None).fit(X[TRAIN], Y[TRAIN])
    weightless = regressor(calibration=None, interval_weight=0.0).fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_allclose(weightless.predict(X[TEST]), plain.predict(X[TEST]), rtol=1e-5)


@pytest.mark.parametrize("type_reduction", ["km", "nt", "bmm", "sm"])
def test_every_type_reduction_stays_within_its_interval(type_reduction: str) -> None:
    model = regressor(type_reduction=type_reduction, epochs=5).fit(X[TRAIN], Y[TRAIN])
    y = model.predict(X[TEST])
    lower, upper = model.predict_interval(X[TEST], coverage=0.1)
    assert (lower <= y).all()
    assert (y <= upper).all()


@pytest.mark.parametrize("loss", ["l1", "l2", "huber", "log-cosh"])
def test_any_point_loss_trains_an_interval(loss: str) -> None:
    model = regressor(loss=loss).fit(X[TRAIN], Y[TRAIN])
    assert metrics.picp(Y[TEST], *model.predict_interval(X[TEST])) == pytest.approx(0.9, abs=0.12)


@pytest.mark.parametrize(
    "loss", [lambda y, t: (y - t).square().mean(dim=1), lambda y, t: (y - t).square().mean()], ids=["by sample", "scalar"]
)
def test_own_loss_may_be_a_scalar_or_one_value_per_sample(loss: Any) -> None:
    targets = np.stack([Y, -X[:, 1]], axis=1)
    own = regressor(loss=loss, epochs=2).fit(X[TRAIN], targets[TRAIN])
    whole = regressor(loss=lambda y, t: (y - t).square(), epochs=2).fit(X[TRAIN], targets[TRAIN])
    np.testing.assert_allclose(own.predict(X[TEST]), whole.predict(X[TEST]), atol=1e-3)


@every_calibration
def test_several_targets_are_covered_each(options: dict[str, Any]) -> None:
    targets = np.stack([Y, 1000.0 * (X[:, 1] + 0.2 * NOISE * np.random.default_rng(1).normal(size=900))], axis=1)
    model = regressor(**options).fit(X[TRAIN], targets[TRAIN])
    lower, upper = model.predict_interval(X[TEST])
    assert lower.shape == (400, 2)
    for output in range(2):
        assert metrics.picp(targets[TEST, output], lower[:, output], upper[:, output]) == pytest.approx(0.9, abs=0.12)


def test_one_rule_has_calibrated_intervals_too() -> None:
    lower, upper = regressor(n_rules=1).fit(X[TRAIN], Y[TRAIN]).predict_interval(X[TEST])
    assert metrics.picp(Y[TEST], lower, upper) == pytest.approx(0.9, abs=0.12)


def test_constant_targets_have_finite_intervals() -> None:
    for options in CALIBRATED.values():
        with pytest.warns(UserWarning, match="The target is 7 in every row"):
            model = regressor(**options, epochs=2).fit(X[TRAIN], np.full(500, 7.0))
        lower, upper = model.predict_interval(X[TEST])
        assert np.isfinite([lower, upper]).all()
        assert (lower <= upper).all()


def test_groups_keep_the_coverage_each() -> None:
    random = np.random.default_rng(2)
    group = random.integers(0, 2, size=900).astype(float)
    y = X[:, 1] + np.where(group == 1, 1.0, 0.05) * random.normal(size=900)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "group": group})
    marginal = regressor(calibration="split", normalized_scores=False).fit(frame[TRAIN], y[TRAIN])
    by_group = clone(marginal).set_params(group_calibration="group").fit(frame[TRAIN], y[TRAIN])
    parts = {
        name: metrics.coverage_by_group(y[TEST], *model.predict_interval(frame[TEST]), group[TEST])
        for name, model in (("marginal", marginal), ("groups", by_group))
    }
    assert parts["marginal"][0].coverage > 0.97
    assert parts["marginal"][1].coverage < 0.87
    for part in parts["groups"]:
        assert part.coverage == pytest.approx(0.9, abs=0.1)
    assert parts["groups"][1].width > 5 * parts["groups"][0].width


def test_several_columns_make_groups_together() -> None:
    table = np.column_stack([X, RANDOM.integers(0, 2, size=900), RANDOM.integers(0, 2, size=900)])
    model = regressor(group_calibration=[2, 3], epochs=2).fit(table, Y)
    assert model.calibration_ is not None
    assert len(np.unique(model.calibration_.groups, axis=0)) == 4
    assert model.predict_interval(table[:5]).lower.shape == (5,)


def test_held_out_rows_are_not_trained_on() -> None:
    wild = Y.copy()
    model = regressor(epochs=3, calibration="split").fit(X[TRAIN], wild[TRAIN])
    assert model.calibration_ is not None
    assert model.calibration_.n_rows == 99
    # The same split of the same rows: targets of the held-out ones change the intervals and nothing else.
    order = np.random.RandomState(0).permutation(500)
    wild[order[:99]] += 100.0
    other = regressor(epochs=3, calibration="split").fit(X[TRAIN], wild[TRAIN])
    np.testing.assert_array_equal(other.predict(X[TEST]), model.predict(X[TEST]))
    assert other.predict_interval(X[TEST]).upper.mean() > 50.0


def test_weights_count_in_the_calibration() -> None:
    # Rows of the noisy half weigh nothing to speak of: intervals are those of the quiet half.
    weight = np.where(np.abs(X[:, 0]) > 1.0, 1e-6, 1.0)
    options = CALIBRATED["split, same for all"]
    weighted = regressor(**options).fit(X[TRAIN], Y[TRAIN], sample_weight=weight[TRAIN]).predict_interval(X[TEST])
    plain = regressor(**options).fit(X[TRAIN], Y[TRAIN]).predict_interval(X[TEST])
    assert metrics.mean_width(*weighted) < metrics.mean_width(*plain)


def test_fit_without_coverage_is_as_it_was() -> None:
    model = regressor(coverage=None, epochs=2).fit(X[TRAIN], Y[TRAIN])
    assert model.calibration_ is None
    # The other settings of intervals change nothing without it.
    same = regressor(coverage=None, epochs=2, calibration="split", calibration_fraction=0.5, group_calibration=1)
    np.testing.assert_array_equal(same.fit(X[TRAIN], Y[TRAIN]).predict(X[TEST]), model.predict(X[TEST]))
    with pytest.raises(
        ValueError,
        match=r"^predict_interval must follow a fit with a coverage, got coverage=None; train again with coverage=0.9.$",
    ):
        model.predict_interval(X[TEST])


def test_learned_set_without_calibration_has_one_coverage() -> None:
    model = regressor(calibration=None, epochs=2).fit(X[TRAIN], Y[TRAIN])
    left, right, _ = model._model.reduced(X[TEST])
    np.testing.assert_array_equal(model.predict_interval(X[TEST], coverage=0.9), [left[:, 0], right[:, 0]])
    with pytest.raises(
        ValueError,
        match=r"^coverage must be 0.9, for which the set was trained, with calibration=None, got 0.8; calibration='cqr'",
    ):
        model.predict_interval(X[TEST], coverage=0.8)


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "coverage 0": ({"coverage": 0.0}, ValueError, "coverage must be greater than 0 and less than 1, got 0.0."),
    "coverage 90": ({"coverage": 90}, ValueError, "coverage must be greater than 0 and less than 1, got 90."),
    "coverage text": ({"coverage": "0.9"}, TypeError, "coverage must be a number, got '0.9'."),
    "name": (
        {"calibration": "cqf"},
        ValueError,
        "calibration must be one of 'auto', 'cqr', 'split', 'alpha', got 'cqf'. Did you mean 'cqr'?",
    ),
    "cqr of T1": (
        {"kind": "t1", "calibration": "cqr"},
        ValueError,
        "calibration must be 'split' for kind='t1', whose output is one value, got 'cqr'; kind='it2' learns intervals.",
    ),
    "none of T1": (
        {"kind": "t1", "calibration": None},
        ValueError,
        "calibration must be 'split' for kind='t1', whose output is one value, got None; kind='it2' learns intervals.",
    ),
    "weight": ({"interval_weight": -1}, ValueError, "interval_weight must be at least 0, got -1."),
    "flag": ({"normalized_scores": "yes"}, TypeError, "normalized_scores must be True or False, got 'yes'."),
    "fraction": (
        {"calibration_fraction": 1.0},
        ValueError,
        "calibration_fraction must be greater than 0 and less than 1, got 1.0.",
    ),
    "fraction text": (
        {"calibration_fraction": "half"},
        ValueError,
        "calibration_fraction must be a number or 'auto', got 'half'.",
    ),
    "too few rows": (
        {"calibration_fraction": 0.01},
        ValueError,
        "The calibration set must have 9 rows or more to promise a coverage of 0.9, got 5; hold more out with "
        "calibration_fraction, train on more rows, or ask for 0.8333 or less.",
    ),
    "column name": (
        {"group_calibration": "x"},
        ValueError,
        "group_calibration must be a column of X, a place, because X has no column names, got 'x'.",
    ),
    "column place": ({"group_calibration": 2}, ValueError, "group_calibration must be a place from 0 to 1, got 2."),
    "column type": (
        {"group_calibration": 1.5},
        TypeError,
        "group_calibration must be the name or the place of a column of X, or a list of them, got 1.5.",
    ),
    "groups too small": (
        {"group_calibration": 0},
        ValueError,
        "The calibration set must have 9 rows or more in the group",
    ),
}


def test_errors_name_groups_by_their_categories() -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame({"x": random.normal(size=90), "colour": ["red", "green", "blue"] * 30, "n": [0, 1, 1] * 30})
    settings = {"n_rules": 2, "epochs": 1, "group_calibration": ["colour", "n"], "random_state": 0}
    with pytest.raises(ValueError, match=r"rows or more in the group \(red, 0\) to promise a coverage of 0.99"):
        FLSRegressor(coverage=0.99, **settings).fit(table, table.x)
    model = FLSRegressor(coverage=0.5, **settings).fit(table, table.x)
    asked = r"^group must be one that was calibrated, \(red, 0\), \(green, 1\), \(blue, 1\), got \(red, 1\);"
    with pytest.raises(ValueError, match=asked):
        model.predict_interval(table.assign(n=1))


@pytest.mark.parametrize("case", list(REFUSED.values()), ids=list(REFUSED))
def test_fit_refuses_settings_of_intervals(case: tuple[dict[str, Any], type[Exception], str]) -> None:
    options, error, message = case
    model = regressor(**options)
    with pytest.raises(error) as caught:
        model.fit(X[TRAIN], Y[TRAIN])
    assert str(caught.value).startswith(message)
    assert not hasattr(model, "system_")


def test_unknown_name_of_a_column_is_refused_with_those_there_are() -> None:
    frame = pd.DataFrame(X, columns=["heat", "flow"])
    with pytest.raises(ValueError, match="must be a column of X, one of 'heat', 'flow', got 'load'"):
        regressor(group_calibration="load").fit(frame, Y)


def test_coverage_beyond_the_calibration_is_refused() -> None:
    model = regressor(epochs=1).fit(X[TRAIN], Y[TRAIN])
    model.predict_interval(X[TEST], coverage=0.99)
    with pytest.raises(
        ValueError, match=r"must have 999 rows or more to promise a coverage of 0.999, got 99; .* ask for 0.99 "
    ):
        model.predict_interval(X[TEST], coverage=0.999)
    for coverage in (0.0, 1.0, 1.5):
        with pytest.raises(ValueError, match="coverage must be greater than 0 and less than 1, got"):
            model.predict_interval(X[TEST], coverage=coverage)


def test_unfitted_estimators_say_so() -> None:
    with pytest.raises(NotFittedError):
        regressor().predict_interval(X)
    with pytest.raises(NotFittedError):
        classifier().predict_set(X)


def test_warm_start_holds_the_same_rows_out() -> None:
    model = regressor(warm_start=True, epochs=2).fit(X[TRAIN], Y[TRAIN])
    model.fit(X[TRAIN], Y[TRAIN])
    assert model.n_epochs_ == 4
    assert model.predict_interval(X[TEST]).lower.shape == (400,)
    model.set_params(random_state=None)
    with pytest.raises(
        ValueError, match=r"^random_state must be an integer with warm_start=True and a calibration, so that"
    ):
        model.fit(X[TRAIN], Y[TRAIN])


def test_patience_watches_the_loss_of_the_set() -> None:
    model = regressor(patience=50, epochs=3).fit(X[TRAIN], Y[TRAIN])
    plain = regressor(patience=50, epochs=3, interval_weight=0.0).fit(X[TRAIN], Y[TRAIN])
    assert model.history_[0]["validation_loss"] > plain.history_[0]["validation_loss"]


def test_fit_with_intervals_leaves_globals_alone() -> None:
    torch.manual_seed(3)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    regressor(epochs=1).fit(X[TRAIN], Y[TRAIN]).predict_interval(X[TEST])
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(("settings", "method"), [({"kind": "t1"}, "split"), ({"kind": "it2"}, "cqr")])
def test_coverage_alone_takes_the_calibration_of_the_kind(settings: dict[str, str], method: str) -> None:
    x = np.linspace(-1, 1, 60)[:, None]
    model = FLSRegressor(**settings, n_rules=2, epochs=2, coverage=0.8, random_state=0).fit(x, x[:, 0])
    assert (model.calibration, model.calibration_.method) == ("auto", method)


@pytest.mark.parametrize("settings", [{"calibration": "alpha"}, {"coverage": 0.9}])
def test_planes_calibrate_their_level_with_one_setting(settings: dict[str, Any]) -> None:
    x = np.linspace(-1, 1, 60)[:, None]
    model = FLSRegressor(kind="gt2", loss="quantiles", n_rules=2, epochs=2, random_state=0, **settings).fit(x, x[:, 0])
    assert (model.calibration_.method, model.calibration_.coverage) == ("alpha", 0.9)
    wide, narrow = (np.subtract(*model.predict_interval(x, coverage=c)[::-1]) for c in (0.9, 0.5))
    assert (wide >= narrow).all()
