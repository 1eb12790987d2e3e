"""Where machine code is kept, and that an edit never leaves stale code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import deepfls
from deepfls.kernels import step

SOURCE = Path(deepfls.__file__).parent
# Prints a value of a compiled function that calls one from another file.
PROGRAM = """
import numpy as np
from deepfls.kernels import parameters
theta = np.arange(6.0)
rule, none = np.zeros(1, parameters.UPDATE), np.empty(0)
for name, value in (("n_rules", 2), ("n_columns", 3), ("decay", 0.5), ("clip", np.inf)):
    rule[name] = value
parameters.update(theta, np.zeros(6), rule, (none, none, none, none), 1.0)
print(theta.tolist(), sum(parameters.update.stats.cache_hits.values()))
from deepfls.kernels import compiling
print(compiling._FOLDER)
"""


def run(folder: Path, **environment: str) -> list[str]:
    """The output of PROGRAM with a copy of the package in a folder."""
    variables = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    variables.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=variables, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def copied_package(folder: Path) -> Path:
    shutil.copytree(SOURCE, folder / "deepfls", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_edit_of_a_called_file_is_compiled_again(tmp_path: Path) -> None:
    folder = copied_package(tmp_path)
    expected = "[0.75, 1.75, 2.75, 2.25, 3.25, 4.25]"
    assert run(folder)[0] == f"{expected} 0"
    assert run(folder)[0] == f"{expected} 1"
    arithmetic = folder / "deepfls" / "kernels" / "arithmetic.py"
    text = arithmetic.read_text(encoding="utf-8")
    changed = text.replace("return np.uintp(start) + np.uintp(i)", "return np.uintp(start) + np.uintp(0)")
    assert changed != text
    arithmetic.write_text(changed, encoding="utf-8")
    assert run(folder)[0] != f"{expected} 1"


def test_kept_code_works_beside_code_that_is_compiled_after_it(tmp_path: Path) -> None:
    # Kernels that allocate memory: machine code that is not linked to all it needs ends the process.
    program = """
import sys
import numpy as np
from deepfls.kernels.mixing import count_ranks
for dtype in sys.argv[1:]:
    places, ascending, ranks = np.array([4, 0, 3], dtype), np.empty(4, np.int64), np.empty(3, np.int64)
    count_ranks(places, 6, ascending, ranks)
    print(ascending[:3].tolist(), ranks.tolist(), sum(count_ranks.stats.cache_hits.values()))
"""
    variables = {**os.environ, "PYTHONPATH": str(SOURCE.parent), "NUMBA_CACHE_DIR": str(tmp_path)}
    expected = "[0, 3, 4] [2, 0, 1]"
    for dtypes, hits in ((["int64"], [0]), (["int64", "int32"], [1, 1]), (["int32", "int64"], [1, 2])):
        command = [sys.executable, "-c", program, *dtypes]
        done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
        assert (done.stdout.splitlines(), done.stderr) == ([f"{expected} {n}" for n in hits], "")


def test_read_only_install_keeps_code_in_the_cache_of_the_user(tmp_path: Path) -> None:
    folder = copied_package(tmp_path / "install")
    blocker = folder / "deepfls" / "kernels" / "__pycache__"
    blocker.write_text("a file where the folder would be")  # also root cannot write below it
    lines = run(folder, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert Path(lines[1]).is_relative_to(tmp_path / "cache" / "deepfls")


def test_kernels_work_where_nothing_can_be_written(tmp_path: Path) -> None:
    folder = copied_package(tmp_path / "install")
    (folder / "deepfls" / "kernels" / "__pycache__").write_text("a file where the folder would be")
    home = tmp_path / "home"
    home.write_text("a file where the folder would be")
    lines = run(folder, XDG_CACHE_HOME=str(home / "cache"), HOME=str(home))
    assert lines[0].startswith("[0.75, 1.75")
    assert lines[1] == "None"


def test_two_processes_can_compile_at_the_same_time(tmp_path: Path) -> None:
    folder = copied_package(tmp_path)
    variables = {**os.environ, "PYTHONPATH": str(folder)}
    both = [subprocess.Popen([sys.executable, "-c", PROGRAM], env=variables, stdout=subprocess.PIPE) for _ in range(2)]
    assert all(process.communicate()[0].startswith(b"[0.75") for process in both)
    assert all(process.returncode == 0 for process in both)


def test_old_machine_code_is_removed(tmp_path: Path) -> None:
    folder = copied_package(tmp_path)
    cache = folder / "deepfls" / "kernels" / "__pycache__"
    for number in range(5):
        (cache / f"kernels-{number}").mkdir(parents=True)
    run(folder)
    assert len(list(cache.glob("kernels-*"))) == 3


def test_importing_changes_no_setting_of_numba() -> None:
    source = (
        "from numba import config\n"
        "before = config.CACHE_DIR\n"
        "import deepfls.kernels.parameters\n"
        "assert config.CACHE_DIR == before\n"
    )
    subprocess.run([sys.executable, "-c", source], check=True)


@pytest.mark.parametrize("kernel", [step.step_kernel(True, False, False), step.row_kernel(False, True, False)])
def test_variables_of_a_kernel_are_the_same_in_every_process(kernel: Any) -> None:
    """Numba keys kept machine code on them: a compiled function among them would be compiled in every process."""
    assert {type(cell.cell_contents) for cell in kernel.py_func.__closure__} == {bool}
