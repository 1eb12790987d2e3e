"""Words and numbers of rules."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepfls import FLSRegressor
from deepfls._checks.arguments import printable
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.words import (
    LABELS,
    SAME,
    clauses,
    consequent_texts,
    how_to_read,
    linear_text,
    listed,
    lower_firing_factor,
    markdown_name,
    number_text,
    position_word,
    says_the_same,
    share_text,
    short_consequent_texts,
    shown_clauses,
    system_line,
)
from inspection_cases import SYSTEMS, classifier, regressor

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(FINITE)
def test_number_reads_back_exactly_with_all_digits(value: float) -> None:
    assert float(number_text(value, None)) == value


@given(st.floats(min_value=1e-30, max_value=1e30), st.integers(1, 17))
def test_number_keeps_its_significant_digits(value: float, digits: int) -> None:
    assert float(number_text(value, digits)) == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits))


def test_numbers_and_names_read_as_stated() -> None:
    assert [number_text(1013.2567, 4), number_text(123456.7, 4)] == ["1013", "123457"]
    assert number_text(0.1 + 0.2, None) == "0.30000000000000004"
    assert [share_text(share) for share in (0.1234, 0.00001, 0.99999, 1.0)] == ["12.3 %", "<0.1 %", ">99.9 %", "100.0 %"]
    assert [listed(["Y1"]), listed(["red", "green", "blue"])] == ["Y1", "red, green and blue"]
    assert markdown_name("a|b <i>") == "a\\|b &lt;i&gt;"
    assert linear_text(471.3, [(-1.9, "AT"), (0.25, "V")], 4) == "471.3 - 1.9 AT + 0.25 V"
    assert [position_word(14.0, width, 0.0, 40.0) for width in (5.0, 100.0)] == ["low", "almost any value"]


@pytest.mark.parametrize(("place", "word"), [*zip((0.0, 0.3, 0.5, 0.7, 1.0), LABELS, strict=True)])
def test_label_follows_the_place_within_the_range(place: float, word: str) -> None:
    assert position_word(-10 + 40 * place, 5.0, -10.0, 30.0) == word


def test_label_says_where_a_center_lies_outside_the_data() -> None:
    assert position_word(-11.0, 5.0, -10.0, 30.0) == "below the data"
    assert position_word(31.0, 5.0, -10.0, 30.0) == "above the data"


def test_a_set_as_wide_as_the_data_says_nothing() -> None:
    # The grade at the far end, a distance of 30, is 2^-(30 / w)².
    assert position_word(0.0, 76.0, -10.0, 30.0) == "low"
    assert position_word(0.0, 77.0, -10.0, 30.0) == "almost any value"


def test_constant_input_has_no_label() -> None:
    assert position_word(5.0, 1.0, 5.0, 5.0) == ""


@given(FINITE, st.lists(FINITE, max_size=4))
def test_linear_text_reads_back_exactly(intercept: float, slopes: list[float]) -> None:
    text = linear_text(intercept, [(slope, f"v{m}") for m, slope in enumerate(slopes)], None)
    words = text.split(" ")
    assert float(words[0]) == intercept
    found = [
        math.copysign(1, -1 if sign == "-" else 1) * float(size)
        for sign, size in zip(words[1::3], words[2::3], strict=True)
    ]
    assert found == slopes


@given(st.text())
def test_name_stays_on_one_line_without_control_characters(name: str) -> None:
    assert printable(name).isprintable()


def test_markdown_name_is_shown_as_it_is() -> None:
    assert markdown_name("<b>*x*</b>|[a](b)") == r"&lt;b&gt;\*x\*&lt;/b&gt;\|\[a\]\(b\)"


def test_share_is_never_shown_as_nothing() -> None:
    assert share_text(1e-9) == "<0.1 %"
    assert share_text(0.0) == "0.0 %"


def without_set(s: PlainSystem, rule: int, feature: int) -> PlainSystem:
    """The system with one set infinitely wide."""
    lower, upper = s.lower_sigmas.copy(), s.upper_sigmas.copy()
    lower[rule, feature] = upper[rule, feature] = np.inf
    return replace(s, lower_sigmas=lower, upper_sigmas=upper)


def test_clauses_skip_sets_left_out() -> None:
    s = without_set(PlainSystem.of(regressor("km")), rule=1, feature=2)
    assert [clause.feature for clause in clauses(s, 0, 4)] == [0, 1, 2, 3]
    assert [clause.feature for clause in clauses(s, 1, 4)] == [0, 1, 3]
    assert [name for name, *_ in shown_clauses(clauses(s, 1, 4))] == ["x0", "x1", "x3"]


@pytest.mark.parametrize("name", ["t1", "km", "heights"])
def test_heights_of_sets_left_out_stay_in_the_lower_firing(name: str) -> None:
    s = PlainSystem.of(regressor(name))
    assert lower_firing_factor(s, 1) == 1.0
    expected = math.exp(s.log_heights[1, 2] * (1.0 if s.tnorm == "product" else 1.0 / 4.0))
    assert lower_firing_factor(without_set(s, rule=1, feature=2), 1) == pytest.approx(expected, rel=1e-12)


def test_short_consequents_keep_the_terms_of_the_largest_effect() -> None:
    s = PlainSystem.of(regressor("km", 1))
    wide = replace(
        s,
        slopes=np.arange(12.0).reshape(1, 1, 12),
        centers=np.zeros((1, 12)),
        input_range=None,
        feature_names=tuple(f"v{m}" for m in range(12)),
    )
    text = short_consequent_texts(wide, 0, 4)[0]
    assert [word for word in text.split(" ") if word.startswith("v")] == [f"v{m}" for m in range(4, 12)]
    assert text.endswith(" + 4 more terms")
    ranges = np.stack([np.zeros(12), np.where(np.arange(12) == 1, 1e6, 1.0)])
    assert " v1 " in short_consequent_texts(replace(wide, input_range=ranges), 0, 4)[0]


def test_constant_consequents_have_no_terms() -> None:
    s = PlainSystem.of(regressor("t1-constant", 1))
    (text,) = consequent_texts(s, 0, None, str)
    assert text == f"{s.output_names[0]} = {float(s.intercepts[0, 0])!r}"


def test_scores_of_classes_are_named() -> None:
    texts = consequent_texts(PlainSystem.of(classifier()), 0, 4, str)
    assert [text.split(" = ")[0] for text in texts] == ["score of cold", "score of mild", "score of warm"]


def test_system_line_counts_rules_inputs_and_outputs() -> None:
    assert system_line(PlainSystem.of(regressor("one-rule", 1))) == "Interval Type-2 system: 1 rule, 4 inputs, 1 output."
    assert system_line(PlainSystem.of(classifier("t1"))) == "Type-1 system: 4 rules, 4 inputs, 3 classes."


@pytest.mark.parametrize("name", SYSTEMS)
def test_reading_notes_name_widths_and_heights(name: str) -> None:
    s = PlainSystem.of(regressor(name))
    grades, firing = how_to_read(s, 4)
    assert ("height h" in grades) == ("h" in s.uncertainty)
    assert ("±w to v" in grades) == ("s" in s.uncertainty)
    assert "1/2 at c ±" in grades
    assert firing.startswith("Firing of a rule: the product of its grades.")


def test_rules_that_say_the_same_are_named() -> None:
    s = PlainSystem.of(regressor("km", 1))
    assert not says_the_same(s)
    assert SAME not in how_to_read(s, 4)
    equal = replace(s, intercepts=s.intercepts[[0] * s.n_rules], slopes=s.slopes[[0] * s.n_rules])
    assert says_the_same(equal)
    assert SAME in how_to_read(equal, 4)


def test_categories_are_named_by_their_grade_or_exactly() -> None:
    table = pd.DataFrame({"color": np.array(["red", "green", "blue"])[np.arange(60) % 3], "size": np.arange(60.0)})
    s = PlainSystem.of(FLSRegressor(kind="it2", n_rules=2, epochs=2, random_state=0).fit(table, np.arange(60.0)))
    shown, exact = (clauses(s, 0, digits)[0] for digits in (4, None))
    assert (shown.name, exact.name) == ("color", "color")
    grades = {name: (float(low), float(high)) for name, low, high in re.findall(r"(\w+) \((\S+) to (\S+)\)", exact.numbers)}
    assert grades.keys() == {"red", "green", "blue"}
    assert all(0.0 < low <= high <= 1.0 for low, high in grades.values())
    best = max(grades, key=lambda name: grades[name][1])
    assert shown.numbers.startswith(f"{best} (1.0)")
