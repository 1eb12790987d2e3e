"""Do the tests pass every time: on busy cores, on one core, without a home folder, in random order?

    python benchmarks/repeat_tests.py [--quick] [--json FILE] [--markdown FILE]

Runs the tests of `make test` ten times: in turn with every core kept busy, on one core, and with a HOME that cannot be
written to, each time in another random order, whose seed is printed. --quick runs each way once on a few files.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from _report import Row, Target, answer
from exits import busy

ROOT = Path(__file__).parents[1]
TIMES = 10
WAYS = ("busy cores", "one core", "no home")
_QUICK = ["tests/functional/test_losses.py", "tests/data/test_scaling.py", "tests/kernels/test_threads.py"]


def run(way: str, seed: int, arguments: Sequence[str]) -> tuple[int, str]:
    """Exit code and output of one run of the tests."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "_random_order"]
    command += ["-n", "1" if way == "one core" else "auto", "--dist", "worksteal", *arguments]
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "DEEPFLS_TEST_SEED": str(seed), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with contextlib.ExitStack() as stack:
        if way == "one core":
            command = ["taskset", "-c", "0", *command]
        elif way == "busy cores":
            stack.enter_context(busy(os.cpu_count() or 1))
        else:
            environment["HOME"] = "/proc/nowhere"
            environment.pop("XDG_CACHE_HOME", None)
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def measure(quick: bool) -> Iterator[Row]:
    n_runs, arguments = (len(WAYS), _QUICK) if quick else (TIMES, [])
    n_passed = 0
    for number in range(n_runs):
        way = WAYS[number % len(WAYS)]
        began = time.perf_counter()
        code, output = run(way, number, arguments)
        n_passed += code == 0
        if code:
            failures = re.findall(r"^(?:FAILED|ERROR) .*$", output, flags=re.MULTILINE)
            print(*(failures or [output[-3000:]]), sep="\n", file=sys.stderr)
        yield Row(f"run {number + 1}, {way}, seed {number}: exit code {code}", time.perf_counter() - began, "s")
    yield Row(f"runs that passed, of {n_runs}", float(n_passed), "runs", Target(">=", n_runs))


def main() -> int:
    return answer(__file__, __doc__, "Tests, repeated", "In turn on busy cores, one core and no home.", measure)


if __name__ == "__main__":
    sys.exit(main())
