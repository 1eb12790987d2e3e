"""``deepfls simplify``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deepfls import load

FAST = ("--epochs", "3", "--n-rules", "4", "--random-state", "0")

Run = Callable[..., Any]
Refused = Callable[..., str]


@pytest.fixture
def model(run: Run) -> str:
    """A model of y from x and z."""
    run("train", "plant.csv", "--target", "y", "--feature", "x", "--feature", "z", *FAST, "--out", "m.fls")
    return "m.fls"


def test_simplify_saves_a_smaller_model(run: Run, model: str) -> None:
    result = run("simplify", model, "plant.csv", "--tolerance", "0.5", "--out", "small.fls")
    small = load("small.fls")
    assert result.stdout.splitlines()[0].startswith(f"4 rules became {small.n_rules}: RMSE ")
    assert result.stdout.endswith("Saved small.fls\n")
    content = json.loads(run("simplify", model, "plant.csv", "--out", "s2.fls", "--json").stdout)
    scores = json.loads(run("evaluate", "s2.fls", "plant.csv", "--json").stdout)["scores"]
    assert content["error_after"] == pytest.approx(scores["y"]["rmse"], rel=1e-9)


def test_simplify_needs_true_values(refused: Refused, model: str, folder: Path) -> None:
    (folder / "new.csv").write_text("x,z\n1,2\n2,3\n")
    message = "'new.csv' has no column 'y' to compare with."
    assert refused("simplify", model, "new.csv", "--out", "s.fls", code=1).startswith(message)
    assert not (folder / "s.fls").exists()
