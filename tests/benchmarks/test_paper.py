"""``python benchmarks/paper.py``: small real runs from the command line to JSON and Markdown."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

import _protocol as protocol
import paper
from _timing import EpochTimes

KEYS = [
    "dataset", "rules", "system", "output", "seconds", "ms_per_step", "steps", "extrapolated", "rmse_mean", "rmse_std",
    "paper_seconds", "paper_rmse", "seeds", "epochs",
]  # fmt: skip


def run_paper(tables: Path, *arguments: object) -> int:
    common = ["--data-dir", tables, "--epochs", 2, "--rules", 3, "--sets", "boston,enb"]
    return paper.main([str(argument) for argument in (*common, *arguments)])


def rows_in(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text())
    return rows


def test_paper_writes_rows_and_a_table(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows_file, report = tmp_path / "rows.json", tmp_path / "RESULTS.md"
    assert run_paper(tables, "--seeds", 2, "--json", rows_file, "--markdown", report) == 0
    rows = rows_in(rows_file)
    assert len(rows) == 3 * 4  # one output and two, four systems
    assert all(list(row) == KEYS for row in rows)
    by_system = {row["system"]: row for row in rows if row["dataset"] == "boston"}
    assert by_system["it2-km"]["extrapolated"]
    assert by_system["it2-km"]["rmse_mean"] is None
    assert by_system["it2-fkm"]["rmse_mean"] == pytest.approx(by_system["it2"]["rmse_mean"], rel=1e-4)
    text = report.read_text()
    assert "| boston | 3 | it2 | MEDV |" in text
    assert "<!-- paper: written by a command, not by hand -->" in text
    assert "Written by `python benchmarks/paper.py --data-dir DIR --json FILE --markdown RESULTS.md`" in text
    ratio = by_system["it2"]["ms_per_step"] / by_system["t1"]["ms_per_step"]
    assert f"Ours takes {ratio:.2f} (boston), " in text
    printed = capsys.readouterr().out
    assert "it2-fkm" in printed
    assert "* extrapolated from 5 real training steps per seed" in printed


def test_ratios_of_the_most_rules_that_both_systems_have() -> None:
    cells = [("ccpp", 5, "it2", 2.0), ("ccpp", 5, "it2-fkm", 9.0), ("ccpp", 15, "t1", 2.0), ("ccpp", 15, "it2", 2.5)]
    cells += [("enb", 15, "t1", 1.0), ("enb", 15, "it2", 4.0), ("enb", 15, "it2-fkm", 4936.0), ("ccpp", 21, "t1", 3.0)]
    rows = [{"dataset": d, "rules": p, "system": s, "ms_per_step": ms} for d, p, s, ms in cells]
    assert paper.ratio_notes(rows) == [
        "Ours takes 1.25 (ccpp), 4.00 (enb) times as long as T1, with 15 rules.",
        "The enumeration takes 1,234 (enb) times as long as ours, with 15 rules.",
    ]
    assert paper.ratio_notes([]) == []


def test_second_run_measures_only_missing_cells(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows_file = tmp_path / "rows.json"
    assert run_paper(tables, "--systems", "t1", "--json", rows_file) == 0
    before = rows_in(rows_file)
    tried = []
    real = protocol.run
    monkeypatch.setattr(protocol, "run", lambda *args, **options: tried.append(args[3]) or real(*args, **options))
    assert run_paper(tables, "--systems", "t1,it2", "--json", rows_file) == 0
    assert [row for row in rows_in(rows_file) if row["system"] == "t1"] == before
    assert tried.count("t1") == 1  # only the warm-up


def test_cells_of_another_number_of_seeds_are_measured_again(tables: Path, tmp_path: Path) -> None:
    rows_file = tmp_path / "rows.json"
    for seeds in (1, 2):
        assert run_paper(tables, "--systems", "t1", "--seeds", seeds, "--json", rows_file) == 0
    assert {row["seeds"] for row in rows_in(rows_file)} == {2}
    assert len(rows_in(rows_file)) == 3


def test_classic_algorithm_runs_to_its_end_when_full(tables: Path, tmp_path: Path) -> None:
    options = ["--sets", "boston", "--systems", "it2-km,it2", "--full", "--json", tmp_path / "rows.json"]
    assert run_paper(tables, *options) == 0
    classic, ours = rows_in(tmp_path / "rows.json")
    assert not classic["extrapolated"]
    assert classic["rmse_mean"] == pytest.approx(ours["rmse_mean"], rel=1e-4)


def test_enumeration_of_many_rules_is_left_out(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--systems", "it2-fkm,t1", "--rules", 21, "--json", tmp_path / "rows.json"]
    assert run_paper(tables, *options) == 0
    assert "it2-fkm is left out from 21 rules on" in capsys.readouterr().out
    assert {row["system"] for row in rows_in(tmp_path / "rows.json")} == {"t1"}


def test_quiet_prints_nothing(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_paper(tables, "--sets", "boston", "--systems", "t1", "--quiet") == 0
    assert "".join(capsys.readouterr()).strip() == ""  # older versions of rich end a hidden bar with a line break


def test_interrupt_keeps_finished_cells(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C in a training step of the second set: the loop ends that run early, and the cell has no row."""
    rows_file = tmp_path / "rows.json"
    train = protocol.train

    class Interrupting(EpochTimes):
        def step(self, n_rows: int) -> None:
            raise KeyboardInterrupt

    def interrupted(system: Any, rows: Any, config: Any, **options: Any) -> Any:
        progress = Interrupting(lambda: 0.0) if system.n_features == 8 else None  # enb has 8 inputs
        with pytest.warns(UserWarning, match="interrupted") if progress else contextlib.nullcontext():
            return train(system, rows, config, progress=progress, **options)

    monkeypatch.setattr(protocol, "train", interrupted)
    assert run_paper(tables, "--systems", "t1", "--json", rows_file) == 130
    assert [row["dataset"] for row in rows_in(rows_file)] == ["boston"]
    assert "Stopped: interrupted; the cells that were finished are above." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sets", "bostn"], "each name must be one of 'ccpp', 'boston', 'enb', got 'bostn'. Did you mean 'boston'?"),
        (["--systems", "it3"], "'it2', got 'it3'. Did you mean 'it2'?"),
        (["--rules", "5,x"], "argument --rules: must be positive whole numbers separated by commas, got '5,x'."),
        (["--seeds", "0"], "argument --seeds: must be a positive whole number, got '0'."),
        (["--json", "missing/rows.json"], "argument --json: the folder of 'missing/rows.json' must exist."),
    ],
)
def test_bad_option_ends_with_a_usage_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        paper.main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.rstrip().endswith(message)


def test_foreign_json_file_is_left_unchanged(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = tmp_path / "rows.json"
    foreign.write_text("not rows")
    assert run_paper(tables, "--json", foreign) == 1
    assert "must hold a list of rows from an earlier run" in capsys.readouterr().err
    assert foreign.read_text() == "not rows"
    with pytest.raises(ValueError, match="list of rows"):
        run_paper(tables, "--json", foreign, "--debug")


def test_missing_folder_is_an_error_of_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_paper(tmp_path / "missing") == 1
    error = capsys.readouterr().err
    assert error.startswith("Error: data_dir must be an existing folder")
    assert error.count("\n") == 1
