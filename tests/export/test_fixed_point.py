"""Fixed point: C and NumPy agree bit for bit, and both are close to float64."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepfls import FLSClassifier, FLSRegressor
from deepfls.export.c_header import c_header
from deepfls.export.fixed_point import EXPONENT_BITS, FixedPoint
from deepfls.functional.constants import LOG_FLOOR, max_sweeps
from deepfls.inspection.plain import PlainSystem
from export_cases import SANITIZERS, WARNINGS, compiled, inputs_of, needs_gcc, random_plain_system, run_c

TYPES = {"q15": ("int16_t", np.int16), "q31": ("int32_t", np.int32)}
ONE_RULE = FixedPoint(random_plain_system(0, n_rules=1), "q31", inputs_of(random_plain_system(0, n_rules=1), 10))
SYSTEMS: list[dict[str, Any]] = [
    {"kind": "t1"},
    {"kind": "t1", "order": 0, "tnorm": "htsk"},
    *({"type_reduction": name} for name in ("km", "nt", "bmm", "sm")),
    {"uncertainty": "h", "order": 0},
    {"uncertainty": "s", "tnorm": "htsk"},
    {"n_rules": 1},
    {"n_rules": 30, "n_features": 10},
]


@needs_gcc
@pytest.mark.parametrize("number", ["q15", "q31"])
@pytest.mark.parametrize("fields", SYSTEMS, ids=str)
def test_c_and_numpy_agree_bit_for_bit(fields: dict[str, Any], number: str, tmp_path: Path) -> None:
    plain = random_plain_system(len(str(fields)), **fields)
    rows = inputs_of(plain, 100)
    fixed = FixedPoint(plain, number, rows)
    scalar, dtype = TYPES[number]
    x = fixed.quantized(inputs_of(plain, 500, stretch=2.0))
    x[0], x[1] = 2**fixed.bits - 1, -(2**fixed.bits)
    expected = fixed.output(x)
    header = c_header(plain, prefix="plant", number=number, rows=rows).text
    sanitized = number == "q31" and fields in SYSTEMS[::3]
    options = [*WARNINGS, *SANITIZERS] if sanitized else WARNINGS
    got = run_c(compiled(tmp_path, header, options=options, scalar=scalar), x, plain.n_outputs, dtype)
    np.testing.assert_array_equal(got.y, expected.y)
    if plain.kind == "it2":
        np.testing.assert_array_equal(got.y_left, expected.y_left)
        np.testing.assert_array_equal(got.y_right, expected.y_right)


@pytest.mark.parametrize(("number", "limit"), [("q15", 1e-3), ("q31", 2e-6)])
@pytest.mark.parametrize("fields", SYSTEMS, ids=str)
def test_fixed_point_is_close_to_float64(fields: dict[str, Any], number: str, limit: float) -> None:
    plain = random_plain_system(len(str(fields)), **fields)
    x = inputs_of(plain, 1_000)
    fixed = FixedPoint(plain, number, rows=x)
    got, truth = fixed.output(fixed.quantized(x)), plain.output(x)
    for values, expected in zip(got, truth, strict=True):
        assert (np.abs(fixed.values(values) - expected) <= limit * 2 * fixed.output_half).all()


@given(st.integers(0, 2**31 - 1))
@settings(max_examples=300)
def test_power_is_the_exponential(exponent: int) -> None:
    fixed = ONE_RULE
    exact = np.exp(-exponent / 2**EXPONENT_BITS)
    assert abs(int(fixed._powers(np.array([exponent]))[0]) / 2**fixed.weight_bits - exact) < 1e-7 * exact + 2e-9


def test_error_is_measured_on_given_rows_or_drawn_ones() -> None:
    plain = random_plain_system(1, n_outputs=1)
    x = inputs_of(plain, 300)
    drawn, given_rows = (c_header(plain, prefix="plant", number="q15", rows=rows) for rows in (None, x))
    assert "Error on 10,000 rows drawn from the range of the training data, against float64:" in drawn.text
    assert "Error on 300 given rows, against float64:" in given_rows.text
    fixed = FixedPoint(plain, "q15", x)
    wrong = np.abs(fixed.values(fixed.output(fixed.quantized(x)).y) - plain.output(x).y).max()
    assert f"y[0]  at most {wrong:.2g} (" in given_rows.text
    assert given_rows.error == pytest.approx(wrong / (2 * fixed.output_half[0] / 1.1))


def test_header_in_fixed_point_has_no_floating_point() -> None:
    text = c_header(random_plain_system(0), prefix="plant", number="q15").text
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).split("#ifdef PLANT_WITH_FLOAT")[0]
    assert not re.search(r"\b(float|double)\b|\d\.\d|math\.h", code)


def test_header_takes_its_constants_from_the_table_of_the_package() -> None:
    text = c_header(random_plain_system(0, n_rules=5), prefix="plant", number="q31").text
    # One sweep more per rule than in float: the trial of the rule's position.
    assert f"#define PLANT_SWEEPS {max_sweeps(5) + 5}\n" in text
    assert f"#define PLANT_MAX_EXPONENT {int(-LOG_FLOOR) << EXPONENT_BITS} " in text


@needs_gcc
@pytest.mark.parametrize("number", ["q15", "q31"])
def test_float_helpers_convert_and_saturate(number: str, tmp_path: Path) -> None:
    plain = random_plain_system(1, n_features=1, n_outputs=1)
    fixed = FixedPoint(plain, number)
    (tmp_path / "plant.h").write_text(c_header(plain, prefix="plant", number=number).text)
    (tmp_path / "main.c").write_text(
        '#define PLANT_WITH_FLOAT\n#include "plant.h"\n#include <stdio.h>\nint main(void) { float x; '
        "while (fread(&x, 4, 1, stdin) == 1) { plant_q q[1], y[1]; q[0] = plant_quantized(0, x); plant_predict(q, y); "
        'printf("%ld %.9g\\n", (long)q[0], (double)plant_value(0, y[0])); } return 0; }\n'
    )
    subprocess.run(["gcc", *WARNINGS, "main.c", "-o", "program"], cwd=tmp_path, check=True)
    x = np.append(inputs_of(plain, 50)[:, 0], [1e30, -1e30, np.inf, np.nan])
    done = subprocess.run([tmp_path / "program"], input=x.astype(np.float32).tobytes(), capture_output=True, check=True)
    quantized, values = np.array([line.split() for line in done.stdout.decode().splitlines()], dtype=float).T
    largest = 2**fixed.bits
    assert quantized[-4:].tolist() == [largest - 1, -largest, largest - 1, -largest]
    # The conversion is in float, which has 24 bits.
    expected = fixed.quantized(x[:-4, np.newaxis])[:, 0]
    assert np.abs(quantized[:-4] - expected).max() <= 1 + largest * 2.0**-22
    np.testing.assert_allclose(values[:-4], plain.output(x[:-4, np.newaxis]).y[:, 0], atol=1e-3 * fixed.output_half[0])


@needs_gcc
@pytest.mark.parametrize("number", ["q15", "q31"])
def test_classifier_in_fixed_point(number: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1_000, 3))
    labels = np.digitize(x[:, 0] + x[:, 1], [-0.5, 0.5])
    model = FLSClassifier(n_rules=4, epochs=5, random_state=0).fit(x, labels)
    model.to_c(tmp_path / "classes.h", prefix="plant", number=number, X=x)
    scalar, dtype = TYPES[number]
    fixed = FixedPoint(PlainSystem.of(model), number, x)
    program = compiled(tmp_path, (tmp_path / "classes.h").read_text(), scalar=scalar)
    got = run_c(program, fixed.quantized(x), 3, dtype)
    probabilities = model.predict_proba(x)
    np.testing.assert_allclose(got.y / 2**fixed.bits, probabilities, atol=2e-3 if number == "q15" else 1e-5)
    top = np.sort(probabilities, axis=1)
    sure = top[:, -1] - top[:, -2] > 1e-2
    assert (got.index == model.predict(x))[sure].all()


def test_range_that_cannot_be_held_is_refused_with_the_reason() -> None:
    plain = random_plain_system(1, n_outputs=1, n_features=2, n_rules=2)
    # Two rules that cancel: their outputs are 1e9 times their mean.
    steep = plain.slopes.copy()
    steep[1] = -steep[0]
    apart = dataclasses.replace(
        plain,
        slopes=1e9 * steep,
        intercepts=plain.intercepts - 1e9 * steep @ plain.centers[0],
        centers=np.repeat(plain.centers[:1], 2, axis=0),
        upper_sigmas=np.repeat(plain.upper_sigmas[:1], 2, axis=0),
        lower_sigmas=np.repeat(plain.upper_sigmas[:1], 2, axis=0),
        log_heights=np.zeros_like(plain.log_heights),
        kind="t1",
        uncertainty="",
        type_reduction="",
    )
    with pytest.raises(ValueError, match=r"q15 cannot express this system: outputs of its rules reach .* use q31 or float"):
        c_header(apart, prefix="plant", number="q15")
    with pytest.raises(ValueError, match=r"q31 cannot express this system: outputs of its rules reach .* use float"):
        c_header(apart, prefix="plant", number="q31")
    narrow = dataclasses.replace(plain, lower_sigmas=plain.lower_sigmas * 1e-6)
    with pytest.raises(ValueError, match=r"q15 cannot express this system: its sets are too narrow"):
        c_header(narrow, prefix="plant", number="q15")


def test_q15_that_would_be_too_wrong_is_refused() -> None:
    plain = random_plain_system(4, kind="t1", n_features=2, n_rules=4, n_outputs=1)
    # One narrow set leaves few bits for the wide ones.
    sigmas = plain.upper_sigmas * np.array([[2e-4], [1.0], [1.5], [0.5]])
    with pytest.raises(ValueError, match=r"q15 cannot express this system: on 10,000 rows it would be wrong by up to"):
        c_header(dataclasses.replace(plain, upper_sigmas=sigmas, lower_sigmas=sigmas), prefix="plant", number="q15")


def test_rows_are_checked() -> None:
    model = FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(np.arange(20.0).reshape(-1, 2), np.arange(10.0))
    with pytest.raises(ValueError, match="X has 3 features"):
        model.to_c("never.h", number="q15", X=np.zeros((4, 3)))
    with pytest.raises(ValueError, match=r"X must have shape \(rows, features\) with features=4, got \(3, 3\)\."):
        c_header(random_plain_system(0, n_features=4), prefix="plant", number="q15", rows=np.zeros((3, 3)))
