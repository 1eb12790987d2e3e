"""Small ugly tables through the command line and through Python: each gives a model, or a sentence that leads to one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deepfls import FLSClassifier, FLSRegressor, load
from deepfls.data.tables import read_table
from zoo import ZOO, Ugly

Run = Callable[..., Any]
FAST = ("--epochs", "1", "--random-state", "0", "--force")
RULES = ("--n-rules", "2")


def said(result: Any) -> list[str]:
    return [line.removeprefix("Warning: ") for line in result.stderr.splitlines() if line.startswith("Warning: ")]


def train(run: Run, ugly: Ugly, options: tuple[str, ...], code: int = 0) -> Any:
    target = () if "--target" in options else ("--target", "y")
    rules = () if "--n-rules" in options or ugly.told[-1:] == ("the model has 1 rule",) else RULES
    return run("train", ugly.file, *target, *rules, *FAST, *options, code=code)


def test_zoo_is_large() -> None:
    assert len(ZOO) >= 40


@pytest.mark.parametrize("name", ZOO)
def test_command_line_gives_a_model_or_the_way_to_one(run: Run, folder: Path, name: str) -> None:
    ugly = ZOO[name]
    (folder / ugly.file).write_bytes(ugly.content)
    options = ugly.options
    if ugly.refused:
        error = train(run, ugly, options, code=1).stderr
        assert ugly.refused in error
        assert sum(line.startswith("Error: ") for line in error.splitlines()) == 1
        options = ugly.then  # what the error names, literally
        if "--target" not in options:
            assert all(word in error for word in options)
    result = train(run, ugly, options)
    told, expected = said(result), ugly.told if ugly.told_then is None else ugly.told_then
    assert len(told) == len(expected), told
    for part, line in zip(expected, told, strict=True):
        assert part in line
    model = load("model.fls")
    assert isinstance(model, FLSClassifier if ugly.classes else FLSRegressor)
    if ugly.inputs is not None:
        assert model.system_.n_features == ugly.inputs
    lines = run("predict", "model.fls", ugly.file).stdout.splitlines()
    assert len(lines) > 1
    assert not any("nan" in line for line in lines)
    run("explain", "model.fls", ugly.file, "--row", 1)


@pytest.mark.parametrize("name", [name for name, ugly in ZOO.items() if not (ugly.refused or ugly.options)])
def test_python_gives_a_model(tmp_path: Path, name: str) -> None:
    ugly = ZOO[name]
    (tmp_path / ugly.file).write_bytes(ugly.content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        table = read_table(tmp_path / ugly.file).table
        y = table.column("y").to_pylist()
        known = np.array([value not in (None, "") for value in y])
        x = table.drop_columns(["y"]).filter(known)
        target = [value for value, is_known in zip(y, known, strict=True) if is_known]
        numbers = not isinstance(target[0], str)
        made = FLSRegressor if numbers else FLSClassifier
        model = made(n_rules=2, epochs=1, random_state=0).fit(x, np.array(target))
        frame = x.to_pandas()
        assert len(model.predict(frame)) == len(target)
        np.testing.assert_array_equal(model.predict(x), model.predict(pa.Table.from_pandas(frame)))
