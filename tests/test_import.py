"""Importing the package is light and touches nothing global."""

from __future__ import annotations

import json
import subprocess
import sys


def run_python(source: str) -> str:
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    return done.stdout


def test_import_leaves_heavy_packages_alone() -> None:
    heavy = [
        "numba",
        "matplotlib",
        "pyarrow",
        "pandas",
        "polars",
        "rich",
        "typer",
        "jinja2",
        "torch._dynamo",
        "sklearn.cluster",
    ]
    # What torch itself imports does not count.
    source = (
        "import sys, json, torch; before = set(sys.modules); import deepfls, deepfls.nn, deepfls.functional; "
        f"print(json.dumps([m for m in {heavy!r} if m in sys.modules and m not in before]))"
    )
    assert json.loads(run_python(source)) == []


def test_import_changes_no_global_setting() -> None:
    source = (
        "import torch, warnings, logging, random\n"
        "def state():\n"
        "    return (torch.get_num_threads(), torch.get_default_dtype(), torch.initial_seed(), list(warnings.filters),\n"
        "            logging.getLogger().level, list(logging.getLogger().handlers), random.getstate(),\n"
        "            torch.is_grad_enabled())\n"
        "before = state()\n"
        "import deepfls, deepfls.nn, deepfls.functional\n"
        "print(state() == before)"
    )
    assert run_python(source).strip() == "True"
