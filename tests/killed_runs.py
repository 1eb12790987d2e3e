"""Kill a run with SIGKILL at random moments, let it go on, and compare what comes out with an undisturbed run.

``python killed_runs.py ROWS FOLDER KILLS`` prints one JSON object. Each run is a fork of this process, which has imported
everything, so that a run takes a fraction of a second. Most runs are killed several times, each time after they were taken
up again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from deepfls import FLSRegressor, load
from deepfls.training.checkpoint import Checkpoints
from stream_cases import SETTINGS, regression, system_arrays


def started(rows: str, folder: Path) -> int:
    """Start a run in a process of its own."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        settings = {**SETTINGS, "epochs": 4}
        model = FLSRegressor(**settings).fit(regression(rows), checkpoints=Checkpoints(folder, every=2, resume=True))
        model.save(folder / "model.fls")
        code = 0
    finally:
        os._exit(code)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def reached(folder: Path) -> int:
    """The step of the newest checkpoint, -1 without one."""
    return max((int(file.stem.split("-")[1]) for file in folder.glob("step-*.safetensors")), default=-1)


def killed(child: int, folder: Path, step: int, seconds: float) -> int:
    """Kill a run so long after its checkpoint of some step; its exit code, which is another one if it was done before.

    By steps and not by the clock alone: what a run does before its first step takes longer than all of them.
    """
    latest = time.monotonic() + 60.0
    while reached(folder) < step and time.monotonic() < latest:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.0002)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return ended(child)


def main(rows: str, folder: Path, n_kills: int) -> None:
    chance = random.Random(0)
    # Everything that is imported late, imported before the forks: a fit of two rows does it.
    FLSRegressor(**{**SETTINGS, "epochs": 1}).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5])
    import safetensors.numpy  # noqa: F401

    import deepfls.training.steps  # noqa: F401

    folder.mkdir()
    began = time.perf_counter()
    assert ended(started(rows, folder / "whole")) == 0
    length = time.perf_counter() - began
    last = reached(folder / "whole")
    expected = {name: value.tobytes() for name, value in system_arrays(load(folder / "whole" / "model.fls")).items()}
    kills: list[int] = []
    steps, different = [], []
    trial = 0
    while len(kills) < n_kills and trial < 20 * n_kills:
        run = folder / f"run-{trial}"
        for _ in range(3):
            # In every third run, and where a run was beyond its step before, at any moment.
            step = chance.choice([-1, chance.randrange(last), chance.randrange(last)])
            seconds = chance.uniform(0.0, length if reached(run) >= step else 0.002)
            code = killed(started(rows, run), run, step, seconds)
            if code == -signal.SIGKILL:  # else it was done before
                kills.append(code)
                steps.append(reached(run))
        assert ended(started(rows, run)) == 0
        found = {name: value.tobytes() for name, value in system_arrays(load(run / "model.fls")).items()}
        if found != expected:
            different.append(trial)
        trial += 1
    print(
        json.dumps({"kills": kills[:n_kills], "steps": steps, "different": different, "seconds": length, "trials": trial})
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
