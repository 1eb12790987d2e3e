"""Exported C on an emulated Cortex-M: agreement with Python, flash, stack and instructions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import embedded
from deepfls import FLSRegressor
from deepfls.export.c_header import c_header
from deepfls.export.fixed_point import FixedPoint
from deepfls.inspection.plain import PlainSystem
from export_cases import compiled, error_by_spread, inputs_of, random_plain_system, relative_error, run_c

pytestmark = pytest.mark.skipif(
    bool(embedded.missing_tools()),
    reason=f"{', '.join(embedded.missing_tools())} not installed: `make test-embedded` as root installs them",
)


@pytest.fixture(scope="module")
def systems() -> dict[str, PlainSystem]:
    return {kind: embedded.trained(kind) for kind in ("t1", "it2")}


def vectors(plain: PlainSystem, n_rows: int = 40) -> Any:
    """Rows from a box a little larger than the data, and as many from a box 100 times as large."""
    return np.concatenate([inputs_of(plain, n_rows // 2, stretch=s) for s in (1.2, 100.0)]).astype(np.float32)


@pytest.mark.parametrize("exp", ["libm", "builtin"])
def test_cortex_m4_agrees_and_stays_small(systems: dict[str, PlainSystem], exp: str) -> None:
    instructions = {}
    for kind, plain in systems.items():
        x = vectors(plain)
        header = c_header(plain, prefix="plant", exp=exp)
        run, truth = embedded.emulate(header.text, x, 1), plain.output(x.astype(np.float64))
        for got, expected in ((run.y, truth.y), (run.y_left, truth.y_left), (run.y_right, truth.y_right)):
            np.testing.assert_allclose(got[:20], expected[:20], rtol=1e-5)
            # Far from the data outputs cross zero, so errors are relative to the spread too.
            assert relative_error(got, expected) < 1e-5
            assert error_by_spread(got, expected) < 1e-5
        instructions[kind] = run.instructions.mean()
        # 4 inputs, 5 rules: 4 kB of flash for code and tables without libm, 512 bytes of RAM.
        assert run.flash < 4096
        assert run.stack < 512
        # The sizes that the header states are upper bounds.
        assert run.flash <= header.flash_bytes
        assert run.stack <= header.ram_bytes
    assert instructions["it2"] <= 3 * instructions["t1"]


def test_cortex_m4_gives_the_bits_of_this_machine(systems: dict[str, PlainSystem], tmp_path: Path) -> None:
    x = vectors(systems["it2"])
    header = c_header(systems["it2"], prefix="plant", exp="builtin").text
    run, host = embedded.emulate(header, x, 1), run_c(compiled(tmp_path, header), x, 1)
    np.testing.assert_array_equal(run.y, host.y)
    np.testing.assert_array_equal(run.y_left, host.y_left)


@pytest.mark.parametrize("number", ["q15", "q31"])
def test_cortex_m3_gives_the_integers_of_numpy(systems: dict[str, PlainSystem], number: str) -> None:
    for kind, plain in systems.items():
        header, fixed = c_header(plain, prefix="plant", number=number), FixedPoint(plain, number)
        x = fixed.quantized(vectors(plain))
        run, expected = embedded.emulate(header.text, x, 1, number=number, core="Cortex-M3"), fixed.output(x)
        np.testing.assert_array_equal(run.y, expected.y)
        if kind == "it2":
            np.testing.assert_array_equal(run.y_left, expected.y_left)
        assert run.flash <= header.flash_bytes
        assert run.stack <= header.ram_bytes
        assert run.stack < 512


@pytest.mark.parametrize(
    "fields",
    [{"type_reduction": "bmm"}, {"classes": True, "n_outputs": 3}, {"n_rules": 12, "n_features": 8, "uncertainty": "s"}],
    ids=str,
)
def test_stated_sizes_hold_for_other_systems(fields: dict[str, Any]) -> None:
    plain = random_plain_system(1, **{"n_outputs": 1, **fields})
    rows = inputs_of(plain, 100)
    for number, core in (("float", "Cortex-M4"), ("q31", "Cortex-M3")):
        header = c_header(plain, prefix="plant", number=number, exp="builtin", rows=rows)
        x = rows[:5] if number == "float" else FixedPoint(plain, number, rows).quantized(rows[:5])
        run = embedded.emulate(header.text, x, plain.n_outputs, number=number, core=core)
        assert run.flash <= header.flash_bytes, (number, run.flash - header.table_bytes)
        assert run.stack <= header.ram_bytes, (number, run.stack, header.ram_bytes)


@pytest.mark.parametrize("settings", [{}, {"refit": False}, {"kind": "t1", "calibration": "split"}], ids=str)
def test_stated_sizes_hold_for_a_calibrated_interval(settings: dict[str, Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4)).astype(np.float32)
    model = FLSRegressor(n_rules=5, epochs=5, coverage=0.9, random_state=0, **settings)
    model.fit(x, x[:, 0] * x[:, 1] + rng.normal(size=300))
    report = model.to_c(tmp_path / "plant.h", exp="builtin")
    run = embedded.emulate((tmp_path / "plant.h").read_text(), x[:20], 1)
    lower, upper = model.predict_interval(x[:20])
    np.testing.assert_allclose(run.y_left[:, 0], lower, atol=1e-5)
    np.testing.assert_allclose(run.y_right[:, 0], upper, atol=1e-5)
    assert run.flash <= report.flash_bytes
    assert run.stack <= report.ram_bytes


def test_cortex_m4_gives_nan_for_nan_and_infinity_and_finite_outputs_far_away(systems: dict[str, PlainSystem]) -> None:
    x = vectors(systems["it2"], 4)
    x[0, 0], x[1, 1], x[2:] = np.nan, np.inf, [[1e30], [-1e30]]
    run = embedded.emulate(c_header(systems["it2"], prefix="plant").text, x, 1)
    assert np.isnan(run.y[:2]).all()
    np.testing.assert_allclose(run.y[2:], systems["it2"].output(x[2:].astype(np.float64)).y, rtol=1e-5)


def test_emulator_counts_instructions() -> None:
    # 1,000 iterations of two instructions, and a few around the loop.
    loop = 'int n = 1000; __asm__ volatile("1: subs %0, #1\\n bne 1b" : "+r"(n)); y[0] = x[0];'
    header = f"static inline void plant_predict(const float x[1], float y[1]) {{ {loop} }}\n"
    run = embedded.emulate(header, np.ones((3, 1), dtype=np.float32), 1)
    assert np.abs(run.instructions - 2_000).max() < 10
    assert run.stack <= 16
