"""What the columns of a table are: roles, categories, formats, what is left out, and what is said about it."""

from __future__ import annotations

import datetime
import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from deepfls.data.columns import Column, Columns
from deepfls.data.frames import as_table, holds_numbers, raw_table
from deepfls.data.learning import ColumnSettings, learn_columns

N = 40
COLOURS = ["red", "green", "blue", "red"] * 10


def learned(table: Any, *messages: str, **settings: Any) -> Columns:
    """The columns of a table, after a check of all sentences about them."""
    names = list(getattr(table, "column_names", getattr(table, "columns", [])))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        columns = learn_columns(raw_table(table, names), ColumnSettings(**settings), named=True)
    said = [str(warning.message) for warning in caught]
    assert len(said) == len(messages), said
    for text, message in zip(said, messages, strict=True):
        assert message in text
    return columns


def encoded(columns: Columns, table: Any, *, warns: bool = True) -> Any:
    return columns.encoded(raw_table(table, columns.names), warns=warns)


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"x": np.arange(N) % 7 + 0.5, **columns})


def test_text_becomes_one_input_per_category() -> None:
    table = frame(colour=COLOURS)
    columns = learned(table)
    assert columns.input_names == ["x", "colour=blue", "colour=green", "colour=red"]
    np.testing.assert_array_equal(encoded(columns, table)[:3, 1:], [[0, 0, 1], [0, 1, 0], [1, 0, 0]])


def test_two_categories_share_one_input() -> None:
    table = frame(sex=["m", "f"] * 20)
    columns = learned(table)
    assert columns.input_names == ["x", "sex=m"]
    np.testing.assert_array_equal(encoded(columns, table)[:2, 1], [1, 0])


@pytest.mark.parametrize("nothing", [None, "", "n/a", "?", float("nan")], ids=repr)
def test_missing_category_is_unknown_in_all_inputs(nothing: Any) -> None:
    table = frame(colour=[nothing, *COLOURS[1:]])
    assert np.isnan(encoded(learned(table), table)[0, 1:]).all()


def test_every_library_gives_the_same_inputs() -> None:
    table = frame(colour=pd.Categorical([None, *COLOURS[1:]]), flag=pd.array([True, None] * 20, dtype="boolean"))
    columns = learned(table)
    expected = encoded(columns, table)
    assert np.isnan(expected).sum() == 3 + 20
    arrow = pa.Table.from_pandas(table)
    for other in (arrow, pl.from_arrow(arrow), table.astype({"colour": object, "flag": object})):
        np.testing.assert_array_equal(encoded(columns, other), expected)
    assert columns == learned(arrow) == learned(pl.from_arrow(arrow))


def test_polars_enum_and_mixed_objects_are_categories() -> None:
    table = pl.DataFrame({"e": pl.Series(COLOURS, dtype=pl.Enum(["red", "green", "blue"])), "x": np.arange(N)})
    assert learned(table).input_names == ["e=blue", "e=green", "e=red", "x"]
    mixed = pd.DataFrame({"m": [1, "a", None, 2.5] * 10, "x": np.arange(N)})
    assert learned(mixed).columns[0].categories == ("1", "2.5", "a")


def test_numbers_are_categories_where_they_are_named() -> None:
    table = frame(code=[1.0, 2.0, 7.0, np.nan] * 10)
    columns = learned(table, categorical=["code"])
    assert columns.columns[1].categories == ("1", "2", "7")
    np.testing.assert_array_equal(encoded(columns, frame(code=[7] * N))[0, 1:], [0, 0, 1])
    with pytest.raises(ValueError, match=r"categorical must be a column of X.*Did you mean 'code'"):
        learned(table, categorical="cod")


def test_rare_categories_are_pooled() -> None:
    table = frame(town=["a"] * 30 + ["b"] * 6 + ["c", "d", "d", "e"])
    columns = learned(table)
    assert columns.columns[1].categories == ("a", "b", "other")
    assert columns.columns[1].pooled == ("c", "d", "e")
    np.testing.assert_array_equal(encoded(columns, table)[-1, 1:], [0, 0, 1])
    assert learned(table, min_category_rows=2).columns[1].categories == ("a", "b", "d", "other")


def test_single_rare_category_keeps_its_name() -> None:
    assert learned(frame(c=["a"] * 20 + ["b"] * 19 + ["z"])).columns[1].categories == ("a", "b", "z")


def test_many_categories_are_told() -> None:
    table = pd.DataFrame({"c": [f"c{place % 300}" for place in range(3_000)], "x": np.arange(3_000)})
    columns = learned(table, "Column 'c' has 300 categories, of which 199 stay")
    assert len(columns.columns[0].categories) == 200


