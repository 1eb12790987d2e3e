"""What the automatic settings choose from the training rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

from deepfls import FLSClassifier, FLSRegressor, load
from deepfls.estimators.choice import class_lines, regression_lines
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.plain_model import outputs_of

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-2, 2, size=(240, 3))
NOISE = RANDOM.normal(size=240)
WAVE = np.sin(2 * X[:, 0]) * X[:, 1]


def rmse(first: Any, second: Any) -> float:
    return float(np.sqrt(np.mean((first - second) ** 2)))


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_noise_around_a_line_gives_nearly_a_line(kind: str) -> None:
    slopes, errors, shares = np.array([1.0, -0.5, 0.0]), [], []
    new = np.random.default_rng(1).uniform(-2, 2, size=(500, 3))
    for seed in range(4):  # one draw of the noise decides little
        noisy = X @ slopes + 2 * np.random.default_rng(seed + 10).normal(size=240)
        model, line = FLSRegressor(kind=kind, random_state=0).fit(X, noisy), LinearRegression().fit(X, noisy)
        errors.append([rmse(fitted.predict(new), new @ slopes) for fitted in (model, line)])
        shares.append(model.chosen_["line_share"][0])
        assert model.chosen_["loss"] <= model.chosen_["line_loss"]
    ours, of_lines = np.mean(errors, axis=0)
    assert ours < 1.1 * of_lines
    assert np.mean(shares) > 0.5


@pytest.mark.parametrize("seed", range(3))
def test_exact_line_of_rows_with_long_tails_stays_alone(seed: int) -> None:
    random = np.random.default_rng(seed)
    long = random.lognormal(sigma=1.5, size=(200, 4))
    exact = long @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.01 * random.normal(size=200)
    model = FLSRegressor(random_state=0).fit(long, exact)
    assert (model.chosen_["system_share"], model.chosen_["line_share"]) == ([0.0], [1.0])
    assert model.chosen_["loss"] == model.chosen_["line_loss"]


def test_smooth_rows_are_followed_closely() -> None:
    model = FLSRegressor(random_state=0).fit(X[:200], WAVE[:200])
    assert model.chosen_["line_share"] == [0.0]
    assert model.chosen_["system_share"] == [1.0]
    assert rmse(model.predict(X[200:]), WAVE[200:]) < 0.4 * WAVE.std()


def test_rows_without_noise_are_learned_without_decay() -> None:
    smooth = X[:, 0] * X[:, 1] + X[:, 2]
    model, pulled = (FLSRegressor(kind="t1", random_state=0, **o).fit(X, smooth) for o in ({}, {"weight_decay": 0.5}))
    assert model.chosen_["weight_decay"] == 0.0
    assert pulled.chosen_["weight_decay"] == 0.5
    noisy = FLSRegressor(kind="t1", random_state=0).fit(X, smooth + NOISE)
    assert noisy.chosen_["weight_decay"] > 0.0
    # Two of three folds decide where there is little noise.
    assert (model.chosen_["n_held_out"], noisy.chosen_["n_held_out"]) == (160, 240)
    assert 0 < model.chosen_["line_loss"] < np.inf


def test_quantiles_of_rows_without_noise_are_learned_without_decay() -> None:
    smooth = X[:, 0] * X[:, 1] + X[:, 2]
    for noise, without in ((0.0, True), (1.0, False)):
        model = FLSRegressor(kind="gt2", loss="quantiles", n_rules=12, random_state=0).fit(X, smooth + noise * NOISE)
        assert (model.chosen_["weight_decay"] == 0.0) == without


def test_mixture_is_in_the_rules() -> None:
    model = FLSRegressor(n_rules=4, random_state=0).fit(X, X[:, 0] + 3 * NOISE)
    assert 0 < model.chosen_["line_share"][0] <= 1
    np.testing.assert_allclose(outputs_of(PlainSystem.of(model), X)[:, 0], model.predict(X), rtol=1e-9)


def test_constant_consequents_are_mixed_with_a_constant() -> None:
    model = FLSRegressor(order=0, random_state=0).fit(X, 5 + NOISE)
    assert rmse(model.predict(X), np.full(240, 5 + NOISE.mean())) < 0.3


def test_probabilities_of_noisy_classes_are_those_of_a_logistic_regression_or_better() -> None:
    truth = X[:, 0] + 2 * NOISE > 0
    model = FLSClassifier(random_state=0).fit(X[:160], truth[:160])
    line = LogisticRegression().fit(X[:160], truth[:160])
    losses = [-np.log(m.predict_proba(X[160:])[np.arange(80), truth[160:].astype(int)]).mean() for m in (model, line)]
    assert losses[0] < 1.05 * losses[1]


def test_classes_that_are_all_told_apart_keep_some_doubt() -> None:
    apart = np.random.default_rng(0).normal(size=(150, 3))
    apart[:, 0] += 4 * np.sign(apart[:, 0])
    model = FLSClassifier(random_state=0).fit(apart, apart[:, 0] > 0)
    assert model.score(apart, apart[:, 0] > 0) == 1.0
    assert 1e-5 < model.predict_proba([[-5.0, 0.0, 0.0]])[0, 1] < 1e-2


def test_number_of_rules_follows_the_rows() -> None:
    simple = FLSRegressor(n_rules="auto", random_state=0).fit(X, X[:, 0] + NOISE)
    wavy = FLSRegressor(n_rules="auto", random_state=0).fit(X, np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1]))
    assert simple.system_.n_rules == simple.chosen_["n_rules"] == 3
    assert wavy.system_.n_rules > 3


def test_epochs_that_are_given_stay(tmp_path: Any) -> None:
    model = FLSRegressor(n_rules="auto", epochs=7, random_state=0).fit(X, WAVE)
    assert model.n_epochs_ == model.chosen_["epochs"] == 7
    assert model.chosen_["line_share"] == [0.0]
    model.save(tmp_path / "model.fls")
    assert load(tmp_path / "model.fls").chosen_ == model.chosen_
    assert not hasattr(FLSRegressor(epochs=2).fit(X, WAVE), "chosen_")


@pytest.mark.parametrize("options", [{"patience": 3}, {"loss": "pinball"}, {"coverage": 0.8, "calibration": None}], ids=str)
def test_fits_that_mix_no_line(options: dict[str, Any]) -> None:
    model = FLSRegressor(n_rules=3, random_state=0, **options).fit(X, NOISE)
    assert getattr(model, "chosen_", {"line_share": [0.0]})["line_share"] == [0.0]


def test_both_models_of_a_refit_have_one_choice() -> None:
    model = FLSRegressor(n_rules="auto", coverage=0.8, random_state=0).fit(X, WAVE)
    assert model.interval_model_ is not None
    first, second = model.interval_model_.chosen_, model.chosen_
    assert all(first[name] == second[name] for name in ("n_rules", "learning_rate", "system_share", "loss"))


@pytest.mark.parametrize("n_rows", [2, 3, 11])
def test_few_rows_are_not_divided(n_rows: int) -> None:
    model = FLSRegressor(n_rules="auto", random_state=0).fit(X[:n_rows], WAVE[:n_rows])
    assert model.system_.n_rules == min(n_rows, 3)
    assert not hasattr(model, "chosen_")


def test_class_of_one_row_is_no_obstacle() -> None:
    labels = np.array(["a"] * 30 + ["b"] * 9 + ["c"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = FLSClassifier(random_state=0).fit(X[:40], labels)
    assert list(model.classes_) == ["a", "b", "c"]
    assert np.isfinite(model.predict_proba(X)).all()


def test_number_of_rules_must_be_a_number_or_auto() -> None:
    with pytest.raises(ValueError, match=r"^n_rules must be a number or 'auto', got 'aut'. Did you mean 'auto'\?$"):
        FLSRegressor(n_rules="aut").fit(X, WAVE)


def test_missing_values_are_no_obstacle() -> None:
    holes = np.where(RANDOM.uniform(size=X.shape) < 0.1, np.nan, X)
    model = FLSRegressor(n_rules=4, random_state=0).fit(holes, X[:, 0] + NOISE)
    assert np.isfinite(model.predict(holes)).all()


# Lines

LINE_RANDOM = np.random.default_rng(0)
LINE_X = LINE_RANDOM.normal(size=(60, 3))
LINE_Y = LINE_X @ np.array([[1.0, 0.0], [-2.0, 0.5], [0.0, 0.3]]) + 0.5 + 0.1 * LINE_RANDOM.normal(size=(60, 2))
LINE_WEIGHT = LINE_RANDOM.uniform(0.5, 1.5, size=60)


def test_ridge_lines_begin_with_least_squares_and_grow_flatter() -> None:
    lines = regression_lines(LINE_X, LINE_Y, None, constant=False)
    np.testing.assert_allclose(lines[0](LINE_X), LinearRegression().fit(LINE_X, LINE_Y).predict(LINE_X), atol=1e-5)
    norms = [np.square(line.slopes).sum() for line in lines]
    assert norms == sorted(norms, reverse=True)


def test_ridge_line_equals_that_of_scikit_learn_with_weights() -> None:
    line = regression_lines(LINE_X, LINE_Y, LINE_WEIGHT, constant=False)[3]
    other = Ridge(alpha=0.1 * LINE_WEIGHT.sum()).fit(LINE_X, LINE_Y, sample_weight=LINE_WEIGHT)
    np.testing.assert_allclose(line(LINE_X), other.predict(LINE_X), rtol=1e-8)


def test_constant_line_is_the_mean() -> None:
    (line,) = regression_lines(LINE_X, LINE_Y, LINE_WEIGHT, constant=True)
    np.testing.assert_allclose(line(LINE_X[:2]), [np.average(LINE_Y, axis=0, weights=LINE_WEIGHT)] * 2)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_class_line_gives_the_probabilities_of_logistic_regression(n_classes: int) -> None:
    labels = np.argmax(LINE_X[:, :n_classes] + 0.3 * LINE_RANDOM.normal(size=(60, n_classes)), axis=1)
    odds = np.exp(class_lines(LINE_X, labels, None, n_classes, constant=False)[0](LINE_X))
    expected = LogisticRegression().fit(LINE_X, labels).predict_proba(LINE_X)
    np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), expected, atol=1e-3)


def test_class_without_rows_is_the_least_probable() -> None:
    labels = np.where(LINE_X[:, 0] > 0, 2, 0)
    assert (class_lines(LINE_X, labels, None, 3, constant=False)[0](LINE_X).argmin(axis=1) == 1).mean() > 0.9


def test_constant_logits_are_the_shares_of_the_classes() -> None:
    (line,) = class_lines(LINE_X, np.repeat([0, 1], [45, 15]), None, 2, constant=True)
    assert np.exp(line.intercepts) == pytest.approx([45.5 / 61, 15.5 / 61])
