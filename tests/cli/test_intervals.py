"""Intervals and sets on the command line: trained, written, measured, and refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import csv
from sklearn.metrics import mean_pinball_loss

from deepfls import load, metrics

FAST = ("--epochs", "2", "--n-rules", "2", "--random-state", "0", "--out", "m.fls")
Run = Callable[..., Any]
Refused = Callable[..., str]


@pytest.fixture(autouse=True)
def larger_table(folder: Path) -> None:
    """big.csv: 200 rows x, kind (three categories), n (two numbers), y, z, label."""
    random = np.random.default_rng(0)
    x = random.uniform(0, 4, size=200)
    kind, n = random.integers(0, 3, size=200), random.integers(0, 2, size=200)
    y = np.sin(x) + 0.1 * random.normal(size=200)
    rows = zip(x, np.array(["a", "b", "c"])[kind], n, y, -2 * x, np.where(y > 0, "up", "down"), strict=True)
    lines = "".join(",".join(map(str, row)) + "\n" for row in rows)
    (folder / "big.csv").write_text("x,kind,n,y,z,label\n" + lines)


def train(run: Run, *arguments: str) -> Any:
    return run("train", "big.csv", "--feature", "x", *arguments, *FAST)


def test_train_measures_intervals_of_both_parts(run: Run) -> None:
    result = train(run, "--target", "y", "--coverage", "0.9", "--test-fraction", "0.2")
    lines = result.stdout.splitlines()
    assert "Intervals for a coverage of 0.9" in lines
    head = lines[lines.index("Intervals for a coverage of 0.9") + 2]
    assert head.split() == ["target", "rows", "covered", "mean", "width", "PINAW", "interval", "score", "CRPS"]
    assert max(map(len, lines)) <= 80
    assert load("m.fls").calibration_.n_rows == 29  # (29 + 1) 0.9 is whole, of a fifth of 160


def test_train_takes_every_setting_of_intervals(run: Run) -> None:
    settings = (
        "--calibration",
        "cqr",
        "--interval-weight",
        "0.5",
        "--calibration-fraction",
        "0.3",
        "--no-normalized-scores",
    )
    content = json.loads(train(run, "--target", "y", "--coverage", "0.8", *settings, "--json").stdout)
    assert content["settings"]["coverage"] == 0.8
    assert content["settings"]["interval_weight"] == 0.5
    assert content["settings"]["calibration_fraction"] == 0.3
    assert content["settings"]["normalized_scores"] is False
    assert content["intervals"]["train"]["y"]["nominal"] == 0.8
    train(run, "--target", "y", "--coverage", "0.8", "--calibration", "none", "--force")
    assert load("m.fls").calibration is None


def test_config_file_holds_settings_of_intervals(run: Run, folder: Path) -> None:
    (folder / "run.toml").write_text('coverage = 0.8\ncalibration_fraction = 0.4\ngroup_calibration = "n"\n')
    run("train", "big.csv", "--feature", "x", "--feature", "n", "--target", "y", "--config", "run.toml", *FAST)
    model = load("m.fls")
    assert (model.coverage, model.calibration_fraction, model.group_calibration) == (0.8, 0.4, ["n"])


def test_group_of_a_text_column_is_that_of_its_categories(run: Run) -> None:
    options = ("--feature", "kind", "--group-calibration", "kind", "--coverage", "0.8")
    train(run, "--target", "y", *options)
    model = load("m.fls")
    assert model.group_calibration == ["kind"]
    content = json.loads(run("evaluate", "m.fls", "big.csv", "--json").stdout)
    parts = content["intervals"]["y"]["by_group"]
    assert [part["part"] for part in parts] == ["a", "b", "c"]
    assert sum(part["n_rows"] for part in parts) == 200


def test_predict_writes_the_ends_after_each_target(run: Run) -> None:
    train(run, "--target", "y", "--target", "z", "--coverage", "0.9")
    run("predict", "m.fls", "big.csv", "--interval", "0.8", "--prefix", "p_", "--out", "p.csv")
    table = csv.read_csv("p.csv")
    assert table.column_names == ["p_y", "p_y_lower", "p_y_upper", "p_z", "p_z_lower", "p_z_upper"]
    x = csv.read_csv("big.csv").select(["x"])
    lower, upper = load("m.fls").predict_interval(x, coverage=0.8)
    np.testing.assert_array_equal(table.column("p_z_lower").to_numpy(), lower[:, 1])
    np.testing.assert_array_equal(table.column("p_y_upper").to_numpy(), upper[:, 0])


def test_predict_writes_the_set_of_classes(run: Run) -> None:
    train(run, "--target", "label", "--coverage", "0.9")
    run("predict", "m.fls", "big.csv", "--interval", "0.95", "--out", "p.csv")
    table = csv.read_csv("p.csv")
    assert table.column_names == ["label", "label_set", "label=down", "label=up"]
    assert set(table.column("label_set").to_pylist()) <= {"down", "up", "down|up"}


def test_evaluate_measures_intervals_as_the_metrics_do(run: Run) -> None:
    train(run, "--target", "y", "--coverage", "0.9")
    content = json.loads(run("evaluate", "m.fls", "big.csv", "--coverage", "0.8", "--json").stdout)
    table = csv.read_csv("big.csv")
    y = table.column("y").to_numpy()
    lower, upper = load("m.fls").predict_interval(table.select(["x"]), coverage=0.8)
    found = content["intervals"]["y"]
    assert found["nominal"] == 0.8
    assert found["picp"] == metrics.picp(y, lower, upper)
    assert found["pinaw"] == metrics.pinaw(y, lower, upper)
    assert found["mean_width"] == metrics.mean_width(lower, upper)
    assert found["interval_score"] == metrics.interval_score(y, lower, upper, 0.8)
    assert found["pinball_lower"] == pytest.approx(mean_pinball_loss(y, lower, alpha=0.1))
    assert found["pinball_upper"] == pytest.approx(mean_pinball_loss(y, upper, alpha=0.9))
    assert 0 < found["crps"] < metrics.mean_width(lower, upper)
    assert len(found["by_width"]) == 10
    assert found["by_group"] == []


def test_evaluate_prints_coverage_by_width_and_group(run: Run) -> None:
    train(run, "--target", "y", "--coverage", "0.8", "--feature", "n", "--group-calibration", "n")
    lines = run("evaluate", "m.fls", "big.csv").stdout.splitlines()
    heads = [line.split() for line in lines if line.startswith("target")]
    assert heads[2] == ["target", "tenth", "by", "width", "covered", "mean", "width", "rows"]
    assert heads[3] == ["target", "group", "covered", "mean", "width", "rows"]
    assert [line.split()[1] for line in lines[-3:-1]] == ["0", "1"]


def test_evaluate_measures_sets_of_classes(run: Run) -> None:
    train(run, "--target", "label", "--coverage", "0.9")
    content = json.loads(run("evaluate", "m.fls", "big.csv", "--json").stdout)
    found = content["intervals"]["label"]
    assert found["nominal"] == 0.9
    assert 0.5 < found["picp"] <= 1.0
    assert 1.0 <= found["set_size"] <= 2.0
    assert "Sets for a coverage of 0.9" in run("evaluate", "m.fls", "big.csv").stdout


def test_evaluate_leaves_models_without_intervals_as_they_were(run: Run) -> None:
    train(run, "--target", "y")
    assert "Intervals" not in run("evaluate", "m.fls", "big.csv").stdout
    assert json.loads(run("evaluate", "m.fls", "big.csv", "--json").stdout)["intervals"] is None


def test_uncalibrated_intervals_have_no_crps(run: Run) -> None:
    train(run, "--target", "y", "--coverage", "0.9", "--calibration", "none")
    assert "CRPS" not in run("evaluate", "m.fls", "big.csv").stdout


BAD: dict[str, tuple[tuple[str, ...], int, str]] = {
    "coverage": (("--coverage", "90"), 2, "--coverage must be greater than 0 and less than 1, got 90.0."),
    "kind": (
        ("--coverage", "0.9", "--kind", "t1", "--calibration", "cqr"),
        2,
        "--calibration must be 'split' for --kind t1, whose output is one value, got 'cqr'; --kind it2 learns intervals.",
    ),
    "name": (
        ("--coverage", "0.9", "--calibration", "cqq"),
        2,
        "--calibration must be one of 'auto', 'cqr', 'split', 'alpha', got 'cqq'. Did you mean 'cqr'?",
    ),
    "fraction": (
        ("--coverage", "0.9", "--calibration-fraction", "much"),
        2,
        "--calibration-fraction must be a number or auto, got 'much'.",
    ),
    "few rows": (
        ("--coverage", "0.999"),
        1,
        "The calibration set must have 999 rows or more to promise a coverage of 0.999, got 100; hold more out with "
        "--calibration-fraction, train on more rows, or ask for 0.99 or less.",
    ),
    "group": (
        ("--coverage", "0.9", "--group-calibration", "n"),
        1,
        "Column 'n' must be an input of the model to group by or to be a category.",
    ),
}


@pytest.mark.parametrize("case", list(BAD.values()), ids=list(BAD))
def test_train_refuses_in_one_line(refused: Refused, case: tuple[tuple[str, ...], int, str]) -> None:
    options, code, message = case
    assert refused("train", "big.csv", "--feature", "x", "--target", "y", *options, *FAST, code=code) == message


@pytest.mark.parametrize("option", [("--interval-weight", "2"), ("--no-normalized-scores",)], ids=lambda o: o[0])
def test_settings_of_numbers_are_refused_for_classes(refused: Refused, option: tuple[str, ...]) -> None:
    name = option[0].replace("--no-", "--")
    said = refused("train", "big.csv", "--feature", "x", "--target", "label", "--coverage", "0.9", *option, *FAST, code=2)
    assert said == f"{name} must be given for numbers only, got a target of classes."


def test_predict_and_evaluate_refuse_in_one_line(run: Run, refused: Refused) -> None:
    train(run, "--target", "y")
    for share in ("0", "1", "90"):
        assert refused("predict", "m.fls", "big.csv", "--interval", share, code=2).startswith("--interval must be greater")
        assert refused("evaluate", "m.fls", "big.csv", "--coverage", share, code=2).startswith("--coverage must be greater")
    said = "Intervals must follow a fit with a coverage, got --coverage none; train again with --coverage 0.9."
    assert refused("predict", "m.fls", "big.csv", "--interval", "0.9", code=1) == said
    assert refused("evaluate", "m.fls", "big.csv", "--coverage", "0.9", code=1) == said


def test_predict_refuses_to_write_a_column_twice(run: Run, refused: Refused, folder: Path) -> None:
    text = (folder / "big.csv").read_text().replace("x,kind,n,y,z,label", "x,kind,n,y,y_lower,label")
    (folder / "big.csv").write_text(text)
    train(run, "--target", "y", "--target", "y_lower", "--coverage", "0.9")
    said = refused("predict", "m.fls", "big.csv", "--interval", "0.9", code=1)
    assert said == "Column 'y_lower' would be written twice, as a target and as an end of an interval."


def test_predict_adds_quantiles(run: Run, folder: Path) -> None:
    train(run, "--target", "y", "--target", "z", "--kind", "gt2", "--loss", "quantiles")
    run("predict", "m.fls", "big.csv", "--quantiles", "0.9,0.1", "--out", "p.csv")
    table = csv.read_csv(folder / "p.csv")
    assert table.column_names == ["y", "z", "y_q0.9", "y_q0.1", "z_q0.9", "z_q0.1"]
    model: Any = load(folder / "m.fls")
    x = csv.read_csv(folder / "big.csv").select(["x"]).to_pandas()
    found = np.stack([table[name].to_numpy() for name in table.column_names[2:]], axis=1).reshape(-1, 2, 2)
    np.testing.assert_allclose(found, model.predict_quantiles(x, [0.9, 0.1]).transpose(0, 2, 1))


def test_wrong_quantiles_are_refused(run: Run, refused: Refused) -> None:
    train(run, "--target", "label")
    for levels in ("0.5,1", "some", ""):
        message = refused("predict", "m.fls", "big.csv", "--quantiles", levels, code=2)
        assert message == (f"--quantiles must be levels greater than 0 and less than 1, such as 0.05,0.95, got {levels!r}.")
    assert "must be used with a model of numbers" in refused("predict", "m.fls", "big.csv", "--quantiles", "0.5", code=1)
