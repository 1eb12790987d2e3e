"""Check the files in dist/: metadata, contents, and the wheel in a fresh environment.

python .ci/package.py
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
WANTED = {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "Makefile", "constraints.txt", "mkdocs.yml"}
FOLDERS = {"src", "tests", "docs", "examples", "benchmarks"}


def run(*command: str | Path, cwd: Path) -> None:
    print("$", *command, flush=True)
    subprocess.run([str(part) for part in command], cwd=cwd, check=True)


def check_contents(wheel: Path, sdist: Path) -> None:
    """The wheel has the package alone; the sdist has all that building, testing and documenting it takes."""
    with zipfile.ZipFile(wheel) as archive:
        folders = {name.split("/")[0] for name in archive.namelist()}
        assert "deepfls/py.typed" in archive.namelist()
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {"deepfls"}, folders
    with tarfile.open(sdist) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames() if "/" in name]
    assert set(names) >= WANTED, WANTED - set(names)
    assert {name.split("/")[0] for name in names} >= FOLDERS
    assert not [name for name in names if "__pycache__" in name]


def check_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel in a fresh environment, train from a CSV file in an empty folder, and check types against it."""
    venv.create(folder / "env", with_pip=True)
    bin_folder = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin")
    python, constraints = bin_folder / "python", ("--constraint", ROOT / "constraints.txt")
    run(python, "-m", "pip", "install", "--quiet", *constraints, "torch", cwd=folder)
    run(python, "-m", "pip", "install", "--quiet", *constraints, f"{wheel}[examples]", "mypy", cwd=folder)
    empty = folder / "empty"
    empty.mkdir()
    rows = "\n".join(f"{i % 17},{i % 5},{(i % 17) ** 2 + 3 * (i % 5)}" for i in range(300))
    (empty / "mine.csv").write_text(f"a,b,y\n{rows}\n", encoding="utf-8")
    deepfls = bin_folder / "deepfls"
    run(deepfls, "--version", cwd=empty)
    run(deepfls, "train", "mine.csv", "--target", "y", "--epochs", "20", "--out", "mine.fls", cwd=empty)
    run(deepfls, "predict", "mine.fls", "mine.csv", "--out", "predictions.csv", cwd=empty)
    run(deepfls, "demo", "--rows", "2000", "--n-rules", "5", cwd=empty)
    program = (ROOT / "tests" / "typed_program.py").read_text(encoding="utf-8")
    (empty / "typed_program.py").write_text(program, encoding="utf-8")
    run(python, "-m", "mypy", "--strict", "typed_program.py", cwd=empty)


def main() -> None:
    (wheel,) = (ROOT / "dist").glob("*.whl")
    (sdist,) = (ROOT / "dist").glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist, cwd=ROOT)
    check_contents(wheel, sdist)
    with tempfile.TemporaryDirectory() as folder:
        check_wheel(wheel.resolve(), Path(folder))
    print(f"{wheel.name} and {sdist.name} are fit for release.")


if __name__ == "__main__":
    main()
