"""The page in a browser: it computes what Python computes, shows names as text, and can be used without a mouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from deepfls import FLSRegressor
from deepfls.inspection import report_page, rule_weights
from deepfls.inspection.plain import PlainSystem
from inspection_cases import HOSTILE, LABELS, SYSTEMS, X, Y, classifier, hostile_regressor, regressor

OpenPage = Callable[..., Any]
WEIGHTS = """([x, k]) => {
    const { left, right, crisp, leftUpper, rightUpper } = deepfls.weights(x, k);
    return { left: [...left], right: [...right], crisp: [...crisp], left_upper: leftUpper, right_upper: rightUpper };
}"""
FOCUSED = "(e => e.id || e.dataset.sort || e.tagName)(document.activeElement)"
OUTPUTS = "xs => xs.map(x => deepfls.infer(x).map(o => [o.left, o.right, o.y]))"


@pytest.mark.parametrize("name", SYSTEMS)
def test_page_agrees_with_python_on_1000_points(open_page: OpenPage, name: str) -> None:
    model = regressor(name)
    rng = np.random.default_rng(0)
    points = rng.normal(X.mean(axis=0), 2 * X.std(axis=0), (1000, 4))
    found = np.array(open_page(model).page.evaluate(OUTPUTS, points.tolist()))
    expected = np.stack(PlainSystem.of(model).output(points), axis=2)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(found[:, :, 2], model.predict(points), rtol=1e-6)


def test_page_agrees_with_a_classifier(open_page: OpenPage) -> None:
    model = classifier("bmm")
    found = np.array(open_page(model, X, LABELS).page.evaluate(OUTPUTS, X.tolist()))[:, :, 2]
    odds = np.exp(found - found.max(axis=1, keepdims=True))
    np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), model.predict_proba(X), rtol=1e-6)


def test_page_agrees_far_from_the_data(open_page: OpenPage) -> None:
    model = regressor("heights")
    points = X.mean(axis=0) + np.linspace(-60, 60, 200)[:, np.newaxis] * X.std(axis=0)
    found = np.array(open_page(model).page.evaluate(OUTPUTS, points.tolist()))
    np.testing.assert_allclose(found, np.stack(PlainSystem.of(model).output(points), axis=2), rtol=1e-6)


def assert_weights_agree(page: Any, model: FLSRegressor, points: np.ndarray, output: int) -> None:
    """Weights and switch points of the page equal those of Python."""
    system = PlainSystem.of(model)
    expected = rule_weights(system, points)
    for row, point in enumerate(points.tolist()):
        found = page.evaluate(WEIGHTS, [point, output])
        for name in ("left", "right", "crisp"):
            np.testing.assert_allclose(found[name], getattr(expected, name)[row, :, output], rtol=1e-6, atol=1e-12)
        if system.kind == "it2":
            for name in ("left_upper", "right_upper"):
                assert found[name] == getattr(expected, name)[row, :, output].tolist()


@pytest.mark.parametrize("name", SYSTEMS)
def test_weights_and_switch_points_agree(open_page: OpenPage, name: str) -> None:
    model = regressor(name)
    assert_weights_agree(open_page(model).page, model, X[:20], output=1)


def test_switch_points_agree_where_consequents_tie_with_an_end(open_page: OpenPage) -> None:
    model = FLSRegressor(kind="it2", order=0, n_rules=6, epochs=2, random_state=0).fit(X, Y[:, 0])
    with torch.no_grad():
        # Both ends lie between the two values, or equal one of them up to rounding where the other rules hardly fire.
        model.system_.intercepts = torch.tensor([[0.1], [0.7], [0.1], [0.7], [0.1], [0.7]], dtype=torch.float64)
    far = X.mean(axis=0) + np.linspace(-60, 60, 40)[:, np.newaxis] * X.std(axis=0)
    assert_weights_agree(open_page(model).page, model, np.concatenate([X[:20], far]), output=0)


@pytest.mark.parametrize(
    ("constant", "value"), [("LOG_FLOOR", -1e-300), ("TOLERANCE", 1e18), ("max_sweeps", lambda n_rules: 0)]
)
def test_page_uses_the_constants_of_its_payload(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, constant: str, value: Any
) -> None:
    monkeypatch.setattr(report_page, constant, value)
    page = open_page(regressor("km", 1)).page
    point = X[0].tolist()
    weights, (left, right, _) = page.evaluate(WEIGHTS, [point, 0]), page.evaluate(OUTPUTS, [point])[0][0]
    if constant == "LOG_FLOOR":  # all firing is equal
        np.testing.assert_allclose(weights["crisp"], np.full(5, 0.2))
    elif constant == "TOLERANCE":  # all consequents count as equal to both ends
        assert all(weights["left_upper"] + weights["right_upper"])
    else:  # both ends stay at the start of the iteration
        assert left == right


def test_hostile_names_are_shown_as_text(open_page: OpenPage) -> None:
    model = hostile_regressor()
    rows = pd.DataFrame(np.zeros((3, len(HOSTILE))), columns=HOSTILE)
    page = open_page(model, rows, title="<img src=x onerror=alert(1)>").page
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.dataset.hit") is None
    assert page.evaluate("document.querySelectorAll('img, i[text], body b:not(li b), main script').length") == 0
    assert page.evaluate("[...document.querySelectorAll('#inputs label')].map(l => l.textContent)") == HOSTILE
    assert page.title() == "<img src=x onerror=alert(1)>"
    assert page.evaluate("document.querySelector('h1').textContent") == "<img src=x onerror=alert(1)>"
    assert page.evaluate("[...document.querySelectorAll('.pick')].map(n => n.textContent)") == ["<i>y</i>", "</script>"]
    # A name of 200 characters does not widen the page.
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_equal_names_are_two_inputs(open_page: OpenPage) -> None:
    model = FLSRegressor(n_rules=2, epochs=2, random_state=0).fit(X, Y[:, 0])
    model.feature_names_in_ = np.array(["same", "same", "", "other"], dtype=object)
    page = open_page(model).page
    page.fill("#x1", "-3.5")
    assert page.evaluate("deepfls.x()")[1] == -3.5
    assert page.evaluate("deepfls.x()")[0] != -3.5


def test_sliders_answer_to_the_keyboard(open_page: OpenPage) -> None:
    model = regressor("km", 1)
    page = open_page(model).page
    before = page.evaluate("deepfls.x()")
    page.focus("#x0s")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    after = page.evaluate("deepfls.x()")
    assert after[0] > before[0]
    assert after[1:] == before[1:]
    shown = page.inner_text("output.value").replace("−", "-")
    expected = model.predict([after])[0]
    assert float(shown) == pytest.approx(expected, rel=1e-2)
    page.keyboard.press("End")
    assert page.evaluate("deepfls.x()")[0] == model.input_range_[1, 0]
    assert page.get_attribute("#x0s", "aria-valuetext") == str(model.input_range_[1, 0])


def test_everything_is_reached_by_tab(open_page: OpenPage) -> None:
    page = open_page(regressor("km"), X, Y).page
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(FOCUSED))
    buttons = {"theme", "reset", "previous", "sample", "next", "x0", "x0s", "x3s", "firing", "says", "adds", "CANVAS"}
    assert buttons <= reached


def test_rules_are_sorted_by_what_is_asked(open_page: OpenPage) -> None:
    model = regressor("km", 1)
    page = open_page(model).page

    def column(place: int) -> list[float]:
        cells = page.evaluate(f"[...document.querySelectorAll('#rules-body tr')].map(r => r.children[{place}].innerText)")
        return [float(text.split("\n")[0].replace("−", "-").replace("%", "").replace("<", "")) for text in cells]

    page.focus('[data-sort="rule"]')
    page.keyboard.press("Enter")
    assert column(0) == [1, 2, 3, 4, 5]
    page.keyboard.press("Enter")
    assert column(0) == [5, 4, 3, 2, 1]
    assert page.get_attribute("th.rule", "aria-sort") == "descending"
    page.click('[data-sort="says"]')
    says = column(7)
    assert says == sorted(says, reverse=True)
    page.click('[data-sort="share"]')
    assert column(0) == (np.argsort(-model.rule_shares_) + 1).tolist()


def test_narrow_sets_are_drawn_up_to_their_peaks(open_page: OpenPage) -> None:
    model = FLSRegressor(n_rules=3, epochs=0, centers_within="free", random_state=0).fit(X, Y[:, 0])
    model.system_.set_sigmas(0.0005, 0.001)
    drawn = "[...document.querySelectorAll('.mini .edge')].map((edge) => edge.getAttribute('d'))"
    paths = open_page(model).page.evaluate(drawn)
    assert len(paths) == 3 * X.shape[1]
    assert all(" 2.00" in path for path in paths)  # the height at which the grade is 1


def test_typed_value_outside_the_data_is_taken_and_noted(open_page: OpenPage) -> None:
    model = regressor("km", 1)
    page = open_page(model).page
    page.fill("#x1", "50")
    assert page.evaluate("deepfls.x()")[1] == 50
    assert page.is_visible("text=outside the training data")
    page.press("#x1", "e")
    assert page.evaluate("deepfls.x()")[1] == 50
    page.click("#reset")
    assert not page.is_visible("text=outside the training data")


def test_rows_of_the_data_can_be_called_up(open_page: OpenPage) -> None:
    model = regressor("km", 1)
    page = open_page(model, X, Y[:, 0]).page
    page.click("#next")
    first = page.evaluate("deepfls.x()")
    row = int(np.flatnonzero((first == X).all(axis=1))[0])
    assert page.is_visible("i.truth")
    words = page.inner_text("#sample-words")
    assert words.startswith(f"row {row + 1} of the data, true: ")
    assert float(words.rsplit(" ", 1)[1]) == pytest.approx(Y[row, 0], rel=1e-4)
    page.click("#previous")
    assert page.evaluate("deepfls.x()") != first


def test_output_is_chosen_by_the_keyboard(open_page: OpenPage) -> None:
    page = open_page(regressor("km")).page
    page.focus(".gauge:nth-child(2) .pick")
    page.keyboard.press("Enter")
    assert page.get_attribute(".gauge:nth-child(2) .pick", "aria-pressed") == "true"
    assert page.inner_text("#curve-panel .output-name") == "y1"


def test_surface_moves_two_inputs(open_page: OpenPage) -> None:
    page = open_page(regressor("km")).page
    before = page.evaluate("deepfls.x()")
    page.focus("#surface canvas")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    after = page.evaluate("deepfls.x()")
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 2


def test_thousand_inputs_are_found_and_shown_in_parts(open_page: OpenPage) -> None:
    x = np.random.default_rng(0).normal(size=(60, 1000))
    page = open_page(FLSRegressor(n_rules=3, epochs=1, random_state=0).fit(x, x[:, 0])).page
    assert page.evaluate("document.querySelectorAll('#inputs .input').length") == 24
    page.click("#more-inputs")
    assert page.evaluate("document.querySelectorAll('#inputs .input').length") == 48
    page.keyboard.press("/")
    page.keyboard.type("x777")
    assert page.evaluate("[...document.querySelectorAll('#inputs label')].map(l => l.textContent)") == ["x777"]
    page.fill("#x777", "0.25")
    assert page.evaluate("deepfls.x()[777]") == 0.25
    page.focus("#filter")
    page.keyboard.press("Escape")
    assert page.evaluate("document.querySelectorAll('#inputs .input').length") == 24
    page.click("#later")
    assert "of 1000" in page.inner_text("#page-words")


@pytest.mark.filterwarnings("ignore:No column of X varies")
@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_constant_column_and_single_rule_are_usable(open_page: OpenPage, kind: str) -> None:
    x = np.full((30, 1), 5.0)
    model = FLSRegressor(kind=kind, n_rules=1, epochs=2, random_state=0).fit(x, np.linspace(0, 1, 30))
    page = open_page(model, x, np.linspace(0, 1, 30)).page
    assert page.is_visible("text=constant in the training data")
    found = page.evaluate(OUTPUTS, [[5.0]])[0][0][2]
    assert found == pytest.approx(model.predict(x[:1])[0], abs=1e-9)


def test_tiny_and_huge_units_are_usable(open_page: OpenPage) -> None:
    x = np.random.default_rng(0).normal([3e-20, 5e15], [1e-20, 1e15], (60, 2))
    model = FLSRegressor(n_rules=2, epochs=2, random_state=0).fit(x, 1e20 * x[:, 0])
    page = open_page(model, x).page
    start = page.evaluate("deepfls.x()")
    assert (model.input_range_[0] <= start).all()
    assert (start <= model.input_range_[1]).all()
    for place in (0, 1):
        page.focus(f"#x{place}s")
        page.keyboard.press("ArrowRight")
    moved = np.array(page.evaluate("deepfls.x()"))
    step = np.ptp(model.input_range_, axis=0) / 1000
    assert (np.abs(moved - start - step) <= 1.01 * step).all()
    assert (moved > start).all()
    np.testing.assert_allclose(page.evaluate(OUTPUTS, [moved.tolist()])[0][0][2], model.predict([moved])[0], rtol=1e-6)


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_page_fits_its_window(open_page: OpenPage, width: int) -> None:
    page = open_page(regressor("km"), X, Y, width=width).page
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_colours_follow_the_system_and_the_choice(open_page: OpenPage) -> None:
    page = open_page(regressor("km")).page
    ground = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(ground)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ground)
    assert dark != light
    page.select_option("#theme", "dark")
    assert page.evaluate(ground) == dark
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(ground) == "rgb(255, 255, 255)"


def test_page_shows_the_mean_of_several_systems_and_the_rules_of_one(open_page: OpenPage) -> None:
    model = FLSRegressor(n_rules=3, n_systems=2, epochs=2, coverage=0.8, random_state=0).fit(X, Y[:, 0])
    page = open_page(model, X, Y[:, 0]).page
    found = np.array(page.evaluate(OUTPUTS, X[:50].tolist()))[:, 0]
    reduced = model._model.reduced(X[:50])
    np.testing.assert_allclose(found, np.column_stack([part[:, 0] for part in reduced]), rtol=1e-9)
    before = page.inner_text("#rules-sum")
    assert "3 rules of system 1 of 2" in before
    page.select_option("#system-choice select", "1")
    assert "3 rules of system 2 of 2" in page.inner_text("#rules-sum")
    assert before.split("systems: ")[1] == page.inner_text("#rules-sum").split("systems: ")[1]
    assert page.inner_text("#switch-system") == "system 2 of 2"


@pytest.mark.parametrize("extrapolation", ["linear", "clip"])
def test_page_shows_familiarity(open_page: OpenPage, extrapolation: str) -> None:
    model = FLSRegressor(n_rules=3, n_systems=2, epochs=2, extrapolation=extrapolation, random_state=0).fit(X, Y[:, 0])
    page = open_page(model).page
    points = np.concatenate([X[:20], 30.0 * X[:20]])
    found = page.evaluate("points => points.map(x => deepfls.familiarity(x))", points.tolist())
    np.testing.assert_allclose(found, model.familiarity(points), rtol=1e-9, atol=1e-12)
    outputs = np.array(page.evaluate(OUTPUTS, points.tolist()))[:, 0, 2]
    np.testing.assert_allclose(outputs, model.predict(points), rtol=1e-9)
    page.evaluate("x => deepfls.move(x)", (X[0] + 1e4).tolist())
    assert "unlike all training rows" in page.inner_text("#familiar")


UNKNOWN = "xs => xs.map(x => deepfls.infer(x.map(v => v ?? NaN)).map(o => [o.left, o.right, o.y]))"


@pytest.mark.parametrize("name", ["t1", "km", "bmm"])
def test_page_agrees_with_python_where_values_are_not_known(open_page: OpenPage, name: str) -> None:
    model, points = regressor(name), X.copy()
    points[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    given = [[None if np.isnan(v) else v for v in row] for row in points.tolist()]
    found = np.array(open_page(model).page.evaluate(UNKNOWN, given))
    np.testing.assert_allclose(found, np.stack(PlainSystem.of(model).output(points), axis=2), rtol=1e-6)


def test_category_is_one_list_and_values_may_be_not_known(open_page: OpenPage) -> None:
    colours = np.resize(["red", "blue", "green"], len(X)).astype(object)
    frame = pd.DataFrame({"colour": colours, "size": X[:, 0]})
    frame.loc[0] = [None, np.nan]
    model = FLSRegressor(n_rules=3, epochs=3, random_state=0).fit(frame, Y[:, 0])
    page = open_page(model, frame, Y[:, 0]).page
    assert page.locator("#inputs .input").count() == 2
    assert page.inner_text("#count") == "2 inputs"
    assert page.locator("#curve-input option:checked").inner_text() == "size"
    output = "deepfls.infer(deepfls.x())[0].y"
    for colour in ("red", "green"):
        page.select_option("#x0", label=colour)
        page.fill("#x3", "1")
        row = pd.DataFrame({"colour": [colour], "size": [1.0]})
        assert page.evaluate(output) == pytest.approx(model.predict(row)[0], rel=1e-6)
    page.fill("#x3", "")
    page.select_option("#x0", label="(not known)")
    assert page.evaluate(output) == pytest.approx(model.predict(frame[:1])[0], rel=1e-6)
    assert page.inner_text(".note:visible") == "not known"
    page.fill("#sample", "1")
    page.keyboard.press("Enter")
    assert page.input_value("#x3") == ""
    assert page.input_value("#x0") == "3"


@pytest.mark.parametrize("name", ["km", "nt"])
def test_pushes_of_the_page_are_those_of_python(open_page: OpenPage, name: str) -> None:
    model = regressor(name, 1)
    page = open_page(model).page
    for row in X[:5]:
        expected = model.explain(row).pushes.y[:, 0]
        np.testing.assert_allclose(page.evaluate("x => deepfls.pushes(x)", row.tolist()), expected, rtol=1e-6, atol=1e-9)


def test_pushes_of_a_class_add_up_to_its_probability(open_page: OpenPage) -> None:
    page = open_page(classifier(), X, LABELS).page
    page.click("#next")
    page.wait_for_selector("#pushes tr")
    words = page.evaluate("document.getElementById('pushes-words').textContent")
    assert words.startswith(f"The probability of {classifier().predict(X[:1])[0]} is ")


def test_a_category_is_one_column_of_the_rules(open_page: OpenPage) -> None:
    table = pd.DataFrame({"size": X[:, 0], "color": np.array(["red", "blue", "green"])[np.arange(len(X)) % 3]})
    page = open_page(FLSRegressor(n_rules=3, epochs=2, random_state=0).fit(table, Y[:, 0]), table, Y[:, 0]).page
    heads = page.evaluate("[...document.querySelectorAll('#rules-head .clip')].map(n => n.textContent)")
    assert sorted(heads) == ["color", "size"]
