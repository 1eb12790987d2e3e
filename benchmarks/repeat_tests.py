"""Do the tests pass every time: on one core of a busy machine, twice at once, without a home folder, in random order?

    python benchmarks/repeat_tests.py [--quick] [--json FILE] [--markdown FILE]

Runs the tests of `make test` ten times. Every core has a run of its own at all times, so that each has one core, a machine
that is busy with the others, and a second run of the same tests beside it. Every run has another random order, whose seed
is printed, and every second one a HOME that cannot be written to. --quick takes a few files.
"""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from _report import Row, Target, answer

ROOT = Path(__file__).parents[1]
TIMES = 10
_QUICK = ["tests/functional/test_losses.py", "tests/data/test_scaling.py", "tests/kernels/test_threads.py"]


def run(seed: int, core: int, arguments: Sequence[str]) -> tuple[int, str]:
    """Exit code and output of one run of the tests on one core."""
    command = ["taskset", "-c", str(core), sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "_random_order", "-n", "1", "--dist", "worksteal", *arguments]
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "DEEPFLS_TEST_SEED": str(seed), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    if has_no_home(seed):
        environment["HOME"] = "/proc/nowhere"
        environment.pop("XDG_CACHE_HOME", None)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def has_no_home(seed: int) -> bool:
    return seed % 2 == 1


def measure(quick: bool) -> Iterator[Row]:
    n_runs, arguments = (2, _QUICK) if quick else (TIMES, [])
    cores: queue.SimpleQueue[int] = queue.SimpleQueue()
    for core in sorted(os.sched_getaffinity(0)):
        cores.put(core)

    def timed(seed: int) -> tuple[int, str, float]:
        core = cores.get()
        began = time.perf_counter()
        try:
            return *run(seed, core, arguments), time.perf_counter() - began
        finally:
            cores.put(core)

    n_passed = 0
    with ThreadPoolExecutor(cores.qsize()) as pool:
        for seed, (code, output, seconds) in enumerate(pool.map(timed, range(n_runs))):
            n_passed += code == 0
            if code:
                failures = re.findall(r"^(?:FAILED|ERROR) .*$", output, flags=re.MULTILINE)
                print(*(failures or [output[-3000:]]), sep="\n", file=sys.stderr)
            home = ", no home" if has_no_home(seed) else ""
            yield Row(f"run {seed + 1}, seed {seed}{home}: exit code {code}", seconds, "s")
    yield Row(f"runs that passed, of {n_runs}", float(n_passed), "runs", Target(">=", n_runs))


def main() -> int:
    method = "Every run on one core, as many at once as there are cores, each in another random order."
    return answer(__file__, __doc__, "Tests, repeated", method, measure)


if __name__ == "__main__":
    sys.exit(main())
