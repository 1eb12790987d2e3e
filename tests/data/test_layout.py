"""Columns to inputs and targets: what is chosen and encoded, and the error for every wrong column."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deepfls.data.layout import Layout, inputs, learn_layout, numbers, targets, texts
from deepfls.data.tables import DataTable, TableError

DAY = datetime.date(2020, 1, 1)


def data(**columns: Any) -> DataTable:
    table = pa.table(columns)
    return DataTable(table, "'t.csv'", (Path("t.csv"),), (table.num_rows,))


def refused(call: Callable[..., Any], *args: Any, **options: Any) -> str:
    with pytest.raises(TableError) as caught:
        call(*args, **options)
    return str(caught.value)


def test_layout_takes_all_columns_but_target_weight_and_dropped() -> None:
    layout = learn_layout(data(a=[1], w=[1], y=[1], b=[2], id=["x"]), ["y"], drop=["id"], weight="w")
    assert layout == Layout(("a", "b"), {}, ("y",), "number")


def test_layout_takes_chosen_features_in_their_order() -> None:
    assert learn_layout(data(a=[1], b=[2], y=[1], c=["x"]), ["y"], features=["b", "a"]).features == ("b", "a")


def test_numbers_of_every_type_become_float64() -> None:
    table = data(
        a=pa.array([1, 2], pa.uint8()),
        b=pa.array([1.5, 2], pa.float16()),
        c=[True, False],
        d=[Decimal("0.5"), Decimal("1.5")],
        e=[2**60 + 1, 0],
        y=[0, 1],
    )
    made = inputs(table, learn_layout(table, ["y"]))
    assert made.schema.types == [pa.float64()] * 5
    assert made.to_pydict() == {"a": [1, 2], "b": [1.5, 2], "c": [1, 0], "d": [0.5, 1.5], "e": [2.0**60, 0]}


def test_one_hot_makes_one_input_per_category_in_place() -> None:
    table = data(a=[1, 2, 3], c=["red", "blue", "red"], b=[4, 5, 6], y=[0, 1, 2])
    layout = learn_layout(table, ["y"], one_hot=True)
    assert layout.categories == {"c": ("blue", "red")}
    expected = {"a": [1, 2, 3], "c=blue": [0, 1, 0], "c=red": [1, 0, 1], "b": [4, 5, 6]}
    assert inputs(table, layout).to_pydict() == expected


def test_categories_of_numbers_are_one_hot_too() -> None:
    table = data(c=pa.array([7, 8, 7]).dictionary_encode(), y=[0, 1, 2])
    assert refused(learn_layout, table, ["y"]).startswith("Column 'c' of 't.csv' must hold numbers, got categories ('7' in")
    layout = learn_layout(table, ["y"], one_hot=True)
    assert inputs(table, layout).to_pydict() == {"c=7": [1, 0, 1], "c=8": [0, 1, 0]}


def test_layout_survives_json() -> None:
    layout = learn_layout(data(a=[1.0], c=["\x1b[31m"], y=["up"]), ["y"], one_hot=True)
    assert Layout.from_dict(json.loads(json.dumps(layout.as_dict()))) == layout
    assert layout.text_columns == ("c", "y")


@pytest.mark.parametrize(
    "change",
    [
        {"features": None},
        {"features": [1]},
        {"categories": {"zebra": ["x"]}},
        {"categories": {"c": "x"}},
        {"targets": "y"},
        {"target_kind": "zebra"},
    ],
    ids=str,
)
def test_damaged_layout_is_refused(change: dict[str, Any]) -> None:
    content = {**Layout(("a", "c"), {"c": ("x",)}, ("y",)).as_dict(), **change}
    assert refused(Layout.from_dict, content) == "The model's description of its columns is damaged: train the model again."
    assert refused(Layout.from_dict, None) == "The model's description of its columns is damaged: train the model again."


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"c": ["1", "red"]},
            "Column 'c' of 't.csv' must hold numbers, got text ('red' in data row 2); encode it with --one-hot or leave it "
            "out with --drop.",
        ),
        (
            {"c": ["red", "blue"], "d": ["x", "y"]},
            "Columns 'c', 'd' of 't.csv' must hold numbers, got text ('red' in data row 1); encode them with --one-hot or "
            "leave them out with --drop.",
        ),
        ({"c": [DAY, DAY]}, "Column 'c' of 't.csv' must hold numbers, got dates or times; leave it out with --drop."),
        ({"c": pa.nulls(2)}, "Column 'c' of 't.csv' must hold numbers, got no values; leave it out with --drop."),
        ({"c": [[1], [2]]}, "Column 'c' of 't.csv' must hold numbers, got lists or records; leave it out with --drop."),
        (
            {"c": [b"\xe9", b"\xe9"]},
            "Column 'c' of 't.csv' must hold numbers, got bytes that are not UTF-8 text; save the file as UTF-8.",
        ),
        ({"": [1, 2]}, "'t.csv' has a column without a name: give it one, or leave it out with --drop ''."),
        ({}, "'t.csv' must have a column beside the target to learn from, got none."),
    ],
    ids=["text", "two texts", "dates", "empty", "lists", "bytes", "index", "no features"],
)
def test_column_that_is_no_feature_is_refused(columns: dict[str, Any], message: str) -> None:
    assert refused(learn_layout, data(**columns, y=[1, 2]), ["y"]) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": ["Z"]}, "'t.csv' has no column 'Z' to be the target. Its columns are 'alpha', 'b', 'y'."),
        ({"targets": ["Y"]}, "'t.csv' has no column 'Y' to be the target. Did you mean 'y'?"),
        ({"features": ["alpa"]}, "'t.csv' has no column 'alpa'. Did you mean 'alpha'?"),
        ({"drop": ["alhpa"]}, "'t.csv' has no column 'alhpa' to drop. Did you mean 'alpha'?"),
        ({"weight": "B"}, "'t.csv' has no column 'B' of weights. Did you mean 'b'?"),
        ({"features": ["y"]}, "Column 'y' must have one role, got two of target, feature, weight and drop."),
        ({"drop": ["y"]}, "Column 'y' must have one role, got two of target, feature, weight and drop."),
        ({"weight": "y"}, "Column 'y' must have one role, got two of target, feature, weight and drop."),
        ({"features": ["b"], "drop": ["b"]}, "Column 'b' must have one role, got two of target, feature, weight and drop."),
    ],
    ids=str,
)
def test_wrong_choice_of_columns_is_refused(options: dict[str, Any], message: str) -> None:
    options = {"targets": ["y"], **options}
    assert refused(learn_layout, data(alpha=[1, 2], b=[1, 2], y=[1, 2]), **options) == message


def test_target_given_twice_counts_once() -> None:
    assert learn_layout(data(a=[1], y=[1]), ["y", "y"]).targets == ("y",)


def test_target_of_dates_is_refused() -> None:
    message = "Column 'y' of 't.csv' must hold numbers, got dates or times."
    assert refused(learn_layout, data(a=[1], y=[DAY]), ["y"]) == message


def test_text_among_several_targets_is_refused() -> None:
    message = "Several targets must all hold numbers, got text in one."
    assert refused(learn_layout, data(a=[1], y=[1], z=["up"]), ["y", "z"]) == message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, None, None], "a number in every row, got a missing value in data row 2 (2 such rows)."),
        ([1.0, 2.0, float("nan")], "a number in every row, got a missing value in data row 3."),
        ([1, None, 2], "a number in every row, got a missing value in data row 2."),
        ([1.0, 2.0, float("-inf")], "a finite number in every row, got -inf in data row 3."),
        ([True, None, False], "a number in every row, got a missing value in data row 2."),
    ],
    ids=str,
)
def test_value_that_is_no_number_is_refused(values: list[Any], message: str) -> None:
    assert refused(numbers, data(a=values), "a") == f"Column 'a' of 't.csv' must have {message}"


@pytest.mark.parametrize("values", [["x", None, "y"], ["x", "", "y"], ["x", "  ", "y"]], ids=str)
def test_missing_text_is_refused(values: list[Any]) -> None:
    message = "Column 'a' of 't.csv' must have text in every row, got a missing value in data row 2."
    assert refused(texts, data(a=values), "a") == message


def test_nested_column_is_no_text() -> None:
    assert refused(texts, data(a=[[1]]), "a") == "Column 'a' of 't.csv' must hold text, got lists or records."


def test_row_is_refused_with_its_file() -> None:
    table = pa.table({"a": [1.0, 2.0, None]})
    joined = DataTable(table, "'*.csv'", (Path("p/a.csv"), Path("p/b.csv")), (2, 1))
    message = "Column 'a' of '*.csv' must have a number in every row, got a missing value in data row 1 of 'b.csv'."
    assert refused(numbers, joined, "a") == message


def test_unknown_category_is_refused() -> None:
    layout = Layout(("c",), {"c": ("blue", "red")})
    message = (
        "Column 'c' of 't.csv' must hold one of the categories 'blue', 'red' the model was trained on, got 'Rod' in data "
        "row 2. Did you mean 'red'?"
    )
    assert refused(inputs, data(c=["red", "Rod"]), layout) == message


def test_missing_feature_is_refused() -> None:
    message = "'t.csv' has no column 'bb' that the model reads. Did you mean 'BB'?"
    assert refused(inputs, data(a=[1], BB=[1]), Layout(("a", "bb"))) == message


def test_numbers_with_a_blemish_are_not_one_hot_encoded() -> None:
    table = data(a=[*map(str, range(30)), "?"], y=range(31))
    message = (
        "Column 'a' of 't.csv' must hold numbers or categories, got numbers with '?' in data row 31; fix that value or "
        "leave the column out with --drop."
    )
    assert refused(learn_layout, table, ["y"], one_hot=True) == message


def test_identifiers_are_not_one_hot_encoded() -> None:
    table = data(a=[f"id{i}" for i in range(1001)], y=range(1001))
    message = "Column 'a' of 't.csv' must have at most 1,000 categories, got 1,001; leave it out with --drop."
    assert refused(learn_layout, table, ["y"], one_hot=True) == message


def test_one_hot_name_that_is_taken_is_refused() -> None:
    table = data(**{"a=x": [1, 2], "a": ["x", "y"], "y": [1, 2]})
    message = "One-hot encoding would make a second input 'a=x': rename that column."
    assert refused(learn_layout, table, ["y"], one_hot=True) == message


def test_targets_have_the_shape_of_their_number() -> None:
    table = data(a=[1, 2], y=[1, 2], z=[3.5, 4])
    assert np.array_equal(targets(table, Layout(("a",), {}, ("y",)), classes=False), [1.0, 2.0])
    assert np.array_equal(targets(table, Layout(("a",), {}, ("y", "z")), classes=False), [[1.0, 3.5], [2.0, 4.0]])


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, 2], "number", [1, 2]),
        ([1.0, 2.0], "number", [1, 2]),
        ([True, False], "boolean", ["true", "false"]),
        (["up", "down"], "text", ["up", "down"]),
    ],
    ids=str,
)
def test_classes_keep_their_names(values: list[Any], kind: str, expected: list[Any]) -> None:
    table = data(a=[1, 2], y=values)
    layout = learn_layout(table, ["y"])
    assert layout.target_kind == kind
    assert targets(table, layout, classes=True).tolist() == expected
