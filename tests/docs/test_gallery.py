"""Every example runs and makes one picture; pages and notebooks follow from the scripts."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import nbformat
import pytest

import gallery

EXAMPLES = gallery.examples()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_runs_and_makes_one_picture(example: gallery.Example) -> None:
    if "microcontroller" in example.name and not (shutil.which("cc") or shutil.which("gcc")):
        pytest.skip("no C compiler")
    done = gallery.outcome(example, gallery.OUTCOMES)
    assert done.picture.stat().st_size > 10_000


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_is_short_and_says_what_it_shows(example: gallery.Example) -> None:
    assert len(example.path.read_text(encoding="utf-8").splitlines()) < 80
    assert 10 < len(example.title) < 80
    assert len(re.findall(r"[.?](?=\s|$)", example.problem)) >= 3  # sentences
    assert len(example.reading) > 100


def test_gallery_has_at_least_twelve_examples_with_distinct_numbers() -> None:
    numbers = [example.name[:2] for example in EXAMPLES]
    assert len(numbers) >= 12
    assert len(set(numbers)) == len(numbers)


def test_example_without_a_docstring_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "99_silent.py"
    script.write_text("print(1)\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"99_silent.py needs a docstring"):
        gallery.read_example(script)


def test_example_that_saves_no_picture_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "99_blind.py"
    script.write_text('"""Title\n\nProblem.\n\nWhat to see: nothing.\n"""\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"must save one picture to the current folder, got 0"):
        gallery.outcome(gallery.read_example(script), tmp_path / "kept")


@pytest.mark.parametrize("name", gallery.WITH_NOTEBOOK)
def test_notebook_is_that_of_the_script_and_shows_rules_or_explanations_as_html(name: str) -> None:
    kept = nbformat.read(gallery.NOTEBOOKS / f"{name}.ipynb", as_version=4)
    made = nbformat.reads(gallery.notebook(gallery.read_example(gallery.EXAMPLES / f"{name}.py")), as_version=4)
    assert [cell.source for cell in kept.cells] == [cell.source for cell in made.cells], "run `make notebooks`"
    outputs = [output for cell in kept.cells for output in cell.get("outputs", [])]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert {"text/html", "image/png"} <= kinds


@pytest.mark.skipif(sys.platform == "win32", reason="Jupyter's kernel warns about the event loop of Windows")
def test_notebooks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All three in one kernel, since most of the time goes into starting one."""
    from nbclient import NotebookClient

    for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):  # not in HOME
        monkeypatch.setenv(variable, str(tmp_path / "jupyter"))

    cells = []
    for name in gallery.WITH_NOTEBOOK:
        cells += json.loads(gallery.notebook(gallery.read_example(gallery.EXAMPLES / f"{name}.py")))["cells"]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    joined = nbformat.from_dict({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    NotebookClient(joined, timeout=300, resources={"metadata": {"path": str(tmp_path)}}, kernel_name="python3").execute()
    assert len(list(tmp_path.glob("*.png"))) == len(gallery.WITH_NOTEBOOK)
