"""``deepfls report``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FAST = ("--epochs", "3", "--n-rules", "4", "--random-state", "0")

Run = Callable[..., Any]
Refused = Callable[..., str]


@pytest.fixture
def model(run: Run) -> str:
    """A model of y from x and z."""
    run("train", "plant.csv", "--target", "y", "--feature", "x", "--feature", "z", *FAST, "--out", "m.fls")
    return "m.fls"


def test_report_writes_a_page(run: Run, model: str, folder: Path) -> None:
    result = run("report", model, "plant.csv", "--out", "plant.html", "--title", "The plant")
    assert result.stdout.startswith("Wrote plant.html: 0.")
    assert "<title>The plant</title>" in (folder / "plant.html").read_text(encoding="utf-8")
    content = json.loads(run("report", model, "--json").stdout)
    assert content["report"] == "m.html"
    assert content["bytes"] == (folder / "m.html").stat().st_size


def test_report_replaces_nothing_unasked(run: Run, refused: Refused, model: str, folder: Path) -> None:
    (folder / "m.html").write_text("mine")
    message = "'m.html' already exists: replace it with --force, or give another --out."
    assert refused("report", model, code=2) == message
    assert (folder / "m.html").read_text() == "mine"
    run("report", model, "--force")
    assert refused("report", model, "--target", "y", code=2) == "--target must be given with DATA."
    assert refused("report", model, "plant.csv", "--out", "plant.csv", "--force", code=2).startswith("--out must not be")
