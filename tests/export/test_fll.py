"""FuzzyLite loads what is written for it, and agrees."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepfls import FLSRegressor
from deepfls.export.fll import fll_text, write_fll
from deepfls.export.text import identifiers
from export_cases import inputs_of, random_plain_system

# Reads FLL files and rows, and prints the outputs of each: pyfuzzylite is GPL, and stays out of our own environment.
READER = """
import json, sys
import fuzzylite as fl
import numpy as np
results = []
for path, rows in json.load(sys.stdin):
    engine = fl.FllImporter().from_file(path)
    for variable, column in zip(engine.input_variables, np.array(rows).T):
        variable.value = column
    engine.process()
    results.append(np.stack([np.asarray(v.value) for v in engine.output_variables], axis=1).tolist())
print(json.dumps(results))
"""
VERSION = "pyfuzzylite==8.0.6"


@pytest.fixture(scope="module")
def fuzzylite() -> Path:
    """The Python of an environment of its own with pyfuzzylite, made once and kept beside the temporary files."""
    name = f"deepfls-{VERSION.replace('==', '-')}-python{sys.version_info.major}.{sys.version_info.minor}-{os.getuid()}"
    folder = Path(tempfile.gettempdir()) / name
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        for command in (
            # Without a pip of its own, which would take most of the time: ours installs into it.
            [sys.executable, "-m", "venv", "--clear", "--without-pip", folder],
            [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--retries", "0", VERSION],
        ):
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
            if done.returncode:
                lines = (done.stderr or done.stdout).strip().splitlines()
                pytest.skip(f"pip could not install {VERSION}: {lines[-1] if lines else 'no reason given'}")
        ready.touch()
    return python


def test_fuzzylite_agrees_with_python(fuzzylite: Path, tmp_path: Path) -> None:
    systems: list[dict[str, Any]] = [{}, {"tnorm": "htsk"}, {"order": 0}, {"n_features": 1}, {"n_rules": 1}]
    jobs, expected = [], []
    for place, fields in enumerate(systems):
        plain = random_plain_system(place + 3, kind="t1", **fields)
        write_fll(tmp_path / f"{place}.fll", plain)
        x = inputs_of(plain, 100)
        jobs.append((str(tmp_path / f"{place}.fll"), x.tolist()))
        expected.append(plain.output(x).y)
    names = ["heat (°C)", "is", "2nd"]
    plain = dataclasses.replace(random_plain_system(1, kind="t1", n_features=3), feature_names=tuple(names))
    write_fll(tmp_path / "if.fll", plain)
    x = inputs_of(plain, 100)
    jobs.append((str(tmp_path / "if.fll"), x.tolist()))
    expected.append(plain.output(x).y)
    done = subprocess.run([fuzzylite, "-c", READER], input=json.dumps(jobs), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for got, truth in zip(json.loads(done.stdout), expected, strict=True):
        np.testing.assert_allclose(got, truth, rtol=1e-9, atol=1e-9 * np.abs(truth).max())


def test_estimator_writes_fll(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    model = FLSRegressor(kind="t1", n_rules=3, epochs=1, random_state=0).fit(x, x[:, 0])
    model.to_fll(tmp_path / "plant.fll")
    text = (tmp_path / "plant.fll").read_text()
    assert text.startswith("Engine: plant\nInputVariable: x0\n")
    assert text.count("\n  rule: if x0 is rule") == 3


def test_type_2_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match=r"FLL cannot express this system: FuzzyLite has no Interval Type-2 sets; "):
        fll_text(random_plain_system(0))


def test_names_cannot_begin_a_line() -> None:
    plain = dataclasses.replace(random_plain_system(1, kind="t1", n_features=1), feature_names=("x\nRuleBlock: evil",))
    lines = fll_text(plain).splitlines()
    assert "InputVariable: x_RuleBlock__evil" in lines
    assert lines.count("RuleBlock: rules") == 1
    assert not any(line.startswith("RuleBlock: evil") for line in lines)


def test_identifiers_are_distinct_and_legal() -> None:
    made = identifiers(["a", "A", "a", "", "1", "and", "é"], "x", ["and"])
    assert len({name.lower() for name in made}) == 7
    assert all(name.isascii() and name.isidentifier() for name in made)
    assert "and" not in made
