"""How fast are predictions, of a million rows and of one row, and how much memory do they take?

python benchmarks/prediction.py [--quick] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from _memory import in_new_process, resident_growth
from _report import Row, Target, answer
from _timing import WALL, Calls, effort_of, fastest, fitted_model, n_cores, threads
from deepfls import FLSRegressor, load

TITLE = "Predictions: speed, memory, one row at a time"
METHOD = "All cores; the fastest of many windows."
N_FEATURES, N_RULES = 10, 20
N_ROWS, QUICK_ROWS = 1_000_000, 200_000
OUTPUT_BYTES = 8
TARGETS = {
    "rows": Target(">=", 2_000_000),
    # Memory is bounded by a chunk of rows: at most two copies of the output grow with the rows, which have 80 bytes each.
    "memory": Target("<=", 2.0 * OUTPUT_BYTES),
    "predict": Target("<=", 120),
    "system": Target("<=", 100),
}


def prediction_growth(model: Path, n_rows: int) -> int:
    """Growth of the memory of this process while a saved model predicts this number of rows."""
    estimator = load(model)
    x = np.random.default_rng(0).standard_normal((n_rows, N_FEATURES))
    # Kernels, thread pools and buffers that are kept between calls are made before the call that is measured.
    estimator.predict(x[:40_000])
    return resident_growth(lambda: estimator.predict(x))


def measure(quick: bool = False) -> Iterator[Row]:
    n_rows = QUICK_ROWS if quick else N_ROWS
    size = f"IT2 hs, M {N_FEATURES}, P {N_RULES}"
    model = fitted_model(N_FEATURES, N_RULES)
    x = np.random.default_rng(1).standard_normal((n_rows, N_FEATURES))
    with threads(n_cores()):
        seconds = fastest({"rows": Calls(lambda: model.predict(x), WALL)}, effort_of(quick))["rows"]
    yield Row(f"{n_rows:,} rows, {size}, {n_cores()} threads", n_rows / seconds, "rows/s", TARGETS["rows"])
    yield from _memory_rows(model, n_rows, size)
    row = x[:1].copy()
    scaled = torch.from_numpy(model.x_scaling_.apply(row))
    calls = {"predict": lambda: model.predict(row), "system": lambda: model.system_(scaled)}
    with threads(n_cores()), torch.no_grad():
        best = fastest({name: Calls(call, WALL) for name, call in calls.items()}, effort_of(quick))
    yield Row(f"one row through predict, {size}", 1e6 * best["predict"], "µs", TARGETS["predict"])
    yield Row(f"one row through the system alone, {size}", 1e6 * best["system"], "µs", TARGETS["system"])


def _memory_rows(model: FLSRegressor, n_rows: int, size: str) -> Iterator[Row]:
    """Growth at the full number of rows, and its dependence on that number."""
    few = n_rows // 4
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.fls"
        model.save(path)
        small, large = (in_new_process(prediction_growth, path, n) - n * OUTPUT_BYTES for n in (few, n_rows))
    yield Row(f"memory beyond input and output, {n_rows:,} rows, {size}", large / 1e6, "MB")
    work = f"its growth from {few:,} to {n_rows:,} rows of {8 * N_FEATURES} bytes"
    yield Row(work, (large - small) / (n_rows - few), "bytes/row", TARGETS["memory"])


if __name__ == "__main__":
    sys.exit(answer(__file__, __doc__, TITLE, METHOD, measure))
