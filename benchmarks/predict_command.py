"""How much processor time does `deepfls predict` of 10 rows take, imports included?

    python benchmarks/predict_command.py [--quick] [--json FILE] [--markdown FILE]

Every command is a new process, whose processor time the operating system counts. Predictions of few rows need neither torch
nor scikit-learn; --familiarity needs both, and shows what they take. Version 0.1.0 took 3.7 s on the machine where it was
written.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from _report import Row, Target, answer
from deepfls import FLSClassifier, FLSRegressor

TITLE = "The command predict, 10 rows"
METHOD = "Processor time of the whole process, the least of several."


def processor_seconds(arguments: list[str], folder: Path) -> float:
    """User and system time of one command."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], cwd=folder, check=True, capture_output=True)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def write_files(folder: Path) -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(300, 4)), columns=list("abcd"))
    FLSRegressor(n_rules=10, epochs=2, random_state=0).fit(frame, frame["a"]).save(folder / "numbers.fls")
    mixed = frame.assign(colour=random.choice(["red", "blue"], 300))
    FLSClassifier(n_rules=10, epochs=2, random_state=0).fit(mixed, frame["a"] > 0).save(folder / "classes.fls")
    mixed[:10].to_csv(folder / "rows.csv", index=False)


def measure(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        commands = {
            "numbers": ["-m", "deepfls", "predict", "numbers.fls", "rows.csv"],
            "classes, one input of text": ["-m", "deepfls", "predict", "classes.fls", "rows.csv"],
            "numbers, --familiarity": ["-m", "deepfls", "predict", "numbers.fls", "rows.csv", "--familiarity"],
            "import torch and sklearn": ["-c", "import torch, sklearn.base"],
        }
        times = {work: [processor_seconds(command, folder)] for work, command in commands.items()}
        for _ in range(1 if quick else 7):
            for work, command in commands.items():
                times[work].append(processor_seconds(command, folder))
        least = {work: min(found) for work, found in times.items()}
        for work, seconds in least.items():
            yield Row(work, seconds, "s", Target("<=", 1.85) if work in list(commands)[:2] else None)
        yield Row("numbers / the same with --familiarity", least["numbers"] / least["numbers, --familiarity"], "x")


if __name__ == "__main__":
    sys.exit(answer(__file__, __doc__, TITLE, METHOD, measure))
