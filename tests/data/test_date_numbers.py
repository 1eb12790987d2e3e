"""Dates that are written as numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from deepfls import FLSRegressor
from deepfls.data.date_numbers import EXCEL, MILLISECONDS, NUMBER_FORMATS, SECONDS, number_date_format, number_seconds

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
