"""Does torchrun end well, also on a busy machine: when a worker is lost, when the data have an error, and otherwise?

    python benchmarks/torchrun.py [--quick] [--json FILE] [--markdown FILE]

50 runs of two processes, of which a third loses a worker, a third has an error in its data and a third succeeds, while
other processes keep every core busy. Counted are workers that abort, wrong exit codes, and errors told more than once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from _report import Row, Target, answer
from exits import End, busy, write_files

N_RUNS = 50
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
    n_runs = 3 if quick else N_RUNS
    n_cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as name, busy(0 if quick else n_cores), ThreadPoolExecutor(n_cores + 1) as pool:
        folder = Path(name)
        write_files(folder)
        kinds = [("good", "killed", "error")[number % 3] for number in range(n_runs)]
        counts: Counter[str] = Counter()
        for kind, end in zip(kinds, pool.map(lambda one: torchrun_end(folder, one), kinds), strict=True):
            wrong = (end.code == 0) != (kind != "error") or (kind == "error" and _n_errors(end) != 1)
            counts["aborted"] += worker_aborted(end, kind)
            counts["wrong"] += wrong
            if wrong or worker_aborted(end, kind):
                print(f"torchrun, {kind}: exit code {end.code}: {end.message[-2000:]}", file=sys.stderr)
        yield Row("runs: good, with a lost worker, with an error in the data", float(n_runs), "runs")
        yield Row("runs in which a worker aborted", float(counts["aborted"]), "runs", none)
        yield Row("runs that ended wrongly", float(counts["wrong"]), "runs", none)


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the busy processes end with this one
    return answer(__file__, __doc__, "Ends of torchrun", "Every core is kept busy by another process.", measure)


if __name__ == "__main__":
    sys.exit(main())
