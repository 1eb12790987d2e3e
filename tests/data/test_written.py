"""Numbers and dates as people write them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepfls import FLSRegressor
from deepfls.data.written import (
    EXCEL,
    MILLISECONDS,
    NUMBER_FORMATS,
    SECONDS,
    date_format,
    is_missing_text,
    number_date_format,
    number_of,
    number_seconds,
    number_style,
    seconds_of,
)


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


# Dates as numbers

DAYS = np.arange("2019-11-20", "2024-03-05", 13, dtype="datetime64[D]")
MOMENTS = DAYS.astype("datetime64[s]") + np.arange(len(DAYS)) * 4_001 % 86_400


def digits(times: np.ndarray, count: int) -> np.ndarray:
    """Times as numbers of so many digits."""
    return np.array(["".join(c for c in str(t) if c.isdigit()).ljust(14, "0")[:count] for t in times]).astype(float)


@pytest.mark.parametrize(("count", "unit"), [(6, "M"), (8, "D"), (10, "h"), (12, "m"), (14, "s")])
def test_digits_of_a_calendar_date_are_its_seconds(count: int, unit: str) -> None:
    numbers = digits(MOMENTS, count)
    form = number_date_format(numbers)
    assert form is not None
    expected = MOMENTS.astype(f"datetime64[{unit}]").astype("datetime64[s]").astype(float)
    np.testing.assert_array_equal(number_seconds(numbers, form), expected)


def test_invalid_dates_are_nan() -> None:
    wrong = [20230229, 20231301, 20230100, 18991231, 21000101, 2023010, 20230101.5, np.nan]
    assert np.isnan(number_seconds(np.array(wrong), "%Y%m%d")).all()
    assert np.isnan(number_seconds(np.array([2023010124, 2023010160.0]), "%Y%m%d%H")).all()


@pytest.mark.parametrize(
    ("name", "form", "start", "unit"),
    [("order_date", EXCEL, 45_000, 86_400), ("ts", SECONDS, 1.7e9, 1), ("createdTime", MILLISECONDS, 1.7e12, 1e-3)],
)
def test_other_numbers_are_dates_by_their_name_only(name: str, form: str, start: float, unit: float) -> None:
    numbers = start + np.arange(50.0)
    assert number_date_format(numbers, name) == form
    assert number_date_format(numbers, "price") is None
    assert number_date_format(numbers, "updates") is None
    steps = np.diff(number_seconds(numbers, form))
    np.testing.assert_allclose(steps, unit, rtol=1e-3)


def test_a_missing_value_at_the_start_does_not_hide_dates() -> None:
    assert number_date_format(np.array([np.nan, *digits(DAYS, 8)])) == "%Y%m%d"
    assert number_date_format(np.full(5, np.nan)) is None
    assert number_date_format(np.zeros(0)) is None


@pytest.mark.parametrize(
    "numbers", [[20240101.0, 20240102], [20240101.0, 20240102, 20240132], [20240101.0, 20240102, 202401031], [1e300] * 3]
)
def test_few_or_wrong_dates_are_numbers(numbers: list[float]) -> None:
    assert number_date_format(np.array(numbers), "date") is None


def test_dates_as_numbers_texts_and_dates_give_the_same_model() -> None:
    y = np.sin(np.arange(len(DAYS)) / 4.0)
    tables = [
        pd.DataFrame({"day": values, "a": y[::-1]})
        for values in (pd.to_datetime(DAYS), digits(DAYS, 8).astype(int), digits(DAYS, 8).astype(int).astype(str))
    ]
    settings = {"n_rules": 2, "epochs": 1, "random_state": 0}
    models = [FLSRegressor(**settings).fit(tables[0], y)]
    for table in tables[1:]:
        with pytest.warns(UserWarning, match="Column 'day' is read as dates, 20191120 as 2019-11-20"):
            models.append(FLSRegressor(**settings).fit(table, y))
    expected = models[0].predict(tables[0])
    for model in models:
        for table in tables:
            np.testing.assert_array_equal(model.predict(table), expected)


def test_a_number_that_is_no_date_counts_as_missing_in_a_prediction() -> None:
    table = pd.DataFrame({"day": digits(DAYS, 8)})
    with pytest.warns(UserWarning, match="is read as dates"):
        model = FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(table, np.arange(len(DAYS)))
    with pytest.warns(UserWarning, match="which count as missing: '20240230'"):
        assert np.isfinite(model.predict(pd.DataFrame({"day": [20240230.0]}))).all()


def test_formats_have_distinct_names() -> None:
    assert len(set(NUMBER_FORMATS)) == len(NUMBER_FORMATS)
