"""``deepfls demo``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deepfls import load

Run = Callable[..., Any]


def test_demo_writes_models_and_plots(run: Run, folder: Path) -> None:
    pytest.importorskip("h5py", reason="the demo reads its data from the package pvlib, an extra")
    done = run("demo", "--rows", "400", "--n-rules", "3", "--out", "demo")
    assert {path.name for path in (folder / "demo").iterdir()} == {
        "intervals.png", "learning_curve.png", "map.png", "memberships.png", "predictions.png", "turbidity_it2.fls",
        "turbidity_t1.fls",
    }  # fmt: skip
    assert load("demo/turbidity_it2.fls").n_rules == 3
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Turbidity of the air: 320 training rows, 80 test rows")
    head = next(line for line in lines if line.startswith("model"))
    assert head.split() == ["model", "rows", "seconds", "rows/s", "RMSE", "covered", "width"]
    assert [line.split("  ")[0] for line in lines[3:7]] == ["linear", "gradient boosting", "T1, 3 rules", "IT2, 3 rules"]


def test_demo_refuses_a_file_as_its_folder_before_it_trains(refused: Callable[..., str]) -> None:
    assert refused("demo", "--out", "plant.csv", code=2) == "--out must be a folder, got the file 'plant.csv'."
