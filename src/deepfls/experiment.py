"""The experiment of Köklü, Güven and Kumbasar (2024), in their protocol: data, starting values, training, measures.

Four systems are compared. Three of them are one system with three algorithms for its type reduction, and take the same
steps: "it2-km" (the classic Karnik-Mendel algorithm, sample by sample), "it2-fkm" (the paper's enumeration of 2^P choices)
and "it2" (ours). "t1" is the Type-1 system.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from deepfls.data.datasets import Dataset
from deepfls.data.scaling import Scaling
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training.config import TrainConfig
from deepfls.training.loop import Rows, train
from deepfls.training.start import initialize_system

Array = np.ndarray[Any, np.dtype[Any]]

SETS = ("ccpp", "boston", "enb")
RULES = (5, 10, 15)
SYSTEMS = ("t1", "it2-km", "it2-fkm", "it2")
ALGORITHMS = {"it2-km": "iterative", "it2-fkm": "enumerate", "it2": "auto"}
BATCH_SIZES = {"ccpp": 512, "boston": 64, "enb": 64}
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
# Its test errors, for each output; KM and fKM are the same.
PAPER_RMSE: dict[tuple[str, str], tuple[tuple[float, ...], ...]] = {
    ("ccpp", "t1"): ((0.246, 0.241, 0.238),),
    ("ccpp", "it2"): ((0.242, 0.237, 0.235),),
    ("boston", "t1"): ((0.450, 0.426, 0.416),),
    ("boston", "it2"): ((0.442, 0.428, 0.420),),
    ("enb", "t1"): ((0.136, 0.102, 0.068), (0.203, 0.173, 0.153)),
    ("enb", "it2"): ((0.082, 0.130, 0.149), (0.169, 0.175, 0.204)),
}


def paper_seconds(dataset: str, rules: int, system: str) -> float | None:
    """The paper's training time; for our system that of its fastest counterpart, fKM."""
    times = PAPER_SECONDS.get((dataset, "it2-fkm" if system == "it2" else system))
    return float(times[RULES.index(rules)]) if times is not None and rules in RULES else None


def paper_rmse(dataset: str, rules: int, system: str, output: int) -> float | None:
    errors = PAPER_RMSE.get((dataset, "t1" if system == "t1" else "it2"))
    return errors[output][RULES.index(rules)] if errors is not None and rules in RULES else None


@dataclass(frozen=True)
class Split:
    """Training and test rows in z-units of the whole set."""

    x: Array
    y: Array
    x_test: Array
    y_test: Array


def protocol_split(data: Dataset, seed: int) -> Split:
    """z-score over the whole set (n - 1), then ``round(0.7 N)`` random training rows; the rest are for testing."""
    x, y = Scaling.standard(data.x).apply(data.x), Scaling.standard(data.y).apply(data.y)
    order = np.random.default_rng(seed).permutation(len(x))
    n_train = round(0.7 * len(x))
    chosen, others = order[:n_train], order[n_train:]
    return Split(x[chosen], y[chosen], x[others], y[others])


@dataclass(frozen=True)
class Run:
    """One training run: seconds and steps as measured or extrapolated, test errors per output where it ran to its end."""

    seconds: float
    steps: int
    extrapolated: bool
    rmse: tuple[float, ...] | None


def new_system(system: str, split: Split, rules: int, seed: int) -> T1FLS | IT2FLS:
    """A system at the paper's starting values: the same for the three IT2 systems of a seed."""
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
) -> Run:
    """Train one system on one split, on one thread.

    Parameters
    ----------
    dataset : str
        Names the batch size.
    split : Split
    rules : int
    system : {"t1", "it2-km", "it2-fkm", "it2"}
    seed : int
        Of starting values and shuffling.
    epochs : int
    timed_steps : int, optional
        Time this many real training steps and extrapolate to the whole run, which then gives no test error.

    Returns
    -------
    Run
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
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        began = time.perf_counter()
        result = train(fls, rows, config, generator=torch.Generator().manual_seed(seed))
        seconds = time.perf_counter() - began
    finally:
        torch.set_num_threads(threads)
    if result.stopped_by == "interrupt":
        raise KeyboardInterrupt  # a run cut short is no measurement
    if timed_steps is not None:
        return Run(seconds / timed_steps * n_steps, n_steps, True, None)
    with torch.no_grad():
        errors = fls(torch.tensor(split.x_test, dtype=torch.float32)).double().numpy() - split.y_test
    return Run(seconds, n_steps, False, tuple(np.sqrt(np.mean(errors**2, axis=0)).tolist()))


def warm_up() -> None:
    """Compile the row kernels before anything is timed."""
    split = Split(*(np.zeros(shape) for shape in ((64, 2), (64, 1), (2, 2), (2, 1))))
    for system in SYSTEMS:
        run("boston", split, 2, system, 0, epochs=1)


def summary_rows(dataset: Dataset, rules: int, system: str, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row per output of a cell: mean errors and median times over the seeds, beside the paper's figures."""
    finished = [run.rmse for run in runs if run.rmse is not None]
    # A moment in which the machine did something else is no part of the time; among the errors nothing is left out.
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
