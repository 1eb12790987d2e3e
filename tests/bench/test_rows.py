"""Rows beside their targets."""

from __future__ import annotations

import json
import math

import pytest

from deepfls.bench.rows import Row, Target


@pytest.mark.parametrize(
    ("sense", "value", "holds"),
    [("<=", 2.0, True), ("<=", 2.001, False), (">=", 2.0, True), (">=", 1.999, False), ("<=", math.nan, False)],
)
def test_target_holds_on_its_side_of_the_limit(sense: str, value: float, holds: bool) -> None:
    assert Row("steps", "w", value, "x", Target(sense, 2.0)).holds is holds


def test_row_without_value_or_target_is_not_judged() -> None:
    assert Row("peers", "could not be installed", None, "x", Target(">=", 4)).holds is None
    assert Row("memory", "w", 3.0, "bytes").holds is None


def test_row_as_json_has_the_six_fields() -> None:
    plain = json.loads(json.dumps(Row("prediction", "w", 2.5e6, "rows/s", Target(">=", 2e6)).plain()))
    assert plain == {
        "question": "prediction",
        "work": "w",
        "value": 2.5e6,
        "unit": "rows/s",
        "target": ">= 2,000,000",
        "holds": True,
    }


def test_value_that_is_no_number_is_null_in_json() -> None:
    assert Row("steps", "w", math.inf, "x").plain()["value"] is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0.0, "0"),
        (62.0, "62"),
        (0.012345, "0.01235"),
        (16.754, "16.75"),
        (1398.2, "1,398"),
        (1e-9, "0.000000"),
    ],
)
def test_value_is_shown_in_few_digits(value: float | None, shown: str) -> None:
    assert Row("steps", "w", value, "x").shown_value() == shown
