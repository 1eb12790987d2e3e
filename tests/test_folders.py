"""Imports go down the list of folders, never up; docs/architecture.md has the picture."""

from __future__ import annotations

import ast
import re
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import deepfls

PACKAGE = Path(deepfls.__file__).parent

# Bottom to top: a file imports from its own folder and from those listed before it.
FOLDERS = [
    "_checks",
    "_files",
    "functional",
    "kernels",
    "nn",
    "metrics",
    "data",
    "training",
    "estimators",
    "inspection",
    "export",
    "engines",
    "cli",
    "__main__",
]
# Imports that go up, all inside functions: methods of an estimator that belong to a folder above it, and the compiled end
# points behind functional.karnik_mendel.
UPWARD = {
    "estimators/methods.py": {"inspection", "export"},
    "functional/karnik_mendel.py": {"kernels"},
}


def folder_of(module: str) -> str:
    """The entry of FOLDERS that holds a module of this package."""
    return module.split(".")[1] if "." in module else ""


def module_of(path: Path) -> str:
    return ".".join(("deepfls", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def imports_of(path: Path) -> list[str]:
    """Modules of this package that a file imports, anywhere in it, including inside functions."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} line {node.lineno}: imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name if name in MODULES else node.module or "" for name in names]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return [name for name in found if name.startswith("deepfls.") and folder_of(name) in FOLDERS]


FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {module_of(path): path for path in FILES}
IDS = [path.relative_to(PACKAGE).as_posix() for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_file_imports_only_from_below(path: Path) -> None:
    place = path.relative_to(PACKAGE)
    if place.as_posix() == "__init__.py":
        return
    own = place.parts[0].removesuffix(".py")
    allowed = {*FOLDERS[: FOLDERS.index(own) + 1], *UPWARD.get(place.as_posix(), ())}
    upward = [name for name in imports_of(path) if folder_of(name) not in allowed]
    assert not upward, f"{place} imports upward from {upward}"


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_file_stays_readable_in_one_sitting(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 420


def test_one_file_names_the_engine_of_many_processes() -> None:
    naming = [path.name for path in FILES if "torch.distributed" in path.read_text(encoding="utf-8")]
    assert naming == ["distributed.py"]


def test_functional_folder_holds_no_modules() -> None:
    for path in (PACKAGE / "functional").glob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert "nn.Module" not in source
        assert "nn.Parameter" not in source


def test_no_two_files_and_no_two_classes_share_a_name() -> None:
    files = Counter(path.name for path in FILES if path.name != "__init__.py")
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in FILES]
    classes = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert [name for name, count in (files + classes).items() if count > 1] == []


def test_nothing_but_the_folders_lies_at_the_root() -> None:
    loose = {path.name for path in FILES if path.parent == PACKAGE}
    assert loose == {"__init__.py", "__main__.py", "_files.py", "metrics.py"}


def test_only_kernels_import_numba() -> None:
    naming = {path.parent.name for path in FILES if re.search(r"^\s*(from|import) numba", path.read_text("utf-8"), re.M)}
    assert naming == {"kernels"}


def test_files_import_each_other_in_no_circle() -> None:
    mixins = {module_of(PACKAGE / place) for place in UPWARD if place.startswith("estimators")}
    imported = {
        name: {other for other in imports_of(path) if other in MODULES and name not in mixins} - {name}
        for name, path in MODULES.items()
        if name != "deepfls"
    }
    TopologicalSorter(imported).prepare()  # raises CycleError, which names the circle


def test_chains_of_imports_are_short() -> None:
    def at_the_top(path: Path) -> set[str]:
        body = ast.parse(path.read_text(encoding="utf-8")).body
        nodes = [node for node in body if isinstance(node, ast.ImportFrom)]
        names = {f"{node.module}.{alias.name}" for node in nodes for alias in node.names}
        return {name if name in MODULES else name.rpartition(".")[0] for name in names} & set(MODULES)

    imported = {name: at_the_top(path) - {name} for name, path in MODULES.items()}
    length: dict[str, int] = {}
    for name in TopologicalSorter(imported).static_order():
        length[name] = 1 + max((length[other] for other in imported[name]), default=0)
    assert max(length.values()) <= 14
