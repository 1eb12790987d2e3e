"""Several systems as one model."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deepfls import FLSClassifier, FLSRegressor, load, metrics
from deepfls.estimators import choice, system_training
from deepfls.estimators.system_training import n_trained
from deepfls.inspection import FiringMapDisplay, ResponseCurveDisplay
from deepfls.training import recipe

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-2, 2, size=(120, 2))
Y = np.sin(2 * X[:, 0]) * X[:, 1]
NEW = RANDOM.uniform(-2, 2, size=(300, 2))


def fitted(cls: Any = FLSRegressor, **options: Any) -> Any:
    settings = {"n_rules": 3, "n_systems": 3, "epochs": 4, "random_state": 0, **options}
    return cls(**settings).fit(X, Y if cls is FLSRegressor else Y > 0)


def alone(model: Any, number: int) -> Any:
    """The same model with one of its systems."""
    single = copy.deepcopy(model)
    single.system_, single._others_ = model.systems_[number], ()
    return single


@pytest.mark.parametrize("kind", ["t1", "it2", "gt2"])
def test_prediction_is_the_mean_of_the_systems(kind: str) -> None:
    model = fitted(kind=kind)
    parts = [alone(model, number).predict(NEW) for number in range(3)]
    assert len(model.systems_) == 3
    assert model.system_ is model.systems_[0]
    np.testing.assert_allclose(model.predict(NEW), np.mean(parts, axis=0), rtol=1e-12)
    assert np.std(parts, axis=0).max() > 0


def test_probabilities_follow_the_mean_of_the_logits() -> None:
    model = fitted(FLSClassifier)
    logits = np.mean([alone(model, number)._model.outputs(NEW) for number in range(3)], axis=0)
    odds = np.exp(logits)
    np.testing.assert_allclose(model.predict_proba(NEW), odds / odds.sum(axis=1, keepdims=True), rtol=1e-9)


def test_ends_of_the_sets_are_means() -> None:
    model = fitted(coverage=0.8, refit=False)
    parts = [alone(model, number)._model.reduced(NEW) for number in range(3)]
    np.testing.assert_allclose(model._model.reduced(NEW).lower, np.mean([p.lower for p in parts], axis=0), rtol=1e-9)
    lower, upper = model.predict_interval(NEW)
    assert ((lower <= model.predict(NEW)) & (model.predict(NEW) <= upper)).all()


def test_fit_is_repeatable_and_begins_with_the_system_of_a_single_fit() -> None:
    first, second, single = fitted(), fitted(), fitted(n_systems=1)
    np.testing.assert_array_equal(first.predict(NEW), second.predict(NEW))
    np.testing.assert_array_equal(alone(first, 0).predict(NEW), single.predict(NEW))


def test_second_half_learns_what_the_first_half_misses() -> None:
    model = fitted(n_systems=4, epochs=60, kind="t1")
    first = np.mean([alone(model, number).predict(X) for number in (0, 1)], axis=0)
    assert np.std(Y - model.predict(X)) < 0.95 * np.std(Y - first)


def test_file_holds_all_systems(tmp_path: Path) -> None:
    model = fitted(coverage=0.8)
    model.save(tmp_path / "model.fls")
    again = load(tmp_path / "model.fls")
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    np.testing.assert_array_equal(again.predict_interval(NEW), model.predict_interval(NEW))
    np.testing.assert_array_equal(again.familiarity(NEW), model.familiarity(NEW))


def test_explanation_adds_up() -> None:
    model = fitted()
    found = model.explain(NEW[0])
    assert found.contributions.y.shape == (9, 1)
    assert found.contributions.y.sum() == pytest.approx(model.predict(NEW[:1])[0], abs=1e-12)
    assert (found.base.y + found.pushes.y.sum(axis=0))[0] == pytest.approx(model.predict(NEW[:1])[0], abs=1e-9)
    assert found.weights.y.sum() == pytest.approx(1.0)


def test_rules_are_shown_by_system() -> None:
    model = fitted()
    rules = model.rules()
    assert len(rules.systems) == 3
    text = model.rules_as_text()
    assert [text.count(f"System {number} of 3") for number in (1, 2, 3)] == [1, 1, 1]
    assert len(json.loads(model.rules_as_text(format="json"))["systems"]) == 3
    assert sum(part.shares.sum() for part in rules.systems) == pytest.approx(3.0)
    assert model.firing_strengths(NEW).upper.shape == (300, 9)


@pytest.mark.parametrize(("method", "name"), [("to_fll", "model.fll"), ("to_fis", "model.fis")])
def test_files_of_one_system_refuse_several(method: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^n_systems must be 1 for this file, which holds one system, got 3"):
        getattr(fitted(kind="t1"), method)(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_simplify_refuses_several_systems() -> None:
    with pytest.raises(ValueError, match=r"^n_systems must be 1 for simplify, got 3"):
        fitted().simplify(X, Y)


def test_warm_start_continues_every_system() -> None:
    model = fitted(warm_start=True)
    before = model.predict(X)
    model.fit(X, Y)
    assert len(model.systems_) == 3
    assert np.mean((model.predict(X) - Y) ** 2) < np.mean((before - Y) ** 2)
    with pytest.raises(ValueError, match=r"^n_systems must stay 3 with warm_start=True, got 2"):
        model.set_params(n_systems=2).fit(X, Y)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, r"^n_systems must be .* got 0"),
        (10**12, r"^n_systems must be at most [\d,]+, for which this machine has the memory, got 1,000,000,000,000\.$"),
    ],
)
def test_numbers_of_systems_that_are_refused(value: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fitted(n_systems=value)


def test_quantiles_of_planes_are_means_and_calibrated(tmp_path: Path) -> None:
    model = fitted(kind="gt2", loss="quantiles", coverage=0.8, calibration="alpha", refit=False)
    model.save(tmp_path / "model.fls")
    learned = fitted(kind="gt2", loss="quantiles")
    levels = [0.05, 0.5, 0.95]
    parts = [alone(learned, number).predict_quantiles(NEW, levels) for number in range(3)]
    np.testing.assert_allclose(learned.predict_quantiles(NEW, levels), np.mean(parts, axis=0), rtol=1e-9)
    lower, upper = model.predict_interval(NEW)
    assert (lower < upper).all()
    widest = model.predict_interval(NEW, coverage=0.9)
    assert (widest.lower <= lower).all()
    assert (widest.upper >= upper).all()
    np.testing.assert_array_equal(load(tmp_path / "model.fls").predict_interval(NEW), model.predict_interval(NEW))


def test_readability_card_adds_up_the_systems() -> None:
    model = fitted()
    card, parts = model.complexity(X), [alone(model, number).complexity(X) for number in range(3)]
    assert (card.n_systems, card.n_rules, len(card.conditions_per_rule)) == (3, 9, 9)
    np.testing.assert_array_equal(card.sets_per_input, np.sum([part.sets_per_input for part in parts], axis=0))
    assert card.explained == pytest.approx(np.mean([part.explained for part in parts]))
    assert "9 in 3 systems" in str(card)


def test_usage_of_rules_and_inputs_is_that_of_the_mean() -> None:
    model = fitted()
    found = model.explain_data(X, Y)
    assert found.shares.sum() == pytest.approx(1.0)
    assert found.leads.sum() == pytest.approx(1.0)
    assert len(found.largest_weight) == 9
    rows = model.explain(X[:3])
    np.testing.assert_allclose(
        rows.groupby("row")["push"].sum(), model.predict(X[:3]) - model.predict(X.mean(axis=0)[np.newaxis]), atol=1e-9
    )


def test_plots_show_one_system_and_say_which() -> None:
    model = fitted()
    shown = model.plot_memberships(system=2, before=True)
    np.testing.assert_allclose(shown.upper[0], alone(model, 2).plot_memberships().upper[0])
    assert shown.title == "system 3 of 3"
    assert FiringMapDisplay.from_estimator(model, X).ax_.get_title() == "system 1 of 3"
    curve = ResponseCurveDisplay.from_estimator(model, 0)
    held = np.column_stack([curve.x, np.full(len(curve.x), model.input_range_[:, 1].mean())])
    np.testing.assert_allclose(curve.y, model.predict(held), rtol=1e-9)
    with pytest.raises(ValueError, match=r"^system must be"):
        model.plot_memberships(system=3)


def test_card_says_whose_rules_it_shows(tmp_path: Path) -> None:
    text = fitted().to_card(tmp_path / "card.md", X, Y).read_text()
    assert "Mean of 3 Interval Type-2 systems: 9 rules" in text
    assert "System 1 of 3, whose mean is the prediction." in text


@pytest.mark.parametrize("kind", ["t1", "it2", "gt2"])
def test_corrections_find_narrow_parts_of_an_input(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Few rows keep the test short; the steps are too narrow for sets that k-means starts.
    monkeypatch.setattr(recipe, "CORRECTION_ROWS", 100)
    x = np.random.default_rng(1).uniform(size=(700, 2))
    y = np.floor(24 * x[:, 0]) % 2 + x[:, 1]
    model = FLSRegressor(kind=kind, n_rules=12, n_systems=4, random_state=0, learning_rate=0.02, width=0.5).fit(
        x[:400], y[:400]
    )
    assert model.chosen_["corrected"]
    trained = alone(model, 0).predict(x[400:])
    error = np.std(y[400:] - model.predict(x[400:]))
    assert error < 0.8 * np.std(y[400:] - trained)
    assert error < 0.8 * np.std(np.floor(24 * x[:, 0]) % 2)
    parts = [alone(model, number).predict(x) for number in range(4)]
    np.testing.assert_allclose(model.predict(x), np.mean(parts, axis=0), rtol=1e-9, atol=1e-12)


def test_corrections_move_the_quantiles_of_planes_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "CORRECTION_ROWS", 100)
    random = np.random.default_rng(1)
    x = random.uniform(size=(700, 2))
    y = np.floor(24 * x[:, 0]) % 2 + 0.1 * random.normal(size=700)
    settings = {"kind": "gt2", "loss": "quantiles", "n_rules": 12, "n_systems": 4, "learning_rate": 0.02, "width": 0.5}
    model = FLSRegressor(**settings, random_state=0).fit(x[:400], y[:400])
    assert model.chosen_["corrected"]
    assert 0.0 < model.chosen_["plane_share"] < 0.9
    levels = np.arange(1, 20) / 20
    quantiles = model.predict_quantiles(x[400:], levels)
    assert (np.diff(quantiles, axis=1) >= 0.0).all()
    parts = [alone(model, number).predict_quantiles(x[400:], levels) for number in range(4)]
    np.testing.assert_allclose(np.mean(parts, axis=0), quantiles, atol=1e-9)
    assert all(np.ptp(part, axis=1).max() < 1e-5 for part in parts[1:])
    without_inputs = np.tile(np.quantile(y[:400], levels), (300, 1))
    assert metrics.crps(y[400:], quantiles, levels) < 0.7 * metrics.crps(y[400:], without_inputs, levels)


def test_mean_of_corrected_systems_is_their_sum_for_rows_with_missing_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "CORRECTION_ROWS", 100)
    random = np.random.default_rng(1)
    x = random.uniform(size=(400, 2))
    x = np.column_stack([x, x[:, 1] + 0.1 * random.normal(size=400)])
    y = np.floor(24 * x[:, 0]) % 2 + 3.0 * x[:, 1]
    x[random.random(x.shape) < 0.2] = np.nan
    rows = torch.tensor(random.choice([np.nan, -1.0, 0.5, 2.0], size=(50, 3)), dtype=torch.float32)
    before, after = [], []  # outputs of the trained system and of three corrections, before and after they are scaled

    def noted(system: Any, *shares: Any) -> None:
        before.append(system(rows).detach())
        choice.scale_consequents(system, *shares)
        after.append(system(rows).detach())

    monkeypatch.setattr(system_training, "scale_consequents", noted)
    model = FLSRegressor(n_rules=12, n_systems=4, random_state=0, learning_rate=0.02, width=0.5).fit(x, y)
    assert model.chosen_["corrected"]
    assert len(after) == 4
    np.testing.assert_allclose(torch.stack(after).mean(dim=0), torch.stack(before).sum(dim=0), atol=1e-4)


@pytest.mark.parametrize(("n_systems", "expected"), [(2, 1), (4, 1), (8, 2), (16, 4)])
def test_corrections_follow_a_quarter_of_the_systems(n_systems: int, expected: int) -> None:
    assert n_trained(n_systems) == expected


@pytest.mark.parametrize("kind", ["t1", "it2", "gt2"])
def test_many_rows_may_start_at_the_leaves_of_a_tree(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "FOLD_ROWS", 400)  # few rows keep the test short
    random = np.random.default_rng(0)
    x = random.uniform(size=(1_200, 3))
    y = np.where(x[:, 0] < 0.1, 4.0 * x[:, 1], np.where(x[:, 0] < 0.2, -4.0 * x[:, 1], x[:, 2]))
    y = y + 0.1 * random.normal(size=1_200)
    model = FLSRegressor(kind=kind, n_rules=6, random_state=0).fit(x[:800], y[:800])
    assert model.chosen_["tree"]
    other = FLSRegressor(kind=kind, n_rules=6, random_state=0, centers="kmeans-per-input").fit(x[:800], y[:800])
    assert not other.chosen_["tree"]  # what a user has set stays
    assert np.std(y[800:] - model.predict(x[800:])) < np.std(y[800:] - other.predict(x[800:]))


def test_shared_terms_never_start_at_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "FOLD_ROWS", 100)
    x = np.random.default_rng(0).uniform(size=(300, 2))
    model = FLSRegressor(kind="t1", n_rules=4, n_terms=3, random_state=0).fit(x, np.floor(5 * x[:, 0]))
    assert not model.chosen_["tree"]


def test_more_inputs_than_rows_do_not_end_worse_than_the_mean() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(260, 1_500))
    y = x[:, :10] @ random.normal(size=10)
    model = FLSRegressor(kind="t1", n_rules=3, epochs=50, random_state=0).fit(x[:60], y[:60])
    assert model.score(x[60:], y[60:]) > -0.1  # -2.8 with the rate of few inputs
