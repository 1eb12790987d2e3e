"""How much faster are a training step and a fit than in an earlier version, and how fast is each kind of step?

    python benchmarks/earlier.py [--quick] [--json FILE] [--markdown FILE]

The earlier version is commit 0ff0c9e (0.1.0 with compiled stages). It is checked out into a temporary folder, and both
versions run in turn in processes of their own, on one thread, by processor time. A fit has the default settings of its
version: fixed ones then, chosen on rows held out now. The last part lists everything that the compiled step serves, at one
size, beside a step of plain torch operations (DEEPFLS_KERNELS=0).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _report import Row, Target, answer

TITLE = "A training step and a fit, in times those of an earlier version"
METHOD = "One thread; processor time; the fastest of several windows, versions in turn."
EARLIER = "0ff0c9e"
ROOT = Path(__file__).resolve().parents[1]

Case = tuple[str, int, int, int, dict[str, Any]]
# Kind, batch, inputs, rules; and the largest share of the earlier time.
CASES: dict[Case | tuple[Any, ...], float] = {
    ("t1", 64, 13, 15): 0.25,
    ("it2", 64, 13, 15): 0.40,
    ("t1", 512, 4, 50): 0.45,
    ("it2", 512, 4, 50): 0.65,
    ("t1", 8192, 90, 50): 0.85,
    ("it2", 8192, 90, 50): 1.0,
}
# Kind, rows, inputs of fits with default settings, and the largest number of times of the earlier version.
FITS, FIT_LIMIT = [("t1", 354, 13), ("it2", 354, 13), ("it2", 1_500, 8), ("it2", 6_698, 4)], 3.0
FIT_PROGRAM = """
import json, sys, time, warnings
import numpy as np
import torch
from deepfls import FLSRegressor
warnings.simplefilter("ignore")
torch.set_num_threads(1)
seconds = []
for kind, n_rows, n_features in json.loads(sys.argv[1]):
    random = np.random.default_rng(0)
    x = random.standard_normal((n_rows, n_features))
    y = np.sin(x[:, 0] + x[:, 1]) + 0.5 * x[:, 2] + 0.3 * random.standard_normal(n_rows)
    FLSRegressor(kind=kind, epochs=1, random_state=0).fit(x[:100], y[:100])  # compiles or loads machine code
    began = time.process_time()
    FLSRegressor(kind=kind, random_state=0).fit(x, y)
    seconds.append(time.process_time() - began)
print(json.dumps(seconds))
"""
SERVED: list[tuple[str, dict[str, Any]]] = [
    ("t1", {}),
    ("t1", {"order": 0}),
    ("t1", {"parameterization": "paper"}),
    ("t1", {"tnorm": "product"}),
    ("t1", {"dtype": "float64"}),
    ("t1", {"n_outputs": 3}),
    *(("t1", {"loss": loss}) for loss in ("l1", "huber", "log-cosh", "pinball")),
    ("t1", {"loss": "cross-entropy", "n_outputs": 3}),
    *(("it2", {"uncertainty": uncertainty}) for uncertainty in ("h", "s", "hs")),
    ("it2", {"parameterization": "paper"}),
    *(("it2", {"type_reduction": reduction}) for reduction in ("nt", "bmm", "sm")),
    ("it2", {"coverage": 0.9}),
    ("it2", {"coverage": 0.9, "type_reduction": "nt"}),
    ("it2", {"n_outputs": 3}),
    ("it2", {"dtype": "float64"}),
]


def numbers_of(command: list[str], source: Path | None = None, **environment: str) -> list[float]:
    """What a program prints in a process of its own, on one thread, with the package of ``source``."""
    variables = {**os.environ, **environment, "OMP_NUM_THREADS": "1"}
    variables["PYTHONPATH"] = str((source or ROOT) / "src")
    done = subprocess.run([sys.executable, *command], env=variables, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def times(cases: list[Any], n_windows: int, source: Path | None = None, **environment: str) -> list[float]:
    """µs per step of each case."""
    worker = str(Path(__file__).with_name("_step_worker.py"))
    return numbers_of([worker, json.dumps(cases), str(n_windows)], source, **environment)


def fastest_of(runs: list[list[float]]) -> list[float]:
    return [min(values) for values in zip(*runs, strict=True)]


def measure(quick: bool = False) -> Iterator[Row]:
    n_rounds, n_windows = (1, 2) if quick else (4, 5)
    cases = [[*case, {}] for case in CASES]
    fits = FITS[:2] if quick else FITS
    program = ["-c", FIT_PROGRAM, json.dumps(fits)]
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "earlier"
        git = ["git", "-C", str(ROOT)]
        subprocess.run([*git, "worktree", "add", "--detach", str(checkout), EARLIER], check=True, capture_output=True)
        try:
            runs = [(times(cases, n_windows), times(cases, n_windows, checkout)) for _ in range(n_rounds)]
            fit_runs = [(numbers_of(program), numbers_of(program, checkout)) for _ in range(1 if quick else 2)]
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(checkout)], check=True, capture_output=True)
    now, before = (fastest_of(list(values)) for values in zip(*runs, strict=True))
    for (kind, batch, n_features, n_rules), limit, new, old in zip(CASES, CASES.values(), now, before, strict=True):
        work = f"{kind}, batch {batch:,}, M {n_features}, P {n_rules}"
        yield Row(work, new, "µs")
        yield Row(f"{work}: share of the {old:,.0f} µs of {EARLIER}", new / old, "x", Target("<=", limit))
    now, before = (fastest_of(list(values)) for values in zip(*fit_runs, strict=True))
    for (kind, n_rows, n_features), new, old in zip(fits, now, before, strict=True):
        work = f"default fit, {kind}, N {n_rows:,}, M {n_features}"
        yield Row(work, new, "s")
        yield Row(f"{work}: share of the {old:.2f} s of {EARLIER}", new / old, "x", Target("<=", FIT_LIMIT))
    served = [[kind, 64, 13, 15, options] for kind, options in SERVED]
    compiled = times(served, n_windows)
    plain = times(served[: 3 if quick else None], 2, DEEPFLS_KERNELS="0")
    for (kind, options), new, old in zip(SERVED, compiled, plain, strict=False):
        text = ", ".join(f"{name} {value}" for name, value in options.items())
        yield Row(f"{kind}{', ' if text else ''}{text}, batch 64, M 13, P 15", new, "µs")
        yield Row(f"{kind}{', ' if text else ''}{text}: plain operations / compiled", old / new, "x")


if __name__ == "__main__":
    sys.exit(answer(__file__, __doc__, TITLE, METHOD, measure))
