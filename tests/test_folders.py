"""Imports go down the list of folders, never up; docs/architecture.md has the picture."""

from __future__ import annotations

import ast
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
# Methods of an estimator that belong to a folder above it: this file imports inside functions or for type checking only.
MIXINS = {"estimators/result_methods.py"}


def folder_of(module: str) -> str:
    """The entry of FOLDERS that holds a module of this package."""
    return module.split(".")[1] if "." in module else ""


def imports_of(path: Path) -> list[str]:
    """Modules of this package that a file imports, anywhere in it, including inside functions."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} line {node.lineno}: imports are absolute"
            found += [f"deepfls.{a.name}" for a in node.names] if node.module == "deepfls" else [node.module or ""]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return [name for name in found if name.startswith("deepfls.") and folder_of(name) in FOLDERS]


FILES = sorted(PACKAGE.rglob("*.py"))
IDS = [path.relative_to(PACKAGE).as_posix() for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_file_imports_only_from_below(path: Path) -> None:
    place = path.relative_to(PACKAGE)
    if place.as_posix() in MIXINS or (place.name == "__init__.py" and len(place.parts) == 1):
        return
    own = place.parts[0].removesuffix(".py")
    allowed = FOLDERS[: FOLDERS.index(own) + 1]
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
