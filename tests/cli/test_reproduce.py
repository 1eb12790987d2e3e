"""``deepfls reproduce``: small real runs through the door."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deepfls import experiment
from deepfls.cli.app import app
from deepfls.cli.reproduce import _ratios
from deepfls.cli.sections import write_section
from deepfls.data.datasets import load_dataset
from deepfls.training.state import Run

KEYS = {
    "dataset", "rules", "system", "output", "seconds", "ms_per_step", "steps", "extrapolated", "rmse_mean", "rmse_std",
    "paper_seconds", "paper_rmse",
}  # fmt: skip


def reproduce(shared_data: Path, *arguments: str) -> Any:
    common = ["reproduce", "--data-dir", str(shared_data), "--epochs", "2", "--rules", "3", "--sets", "boston,enb"]
    return CliRunner().invoke(app, [*common, *arguments])


def test_reproduce_writes_rows_and_a_table(shared_data: Path, tmp_path: Path) -> None:
    rows_file, report = tmp_path / "rows.json", tmp_path / "RESULTS.md"
    done = reproduce(shared_data, "--seeds", "2", "--json", str(rows_file), "--markdown", str(report))
    assert done.exit_code == 0, done.output
    rows = json.loads(rows_file.read_text())
    assert len(rows) == 3 * 4  # one output and two, four systems
    assert all(set(row) >= KEYS for row in rows)
    by_system = {row["system"]: row for row in rows if row["dataset"] == "boston"}
    assert by_system["it2-km"]["extrapolated"]
    assert by_system["it2-km"]["rmse_mean"] is None
    assert by_system["it2-fkm"]["rmse_mean"] == pytest.approx(by_system["it2"]["rmse_mean"], rel=1e-4)
    assert "| boston | 3 | it2 | MEDV |" in report.read_text()
    assert "it2-fkm" in done.stdout
    ratio = by_system["it2"]["ms_per_step"] / by_system["t1"]["ms_per_step"]
    assert f"Ours takes {ratio:.2f} (boston), " in report.read_text()


def test_ratios_of_the_most_rules_that_both_systems_have() -> None:
    cells = [("ccpp", 5, "it2", 2.0), ("ccpp", 5, "it2-fkm", 9.0), ("ccpp", 15, "t1", 2.0), ("ccpp", 15, "it2", 2.5)]
    cells += [("enb", 15, "t1", 1.0), ("enb", 15, "it2", 4.0), ("enb", 15, "it2-fkm", 4936.0), ("ccpp", 21, "t1", 3.0)]
    rows = [{"dataset": d, "rules": p, "system": s, "ms_per_step": ms} for d, p, s, ms in cells]
    assert _ratios(rows) == [
        "Ours takes 1.25 (ccpp), 4.00 (enb) times as long as T1, with 15 rules.",
        "The enumeration takes 1,234 (enb) times as long as ours, with 15 rules.",
    ]
    assert _ratios([]) == []


def test_time_of_a_cell_is_the_median_over_its_seeds(shared_data: Path) -> None:
    data = load_dataset("boston", data_dir=shared_data)
    runs = [experiment.Run(seconds, 10, False, (error,)) for seconds, error in ((1.0, 0.1), (9.0, 0.3), (2.0, 0.2))]
    (row,) = experiment.summary_rows(data, 5, "t1", runs)
    assert (row["seconds"], row["ms_per_step"]) == (2.0, 200.0)
    assert row["rmse_mean"] == pytest.approx(0.2)


def test_reproduce_goes_on_from_finished_cells(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows_file = tmp_path / "rows.json"
    assert reproduce(shared_data, "--systems", "t1", "--json", str(rows_file)).exit_code == 0
    before = json.loads(rows_file.read_text())
    tried = []
    real = experiment.run
    monkeypatch.setattr(experiment, "run", lambda *args, **options: tried.append(args[3]) or real(*args, **options))
    assert reproduce(shared_data, "--systems", "t1,it2", "--json", str(rows_file)).exit_code == 0
    after = json.loads(rows_file.read_text())
    assert [row for row in after if row["system"] == "t1"] == before
    assert tried.count("t1") == 1  # the warm-up; neither cell ran again


def test_reproduce_measures_again_when_asked_for_more_seeds(shared_data: Path, tmp_path: Path) -> None:
    rows_file = tmp_path / "rows.json"
    for seeds in ("1", "2"):
        assert reproduce(shared_data, "--systems", "t1", "--seeds", seeds, "--json", str(rows_file)).exit_code == 0
    assert {row["seeds"] for row in json.loads(rows_file.read_text())} == {2}
    assert len(json.loads(rows_file.read_text())) == 3


def test_enumeration_of_many_rules_is_left_out(shared_data: Path) -> None:
    done = reproduce(shared_data, "--systems", "it2-fkm,t1", "--rules", "21")
    assert done.exit_code == 0
    assert "it2-fkm is left out from 21 rules on" in done.stdout


def test_interrupt_keeps_finished_cells(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C inside a training step of the second set: the loop ends the run early, which must not count as measured."""
    rows_file = tmp_path / "rows.json"
    update = Run.update
    steps = []

    def interrupted(run: Run, rate: float) -> None:
        steps.append(run.parameters[0].shape[1])
        if steps[-1] == 8 and steps.count(8) == 3:  # enb has 8 inputs
            raise KeyboardInterrupt
        update(run, rate)

    monkeypatch.setattr(Run, "update", interrupted)
    done = reproduce(shared_data, "--systems", "t1", "--json", str(rows_file))
    assert done.exit_code == 130
    assert [row["dataset"] for row in json.loads(rows_file.read_text())] == ["boston"]
    assert "the cells that were finished are above" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sets", "bostn"], "--sets must be one of 'ccpp', 'boston', 'enb', got 'bostn'. Did you mean 'boston'?"),
        (["--systems", "it3"], "--systems must be one of 't1', 'it2-km', 'it2-fkm', 'it2', got 'it3'. Did you mean 'it2'?"),
        (["--rules", "5,x"], "--rules must be positive whole numbers separated by commas, got '5,x'."),
    ],
)
def test_bad_options_are_told_in_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["reproduce", "--data-dir", str(tmp_path), *arguments])
    assert done.exit_code in (1, 2)
    assert done.stderr.strip().removeprefix("Error: ") == message


def test_foreign_json_file_is_left_alone(shared_data: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "rows.json"
    foreign.write_text("not rows")
    done = reproduce(shared_data, "--json", str(foreign))
    assert done.exit_code == 1
    assert "must hold a list of rows from an earlier run" in done.stderr
    assert foreign.read_text() == "not rows"


def test_sections_replace_their_own_text_only(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    path.write_text("# Results\n\nBy hand.\n")
    write_section(path, "first", "one \\1 $")
    write_section(path, "second", "two")
    write_section(path, "first", "three \\g<0>")
    text = path.read_text()
    assert "By hand." in text
    assert "one" not in text
    assert text.index("three \\g<0>") < text.index("two")
