"""Contributions of the rules add up to the prediction and its ends, and so do the pushes of the inputs."""

from __future__ import annotations

import itertools
import json
import math
import re

import numpy as np
import pandas as pd
import pytest

from deepfls import FLSClassifier, FLSRegressor
from deepfls.inspection import EXACT_INPUTS, Explanation, input_pushes
from deepfls.inspection.plain import PlainOutput, PlainSystem
from deepfls.inspection.pushes import arrow_table, explained_rows
from inspection_cases import LABELS, NEW, SYSTEMS, X, Y, classifier, regressor


def assert_adds_up(explanation: Explanation) -> None:
    """Sums equal what they explain to 1e-12 of the size of what is added."""
    for name in PlainOutput._fields:
        end = getattr(explanation.output, name)
        added = getattr(explanation.contributions, name)
        scale = np.maximum(np.abs(end), np.abs(added).sum(axis=0))
        assert (np.abs(added.sum(axis=0) - end) <= 1e-12 * scale).all(), name
        base, pushes = getattr(explanation.base, name), getattr(explanation.pushes, name)
        scale = np.maximum(np.abs(end), np.abs(base) + np.abs(pushes).sum(axis=0))
        assert (np.abs(base + pushes.sum(axis=0) - end) <= 1e-12 * scale).all(), name
        np.testing.assert_allclose(getattr(explanation.weights, name).sum(axis=0), 1.0, rtol=1e-12)


@pytest.mark.parametrize("name", SYSTEMS)
def test_explanation_adds_up_to_the_prediction(name: str) -> None:
    model = regressor(name)
    for row in (*X[:5], *NEW[:10]):
        explanation = model.explain(row)
        assert_adds_up(explanation)
        np.testing.assert_allclose(explanation.y, model.predict(row[np.newaxis])[0], rtol=1e-9)


@pytest.mark.parametrize("name", ["t1", "km", "bmm"])
def test_explanation_of_a_classifier_adds_up_to_its_scores(name: str) -> None:
    model = classifier(name)
    for row in NEW[:5]:
        explanation = model.explain(row)
        assert_adds_up(explanation)
        assert explanation.probabilities is not None
        np.testing.assert_allclose(explanation.probabilities, model.predict_proba(row[np.newaxis])[0], rtol=1e-9)
        assert set(explanation.output_names) == set(LABELS)


def test_firing_is_that_of_the_estimator() -> None:
    model = regressor("km")
    explanation = model.explain(X[0])
    firing = model.firing_strengths(X[:1])
    np.testing.assert_allclose(explanation.lower, firing.lower[0], rtol=1e-8)
    np.testing.assert_allclose(explanation.upper, firing.upper[0], rtol=1e-8)


def test_switch_points_divide_the_rules_by_their_consequents() -> None:
    model = regressor("km")
    for row in NEW[:20]:
        e = model.explain(row)
        np.testing.assert_array_equal(e.left_upper, e.consequents <= e.output.y_left)
        np.testing.assert_array_equal(e.right_upper, e.consequents >= e.output.y_right)


def test_explanation_is_shown_with_its_sums() -> None:
    explanation = regressor("km", 1).explain(X[0])
    text = explanation.to_text(top=2)
    assert "3 others" in text
    assert text.count("sum") == 2
    assert text.index("pushes by") < text.index("says") < text.index("Type-reduced set: ")
    content = json.loads(json.dumps(explanation.to_dict()))
    output = content["outputs"][0]
    total = sum(rule["contributions"]["y"] for rule in output["rules"])
    assert total == pytest.approx(output["y"], rel=1e-12)
    assert output["base"]["y"] + sum(i["pushes"]["y"] for i in output["inputs"]) == pytest.approx(output["y"], rel=1e-12)


