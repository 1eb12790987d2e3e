"""A small part of benchmarks/robustness.py, and whether that script would notice a failure."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import robustness
from deepfls import FLSRegressor

TABLES = list(robustness.TABLES)
SYSTEMS = list(robustness.SYSTEMS)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """A second thread only costs time on tables as small as these."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_benchmark_has_every_system_and_enough_tables() -> None:
    assert len(SYSTEMS) == 1 + 3 * 4 + 2
    assert len(TABLES) >= 20


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("system", ["t1", "it2 hs km"])
def test_training_survives_the_table(table: str, system: str) -> None:
    # Tables take turns with the recipes, so that 1,000 columns miss the slow one: k-means of every column.
    seed = TABLES.index(table) + (2 if system == "t1" else 4)
    assert robustness.failure(table, system, seed, epochs=3) == ""


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("seed", [0, 1, 2], ids=["default recipe", "paper's start", "long steps"])
def test_every_system_survives_outliers(system: str, seed: int) -> None:
    assert robustness.failure("outliers of 1e6 in X", system, seed, epochs=3) == ""


@pytest.mark.parametrize(
    "table", ["2 rows", "heavy tails", "values of 1e-100 and 1e100", "constant target", "many classes"]
)
def test_planes_survive_the_table(table: str) -> None:
    for seed, system in enumerate(("gt2", "gt2 quantiles"), start=len(table)):
        assert robustness.failure(table, system, seed, epochs=2) == ""


def test_planes_of_random_systems_are_nested_and_quantiles_do_not_cross() -> None:
    assert robustness.random_planes(4_000) == (4_000, 0, 0)


def test_inverted_planes_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robustness, "ALPHAS", robustness.ALPHAS[::-1])
    done, inverted, _ = robustness.random_planes(1_000)
    assert (done, inverted > 0) == (1_000, True)


def break_predictions(model: FLSRegressor) -> None:
    model.y_scaling_.shift[:] = np.nan


def break_a_parameter(model: FLSRegressor) -> None:
    with torch.no_grad():
        model.system_.antecedents.raw_spreads[0, 0] = torch.nan


def warn(model: FLSRegressor) -> None:
    warnings.warn("look at me", stacklevel=1)


def fail(model: FLSRegressor) -> None:
    raise ZeroDivisionError("no")


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (break_predictions, "a prediction on the training rows is not finite"),
        (break_a_parameter, "a parameter is not finite"),
        (break_a_parameter, "the widths are not 0 < lower <= upper"),
        (warn, "UserWarning: look at me"),
        (fail, "ZeroDivisionError: no"),
    ],
    ids=["prediction", "parameter", "widths", "warning", "error"],
)
def test_benchmark_notices(monkeypatch: pytest.MonkeyPatch, harm: Any, reason: str) -> None:
    def harmed(self: FLSRegressor, *args: Any, **options: Any) -> FLSRegressor:
        model = fit(self, *args, **options)
        harm(model)
        return model

    fit = FLSRegressor.fit
    monkeypatch.setattr(FLSRegressor, "fit", harmed)
    assert reason in robustness.failure("3 rows", "it2 hs km", 0, epochs=1).split("; ")


@pytest.mark.parametrize(("reason", "code", "failures"), [("", 0, 0), ("wrong", 1, 2)], ids=["all well", "failures"])
def test_benchmark_counts_and_returns_an_exit_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    reason: str,
    code: int,
    failures: int,
) -> None:
    monkeypatch.setattr(
        robustness, "TABLES", {"3 rows": robustness.TABLES["3 rows"], "2 rows": robustness.TABLES["2 rows"]}
    )
    monkeypatch.setattr(robustness, "failure", lambda table, system, seed: reason if system == "t1" else "")
    assert robustness.main(["--quick", "--seeds", "1", "--json", str(tmp_path / "runs.json")]) == code
    assert f"runs tried: 8, failures: {failures}" in capsys.readouterr().out
    found = json.loads((tmp_path / "runs.json").read_text())
    assert (found["runs"], len(found["failures"])) == (8, failures)
