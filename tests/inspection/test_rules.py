"""Rules as shown are the system: their numbers give its predictions."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.metrics import root_mean_squared_error

from deepfls import FLSRegressor
from deepfls.inspection import rules_of
from deepfls.inspection.rules import content
from inspection_cases import HOSTILE, LABELS, NEW, SYSTEMS, X, Y, classifier, hostile_regressor, regressor


def karnik_mendel(lower: np.ndarray, upper: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Both ends from all switch points, in the order of the consequents."""
    order = np.argsort(y)
    lower, upper, y = lower[order], upper[order], y[order]
    means = []
    for switch in range(len(y) + 1):
        for first, rest in ((upper, lower), (lower, upper)):
            w = np.concatenate([first[:switch], rest[switch:]])
            means.append(w @ y / w.sum())
    return min(means), max(means)


def planes_output(
    alphas: list[float], lower: np.ndarray, upper: np.ndarray, heights: np.ndarray, says: np.ndarray
) -> float:
    """The mean over planes, from the firing of the widest one and the heights that enter its lower firing."""
    total, primary = 0.0, lower / heights
    for alpha in alphas:
        w = np.sqrt(np.log(alpha) / np.log(0.01))
        ends = karnik_mendel(primary * heights**w, primary * (upper / primary) ** w, says)
        total += alpha * sum(ends) / 2
    return total / sum(alphas)


def output_of(kind: str, reduction: str, mix: float, lower: np.ndarray, upper: np.ndarray, says: np.ndarray) -> float:
    """The crisp output, written once more from the sentences at the head of the text."""
    if kind == "t1":
        return upper @ says / upper.sum()
    if reduction == "km":
        return sum(karnik_mendel(lower, upper, says)) / 2
    if reduction == "nt":
        return (lower + upper) @ says / (lower + upper).sum()
    return mix * (lower @ says / lower.sum()) + (1 - mix) * (upper @ says / upper.sum())


def predictions_from_json(text: str, x: np.ndarray) -> np.ndarray:
    content = json.loads(text)
    n_features, n_outputs = len(content["inputs"]), len(content["outputs"])
    power = 1.0 if content["tnorm"] == "product" else 1.0 / n_features
    lower, upper, says, heights = [], [], [], []
    for rule in content["rules"]:
        heights.append(np.prod([s["height"] for s in rule["if"]]) ** power)
        low, up = np.full(len(x), rule["lower_firing_times"] ** (1 / power)), np.ones(len(x))
        for s in rule["if"]:
            column = x[:, s["input"]] - s["center"]
            low = low * s["height"] * np.exp(-(column**2) / (2 * s["lower_sigma"] ** 2))
            up = up * np.exp(-(column**2) / (2 * s["upper_sigma"] ** 2))
        lower.append(low**power)
        upper.append(up**power)
        says.append([x @ np.array(then["slopes"]) + then["intercept"] for then in rule["then"]])
    low, up, values = np.array(lower), np.array(upper), np.array(says)
    mix = content["mix"] or [0.5] * n_outputs
    if content["kind"] == "gt2":
        found = [
            [
                planes_output(content["alphas"], low[:, n], up[:, n], np.array(heights), values[:, k, n])
                for k in range(n_outputs)
            ]
            for n in range(len(x))
        ]
        return np.array(found)
    return np.array(
        [
            [
                output_of(content["kind"], content["type_reduction"], mix[k], low[:, n], up[:, n], values[:, k, n])
                for k in range(n_outputs)
            ]
            for n in range(len(x))
        ]
    )


@pytest.mark.parametrize("name", SYSTEMS)
def test_json_reproduces_the_predictions(name: str) -> None:
    model = regressor(name)
    near = X[:40]
    np.testing.assert_allclose(
        predictions_from_json(model.rules_as_text(format="json"), near), model.predict(near), rtol=1e-9
    )


def test_json_of_a_classifier_reproduces_its_scores() -> None:
    model = classifier()
    scores = predictions_from_json(model.rules_as_text(format="json"), X[:40])
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), model.predict_proba(X[:40]), rtol=1e-9)


NUMBER = r"-?[\d.]+(?:e[+-]\d+)?"
CLAUSE = re.compile(
    rf"^  (?:IF |AND) x(\d+) is .*?about ({NUMBER}) \(±({NUMBER})(?: to ({NUMBER}))?(?:, height ({NUMBER}))?\)$"
)


