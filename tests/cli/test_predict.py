"""``deepfls predict``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from deepfls import FLSClassifier, FLSRegressor, load

FAST = ("--epochs", "2", "--n-rules", "2", "--random-state", "0")

Run = Callable[..., Any]
Refused = Callable[..., str]


@pytest.fixture
def model(run: Run) -> str:
    """A model of y from x."""
    run("train", "plant.csv", "--target", "y", "--feature", "x", *FAST, "--out", "m.fls")
    return "m.fls"


@pytest.fixture
def classifier(run: Run) -> str:
    """A model of label from x and the categories of color."""
    arguments = ("--target", "label", "--feature", "x", "--feature", "color")
    run("train", "plant.csv", *arguments, *FAST, "--out", "c.fls")
    return "c.fls"


def expected(model: str) -> np.ndarray:
    x = csv.read_csv("plant.csv").select(["x"])
    return np.asarray(load(model).predict(x))


def test_predict_copies_columns_of_any_type_to_csv(run: Run, model: str) -> None:
    kept = {
        "lists": pa.array([[1, 2], None]),
        "bytes": pa.array([b"\xff", b"a"]),
        "views": pa.array(["a,b", "c"], pa.string_view()),
        "records": pa.array([{"k": 1}, {"k": 2}]),
    }
    parquet.write_table(pa.table({"x": [1.0, 2.0], **kept}), "kept.parquet")
    keep = [word for name in kept for word in ("--keep", name)]
    lines = run("predict", model, "kept.parquet", *keep).stdout.splitlines()
    assert lines[0] == "lists,bytes,views,records,y"
    assert lines[1].startswith('"[1, 2]","b\'\\xff\'","a,b","{\'k\': 1}",')


def test_predict_refuses_levels_whose_columns_would_have_one_name(refused: Refused, model: str) -> None:
    for levels in ("0.1,0.1", "0.12345678,0.12345679"):
        message = f"--quantiles must be levels that differ in six digits, got '{levels}'."
        assert refused("predict", model, "plant.csv", "--quantiles", levels, code=2) == message


@pytest.mark.skipif(os.name != "posix", reason="names of files are bytes on POSIX alone")
def test_file_whose_name_is_no_utf_8_is_told(refused: Refused, model: str, folder: Path) -> None:
    name = os.fsdecode(b"gr\xf6sse.csv")
    (folder / name).write_bytes((folder / "plant.csv").read_bytes())
    message = "Names of files and columns must be UTF-8 text, got 'gr\\udcf6sse.csv': rename it."
    assert refused("predict", model, name, code=1) == message


def test_predict_writes_csv_that_reads_back_exactly(run: Run, model: str) -> None:
    result = run("predict", model, "plant.csv", "--out", "p.csv")
    assert result.stdout == "Wrote 40 predictions to p.csv\n"
    assert result.stderr == ""
    table = csv.read_csv("p.csv")
    assert table.schema.names == ["y"]
    assert np.array_equal(table.column("y").to_numpy(), expected(model))


def test_predict_writes_parquet(run: Run, model: str) -> None:
    run("predict", model, "plant.csv", "--out", "p.parquet")
    assert np.array_equal(parquet.read_table("p.parquet").column("y").to_numpy(), expected(model))


@pytest.mark.parametrize("out", [(), ("--out", "-")], ids=["absent", "dash"])
def test_predict_prints_csv_and_nothing_else(run: Run, model: str, out: tuple[str, ...]) -> None:
    result = run("predict", model, "plant.csv", *out)
    lines = result.stdout.splitlines()
    assert lines[0] == "y"
    assert [float(line) for line in lines[1:]] == expected(model).tolist()
    assert result.stderr == ""


def test_predict_names_several_targets(run: Run) -> None:
    run("train", "plant.csv", "--target", "y", "--target", "z", "--feature", "x", *FAST, "--out", "m.fls")
    lines = run("predict", "m.fls", "plant.csv").stdout.splitlines()
    assert lines[0] == "y,z"
    assert np.array_equal([[float(v) for v in line.split(",")] for line in lines[1:]], expected("m.fls"))


def test_predict_gives_class_and_probabilities(run: Run, classifier: str) -> None:
    run("predict", classifier, "plant.csv", "--out", "p.csv")
    header, first = Path("p.csv").read_text().splitlines()[:2]
    assert header == "label,label=down,label=up"
    assert first.startswith("down,0.")
    table = csv.read_csv("p.csv")
    probabilities = np.stack([table.column(name).to_numpy() for name in ("label=down", "label=up")], axis=1)
    assert np.allclose(probabilities.sum(axis=1), 1.0)
    assert table.column("label").to_pylist() == np.array(["down", "up"])[probabilities.argmax(axis=1)].tolist()


def test_predict_needs_neither_targets_nor_other_columns(run: Run, classifier: str, folder: Path) -> None:
    rows = ["color,x", *(f"{c},{x}" for c, x in (("blue", 1), ("red", 2)))]
    (folder / "new.csv").write_text("\n".join(rows))
    assert len(run("predict", classifier, "new.csv").stdout.splitlines()) == 3


def test_predict_reads_categories_that_look_like_numbers(run: Run, folder: Path) -> None:
    (folder / "t.csv").write_text("zip,y\n" + "01,1\n10,2\nA1,3\n" * 5)
    run("train", "t.csv", "--target", "y", *FAST, "--out", "m.fls")
    (folder / "new.csv").write_text("zip\n01\n10\n")
    assert len(run("predict", "m.fls", "new.csv").stdout.splitlines()) == 3


def test_predict_carries_columns_along(run: Run, model: str) -> None:
    result = run("predict", model, "plant.csv", "--keep", "color", "--keep", "y", "--prefix", "predicted_")
    assert result.stdout.splitlines()[0] == "color,y,predicted_y"
    assert result.stdout.splitlines()[2].startswith("green,0.01,")


def test_predict_quotes_what_needs_it(run: Run, folder: Path) -> None:
    (folder / "t.csv").write_text('x,"a,b"\n' + '1,"one, ""two"""\n2,three\n' * 5)
    run("train", "t.csv", "--target", "a,b", *FAST, "--out", "m.fls")
    run("predict", "m.fls", "t.csv", "--out", "p.csv", "--keep", "x")
    table = csv.read_csv("p.csv")
    assert table.schema.names == ["x", "a,b", 'a,b=one, "two"', "a,b=three"]
    assert set(table.column("a,b").to_pylist()) <= {'one, "two"', "three"}


