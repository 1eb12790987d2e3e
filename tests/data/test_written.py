"""Numbers and dates as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepfls.data.written import date_format, is_missing_text, number_of, number_style


@pytest.mark.parametrize(
    ("text", "decimal", "value"),
    [
        (" 1.5 ", ".", 1.5),
        ("1e-3", ".", 1e-3),
        ("−3", ".", -3.0),
        ("1 304,5", ",", 1304.5),
        ("1'304.5", ".", 1304.5),
        ("CHF 12", ".", 12.0),
        ("5-", ".", -5.0),
        (".5", ".", 0.5),
        ("1,30", ".", None),
        ("1.2.3", ".", None),
        ("--5", ".", None),
        ("(5", ".", None),
        ("", ".", None),
        ("1 apple", ".", None),
    ],
)
def test_number_of_a_text(text: str, decimal: str, value: float | None) -> None:
    assert number_of(text, decimal) == value


@given(st.floats(-1e15, 1e15))
def test_numbers_of_python_read_back(value: float) -> None:
    assert number_of(repr(value)) == value
    assert number_of(repr(value).replace(".", ","), ",") == value


@given(st.integers(-(10**12), 10**12))
def test_thousands_read_back(value: int) -> None:
    assert number_of(f"{value:,}") == value
    assert number_of(f"{value:,}".replace(",", "."), ",") == value


def test_words_are_no_numbers() -> None:
    assert number_style(["red", "blue", "1"]) is None
    assert number_style(["?", "n/a"]) is None


def test_years_of_two_digits_are_of_a_century() -> None:
    assert date_format(["12/31/24", "01/02/23"]) == ("%m/%d/%y", True)
    assert date_format(["red"]) is None
    assert date_format(["1.5", "2.5"]) is None


def test_missing_texts_can_be_chosen() -> None:
    assert is_missing_text("NaN", None)
    assert not is_missing_text("NaN", ["x"])
    assert is_missing_text(" ", ["x"])