def predictions_from_text(text: str, x: np.ndarray, kind: str, reduction: str) -> np.ndarray:
    """Outputs of a system with one output, from the sentences alone."""
    mix = float(found[1]) if (found := re.search(rf"Output: ({NUMBER}) times", text)) else 0.5
    lower, upper, says, heights = [], [], [], []
    for block in text.split("\n\n")[1:]:
        low, up, height = np.zeros(len(x)), np.zeros(len(x)), 1.0
        for line in block.splitlines():
            if found := CLAUSE.match(line):
                column = x[:, int(found[1])] - float(found[2])
                narrow, wide = float(found[3]), float(found[4] or found[3])
                low = low + np.log(float(found[5] or 1)) - np.log(2) * (column / narrow) ** 2
                up = up - np.log(2) * (column / wide) ** 2
                height *= float(found[5] or 1)
            elif line.startswith("  THEN"):
                words = line.split(" = ")[1].split(" ")
                value = np.full(len(x), float(words[0]))
                for sign, size, name in zip(words[1::3], words[2::3], words[3::3], strict=True):
                    value = value + float(sign + size) * x[:, int(name[1:])]
                says.append(value)
        lower.append(np.exp(low))
        upper.append(np.exp(up))
        heights.append(height)
    columns = zip(np.array(lower).T, np.array(upper).T, np.array(says).T, strict=True)
    if kind == "gt2":
        levels = re.search(r"over the planes alpha = (.*?), weighted", text)
        assert levels is not None
        alphas = [float(level) for level in levels[1].split(", ")]
        return np.array([planes_output(alphas, low, up, np.array(heights), said) for low, up, said in columns])
    return np.array([output_of(kind, reduction, mix, *column) for column in columns])


@pytest.mark.parametrize("name", SYSTEMS)
def test_text_reproduces_the_predictions_with_all_digits(name: str) -> None:
    model = regressor(name, 1)
    settings = SYSTEMS[name]
    text = model.rules_as_text(digits=None)
    found = predictions_from_text(text, X[:40], settings["kind"], settings.get("type_reduction", "km"))
    np.testing.assert_allclose(found, model.predict(X[:40]), rtol=1e-9)


def test_rules_stand_in_the_order_of_their_firing() -> None:
    model = regressor("km")
    assert list(model.rules().order) == np.argsort(-model.rule_shares_).tolist()
    shares = model.rules(NEW).shares
    assert shares is not None
    firing = model.firing_strengths(NEW)
    weight = firing.lower + firing.upper
    np.testing.assert_allclose(shares, (weight / weight.sum(axis=1, keepdims=True)).mean(axis=0), rtol=1e-9)


def test_top_shows_so_many_rules() -> None:
    text = regressor("km").rules_as_text(top=2)
    assert len(re.findall("^Rule ", text, flags=re.MULTILINE)) == 2


@pytest.mark.parametrize("name", ["t1", "km", "heights"])
def test_drop_leaves_out_sets_that_do_not_matter_and_says_what_it_costs(name: str) -> None:
    x = X.copy()
    free = {"n_rules": 3, "epochs": 3, "random_state": 0, "centers_within": "free"}
    model = FLSRegressor(**{**free, **SYSTEMS[name]}).fit(x, Y[:, 0])
    model.system_.antecedents.raw_sigmas[:, 3] = 6.0  # the logarithm of a width far beyond the data
    rules = model.rules(x, Y[:, 0], drop=True)
    assert rules.dropped[:, 3].all()
    assert rules.effect is not None
    assert rules.effect.before == pytest.approx(root_mean_squared_error(Y[:, 0], model.predict(x)), rel=1e-9)
    assert rules.effect.after == pytest.approx(
        root_mean_squared_error(Y[:, 0], predictions_from_json(rules.render("json"), x)[:, 0]), rel=1e-9
    )
    assert "x3 is" not in rules.render()
    assert f"RMSE {rules.effect.before:.6g} with all" in rules.render("markdown")


def test_drop_without_data_says_that_nothing_was_measured() -> None:
    assert "not measured" in regressor("km").rules_as_text(drop=0.5)


def test_drop_of_a_classifier_measures_accuracy() -> None:
    effect = classifier().rules(X, LABELS, drop=0.5).effect
    assert effect is not None
    assert effect.measure == "accuracy"
    assert effect.before == pytest.approx(classifier().score(X, LABELS))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "html"}, "format must be one of 'text', 'markdown', 'table', 'json', got 'html'."),
        ({"top": 0}, "top must be at least 1, got 0."),
        ({"digits": 0}, "digits must be between 1 and 17, got 0."),
        ({"drop": 1.5}, "drop must be greater than 0 and less than 1, got 1.5."),
        ({"y": [1.0]}, "X must be given with y, got y alone."),
    ],
)
def test_rules_refuse_what_makes_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        regressor("km").rules_as_text(**options)


