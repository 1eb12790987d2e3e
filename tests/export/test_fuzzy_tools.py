"""Files for FuzzyLite and MATLAB state the same system; systems that a file cannot hold are refused."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deepfls import FLSRegressor
from deepfls.export import read_fis
from deepfls.export.fuzzy_tools import fis_text, fll_text, script_text, t2fis_text, write_fis, write_fll
from deepfls.functional import karnik_mendel
from deepfls.inspection.plain import PlainSystem
from export_cases import inputs_of, random_plain_system


@pytest.mark.parametrize("fields", [{}, {"tnorm": "htsk"}, {"order": 0}, {"n_features": 1, "n_outputs": 3}], ids=str)
def test_fis_file_reads_back_as_the_same_system(fields: dict[str, Any], tmp_path: Path) -> None:
    plain = random_plain_system(3, kind="t1", **fields)
    write_fis(tmp_path / "plant.fis", plain)
    x = inputs_of(plain, 200)
    got = read_fis(tmp_path / "plant.fis", names=False).predict(x).reshape(200, -1)
    truth = plain.output(x).y
    np.testing.assert_allclose(got, truth, rtol=1e-9, atol=1e-9 * np.abs(truth).max())


def sets_of(text: str, suffix: str) -> np.ndarray[Any, Any]:
    """Numbers of the sets MF<p><suffix> of every input: (rules, inputs, numbers)."""
    inputs = re.findall(r"\[Input\d+\](.*?)(?=\n\[)", text, flags=re.DOTALL)
    rows = [[m.split() for m in re.findall(rf"^MF\d+{suffix}='.*?':'gaussmf',\[(.*?)\]", i, re.MULTILINE)] for i in inputs]
    return np.array(rows, dtype=float).transpose(1, 0, 2)


def by_product(sets: np.ndarray[Any, Any], x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Product of Gaussian grades with width, center and height, (rows, rules)."""
    sigma, center, height = np.moveaxis(sets, 2, 0)
    return (height * np.exp(-0.5 * np.square((x[:, np.newaxis] - center) / sigma))).prod(axis=2)


@pytest.mark.parametrize("tnorm", ["product", "htsk"])
def test_t2fis_file_states_the_firing_of_the_system(tnorm: str) -> None:
    plain = random_plain_system(3, tnorm=tnorm, n_features=3, n_rules=4, n_outputs=1)
    text = t2fis_text(plain)
    assert "TypeRedMethod='KM'" in text
    x = inputs_of(plain, 50, stretch=0.5)
    lower, upper = by_product(sets_of(text, "L"), x), by_product(sets_of(text, "U"), x)
    consequents = re.findall(r"'linear',\[(.*?)\]", text)
    slopes = np.array([c.split() for c in consequents], dtype=float)
    values = (x @ slopes[:, :-1].T + slopes[:, -1])[..., np.newaxis]
    ends = karnik_mendel(*(torch.from_numpy(v) for v in (lower, upper, values)))
    truth = plain.output(x)
    np.testing.assert_allclose(ends.y_left, truth.y_left, rtol=1e-6, atol=1e-6 * np.abs(truth.y).max())
    np.testing.assert_allclose(ends.y_right, truth.y_right, rtol=1e-6, atol=1e-6 * np.abs(truth.y).max())


@pytest.mark.parametrize("tnorm", ["product", "htsk"])
def test_script_scales_the_lower_sets_by_the_heights(tnorm: str) -> None:
    plain = random_plain_system(3, uncertainty="h", tnorm=tnorm, n_features=2, n_rules=3, n_outputs=1)
    text = script_text(plain, "my plant")
    assert text.count('addMF(my_plant, "x') == 6
    assert text.count("'LowerLag', 0)") == 6
    assert text.endswith('writeFIS(my_plant, "my_plant");\n')
    found = re.findall(r"\"gaussmf\", \[(\S+) (\S+)\], 'Name', \"rule\d\", 'LowerScale', (\S+),", text)
    sets = np.array(found, dtype=float).reshape(2, 3, 3).transpose(1, 0, 2)
    x = inputs_of(plain, 20)
    np.testing.assert_allclose(np.log(by_product(sets, x)), plain.firing(x)[0], rtol=1e-9)


# The form of two published files of MATLAB's type-2 Sugeno systems: version 3.0, a line for the type reduction after the
# line for defuzzification, and sets with the numbers of the upper set, then the scale and both lags of the lower set.
T2_SET = r"^MF(\d+)='rule\d+':'gaussmf',\[(\S+) (\S+)\],\[(\S+)\],\[0 0\]$"


