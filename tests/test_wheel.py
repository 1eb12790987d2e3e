"""The wheel holds the package and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "deepfls"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Names of the files in a wheel, built from a copy of the sources with the installed setuptools: no network."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.nbi", "*.nbc")
    for name in ("src", "tests", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def test_wheel_has_the_package_and_its_metadata_only(wheel: list[str]) -> None:
    folders = {name.split("/")[0] for name in wheel}
    assert "deepfls" in folders
    assert all(folder == "deepfls" or folder.endswith(".dist-info") for folder in folders)


def test_wheel_has_every_file_of_the_package(wheel: list[str]) -> None:
    """Every module, py.typed, and the files that are read at run time: pages and templates."""
    ignored = {".pyc", ".nbi", ".nbc"}
    files = {path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*") if path.is_file()}
    expected = {path.as_posix() for path in files if path.suffix not in ignored and "__pycache__" not in path.parts}
    assert {name for name in wheel if name.startswith("deepfls/")} == expected
    assert "deepfls/py.typed" in expected


def test_wheel_has_no_tests_and_no_benchmarks(wheel: list[str]) -> None:
    words = ("test", "benchmark", "conftest", "experiment", "reproduce")
    assert [name for name in wheel if any(word in Path(name).name for word in words)] == []
