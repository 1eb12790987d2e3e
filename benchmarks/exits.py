"""Does every command end with its exit code, also on a busy machine? None may end by a signal.

    python benchmarks/exits.py [--quick] [--json FILE] [--markdown FILE]

400 failing commands and 50 runs of torchrun, of which a third loses a worker, a third has an error in its data and a third
succeeds, while other processes keep every core busy. Counted are aborts (processes that end by a signal, or whose standard
error tells of one), wrong exit codes and messages of more than one line.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from _report import Row, Target, answer

COMMANDS: tuple[tuple[str, int], ...] = (
    ("evaluate model.fls narrow.csv --target y", 1),
    ("predict model.fls narrow.csv", 1),
    ("explain model.fls rows.csv --row 100000", 2),
    ("predict nothing.fls rows.csv", 1),
    ("train rows.csv --target nothing --out new.fls", 1),
    ("train ragged.csv --target y --out new.fls", 1),
    ("train rows.csv --target y --kind it3 --out new.fls", 2),
    ("train rows.parquet --stream --target nothing --out new.fls", 1),
)
# What a worker of torchrun does: rank 1 kills itself once after a checkpoint, or nothing.
_WORKER = """
import os, signal
from pathlib import Path
from deepfls.data.sources import ParquetSource
read = ParquetSource.read
def deadly(*arguments, **options):
    if os.environ["RANK"] == "1" and not Path("killed").exists() and list(Path("run").glob("step-*")):
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return read(*arguments, **options)
if Path("deadly").exists():
    ParquetSource.read = deadly
from deepfls.cli.app import main
main()
"""
_TRAIN = "train {rows} --target y --n-rules 2 --epochs 2 --batch-size 50 --buffer-rows 100 --checkpoint-dir run --resume"


class End(NamedTuple):
    """Exit code of a process, and what it printed on standard error."""

    code: int
    message: str

    @property
    def aborted(self) -> bool:
        return self.code < 0 or self.code >= 128 or "terminate called" in self.message


@contextlib.contextmanager
def busy(n_processes: int) -> Iterator[None]:
    """Processes that do nothing but compute, so that threads of others run late."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n_processes)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def write_files(folder: Path) -> None:
    """A model, and tables that are good, or wrong in one way each."""
    import pandas as pd

    from deepfls import FLSRegressor

    values = np.random.default_rng(0).normal(size=(300, 3))
    frame = pd.DataFrame(values, columns=["a", "b", "y"])
    FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(frame[["a", "b"]], frame["y"]).save(folder / "model.fls")
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_parquet(folder / "rows.parquet", row_group_size=50)
    frame[["a", "y"]].to_csv(folder / "narrow.csv", index=False)
    frame.assign(y=[np.inf, *values[1:, 2]]).to_parquet(folder / "bad.parquet", row_group_size=50)
    (folder / "ragged.csv").write_text((folder / "rows.csv").read_text() + "1,2,3,4\n")


def command_end(folder: Path, command: str) -> End:
    done = subprocess.run(
        [sys.executable, "-m", "deepfls", *command.split()], cwd=folder, capture_output=True, text=True, check=False
    )
    return End(done.returncode, done.stderr)


def torchrun_end(folder: Path, kind: str) -> End:
    """A run of two processes in a folder of its own; an abort of a worker stands in torchrun's standard error."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        own = Path(name)
        (own / "worker.py").write_text(_WORKER)
        if kind == "killed":
            (own / "deadly").touch()
        arguments = _TRAIN.format(rows=folder / ("bad.parquet" if kind == "error" else "rows.parquet")).split()
        if kind == "error":
            arguments += ["--task", "regression"]
        restarts = "2" if kind == "killed" else "0"
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        done = subprocess.run(
            [*launcher, "--max-restarts", restarts, "worker.py", *arguments, "--checkpoint-every", "3"],
            cwd=own,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )
    return End(done.returncode, done.stderr)


def _n_errors(end: End) -> int:
    """How many lines tell of an error of deepfls; torchrun has its own."""
    return sum(line.startswith("Error: ") for line in end.message.splitlines())


def worker_aborted(end: End, kind: str) -> bool:
    """Whether a worker ended by a signal that it was not sent on purpose."""
    signals = ["SIGABRT", "SIGSEGV", "exitcode: -6", "exitcode: -11", "terminate called"]
    return any(text in end.message for text in signals) or (kind != "killed" and "SIGKILL" in end.message)


def measure(quick: bool) -> Iterator[Row]:
    none = Target("<=", 0)
    n_commands, n_runs = (len(COMMANDS), 3) if quick else (400, 50)
    n_cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as name, busy(0 if quick else n_cores), ThreadPoolExecutor(n_cores + 1) as pool:
        folder = Path(name)
        write_files(folder)
        asked = [COMMANDS[number % len(COMMANDS)] for number in range(n_commands)]
        counts: Counter[str] = Counter()
        for (command, code), end in zip(asked, pool.map(lambda one: command_end(folder, one[0]), asked), strict=True):
            wrong = end.code != code or not end.message.startswith("Error: ") or end.message.count("\n") != 1
            counts["aborted"] += end.aborted
            counts["wrong"] += wrong
            if wrong:
                print(f"{command}: exit code {end.code}: {end.message[:400]}", file=sys.stderr)
        yield Row("failing commands", float(n_commands), "commands")
        yield Row("failing commands that ended by a signal", float(counts["aborted"]), "commands", none)
        yield Row("failing commands with a wrong exit code or message", float(counts["wrong"]), "commands", none)
        kinds = [("good", "killed", "error")[number % 3] for number in range(n_runs)]
        for kind, end in zip(kinds, pool.map(lambda one: torchrun_end(folder, one), kinds), strict=True):
            wrong = (end.code == 0) != (kind != "error") or (kind == "error" and _n_errors(end) != 1)
            counts["worker aborted"] += worker_aborted(end, kind)
            counts["run wrong"] += wrong
            if wrong or worker_aborted(end, kind):
                print(f"torchrun, {kind}: exit code {end.code}: {end.message[-2000:]}", file=sys.stderr)
        yield Row("runs of torchrun: good, with a lost worker, with an error in the data", float(n_runs), "runs")
        yield Row("runs of torchrun in which a worker aborted", float(counts["worker aborted"]), "runs", none)
        yield Row("runs of torchrun that ended wrongly", float(counts["run wrong"]), "runs", none)


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the busy processes end with this one
    return answer(__file__, __doc__, "Ends of commands", "Every core is kept busy by another process.", measure)


if __name__ == "__main__":
    sys.exit(main())