def test_many_categories_of_few_rows_are_left_out_unless_they_are_asked_for() -> None:
    table = pd.DataFrame({"c": [f"c{place % 40}" for place in range(200)], "x": np.arange(200)})
    columns = learned(table, "Column 'c' has 40 categories, none of them in 10 rows, and is left out.")
    assert columns.input_names == ["x"]
    assert len(learned(table, categorical="c").columns[0].categories) == 40
    assert len(learned(table, min_category_rows=2).columns[0].categories) == 40


def test_unseen_category_counts_as_missing_and_is_told() -> None:
    columns = learned(frame(colour=COLOURS))
    with pytest.warns(UserWarning, match="does not know, which count as missing: 'pink'"):
        found = encoded(columns, frame(colour=["pink", *COLOURS[1:]]))
    assert np.isnan(found[0, 1:]).all()
    assert not np.isnan(found[1:]).any()


def test_duration_is_its_number_of_days() -> None:
    table = frame(wait=pd.to_timedelta(np.arange(N) * 36, unit="h"))
    columns = learned(table)
    assert columns.columns[1].role == "number"
    np.testing.assert_array_equal(encoded(columns, table)[:, 1], np.arange(N) * 1.5)
    np.testing.assert_array_equal(encoded(columns, pl.from_pandas(table))[:, 1], np.arange(N) * 1.5)


def test_predictions_may_write_numbers_and_dates_in_another_way() -> None:
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=9 * k) for k in range(N)]
    table = frame(n=[f"{k / 8:.4f}" for k in range(N)], day=[f"{day:%d.%m.%Y}" for day in days], flag=[True, False] * 20)
    columns = learned(table)
    other = frame(n=[f"{k / 8:.4f}".replace(".", ",") for k in range(N)], day=[str(day) for day in days], flag=[1, 0] * 20)
    np.testing.assert_array_equal(encoded(columns, table), encoded(columns, other))
    with pytest.warns(UserWarning, match=r"Column 'day' has values that the model does not know, .*: 'soon'\."):
        found = encoded(columns, other.assign(day=["soon", *other["day"][1:]]))
    assert np.isnan(found[0]).tolist() == [False, False, True, False]


def test_identifiers_are_left_out() -> None:
    table = frame(name=[f"person {place}" for place in range(N)])
    columns = learned(
        table, "Column 'name' has a different text in nearly every row, as identifiers have, and is left out."
    )
    assert columns.input_names == ["x"]
    assert len(learned(table, categorical="name").columns[1].categories) == N


def test_useless_columns_are_left_out() -> None:
    table = frame(one=1.0, word="a", again=np.arange(N) % 7 + 0.5, none=[None] * N)
    said = (
        "'none' has no values and is left out",
        "Columns 'one', 'word' have the same value",
        "'again' repeats column 'x'",
    )
    assert learned(table, *said).input_names == ["x"]


def test_repeated_column_is_not_told_to_number_the_rows_too() -> None:
    table = frame(row=np.arange(N), index=np.arange(N))
    learned(table, "Column 'row' numbers the rows; --drop row", "Column 'index' repeats column 'row' and is left out.")


def test_constant_columns_stay_where_nothing_varies() -> None:
    assert learned(pd.DataFrame({"a": [1.0] * 9}), "No column of X varies: the model gives the same for").width == 1


