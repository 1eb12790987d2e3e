"""What a release says about itself is the same everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import deepfls
import readme

ROOT = Path(__file__).parents[2]


def test_citation_and_changelog_name_the_version_of_the_package() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {deepfls.__version__}\n" in citation
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert newest is not None
    assert newest.group(1) == deepfls.__version__


def test_readme_is_short_and_has_the_figures_of_the_results() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert text == readme.with_tables(text, (ROOT / "RESULTS.md").read_text(encoding="utf-8")), "run docs/tools/readme.py"


def test_workflow_calls_make_targets_that_exist() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    called = set(re.findall(r"run: (?:sudo )?make ([\w-]+)", workflow))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {"lint", "test", "docs", "package"} <= called
    assert called <= set(re.findall(r"^([a-z][\w-]*):(?!=)", makefile, flags=re.MULTILINE))


def test_workflow_tests_every_python_that_is_promised() -> None:
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert matrix["python"] == re.findall(r"Python :: (3\.\d+)", project)
    systems = {*matrix["system"], *(entry["system"] for entry in matrix["include"])}
    assert systems == {"ubuntu-latest", "macos-latest", "windows-latest"}


def test_lowest_versions_are_printed_for_every_promised_range(capsys) -> None:
    import runpy

    runpy.run_path(str(ROOT / ".ci" / "lowest.py"))
    printed = capsys.readouterr().out.splitlines()
    assert "numpy==1.26" in printed
    assert not [line for line in printed if line.startswith("torch==")]
