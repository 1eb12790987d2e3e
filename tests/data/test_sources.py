"""Parquet sources: columns, nulls, parts, and every way files can be wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import fs, parquet

from deepfls import FLSRegressor
from deepfls.data.arrays import ArraySource, DataPlan, TrainingData
from deepfls.data.learning import ColumnSettings
from deepfls.data.parquet import ParquetFiles
from deepfls.data.sources import ParquetSource, read_ahead
from deepfls.data.summary import uniform
from deepfls.data.tables import TableError
from deepfls.training.distributed import Group
from stream_cases import columns, regression, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "rows", columns())


def read_all(source: ParquetSource, **options: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    parts = [part for _, part in source.all_rows(range(source.n_groups), **options)]
    return tuple(np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "y", "rows"))


# What is read


def test_source_gives_every_row_once_in_the_order_of_the_files(path: Path) -> None:
    data = columns()
    x, y, rows = read_all(regression(path))
    assert np.array_equal(x, np.stack([data["a"], data["b"]], axis=1))
    assert np.array_equal(y[:, 0], data["y"])
    assert np.array_equal(rows, np.arange(600))


def test_blocks_are_the_row_groups(path: Path) -> None:
    sizes = [group.n_rows for group in ParquetFiles(path).groups]
    assert sizes == [70, 70, 60] * 3
    assert [group.first_row for group in ParquetFiles(path).groups][:4] == [0, 70, 140, 200]


def test_all_other_columns_are_features_unless_dropped(path: Path) -> None:
    source = ParquetSource(path, target=["y", "z"], drop=["label"], weight="w")
    assert source.layout.features == ("a", "b")
    part = source.read(0)
    assert part.y.shape == (70, 2)
    assert part.weight is not None
    assert part.weight[:3].tolist() == [1.0, 2.0, 3.0]


def test_integers_floats_and_booleans_mix_between_files(tmp_path: Path) -> None:
    for number, values in enumerate(([1, 2], [0.5, 1.5], np.array([3, 4], dtype=np.float32))):
        parquet.write_table(pa.table({"x": values, "y": [True, False]}), tmp_path / f"{number}.parquet")
    x, y, _ = read_all(ParquetSource(tmp_path / "*.parquet", target="y").with_numbers())
    assert x[:, 0].tolist() == [1, 2, 0.5, 1.5, 3, 4]
    assert y[:, 0].tolist() == [1, 0] * 3


@pytest.mark.parametrize("how", ["address", "pattern of addresses", "filesystem", "list"])
def test_files_are_found_wherever_pyarrow_opens_them(path: Path, how: str) -> None:
    folder = path.parent
    if how == "address":
        source = regression([f"file://{file}" for file in sorted(folder.iterdir())])
    elif how == "pattern of addresses":
        source = regression(f"file://{folder}/part-*.parquet")
    elif how == "filesystem":
        source = regression("part-*.parquet", filesystem=fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem()))
    else:
        source = regression(sorted(folder.iterdir()))
    assert np.array_equal(read_all(source)[0], read_all(regression(path))[0])


def test_empty_row_groups_are_left_out(tmp_path: Path) -> None:
    table = pa.table({"x": [1.0], "y": [2.0]})
    with parquet.ParquetWriter(tmp_path / "a.parquet", table.schema) as writer:
        for part in (table, table.slice(0, 0), table):
            writer.write_table(part)
    assert [group.group for group in ParquetFiles(tmp_path / "a.parquet").groups] == [0, 2]


# Parts


def test_uniform_is_uniform_and_independent_of_the_seed_before() -> None:
    draws = [uniform(seed, np.arange(100_000)) for seed in (0, 1)]
    for draw in draws:
        counts = np.histogram(draw, bins=20, range=(0, 1))[0]
        assert abs(counts - 5_000).max() < 5 * np.sqrt(5_000)
        assert abs(np.corrcoef(draw[:-1], draw[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(*draws)[0, 1]) < 0.02


def test_parts_share_no_row_and_miss_none(path: Path) -> None:
    source = regression(path)
    held, kept = read_all(source.part(3, 0.0, 0.3))[2], read_all(source.part(3, 0.3, 1.0))[2]
    assert sorted([*held, *kept]) == list(range(600))
    assert 120 < len(held) < 240


def test_parts_are_the_same_rows_for_any_row_groups(tmp_path: Path) -> None:
    rows = [
        read_all(regression(write(tmp_path / str(size), columns(), n_files=n, group_rows=size)).part(1, 0.2, 0.6))[2]
        for size, n in ((7, 1), (70, 3), (1000, 2))
    ]
    assert np.array_equal(rows[0], rows[1])
    assert np.array_equal(rows[0], rows[2])


# Nulls


def with_null(tmp_path: Path, column: str, value: Any = None) -> Path:
    data = columns()
    values = data[column].tolist()
    values[285] = value  # the second file begins at row 200: row 15 of its second row group
    return write(tmp_path / "nulls", {**data, column: values})


@pytest.mark.parametrize("column", ["y", "w"])
@pytest.mark.parametrize("value", [None, float("nan")], ids=["null", "nan"])
def test_missing_value_is_an_error_that_names_file_and_row_group(tmp_path: Path, column: str, value: Any) -> None:
    source = regression(with_null(tmp_path, column, value), weight="w", nulls="error")
    message = (
        f"Column '{column}' of row group 1 of '{tmp_path}/nulls/part-1.parquet' must have a number in every row, got a "
        "missing value in data row 16; nulls='drop' (--nulls drop) leaves such rows out."
    )
    with pytest.raises(TableError, match=re.escape(message)):
        read_all(source)


@pytest.mark.parametrize("value", [None, float("nan")], ids=["null", "nan"])
def test_rows_with_a_missing_value_are_dropped_when_asked(tmp_path: Path, value: Any) -> None:
    source = regression(with_null(tmp_path, "y", value), nulls="drop")
    assert read_all(source)[2].tolist() == [row for row in range(600) if row != 285]
    assert sum(part.n_dropped for _, part in source.all_rows(range(source.n_groups))) == 1


def test_warm_start_reads_targets_as_the_fit_before(tmp_path: Path) -> None:
    source = regression(with_null(tmp_path, "y", -999.0))
    model = FLSRegressor(n_rules=2, epochs=1, warm_start=True, missing_values=["-999"], random_state=0)
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"^1 row without a target is left out\.$"):
            model.fit(source)


def test_missing_value_in_a_column_that_is_not_used_does_not_matter(tmp_path: Path) -> None:
    assert len(read_all(regression(with_null(tmp_path, "z")))[2]) == 600


@pytest.mark.parametrize("nulls", ["error", "drop"])
def test_infinity_is_an_error_under_either_rule(tmp_path: Path, nulls: str) -> None:
    source = regression(with_null(tmp_path, "a", float("inf")), nulls=nulls)
    message = "must have a finite number in every row, got inf in data row 16."
    with pytest.raises(TableError, match=f"row group 1 of '.*part-1.parquet' {re.escape(message)}"):
        read_all(source)


def test_infinity_beside_text_is_an_error_unless_it_counts_as_missing(tmp_path: Path) -> None:
    table = pa.table({"a": [1.0, np.inf, 2.0, 3.0], "s": ["p", "q", "p", "q"], "y": [1.0, 2.0, 3.0, 4.0]})
    parquet.write_table(table, tmp_path / "t.parquet")
    source = ParquetSource(tmp_path / "t.parquet", target="y")
    message = (
        r"^Column 'a' of row group 0 of .* must have a finite number in every row, got inf in data row 2; "
        r"--missing-values inf counts it as missing\.$"
    )
    with pytest.raises(TableError, match=message):
        source.with_columns(ColumnSettings(min_category_rows=1)).read(0)
    taken = source.with_columns(ColumnSettings(min_category_rows=1, missing_values=["inf"])).read(0)
    np.testing.assert_array_equal(taken.columns[0], [1.0, np.nan, 2.0, 3.0])


def test_classes_with_fractions_are_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [1.0, 2.0], "y": [1.0, 2.5]}), tmp_path / "t.parquet")
    source = ParquetSource(tmp_path / "t.parquet", target="y")
    with pytest.raises(TableError, match=r"must hold classes, got numbers with fractions such as 2\.5; FLSRegressor \("):
        source.read(0, classes=True)


def test_number_whose_square_overflows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        TableError,
        match=r"row group 1 of '.*' must have a number within ±1e\+150 in every row, got 1e\+200 in data row 16\.",
    ):
        read_all(regression(with_null(tmp_path, "a", 1e200)))


def test_negative_weight_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"must have a weight of at least 0 in every row, got -2 in data row 16\."):
        read_all(regression(with_null(tmp_path, "w", -2.0), weight="w"))


def test_other_rule_for_nulls_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match=r"^nulls must be one of 'error', 'drop', got 'dorp'\. Did you mean 'drop'\?$"):
        regression(path, nulls="dorp")


# Files that are wrong


def test_column_names_that_come_twice_are_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table([[1.0], [2.0], [3.0]], names=["a", "a", "y"]), tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"must have distinct column names to be read in parts: rename those that come "):
        ParquetSource(tmp_path / "t.parquet", target="y")


def test_missing_column_is_named(path: Path) -> None:
    with pytest.raises(TableError, match=r"has no column 'yy' to be the target\. Its columns are"):
        ParquetSource(path, target="yy")


def test_text_column_is_a_category_with_an_input_each(path: Path) -> None:
    source = ParquetSource(path, target="y", features=["a", "label"]).with_columns(ColumnSettings())
    assert source.columns.columns[1].role == "category"
    assert source.read(0).x.shape[1] == source.n_features == source.columns.width


@pytest.mark.parametrize("value", [None, float("nan")], ids=["null", "nan"])
def test_missing_input_is_nan(tmp_path: Path, value: Any) -> None:
    source = regression(with_null(tmp_path, "a", value))
    assert np.isnan(read_all(source)[0][285, 0])
    plan = source.prepared(DataPlan(), np.random.RandomState(0), Group()).stream
    assert plan is not None
    assert plan.has_missing


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns(["b"]), "{seventh} must have the columns of {first}, got no column 'b'."),
        (
            lambda t: t.set_column(1, "b", t.column("b").cast(pa.string())),
            "Column 'b' must hold the same in every file, got numbers in {first} and text in {seventh}.",
        ),
    ],
    ids=["column missing", "text for numbers"],
)
def test_changed_schema_in_the_seventh_file_is_reported_before_training(tmp_path: Path, change: Any, message: str) -> None:
    path = write(tmp_path, columns(), n_files=9)
    seventh = tmp_path / "part-6.parquet"
    parquet.write_table(change(parquet.read_table(seventh)), seventh)
    expected = message.format(seventh=f"'{seventh}'", first=f"'{tmp_path}/part-0.parquet'")
    with pytest.raises(TableError, match=f"^{re.escape(expected)}$"):
        regression(path)


def test_column_that_is_new_in_a_later_file_does_not_matter(tmp_path: Path) -> None:
    path = write(tmp_path, columns())
    later = tmp_path / "part-2.parquet"
    table = parquet.read_table(later)
    parquet.write_table(table.append_column("new", table.column("a")), later)
    assert len(read_all(regression(path))[2]) == 600


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_truncated_file_is_named(tmp_path: Path, share: float) -> None:
    path = write(tmp_path, columns())
    file = tmp_path / "part-1.parquet"
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    reason = "is empty" if share == 0 else "is not a Parquet file, or it is truncated or damaged"
    with pytest.raises(TableError, match=f"^'{re.escape(str(file))}' {reason}\\.$"):
        regression(path)


def test_damage_inside_a_file_is_reported_with_its_row_group(tmp_path: Path) -> None:
    path = write(tmp_path, columns(), n_files=2, group_rows=100)
    file = tmp_path / "part-1.parquet"
    column = parquet.ParquetFile(file).metadata.row_group(2).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    content = bytearray(file.read_bytes())
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    file.write_bytes(content)
    with pytest.raises(TableError, match=f"^Row group 2 of '{re.escape(str(file))}' is damaged: "):
        read_all(regression(path))


def test_file_that_changes_while_in_use_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path, columns(), n_files=1, group_rows=100)
    source = regression(path)
    source.files._open.clear()
    write(tmp_path, columns(500), n_files=1, group_rows=90)
    with pytest.raises(TableError, match=r"^Row group 0 of '.*' must keep its 100 rows while in use, got 90\.$"):
        source.read(0)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no/*.parquet", r"No file matches 'no/\*.parquet'\."),
        ("file:///nowhere/*.parquet", "'file:.*' cannot be opened: "),
        ("file:///nowhere.parquet", r"No file matches 'file:///nowhere.parquet'\."),
        ("https://example.org/rows.parquet", "'https://.*' is an address, and tables are read from files: download it,"),
        ([], r"The list of Parquet files must not be empty\."),
    ],
)
def test_missing_files_are_reported(path: Any, message: str) -> None:
    with pytest.raises(TableError, match=message):
        regression(path)


def test_files_without_rows_are_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [1.0], "b": [1.0], "y": [1.0]}).slice(0, 0), tmp_path / "a.parquet")
    with pytest.raises(TableError, match=r"must have rows, got column names only\.$"):
        regression(tmp_path / "a.parquet")


# The data of a fit


def prepared(source: ParquetSource, **plan: Any) -> TrainingData:
    return source.prepared(DataPlan(**plan), np.random.RandomState(0), Group())


def test_source_prepares_what_arrays_of_the_same_rows_do(path: Path) -> None:
    x, y, _ = read_all(regression(path))
    found = prepared(regression(path))
    expected = ArraySource(x, y).prepared(DataPlan(), np.random.RandomState(0))
    assert (found.n_rows, found.n_outputs) == (expected.n_rows, expected.n_outputs)
    for name in ("x_scaling", "y_scaling"):
        for part in ("shift", "scale"):
            np.testing.assert_allclose(getattr(getattr(found, name), part), getattr(getattr(expected, name), part))
    np.testing.assert_array_equal(found.input_range, expected.input_range)
    assert found.sample is not None
    assert expected.sample is not None
    assert sorted(found.sample.x[:, 0]) == sorted(expected.sample.x[:, 0])


def test_source_holds_rows_out_by_their_numbers(path: Path) -> None:
    x, _, rows = read_all(regression(path))
    found = prepared(regression(path), calibration_rows=lambda n_rows: n_rows // 4, validation_fraction=0.2)
    assert found.stream is not None
    draw = uniform(found.stream.seed + 1, rows)
    assert found.validation is not None
    assert found.calibration is not None
    assert found.stream.held_out_share == pytest.approx(0.25 + 0.2 * 0.75)
    np.testing.assert_array_equal(found.validation.x, x[draw < 0.15])
    np.testing.assert_array_equal(found.calibration.x, x[(draw >= 0.15) & (draw < found.stream.held_out_share)])
    assert found.n_rows == int(found.stream.counts.sum()) == int((draw >= found.stream.held_out_share).sum())


def test_source_numbers_its_classes_in_their_order(path: Path) -> None:
    source = ParquetSource(path, target="label", features=["a", "b"])
    found = prepared(source, classes=True, calibration_rows=lambda n_rows: 60)
    assert found.classes is not None
    assert found.classes.tolist() == ["down", "up"]
    x, labels, _ = read_all(source, classes=True)
    of_row = dict(zip(x[:, 0], labels, strict=True))
    for part in (found.sample, found.calibration):
        assert part is not None
        assert [found.classes[int(place)] for place in part.y[:, 0]] == [of_row[key] for key in part.x[:, 0]]


def test_data_come_back_from_their_state_without_the_sample(path: Path) -> None:
    source = regression(path, weight="w")
    before = prepared(source, calibration_rows=lambda n_rows: n_rows // 4, validation_fraction=0.2)
    after = TrainingData.from_state(*before.state())
    assert after.sample is None
    assert before.stream is not None
    assert after.stream is not None
    np.testing.assert_array_equal(after.stream.counts, before.stream.counts)
    for name in ("mean_weight", "seed", "held_out_share", "n_dropped"):
        assert getattr(after.stream, name) == getattr(before.stream, name)
    for name in ("measured", "validation", "calibration"):
        for part in ("x", "y", "weight"):
            np.testing.assert_array_equal(getattr(getattr(after, name), part), getattr(getattr(before, name), part))
    assert (after.n_rows, after.n_outputs) == (before.n_rows, before.n_outputs)
    np.testing.assert_array_equal(after.x_scaling.scale, before.x_scaling.scale)


def test_reading_ahead_keeps_the_order_and_passes_errors_on() -> None:
    assert list(read_ahead(lambda number: number**2, [3, 1, 2])) == [9, 1, 4]
    assert list(read_ahead(str, [])) == []

    def failing(number: int) -> int:
        if number == 2:
            raise TableError("damaged")
        return number

    found = read_ahead(failing, range(5))
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(TableError, match=r"^damaged$"):
        next(found)
