"""``deepfls bench``: tables, files, and a clean end."""

from __future__ import annotations

import json
import runpy
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from deepfls.bench import fkm, limit, operations, steps
from deepfls.bench.rows import Row, Target

ROOT = Path(__file__).parents[2]
Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are there at once, for two of the questions."""

    def of_steps(quick: bool) -> Iterator[Row]:
        yield Row("steps", "first [red]work[/red] | two", 1.5 if quick else 1.6, "x", Target("<=", 2.0))
        yield Row("steps", "second", 2.5, "x", Target("<=", 2.0))

    def of_limit(quick: bool) -> Iterator[Row]:
        yield Row("limit", "third\x1b[31m", 3.0, "x", Target("<=", 4.0))
        yield Row("limit", "without target", 7.0, "ms")

    monkeypatch.setattr(steps, "measure", of_steps)
    monkeypatch.setattr(limit, "measure", of_limit)


def test_bench_prints_a_table_for_each_question(run: Run) -> None:
    out = run("bench", "--only", "steps,limit").stdout
    assert "steps: A training step of IT2, in times that of T1." in out
    lines = [line.split() for line in out.splitlines()]
    assert ["first", "[red]work[/red]", "|", "two", "1.600", "x", "<=", "2", "yes"] in lines
    assert ["second", "2.500", "x", "<=", "2", "NO"] in lines
    assert ["without", "target", "7", "ms"] in lines
    assert "\x1b" not in out
    assert out.rstrip().endswith("2 of 3 targets hold.")
    assert "Quick" not in out


def test_bench_writes_rows_and_a_section(run: Run, folder: Path) -> None:
    (folder / "RESULTS.md").write_text("# Results\n\nBy hand.\n")
    run("bench", "--only", "steps,limit", "--json", "rows.json", "--markdown", "RESULTS.md")
    rows = json.loads((folder / "rows.json").read_text())
    assert [row["question"] for row in rows] == ["steps", "steps", "limit", "limit"]
    assert rows[1] == {
        "question": "steps", "work": "second", "value": 2.5, "unit": "x", "target": "<= 2", "holds": False, "quick": False,
    }  # fmt: skip
    text = (folder / "RESULTS.md").read_text()
    assert "By hand." in text
    assert "<!-- speed: written by a command, not by hand -->" in text
    assert "| second | 2.500 | x | <= 2 | NO |" in text
    assert "first [red]work[/red] \\| two" in text
    assert "torch" in text.split("| without target")[1]  # hardware and versions at the foot
    assert "Written by `deepfls bench --only steps,limit --markdown RESULTS.md`" in text


def test_quick_run_says_so_everywhere(run: Run, folder: Path) -> None:
    done = run("bench", "--quick", "--only", "steps", "--json", "rows.json", "--markdown", "RESULTS.md")
    assert done.stdout.startswith("Quick: ")
    assert all(row["quick"] for row in json.loads((folder / "rows.json").read_text()))
    assert "Quick: " in (folder / "RESULTS.md").read_text()
    assert "1.500" in done.stdout


def test_bench_measures_for_real_and_leaves_threads_alone(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    run("bench", "--quick", "--only", "operations", "--json", "rows.json")
    assert torch.get_num_threads() == before
    rows = json.loads((folder / "rows.json").read_text())
    assert [row["work"] for row in rows] == [f"{name}, batch 64, M 13, P 15" for name in ("T1", "IT2 hs", "IT2 h")]
    assert all(0 < row["value"] < 60 for row in rows)


def test_interrupt_keeps_what_is_finished(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(quick: bool) -> Iterator[Row]:
        yield Row("fkm", "finished", 120.0, "x", Target(">=", 100))
        raise KeyboardInterrupt

    monkeypatch.setattr(fkm, "measure", interrupted)
    done = run("bench", "--only", "steps,fkm,limit", "--json", "rows.json", "--markdown", "RESULTS.md", code=130)
    assert [row["work"] for row in json.loads((folder / "rows.json").read_text())][1:] == ["second", "finished"]
    assert "| finished | 120 | x | >= 100 | yes |" in (folder / "RESULTS.md").read_text()
    assert "finished" in done.stdout
    assert "third" not in done.stdout
    assert "Stopped: interrupted; what was finished is above." in done.stderr


def test_failing_question_keeps_the_rows_before_it(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(quick: bool) -> Iterator[Row]:
        yield Row("fkm", "finished", 120.0, "x")
        raise RuntimeError("a run of 3 steps ended by divergence, which is no measurement.")

    monkeypatch.setattr(fkm, "measure", failing)
    done = run("bench", "--only", "steps,fkm", "--json", "rows.json", code=1)
    assert len(json.loads((folder / "rows.json").read_text())) == 3
    assert "ended by divergence" in done.stderr


def test_peers_are_asked_only_on_request(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measure(quick: bool, say: Callable[[str], None]) -> Iterator[Row]:
        asked.append(quick)
        say("installing [bold]things[/bold] ...")
        yield Row("peers", "pytsk: could not be installed: no network", None, "x")

    monkeypatch.setattr("deepfls.bench.peers.measure", measure)
    assert "pytsk" not in run("bench", "--only", "steps").stdout
    done = run("bench", "--only", "steps", "--peers", "--quick")
    assert "could not be installed: no network" in done.stdout
    assert "installing [bold]things[/bold] ..." in done.stderr
    run("bench", "--only", "peers")
    assert asked == [True, False]


def test_quiet_prints_nothing(run: Run, folder: Path) -> None:
    done = run("bench", "--only", "steps", "--quiet", "--json", "rows.json")
    assert done.output == ""
    assert len(json.loads((folder / "rows.json").read_text())) == 2


def test_bad_options_are_told_in_one_line(refused: Callable[..., str]) -> None:
    assert refused("bench", "--only", "step", code=1).endswith("got 'step'. Did you mean 'steps'?")
    assert refused("bench", "--only", ",", code=2).startswith("--only must name at least one of steps, operations, ")
    assert refused("bench", "--json", "missing/rows.json", code=1) == "the folder of 'missing/rows.json' must exist."


@pytest.mark.parametrize("name", ["steps", "limit", "fkm", "prediction", "threads", "memory", "peers"])
def test_script_asks_its_question(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def rows(*args: Any) -> Iterator[Row]:
        yield Row(name, "w", 1.0, "x")

    monkeypatch.setattr(f"deepfls.bench.{name}.measure", rows)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--quick", "--json", "rows.json"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"), run_name="__main__")
    assert ended.value.code == 0
    assert [row["question"] for row in json.loads((folder / "rows.json").read_text())] == [name]


def test_script_of_operations_prints_them_by_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "operations_of_a_step", lambda kind: {"aten.mm.default": 3.0, f"aten.{kind}": 1.0})
    runpy.run_path(str(ROOT / "benchmarks" / "operations.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "aten.hs" in printed
    assert printed.count("4") >= 3


def test_reference_names_every_option_and_question() -> None:
    from deepfls.bench.questions import QUESTIONS
    from deepfls.cli.bench import bench

    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").split("## Bench")[1]
    names = set(typing.get_type_hints(bench)) - {"return", "debug", "quiet", "json_file"} | {"json"}
    assert {name for name in names if f"--{name}" not in text} == set()
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    assert {name for name in QUESTIONS if f"`{name}`" not in page} == set()
