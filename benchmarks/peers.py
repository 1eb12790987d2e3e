"""How does the time of a fit compare with that of other packages on the same work?

    python benchmarks/peers.py [--quick] [--json FILE] [--markdown FILE]

The first run makes a virtual environment for the peers in the user's cache folder, which needs a network. Each peer runs in
a process of its own and fits on request, in turn with ours: all on one thread, k-means included.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from _report import Row, Target, answer
from _timing import Effort, fastest
from deepfls._files import cache_folder

TITLE = "Seconds of a fit beside other packages"
METHOD = "One thread, k-means included; in turn, the fastest."
WORKER = Path(__file__).with_name("_peer_worker.py")
# Package of each peer, with the version its call was written for.
PACKAGES = {"pytsk": "scikit-pytsk==0.0.6", "highfis": "highfis==0.36.0", "endgame": "endgame-ml==1.3.2"}
FULL, QUICK = Effort(windows=5, seconds=30.0, min_windows=2), Effort(windows=3, seconds=3.0, min_windows=1)
# Seconds of a fit from which it is timed only once, and after which its process is ended.
_LONG, _TIMEOUT = 20.0, 900.0


@dataclass(frozen=True)
class FitWork:
    """Size of a fit, and its targets: how many times as fast as each peer."""

    n_rows: int
    n_features: int
    n_rules: int
    epochs: int
    batch: int
    t1_targets: Mapping[str, Target]
    it2_targets: Mapping[str, Target]

    def __str__(self) -> str:
        return f"N {self.n_rows:,}, M {self.n_features}, P {self.n_rules}, {self.epochs} epochs, batch {self.batch:,}"


def _targets(**factors: float) -> dict[str, Target]:
    return {name: Target(">=", factor) for name, factor in factors.items()}


WORKS = (
    FitWork(354, 13, 15, 60, 64, _targets(pytsk=15, highfis=4), _targets(pytsk=10, highfis=1)),
    FitWork(6_698, 4, 15, 20, 512, _targets(pytsk=30, highfis=4), _targets(pytsk=18, highfis=1)),
    FitWork(20_000, 90, 50, 2, 4096, _targets(pytsk=45, highfis=30), _targets(pytsk=1, highfis=1, endgame=300)),
)
# A tenth of the second work takes endgame some ten seconds instead of more than a hundred. The targets do not apply to it.
QUICK_WORKS = (FitWork(6_698, 4, 15, 2, 512, {}, {}), FitWork(2_000, 90, 50, 2, 1024, {}, {}))


class PeerError(RuntimeError):
    """A peer that cannot be installed or run."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _last_line(text: str) -> str:
    """The last line of the messages of a program, without control characters."""
    lines = [line for line in text.splitlines() if line.strip() and "WARNING" not in line and "notice" not in line]
    return "".join(c for c in lines[-1].strip() if c.isprintable()) if lines else "no message"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise PeerError(_last_line(done.stderr or done.stdout))


def install() -> tuple[Path, dict[str, str]]:
    """Make the environment unless it exists: its interpreter, and the reason for each peer that could not be installed.

    torch and NumPy have the versions of this process, so that the comparison is not one of versions.
    """
    folder = cache_folder() / "peers"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    record = folder / "installed.json"
    shared = [f"{name}=={version(name).split('+')[0]}" for name in ("torch", "numpy")]
    wanted = {"python": sys.version, "shared": shared, "packages": PACKAGES}
    if record.exists():
        found = json.loads(record.read_text(encoding="utf-8"))
        if found["wanted"] == wanted and not found["failed"]:
            return python, {}
    say(f"making an environment of the peers in {folder}, once per machine ...")
    if folder.exists():
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "venv", str(folder)])
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # torch first: with the exact pin pip installs a build without CUDA, and no later package requires another one.
    _run([*pip, *shared, "threadpoolctl"])
    failed = {}
    for name, package in PACKAGES.items():
        say(f"installing {package} ...")
        try:
            _run([*pip, *shared, package])
        except PeerError as error:
            failed[name] = f"{package} could not be installed: {error}"
    record.write_text(json.dumps({"wanted": wanted, "failed": failed}, indent=1), encoding="utf-8")
    return python, failed


class Worker:
    """A process that fits one package on one work; a call returns the seconds of a fit."""

    def __init__(self, python: Path, name: str, data: Path, work: FitWork) -> None:
        self.name = name
        sizes = [str(number) for number in (work.n_rules, work.epochs, work.batch)]
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with the process
        self._process = subprocess.Popen(
            [str(python), str(WORKER), name, str(data), *sizes],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **threads},
        )
        self._long: float | None = None
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def _answer(self) -> str:
        assert self._process.stdout is not None
        timer = threading.Timer(_TIMEOUT, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            late = self._process.returncode == -signal.SIGKILL
            reason = f"no answer within {_TIMEOUT:.0f} s" if late else _last_line(self._errors.read())
            raise PeerError(f"{self.name} failed: {reason}")
        return line

    def __call__(self) -> float:
        if self._long is not None:
            return self._long
        assert self._process.stdin is not None
        self._process.stdin.write("fit\n")
        self._process.stdin.flush()
        seconds = float(self._answer())
        self._long = seconds if seconds > _LONG else None
        return seconds

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()


def seconds_of_fits(
    python: Path, names: list[str], work: FitWork, effort: Effort
) -> tuple[dict[str, float], dict[str, str]]:
    """Shortest fit of ours and of each peer, in turn, and the reason for each that failed."""
    random = np.random.default_rng(0)
    x = random.standard_normal((work.n_rows, work.n_features)).astype(np.float32)
    y = np.sin(x[:, 0] + x[:, 1]) + 0.5 * x[:, 2]
    failed: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "rows.npz"
        np.savez(data, x=x, y=y)
        workers = {}
        for name in ("ours T1", "ours IT2", *names):
            try:
                worker = Worker(Path(sys.executable) if name.startswith("ours") else python, name, data, work)
                stack.callback(worker.close)
                worker()  # a first fit shows whether the package works
                workers[name] = worker
            except PeerError as error:  # noqa: PERF203  # one failing peer does not end the measurement
                if name.startswith("ours"):
                    raise
                failed[name] = str(error)
        return fastest(workers, effort), failed


def measure(quick: bool = False) -> Iterator[Row]:
    """Seconds of every fit, and how many times as fast ours is."""
    try:
        python, failed = install()
    except (PeerError, OSError) as error:
        yield Row(f"no environment for the peers: {error}", None, "x")
        return
    for name, reason in failed.items():
        yield Row(f"{name}: {reason}", None, "x")
    for work in QUICK_WORKS if quick else WORKS:
        say(f"fitting {work} ...")
        names = [name for name in PACKAGES if name not in failed]
        seconds, broken = seconds_of_fits(python, names, work, QUICK if quick else FULL)
        for name, time in seconds.items():
            yield Row(f"{name}, {work}", time, "s")
        for ours, targets in (("ours T1", work.t1_targets), ("ours IT2", work.it2_targets)):
            for name in names:
                if name in seconds:
                    yield Row(f"{name} / {ours}, {work}", seconds[name] / seconds[ours], "x", targets.get(name))
        for name, reason in broken.items():
            yield Row(f"{name}, {work}: {reason}", None, "x")


if __name__ == "__main__":
    sys.exit(answer(__file__, __doc__, TITLE, METHOD, measure))
