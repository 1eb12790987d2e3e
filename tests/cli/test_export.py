"""``deepfls export`` and ``import``, and ``deepfls train --start``."""

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
FAST = ("--epochs", "1", "--n-rules", "2", "--random-state", "0")


@pytest.fixture
def models(run: Run) -> None:
    """A Type-1 and an Interval Type-2 model of y from x, and one of classes."""
    run("train", "plant.csv", "--target", "y", "--feature", "x", "--kind", "t1", *FAST, "--out", "t1.fls")
    run("train", "plant.csv", "--target", "y", "--feature", "x", *FAST, "--out", "it2.fls")


@pytest.mark.usefixtures("models")
def test_export_writes_every_target(run: Run, folder: Path) -> None:
    assert run("export", "it2.fls", "--to", "c", "--out", "plant.h").stdout.startswith("Wrote plant.h: about ")
    assert "plant_predict_interval" in (folder / "plant.h").read_text()
    assert run("export", "t1.fls", "--out", "plant.fll").stdout == "Wrote plant.fll\n"
    assert run("export", "t1.fls", "--out", "plant.fis").stdout == "Wrote plant.fis\n"
    assert run("export", "it2.fls", "--out", "plant.t2fis", "--quiet").output == ""
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    assert "µs for one row" in run("export", "it2.fls", "--out", "plant.onnx", "--data", "plant.csv").stdout


@pytest.mark.usefixtures("models")
def test_export_passes_its_options_on(run: Run, folder: Path) -> None:
    arguments = ("--prefix", "pump", "--number", "q15", "--data", "plant.csv", "--margin", "0.5", "--json")
    content = json.loads(run("export", "it2.fls", "--out", "a.h", *arguments).stdout)
    assert content["command"] == "export"
    assert content["to"] == "c"
    assert content["flash_bytes"] > content["table_bytes"] > 0
    assert 0 < content["error"] < 0.01
    text = (folder / "a.h").read_text()
    assert "pump_margin" in text
    assert "Error on 40 given rows" in text
    run("export", "it2.fls", "--out", "b.h", "--exp", "builtin")
    assert "expf" not in (folder / "b.h").read_text()


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("options", [("a.onnx",), ("a.h", "--number", "q15")], ids=["onnx", "q15"])
def test_rows_with_missing_values_are_left_out_of_the_comparison(
    run: Run, refused: Refused, folder: Path, options: tuple[str, ...]
) -> None:
    if options == ("a.onnx",):
        pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    header, *rows = (folder / "plant.csv").read_text().splitlines()
    (folder / "holes.csv").write_text("\n".join([header, *("," + row.partition(",")[2] for row in rows[:2]), *rows[2:]]))
    result = run("export", "it2.fls", "--out", *options, "--data", "holes.csv")
    assert result.stderr == "Warning: 2 rows of X with missing values are not compared: the exported model gives NaN.\n"
    (folder / "empty.csv").write_text("\n".join([header, "," + rows[0].partition(",")[2], "," + rows[1].partition(",")[2]]))
    error = refused("export", "it2.fls", "--out", "b" + options[0], *options[1:], "--data", "empty.csv", code=1)
    assert "must have a row without missing values" in error


def test_export_writes_the_calibrated_interval(run: Run, refused: Refused, folder: Path) -> None:
    run("train", "plant.csv", "--target", "y", "--feature", "x", *FAST, "--coverage", "0.7", "--out", "it2.fls")
    run("export", "it2.fls", "--out", "a.h")
    assert "interval of coverage 0.7, calibrated (cqr) on " in (folder / "a.h").read_text()
    run("export", "it2.fls", "--out", "b.h", "--margin", "none")
    assert "the type-reduced set; not calibrated to a coverage" in (folder / "b.h").read_text()
    message = refused("export", "it2.fls", "--out", "c.h", "--number", "q15", code=1)
    assert message.endswith("or export with --margin none, where the interval is the type-reduced set.")
    message = "--margin must be auto, none or a number, got 'wide'."
    assert refused("export", "it2.fls", "--out", "c.h", "--margin", "wide", code=2) == message


