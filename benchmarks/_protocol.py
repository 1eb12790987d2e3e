"""The protocol of Köklü, Güven and Kumbasar (2024): data, starting values, training and published figures.

Three of the four systems are one system with three algorithms of type reduction, and take the same training steps: "it2-km"
(the classic Karnik-Mendel algorithm, sample by sample), "it2-fkm" (the paper's enumeration of 2^rules choices) and "it2"
(ours). "t1" is the Type-1 system.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from _timing import threads
from deepfls import metrics
from deepfls.data.datasets import Dataset
from deepfls.nn import IT2FLS, T1FLS
from deepfls.training import TrainConfig, train
from deepfls.training.start import initialize_system
from deepfls.training.steps import Rows

Array = np.ndarray[Any, np.dtype[Any]]

SETS = ("ccpp", "boston", "enb")
RULES = (5, 10, 15)
SYSTEMS = ("t1", "it2-km", "it2-fkm", "it2")
ALGORITHMS = {"it2-km": "iterative", "it2-fkm": "enumerate", "it2": "auto"}
BATCH_SIZES = {"ccpp": 512, "boston": 64, "enb": 64}
# Number of targets, the last columns of each table.
N_TARGETS = {"ccpp": 1, "boston": 1, "enb": 2, "kin8nm": 1, "naval": 2, "california": 1, "gas_turbine": 2}
EPOCHS = 100

_MINUTE, _HOUR = 60, 3600
# Training seconds of the paper for 5, 10 and 15 rules, on a 12-core i9-7920 with a GTX 1080 Ti.
PAPER_SECONDS: dict[tuple[str, str], tuple[float, ...]] = {
    ("ccpp", "t1"): (11, 11, 11),
    ("ccpp", "it2-km"): (18 * _HOUR + 16 * _MINUTE, 38 * _HOUR + 6 * _MINUTE, 57 * _HOUR + 11 * _MINUTE),
    ("ccpp", "it2-fkm"): (18, 19, 50),
    ("boston", "t1"): (5, 5, 5),
    ("boston", "it2-km"): (50 * _MINUTE, _HOUR + 38 * _MINUTE, 2 * _HOUR + 28 * _MINUTE),
    ("boston", "it2-fkm"): (8, 8, 9),
    ("enb", "t1"): (7, 7, 7),
    ("enb", "it2-km"): (3 * _HOUR + 2 * _MINUTE, 6 * _HOUR + 50 * _MINUTE, 9 * _HOUR + 57 * _MINUTE),
    ("enb", "it2-fkm"): (12, 13, 45),
}
# Test errors of the paper for each output; those of KM and fKM are equal.
PAPER_RMSE: dict[tuple[str, str], tuple[tuple[float, ...], ...]] = {
    ("ccpp", "t1"): ((0.246, 0.241, 0.238),),
    ("ccpp", "it2"): ((0.242, 0.237, 0.235),),
    ("boston", "t1"): ((0.450, 0.426, 0.416),),
    ("boston", "it2"): ((0.442, 0.428, 0.420),),
    ("enb", "t1"): ((0.136, 0.102, 0.068), (0.203, 0.173, 0.153)),
    ("enb", "it2"): ((0.082, 0.130, 0.149), (0.169, 0.175, 0.204)),
}


def paper_seconds(dataset: str, rules: int, system: str) -> float | None:
    """Training time of the paper; for our system that of its fastest counterpart, fKM."""
    times = PAPER_SECONDS.get((dataset, "it2-fkm" if system == "it2" else system))
    return float(times[RULES.index(rules)]) if times is not None and rules in RULES else None


def paper_rmse(dataset: str, rules: int, system: str, output: int) -> float | None:
    errors = PAPER_RMSE.get((dataset, "t1" if system == "t1" else "it2"))
    return errors[output][RULES.index(rules)] if errors is not None and rules in RULES else None


def z_scores(values: Array) -> Array:
    """Columns with mean 0 and standard deviation (n - 1) 1; constant columns become 0."""
    deviation = values.std(axis=0, ddof=1)
    return (values - values.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


@dataclass(frozen=True)
class Split:
    """Training and test rows of a table."""

    x: Array
    y: Array
    x_test: Array
    y_test: Array


def random_split(x: Array, y: Array, seed: int) -> Split:
    """``round(0.7 N)`` random training rows; the others are test rows."""
    train_rows, test_rows = np.split(np.random.default_rng(seed).permutation(len(x)), [round(0.7 * len(x))])
    return Split(x[train_rows], y[train_rows], x[test_rows], y[test_rows])


def protocol_split(data: Dataset, seed: int) -> Split:
    """The split of the paper, in z-scores of the whole set."""
    return random_split(z_scores(data.x), z_scores(data.y), seed)


def read_table(name: str, folder: Path) -> tuple[Array, Array]:
    """Inputs of a CSV file, and its targets in z-scores; the column "year" of gas_turbine is no input."""
    import pandas as pd

    places = [folder / f"{name}.csv", folder / "extra" / f"{name}.csv.gz", folder / f"{name}.csv.gz"]
    path = next((place for place in places if place.exists()), None)
    if path is None:
        raise FileNotFoundError(f"{folder} must have the file {name}.csv, {name}.csv.gz or extra/{name}.csv.gz.")
    values = pd.read_csv(path).drop(columns="year", errors="ignore").to_numpy(dtype=float)
    return values[:, : -N_TARGETS[name]], z_scores(values[:, -N_TARGETS[name] :])


def interval_measures(y: Array, lower: Array, upper: Array, coverage: float) -> dict[str, float]:
    """Share of targets covered, mean width over their range, and interval score."""
    return {
        "picp": metrics.picp(y, lower, upper),
        "pinaw": metrics.pinaw(y, lower, upper),
        "score": metrics.interval_score(y, lower, upper, coverage),
    }


@dataclass(frozen=True)
class TrainingRun:
    """Seconds and steps of one training run, measured or extrapolated; test errors per output of a complete run."""

    seconds: float
    steps: int
    extrapolated: bool
    rmse: tuple[float, ...] | None


def new_system(system: str, split: Split, rules: int, seed: int) -> T1FLS | IT2FLS:
    """A system at the paper's starting values, which are equal for the three IT2 systems of a seed."""
    n_features, n_outputs = split.x.shape[1], split.y.shape[1]
    with torch.random.fork_rng(devices=[]):
        fls: T1FLS | IT2FLS
        if system == "t1":
            fls = T1FLS(n_features, n_outputs, n_rules=rules, parameterization="paper")
        else:
            fls = IT2FLS(n_features, n_outputs, n_rules=rules, algorithm=ALGORITHMS[system], parameterization="paper")
    initialize_system(
        fls,
        torch.tensor(split.x, dtype=torch.float32),
        torch.tensor(split.y, dtype=torch.float32),
        centers="kmeans-per-input",
        consequents="random",
        random_state=np.random.RandomState(seed),
    )
    return fls


