"""Does every command end with its exit code, also on a busy machine? None may end by a signal.

    python benchmarks/exits.py [--quick] [--json FILE] [--markdown FILE]

400 failing commands while other processes keep every core busy. Counted are aborts (processes that end by a signal, or
whose standard error tells of one), wrong exit codes and messages of more than one line.
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

N_COMMANDS = 400
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


def measure(quick: bool) -> Iterator[Row]:
    none = Target("<=", 0)
    n_commands = len(COMMANDS) if quick else N_COMMANDS
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


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the busy processes end with this one
    return answer(__file__, __doc__, "Ends of commands", "Every core is kept busy by another process.", measure)


if __name__ == "__main__":
    sys.exit(main())