def test_explanation_of_many_inputs_adds_up() -> None:
    x = np.random.default_rng(0).normal(size=(80, EXACT_INPUTS + 2))
    model = FLSRegressor(n_rules=4, epochs=3, random_state=0).fit(x, x[:, 0] * x[:, 1])
    explanation = model.explain(x[0])
    assert not explanation.exact_pushes
    assert "random orders" in explanation.to_text()
    assert_adds_up(explanation)


def test_heavy_and_light_rules_still_add_up() -> None:
    model = regressor("km")
    far = X.mean(axis=0) + 40 * X.std(axis=0)
    assert_adds_up(model.explain(far))


def test_pushes_are_the_means_over_all_orders() -> None:
    model = regressor("km", 1)
    plain = PlainSystem.of(model)
    row, reference = NEW[0], model.x_scaling_.shift
    expected = np.zeros(4)
    for order in itertools.permutations(range(4)):
        at = reference.copy()
        for m in order:
            before = plain.output(at[np.newaxis]).y[0, 0]
            at[m] = row[m]
            expected[m] += (plain.output(at[np.newaxis]).y[0, 0] - before) / math.factorial(4)
    explanation = model.explain(row)
    np.testing.assert_allclose(explanation.pushes.y[:, 0], expected, rtol=1e-9, atol=1e-9)
    assert explanation.exact_pushes


def test_pushes_of_many_inputs_are_close_to_the_exact_ones() -> None:
    rng = np.random.default_rng(0)
    n_features = EXACT_INPUTS + 2
    x = rng.normal(size=(80, n_features))
    model = FLSRegressor(n_rules=4, epochs=3, random_state=0).fit(x, x[:, 0] * x[:, 1])
    # Twelve inputs of which two are at the reference leave ten, whose pushes are exact: both methods must agree.
    plain, reference = PlainSystem.of(model), x.mean(axis=0)
    near = x[0].copy()
    near[-2:] = reference[-2:]
    exact = input_pushes(plain, near, reference)
    assert exact.exact
    near[-2:] += 1e-9
    sampled = input_pushes(plain, near, reference)
    assert not sampled.exact
    assert np.abs(sampled.pushes.y - exact.pushes.y).max() < 0.05 * np.abs(exact.pushes.y).max()


def test_inputs_at_their_reference_push_nothing() -> None:
    model = regressor("km")
    explanation = model.explain(NEW[0], reference=NEW[0])
    assert (explanation.pushes.y == 0).all()
    np.testing.assert_array_equal(explanation.base.y, explanation.y)


def test_linear_system_is_pushed_by_slope_times_distance() -> None:
    x = np.random.default_rng(0).normal(size=(50, 3))
    model = FLSRegressor(kind="t1", n_rules=1, epochs=2, random_state=0).fit(x, x @ [1.0, -2.0, 3.0])
    plain = PlainSystem.of(model)
    explanation = model.explain(x[0])
    expected = plain.slopes[0, 0] * (x[0] - explanation.reference)
    np.testing.assert_allclose(explanation.pushes.y[:, 0], expected, rtol=1e-9, atol=1e-12)


def test_headline_says_what_is_predicted_first() -> None:
    explanation = regressor("km", 1).explain(X[0])
    first = explanation.to_text().splitlines()[0]
    assert first.startswith(f"y is predicted to be {explanation.y[0]:.4g}. The model has no calibrated interval")
    chances = classifier().predict_proba(X[:1])[0]
    best = classifier().classes_[chances.argmax()]
    first = classifier().explain(X[0]).to_text().splitlines()[0]
    assert first == f"{best}, with a probability of {100 * chances.max():.1f} %."


def test_headline_gives_the_calibrated_interval_or_set() -> None:
    model = FLSRegressor(n_rules=3, epochs=3, coverage=0.8, random_state=0).fit(X, Y[:, 0])
    explanation = model.explain(X[0])
    lower, upper = model.predict_interval(X[:1])
    assert explanation.interval is not None
    assert explanation.interval[:, 0].tolist() == pytest.approx([lower[0], upper[0]])
    assert f"(80 % interval: {lower[0]:.4g} to {upper[0]:.4g})." in explanation.headline()
    classes = FLSClassifier(n_rules=3, epochs=3, coverage=0.8, random_state=0).fit(X, LABELS)
    shown = classes.explain(X[0])
    assert shown.class_set is not None
    assert shown.class_set.tolist() == classes.predict_set(X[:1])[0].tolist()
    assert "the 80 % set" in shown.headline()


