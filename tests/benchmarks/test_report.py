"""Rows beside their targets, and the command line, tables and files of a benchmark."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from _report import Row, Target, answer, markdown_table, write_section


@pytest.mark.parametrize(
    ("sense", "value", "holds"),
    [("<=", 2.0, True), ("<=", 2.001, False), (">=", 2.0, True), (">=", 1.999, False), ("<=", math.nan, False)],
)
def test_target_holds_on_its_side_of_the_limit(sense: str, value: float, holds: bool) -> None:
    assert Row("w", value, "x", Target(sense, 2.0)).holds is holds


def test_row_without_value_or_target_has_no_verdict() -> None:
    assert Row("could not be installed", None, "x", Target(">=", 4)).holds is None
    assert Row("w", 3.0, "bytes").holds is None


def test_value_that_is_not_finite_is_null_in_json() -> None:
    assert Row("w", math.inf, "x").as_json()["value"] is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0.0, "0"),
        (62.0, "62"),
        (0.012345, "0.01235"),
        (16.754, "16.75"),
        (1398.2, "1,398"),
        (1e-9, "0.000000"),
    ],
)
def test_value_is_shown_in_few_digits(value: float | None, shown: str) -> None:
    assert Row("w", value, "x").shown_value() == shown


def measured(quick: bool) -> Iterator[Row]:
    yield Row("first [red]work[/red] | two", 1.5 if quick else 1.6, "x", Target("<=", 2.0))
    yield Row("second", 2.5, "x", Target("<=", 2.0))
    yield Row("without target", 7.0, "ms")


def interrupted(quick: bool) -> Iterator[Row]:
    yield Row("finished", 120.0, "x", Target(">=", 100))
    raise KeyboardInterrupt


def failing(quick: bool) -> Iterator[Row]:
    yield Row("finished", 120.0, "x", Target(">=", 100))
    raise RuntimeError("a run of 3 steps ended by divergence, which is no measurement.")


def answered(measure: Any, *arguments: object) -> int:
    given = [str(argument) for argument in arguments]
    return answer("benchmarks/steps.py", "How long?", "A step", "One thread.", measure, given)


def test_answer_prints_rows_beside_their_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert answered(measured) == 0
    printed = capsys.readouterr().out
    lines = [line.split() for line in printed.splitlines()]
    assert printed.startswith("steps: A step. One thread.\n")
    assert ["first", "[red]work[/red]", "|", "two", "1.600", "x", "<=", "2", "yes"] in lines
    assert ["second", "2.500", "x", "<=", "2", "NO"] in lines
    assert ["without", "target", "7", "ms"] in lines
    assert printed.endswith("1 of 2 targets hold.\n")


def test_answer_writes_json_and_a_section(tmp_path: Path) -> None:
    report, rows_file = tmp_path / "RESULTS.md", tmp_path / "rows.json"
    report.write_text("# Results\n\nBy hand.\n")
    assert answered(measured, "--json", rows_file, "--markdown", report) == 0
    assert json.loads(rows_file.read_text())[1] == {
        "question": "steps", "work": "second", "value": 2.5, "unit": "x", "target": "<= 2", "holds": False, "quick": False,
    }  # fmt: skip
    text = report.read_text()
    assert "By hand." in text
    assert "<!-- steps: written by a command, not by hand -->" in text
    assert "### A step" in text
    assert "Written by `python benchmarks/steps.py --markdown RESULTS.md`. One thread." in text
    assert "| second | 2.500 | x | <= 2 | NO |" in text
    assert "torch" in text.split("| without target")[1]  # hardware and versions at the foot


def test_quick_answer_is_marked_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answered(measured, "--quick", "--json", tmp_path / "rows.json", "--markdown", tmp_path / "RESULTS.md")
    printed = capsys.readouterr().out
    assert "\nQuick: " in printed
    assert "1.500" in printed
    assert all(row["quick"] for row in json.loads((tmp_path / "rows.json").read_text()))
    text = (tmp_path / "RESULTS.md").read_text()
    assert "Quick: " in text
    assert "steps.py --quick" in text


def test_interrupt_keeps_finished_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answered(interrupted, "--json", tmp_path / "rows.json", "--markdown", tmp_path / "RESULTS.md") == 130
    assert [row["work"] for row in json.loads((tmp_path / "rows.json").read_text())] == ["finished"]
    assert "| finished | 120 | x | >= 100 | yes |" in (tmp_path / "RESULTS.md").read_text()
    assert "finished" in capsys.readouterr().out


def test_error_keeps_the_rows_before_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended by divergence"):
        answered(failing, "--json", tmp_path / "rows.json")
    assert len(json.loads((tmp_path / "rows.json").read_text())) == 1


def test_file_in_a_missing_folder_is_refused_before_measuring(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        answered(failing, "--json", "missing/rows.json")
    assert "argument --json: the folder of 'missing/rows.json' must exist." in capsys.readouterr().err


def test_markdown_table_escapes_bars() -> None:
    assert markdown_table(["a|b", "c"], [["1", "2|3"]]) == "| a\\|b | c |\n|---|---:|\n| 1 | 2\\|3 |"


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
