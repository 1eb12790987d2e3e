"""The documentation site, built once for all processes of a test run. What the examples made is kept for the next run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of a test run see."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def site(shared_folder: Path) -> Path:
    folder = shared_folder / "site"
    with FileLock(shared_folder / "site.lock"):
        if not (folder / "index.html").is_file():
            source_path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
            environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": source_path}
            command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    return folder
