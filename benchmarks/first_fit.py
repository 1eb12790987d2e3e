"""How much longer is the first fit of a process than a later one, with machine code kept on disk and without?

    python benchmarks/first_fit.py [--quick] [--json FILE] [--markdown FILE]

Every process fits the same small table twice. The kernels keep their machine code in a folder of this run, which is empty
for the first process. What a first fit takes beyond a later one is imports, compiling or loading, and warming memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from _report import Row, Target, answer

TITLE = "The first fit of a process"
METHOD = "Processor time of the whole process, the least of several."
KINDS = ("t1", "it2")
COMPILED, LOADED = Target("<=", 15.0), Target("<=", 0.3)
# Prints the seconds of two fits. Imports of a program that fits are no part of them.
PROGRAM = """
import json, sys, time
import numpy as np
from deepfls import FLSRegressor
x = np.random.default_rng(0).standard_normal((354, 13))
seconds = []
for _ in range(2):
    began = time.process_time()
    FLSRegressor(kind=sys.argv[1], n_rules=15, epochs=5, random_state=0).fit(x, x[:, 0])
    seconds.append(time.process_time() - began)
print(json.dumps(seconds))
"""


def beyond(kind: str, folder: str) -> float:
    """Seconds that the first fit of a new process takes beyond its second one."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, kind]
    first, second = json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
    return max(first - second, 0.0)


def measure(quick: bool = False) -> Iterator[Row]:
    for kind in KINDS[:1] if quick else KINDS:
        with tempfile.TemporaryDirectory() as folder:
            yield Row(f"{kind}, without machine code: beyond a later fit", beyond(kind, folder), "s", COMPILED)
            loaded = min(beyond(kind, folder) for _ in range(1 if quick else 5))
            yield Row(f"{kind}, with machine code kept: beyond a later fit", loaded, "s", LOADED)


if __name__ == "__main__":
    sys.exit(answer(__file__, __doc__, TITLE, METHOD, measure))