def test_predict_adds_the_familiarity_of_rows(run: Run, model: str) -> None:
    run("predict", model, "plant.csv", "--familiarity", "--out", "p.csv")
    table = csv.read_csv("p.csv")
    assert table.schema.names == ["y", "familiarity"]
    expected_ones = load(model).familiarity(csv.read_csv("plant.csv").select(["x"]))
    assert np.array_equal(table.column("familiarity").to_numpy(), expected_ones)


def test_predict_json_describes_what_was_written(run: Run, model: str) -> None:
    content = json.loads(run("predict", model, "plant.csv", "--out", "p.csv", "--json").stdout)
    assert content == {
        "command": "predict",
        "model": "m.fls",
        "data": ["plant.csv"],
        "predictions": "p.csv",
        "rows": 40,
        "columns": ["y"],
        "warnings": [],
    }


def test_predict_quiet_is_quiet(run: Run, model: str) -> None:
    assert run("predict", model, "plant.csv", "--out", "p.csv", "--quiet").output == ""


def test_predict_takes_a_model_trained_in_python(run: Run, folder: Path) -> None:
    x = np.linspace(0, 1, 20).reshape(-1, 2)
    FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(x, x).save("m.fls")
    (folder / "t.csv").write_text("a,b\n0,1\n1,0\n")
    lines = run("predict", "m.fls", "t.csv").stdout.splitlines()
    assert lines[0] == "y0,y1"
    predicted = [[float(v) for v in line.split(",")] for line in lines[1:]]
    assert predicted == load("m.fls").predict([[0.0, 1.0], [1.0, 0.0]]).tolist()
    FLSClassifier(n_rules=2, epochs=1, random_state=0).fit(pa.table({"b": x[:, 0]}), [1, 2] * 5).save("c.fls")
    assert run("predict", "c.fls", "t.csv").stdout.splitlines()[0] == "y,y=1,y=2"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--json",), "--json must be given with --out, because predictions would fill standard output."),
        (("--out", "p.txt"), "--out must end in .csv, .parquet, .pq, got 'p.txt'."),
        (("--out", "no/p.csv"), "--out must be in a folder that exists, got 'no/p.csv'."),
        (("--out", "plant.csv", "--force"), "--out must not be a file that is read, got 'plant.csv'."),
        (("--out", "there.csv"), "'there.csv' already exists: replace it with --force, or give another --out."),
    ],
    ids=" ".join,
)
def test_predict_tells_wrong_usage(
    refused: Refused, model: str, folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    (folder / "there.csv").write_text("precious")
    assert refused("predict", model, "plant.csv", *arguments, code=2) == message
    assert (folder / "there.csv").read_text() == "precious"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("X\n1\n", "'new.csv' has no column 'x' that the model reads. Did you mean 'X'?"),
        (
            "x\n1\ninf\n",
            "Column 'x' of 'new.csv' must have a finite number in every row, got inf in data row 2; an empty value in "
            "its place counts as missing.",
        ),
        ("x\n", "'new.csv' must have rows, got column names only."),
    ],
    ids=["renamed", "infinite", "empty"],
)
def test_predict_tells_wrong_data(refused: Refused, model: str, folder: Path, content: str, message: str) -> None:
    (folder / "new.csv").write_text(content)
    assert refused("predict", model, "new.csv", "--out", "p.csv", code=1) == message
    assert not (folder / "p.csv").exists()