def run(
    dataset: str, split: Split, rules: int, system: str, seed: int, *, epochs: int = EPOCHS, timed_steps: int | None = None
) -> TrainingRun:
    """Train one system on one split, on one thread.

    Parameters
    ----------
    dataset : str
        Determines the batch size.
    split : Split
    rules : int
    system : {"t1", "it2-km", "it2-fkm", "it2"}
    seed : int
        Seed of the starting values and of the shuffling.
    epochs : int
    timed_steps : int, optional
        Take this number of real training steps and extrapolate their time to the complete run. There is no test error.

    Returns
    -------
    TrainingRun
    """
    fls = new_system(system, split, rules, seed)
    batch_size = BATCH_SIZES[dataset]
    rows = Rows.of(torch.tensor(split.x, dtype=torch.float32), torch.tensor(split.y, dtype=torch.float32))
    n_steps = len(rows) // batch_size * epochs
    if timed_steps is not None and timed_steps < n_steps:
        timed_steps = min(timed_steps, len(rows) // batch_size)
        rows = Rows.of(rows.x[: timed_steps * batch_size], rows.target[: timed_steps * batch_size])
        epochs = 1
    else:
        timed_steps = None
    config = TrainConfig(learning_rate=0.01, epochs=epochs, batch_size=batch_size, drop_last=True)
    with threads(1):
        began = time.perf_counter()
        result = train(fls, rows, config, generator=torch.Generator().manual_seed(seed))
        seconds = time.perf_counter() - began
    if result.stopped_by == "interrupt":
        raise KeyboardInterrupt  # an incomplete run is no measurement
    if timed_steps is not None:
        return TrainingRun(seconds / timed_steps * n_steps, n_steps, True, None)
    with torch.no_grad():
        errors = fls(torch.tensor(split.x_test, dtype=torch.float32)).double().numpy() - split.y_test
    return TrainingRun(seconds, n_steps, False, tuple(np.sqrt(np.mean(errors**2, axis=0)).tolist()))


def warm_up() -> None:
    """Compile or load the kernels of every system, so that no reported time includes it."""
    split = Split(*(np.zeros(shape) for shape in ((64, 2), (64, 1), (2, 2), (2, 1))))
    for system in SYSTEMS:
        run("boston", split, 2, system, 0, epochs=1)


def summary_rows(dataset: Dataset, rules: int, system: str, runs: Sequence[TrainingRun]) -> list[dict[str, Any]]:
    """One row per output: mean errors and median times over the seeds, beside the paper's figures."""
    finished = [run.rmse for run in runs if run.rmse is not None]
    # The median leaves out single runs that other processes slowed down; no error is left out.
    seconds = float(np.median([run.seconds for run in runs]))
    rows = []
    for output, name in enumerate(dataset.target_names):
        errors = [rmse[output] for rmse in finished]
        rows.append(
            {
                "dataset": dataset.name,
                "rules": rules,
                "system": system,
                "output": name,
                "seconds": seconds,
                "ms_per_step": 1000.0 * seconds / runs[0].steps,
                "steps": runs[0].steps,
                "extrapolated": runs[0].extrapolated,
                "rmse_mean": float(np.mean(errors)) if errors else None,
                "rmse_std": float(np.std(errors, ddof=1)) if len(errors) > 1 else (0.0 if errors else None),
                "paper_seconds": paper_seconds(dataset.name, rules, system),
                "paper_rmse": paper_rmse(dataset.name, rules, system, output),
                "seeds": len(runs),
            }
        )
    return rows
