"""Files to columns: what is read, and the error for every wrong file."""

from __future__ import annotations

import contextlib
import gzip
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path

import openpyxl
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from deepfls._checks.arguments import did_you_mean, listed, quoted
from deepfls.data.frames import kind_of
from deepfls.data.tables import TableError, read_table

Write = Callable[[str, "str | bytes"], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a file into an empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, content: str | bytes) -> Path:
        path = Path(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def refused(path: str | Path) -> str:
    with pytest.raises(TableError) as caught:
        read_table(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "a,b\n1,2.5\n3,4\n"),
        ("T.CSV", "a,b\n1,2.5\n3,4"),
        ("bom.csv", "\ufeffa,b\n1,2.5\n3,4\n"),
        ("windows.csv", "a,b\r\n1,2.5\r\n3,4\r\n"),
        ("semicolon.csv", "a;b\n1;2.5\n3;4\n"),
        ("tab.csv", "a\tb\n1\t2.5\n3\t4\n"),
        ("t.tsv", "a\tb\n1\t2.5\n3\t4\n"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2.5\n3,4\n", mtime=0)),
        ("quoted.csv", '"a","b"\n"1","2.5"\n"3","4"\n'),
        ("blank lines.csv", "\na,b\n1,2.5\n\n3,4\n\n"),
        ("with [brackets]*.csv", "a,b\n1,2.5\n3,4\n"),
    ],
)
def test_csv_is_read_in_every_variant(write: Write, name: str, content: str | bytes) -> None:
    assert read_table(write(name, content)).table.to_pydict() == {"a": [1, 3], "b": [2.5, 4.0]}


def test_parquet_is_read_without_the_row_index_of_pandas(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [1, 3], "__index_level_0__": [7, 8]}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").table.to_pydict() == {"a": [1, 3]}


def test_folder_names_with_an_equals_sign_add_no_column(tmp_path: Path) -> None:
    (tmp_path / "year=2020").mkdir()
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "year=2020" / "t.parquet")
    assert read_table(tmp_path / "year=2020" / "t.parquet").names == ["a"]


def test_text_columns_stay_text_where_they_look_like_numbers(write: Write) -> None:
    table = read_table(write("t.csv", "zip,b\n01,2\n10,3\n"), text_columns=["zip", "absent"]).table
    assert table.column("zip").to_pylist() == ["01", "10"]


def test_line_break_in_quotes_is_part_of_the_value(write: Write) -> None:
    table = read_table(write("t.csv", 'a,b\n"x\ny",2\nz,3\n')).table
    assert table.column("a").to_pylist() == ["x\ny", "z"]


def test_line_breaks_in_quotes_survive_the_end_of_a_block(write: Write) -> None:
    value = "x\n" * 400_000
    table = read_table(write("t.csv", "a,b\n" + f'"{value}",2\n' * 3)).table
    assert table.column("a").to_pylist() == [value] * 3


def test_pattern_joins_files_in_order(write: Write) -> None:
    write("parts/b.csv", "b,a\n0.5,3\n")
    write("parts/a.csv", "a,b\n1,1\n2,\n")
    data = read_table("parts/*.csv")
    assert data.table.to_pydict() == {"a": [1, 2, 3], "b": [1.0, None, 0.5]}
    assert data.place(0) == "data row 1 of 'a.csv'"
    assert data.place(2) == "data row 1 of 'b.csv'"


def test_pattern_joins_parquet_files_of_different_categories(tmp_path: Path) -> None:
    for name, values in (("a", ["x", "y"]), ("b", ["z", "x"])):
        parquet.write_table(pa.table({"c": pa.array(values).dictionary_encode()}), tmp_path / f"{name}.parquet")
    assert read_table(tmp_path / "*.parquet").table.column("c").to_pylist() == ["x", "y", "z", "x"]


def test_pattern_leaves_out_files_of_column_names_only(write: Write) -> None:
    parquet.write_table(pa.table({"a": pa.array([], pa.string())}), write("a.parquet", ""))
    parquet.write_table(pa.table({"a": [1.5]}), write("b.parquet", ""))
    assert read_table("*.parquet").table.to_pydict() == {"a": [1.5]}


def test_missing_file_is_refused_with_a_near_name(write: Write) -> None:
    write("plant.csv", "a\n1\n")
    assert refused("plnat.csv") == "There is no file 'plnat.csv'. Did you mean 'plant.csv'?"
    assert refused("Plant.csv") == "There is no file 'Plant.csv'. Did you mean 'plant.csv'?"
    assert refused("zebra.parquet") == "There is no file 'zebra.parquet'."
    assert refused("nowhere/plant.csv") == "There is no file 'nowhere/plant.csv'."
    folder = Path.cwd()
    assert refused("./../" + folder.name + "/plnat.csv").endswith(f" Did you mean '../{folder.name}/plant.csv'?")
    assert refused(f"{folder}/plnat.csv").endswith(f" Did you mean '{folder}/plant.csv'?")