def test_tables_align_their_numbers_and_light_rules_are_told_together() -> None:
    explanation = classifier().explain(X[0])
    rules = explanation.to_text().split("\n\n")[2].splitlines()[2:]
    assert all(re.fullmatch(r"-?\d+\.\d+", line.split()[-1]) for line in rules)
    assert len({len(line.split()[-1].partition(".")[2]) for line in rules}) == 1
    assert not any(cell in ("-0.0", "-0.00", "-0.000") for line in rules for cell in line.split())
    best = int(explanation.y.argmax())
    light = int((explanation.weights.y[:, best] < 5e-4).sum())
    assert any(line.startswith(f"{light} other") for line in rules) == bool(light)


def test_explaining_many_rows_gives_a_frame() -> None:
    model = regressor("km", 1)
    frame = model.explain(X[:3])
    assert list(frame.columns) == ["row", "input", "value", "push", "strongest_rule", "familiarity"]
    assert len(frame) == 3 * 4
    one = model.explain(X[1])
    second = frame[frame["row"] == 1]
    np.testing.assert_allclose(second["push"], one.pushes.y[:, 0], rtol=1e-9)
    np.testing.assert_array_equal(second["value"], X[1])
    assert set(second["strongest_rule"]) == {int(one.weights.y[:, 0].argmax()) + 1}
    np.testing.assert_allclose(second["familiarity"], model.familiarity(X[1:2])[0], rtol=1e-9)


def test_explaining_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^x must be one row of shape .* with features=4, got \(\)\.$"):
        regressor("km", 1).explain(2)


def test_frame_of_several_outputs_names_them() -> None:
    frame = regressor("t1").explain(X[:2])
    assert frame["output"].tolist() == (["y0"] * 4 + ["y1"] * 4) * 2
    one = regressor("t1").explain(X[1])
    np.testing.assert_allclose(
        frame[(frame["row"] == 1) & (frame["output"] == "y1")]["push"], one.pushes.y[:, 1], rtol=1e-9
    )


def test_a_category_is_one_input_of_an_explanation() -> None:
    random = np.random.default_rng(0)
    colour = random.choice(["red", "green", "blue"], size=60).astype(object)
    colour[0] = None
    table = pd.DataFrame({"a": random.normal(size=60), "colour": colour, "sex": random.choice(["f", "m"], size=60)})
    y = table["a"] + 2.0 * (table["colour"] == "red")
    estimator = FLSRegressor(n_rules=2, epochs=3, random_state=0).fit(table, y)

    frame = estimator.explain(table)
    assert frame["input"].tolist()[:3] == ["a", "colour", "sex"]
    assert frame["value"].tolist()[:3] == [table["a"][0], "missing", table["sex"][0]]
    base = estimator.explain(table[:1]).base.y[0]
    np.testing.assert_allclose(base + frame.groupby("row")["push"].sum(), estimator.predict(table), rtol=1e-5)

    text = estimator.explain(table[1:2]).to_text()
    assert "colour=" not in text
    assert f"{table['colour'][1]}  mean of all" in text
    assert arrow_table(explained_rows(estimator, table))["value"].to_pylist()[1] == "missing"


def test_an_input_that_is_not_known_is_shown_as_unknown() -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    x[::5, 1] = np.nan
    model = FLSRegressor(kind="t1", n_rules=2, epochs=2, random_state=0).fit(x, x[:, 0])
    shown = str(model.explain([[0.5, np.nan]]))
    assert re.search(r"^x1 +unknown ", shown, flags=re.MULTILINE)
    assert "nan" not in shown
