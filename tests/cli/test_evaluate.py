"""``deepfls evaluate``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import csv
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from deepfls import FLSRegressor, load

FAST = ("--epochs", "2", "--n-rules", "2", "--random-state", "0")

Run = Callable[..., Any]
Refused = Callable[..., str]


@pytest.fixture
def model(run: Run) -> str:
    """A model of y and z from x."""
    run("train", "plant.csv", "--target", "y", "--target", "z", "--feature", "x", *FAST, "--out", "m.fls")
    return "m.fls"


def test_evaluate_prints_a_table_of_all_targets(run: Run, model: str) -> None:
    result = run("evaluate", model, "plant.csv")
    lines = result.stdout.splitlines()
    assert lines[0] == "m.fls on plant.csv: 40 rows"
    assert lines[2].split() == ["target", "RMSE", "MAE", "R²"]
    assert [line.split()[0] for line in lines[4:]] == ["y", "z"]
    assert result.stderr == ""


def test_evaluate_measures_as_the_metrics_do(run: Run, model: str) -> None:
    content = json.loads(run("evaluate", model, "plant.csv", "--json").stdout)
    table = csv.read_csv("plant.csv")
    predicted = load(model).predict(table.select(["x"]))
    truth = table.column("z").to_numpy()
    assert content["rows"] == 40
    assert content["task"] == "regression"
    measured = {
        "rmse": root_mean_squared_error(truth, predicted[:, 1]),
        "mae": mean_absolute_error(truth, predicted[:, 1]),
        "r2": r2_score(truth, predicted[:, 1]),
    }
    assert content["scores"]["z"] == pytest.approx(measured, rel=1e-12)


@pytest.mark.parametrize(("name", "task"), [("label", "auto"), ("flag", "auto"), ("w", "classification")])
def test_evaluate_measures_classes(run: Run, name: str, task: str) -> None:
    arguments = (
        "train",
        "plant.csv",
        "--target",
        name,
        "--task",
        task,
        "--feature",
        "x",
        *FAST,
        "--out",
        "c.fls",
        "--json",
    )
    trained = json.loads(run(*arguments).stdout)
    content = json.loads(run("evaluate", "c.fls", "plant.csv", "--json").stdout)
    assert content["scores"] == trained["scores"]["train"]
    assert set(content["scores"][name]) == {"accuracy", "log_loss"}


def test_evaluate_warns_of_an_unknown_class(run: Run, folder: Path) -> None:
    run("train", "plant.csv", "--target", "label", "--feature", "x", *FAST, "--out", "c.fls")
    (folder / "new.csv").write_text("x,label\n1,side\n2,down\n")
    result = run("evaluate", "c.fls", "new.csv")
    assert result.stderr == "Warning: The model has no class 'side': rows of it count as wrong.\n"


def test_evaluate_reads_classes_that_look_like_numbers(run: Run, folder: Path) -> None:
    (folder / "t.csv").write_text("x,y\n" + "1,01\n2,02\n3,n\n" * 5)
    run("train", "t.csv", "--target", "y", *FAST, "--out", "m.fls")
    (folder / "new.csv").write_text("x,y\n1,01\n2,02\n")
    assert run("evaluate", "m.fls", "new.csv").stderr == ""


def test_evaluate_advises_no_option_of_a_training(run: Run, refused: Refused, model: str, folder: Path) -> None:
    error = refused("evaluate", model, "plant.csv", "--target", "label", "--target", "z", code=1)
    assert error == "Column 'label' of 'plant.csv' must hold numbers, got text ('down' in data row 1)."
    header, first, *rows = (folder / "plant.csv").read_text().splitlines()
    cells = first.split(",")
    cells[header.split(",").index("y")] = "inf"
    (folder / "inf.csv").write_text("\n".join([header, ",".join(cells), *rows]))
    error = refused("evaluate", model, "inf.csv", code=1)
    assert error.endswith("got inf in data row 1; an empty value in its place leaves such rows out.")


def test_evaluate_takes_other_names_of_the_targets(run: Run, model: str, folder: Path) -> None:
    text = (folder / "plant.csv").read_text()
    (folder / "new.csv").write_text(text.replace("w,y,z", "w,y2,z2", 1))
    result = run("evaluate", model, "new.csv", "--target", "y2", "--target", "z2")
    assert [line.split()[0] for line in result.stdout.splitlines()[4:]] == ["y2", "z2"]


def test_evaluate_takes_a_model_trained_in_python(run: Run, refused: Refused, folder: Path) -> None:
    x = np.linspace(0, 1, 20).reshape(-1, 2)
    FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(x, x[:, 0]).save("p.fls")
    (folder / "t.csv").write_text("a,b,y\n0,1,0\n1,0,1\n")
    assert refused("evaluate", "p.fls", "t.csv", code=2) == "--target must be given for a model that was trained in Python."
    content = json.loads(run("evaluate", "p.fls", "t.csv", "--target", "y", "--json").stdout)
    predicted = load("p.fls").predict([[0.0, 1.0], [1.0, 0.0]])
    assert content["scores"]["y"]["rmse"] == pytest.approx(root_mean_squared_error([0.0, 1.0], predicted))


def test_evaluate_quiet_is_quiet(run: Run, model: str) -> None:
    assert run("evaluate", model, "plant.csv", "--quiet").output == ""


def test_evaluate_tells_what_is_wrong(refused: Refused, model: str, folder: Path) -> None:
    (folder / "new.csv").write_text("x,Y,z\n1,2,3\n")
    message = "'new.csv' has no column 'y' to compare with. Did you mean 'Y'?"
    assert refused("evaluate", model, "new.csv", code=1) == message
    message = "--target must be given 2 times for this model, got 1."
    assert refused("evaluate", model, "new.csv", "--target", "Y", code=2) == message
    assert refused("evaluate", model, "nwe.csv", code=1) == "There is no file 'nwe.csv'. Did you mean 'new.csv'?"


def test_evaluate_refuses_a_target_given_twice(run: Run, refused: Refused) -> None:
    run("train", "plant.csv", "--target", "y", "--target", "z", "--feature", "x", "--epochs", "1", "--out", "two.fls")
    message = "--target must be given once for every column, got 'y', 'y'."
    assert refused("evaluate", "two.fls", "plant.csv", "--target", "y", "--target", "y", code=2) == message
