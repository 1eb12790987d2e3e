"""Several systems as one model."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepfls import FLSClassifier, FLSRegressor, load

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


@pytest.mark.parametrize("method", ["to_c", "to_onnx", "to_report", "to_fll"])
def test_what_holds_one_system_refuses_several(method: str, tmp_path: Path) -> None:
    model = fitted(kind="t1")
    with pytest.raises(ValueError, match=r"^n_systems must be 1 for this: .* the mean of 3"):
        getattr(model, method)(tmp_path / "model.out")
    assert not list(tmp_path.iterdir())


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


def test_intervals_of_planes_refuse_several_systems() -> None:
    with pytest.raises(ValueError, match=r"^n_systems must be 1 for intervals and quantiles of kind='gt2'"):
        fitted(kind="gt2", coverage=0.8)
