"""``deepfls train``."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.model_selection import train_test_split

from deepfls import FLSClassifier, FLSRegressor, load

FAST = ("--epochs", "3", "--n-rules", "2", "--random-state", "0")
SAME = {"epochs": 3, "n_rules": 2, "random_state": 0}

Run = Callable[..., Any]
Refused = Callable[..., str]


def columns(*names: str) -> pa.Table:
    return csv.read_csv("plant.csv").select(list(names)).cast(pa.schema([(name, pa.float64()) for name in names]))


def target(name: str) -> np.ndarray:
    return np.asarray(csv.read_csv("plant.csv").column(name).to_pylist())


def test_train_gives_what_the_estimator_gives(run: Run) -> None:
    run("train", "plant.csv", "--target", "y", "--feature", "x", "--feature", "w", *FAST, "--out", "m.fls")
    x = columns("x", "w")
    expected = FLSRegressor(**SAME).fit(x, target("y"))
    model = load("m.fls")
    assert np.array_equal(model.predict(x), expected.predict(x))
    assert list(model.feature_names_in_) == ["x", "w"]


def test_train_prints_a_table_and_says_what_it_measured(run: Run) -> None:
    lines = run("train", "plant.csv", "--target", "y", "--feature", "x", *FAST, "--out", "m.fls").stdout.splitlines()
    assert lines[0] == "Training on plant.csv: 40 rows, 1 input, target y"
    assert lines[2].split() == ["target", "rows", "RMSE", "MAE", "R²"]
    assert lines[4].split()[:2] == ["y", "train"]
    assert lines[6] == "Measured on the training rows; --test-fraction 0.2 would hold rows out."
    assert lines[7].startswith("Saved m.fls: it2, 2 rules, 3 epochs, ")
    assert len(lines) == 8


def test_train_is_clean_on_standard_error(run: Run) -> None:
    assert run("train", "plant.csv", "--target", "y", "--feature", "x", *FAST).stderr == ""


def test_train_writes_model_fls_by_default(run: Run, folder: Path) -> None:
    run("train", "plant.csv", "--target", "y", "--feature", "x", *FAST)
    assert (folder / "model.fls").is_file()


def test_train_reads_parquet_like_csv(run: Run) -> None:
    parquet.write_table(csv.read_csv("plant.csv"), "plant.parquet")
    for name in ("csv", "parquet"):
        run("train", f"plant.{name}", "--target", "y", "--feature", "x", *FAST, "--out", f"{name}.fls")
    x = columns("x")
    assert np.array_equal(load("csv.fls").predict(x), load("parquet.fls").predict(x))


def test_train_reads_all_files_of_a_pattern(run: Run, folder: Path) -> None:
    lines = (folder / "plant.csv").read_text().splitlines(keepends=True)
    for name, part in (("a", lines[1:15]), ("b", lines[15:])):
        (folder / f"part-{name}.csv").write_text("".join([lines[0], *part]))
    result = run("train", "part-*.csv", "--target", "y", "--feature", "x", *FAST)
    assert result.stdout.splitlines()[0] == "Training on 2 files: 40 rows, 1 input, target y"


def test_train_takes_several_targets(run: Run) -> None:
    result = run("train", "plant.csv", "--target", "y", "--target", "z", "--feature", "x", *FAST, "--out", "m.fls")
    assert "1 input, targets y, z" in result.stdout
    x = columns("x")
    expected = FLSRegressor(**SAME).fit(x, np.stack([target("y"), target("z")], axis=1))
    assert np.array_equal(load("m.fls").predict(x), expected.predict(x))


@pytest.mark.parametrize(
    ("name", "task", "classes"),
    [("label", "auto", ["down", "up"]), ("flag", "auto", ["false", "true"]), ("w", "classification", [1, 2])],
)
def test_train_learns_classes(run: Run, name: str, task: str, classes: list[object]) -> None:
    result = run("train", "plant.csv", "--target", name, "--task", task, "--feature", "x", *FAST, "--out", "m.fls")
    assert result.stdout.splitlines()[2].split() == ["target", "rows", "accuracy", "log", "loss"]
    model = load("m.fls")
    assert isinstance(model, FLSClassifier)
    assert model.classes_.tolist() == classes


def test_train_learns_true_and_false_as_numbers_if_told_to(run: Run) -> None:
    run("train", "plant.csv", "--target", "flag", "--task", "regression", "--feature", "x", *FAST, "--out", "m.fls")
    x = columns("x")
    with pytest.warns(UserWarning, match=r"^The target is 0 or 1 in every row: FLSClassifier"):
        expected = FLSRegressor(**SAME).fit(x, target("flag").astype(float))
    assert np.array_equal(load("m.fls").predict(x), expected.predict(x))


def test_train_takes_text_as_categories(run: Run, refused: Refused) -> None:
    arguments = ("train", "plant.csv", "--target", "y", "--drop", "z", "--drop", "label", "--drop", "flag", *FAST)
    content = json.loads(run(*arguments, "--out", "m.fls", "--json").stdout)
    assert list(load("m.fls").feature_names_in_) == ["x", "color", "w"]
    assert content["inputs"] == ["x", "color=blue", "color=green", "color=red", "w"]
    message = refused(*arguments, "--one-hot", code=2)
    assert message.startswith("--one-hot is no longer needed: text columns are categories without it.")


def test_train_passes_weights(run: Run) -> None:
    run("train", "plant.csv", "--target", "y", "--weight", "w", "--feature", "x", *FAST, "--out", "m.fls")
    x = columns("x")
    expected = FLSRegressor(**SAME).fit(x, target("y"), target("w"))
    assert np.array_equal(load("m.fls").predict(x), expected.predict(x))


def test_train_holds_rows_out(run: Run) -> None:
    arguments = ("train", "plant.csv", "--target", "y", "--feature", "x", *FAST, "--test-fraction", "0.25")
    result = run(*arguments)
    assert result.stdout.splitlines()[0] == "Training on plant.csv: 30 of 40 rows, 1 input, target y"
    assert [line.split()[-4] for line in result.stdout.splitlines()[4:6]] == ["train", "test"]
    assert "Measured on" not in result.stdout
    first, second = (json.loads(run(*arguments, "--json", "--force").stdout) for _ in range(2))
    assert first["scores"] == second["scores"]


def test_train_holds_out_what_scikit_learn_holds_out(run: Run) -> None:
    arguments = ("train", "plant.csv", "--target", "y", "--feature", "x", *FAST, "--test-fraction", "0.25")
    content = json.loads(run(*arguments, "--out", "m.fls", "--json").stdout)
    x, y = target("x"), target("y")
    trained, tested = train_test_split(np.arange(40), test_size=0.25, random_state=0)
    expected = FLSRegressor(**SAME).fit(pa.table({"x": np.sort(x[trained])}), np.sort(y[trained]))
    assert np.array_equal(load("m.fls").predict(columns("x")), expected.predict(columns("x")))
    predicted = expected.predict(pa.table({"x": x[tested]}))
    assert content["scores"]["test"]["y"]["rmse"] == pytest.approx(root_mean_squared_error(y[tested], predicted))


def test_train_holds_rows_of_every_class_out(run: Run) -> None:
    arguments = ("train", "plant.csv", "--target", "label", "--feature", "x", *FAST, "--json")
    content = json.loads(run(*arguments, "--test-fraction", "0.95").stdout)
    assert content["rows"] == {"train": 2, "test": 38}
    assert content["classes"] == ["down", "up"]


def test_train_keeps_a_class_of_one_row_for_training(run: Run, folder: Path) -> None:
    text = (folder / "plant.csv").read_text()
    (folder / "rare.csv").write_text(text + "4.0,red,1,16,-40,side,true\n")
    arguments = ("train", "rare.csv", "--target", "label", "--feature", "x", *FAST, "--json")
    content = json.loads(run(*arguments, "--test-fraction", "0.5").stdout)
    assert content["classes"] == ["down", "side", "up"]
    assert content["rows"] == {"train": 21, "test": 20}


def test_train_json_is_the_only_output(run: Run) -> None:
    result = run("train", "plant.csv", "--target", "y", "--feature", "x", *FAST, "--out", "m.fls", "--json")
    assert result.stderr == ""
    content = json.loads(result.stdout)
    predicted = load("m.fls").predict(columns("x"))
    measured = {
        "rmse": root_mean_squared_error(target("y"), predicted),
        "mae": mean_absolute_error(target("y"), predicted),
        "r2": r2_score(target("y"), predicted),
    }
    assert list(content["scores"]) == ["train"]
    assert content["scores"]["train"]["y"] == pytest.approx(measured, rel=1e-12)
    assert content["model"] == "m.fls"
    assert content["data"] == ["plant.csv"]
    assert content["task"] == "regression"
    assert content["inputs"] == ["x"]
    assert content["rows"] == {"train": 40, "test": 0}
    assert content["settings"]["n_rules"] == 2
    assert content["epochs"] == 3
    assert content["stopped_by"] == "epochs"
    assert content["warnings"] == []


def test_train_json_names_classes(run: Run) -> None:
    result = run("train", "plant.csv", "--target", "label", "--feature", "x", *FAST, "--json")
    assert json.loads(result.stdout)["classes"] == ["down", "up"]


def test_train_quiet_is_quiet(run: Run) -> None:
    assert run("train", "plant.csv", "--target", "y", "--feature", "x", *FAST, "--quiet").output == ""


def test_train_passes_every_setting(run: Run) -> None:
    settings = {
        "kind": "it2",
        "n_rules": 3,
        "order": 0,
        "uncertainty": "s",
        "type_reduction": "nt",
        "tnorm": "product",
        "scaling": "none",
        "epochs": 2,
        "batch_size": 8,
        "loss": "huber",
        "loss_options": {"delta": 0.5},
        "optimizer": "sgd",
        "optimizer_options": {"momentum": 0.5, "nesterov": True},
        "learning_rate": 0.001,
        "schedule": "cosine",
        "weight_decay": 0.2,
        "gradient_clip": 1.5,
        "patience": 2,
        "validation_fraction": 0.3,
        "random_state": 7,
        "device": "cpu",
        "dtype": "float64",
        "centers": "grid",
        "consequents": "random",
        "width": 0.5,
        "ridge": 0.01,
    }
    flags = (
        "--kind it2 --n-rules 3 --order 0 --uncertainty s --type-reduction nt --tnorm product --scaling none --epochs 2 "
        "--batch-size 8 --loss huber --loss-options delta=0.5 --optimizer sgd --optimizer-options momentum=0.5 "
        "--optimizer-options nesterov=true --learning-rate 0.001 --schedule cosine --weight-decay 0.2 --gradient-clip 1.5 "
        "--patience 2 --validation-fraction 0.3 --random-state 7 --device cpu --dtype float64 --centers grid "
        "--consequents random --width 0.5 --ridge 0.01"
    )
    run("train", "plant.csv", "--target", "y", "--feature", "x", *flags.split(), "--out", "m.fls")
    assert load("m.fls").get_params() == {**FLSRegressor().get_params(), **settings}


def test_train_does_not_overwrite_unless_forced(run: Run, refused: Refused, folder: Path) -> None:
    (folder / "m.fls").write_text("precious")
    arguments = ("train", "plant.csv", "--target", "y", "--feature", "x", *FAST, "--out", "m.fls")
    assert refused(*arguments, code=2) == "'m.fls' already exists: replace it with --force, or give another --out."
    assert (folder / "m.fls").read_text() == "precious"
    run(*arguments, "--force")
    load("m.fls")


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (".", "--out must be a file, got the folder '.'."),
        ("no/m.fls", "--out must be in a folder that exists, got 'no/m.fls'."),
        ("plant.csv", "--out must be a model file, such as plant.fls, got 'plant.csv'."),
        ("m.parquet", "--out must be a model file, such as m.fls, got 'm.parquet'."),
        ("rules.fis", "--out must be a model file, such as rules.fls, got 'rules.fis'."),
        ("-", "--out must be a file, got - for standard output."),
    ],
)
def test_train_refuses_a_place_that_cannot_be_written(refused: Refused, out: str, message: str) -> None:
    arguments = ("train", "plant.csv", "--target", "y", "--feature", "x", *FAST, "--out", out, "--force")
    assert refused(*arguments, code=2) == message


def test_train_refuses_a_folder_without_the_right_to_write_before_it_trains(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)  # root may write anywhere
    message = refused("train", "plant.csv", "--target", "y", "--feature", "x", *FAST, "--out", "m.fls", code=2)
    assert message == "--out must be in a folder where you may write, got 'm.fls'."


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "a,b\n1,2\n2,3\n3,5\n"),
        ("my rows.csv", "a,the target\n1,2\n2,3\n3,5\n"),
        ("t.csv", "a,--y\n1,2\n2,3\n3,5\n"),
        ("t.csv", "a,it's $HOME\n1,2\n2,3\n3,5\n"),
        ("t.csv", "y,a,day,empty,e\x1b\n1,2,2024-01-01,,1\n2,3,2024-01-02,,2\n3,5,2024-01-03,,3\n"),
        ("t.csv", "".join(f"name {k},{k}.5,{'ab'[k % 2]}\n" for k in (3, 1, 2))),
    ],
    ids=["plain", "blanks", "dashes", "shell", "dates and nothing", "no header"],
)
def test_train_without_a_target_ends_with_a_command_that_works(run: Run, folder: Path, name: str, content: str) -> None:
    (folder / name).write_text(content)
    error = run("train", name, code=2).stderr.splitlines()[-1]
    assert error.startswith("Error: --target must name the column to predict, one of ")
    words = shlex.split(error.partition("for example: ")[2])
    assert words[:2] == ["deepfls", "train"]
    run(*words[1:], *FAST)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "'t.csv' is empty."),
        ("a,b\n", "'t.csv' must have rows, got column names only."),
        ("y\n1\n2\n", "'t.csv' must have a column to predict and another one to learn from, got 'y' alone."),
        ("a,b\n,\n,\n", "'t.csv' must have a column of numbers or classes to predict, got 'a', 'b'."),
    ],
)
def test_train_without_a_target_says_first_what_is_wrong_with_the_table(
    refused: Refused, folder: Path, content: str, message: str
) -> None:
    (folder / "t.csv").write_text(content)
    assert refused("train", "t.csv", code=1) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "DATA, a CSV or Parquet file, must be given. See 'deepfls train --help'."),
        (
            ("plant.csv",),
            "--target must name the column to predict, one of 'x', 'color', 'w', 'y', 'z' and 2 more of 'plant.csv'; for "
            "example: deepfls train plant.csv --target flag",
        ),
        (
            ("plant.csv", "--target", "y", "--rulez", "3"),
            "There is no option --rulez. Did you mean --n-rules? See 'deepfls train --help'.",
        ),
        (("plant.csv", "--target", "y", "--n-rules", "many"), "--n-rules must be an integer or auto, got 'many'."),
        (
            ("plant.csv", "--target", "y", "--task", "classify"),
            "--task must be one of 'auto', 'regression', 'classification', got 'classify'. Did you mean 'classification'?",
        ),
        (
            ("plant.csv", "--target", "y", "--test-fraction", "1"),
            "--test-fraction must be at least 0 and less than 1, got 1.0.",
        ),
        (
            ("plant.csv", "--target", "y", "--random-state", "-1"),
            "--random-state must be between 0 and 4294967295, got -1.",
        ),
        (("plant.csv", "--target", "y", "--batch-size", "big"), "--batch-size must be an integer or auto, got 'big'."),
        (("plant.csv", "--target", "y", "--loss-options", "delta"), "--loss-options must be NAME=VALUE, got 'delta'."),
        (
            ("plant.csv", "--target", "w", "--target", "y", "--feature", "x", "--task", "classification"),
            "Classification takes one --target, got 2.",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_train_tells_wrong_usage(refused: Refused, arguments: tuple[str, ...], message: str) -> None:
    got = refused("train", *arguments, code=2)
    # The words of the option parser change between its versions.
    assert got.startswith(message) if message.startswith(("No such", "Invalid")) else got == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--n-rules", "0"), "--n-rules must be at least 1, got 0."),
        (("--kind", "it3"), "--kind must be one of 't1', 'it2', 'gt2', got 'it3'. Did you mean 'it2'?"),
        (("--batch-size", "0"), "--batch-size must be at least 1, got 0."),
        (
            ("--type-reduction", "kmm"),
            "--type-reduction must be one of 'km', 'nt', 'bmm', 'sm', got 'kmm'. Did you mean 'km'?",
        ),
        (("--loss-options", "delta=1"), "--loss-options has 'delta', which l2 does not take (it takes none)."),
    ],
    ids=" ".join,
)
def test_train_tells_wrong_settings_by_their_flag(refused: Refused, arguments: tuple[str, ...], message: str) -> None:
    assert refused("train", "plant.csv", "--target", "y", "--feature", "x", *arguments, code=2) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plnt.csv", "--target", "y"), "There is no file 'plnt.csv'. Did you mean 'plant.csv'?"),
        (("plant.csv", "--target", "Y"), "'plant.csv' has no column 'Y' to be the target. Did you mean 'y'?"),
        (
            ("plant.csv", "--target", "label", "--task", "regression", "--feature", "x"),
            "Column 'label' of 'plant.csv' must hold numbers, got text ('down' in data row 1); --task classification takes "
            "it as classes, and an empty value as missing.",
        ),
        (
            ("plant.csv", "--target", "y", "--feature", "x", "--test-fraction", "0.99"),
            "'plant.csv' must have enough rows to hold a share of 0.99 out, got 40 rows; train without --test-fraction.",
        ),
        (
            ("plant.csv", "--target", "label", "--feature", "x", "--test-fraction", "0.001"),
            "'plant.csv' must have enough rows of every class to hold a share of 0.001 out, got 40 rows; "
            "train without --test-fraction.",
        ),
        (
            ("plant.csv", "--target", "y", "--target", "label", "--feature", "x"),
            "Several targets must all hold numbers, got text in column 'label'.",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_train_tells_wrong_data(refused: Refused, arguments: tuple[str, ...], message: str, folder: Path) -> None:
    assert refused("train", *arguments, code=1) == message
    assert not (folder / "model.fls").exists()


def test_train_leaves_no_model_when_fitting_fails(refused: Refused, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("boom\nat length")

    monkeypatch.setattr(FLSRegressor, "fit", fail)
    message = refused("train", "plant.csv", "--target", "y", "--feature", "x", code=1)
    assert message == "Unexpected RuntimeError: boom at length. Run again with --debug to see where."
    assert not (folder / "model.fls").exists()


def test_train_shows_warnings_as_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = FLSRegressor.fit

    def warn(self: FLSRegressor, *arguments: object) -> FLSRegressor:
        import warnings

        warnings.warn("the [red]rate[/red]\nis \x1b[31mhigh", stacklevel=1)
        warnings.warn("for developers", DeprecationWarning, stacklevel=1)
        return fit(self, *arguments)

    monkeypatch.setattr(FLSRegressor, "fit", warn)
    arguments = ("train", "plant.csv", "--target", "y", "--feature", "x", *FAST, "--force")
    assert run(*arguments).stderr == "Warning: the [red]rate[/red] is \\x1b[31mhigh\n"
    assert run(*arguments, "--quiet").stderr == ""
    assert json.loads(run(*arguments, "--json").stdout)["warnings"] == ["the [red]rate[/red] is \\x1b[31mhigh"]
