"""A small table, and commands run in its folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deepfls.cli.app import app

# Rows x, color, w, y, z, label, flag: two inputs, weights, two numbers to predict, text and true/false to predict.
COLORS = ("red", "green", "blue")
ROWS = [
    (i / 10, COLORS[i % 3], 1 + i % 2, i * i / 100, -i, "up" if i > 20 else "down", "true" if i % 2 == 0 else "false")
    for i in range(40)
]
TABLE = "x,color,w,y,z,label,flag\n" + "".join(",".join(map(str, row)) + "\n" for row in ROWS)
Run = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own current folder with plant.csv, and a cache folder in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEEPFLS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "plant.csv").write_text(TABLE)
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Run:
    """Runs a command in that folder and checks its exit code."""

    def run(*arguments: object, code: int = 0) -> Any:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == code, result.output + repr(result.exception)
        assert "Traceback" not in result.output
        return result

    return run


@pytest.fixture
def refused(run: Run) -> Callable[..., str]:
    """Runs a command that fails, and gives its one line without the label."""

    def refused(*arguments: object, code: int) -> str:
        result = run(*arguments, code=code)
        # Settings are checked when training begins, after what it begins with was printed.
        assert all(line.startswith("Training on ") for line in result.stdout.splitlines())
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1
        return str(result.stderr.removeprefix("Error: ").rstrip("\n"))

    return refused