@pytest.mark.parametrize(
    ("texts", "value", "words"),
    [
        (["0,12573", "1,5", "-2,25", "7"], 0.12573, "decimal commas"),
        (["1,304.0", "12.5", "2,000,000.5", "3"], 1304.0, "separators of thousands"),
        (["1.304,5", "12,5", "2.000.000,5", "3"], 1304.5, "decimal commas and separators of thousands"),
        (["12%", "7.5%", "0%", "100%"], 12.0, "percent signs"),
        (["$1,200.50", "$3", "$4.10", "-$5"], 1200.5, "separators of thousands and currencies"),
        (["3,50 €", "4,00 €", "12,99 €", "1,00 €"], 3.5, "decimal commas and currencies"),
        (["(12.5)", "3", "4%", "5"], -12.5, "percent signs"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_written_numbers_are_read(texts: list[str], value: float, words: str) -> None:
    table = frame(a=texts * 10)
    columns = learned(table, f"Column 'a' is read as numbers with {words}.")
    assert encoded(columns, table)[0, 1] == value


def test_decimal_decides_what_the_column_leaves_open() -> None:
    table = frame(a=["1,304", "2,500", "3,125", "4,000"] * 10)
    assert encoded(learned(table, "--decimal , reads decimal commas"), table)[0, 1] == 1304
    assert encoded(learned(table, "decimal commas", decimal=","), table)[0, 1] == 1.304
    both = table.assign(b=["0,5", "1,5", "2,25", "3"] * 10)
    assert (
        encoded(learned(both, "Columns 'a', 'b' are read as numbers with decimal commas"), both)[0, 1] == 1.304
    )  # as the other column


@pytest.mark.parametrize(
    ("decimal", "texts"), [(",", ["65.6 kg", "8.75 kg", "100 kg", "7 kg"]), (".", ["65,6", "8,75", "100", "7"])]
)
def test_decimal_leaves_columns_as_they_are_that_leave_nothing_open(decimal: str, texts: list[str]) -> None:
    table = frame(a=texts * 10)
    columns = learned(table, "Column 'a' is read as numbers with", decimal=decimal)
    assert encoded(columns, table)[:2, 1].tolist() == [65.6, 8.75]


def test_markers_among_numbers_are_missing_and_words_are_told() -> None:
    texts = [str(place) for place in range(36)]
    table = frame(a=["?", "-", "n/a", "broken", *texts])
    columns = learned(table, "Column 'a' has 'broken' among its numbers, which counts as missing.")
    found = encoded(columns, table, warns=False)[:, 1]
    assert np.isnan(found[:4]).all()
    assert found[4:].tolist() == list(range(36))


def test_missing_values_replace_the_usual_texts() -> None:
    table = frame(a=[-999.0, 1, 2, 3] * 10, c=["-", "none", "x", "y"] * 10)
    columns = learned(table, missing_values=["-999", "none"])
    found = encoded(columns, table)
    assert np.isnan(found[0, 1])
    assert columns.columns[2].categories == ("-", "x", "y")
    assert np.isnan(found[1, 2:]).all()


def test_dates_become_days_and_cycles_that_they_span() -> None:
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(20 * place) for place in range(N)]
    table = pa.table({"day": days, "short": [days[0] + datetime.timedelta(place) for place in range(N)]})
    columns = learned(table)
    assert columns.columns[0].date_parts == ("days", "year_sin", "year_cos")
    assert columns.columns[1].date_parts == ("days",)
    assert encoded(columns, table)[0, 0] == 18262
    hours = [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=place) for place in range(N)]
    assert learned(pa.table({"t": hours})).columns[0].date_parts == ("days", "day_sin", "day_cos")


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["31.12.2019", "01.01.2020", "02.01.2020", "03.01.2020"], ()),
        (["12/31/2019", "01/01/2020", "01/02/2020", "01/03/2020"], ()),
        (["2019/12/31", "2020/01/01", "2020/01/02", "2020/01/03"], ()),
        (["31 Dec 2019", "01 Jan 2020", "02 Jan 2020", "03 Jan 2020"], ()),
        (["01/01/2020", "02/01/2020", "03/01/2020", "04/01/2020"], ("'02/01/2020' is taken as 2020-02-01",)),
    ],
    ids=lambda value: str(value)[:16],
)
def test_dates_as_text_are_read(texts: list[str], said: tuple[str, ...]) -> None:
    table = frame(d=texts * 10)
    columns = learned(table, *said)
    assert columns.columns[1].role == "date"
    assert 18200 < encoded(columns, table)[0, 1] < 18300


def test_description_survives_json() -> None:
    columns = learned(frame(colour=COLOURS, one=1), "'one'", missing_values=["-1"])
    assert Columns.from_list(json.loads(json.dumps(columns.as_list())), named=True) == columns
    for wrong in ([{"name": "a", "role": "zebra"}], [{"name": "a", "role": "category"}]):
        with pytest.raises(ValueError, match="a c"):
            Columns.from_list(wrong, named=True)


def test_places_and_sums_of_the_inputs_of_a_column() -> None:
    columns = Columns((Column("a"), Column("c", "category", ("x", "y", "z")), Column("b", "left out")))
    assert columns.places("c") == (1, 2, 3)
    np.testing.assert_array_equal(columns.summed(np.array([1.0, 2, 3, 4])), [1, 9, 0])


def test_sparse_tables_are_made_dense_up_to_a_size() -> None:
    from scipy import sparse

    assert as_table(sparse.eye(3)).tolist() == np.eye(3).tolist()
    with pytest.raises(ValueError, match="must have at most 134,217,728 values in sparse form"):
        as_table(sparse.csr_matrix((2**20, 2**10)))


def test_tables_of_numbers_are_recognised() -> None:
    assert holds_numbers(np.zeros((2, 2)))
    assert holds_numbers(pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1.5, 2]}))
    assert holds_numbers(pl.DataFrame({"a": [1, None]}))
    assert holds_numbers(pa.table({"a": [1.5, None]}))
    assert not holds_numbers(pd.DataFrame({"a": [True, False]}))
    assert not holds_numbers(pl.DataFrame({"a": ["x"]}))
