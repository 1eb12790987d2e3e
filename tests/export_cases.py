"""Random systems, C programs made from headers, and error measures for the tests of exports."""

from __future__ import annotations

import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from deepfls.functional.reduction import type_reduce
from deepfls.inspection.plain import PlainOutput, PlainSystem

Array = Any

WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Wdouble-promotion", "-Wfloat-conversion", "-Wconversion", "-Werror", "-O2"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

# Reads a count and that many rows of inputs, and writes the outputs of every function for each.
PROGRAM = """
#include <stdio.h>
#include "plant.h"

int main(void)
{
    static PLANT_T x[PLANT_INPUTS], y[PLANT_OUTPUTS], low[PLANT_OUTPUTS], high[PLANT_OUTPUTS];
    int index = 0;
    while (fread(x, sizeof x, 1, stdin) == 1) {
        plant_predict(x, y);
#ifdef INTERVAL
        plant_predict_interval(x, low, high);
#endif
#ifdef CLASSES
        index = plant_classify(x);
#endif
        fwrite(y, sizeof y, 1, stdout);
        fwrite(low, sizeof low, 1, stdout);
        fwrite(high, sizeof high, 1, stdout);
        fwrite(&index, sizeof index, 1, stdout);
    }
    return 0;
}
"""


class COutput(NamedTuple):
    """Results of a compiled header for rows: each (rows, outputs), and the index of the class."""

    y: Array
    y_left: Array
    y_right: Array
    index: Array


def random_plain_system(seed: int, **fields: Any) -> PlainSystem:
    """A system with random rules over inputs of different scales, some of them far from zero."""
    rng = np.random.default_rng(seed)
    n_rules = fields.pop("n_rules", int(rng.integers(1, 9)))
    n_features = fields.pop("n_features", int(rng.integers(1, 6)))
    n_outputs = fields.pop("n_outputs", int(rng.integers(1, 4)))
    kind = fields.pop("kind", "it2")
    uncertainty, type_reduction = fields.pop("uncertainty", "hs"), fields.pop("type_reduction", "km")
    if kind == "t1":
        uncertainty = type_reduction = ""
    order = fields.pop("order", 1)
    scale = 10.0 ** rng.integers(-3, 4, n_features)
    middle = scale * rng.choice([0.0, 1.0, -30.0, 1e4], n_features)
    upper = scale * rng.uniform(0.4, 2.0, (n_rules, n_features))
    lower = upper * rng.uniform(0.3, 1.0, upper.shape) if "s" in uncertainty else upper
    heights = rng.uniform(0.2, 1.0, upper.shape) if "h" in uncertainty else np.ones_like(upper)
    slopes = rng.normal(size=(n_rules, n_outputs, n_features)) / scale * order
    outputs = rng.normal(size=(n_rules, n_outputs)) + rng.choice([0.0, 100.0])
    classes = fields.pop("classes", None)
    return PlainSystem(
        kind=kind,
        tnorm=fields.pop("tnorm", "product"),
        order=order,
        uncertainty=uncertainty,
        type_reduction=type_reduction,
        feature_names=tuple(f"x{m}" for m in range(n_features)),
        output_names=tuple(f"y{k}" for k in range(n_outputs)),
        classes=None if classes is None else np.arange(n_outputs),
        centers=middle + scale * rng.normal(size=upper.shape),
        lower_sigmas=lower,
        upper_sigmas=upper,
        log_heights=np.log(heights),
        intercepts=outputs - slopes @ middle,
        slopes=slopes,
        mix=rng.uniform(0.1, 0.9, n_outputs) if type_reduction == "bmm" else None,
        input_range=np.stack([middle - 3 * scale, middle + 3 * scale]),
        rule_shares=None,
        **fields,
    )


def inputs_of(plain: PlainSystem, n_rows: int, seed: int = 0, stretch: float = 1.0) -> Array:
    """Rows over the range of a system's inputs, exact in float32."""
    rng = np.random.default_rng(seed)
    low, high = plain.input_range  # type: ignore[misc]
    middle, half = (low + high) / 2, (high - low) / 2 * stretch
    return rng.uniform(middle - half, middle + half, (n_rows, plain.n_features)).astype(np.float32).astype(np.float64)


