"""Does a streamed run that is killed at random moments and taken up again give the model of an undisturbed run?

    python benchmarks/kills.py [--quick] [--json FILE] [--markdown FILE]

Runs of a fit with checkpoints are killed 50 times, most of them several times, by SIGKILL: at any moment, or just after a
checkpoint. Every run is then ended, and its model compared bit by bit.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from _report import Row, Target, answer

TITLE = "Runs that are killed and resumed"
METHOD = "Killed by SIGKILL at random moments; the script of the tests, with more kills."
_TESTS = Path(__file__).parents[1] / "tests"
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); import killed_runs as k; from pathlib import Path; "
_PROGRAM += "k.main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))"


def measure(quick: bool) -> Iterator[Row]:
    n_kills = 3 if quick else 50
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        random = np.random.default_rng(0)
        a, b = random.normal(size=600), random.uniform(-1, 1, size=600)
        parquet.write_table(pa.table({"a": a, "b": b, "y": np.sin(2 * a) + b}), folder / "rows.parquet", row_group_size=70)
        arguments = [str(_TESTS), str(folder / "rows.parquet"), str(folder / "runs"), str(n_kills)]
        done = subprocess.run([sys.executable, "-c", _PROGRAM, *arguments], check=True, capture_output=True, text=True)
        said = json.loads(done.stdout.splitlines()[-1])
    yield Row("kills", float(len(said["kills"])), "kills", Target(">=", n_kills))
    yield Row("runs that were killed", float(said["trials"]), "runs")
    yield Row("different steps at which they were killed", float(len(set(said["steps"]))), "steps")
    yield Row("models that differ by a bit", float(len(said["different"])), "models", Target("<=", 0))


if __name__ == "__main__":
    sys.exit(answer(__file__, __doc__, TITLE, METHOD, measure))
