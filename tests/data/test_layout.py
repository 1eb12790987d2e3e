"""Columns to inputs and targets: what is chosen, the values of targets, and the error for every wrong column."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deepfls.data.layout import Layout, inputs, learn_layout, numbers, targets, warn_of_copies, weights, with_targets
from deepfls.data.tables import DataTable, TableError

DAY = datetime.date(2020, 1, 1)
DAMAGED = "The model's description of its columns is damaged: train the model again."


def data(**columns: Any) -> DataTable:
    table = pa.table(columns)
    return DataTable(table, "'t.csv'", (Path("t.csv"),), (table.num_rows,))


def refused(call: Callable[..., Any], *args: Any, **options: Any) -> str:
    with pytest.raises(TableError) as caught:
        call(*args, **options)
    return str(caught.value)


def test_layout_takes_all_columns_but_target_weight_and_dropped() -> None:
    layout = learn_layout(data(a=[1], w=[1], y=[1], b=[2], id=["x"]), ["y"], drop=["id"], weight="w")
    assert layout == Layout(("a", "b"), ("y",), "number", weight="w")


def test_layout_takes_chosen_features_in_their_order() -> None:
    assert learn_layout(data(a=[1], b=[2], y=[1], c=["x"]), ["y"], features=["b", "a"]).features == ("b", "a")


def test_layout_survives_json() -> None:
    layout = learn_layout(data(a=[1.0], c=["\x1b[31m"], y=["up"]), ["y"])
    assert Layout.from_dict(json.loads(json.dumps(layout.as_dict()))) == layout


@pytest.mark.parametrize(
    "change", [{"features": None}, {"features": [1]}, {"targets": "y"}, {"target_kind": "zebra"}], ids=str
)
def test_damaged_layout_is_refused(change: dict[str, Any]) -> None:
    assert refused(Layout.from_dict, {**Layout(("a", "c"), ("y",)).as_dict(), **change}) == DAMAGED
    assert refused(Layout.from_dict, None) == DAMAGED


def test_one_hot_model_of_an_earlier_version_is_refused() -> None:
    content = {**Layout(("a",), ("y",)).as_dict(), "categories": {"a": ["x"]}}
    assert refused(Layout.from_dict, content).endswith("train it again.")


def test_unnamed_column_is_left_out_unless_it_is_chosen() -> None:
    table = data(**{"": [1, 2], "a": [1, 2], "y": [1, 2]})
    with pytest.warns(UserWarning, match="column without a name is left out"):
        assert learn_layout(table, ["y"]).features == ("a",)
    assert learn_layout(table, ["y"], features=["", "a"]).features == ("", "a")


@pytest.mark.parametrize(
    ("values", "words"),
    [([DAY], "dates or times"), (pa.nulls(1), "no values"), ([[1]], "lists or records"), ([b"\xff"], "bytes that are")],
    ids=str,
)
def test_target_that_cannot_be_learned_is_refused(values: Any, words: str) -> None:
    assert f"must hold numbers or classes, got {words}" in refused(learn_layout, data(a=[1], y=values), ["y"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ["b"]}, "'t.csv' has no column 'b'. Its columns are 'a', 'y'."),
        ({"drop": ["aa"]}, "'t.csv' has no column 'aa' to drop. Its columns are 'a', 'y'."),
        ({"drop": ["y"]}, "Column 'y' must have one role, got two of target, feature, weight and drop."),
        ({"weight": "y"}, "Column 'y' must have one role, got two of target, feature, weight and drop."),
        ({"drop": ["a"]}, "'t.csv' must have a column beside the target to learn from, got none."),
    ],
    ids=str,
)
def test_choice_that_cannot_be_made_is_refused(options: dict[str, Any], message: str) -> None:
    assert refused(learn_layout, data(a=[1], y=[1]), ["y"], **options) == message


def test_several_targets_must_be_numbers() -> None:
    message = refused(learn_layout, data(a=[1], y=[1], z=["x"]), ["y", "z"])
    assert message == "Several targets must all hold numbers, got text in column 'z'."


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, None], [1, np.nan]),
        ([True, None], [1, np.nan]),
        (["1,5", "n/a"], [1.5, np.nan]),
        ([2**60 + 1, 0], [2.0**60, 0]),
    ],
    ids=str,
)
def test_numbers_of_every_kind_become_float64(values: list[Any], expected: list[float]) -> None:
    np.testing.assert_array_equal(numbers(data(a=values), "a"), expected)


def test_text_that_is_no_number_is_refused_with_its_row() -> None:
    assert "got text ('red' in data row 2)" in refused(numbers, data(a=["1", "red"]), "a")
    assert "got -inf in data row 1" in refused(numbers, data(a=[float("-inf")]), "a")


def test_row_is_refused_with_its_file() -> None:
    table = pa.table({"a": [1.0, 2.0, float("inf")]})
    joined = DataTable(table, "'*.csv'", (Path("p/a.csv"), Path("p/b.csv")), (2, 1))
    assert refused(numbers, joined, "a").endswith("got inf in data row 1 of 'b.csv'.")


def test_missing_feature_is_refused() -> None:
    message = "'t.csv' has no column 'bb' that the model reads. Did you mean 'BB'?"
    assert refused(inputs, data(a=[1], BB=[1]), Layout(("a", "bb"))) == message


def test_rows_without_a_target_are_left_out_and_counted() -> None:
    table, layout = data(a=[1, 2, 3, 4], y=["x", None, "n/a", "z"]), Layout(("a",), ("y",), "text")
    with pytest.warns(UserWarning, match=r"^2 rows without a target are left out\.$"):
        assert with_targets(table, layout).table.to_pydict() == {"a": [1, 4], "y": ["x", "z"]}
    with pytest.warns(UserWarning, match=r"^1 row without a target is left out\.$"):
        assert with_targets(data(a=[1, 2], y=[1.0, float("nan")]), Layout(("a",), ("y",))).n_rows == 1
    assert "--nulls drop leaves such rows out" in refused(with_targets, table, layout, "error")
    assert "must have rows with a target" in refused(with_targets, data(a=[1], y=["?"]), layout)


def test_targets_have_the_shape_of_their_number() -> None:
    table = data(a=[1, 2], y=[1, 2], z=[3.5, 4])
    assert np.array_equal(targets(table, Layout(("a",), ("y",)), classes=False), [1.0, 2.0])
    assert np.array_equal(targets(table, Layout(("a",), ("y", "z")), classes=False), [[1.0, 3.5], [2.0, 4.0]])


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


def test_target_of_decimal_commas_is_a_number() -> None:
    with pytest.warns(UserWarning, match="Column 'y' is read as numbers with decimal commas"):
        assert learn_layout(data(a=[1, 2], y=["1,5", "2,25"]), ["y"]).target_kind == "number"


def test_weights_and_numbers_that_cannot_be_used_are_refused() -> None:
    table = data(a=[1.0, 2.0], w=[0.0, None], day=[DAY, None])
    assert refused(weights, table, Layout(("a",), weight="w")).endswith("must have a weight greater than 0, got none.")
    assert refused(numbers, table, "day") == "Column 'day' of 't.csv' must hold numbers, got dates or times."


def test_rows_count_as_in_the_file_where_some_are_left_out() -> None:
    layout = Layout(("a",), ("y",))
    table = data(a=[1.0, 2.0, float("inf"), 4.0], y=[None, 1.0, 2.0, None])
    with pytest.warns(UserWarning, match="2 rows without a target are left out"):
        known = with_targets(table, layout)
    assert "got inf in data row 3;" in refused(inputs, known, layout)
    assert "got inf in data row 3;" in refused(inputs, known.filtered(np.array([False, True])), layout)


def test_dash_is_a_class_beside_a_plus() -> None:
    table = data(a=[1, 2, 3], y=["+", "-", ""])
    layout = learn_layout(table, ["y"])
    with pytest.warns(UserWarning, match="^1 row without a target is left out.$"):
        assert targets(with_targets(table, layout), layout, classes=True).tolist() == ["+", "-"]


def test_dash_alone_is_a_missing_class_unless_others_are_named() -> None:
    table = data(a=[1, 2, 3], y=["u", "-", "v"])
    layout = learn_layout(table, ["y"])
    with pytest.warns(UserWarning, match="^1 row without a target is left out; --missing-values '' takes '-' as a class.$"):
        assert with_targets(table, layout).n_rows == 2
    dash = replace(layout, missing_values=[""])
    assert targets(with_targets(table, dash), dash, classes=True).tolist() == ["u", "-", "v"]


@pytest.mark.parametrize("y", [[1.0, 2.0, 4.0], ["u", "v", "u"]], ids=["numbers", "classes"])
def test_copies_of_the_target_are_told(y: list[Any]) -> None:
    with pytest.warns(UserWarning, match="^Column 'b c' equals the target in every row; --drop 'b c' leaves it out of the"):
        warn_of_copies(pa.table({"a": [1.0, 2.0, 3.0], "b c": y, "d": [None, *y[1:]]}), np.array(y))


def test_target_of_numbers_may_have_texts_that_the_user_calls_missing() -> None:
    table = data(a=[1, 2, 3], y=["1", "keine", "2"])
    assert learn_layout(table, ["y"]).target_kind == "text"
    layout = learn_layout(table, ["y"], missing_values=["keine"])
    assert layout.target_kind == "number"
    with pytest.warns(UserWarning, match="^1 row without a target is left out.$"):
        known = with_targets(table, layout)
    assert targets(known, layout, classes=False).tolist() == [1.0, 2.0]
