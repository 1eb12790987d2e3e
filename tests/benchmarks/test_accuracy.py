"""benchmarks/accuracy.py: splits, the store that a run continues, and its tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import accuracy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 2))
    (tmp_path / "uci").mkdir()
    test = np.array([random.permutation(60)[:6] for _ in range(2)])
    np.savez(tmp_path / "uci" / "yacht.npz", x=x, y=x[:, 0], test=test)
    return tmp_path


def test_split_holds_out_the_published_rows(folder: Path) -> None:
    split = accuracy.split_of("yacht", 1, folder)
    with np.load(folder / "uci" / "yacht.npz") as data:
        np.testing.assert_array_equal(split.y_test, data["y"][data["test"][1]])
    assert len(split.x) == 54


@pytest.mark.parametrize("name", ["iris", "moons", "flipped"])
def test_classes_are_places(name: str, tmp_path: Path) -> None:
    split = accuracy.split_of(name, 0, tmp_path)
    assert set(split.y) == set(range(split.y.max() + 1))


def test_run_continues_its_store_and_writes_tables(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(accuracy, "N_RULES", 2)
    store, page = folder / "store.jsonl", folder / "RESULTS.md"
    common = ["--data-dir", str(folder), "--store", str(store), "--python", sys.executable]
    arguments = [*common, "--sets", "yacht,moons", "--models", "T1,linear"]
    assert accuracy.main([*arguments, "--splits", "1", "--markdown", str(page), "--figure", str(folder / "a.png")]) == 0
    first = store.read_text().splitlines()
    assert len(first) == 4
    assert accuracy.main([*arguments, "--splits", "1"]) == 0
    assert store.read_text().splitlines() == first
    rows = [json.loads(line) for line in first]
    line = next(row for row in rows if row["set"] == "yacht" and row["model"] == "linear")
    assert line["rmse"] == pytest.approx(0.0, abs=1e-9)
    assert "| mean rank |" in page.read_text()
    assert "log loss" in capsys.readouterr().out.lower()


def test_means_are_over_the_splits_that_all_models_have() -> None:
    rows = [{"set": "a", "model": "T1", "split": k, "rmse": float(k)} for k in (0, 1)]
    rows.append({"set": "a", "model": "IT2", "split": 0, "rmse": 5.0})
    assert accuracy.means(rows, "rmse") == {("a", "T1"): 0.0, ("a", "IT2"): 5.0}
