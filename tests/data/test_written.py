"""Numbers and dates as people write them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepfls.data.written import date_format, is_missing_text, number_of, number_style, seconds_of


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
        ("12’304.5", ".", 12304.5),
        ("12,34,567.5", ".", 1234567.5),
        ("R$ 1.304,50", ",", 1304.5),
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


def test_numbers_may_have_one_unit() -> None:
    style = number_style(["1,5 kg", "2 kg", "0,75kg"])
    assert style is not None
    assert (style.unit, [style.number(text) for text in ("0,75kg", "2 g")]) == ("kg", [0.75, None])
    assert number_style(["1 kg", "2 g", "3 kg", "4 g"]) is None
    assert number_style(["1 Jan 2020", "2 Jan 2020"]) is None


def test_numbers_are_recognised_among_many_texts() -> None:
    numbers = [f"{k},5" for k in range(3_000)]
    style = number_style([*numbers, "soon"])
    assert style is not None
    assert style.wrong == ("soon",)
    assert number_style([*numbers[:500], *(f"word {k}" for k in range(2_500))], share=0.5) is None


def test_digits_with_leading_zeros_are_codes() -> None:
    assert number_style(["01067", "80331"]) is None
    assert number_style(["01", "12"]) is not None
    assert number_style(["000", "000"]) is not None


@pytest.mark.parametrize(
    ("text", "form", "seconds"),
    [
        ("1970-01-02T01:00:00Z", "ISO 8601", 90_000.0),
        ("1970-01-02 01:00:00.25+02:30", "ISO 8601", 81_000.25),
        ("1970-01-02 01:00", "ISO 8601", 90_000.0),
        ("1970-01-02 01:00:00 UTC", "ISO 8601", 90_000.0),
        ("19700102T010000", "%Y%m%dT%H%M%S", 90_000.0),
        ("19700102T010000Z", "%Y%m%dT%H%M%SZ", 90_000.0),
        ("Fri, 02 Jan 1970 01:00:00 GMT", "%a, %d %b %Y %H:%M:%S GMT", 90_000.0),
        ("Fri, 02 Jan 1970 01:00:00 +0000", "%a, %d %b %Y %H:%M:%S +0000", 90_000.0),
        ("Fri Jan  2 01:00:00 1970", "%a %b %d %H:%M:%S %Y", 90_000.0),
        ("1970-02", "%Y-%m", 31 * 86_400.0),
        ("02/1970", "%m/%Y", 31 * 86_400.0),
        ("02.01.70", "%d.%m.%y", 86_400.0),
        ("2-Jan-70", "%d-%b-%y", 86_400.0),
        ("7:05", "%H:%M", 25_500.0),
    ],
)
def test_date_is_read_in_its_format(text: str, form: str, seconds: float) -> None:
    assert date_format([text]) == (form, True)
    assert seconds_of(pa.array([text, None, "x"]), form)[0] == seconds


def test_years_of_two_digits_are_of_a_century() -> None:
    assert date_format(["12/31/24", "01/02/23"]) == ("%m/%d/%y", True)
    assert date_format(["red"]) is None
    assert date_format(["1.5", "2.5"]) is None


def test_missing_texts_can_be_chosen() -> None:
    assert is_missing_text("NaN", None)
    assert not is_missing_text("NaN", ["x"])
    assert is_missing_text(" ", ["x"])
