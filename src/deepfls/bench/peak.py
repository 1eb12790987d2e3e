"""How far a call pushes the peak of a process's memory, as the operating system sees it.

Measured in a process of its own, ``python -m deepfls.bench.peak``: memory that was freed but kept by an allocator hides
growth in a process that has done other things before.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_STATUS = Path("/proc/self/status")
# Writing 5 here sets the peak back to what is in use now: proc(5).
_RESET = Path("/proc/self/clear_refs")


def resident_growth(function: Callable[[], object]) -> int:
    """Bytes by which the largest resident memory during a call exceeds that in use before it."""
    if not _STATUS.exists():
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        function()
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit
    _RESET.write_text("5", encoding="ascii")
    before = _kilobytes("VmRSS")
    function()
    return max(0, _kilobytes("VmHWM") - before) * 1024


def _kilobytes(name: str) -> int:
    found = re.search(rf"^{name}:\s*(\d+) kB$", _STATUS.read_text(encoding="ascii"), flags=re.MULTILINE)
    assert found is not None
    return int(found.group(1))


def prediction_growth(model: Path, n_rows: int) -> int:
    """Growth of memory while a saved model predicts so many rows, which are in memory before. In a process of its own."""
    return _in_a_process("prediction", str(model), str(n_rows))


def step_growth(kind: str, batch: int, n_features: int, n_rules: int) -> int:
    """Growth of memory during two training steps of a system, rows and parameters aside. In a process of its own."""
    return _in_a_process("step", kind, str(batch), str(n_features), str(n_rules))


def _in_a_process(*arguments: str) -> int:
    command = [sys.executable, "-m", "deepfls.bench.peak", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"measuring memory failed: {(done.stderr.strip() or 'no message').splitlines()[-1]}.")
    return int(json.loads(done.stdout))


def _prediction(model: str, n_rows: str) -> int:
    import numpy as np

    from deepfls.estimators import load

    estimator = load(model)
    x = np.random.default_rng(0).standard_normal((int(n_rows), estimator.n_features_in_))
    # Kernels, thread pools and the buffers that are kept between calls are there before the call that is measured.
    estimator.predict(x[:40_000])
    return resident_growth(lambda: estimator.predict(x))


def _step(kind: str, batch: str, n_features: str, n_rules: str) -> int:
    from deepfls.bench.timing import Work, new_system, random_rows, run_steps, threads

    work = Work(int(batch), int(n_features), int(n_rules))
    system = new_system(kind, work)
    with threads(1):
        run_steps(system, random_rows(16, work.n_features), 8)
        rows = random_rows(2 * work.batch, work.n_features)
        return resident_growth(lambda: run_steps(system, rows, work.batch))


if __name__ == "__main__":
    measured: dict[str, Callable[..., int]] = {"prediction": _prediction, "step": _step}
    print(json.dumps(measured[sys.argv[1]](*sys.argv[2:])))
