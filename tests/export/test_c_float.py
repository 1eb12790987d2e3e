"""Headers in float compile without a warning and agree with the estimator."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deepfls import FLSClassifier, FLSRegressor
from deepfls.export.c_header import c_header, operation_counts
from deepfls.functional.constants import LOG_FLOOR, LOG_FLOORS, max_sweeps
from deepfls.inspection.plain import PlainSystem
from export_cases import (
    SANITIZERS,
    WARNINGS,
    compiled,
    error_by_spread,
    inputs_of,
    needs_gcc,
    random_plain_system,
    reference,
    relative_error,
    run_c,
)

pytestmark = needs_gcc

SYSTEMS: list[dict[str, Any]] = [
    {"kind": "t1"},
    {"kind": "t1", "order": 0, "tnorm": "htsk"},
    *({"type_reduction": name} for name in ("km", "nt", "bmm", "sm")),
    *({"uncertainty": name, "tnorm": "htsk"} for name in ("h", "s", "hs")),
    {"order": 0},
    {"n_rules": 1},
    {"n_features": 1, "n_outputs": 1},
    {"n_rules": 40, "n_features": 12, "tnorm": "htsk"},
    {"kind": "gt2", "alphas": np.array([0.01, 0.5, 1.0]), "n_rules": 4, "n_outputs": 2},
]


# Widths of the box of inputs in ranges of the data: inside it, a little outside, and far from every rule.
STRETCHES = (1.0, 1.5, 10.0, 1e3)


def agree(program: Path, plain: PlainSystem, x: Any, *, exact: bool = False) -> None:
    """Require outputs and ends of the C within 1e-5 of float64, relative to the output and to the spread alone."""
    got, truth = run_c(program, x, plain.n_outputs), reference(plain, x, exact=exact)
    for name in ("y",) if plain.kind == "t1" else ("y", "y_left", "y_right"):
        assert relative_error(getattr(got, name), getattr(truth, name)) < 1e-5, name
        assert error_by_spread(getattr(got, name), getattr(truth, name)) < 1e-5, name
    if plain.kind == "it2":
        assert (got.y_left <= got.y_right).all()


@pytest.mark.parametrize("fields", SYSTEMS, ids=str)
def test_c_agrees_with_python_on_random_systems_at_any_distance(fields: dict[str, Any], tmp_path: Path) -> None:
    plain = random_plain_system(len(str(fields)), **fields)
    exp = "builtin" if SYSTEMS.index(fields) % 2 else "libm"
    program = compiled(tmp_path, c_header(plain, prefix="plant", exp=exp).text)
    for stretch in STRETCHES:
        agree(program, plain, inputs_of(plain, 10_000, stretch=stretch))


@pytest.mark.parametrize(
    "fields", [{"kind": "t1"}, {}, {"tnorm": "htsk", "uncertainty": "s"}, {"type_reduction": "sm"}], ids=str
)
@pytest.mark.parametrize("equal_widths", [False, True])
def test_c_gives_the_exact_result_for_any_finite_input(fields: dict[str, Any], equal_widths: bool, tmp_path: Path) -> None:
    plain = random_plain_system(5, **fields)
    if equal_widths:
        # The squares cancel, and a difference of two logarithms is 1e-38 of them: float64 loses it, and the strongest rule.
        widths = [np.broadcast_to(part.min(axis=0), part.shape) for part in (plain.lower_sigmas, plain.upper_sigmas)]
        plain = dataclasses.replace(plain, lower_sigmas=widths[0], upper_sigmas=widths[1])
    rng = np.random.default_rng(0)
    sizes = 10.0 ** (rng.uniform(-6, 38, (300, 1)) + rng.uniform(-6, 0, (300, plain.n_features)))
    x = (sizes * rng.choice([-1, 1], sizes.shape)).astype(np.float32).astype(np.float64)
    got = run_c(compiled(tmp_path, c_header(plain, prefix="plant").text), x, plain.n_outputs)
    truth = reference(plain, x, exact=True)
    # Every row has its own scale: errors are relative to the largest output of a rule on the row.
    size = np.abs(plain.rule_outputs(x)).max(axis=1)
    for name in ("y",) if plain.kind == "t1" else ("y", "y_left", "y_right"):
        expected, values = getattr(truth, name), getattr(got, name)
        holdable = np.abs(expected) < np.finfo(np.float32).max
        assert holdable.mean() > 0.9
        assert (np.abs(values - expected)[holdable] <= 1e-6 * size[holdable]).all(), name
        np.testing.assert_array_equal(values[~holdable], np.copysign(np.inf, expected[~holdable]))


@pytest.mark.parametrize("options", ["-Os", "-O3", "-O3 -std=gnu99 -ffp-contract=fast -march=native", "-O0 -fwrapv"])
def test_c_agrees_however_it_is_compiled(options: str, tmp_path: Path) -> None:
    plain = random_plain_system(11, n_rules=6, n_features=3)
    program = compiled(tmp_path, c_header(plain, prefix="plant").text, options=[*WARNINGS, *options.split()])
    for stretch in STRETCHES:
        agree(program, plain, inputs_of(plain, 2_000, stretch=stretch))


def test_fast_math_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plant.h").write_text(c_header(random_plain_system(0), prefix="plant").text)
    (tmp_path / "main.c").write_text('#include "plant.h"\nint main(void) { return 0; }\n')
    done = subprocess.run(["gcc", "-ffast-math", "main.c"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode
    assert "-ffast-math" in done.stderr


@pytest.mark.parametrize("kind", ["t1", "it2"])
@pytest.mark.parametrize("middle", [0.0, 1e6])
def test_c_agrees_with_a_trained_estimator(kind: str, middle: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    # With middle=1e6, the inputs lie a million standard deviations from zero.
    x = (middle + rng.normal(size=(10_000, 4))).astype(np.float32).astype(np.float64)
    y = 1e5 + np.sin(x[:, 0] - middle) + (x[:, 1] - middle) * (x[:, 2] - middle)
    model = FLSRegressor(kind=kind, n_rules=5, epochs=5, random_state=0).fit(x[:500], y[:500])
    report = model.to_c(tmp_path / "plant.h", prefix="plant")
    assert report.table_bytes < report.flash_bytes < 4096
    program = compiled(tmp_path, (tmp_path / "plant.h").read_text())
    system = model.system_.double()
    for stretch in STRETCHES:
        far = (middle + stretch * (x - middle)).astype(np.float32).astype(np.float64)
        with torch.no_grad():
            scaled = system(torch.from_numpy((far - model.x_scaling_.shift) / model.x_scaling_.scale))
        truth = model.y_scaling_.shift + model.y_scaling_.scale * scaled.numpy()
        got = run_c(program, far, 1)
        # Relative to the output, which is about 1e5, even an error of the size of the spread would be 1e-5.
        assert error_by_spread(got.y, truth) < 1e-5
        assert relative_error(got.y, truth) < 1e-5


def test_c_keeps_the_probabilities_and_classes_of_a_classifier(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2_000, 3)).astype(np.float32).astype(np.float64)
    labels = np.array(["low", "middle", "high"])[np.digitize(x[:, 0] + x[:, 1], [-0.5, 0.5])]
    model = FLSClassifier(n_rules=4, epochs=5, random_state=0).fit(x[:300], labels[:300])
    model.to_c(tmp_path / "classes.h", prefix="plant")
    got = run_c(compiled(tmp_path, (tmp_path / "classes.h").read_text()), np.vstack([x, [[np.nan, 0, 0]]]), 3)
    probabilities = model.predict_proba(x)
    np.testing.assert_allclose(got.y[:-1], probabilities, atol=1e-5)
    # If two classes are equally probable, rounding may choose either.
    sure = np.sort(probabilities, axis=1)[:, -1] - np.sort(probabilities, axis=1)[:, -2] > 1e-4
    assert (model.classes_[got.index[:-1]] == model.predict(x))[sure].all()
    assert got.index[-1] == -1
    assert np.isnan(got.y[-1]).all()


@pytest.mark.parametrize(
    ("fields", "exp"), [({"kind": "t1"}, "builtin"), ({}, "builtin"), ({"type_reduction": "bmm"}, "libm")]
)
def test_c_is_clean_under_sanitizers_for_any_input(fields: dict[str, Any], exp: str, tmp_path: Path) -> None:
    plain = random_plain_system(3, n_features=3, **fields)
    program = compiled(tmp_path, c_header(plain, prefix="plant", exp=exp).text, options=SANITIZERS)
    special = np.array([0.0, -0.0, 1e-45, 1e-38, 1.0, 1e6, -1e6, 1e15, 1e30, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan])
    x = np.stack(np.meshgrid(special, special, special), axis=-1).reshape(-1, 3)
    got = run_c(program, x, plain.n_outputs)
    broken = ~np.isfinite(x).all(axis=1)
    for values in (got.y, got.y_left, got.y_right) if plain.kind == "it2" else (got.y,):
        # As in Python: at an infinite input the output of a rule is undefined.
        assert np.isnan(values[broken]).all()
        assert not np.isnan(values[~broken]).any()
        assert np.isfinite(values[(np.abs(x) < 1e31).all(axis=1)]).all()
    if plain.kind == "it2":
        assert (got.y_left[~broken] <= got.y_right[~broken]).all()


def test_narrow_sets_are_refused_with_the_reason() -> None:
    plain = random_plain_system(0, n_rules=3, n_features=2)
    narrow = dataclasses.replace(plain, lower_sigmas=plain.lower_sigmas * 1e-7)
    with pytest.raises(ValueError, match=r"The widths of the sets must be at least about 4e-6 of the distance"):
        c_header(narrow, prefix="plant")


def test_builtin_exponential_keeps_its_stated_error(tmp_path: Path) -> None:
    header = c_header(random_plain_system(0, kind="t1"), prefix="plant", exp="builtin").text
    stated = float(re.search(r"Relative error below ([\d.e-]+)", header)[1].rstrip("."))  # type: ignore[index]
    (tmp_path / "plant.h").write_text(header)
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "plant.h"\nint main(void) { float x; while (fread(&x, 4, 1, stdin) == 1) '
        "{ x = plant_exp(x); fwrite(&x, 4, 1, stdout); } return 0; }\n"
    )
    subprocess.run(["gcc", *WARNINGS, "main.c", "-o", "program"], cwd=tmp_path, check=True)
    x = np.concatenate([-np.geomspace(1e-10, 60, 200_000), -np.linspace(0, 60, 200_000)]).astype(np.float32)
    done = subprocess.run([tmp_path / "program"], input=x.tobytes(), capture_output=True, check=True)
    exact = np.exp(x.astype(np.float64))
    assert (np.abs(np.frombuffer(done.stdout, np.float32) - exact) / exact).max() < stated
    assert "expf" not in header


def test_numbers_beyond_float32_are_refused() -> None:
    plain = random_plain_system(0)
    with pytest.raises(ValueError, match=r"The outputs of the rules must be within ±1e\+28 for this target, got "):
        c_header(dataclasses.replace(plain, intercepts=plain.intercepts + 1e40), prefix="plant")


def test_header_states_sizes_and_work() -> None:
    plain = random_plain_system(0, n_rules=5, n_features=4, n_outputs=1)
    header = c_header(plain, prefix="plant")
    assert f"{header.table_bytes:,} bytes of tables" in header.text
    assert f"about {header.ram_bytes:,} bytes of stack" in header.text
    assert f"at most: {operation_counts(plain).simple:,} additions" in header.text
    # 2 ends, 14 sweeps each; 5 exponentials in each if firing spans many scales.
    assert operation_counts(plain).divisions == 28
    assert operation_counts(plain).exponentials == 140
    sizes = {"float": 4, "plant_halves": 8, "int64_t": 8, "int16_t": 2}
    found = re.findall(r"static const (\w+) plant_\w+((?:\[\d+\])+)", header.text)
    counted = sum(sizes[name] * int(np.prod([int(n) for n in re.findall(r"\d+", dims)])) for name, dims in found)
    assert counted == header.table_bytes
    assert max(map(len, header.text.splitlines())) <= 130


def test_header_takes_its_constants_from_the_table_of_the_package() -> None:
    plain = random_plain_system(0, n_rules=5)
    for exp in ("libm", "builtin"):
        text = c_header(plain, prefix="plant", exp=exp).text
        assert re.search(rf"#define PLANT_SWEEPS {max_sweeps(5)}\n", text)
        one = int(re.search(r"#define PLANT_ONE \((\d+)\)", text)[1])  # type: ignore[index]
        deepest = int(re.search(r"#define PLANT_MAX_DEPTH \(\(int64_t\)(\d+)\)", text)[1])  # type: ignore[index]
        assert deepest / one == -LOG_FLOOR
        floor, smallest = re.search(r"x < (\S+)f(?: \?|\) \{\n +return) (\S+)f", text).groups()  # type: ignore[union-attr]
        assert float(floor) == LOG_FLOORS["float32"]
        assert np.float32(smallest) == np.float32(np.exp(LOG_FLOORS["float32"]))