@pytest.mark.parametrize("fields", [{"n_outputs": 1}, {"tnorm": "htsk"}, {"order": 0}], ids=str)
def test_type_2_fis_file_has_the_form_of_matlab_and_the_firing_of_the_system(
    fields: dict[str, Any], tmp_path: Path
) -> None:
    plain = random_plain_system(3, uncertainty="h", n_features=2, n_rules=3, **fields)
    text = fis_text(plain, "plant")
    system = text.split("\n\n")[0].splitlines()
    assert system[:4] == ["[System]", "Name='plant'", "Type='sugeno'", "Version=3.0"]
    assert system[-2:] == ["DefuzzMethod='wtaver'", "TypeReductionMethod='karnikmendel'"]
    found = re.findall(T2_SET, text, flags=re.MULTILINE)
    assert [int(number) for number, *_ in found] == [1, 2, 3, 1, 2, 3]
    sets = np.array([numbers for _, *numbers in found], dtype=float).reshape(2, 3, 3).transpose(1, 0, 2)
    x = inputs_of(plain, 100)
    np.testing.assert_allclose(np.log(by_product(sets, x)), plain.firing(x)[0], rtol=1e-9)
    # Read back, it is the same system, crisp outputs and ends.
    write_fis(tmp_path / "plant.fis", plain)
    back = PlainSystem.of(read_fis(tmp_path / "plant.fis"))
    assert (back.kind, back.uncertainty, back.type_reduction) == ("it2", "h", "km")
    for got, truth in zip(back.output(x), plain.output(x), strict=True):
        np.testing.assert_allclose(got, truth, rtol=1e-9, atol=1e-9 * np.abs(truth).max())


def test_forms_that_cannot_hold_a_system_are_refused_with_the_reason() -> None:
    it2, t1 = random_plain_system(0), random_plain_system(0, kind="t1")
    for target, write in ((r"A \.fis file", fis_text), ("A MATLAB script", script_text)):
        reason = (
            f"{target} cannot express this system: its lower sets are upper ones times a scale, and here lower and upper"
        )
        with pytest.raises(ValueError, match=f"{reason} widths differ; train with uncertainty='h', or kind='t1', or write"):
            write(it2)
        with pytest.raises(ValueError, match=r"MATLAB's type reductions are forms of Karnik-Mendel, not 'nt'; train with"):
            write(random_plain_system(0, uncertainty="h", type_reduction="nt"))
    with pytest.raises(ValueError, match=r"its type reductions are 'km' and 'nt', not 'sm'; train with one of these\."):
        t2fis_text(random_plain_system(0, type_reduction="sm"))
    for write in (script_text, t2fis_text):
        with pytest.raises(ValueError, match=r"it is for Interval Type-2 systems; write this Type-1 system to \.fis\."):
            write(t1)


def test_path_of_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"path must end in \.fis, \.m, \.t2fis, got "):
        write_fis(tmp_path / "plant.txt", random_plain_system(0, kind="t1"))


def test_names_cannot_leave_their_quotes(tmp_path: Path) -> None:
    hostile = ("a'\n[Rules]", 'b"; system("x"); %')
    t1 = dataclasses.replace(random_plain_system(1, kind="t1", n_features=2), feature_names=hostile)
    assert fis_text(t1).count("\n[Rules]") == 1
    write_fis(tmp_path / "p.fis", t1)
    read_fis(tmp_path / "p.fis")
    it2 = dataclasses.replace(random_plain_system(1, n_features=2, uncertainty="h"), feature_names=hostile)
    assert "system(" not in script_text(it2)


def test_estimator_writes_every_form(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    for ending, settings in (
        (".fis", {"kind": "t1"}),
        (".fis", {"uncertainty": "h"}),
        (".m", {"uncertainty": "h"}),
        (".t2fis", {}),
    ):
        model = FLSRegressor(n_rules=2, epochs=1, random_state=0, **settings).fit(x, x[:, 0])
        model.to_fis(tmp_path / f"plant{ending}")
        text = {".fis": fis_text, ".m": script_text, ".t2fis": t2fis_text}[ending](PlainSystem.of(model), "plant")
        assert (tmp_path / f"plant{ending}").read_text() == text


# Reads FLL files and rows, and prints the outputs of each. pyfuzzylite is GPL, so it has a separate environment.
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
    """The Python of a separate environment with pyfuzzylite, created once in the folder of temporary files."""
    name = f"deepfls-{VERSION.replace('==', '-')}-python{sys.version_info.major}.{sys.version_info.minor}-{os.getuid()}"
    folder = Path(tempfile.gettempdir()) / name
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        for command in (
            # A pip in the new environment would take most of the time; the pip of this one installs into it.
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


def test_fll_refuses_type_2_with_the_reason() -> None:
    with pytest.raises(ValueError, match=r"FLL cannot express this system: FuzzyLite has no Interval Type-2 sets; "):
        fll_text(random_plain_system(0))


def test_names_cannot_begin_a_line_of_fll() -> None:
    plain = dataclasses.replace(random_plain_system(1, kind="t1", n_features=1), feature_names=("x\nRuleBlock: evil",))
    lines = fll_text(plain).splitlines()
    assert "InputVariable: x_RuleBlock__evil" in lines
    assert lines.count("RuleBlock: rules") == 1
    assert not any(line.startswith("RuleBlock: evil") for line in lines)