class Tags(HTMLParser):
    """Tags and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_notebook_shows_hostile_names_as_text() -> None:
    model = hostile_regressor()
    for page in (model.rules()._repr_html_(), model.explain(np.zeros(len(HOSTILE)))._repr_html_()):
        found = Tags(page)
        assert found.tags <= {"div", "p", "b", "br", "table", "thead", "tbody", "tr", "th", "td"}
        assert found.attributes <= {"style"}
        assert "<script>document" in found.text


def test_notebook_shows_the_leading_rules_of_an_estimator() -> None:
    model = regressor("km")
    for page in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert "Interval Type-2 system: 5 rules" in page
    assert "Interval Type-2 system" not in FLSRegressor()._repr_html_()


def test_notebook_page_of_an_estimator_runs_no_name_as_markup() -> None:
    page = hostile_regressor()._repr_mimebundle_()["text/html"]
    assert "<script>document.documentElement" not in page
    assert "<img src=x" not in page
    assert "<i>y</i>" not in page


def test_every_format_copes_with_hostile_names() -> None:
    rules = hostile_regressor().rules()
    assert "<script>" not in rules.render("markdown")
    for text in (rules.render("text"), rules.render("table"), rules.render("markdown")):
        assert all(line.isprintable() for line in text.split("\n"))
    assert [s["name"] for s in json.loads(rules.render("json"))["inputs"]] == HOSTILE


def test_equal_names_are_kept_apart_by_place() -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    model = FLSRegressor(n_rules=2, epochs=2, random_state=0).fit(x, x[:, 0])
    model.feature_names_in_ = np.array(["same", "same"], dtype=object)
    content = json.loads(model.rules_as_text(format="json"))
    assert [s["input"] for s in content["rules"][0]["if"]] == [0, 1]


def test_rich_shows_rules_as_a_table() -> None:
    console = Console(width=100, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(regressor("km").rules())
    assert capture.get().split()[:4] == ["rule", "firing", "IF", "THEN"]


def test_many_inputs_stay_readable_in_tables() -> None:
    x = np.random.default_rng(0).normal(size=(40, 30))
    model = FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(x, x[:, 0])
    assert "22 more conditions" in model.rules_as_text(format="table")
    assert "22 more terms" in model.rules()._repr_html_()
    assert model.rules_as_text().count(" is ") >= 60


def test_rules_of_a_model_without_ranges_have_no_labels() -> None:
    model = FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(X, Y[:, 0])
    del model.input_range_
    del model.rule_shares_
    text = model.rules_as_text()
    assert "x0 is about" in text
    assert "of the firing" not in text
    assert rules_of(model, drop=True).dropped.sum() == 0


def test_names_of_a_frame_stand_in_the_text() -> None:
    frame = pd.DataFrame(X, columns=["power", "heat", "flow", "load"])
    model = FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(frame, pd.Series(Y[:, 0], name="yield"))
    text = model.rules_as_text(frame)
    assert re.search(r"IF  power is \w+", text)
    assert re.search(r"THEN yield = -?[\d.]+ [+-] [\d.]+ power", text)


def test_wide_sets_are_left_out_where_values_are_missing() -> None:
    x = X.copy()
    x[::5] = np.nan
    model = FLSRegressor(kind="t1", n_rules=3, epochs=2, random_state=0).fit(x, Y[:, 0])
    known, partly = model.rules(X[1:5], drop=0.3), model.rules(x[:5], drop=0.3)
    assert known.dropped.any()
    np.testing.assert_array_equal(partly.dropped, known.dropped)


def test_rules_of_several_systems_are_shown_in_every_form() -> None:
    model = FLSRegressor(n_rules=4, n_systems=2, epochs=2, random_state=0).fit(X, Y[:, 0])
    rules = model.rules()
    leading = rules.top(2)
    assert (len(rules), len(leading)) == (8, 4)
    assert leading.render() == rules.render(top=2)
    assert leading._repr_html_().count("<tr style=") == 4
    parts = content(leading)["systems"]
    assert [len(part["rules"]) for part in parts] == [2, 2]
    assert parts == json.loads(leading.render("json"))["systems"]
    console = Console(width=120)
    with console.capture() as capture:
        console.print(leading)
    shown = capture.get()
    assert shown.index("System 1 of 2") < shown.index("System 2 of 2")
    assert shown.count(" x0 is ") == 4