def test_pattern_without_a_match_is_refused(write: Write) -> None:
    write("a.csv", "a\n1\n")
    assert refused("*.parquet") == "No file matches '*.parquet'."


def test_folder_is_refused(write: Write) -> None:
    write("parts/a.csv", "a\n1\n")
    assert refused("parts") == "'parts' is a folder: give one of its files, or all of them as 'parts/*.csv'."
    write("empty/a.png", "")
    assert refused("empty").startswith("'empty' is a folder without tables: give a file that ends in .csv, ")


def test_wrong_ending_is_refused(write: Write) -> None:
    endings = "'{}' must end in .csv, .csv.gz, .tsv, .tsv.gz, .txt, .dat, .data, .parquet, .pq, .xlsx{}."
    assert refused(write("t.png", "{}")) == endings.format("t.png", "")
    assert refused(write("t.json", "{}")) == endings.format("t.json", ": write it as CSV")
    assert refused(write("t.xls", "")) == endings.format("t.xls", ": save the sheet as CSV")
    assert refused(write("t.zip", "PK")) == endings.format("t.zip", ": unpack it")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "t.csv",
            b"PK\x03\x04",
            "is an Excel workbook or a zip archive: rename the one to end in .xlsx, or unpack the other",
        ),
        ("t.csv", gzip.compress(b"a\n1\n", mtime=0), "is compressed by gzip: rename it to end in .csv.gz"),
        ("t.csv.gz", b"a\n1\n", "is not compressed by gzip: rename it to end in .csv"),
        ("t.csv", b"<!DOCTYPE html>\n<p>x</p>\n", "is a web page: download the table itself, or save it as CSV"),
        ("t.csv", b'[{"a": 1}]\n', "is a JSON file: save the table as CSV"),
        ("t.csv", b"sep=;\n", "must have rows, got a line that names the delimiter only"),
        ("t.csv", b"a,b\n1,\0\n", "is not a text file: save the table as CSV in UTF-8"),
        ("t.xlsx", b"PK", "cannot be read: the zip archive is damaged: File is not a zip file"),
        ("t.xlsx", b"", "is empty"),
    ],
)
def test_file_of_another_kind_is_refused_with_what_to_do(write: Write, name: str, content: bytes, message: str) -> None:
    assert refused(write(name, content)) == f"'{name}' {message}."


def test_hidden_sheet_of_a_workbook_is_not_read(write: Write) -> None:
    path = write("t.xlsx", "")
    book = openpyxl.Workbook()
    book.active.sheet_state = "hidden"
    data = book.create_sheet("Data")
    for sheet, rows in ((book.active, (["colour", "code"], ["red", 1])), (data, (["a", "y"], [1.5, 2], [2.5, 3]))):
        for row in rows:
            sheet.append(row)
    book.active = 1
    book.save(path)
    with pytest.warns(UserWarning, match="of which 'Data' is read"):
        assert read_table(path).names == ["a", "y"]


def test_first_sheet_of_a_workbook_is_read_and_told(write: Write) -> None:
    path = write("t.xlsx", "")
    book = openpyxl.Workbook()
    for row in (["a", "day"], [1.5, date(2024, 1, 2)], [None, date(2024, 1, 3)]):
        book.active.append(row)
    book.create_sheet("other").append([1])
    book.save(path)
    with pytest.warns(
        UserWarning, match=r"^'t\.xlsx' has 2 sheets, of which 'Sheet' is read; save another one as CSV to use it\.$"
    ):
        table = read_table(path).table
    assert table.column("a").to_pylist() == [1.5, None]
    assert kind_of(table.schema.field("day").type) == "date"


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_empty_file_is_refused(write: Write, name: str) -> None:
    assert refused(write(name, "")) == f"'{name}' is empty."


@pytest.mark.parametrize("content", ["\n \n\n", "\ufeff", "\ufeff\n"])
def test_file_of_blanks_is_empty(write: Write, content: str) -> None:
    assert refused(write("t.csv", content)) == "'t.csv' is empty."


@pytest.mark.parametrize("content", ["a,b", "a,b\n", "a,b\n\n\n"])
def test_header_without_rows_is_refused(write: Write, content: str) -> None:
    assert refused(write("t.csv", content)) == "'t.csv' must have rows, got column names only."


def test_parquet_without_rows_is_refused(write: Write) -> None:
    path = write("t.parquet", "")
    parquet.write_table(pa.table({"a": pa.array([], pa.float64())}), path)
    assert refused(path) == "'t.parquet' must have rows, got column names only."


