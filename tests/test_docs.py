"""What the documents say is true: their code runs, their commands exist, their picture can be drawn."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The examples are so small that a second thread only costs: up to 80 times on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def python_blocks(path: Path) -> list[tuple[int, str]]:
    """First line and source of every fenced block marked ``python``."""
    text = path.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start(1)), match.group(1)) for match in found]


def makefile_targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks_run_in_order(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = python_blocks(path)
    fences = path.read_text(encoding="utf-8").count("```python")
    assert len(blocks) == fences, f"a fence of {path.name} is malformed"
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, source in blocks:
        # Blank lines before the source make a traceback name the line of the document.
        exec(compile("\n" * line + source, str(path), "exec"), namespace)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_document_names_only_make_targets_that_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    # Commands stand in fenced blocks or inline code; elsewhere "make" is an English verb.
    fenced = "".join(re.findall(r"^```[^\n]*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL))
    named = {*re.findall(r"^make ([a-z][\w-]*)", fenced, flags=re.MULTILINE), *re.findall(r"`make ([a-z][\w-]*)", text)}
    assert named, f"{name} names no make target"
    assert named <= makefile_targets()


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_local_links_lead_to_files(path: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8"))
    made = ("gallery/", "../gallery/", "api/", "../api/")  # by the build of the site, which checks links to them
    local = [link.split("#")[0] for link in links if "://" not in link and not link.startswith(("#", *made))]
    assert [link for link in local if not (path.parent / link).is_file()] == []


def test_departures_from_the_paper_are_listed_where_they_are_tagged() -> None:
    listed = re.split(r"## \d+\. Departures", (ROOT / "docs" / "maths.md").read_text(encoding="utf-8"))[1]
    package = ROOT / "src" / "deepfls"
    tagged = {str(file.relative_to(package)) for file in package.rglob("*.py") if "DIFF(paper)" in file.read_text("utf-8")}
    assert {name for name in tagged if f"`{name}`" not in listed} == set()


def test_figure_script_writes_a_png(tmp_path: Path) -> None:
    path = tmp_path / "footprint.png"
    runpy.run_path(str(ROOT / "docs" / "figures" / "footprint.py"))["main"](path)
    assert path.read_bytes().startswith(PNG_SIGNATURE)
