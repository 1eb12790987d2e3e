"""Every script starts, and the ones that need data or programs give a table from small made data."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import c_accuracy
import distributions
import embedded
import explorer
import intervals
import karnik_mendel
import recipe
import scale
from _timing import Effort

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("[a-z]*.py"))


@pytest.fixture
def one_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("_timing.QUICK", Effort(windows=1, seconds=0.0, min_windows=1))


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_has_help(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "benchmarks" / f"{name}.py"
    if name == "ray_cluster":
        pytest.importorskip("ray", reason="ray is not installed: pip install 'deepfls[ray]'")
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert ended.value.code == 0
    assert f"python benchmarks/{name}.py" in capsys.readouterr().out


def test_script_runs_from_any_folder(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "paper.py"), "--rules", "0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "argument --rules: must be positive whole numbers" in done.stderr


def test_readme_lists_every_script() -> None:
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)\.py` \|", text, flags=re.MULTILINE)) == SCRIPTS


def test_make_bench_names_scripts_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"^BENCHMARKS := (.*)$", makefile, flags=re.MULTILINE)[0].split()
    assert named
    assert set(named) <= set(SCRIPTS)


@pytest.mark.usefixtures("one_window")
def test_karnik_mendel_has_a_time_for_each_algorithm_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(karnik_mendel, "RULES", (3, 16))
    assert karnik_mendel.main(["--quick", "--json", str(tmp_path / "rows.json")]) == 0
    few, many = json.loads((tmp_path / "rows.json").read_text())
    assert list(few) == ["rules", *karnik_mendel.TIMES, *karnik_mendel.RATIOS]
    assert all(value > 0 for value in few.values())
    assert {name for name, value in many.items() if value is None} == {"enumerate", "enumerate/newton"}
    assert "Times as long as newton" in capsys.readouterr().out


def test_recipe_measures_models_with_the_given_setting(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recipe, "N_RULES", 3)
    monkeypatch.setattr(recipe, "SETTINGS", {})
    options = ["--sets", "enb", "--models", "linear,T1", "--seeds", "2", "--setting", "epochs=1", "--data-dir", str(tables)]
    assert recipe.main([*options, "--json", str(tmp_path / "rows.json"), "--markdown", str(tmp_path / "RESULTS.md")]) == 0
    assert recipe.SETTINGS == {"epochs": 1}
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["model"], row["seeds"], len(row["rmse_mean"])) for row in rows] == [("linear", 2, 2), ("T1", 2, 2)]
    assert "| enb | Y2 | T1 |" in capsys.readouterr().out
    assert "mean over 2 seeds" in (tmp_path / "RESULTS.md").read_text()


def test_recipe_compares_starts_of_kmeans_on_the_same_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    table = np.column_stack([x, np.sin(x[:, 0]) + x[:, 1]])
    np.savetxt(tmp_path / "california.csv", table, delimiter=",", header="a,b,c,d,y", comments="")
    monkeypatch.setattr(recipe, "N_RULES", 3)
    monkeypatch.setattr(recipe, "SETTINGS", {"epochs": 1})
    options = ["--sets", "california", "--models", "T1", "--seeds", "2", "--starts", "200:50,20:1"]
    assert recipe.main([*options, "--data-dir", str(tmp_path), "--json", str(tmp_path / "rows.json")]) == 0
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    errors = np.array(row["rmse"])
    assert errors.shape == (2, 2)
    assert not np.array_equal(errors[:, 0], errors[:, 1])  # the starts have another effect each
    assert np.array(row["kmeans_seconds"]).min() > 0
    assert "| california | T1 | 20 | 1 |" in capsys.readouterr().out


def test_distributions_measure_every_model_and_report_finished_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 3))
    table = np.column_stack([x, x[:, 0] + 0.5 * rng.normal(size=600)])
    np.savetxt(tmp_path / "boston.csv", table, delimiter=",", header="a,b,c,y", comments="")
    monkeypatch.setattr(distributions, "N_RULES", 2)
    cells = [distributions.measure("boston", 0, model, tmp_path) for model in distributions.SETTINGS]
    for cell in cells:
        if "crps" in cell:
            assert 0.2 < cell["crps"] < 0.5  # 0.28 for the true distribution, in units of the noise times 0.5
        if "0.9" in cell:
            assert all(cell[str(nominal)]["picp"] > nominal - 0.15 for nominal in distributions.NOMINAL)
        if "divided" in cell:
            assert all(abs(cell["divided"][str(nominal)] - nominal) < 0.02 for nominal in distributions.NOMINAL)
    assert sum("divided" in cell for cell in cells) == 2
    cells.append({**cells[0], "model": "boosted"})
    cells += [{**cell, "split": 1, "rmse": 2.0 * cell["rmse"]} for cell in cells if cell["model"] in distributions.CRISP]
    kept = tmp_path / "cells.json"
    kept.write_text(json.dumps(cells))
    options = ["--data-dir", str(tmp_path), "--sets", "boston", "--splits", "1", "--cells", str(kept), "--finished"]
    alone = tmp_path / "crisp.md"
    assert distributions.main([*options, "--models", "it2-crisp,gt2-crisp", "--markdown", str(alone)]) == 0
    assert "CRPS" not in alone.read_text()
    ratio = next(cell["rmse"] for cell in cells if cell["model"] == "gt2-crisp") / next(
        cell["rmse"] for cell in cells if cell["model"] == "it2-crisp"
    )
    assert f"| {ratio:.3f} | 0.000 |" in alone.read_text()  # of the two splits, which have one ratio
    capsys.readouterr()
    assert distributions.main([*options, "--markdown", str(tmp_path / "RESULTS.md")]) == 0
    printed = capsys.readouterr().out
    assert "| boston | GT2 quantiles, alpha | 1 |" in printed
    assert "PINAW at 90 % over that of IT2 with CQR: boston" in printed
    assert "## Distributions" in (tmp_path / "RESULTS.md").read_text()


def test_intervals_measure_every_model_and_report_finished_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(420, 4))
    table = np.column_stack([x, x[:, 0] + 0.5 * rng.normal(size=420)])
    np.savetxt(tmp_path / "boston.csv", table, delimiter=",", header="a,b,c,d,y", comments="")
    monkeypatch.setattr(intervals, "N_RULES", 3)
    cells = [intervals.measure("boston", 0, model, tmp_path) for model in intervals.MODELS]
    for cell in (cell for cell in cells if cell["model"] != "crisp"):
        assert all(cell[str(nominal)]["picp"] > nominal - 0.15 for nominal in intervals.NOMINAL)
        assert cell["0.99"]["pinaw"] > cell["0.9"]["pinaw"]
    kept = tmp_path / "cells.json"
    kept.write_text(json.dumps(cells))
    options = ["--data-dir", str(tmp_path), "--sets", "boston", "--splits", "1", "--cells", str(kept), "--finished"]
    assert intervals.main([*options, "--markdown", str(tmp_path / "RESULTS.md")]) == 0
    printed = capsys.readouterr().out
    assert "| boston | IT2, CQR | 1 |" in printed
    assert "Interval score of IT2, CQR at 99%" in printed
    assert "## Prediction intervals" in (tmp_path / "RESULTS.md").read_text()


def test_scale_trains_in_a_new_process_and_removes_its_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--part", "memory", "--rows", "3000", "--repeats", "1", "--dir", str(tmp_path)]
    assert scale.main([*options, "--markdown", str(tmp_path / "RESULTS.md")]) == 0
    assert "| 3,000 |" in capsys.readouterr().out
    assert "## Scale: memory" in (tmp_path / "RESULTS.md").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["RESULTS.md"]


def test_scale_measures_the_error_on_test_rows(tmp_path: Path) -> None:
    path = scale.random_table(tmp_path / "rows", 2_000)
    test = scale.random_table(tmp_path / "test", 500, seed=2)
    task = {**scale.task_of(path, epochs=1, test=test, rules=3, batch=256), "rows": str(path), "test": str(test)}
    streamed, in_memory = scale.trained(task), scale.trained({**task, "how": "memory"})
    spread = scale.read(str(test), "y")[1].std()
    for result in (streamed, in_memory):
        assert result["rows_per_second"] > 0
        assert 0 < result["rmse"] < spread


def test_scale_costs_of_steps_and_reading_are_positive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "STEP_ROWS", (64,))
    monkeypatch.setattr(scale, "GROUP_ROWS", 1_000)
    found = [*scale.step_costs(1), *scale.reading_costs(tmp_path, 1)]
    assert [n_rows for _, _, n_rows in found] == [64, 1_000, 1_000]
    assert all(seconds > 0 for _, seconds, _ in found)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_c_accuracy_has_a_line_for_every_width(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--systems", "1", "--trained", "1", "--rows", "50", "--markdown", str(tmp_path / "RESULTS.md")]
    assert c_accuracy.main(options) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("| random", "| trained"))]
    assert len(lines) == 2 * len(c_accuracy.WIDTHS)
    assert "1 random systems of every kind and 1 trained ones" in (tmp_path / "RESULTS.md").read_text()


@pytest.mark.parametrize(("script", "message"), [(embedded, "must be installed: apt-get"), (explorer, "make browser")])
def test_missing_program_is_named(
    script: object, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert script.main([]) == 1  # type: ignore[attr-defined]
    assert message in capsys.readouterr().err