def test_predict_takes_missing_values_and_unknown_categories(run: Run, classifier: str, folder: Path) -> None:
    (folder / "new.csv").write_text("x,color\n1,red\n2,mauve\n?,blue\n,NA\n")
    # The rows are read for the classes and again for their familiarity, and told of once.
    result = run("predict", classifier, "new.csv", "--familiarity")
    assert len(result.stdout.splitlines()) == 5
    assert result.stderr == (
        "Warning: Column 'color' has values that the model does not know, which count as missing: 'mauve'.\n"
    )


def test_predict_tells_a_wrong_column_to_keep(refused: Refused, model: str) -> None:
    message = "'plant.csv' has no column 'colour' to keep. Did you mean 'color'?"
    assert refused("predict", model, "plant.csv", "--keep", "colour", code=1) == message
    message = "Column 'y' is both kept and predicted: name the latter with --prefix predicted_."
    assert refused("predict", model, "plant.csv", "--keep", "y", code=1) == message


def test_predict_tells_a_wrong_model(refused: Refused, model: str, folder: Path) -> None:
    message = "There is no model file 'n.fls'. Did you mean 'm.fls'?"
    assert refused("predict", "n.fls", "plant.csv", code=1) == message
    told = "'plant.csv' is a table: give the model file, such as model.fls, first."
    assert refused("predict", "plant.csv", model, code=1) == told
    whole = (folder / model).read_bytes()
    (folder / model).write_bytes(whole[:-8])
    assert refused("predict", model, "plant.csv", code=1).startswith("'m.fls' is not a deepfls model, or it is truncated")


def test_predict_tells_a_wrong_number_of_unnamed_columns(refused: Refused) -> None:
    x = np.linspace(0, 1, 20).reshape(-1, 2)
    FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(x, x).save("m.fls")
    message = "'plant.csv' must have 2 columns of inputs for a model trained without column names, got 7."
    assert refused("predict", "m.fls", "plant.csv", code=1) == message


@pytest.mark.parametrize(
    "table", [{"features": ["q"]}, {"features": ["q"], "categories": {}, "targets": [], "target_kind": "text"}]
)
def test_predict_tells_a_damaged_description_of_columns(refused: Refused, model: str, table: dict[str, Any]) -> None:
    estimator = load(model)
    estimator.table_ = table
    estimator.save(model)
    message = "The model's description of its columns is damaged: train the model again."
    assert refused("predict", model, "plant.csv", code=1) == message


def test_predict_leaves_the_old_file_when_writing_fails(
    refused: Refused, model: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (folder / "p.csv").write_text("precious")
    monkeypatch.setattr("os.fsync", full)
    assert (
        refused("predict", model, "plant.csv", "--out", "p.csv", "--force", code=1) == "No space left on device: 'p.csv'."
    )
    assert (folder / "p.csv").read_text() == "precious"
    assert sorted(path.name for path in folder.iterdir()) == ["m.fls", "p.csv", "plant.csv"]


def test_standard_input_is_refused_with_what_to_do(refused: Callable[..., str], folder: Path) -> None:
    message = "A table cannot be read from standard input or a pipe: write it to a file, and give that file."
    assert refused("train", "-", "--target", "y", code=1) == message
    os.mkfifo(folder / "pipe")
    assert refused("train", "pipe", "--target", "y", code=1) == message


def test_kept_categories_are_written_as_text(run: Run, model: str, folder: Path) -> None:
    table = csv.read_csv("plant.csv").slice(0, 3)
    colors = table.column("color").dictionary_encode()
    parquet.write_table(table.set_column(table.schema.get_field_index("color"), "color", colors), "t.parquet")
    lines = run("predict", model, "t.parquet", "--keep", "color").stdout.splitlines()
    assert [line.split(",")[0] for line in lines] == ["color", "red", "green", "blue"]
