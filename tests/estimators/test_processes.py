"""Fits and predictions in other processes and threads, after fits in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "other_processes.py"


@pytest.mark.parametrize("way", ["fork", "spawn", "threads", "loky", "threading", "multiprocessing"])
def test_fits_and_predictions_are_those_of_this_process(way: str) -> None:
    if way in ("fork", "multiprocessing") and not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), way],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    n_results, same, difference = done.stdout.split()
    assert int(n_results) >= 1
    assert same == "True"  # bits: predictions do not depend on threads or processes
    assert float(difference) < 1e-9  # fits with other numbers of threads round in another order
