"""``deepfls export``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Refused = Callable[..., str]
FAST = ("--epochs", "1", "--n-rules", "2", "--random-state", "0")


@pytest.fixture
def models(run: Run) -> None:
    """A Type-1 and an Interval Type-2 model of y from x, and one of classes."""
    run("train", "plant.csv", "--target", "y", "--feature", "x", "--kind", "t1", *FAST, "--out", "t1.fls")
    run("train", "plant.csv", "--target", "y", "--feature", "x", *FAST, "--out", "it2.fls")


@pytest.mark.usefixtures("models")
def test_export_writes_every_target(run: Run, folder: Path) -> None:
    assert run("export", "it2.fls", "--to", "c", "--out", "plant.h").stdout.startswith("Wrote plant.h: about ")
    assert "plant_predict_interval" in (folder / "plant.h").read_text()
    assert run("export", "t1.fls", "--out", "plant.fll").stdout == "Wrote plant.fll\n"
    assert run("export", "t1.fls", "--out", "plant.fis").stdout == "Wrote plant.fis\n"
    assert run("export", "it2.fls", "--out", "plant.t2fis", "--quiet").output == ""
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    assert "µs for one row" in run("export", "it2.fls", "--out", "plant.onnx", "--data", "plant.csv").stdout


@pytest.mark.usefixtures("models")
def test_export_passes_its_options_on(run: Run, folder: Path) -> None:
    arguments = ("--prefix", "pump", "--number", "q15", "--data", "plant.csv", "--margin", "0.5", "--json")
    content = json.loads(run("export", "it2.fls", "--out", "a.h", *arguments).stdout)
    assert content["command"] == "export"
    assert content["to"] == "c"
    assert content["flash_bytes"] > content["table_bytes"] > 0
    assert 0 < content["error"] < 0.01
    text = (folder / "a.h").read_text()
    assert "pump_margin" in text
    assert "Error on 40 given rows" in text
    run("export", "it2.fls", "--out", "b.h", "--exp", "builtin")
    assert "expf" not in (folder / "b.h").read_text()


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("options", [("a.onnx",), ("a.h", "--number", "q15")], ids=["onnx", "q15"])
def test_rows_with_missing_values_are_left_out_of_the_comparison(
    run: Run, refused: Refused, folder: Path, options: tuple[str, ...]
) -> None:
    if options == ("a.onnx",):
        pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    header, *rows = (folder / "plant.csv").read_text().splitlines()
    (folder / "holes.csv").write_text("\n".join([header, *("," + row.partition(",")[2] for row in rows[:2]), *rows[2:]]))
    result = run("export", "it2.fls", "--out", *options, "--data", "holes.csv")
    assert result.stderr == "Warning: 2 rows of X with missing values are not compared: the exported model gives NaN.\n"
    (folder / "empty.csv").write_text("\n".join([header, "," + rows[0].partition(",")[2], "," + rows[1].partition(",")[2]]))
    error = refused("export", "it2.fls", "--out", "b" + options[0], *options[1:], "--data", "empty.csv", code=1)
    assert "must have a row without missing values" in error


def test_export_writes_the_calibrated_interval(run: Run, refused: Refused, folder: Path) -> None:
    run("train", "plant.csv", "--target", "y", "--feature", "x", *FAST, "--coverage", "0.7", "--out", "it2.fls")
    run("export", "it2.fls", "--out", "a.h")
    assert "interval of coverage 0.7, calibrated (cqr) on " in (folder / "a.h").read_text()
    run("export", "it2.fls", "--out", "b.h", "--margin", "none")
    assert "the type-reduced set; not calibrated to a coverage" in (folder / "b.h").read_text()
    message = refused("export", "it2.fls", "--out", "c.h", "--number", "q15", code=1)
    assert message.endswith("or export with --margin none, where the interval is the type-reduced set.")
    message = "--margin must be auto, none or a number, got 'wide'."
    assert refused("export", "it2.fls", "--out", "c.h", "--margin", "wide", code=2) == message


@pytest.mark.usefixtures("models")
def test_export_tells_what_is_wrong(refused: Refused, folder: Path) -> None:
    message = "--out, the file to write, must be given. See 'deepfls export --help'."
    assert refused("export", "t1.fls", code=2) == message
    message = "--to must be one of 'c', 'onnx', 'fll', 'fis', got 'onxx'. Did you mean 'onnx'?"
    assert refused("export", "t1.fls", "--to", "onxx", "--out", "p.h", code=2) == message
    message = "--out must end in .h for --to c, got 'p.onnx'."
    assert refused("export", "t1.fls", "--to", "c", "--out", "p.onnx", code=2) == message
    message = "--out must end in .h, .onnx, .fll, .fis, .m, .t2fis, or --to must be given, got 'p.txt'."
    assert refused("export", "t1.fls", "--out", "p.txt", code=2) == message
    message = "--prefix must not be given with --to onnx, which does not take it."
    assert refused("export", "t1.fls", "--out", "p.onnx", "--prefix", "a", code=2) == message
    message = refused("export", "t1.fls", "--out", "my-plant.h", code=2)
    assert message.startswith("--prefix must be a C identifier of ")
    assert message.endswith("got 'my-plant': try --prefix my_plant.")
    message = "--number must be one of 'float', 'q15', 'q31', got 'q115'. Did you mean 'q15'?"
    assert refused("export", "t1.fls", "--out", "p.h", "--number", "q115", code=2) == message
    message = refused("export", "it2.fls", "--out", "p.h", "--flash", "100", code=1)
    assert message.startswith("The header must fit 100 bytes of flash and 8,192 bytes of RAM, got about 2,")
    message = refused("export", "it2.fls", "--out", "p.fll", code=1)
    assert message.startswith("FLL cannot express this system: FuzzyLite has no Interval Type-2 sets; ")
    (folder / "p.h").write_text("mine")
    message = "'p.h' already exists: replace it with --force, or give another --out."
    assert refused("export", "t1.fls", "--out", "p.h", code=2) == message
    assert (folder / "p.h").read_text() == "mine"


@pytest.mark.usefixtures("models")
def test_export_force_replaces_and_exceeds(run: Run, folder: Path) -> None:
    (folder / "p.h").write_text("mine")
    run("export", "it2.fls", "--out", "p.h", "--flash", "100", "--force")
    assert "p_predict" in (folder / "p.h").read_text()