def test_advice_about_an_interval_in_fixed_point_leads_to_a_file(run: Run, refused: Refused) -> None:
    rest = ("--target", "y", "--feature", "x", "--coverage", "0.5", "--epochs", "2", "--out", "p.fls")
    train = ("train", "plant.csv", *rest)
    run(*train)
    advice = refused("export", "p.fls", "--out", "p.h", "--number", "q15", code=1)
    assert "; train with --kind t1, --no-refit and --no-normalized-scores, or export with --margin none, " in advice
    run(*train, "--kind", "t1", "--no-refit", "--no-normalized-scores", "--force")
    run("export", "p.fls", "--out", "p.h", "--number", "q15")


def test_advice_about_groups_names_an_option_that_exists(run: Run, refused: Refused) -> None:
    groups = ("--feature", "color", "--coverage", "0.5", "--group-calibration", "color", "--out", "g.fls")
    run("train", "plant.csv", "--target", "y", "--feature", "x", "--epochs", "2", *groups)
    advice = refused("export", "g.fls", "--out", "g.h", code=1)
    assert "; train without --group-calibration, or export with --margin none, " in advice


def test_level_of_a_plane_is_checked(refused: Refused) -> None:
    for level in ("2", "0", "nan"):
        message = f"--plane must be greater than 0 and at most 1, got {float(level)}."
        assert refused("export", "g.fls", "--out", "g.h", "--plane", level, code=2) == message


@pytest.mark.usefixtures("models")
def test_export_tells_what_is_wrong(refused: Refused, folder: Path) -> None:
    message = "--out, the file to write, must be given. See 'deepfls export --help'."
    assert refused("export", "t1.fls", code=2) == message
    message = "--to must be one of 'c', 'onnx', 'fll', 'fis', got 'onxx'. Did you mean 'onnx'?"
    assert refused("export", "t1.fls", "--to", "onxx", "--out", "p.h", code=2) == message
    message = "--out must end in .h for --to c, got 'p.onnx'."
    assert refused("export", "t1.fls", "--to", "c", "--out", "p.onnx", code=2) == message
    message = "--out must end in .h, .onnx, .fll, .fis, .m, .t2fis, or --to must be given, got 'p.txt'."
    assert refused("export", "t1.fls", "--out", "p.txt", code=2) == message
    message = "--prefix must not be given with --to onnx, which does not take it."
    assert refused("export", "t1.fls", "--out", "p.onnx", "--prefix", "a", code=2) == message
    message = refused("export", "t1.fls", "--out", "my-plant.h", code=2)
    assert message.startswith("--prefix must be a C identifier of ")
    assert message.endswith("got 'my-plant': try --prefix my_plant.")
    message = "--number must be one of 'float', 'q15', 'q31', got 'q115'. Did you mean 'q15'?"
    assert refused("export", "t1.fls", "--out", "p.h", "--number", "q115", code=2) == message
    message = refused("export", "it2.fls", "--out", "p.h", "--flash", "100", code=1)
    assert message.startswith("The header must fit 100 bytes of flash and 8,192 bytes of RAM, got about 2,")
    assert message.endswith("train fewer rules, state a larger part with --flash and --ram, or take --force.")
    message = refused("export", "it2.fls", "--out", "p.fll", code=1)
    assert message.startswith("FLL cannot express this system: FuzzyLite has no Interval Type-2 sets; ")
    (folder / "p.h").write_text("mine")
    message = "'p.h' already exists: replace it with --force, or give another --out."
    assert refused("export", "t1.fls", "--out", "p.h", code=2) == message
    assert (folder / "p.h").read_text() == "mine"


@pytest.mark.usefixtures("models")
def test_export_force_replaces_and_exceeds(run: Run, folder: Path) -> None:
    (folder / "p.h").write_text("mine")
    run("export", "it2.fls", "--out", "p.h", "--flash", "100", "--force")
    assert "p_predict" in (folder / "p.h").read_text()


# Import, and the start of a training

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
