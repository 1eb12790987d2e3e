"""Does anything grow? Fits, predictions, files, streams, kills and resumed runs, again and again, under tight limits.

    python benchmarks/soak.py [--quick] [--json FILE] [--markdown FILE]

For 20 minutes (2 with --quick) one process repeats a round: fit, predict, save, load, report, stream with checkpoints, a
stream that is killed in a child and resumed here, and a checkpoint on a disk that is full. The memory of the process is
limited; open files, threads, temporary files and resident memory are counted after every round. The first rounds, which
import and compile, do not count.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from _report import Row, Target, answer
from deepfls import FLSClassifier, FLSRegressor, load
from deepfls.data.sources import ParquetSource
from deepfls.training.checkpoint import CheckpointError, Checkpoints

SECONDS, QUICK_SECONDS = 1_200.0, 120.0
# Rounds before the first count, and bytes that the process may have beyond those it then has.
_WARM_UP, _MEMORY = 3, 3 * 2**30
_SETTINGS: dict[str, Any] = {"n_rules": 5, "epochs": 4, "batch_size": 200, "random_state": 0}


class Counts(NamedTuple):
    """What a process holds."""

    files: int
    threads: int
    temporary: int
    megabytes: float


def counts(folder: Path) -> Counts:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    n_files = len(list(Path("/proc/self/fd").iterdir()))
    return Counts(n_files, threading.active_count(), len(list(folder.iterdir())), pages * resource.getpagesize() / 1e6)


def streamed(rows: str, checkpoints: Checkpoints | None = None) -> FLSRegressor:
    return FLSRegressor(**_SETTINGS).fit(ParquetSource(rows, target="y"), checkpoints=checkpoints)


def refused(x: Any, y: Any, settings: dict[str, Any]) -> bool:
    """Whether settings are refused in one sentence."""
    try:
        FLSRegressor(**{**_SETTINGS, **settings}).fit(x, y)
    except ValueError as error:
        return "\n" not in str(error)
    return False


def killed_fit(rows: str, run: Path) -> int:
    """A streamed fit in a child that is killed after its first checkpoint; its exit code."""
    child = os.fork()
    if child == 0:
        try:
            FLSRegressor(**_SETTINGS).fit(
                ParquetSource(rows, target="y"), checkpoints=Checkpoints(run, every=2, resume=True)
            )
        finally:
            os._exit(0)
    latest = time.monotonic() + 60.0
    while not list(run.glob("step-*")) and time.monotonic() < latest and os.waitpid(child, os.WNOHANG)[0] == 0:
        time.sleep(0.002)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return 0


def one_round(folder: Path, rows: str, number: int) -> list[str]:
    """All that a user may do, once; the failures in it."""
    failures = []
    source = np.random.default_rng(number)
    x = source.normal(size=(800, 3))
    y = np.sin(2 * x[:, 0]) + x[:, 1]
    model = FLSRegressor(**_SETTINGS, coverage=0.9).fit(x, y)
    model.save(folder / "model.fls")
    same = load(folder / "model.fls")
    if not np.array_equal(same.predict(x), model.predict(x)):
        failures.append("a loaded model predicts something else")
    model.predict_interval(x)
    FLSClassifier(**_SETTINGS).fit(x, y > 0).predict_proba(x)
    model.to_report(folder / "page.html", x, y)
    whole = streamed(rows)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        run = Path(name) / "run"
        killed_fit(rows, run)
        resumed = FLSRegressor(**_SETTINGS).fit(
            ParquetSource(rows, target="y"), checkpoints=Checkpoints(run, 2, resume=True)
        )
    if not np.array_equal(resumed.predict(x[:, :2]), whole.predict(x[:, :2])):
        failures.append("a resumed run gives another model")
    wrong: tuple[dict[str, Any], ...] = ({"kind": "it3"}, {"n_rules": 0}, {"loss": "l3"})
    failures += [f"{bad} was not refused in a sentence" for bad in wrong if not refused(x, y, bad)]
    return failures + full_disk(folder, rows)


def full_disk(folder: Path, rows: str) -> list[str]:
    """A run whose checkpoints exceed the size that files may have: one sentence, and no file is left half written."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with tempfile.TemporaryDirectory(dir=folder) as name:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))
            try:
                streamed(rows, Checkpoints(name, every=2))
            except CheckpointError as error:
                sentence = str(error)
            else:
                return ["a full disk was not noticed"]
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            left = [path.name for path in Path(name).iterdir() if path.name.endswith(".tmp")]
        return [f"left {left}"] * bool(left) + ["no reason"] * (os.strerror(errno.EFBIG) not in sentence)
    finally:
        signal.signal(signal.SIGXFSZ, before)


def measure(quick: bool) -> Iterator[Row]:
    warnings.simplefilter("ignore")
    none = Target("<=", 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = np.random.default_rng(0)
        x = source.normal(size=(2_000, 2))
        table = pa.table({"a": x[:, 0], "b": x[:, 1], "y": np.sin(2 * x[:, 0]) * x[:, 1]})
        parquet.write_table(table, folder / "rows.parquet", row_group_size=200)
        rows = str(folder / "rows.parquet")
        failures: list[str] = []
        for number in range(_WARM_UP):
            failures += one_round(folder, rows, number)
        first = last = counts(folder)
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + _MEMORY, in_use + _MEMORY))
        end, n_rounds = time.monotonic() + (QUICK_SECONDS if quick else SECONDS), 0
        memory = [first.megabytes]
        while time.monotonic() < end:
            failures += one_round(folder, rows, _WARM_UP + n_rounds)
            n_rounds += 1
            last = counts(folder)
            memory.append(last.megabytes)
    for failure in dict.fromkeys(failures):
        print(failure, file=sys.stderr)
    yield Row("rounds", float(n_rounds), "rounds")
    yield Row("failures", float(len(failures)), "failures", none)
    yield Row("more open files than after the first rounds", float(last.files - first.files), "files", none)
    yield Row("more threads", float(last.threads - first.threads), "threads", none)
    yield Row("more temporary files", float(last.temporary - first.temporary), "files", none)
    half = len(memory) // 2
    growth = float(np.median(memory[half:]) - np.median(memory[:half] or memory)) if n_rounds > 1 else 0.0
    yield Row("memory, first rounds", first.megabytes, "MB")
    yield Row("median memory of the second half of the rounds less that of the first", growth, "MB", Target("<=", 20))


def main() -> int:
    return answer(__file__, __doc__, "Soak", "One process; counts after the first rounds and at the end.", measure)


if __name__ == "__main__":
    sys.exit(main())