def compiled(
    folder: Path, header: str, *, options: list[str] = WARNINGS, scalar: str = "float", compiler: str = "gcc"
) -> Path:
    """The program above with a header, compiled."""
    (folder / "plant.h").write_text(header)
    source = folder / ("main.c" if compiler == "gcc" else "main.cpp")
    source.write_text(PROGRAM)
    defined = [f"-DPLANT_T={scalar}"]
    defined += ["-DINTERVAL"] if "plant_predict_interval" in header else []
    defined += ["-DCLASSES"] if "plant_classify" in header else []
    program = folder / "program"
    done = subprocess.run(
        [compiler, *options, *defined, str(source), "-o", str(program), "-lm"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return program


def run_c(program: Path, x: Array, n_outputs: int, dtype: Any = np.float32) -> COutput:
    """Outputs of a compiled header for rows of inputs."""
    done = subprocess.run([program], input=np.ascontiguousarray(x, dtype=dtype).tobytes(), capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    fields = [(name, dtype, (n_outputs,)) for name in ("y", "y_left", "y_right")]
    rows = np.frombuffer(done.stdout, dtype=np.dtype([*fields, ("index", np.int32)]))
    assert len(rows) == len(x)
    kinds = (np.float64, np.float64, np.float64) if dtype == np.float32 else (np.int64,) * 3
    values = [rows[name].astype(kind) for name, kind in zip(("y", "y_left", "y_right"), kinds, strict=True)]
    return COutput(*values, rows["index"])


def reference(plain: PlainSystem, x: Array, *, exact: bool = False) -> PlainOutput:
    """Results of Python in float64: the crisp outputs of ``predict``, and the ends of the type-reduced set.

    If ``exact``, firing and consequents are computed in fractions and only their differences are rounded: far outside the
    data float64 itself loses the differences between log-firings.
    """
    if exact:
        log_lower, log_upper, own_lower, consequents = _exact_forms(plain, x)
    else:
        (log_lower, log_upper), consequents = plain.firing(x), plain.rule_outputs(x)
        own_lower = log_lower
    y_left, y_right, y = plain.reduced(log_lower, log_upper, consequents)
    if plain.type_reduction in ("bmm", "sm"):
        # As in `predict`, not clipped to the ends, which differ if firing is below e^-600.
        mix = None if plain.mix is None else torch.from_numpy(plain.mix)
        parts = map(torch.from_numpy, (own_lower, log_upper, consequents))
        y = type_reduce(*parts, method=plain.type_reduction, mix=mix).numpy()
    return PlainOutput(y_left, y_right, y)


def _exact_forms(plain: PlainSystem, x: Array) -> tuple[Array, Array, Array, Array]:
    """Lower and upper log-firing relative to the largest upper, lower relative to the largest lower, and consequents."""
    exact = np.frompyfunc(lambda value: Fraction(float(value)), 1, 1)
    share = Fraction(1) if plain.tnorm == "product" else Fraction(1, plain.n_features)
    distances = exact(x)[:, np.newaxis] - exact(plain.centers)
    log_upper = -share / 2 * ((distances / exact(plain.upper_sigmas)) ** 2).sum(axis=2)
    log_lower = -share / 2 * ((distances / exact(plain.lower_sigmas)) ** 2).sum(axis=2)
    log_lower = log_lower + share * exact(plain.log_heights).sum(axis=1)
    log_lower = np.minimum(log_lower, log_upper)
    peaks = [part.max(axis=1, keepdims=True) for part in (log_upper, log_upper, log_lower)]
    parts = zip((log_lower, log_upper, log_lower), peaks, strict=True)
    relative = [np.maximum(part - peak, -(10**300)).astype(np.float64) for part, peak in parts]
    products = (exact(x)[:, np.newaxis, np.newaxis] * exact(plain.slopes)).sum(axis=3) + exact(plain.intercepts)
    return relative[0], relative[1], relative[2], products.astype(np.float64)


def relative_error(got: Array, truth: Array) -> float:
    """Largest error relative to the truth, or to its spread over the rows where it is near zero."""
    size = np.maximum(np.abs(truth), np.std(truth, axis=0))
    return float((np.abs(got - truth) / np.maximum(size, 1e-30)).max())


def error_by_spread(got: Array, truth: Array) -> float:
    """Largest error relative to the spread of the truth over the rows, without half a unit of the output in float32.

    No function that returns a float can avoid that half unit.
    """
    beyond = np.maximum(np.abs(got - truth) - np.spacing(np.abs(truth).astype(np.float32)).astype(np.float64) / 2, 0.0)
    return float((beyond / np.maximum(np.std(truth, axis=0), 1e-30)).max())