@pytest.mark.parametrize(
    ("content", "got"),
    [
        ("a,b\n1,2\n3\n", "got 1 in data row 2"),
        ("a,b\n1,2\n\n3,4,5\n", "got 3 in data row 2"),
        ("a,b\n" + "1,2\n" * 300_000 + "3\n", "got 1 in data row 300001"),
    ],
    ids=["short", "long", "far down"],
)
def test_ragged_row_is_refused(write: Write, content: str, got: str) -> None:
    correct = f"{got}: correct that row, or remove it."
    assert refused(write("t.csv", content)) == f"'t.csv' must have 2 columns in every row as in its header, {correct}"


@pytest.mark.parametrize("content", ["a,b\n1,2\n", "a,b\n1,2\n3\n"], ids=["whole", "ragged"])
def test_csv_is_read_without_a_python_function_in_pyarrow(
    write: Write, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A thread of pyarrow that releases a Python function during the shutdown of the interpreter aborts the process.
    arguments: list[object] = []
    options = csv.ParseOptions

    def parse_options(**given: object) -> csv.ParseOptions:
        arguments.extend(given.values())
        return options(**given)

    monkeypatch.setattr(csv, "ParseOptions", parse_options)
    with contextlib.suppress(TableError):
        read_table(write("t.csv", content))
    assert arguments
    assert not any(map(callable, arguments))


@pytest.mark.parametrize("content", [b"\0hello", b"PAR1" + b"0" * 20 + b"PAR1"])
def test_foreign_or_damaged_parquet_is_refused(write: Write, content: str | bytes) -> None:
    assert refused(write("t.parquet", content)) == "'t.parquet' is not a Parquet file, or it is damaged."


def test_parquet_called_csv_is_refused(write: Write) -> None:
    path = write("t.csv", "")
    parquet.write_table(pa.table({"a": [1]}), path)
    assert refused(path) == "'t.csv' is a Parquet file: rename it to end in .parquet."


def test_broken_compression_is_refused(write: Write) -> None:
    message = refused(write("t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 1000, mtime=0)[:30]))
    assert message.startswith("'t.csv.gz' cannot be read: ")
    assert message.count("\n") == 0


def test_other_encodings_are_read(write: Write) -> None:
    with pytest.warns(UserWarning, match=r"^'t\.csv' is not UTF-8 text and is read as Windows-1252\.$"):
        assert read_table(write("t.csv", "é,b\n1,2\n".encode("latin-1"))).names == ["é", "b"]
    assert read_table(write("u.csv", "é,b\n1,2\n".encode("utf-16"))).names == ["é", "b"]


def test_names_that_come_again_get_a_number(write: Write) -> None:
    with pytest.warns(UserWarning, match="has several columns of the same name: the later ones are called 'a_2', 'b_2'"):
        assert read_table(write("t.csv", "a,b,a,b,c\n1,2,3,4,5\n")).names == ["a", "b", "a_2", "b_2", "c"]
    path = write("t.parquet", "")
    parquet.write_table(pa.Table.from_arrays([pa.array([1])] * 3, names=["a", "a", "a_2"]), path)
    with pytest.warns(UserWarning, match="are called 'a_3'"):
        assert read_table(path).names == ["a", "a_3", "a_2"]


def test_delimiter_is_the_one_that_rows_have_as_often_as_the_header(write: Write) -> None:
    assert read_table(write("t.csv", 'a;"b, c"\n1,5;2,5\n2,5;3,5\n')).names == ["a", "b, c"]
    assert read_table(write("u.csv", "a|b\n1|2\n")).names == ["a", "b"]


def test_files_of_other_columns_are_refused(write: Write) -> None:
    write("a.csv", "a,b\n1,2\n")
    path = write("b.csv", "a\n1\n")
    assert refused("*.csv") == "'b.csv' must have the columns of 'a.csv', got no column 'b'."
    path.write_text("a,b,c\n1,2,3\n")
    assert refused("*.csv") == "'b.csv' must have the columns of 'a.csv', got a column 'c' besides."


def test_files_of_other_types_are_refused(write: Write) -> None:
    write("a.csv", "a\n1\n")
    write("b.csv", "a\nlow\n")
    assert refused("*.csv") == "Column 'a' must hold the same in every file, got numbers in 'a.csv' and text in 'b.csv'."


def test_unreadable_file_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write("t.csv", "a\n1\n")
    monkeypatch.setattr("deepfls.data.tables.open_csv_form", forbidden)
    assert refused(path) == "'t.csv' cannot be read: Permission denied."


def test_missing_column_is_refused_with_a_near_name(write: Write) -> None:
    data = read_table(write("t.csv", "Temperature, b\n1,2\n"))
    for name, message in {
        "temperature": "'t.csv' has no column 'temperature' to keep. Did you mean 'Temperature'?",
        "zzz": "'t.csv' has no column 'zzz' to keep. Its columns are 'Temperature', 'b'.",
    }.items():
        with pytest.raises(TableError, match=f"^{re.escape(message)}$"):
            data.require([name], why=" to keep")


def test_missing_header_is_guessed(write: Write) -> None:
    data = read_table(write("t.csv", "1,2\n3,4\n"))
    with pytest.raises(
        TableError, match=r"^'t\.csv' has no column 'y'\. Its first row must hold the names of the columns\.$"
    ):
        data.require(["y"])


@pytest.mark.parametrize("address", ["https://example.com/t.csv", "HTTP://example.com/t.csv.gz", "s3://bucket/t.parquet"])
def test_address_is_not_a_file(address: str) -> None:
    more = "; --stream reads Parquet files from there." if address.startswith("s3") else "."
    assert refused(address) == (
        f"{address!r} is an address, and tables are read from files: download it, and give that file{more}"
    )


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("t.parquet.gz", "", "must end in .csv, .csv.gz, .*: unpack it"),
        ("t.feather", "", "must end in .*: write it as Parquet"),
        ("t", "a,b\n1,2\n", "must end in .*: rename it to end in .csv if columns are separated by commas or other marks"),
        ("t.parquet", "a,b\n1,2\n", "is a text file: rename it to end in .csv"),
        ("t.parquet", b"PAR1 and no more", "is not a Parquet file, or it is damaged"),
        (
            "t.csv",
            "a,b\n1,5,2,5\n3,5,4,5\n",
            "got 4 in data row 1: name every column; if its numbers have decimal commas, save it with semicolons between "
            "columns",
        ),
    ],
)
def test_unusable_file_says_what_to_do(write: Write, name: str, content: str | bytes, told: str) -> None:
    assert re.search(rf"{told}\.$", refused(write(name, content)))


def test_names_in_a_later_row_are_found(write: Write) -> None:
    data = read_table(write("t.csv", "Station: 5,,by: M\nDate,Heat,Growth\n2024-01-01,1,2\n2024-01-02,3,4\n"))
    message = "It stands in data row 1: leave out the lines above, so that the names of columns come first"
    for name in ("Date", "Growth"):
        with pytest.raises(TableError, match=message):
            data.require([name])


def test_names_that_are_joined_by_commas_are_told(write: Write) -> None:
    data = read_table(write("t.csv", "a,b,y\n1,2,3\n4,5,6\n"))
    with pytest.raises(TableError, match=r"has no column 'a, b' to drop\. Name 'a', 'b' one by one\.$"):
        data.require(["a, b"], " to drop")


def test_folder_of_folders_is_told_with_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "year=2024").mkdir()
    (tmp_path / "year=2024" / "a.csv").write_text("a,y\n1,2\n3,4\n")
    with pytest.raises(TableError, match="is a folder of folders") as error:
        read_table(tmp_path)
    pattern = str(error.value).rpartition(" as ")[2].rstrip(".")
    assert read_table(pattern.strip("'")).n_rows == 2


