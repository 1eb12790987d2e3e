"""``deepfls import``, and ``deepfls train --start``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deepfls import load

Run = Callable[..., Any]
Refused = Callable[..., str]

VALVE = """[System]
Type='sugeno'
NumInputs=1
NumOutputs=1
NumRules=2
[Input1]
Name='x'
Range=[0 4]
NumMFs=2
MF1='low':'gaussmf',[1 0]
MF2='high':'gaussmf',[1 4]
[Output1]
Name='y'
Range=[0 16]
NumMFs=2
MF1='shut':'constant',[0]
MF2='open':'constant',[16]
[Rules]
1, 1 (1) : 1
2, 2 (1) : 1
"""
TRAIN = ("train", "plant.csv", "--target", "y", "--out", "more.fls", "--random-state", "0")


@pytest.fixture
def rules(folder: Path) -> Path:
    (folder / "expert.fis").write_text(VALVE)
    return folder


@pytest.mark.usefixtures("rules")
def test_import_makes_a_model_that_other_commands_take(run: Run) -> None:
    assert run("import", "expert.fis").stdout == "Saved expert.fls: t1, 2 rules, inputs x, outputs y\n"
    predicted = run("predict", "expert.fls", "plant.csv").stdout.splitlines()
    assert predicted[0] == "y"
    # The middle between two sets of one width.
    assert float(predicted[1 + 20]) == pytest.approx(8.0)
    assert "RMSE" in run("evaluate", "expert.fls", "plant.csv").stdout
    assert run("export", "expert.fls", "--out", "plant.h").stdout.startswith("Wrote plant.h")
    content = json.loads(run("import", "expert.fis", "--out", "b.fls", "--json").stdout)
    assert content["inputs"] == ["x"]
    assert content["targets"] == ["y"]
    assert content["n_rules"] == 2


def test_import_approximates_only_when_asked(run: Run, refused: Refused, rules: Path) -> None:
    (rules / "expert.fis").write_text(VALVE.replace("'gaussmf',[1 0]", "'trimf',[-2 0 2]"))
    message = refused("import", "expert.fis", code=2)
    assert message == (
        "expert.fis, line 10: a set must be 'gaussmf', got 'trimf'; deepfls import --approximate takes a Gaussian of the "
        "same width."
    )
    assert refused("train", *TRAIN[1:], "--start", "expert.fis", code=2) == message
    run("import", "expert.fis", "--approximate")
    assert (rules / "expert.fls").exists()


def test_training_goes_on_from_rules_and_from_models(run: Run, rules: Path) -> None:
    from deepfls.export import read_fis

    run(*TRAIN, "--start", "expert.fis", "--epochs", "1", "--learning-rate", "1e-9")
    x = pd.DataFrame({"x": np.linspace(0, 4, 9)})
    expert = read_fis(rules / "expert.fis").predict(x)
    np.testing.assert_allclose(load(rules / "more.fls").predict(x), expert, rtol=1e-5, atol=1e-5)
    errors = []
    for start, out in (("expert.fis", "a.fls"), ("a.fls", "b.fls")):
        arguments = ("--start", start, "--epochs", "10", "--force", "--json")
        content = json.loads(run(*(out if word == "more.fls" else word for word in TRAIN), *arguments).stdout)
        assert content["inputs"] == ["x"]
        errors.append(content["scores"]["train"]["y"]["rmse"])
    assert errors[1] < errors[0]
    assert load(rules / "b.fls").n_epochs_ == 20


@pytest.mark.usefixtures("rules")
def test_start_tells_what_it_decides(run: Run, refused: Refused) -> None:
    message = "--n-rules must not be given with --start, which determines it."
    assert refused(*TRAIN, "--start", "expert.fis", "--n-rules", "3", code=2) == message
    message = "--start must be given without --stream, and in one process."
    assert refused(*TRAIN, "--start", "expert.fis", "--stream", code=2) == message
    message = "There is no file of rules 'expart.fis'. Did you mean 'expert.fis'?"
    assert refused(*TRAIN, "--start", "expart.fis", code=2) == message
    message = "--feature must be x, the inputs of --start, or be left out."
    assert refused(*TRAIN, "--start", "expert.fis", "--feature", "z", code=2) == message
    message = "--start must be given with a target of numbers, got one of classes."
    words = [("label" if word == "y" else word) for word in TRAIN]
    assert refused(*words, "--start", "expert.fis", code=2) == message
    run(
        "train", "plant.csv", "--target", "label", "--feature", "x", "--epochs", "1", "--n-rules", "2", "--out", "label.fls"
    )
    message = "--start must be a file of rules or a model of numbers, got one of classes: 'label.fls'."
    assert refused(*TRAIN, "--start", "label.fls", code=2) == message


def test_model_file_is_no_file_of_rules(refused: Callable[..., str], folder: Path) -> None:
    (folder / "m.fls").write_bytes(b"x")
    message = "RULES must be a file of rules, such as expert.fis, got the model file 'm.fls'."
    assert refused("import", "m.fls", code=2) == message
    assert refused("import", "m.fls", "--force", code=2) == message
