"""Shared terms, their words, conditions left out, and frozen rules and terms, from fit to file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deepfls import FLSRegressor, load
from deepfls.estimators import system_training
from deepfls.estimators.choice import choice_paths
from deepfls.estimators.settings import RegressorSettings, train_config
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.plain_model import outputs_of
from estimator_cases import LABELS, NAMES, X, Y, both, classifier, regressor

TABLE = pd.DataFrame(X, columns=NAMES)


@both
@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_rules_share_at_most_so_many_sets(make: Any, y: np.ndarray, kind: str) -> None:
    model = make(kind=kind, n_terms=3, epochs=20).fit(X, y)
    s = PlainSystem.of(model)
    for m in range(3):
        active = np.isfinite(s.upper_sigmas[:, m])
        assert len(set(zip(s.centers[active, m], s.upper_sigmas[active, m], strict=True))) <= 3
    assert (model.complexity().sets_per_input <= 3).all()
    raw = model.system_.antecedents.raw_centers
    assert raw.shape == (3, 3)
    assert bool((raw.diff(dim=0) > 0).all())
    outputs = outputs_of(s, X)
    expected = model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X).reshape(-1, 1)
    odds = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    found = odds / odds.sum(axis=1, keepdims=True) if hasattr(model, "classes_") else outputs
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_one_number_of_terms_for_each_input() -> None:
    model = regressor(n_terms=[2, 4, 3]).fit(TABLE, Y)
    assert [len(words) for words in PlainSystem.of(model).words] == [2, 4, 3]
    assert (model.complexity().sets_per_input <= [2, 4, 3]).all()
    with pytest.raises(ValueError, match="n_terms must be a number or have one for each of 3 columns"):
        regressor(n_terms=[2, 3]).fit(X, Y)


def test_numbers_of_terms_count_columns_where_a_category_makes_several_inputs() -> None:
    rows = [[value, ("red", "green", "blue")[place % 3]] for place, value in enumerate(X[:90, 0].tolist())]
    model = FLSRegressor(n_rules=3, n_terms=[4, 2], epochs=2, random_state=0).fit(rows, Y[:90])
    assert model._structure_.n_features == 4
    assert model._structure_.terms_per_input == (4, 2, 2, 2)
    assert model.complexity().sets_per_input.max() <= 4


def test_rules_read_in_the_words_given_and_survive_a_file(tmp_path: Path) -> None:
    model = regressor(n_terms=3, words={"heat": ["cold", "mild", "hot"]}).fit(TABLE, Y)
    text = model.rules_as_text()
    assert "Vocabulary\n  heat: " in text
    assert any(f"heat is {word}" in text for word in ("cold", "mild", "hot"))
    assert "about" in text.split("\n\n")[1]
    assert "about" not in text.split("\n\n")[2]
    model.save(tmp_path / "m.fls")
    again = load(tmp_path / "m.fls")
    assert again.rules_as_text() == text
    assert (again.predict(TABLE) == model.predict(TABLE)).all()


def test_words_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="words must have 3 different words for 'heat'"):
        regressor(n_terms=3, words={"heat": ["cold", "hot"]}).fit(TABLE, Y)
    with pytest.raises(ValueError, match="words must be one of 'heat', 'flow', 'load', got 'heet'"):
        regressor(n_terms=3, words={"heet": ["a", "b", "c"]}).fit(TABLE, Y)
    with pytest.raises(TypeError, match=r"^words must be a dictionary of the words of every input, got 'low'\.$"):
        regressor(n_terms=3, words="low").fit(TABLE, Y)
    with pytest.raises(ValueError, match="words must be given with n_terms"):
        regressor(words={"heat": ["a", "b", "c"]}).fit(TABLE, Y)


@both
def test_no_rule_has_more_conditions_than_allowed(make: Any, y: np.ndarray) -> None:
    model = make(max_conditions=1, epochs=20).fit(X, y)
    active = np.isfinite(PlainSystem.of(model).upper_sigmas)
    assert (active.sum(axis=1) == 1).all()
    assert model.rules_as_text().count("AND") <= model.rules_as_text().count("AND ") + 8
    shared = make(n_terms=3, max_conditions=2, epochs=20).fit(X, y)
    assert (np.isfinite(PlainSystem.of(shared).upper_sigmas).sum(axis=1) <= 2).all()


@pytest.mark.parametrize("options", [{}, {"n_terms": 3}, {"weight_decay": 1.0, "gradient_clip": 0.5}, {"optimizer": "sgd"}])
def test_frozen_rules_stay_to_the_bit_while_the_rest_learns(options: dict[str, Any]) -> None:
    model = regressor(warm_start=True, **options).fit(TABLE, Y)
    before = PlainSystem.of(model)
    model.set_params(frozen_rules=[1, 2], epochs=5).fit(TABLE, Y + X[:, 0])
    after = PlainSystem.of(model)
    for name in ("centers", "lower_sigmas", "upper_sigmas", "log_heights", "intercepts", "slopes"):
        assert (getattr(after, name)[[1, 2]] == getattr(before, name)[[1, 2]]).all(), name
    assert (after.intercepts[[0, 3]] != before.intercepts[[0, 3]]).all()


def test_frozen_terms_stay_to_the_bit() -> None:
    model = regressor(n_terms=3, warm_start=True).fit(TABLE, Y)
    first = model.system_.antecedents.raw_centers.clone()
    model.set_params(frozen_terms={"heat": ["low"], "flow": [2]}, epochs=5).fit(TABLE, Y)
    second = model.system_.antecedents.raw_centers.clone()
    assert second[0, 0] == first[0, 0]
    assert second[2, 1] == first[2, 1]
    model.set_params(frozen_terms=["load"]).fit(TABLE, Y)
    assert bool((model.system_.antecedents.raw_centers[:, 2] == second[:, 2]).all())
    model.set_params(frozen_terms=True).fit(TABLE, Y)
    third = model.system_.antecedents.raw_sigmas.clone()
    assert bool((model.fit(TABLE, Y).system_.antecedents.raw_sigmas == third).all())
    with pytest.raises(ValueError, match="frozen_rules must be"):
        regressor(frozen_rules=[9]).fit(X, Y)


def test_simplification_prunes_rules_and_conditions_and_keeps_the_terms() -> None:
    model = regressor(n_terms=3, epochs=20).fit(TABLE, Y)
    simpler, report = model.simplify(TABLE, Y, tolerance=0.5)
    assert report.after.conditions_per_rule.sum() < report.before.conditions_per_rule.sum()
    assert not any(step.action == "merge" for step in report.steps)
    tables = (m.system_.antecedents.raw_centers for m in (model, simpler))
    assert len({str(table.tolist()) for table in tables}) == 1
    outputs = outputs_of(PlainSystem.of(simpler), X)[:, 0]
    np.testing.assert_allclose(outputs, simpler.predict(TABLE), rtol=1e-9)
    few = regressor(max_conditions=2, epochs=20).fit(TABLE, Y).simplify(TABLE, Y, tolerance=0.5).estimator
    np.testing.assert_allclose(outputs_of(PlainSystem.of(few), X)[:, 0], few.predict(TABLE), rtol=1e-9)


@pytest.mark.parametrize(("few", "n_starts"), [(len(X) + 1, 8), (len(X), 4)])
def test_few_rows_have_twice_as_many_starts(monkeypatch: pytest.MonkeyPatch, few: int, n_starts: int) -> None:
    losses: list[float] = []
    measured = system_training.mean_loss

    def noted(*arguments: Any) -> Any:
        losses.append(float(measured(*arguments)))
        return losses[-1]

    monkeypatch.setattr(system_training, "mean_loss", noted)
    monkeypatch.setattr(system_training.recipe, "FOLD_ROWS", few)
    model = regressor(n_terms=3, epochs=2).fit(TABLE, Y)
    assert len(losses) == n_starts
    scaled = (model.predict(TABLE) - Y) / model.y_scaling_.scale
    assert np.square(scaled).mean() == pytest.approx(min(losses), rel=1e-3)


def test_run_without_decay_needs_no_margin_where_rules_share_terms() -> None:
    cases: list[tuple[dict[str, Any], float]] = [({"n_terms": 3}, 1.0), ({"max_conditions": 2}, 1.0), ({}, 0.95)]
    for options, factor in cases:
        settings = RegressorSettings(**options)
        last = choice_paths(settings, train_config(settings, 500), 500)[-1]
        assert (last.decay, last.factor) == (0.0, factor)


def test_general_systems_have_no_terms() -> None:
    with pytest.raises(ValueError, match="n_terms must be None for kind='gt2', got 3"):
        FLSRegressor(kind="gt2", n_terms=3).fit(X, Y)
    with pytest.raises(ValueError, match="max_conditions must be"):
        classifier(max_conditions=0).fit(X, LABELS)