def test_names_in_the_first_column_are_found(write: Write) -> None:
    data = read_table(write("t.csv", "name,r1,r2\na,1,2\ny,3,4\n"))
    with pytest.raises(TableError, match="It stands in the first column: exchange the rows and columns of the table first"):
        data.require(["y"])


def test_names_in_messages_cannot_act_on_a_terminal() -> None:
    assert quoted("\x1b[31m\u202e\n") == r"'\x1b[31m\u202e\n'"
    assert len(quoted("x" * 500)) == 82
    assert listed("abcdefg") == "'a', 'b', 'c', 'd', 'e' and 2 more"
    assert did_you_mean("\x1bab", ["\x1babc"]) == r" Did you mean '\x1babc'?"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Sales,,\nregion,a,y\nn,1,2\ns,2,3\n", "The first line of 't.csv' is left out"),
        ("Sales;;\n;;\nregion;a;y\nn;1,5;2\ns;2;3\n", "The first 2 lines of 't.csv' are left out"),
    ],
)
def test_titles_with_the_delimiters_of_empty_cells_are_left_out(write: Write, text: str, told: str) -> None:
    path = write("t.csv", text)
    with pytest.warns(UserWarning, match=f"^{told}, as a title or comment above the names of columns.$"):
        table = read_table(path)
    assert table.names == ["region", "a", "y"]
    assert table.n_rows == 2


@pytest.mark.parametrize("text", ["a,,\n1,,\n2,,\n", ",a\nx,red\ny,blue\n"])
def test_rows_of_few_values_are_no_titles(write: Write, text: str) -> None:
    assert read_table(write("t.csv", text)).n_rows == 2
