"""``deepfls train`` ended by Ctrl-C: what is saved, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deepfls import FLSRegressor, load

FAST = ("--epochs", "3", "--n-rules", "2", "--random-state", "0")

Run = Callable[..., Any]


def test_train_interrupted_saves_what_it_has(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = FLSRegressor.fit

    def interrupted(self: FLSRegressor, *arguments: object) -> FLSRegressor:
        fit(self, *arguments)
        self.stopped_by_ = "interrupt"
        return self

    monkeypatch.setattr(FLSRegressor, "fit", interrupted)
    result = run("train", "plant.csv", "--target", "y", "--feature", "x", *FAST, "--out", "m.fls", code=130)
    assert result.stdout.splitlines()[-1].endswith(" s, as it was when training was interrupted")
    assert load("m.fls").n_epochs_ == 3


def test_train_interrupted_while_measuring_keeps_the_model(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FLSRegressor, "predict", interrupt)
    result = run("train", "plant.csv", "--target", "y", "--feature", "x", *FAST, "--out", "m.fls", code=130)
    assert result.stderr == "Warning: The model is saved as 'm.fls'; measuring its error was interrupted.\n"
    load("m.fls")


def test_train_interrupted_before_training_writes_nothing(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("deepfls.data.tables.read_table", interrupt)
    result = run("train", "plant.csv", "--target", "y", code=130)
    assert result.output == "Stopped: interrupted.\n"
    assert sorted(path.name for path in folder.iterdir()) == ["plant.csv"]
