"""Words and numbers of rules."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepfls.inspection.words import LABELS, linear_text, markdown_name, number_text, one_line, position_word, share_text

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(FINITE)
def test_number_reads_back_exactly_with_all_digits(value: float) -> None:
    assert float(number_text(value, None)) == value


@given(st.floats(min_value=1e-30, max_value=1e30), st.integers(1, 17))
def test_number_keeps_its_significant_digits(value: float, digits: int) -> None:
    assert float(number_text(value, digits)) == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits))


@pytest.mark.parametrize(("place", "word"), [*zip((0.0, 0.3, 0.5, 0.7, 1.0), LABELS, strict=True)])
def test_label_follows_the_place_within_the_range(place: float, word: str) -> None:
    assert position_word(-10 + 40 * place, -10.0, 30.0) == word


def test_label_says_where_a_center_lies_outside_the_data() -> None:
    assert position_word(-11.0, -10.0, 30.0) == "below the data"
    assert position_word(31.0, -10.0, 30.0) == "above the data"


def test_constant_input_has_no_label() -> None:
    assert position_word(5.0, 5.0, 5.0) == ""


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
    assert one_line(name).isprintable()


def test_markdown_name_is_shown_as_it_is() -> None:
    assert markdown_name("<b>*x*</b>|[a](b)") == r"&lt;b&gt;\*x\*&lt;/b&gt;\|\[a\]\(b\)"


def test_share_is_never_shown_as_nothing() -> None:
    assert share_text(1e-9) == "<0.1 %"
    assert share_text(0.0) == "0.0 %"
