"""How much faster is a training step than in an earlier version, and how fast is each kind of step?

    python benchmarks/earlier.py [--quick] [--json FILE] [--markdown FILE]

The earlier version is commit 0ff0c9e (0.1.0 with compiled stages). It is checked out into a temporary folder, and both
versions run in turn in processes of their own, on one thread, by processor time. The second part lists everything that the
compiled step serves, at one size, beside a step of plain torch operations (DEEPFLS_KERNELS=0).
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

TITLE = "A training step, in times that of an earlier version"
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


def times(cases: list[Any], n_windows: int, source: Path | None = None, **environment: str) -> list[float]:
    """µs per step of each case, in a process of its own with the package of ``source``."""
    variables = {**os.environ, **environment, "OMP_NUM_THREADS": "1"}
    variables["PYTHONPATH"] = str((source or ROOT) / "src")
    command = [sys.executable, str(Path(__file__).with_name("_step_worker.py")), json.dumps(cases), str(n_windows)]
    return json.loads(subprocess.run(command, env=variables, check=True, capture_output=True, text=True).stdout)


def fastest_of(runs: list[list[float]]) -> list[float]:
    return [min(values) for values in zip(*runs, strict=True)]


def measure(quick: bool = False) -> Iterator[Row]:
    n_rounds, n_windows = (1, 2) if quick else (4, 5)
    cases = [[*case, {}] for case in CASES]
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "earlier"
        git = ["git", "-C", str(ROOT)]
        subprocess.run([*git, "worktree", "add", "--detach", str(checkout), EARLIER], check=True, capture_output=True)
        try:
            runs = [(times(cases, n_windows), times(cases, n_windows, checkout)) for _ in range(n_rounds)]
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(checkout)], check=True, capture_output=True)
    now, before = (fastest_of(list(values)) for values in zip(*runs, strict=True))
    for (kind, batch, n_features, n_rules), limit, new, old in zip(CASES, CASES.values(), now, before, strict=True):
        work = f"{kind}, batch {batch:,}, M {n_features}, P {n_rules}"
        yield Row(work, new, "µs")
        yield Row(f"{work}: share of the {old:,.0f} µs of {EARLIER}", new / old, "x", Target("<=", limit))
    served = [[kind, 64, 13, 15, options] for kind, options in SERVED]
    compiled = times(served, n_windows)
    plain = times(served[: 3 if quick else None], 2, DEEPFLS_KERNELS="0")
    for (kind, options), new, old in zip(SERVED, compiled, plain, strict=False):
        text = ", ".join(f"{name} {value}" for name, value in options.items())
        yield Row(f"{kind}{', ' if text else ''}{text}, batch 64, M 13, P 15", new, "µs")
        yield Row(f"{kind}{', ' if text else ''}{text}: plain operations / compiled", old / new, "x")


if __name__ == "__main__":
    sys.exit(answer(__file__, __doc__, TITLE, METHOD, measure))
