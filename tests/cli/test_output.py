"""How commands print numbers, counts and tables."""

from __future__ import annotations

import json

import numpy as np
import pytest

from deepfls._checks.arguments import counted
from deepfls.cli.output import CommandOutput, aligned


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([3.14159, 123.456], ["3.142", "123.456"]),
        ([12345.678, 98765.4321], ["12,346", "98,765"]),
        ([0.01234], ["0.01234"]),
        ([0.0, 1.5], ["0.000", "1.500"]),
        ([-0.5], ["-0.5000"]),
        ([1e-9, 1.0], ["1e-09", "1"]),
        ([1e12], ["1e+12"]),
        ([float("nan"), 2.0], ["nan", "2.000"]),
        ([0.0], ["0"]),
    ],
    ids=str,
)
def test_numbers_of_a_column_align(values: list[float], texts: list[str]) -> None:
    assert aligned(values) == texts


@pytest.mark.parametrize(("number", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (12_000, "12,000 rows")])
def test_counts_have_the_right_plural(number: int, text: str) -> None:
    assert counted(number, "row") == text


def test_table_aligns_numbers_and_leaves_cells_empty(capsys: pytest.CaptureFixture[str]) -> None:
    CommandOutput(quiet=False).table(["name", "size", "share"], [["a", 1234.5, 0.25], ["b", 2.0, ""]], {"size": 1})
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "name      size    share",
        "───────────────────────",
        "a      1,234.5   0.2500",
        "b          2.0",
    ]


def test_table_keeps_its_numbers_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    CommandOutput(quiet=False).table(["name", "first", "second"], [["a long name", 123456.25, 0.015625]])
    assert capsys.readouterr().out.splitlines()[2].split() == ["a", "long", "name", "123,456", "0.01562"]


@pytest.mark.parametrize("options", [{"quiet": True, "json": False}, {"quiet": False, "json": True}], ids=str)
def test_quiet_and_json_print_no_lines(options: dict[str, bool], capsys: pytest.CaptureFixture[str]) -> None:
    output = CommandOutput(**options)
    output.line("line")
    output.text("text")
    output.table(["name"], [["a"]])
    output.result({"command": "x"})
    assert capsys.readouterr().out == ("" if options["quiet"] else '{"command": "x", "warnings": []}\n')


def test_json_has_null_in_place_of_what_it_cannot_hold(capsys: pytest.CaptureFixture[str]) -> None:
    output = CommandOutput(quiet=False, json=True)
    output.result({"a": float("nan"), "parts": [{"width": np.float64("inf"), "n": np.int64(2)}], "y": np.array([1.5])})
    assert json.loads(capsys.readouterr().out) == {
        "a": None,
        "parts": [{"width": None, "n": 2}],
        "y": [1.5],
        "warnings": [],
    }
