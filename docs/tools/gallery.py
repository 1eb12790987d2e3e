"""The gallery: runs the scripts in examples/, and turns each into a page and some into a notebook.

A script is its own documentation. The docstring has the title on its first line, then the problem, then a paragraph that
begins with "What to see:", which stands below the picture. The script saves one picture to the current folder and may
print. Lines ``# %%`` separate the cells of a notebook.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import json
import os
import re
import runpy
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NOTEBOOKS = EXAMPLES / "notebooks"
OUTCOMES = ROOT / "build" / "gallery"  # what the scripts made, by the contents of script and package
# The examples that also come as notebooks: they show rules and explanations as HTML.
WITH_NOTEBOOK = ("01_power_plant", "03_intervals_under_noise", "10_explain_one_prediction")
PICTURES = (".png", ".gif")


@dataclass(frozen=True)
class Example:
    """A script of the gallery and the parts of its docstring."""

    path: Path
    title: str
    problem: str
    reading: str
    code: str

    @property
    def name(self) -> str:
        return self.path.stem


@dataclass(frozen=True)
class Outcome:
    """What a script printed, and its picture."""

    printed: str
    picture: Path


def examples() -> list[Example]:
    """All scripts, in the order of their numbers."""
    return [read_example(path) for path in sorted(EXAMPLES.glob("[0-9]*.py"))]


def read_example(path: Path) -> Example:
    """The title, the texts and the code of a script."""
    source = path.read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source))
    if docstring is None:
        raise ValueError(f"{path.name} needs a docstring: a title, the problem, and a paragraph 'What to see: ...'.")
    title, _, rest = docstring.partition("\n")
    problem, found, reading = rest.partition("What to see:")
    if not found:
        raise ValueError(f"the docstring of {path.name} needs a paragraph that begins with 'What to see:'.")
    code = source.split('"""', 2)[2].strip() + "\n"
    return Example(path, title.rstrip("."), problem.strip(), reading.strip()[:1].upper() + reading.strip()[1:], code)


def outcome(example: Example, folder: Path) -> Outcome:
    """Run a script in a folder of its own below ``folder``, unless the same script was run there with the same package."""
    place = folder / f"{example.name}-{_digest(example.path)}"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{example.name}.lock"):
        if not (place / "printed.txt").is_file():
            for earlier in folder.glob(f"{example.name}-*"):
                shutil.rmtree(earlier, ignore_errors=True)
            _run(example.path, place)
    pictures = [path for path in sorted(place.iterdir()) if path.suffix in PICTURES]
    if len(pictures) != 1:
        raise ValueError(f"{example.path.name} must save one picture to the current folder, got {len(pictures)}.")
    return Outcome((place / "printed.txt").read_text(encoding="utf-8"), pictures[0])


def _run(script: Path, place: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import torch
    from matplotlib import pyplot

    work = place.with_name(f"{place.name}.{os.getpid()}")  # renamed at the end, so that a folder in place is complete
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    printed = io.StringIO()
    arguments, before, n_threads = sys.argv, Path.cwd(), torch.get_num_threads()
    try:
        sys.argv = [str(script)]
        os.chdir(work)
        with pyplot.rc_context({"savefig.dpi": 130}), contextlib.redirect_stdout(printed):
            runpy.run_path(str(script), run_name="__main__")
        (work / "printed.txt").write_text(printed.getvalue(), encoding="utf-8")
        work.rename(place)
    finally:
        os.chdir(before)
        sys.argv = arguments
        torch.set_num_threads(n_threads)
        pyplot.close("all")
        shutil.rmtree(work, ignore_errors=True)


def _digest(script: Path) -> str:
    digest = hashlib.sha256(script.read_bytes())
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def page(example: Example, done: Outcome) -> str:
    """The page of an example, in Markdown: problem, code, picture, what to read off it."""
    code = re.sub(r"^# %%.*\n", "", example.code, flags=re.MULTILINE)
    download = f"[{example.path.name}]({example.path.name})"
    if example.name in WITH_NOTEBOOK:
        download += f", as a notebook: [{example.name}.ipynb]({example.name}.ipynb)"
    parts = [
        f"# {example.title}\n\n{example.problem}",
        f"![{example.title}]({picture_name(example, done)})",
        f"**What to see.** {example.reading}",
        f"## The code\n\n```python\n{code}```",
        f"Download: {download}",
    ]
    if done.printed.strip():
        parts.insert(4, f"It prints:\n\n```text\n{done.printed.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def picture_name(example: Example, done: Outcome) -> str:
    return f"{example.name}{done.picture.suffix}"


def index_page(done: list[tuple[Example, Outcome]]) -> str:
    """The page with a card for every example."""
    cards = "\n".join(
        f'<a class="card" href="{example.name}.html"><img src="{picture_name(example, result)}" alt="" loading="lazy">'
        f"<span>{example.title}</span></a>"
        for example, result in done
    )
    text = (
        "Scripts of a few seconds each, run when this site is built. They illustrate: data and settings were chosen, with "
        "a look at the results, to show something in one picture. Measurements are under [Results](../RESULTS.md)."
    )
    return f'# Gallery\n\n{text}\n\n<div class="gallery">\n{cards}\n</div>\n'


def notebook(example: Example) -> str:
    """The script as a notebook, not yet executed, as JSON."""
    import nbformat

    title, problem, reading = example.title, example.problem, example.reading
    cells = [nbformat.v4.new_markdown_cell(f"# {title}\n\n{problem}\n\n**What to see.** {reading}")]
    parts = re.split(r"^# %%.*\n", example.code, flags=re.MULTILINE)
    cells += [nbformat.v4.new_code_cell(_shown(part.strip())) for part in parts if part.strip()]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps(nbformat.v4.new_notebook(cells=cells, metadata=kernel), indent=1, ensure_ascii=False) + "\n"


def _shown(cell: str) -> str:
    """The cell with its last line ``print(value)`` as ``value``: a notebook then shows rules and explanations as HTML."""
    *before, last = cell.splitlines()
    found = re.fullmatch(r"print\(((?:model|explanation)[^,]*)\)", last)
    return "\n".join([*before, found.group(1) if found else last])
