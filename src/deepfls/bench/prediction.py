"""How fast are predictions, of a million rows and of one, and how much memory do they take?"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from deepfls.bench.peak import prediction_growth
from deepfls.bench.rows import Row, Target
from deepfls.bench.timing import FULL, QUICK, WALL, Calls, fastest, threads
from deepfls.estimators import FLSRegressor

N_FEATURES, N_RULES = 10, 20
N_ROWS, QUICK_ROWS = 1_000_000, 200_000
_OUTPUT_BYTES = 8
TARGETS = {
    "rows": Target(">=", 2_000_000),
    # Bounded by the chunk: no more than a copy or two of the output may grow with the rows, which have 80 bytes each.
    "memory": Target("<=", 2.0 * _OUTPUT_BYTES),
    "predict": Target("<=", 400),
    "model": Target("<=", 100),
}


def n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fitted() -> FLSRegressor:
    """The model that predicts; how well it was trained does not matter."""
    x = np.random.default_rng(0).standard_normal((2_000, N_FEATURES))
    model = FLSRegressor(kind="it2", n_rules=N_RULES, epochs=2, random_state=0)
    return model.fit(x, np.sin(x.sum(axis=1)))


def measure(quick: bool = False) -> Iterator[Row]:
    """Rows per second, memory, and µs for one row."""
    effort = QUICK if quick else FULL
    n_rows = QUICK_ROWS if quick else N_ROWS
    size = f"IT2 hs, M {N_FEATURES}, P {N_RULES}"
    model = fitted()
    x = np.random.default_rng(1).standard_normal((n_rows, N_FEATURES))
    with threads(n_cores()):
        seconds = fastest({"rows": Calls(lambda: model.predict(x), WALL)}, effort)["rows"]
    yield Row("prediction", f"{n_rows:,} rows, {size}, {n_cores()} threads", n_rows / seconds, "rows/s", TARGETS["rows"])
    yield from _memory(model, n_rows, size)
    row = x[:1].copy()
    scaled = torch.from_numpy(model.x_scaling_.apply(row))
    with threads(n_cores()), torch.no_grad():
        best = fastest(
            {"predict": Calls(lambda: model.predict(row), WALL), "model": Calls(lambda: model.system_(scaled), WALL)},
            effort,
        )
    yield Row("prediction", f"one row through predict, {size}", 1e6 * best["predict"], "µs", TARGETS["predict"])
    yield Row("prediction", f"one row through the model alone, {size}", 1e6 * best["model"], "µs", TARGETS["model"])


def _memory(model: FLSRegressor, n_rows: int, size: str) -> Iterator[Row]:
    """Growth at the full number of rows, and by how much it depends on their number."""
    few = n_rows // 4
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.fls"
        model.save(path)
        small, large = (prediction_growth(path, n) - n * _OUTPUT_BYTES for n in (few, n_rows))
    yield Row("prediction", f"memory beyond input and output, {n_rows:,} rows, {size}", large / 1e6, "MB")
    work = f"its growth from {few:,} to {n_rows:,} rows of {8 * N_FEATURES} bytes"
    yield Row("prediction", work, (large - small) / (n_rows - few), "bytes/row", TARGETS["memory"])
