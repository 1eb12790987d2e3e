"""kind="gt2" as an estimator: quantiles, calibration of levels, and quantiles of the other kinds."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deepfls import FLSClassifier, FLSRegressor, load, metrics
from deepfls.estimators.calibration import conformal_level
from deepfls.estimators.intervals import plane_interval, plane_scores

RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 3, size=(900, 2))
NOISE = (0.05 + 0.15 * np.abs(X[:, 0])) * RNG.normal(size=900)
Y = np.stack([np.sin(2 * X[:, 0]) + NOISE, X[:, 1] ** 2 + RNG.exponential(size=900)], axis=1)
TRAIN, TEST = slice(0, 500), slice(500, None)
LEVELS = np.arange(1, 20) / 20

SETTINGS: dict[str, dict[str, Any]] = {
    "learned": {"kind": "gt2", "loss": "quantiles"},
    "alpha": {"kind": "gt2", "loss": "quantiles", "coverage": 0.9, "calibration": "alpha"},
    "alpha-l2": {"kind": "gt2", "coverage": 0.9, "calibration": "alpha", "shared_spread": True},
    "gt2-cqr": {"kind": "gt2", "coverage": 0.9},
    "it2-cqr": {"kind": "it2", "coverage": 0.9},
    "it2-cqr-plain": {"kind": "it2", "coverage": 0.9, "normalized_scores": False},
    "t1-split": {"kind": "t1", "coverage": 0.9, "calibration": "split"},
}


@cache
def fitted(name: str) -> FLSRegressor:
    return FLSRegressor(**{"n_rules": 5, "epochs": 30, "random_state": 0, **SETTINGS[name]}).fit(X[TRAIN], Y[TRAIN])


@pytest.mark.parametrize("name", SETTINGS)
def test_quantiles_rise_and_cover_their_share(name: str) -> None:
    quantiles = fitted(name).predict_quantiles(X[TEST], LEVELS)
    assert quantiles.shape == (400, 19, 2)
    assert (np.diff(quantiles, axis=1) >= 0).all()
    shares = (Y[TEST][:, None] <= quantiles).mean(axis=0)
    slack = 0.2 if name == "learned" else 0.12  # 400 test rows and about 100 held out: a standard error of 0.06
    assert np.abs(shares - LEVELS[:, None]).max() < slack
    spread = np.quantile(Y[TEST], LEVELS, axis=0)
    for output in range(2):
        score = metrics.crps(Y[TEST][:, output], quantiles[:, :, output], LEVELS)
        flat = np.broadcast_to(spread[:, output], (400, 19))
        assert score < 0.85 * metrics.crps(Y[TEST][:, output], flat, LEVELS)


@pytest.mark.parametrize("name", ["learned", "alpha", "t1-split"])
def test_quantiles_come_in_the_order_asked(name: str) -> None:
    model = fitted(name)
    asked = model.predict_quantiles(X[:5], [0.9, 0.1, 0.9, 0.5])
    np.testing.assert_array_equal(asked, model.predict_quantiles(X[:5], [0.1, 0.5, 0.9])[:, [2, 0, 2, 1]])
    np.testing.assert_array_equal(model.predict_quantiles(X[:5], 0.1), asked[:, [1]])


def test_learned_quantiles_are_the_ends_of_the_planes() -> None:
    model = fitted("learned")
    z = model._model.x_scaling.apply(X[:7])
    planes = model.system_.planes(torch.from_numpy(z), [0.2, 1.0])  # type: ignore[operator]
    found = model.predict_quantiles(X[:7], [0.1, 0.5, 0.9])
    ends = [planes.y_left[:, 0], planes.y_right[:, 1], planes.y_right[:, 0]]
    for place, end in enumerate(ends):
        np.testing.assert_allclose(found[:, place], model.y_scaling_.invert(end.numpy()))


def test_one_target_gives_one_column_per_level() -> None:
    model = FLSRegressor(kind="gt2", loss="quantiles", n_rules=3, epochs=3, random_state=0).fit(X[TRAIN], Y[TRAIN][:, 0])
    assert model.predict_quantiles(X[:5], [0.1, 0.9]).shape == (5, 2)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.98])
def test_alpha_calibration_covers_from_one_fit(coverage: float) -> None:
    model = fitted("alpha")
    lower, upper = model.predict_interval(X[TEST], coverage=coverage)
    y = model.predict(X[TEST])
    assert ((lower <= y) & (y <= upper)).all()
    assert abs(np.mean((lower <= Y[TEST]) & (Y[TEST] <= upper)) - coverage) < 0.08


def test_intervals_hold_exactly_the_targets_of_smaller_scores() -> None:
    """{t: score(t) <= q} is the interval of q: what the promise of the calibration rests on."""
    model = fitted("alpha").interval_model_
    assert model is not None
    part, floor = model._model, np.array([0.1, 0.2])
    scores, sides = plane_scores(part, X[TEST], Y[TEST], floor)
    assert set(np.unique(sides)) == {-1.0, 1.0}
    assert (scores > 1).any()
    assert (scores < 1).any()
    for q in np.quantile(scores, [0.1, 0.5, 0.9, 0.99], axis=0):
        lower, upper = (end[:, 0] for end in plane_interval(part, X[TEST], q[None, None], floor))
        inside = (lower - 1e-9 <= Y[TEST]) & (Y[TEST] <= upper + 1e-9)
        np.testing.assert_array_equal(inside, scores <= q + 1e-9)


def test_conformal_level_is_of_rank_n_plus_1_times_level() -> None:
    errors = RNG.normal(size=(99, 1))
    for level in (0.01, 0.1, 0.5, 0.9, 0.99):
        side, score = conformal_level(np.abs(errors), np.where(errors < 0, -1.0, 1.0), level)[:, 0]
        assert side * score == np.sort(errors[:, 0])[round(100 * level) - 1]


def test_conformal_level_with_equal_weights_is_that_without() -> None:
    scores, sides = RNG.exponential(size=(40, 1)), np.where(RNG.uniform(size=(40, 1)) < 0.4, -1.0, 1.0)
    for level in (0.05, 0.33, 0.5, 0.77):
        weighted = conformal_level(scores, sides, level, np.full(40, 3.0))
        np.testing.assert_array_equal(weighted, conformal_level(scores, sides, level))


@pytest.mark.parametrize("name", ["learned", "alpha", "gt2-cqr", "it2-cqr"])
def test_quantiles_survive_a_model_file(name: str, tmp_path: Path) -> None:
    fitted(name).save(tmp_path / "model.fls")
    again = load(tmp_path / "model.fls")
    assert isinstance(again, FLSRegressor)
    np.testing.assert_array_equal(again.predict_quantiles(X[:9], LEVELS), fitted(name).predict_quantiles(X[:9], LEVELS))
    np.testing.assert_array_equal(again.predict(X[:9]), fitted(name).predict(X[:9]))


def test_groups_have_quantiles_of_their_own() -> None:
    x = np.column_stack([X[:, 0], RNG.integers(0, 2, size=900)])
    y = np.sin(x[:, 0]) + np.where(x[:, 1] == 1, 1.0, 0.1) * RNG.normal(size=900)
    model = FLSRegressor(
        kind="gt2", loss="quantiles", n_rules=4, epochs=20, coverage=0.8, calibration="alpha", group_calibration=1,
        random_state=0,
    ).fit(x[TRAIN], y[TRAIN])  # fmt: skip
    above = y[TEST] <= model.predict_quantiles(x[TEST], [0.9])[:, 0]
    for group in (0, 1):
        assert abs(above[x[TEST][:, 1] == group].mean() - 0.9) < 0.1


def test_classes_are_learned() -> None:
    labels = np.where(X[:, 0] > 0, "right", "left")
    model = FLSClassifier(kind="gt2", n_rules=3, epochs=20, random_state=0).fit(X[TRAIN], labels[TRAIN])
    assert model.score(X[TEST], labels[TEST]) > 0.95


def test_without_calibration_intervals_of_all_coverages_come_from_the_planes() -> None:
    model = FLSRegressor(
        kind="gt2", loss="quantiles", n_rules=4, epochs=10, coverage=0.9, calibration=None, random_state=0
    ).fit(X[TRAIN], Y[TRAIN])
    narrow, wide = (model.predict_interval(X[TEST], coverage=c) for c in (0.5, 0.99))
    assert (wide.lower <= narrow.lower).all()
    assert (wide.upper >= narrow.upper).all()
    assert np.mean(wide.upper - wide.lower) > 2 * np.mean(narrow.upper - narrow.lower)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"kind": "gt2", "n_planes": 1},
            "n_planes must be at least 2 for kind='gt2', got 1; kind='it2' is a system of one plane.",
        ),
        ({"loss": "quantiles"}, "loss='quantiles' must come with kind='gt2', whose planes are quantiles, got kind='it2'."),
        (
            {"calibration": "alpha", "coverage": 0.9},
            "calibration='alpha' must come with kind='gt2', which has planes, got kind='it2'.",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        FLSRegressor(n_rules=2, epochs=1, **settings).fit(X[:50], Y[:50])


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        (0.0, "levels must be greater than 0 and less than 1, got 0."),
        ([0.5, 1.0], "levels must be greater than 0 and less than 1, got 1."),
        ([np.nan], "levels must be greater than 0 and less than 1, got nan."),
        ([], r"levels must be one level or a list of them, got shape \(0,\)."),
        (
            [0.5, 0.001],
            r"levels must be between 0.0\d+ and 0.9\d+ for \d+ calibration rows, got 0.001; hold more out with "
            "calibration_fraction, train on more rows, or ask for other levels.",
        ),
    ],
)
def test_wrong_levels_are_refused(levels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        fitted("alpha").predict_quantiles(X[:5], levels)


def test_levels_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(TypeError, match=r"^levels must be numbers, got 'median'\.$"):
        fitted("alpha").predict_quantiles(X[:5], "median")


def test_a_coverage_that_the_rows_cannot_promise_is_refused() -> None:
    with pytest.raises(ValueError, match="The calibration set must have 999 rows or more"):
        fitted("alpha").predict_interval(X[:5], coverage=0.999)


def test_quantiles_of_a_plain_fit_are_refused() -> None:
    model = FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(X[:50], Y[:50])
    with pytest.raises(ValueError, match="predict_quantiles must follow a fit with a coverage"):
        model.predict_quantiles(X[:5], [0.5])
