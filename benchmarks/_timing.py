"""Time of training steps and of calls: short windows, competitors in turn, the fastest window of each.

Work on one thread is timed by the processor time of that thread, which leaves out the time that other processes take. Work
on several threads is timed by the wall clock.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

from deepfls import FLSRegressor
from deepfls.nn import GT2FLS, IT2FLS, T1FLS
from deepfls.training import TrainConfig, train
from deepfls.training.steps import Rows

# Length of a window of short steps: long against the resolution of the clock, short against a time slice of the system.
_WINDOW_SECONDS = 0.02
_MIN_STEPS, _MAX_STEPS = 2, 64

Name = TypeVar("Name", bound=Hashable)
Clock = Callable[[], float]
ONE_THREAD: Clock = time.thread_time
WALL: Clock = time.perf_counter
# Systems by kind: "t1", or the uncertainty of an IT2 system.
NAMES = {"t1": "T1", "hs": "IT2 hs", "h": "IT2 h", "gt2": "GT2, 3 planes"}


@dataclass(frozen=True)
class Effort:
    """Windows of each competitor. After ``seconds`` no window beyond ``min_windows`` is started."""

    windows: int
    seconds: float
    min_windows: int = 3


FULL, QUICK = Effort(windows=30, seconds=8.0), Effort(windows=8, seconds=0.7, min_windows=2)


def effort_of(quick: bool) -> Effort:
    return QUICK if quick else FULL


@dataclass(frozen=True)
class Work:
    """Size of a training step."""

    batch: int
    n_features: int
    n_rules: int

    def __str__(self) -> str:
        return f"batch {self.batch:,}, M {self.n_features}, P {self.n_rules:,}"


@contextlib.contextmanager
def threads(number: int) -> Iterator[None]:
    """This number of torch threads inside, the former number outside."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def new_system(kind: str, work: Work, algorithm: str = "auto") -> T1FLS | IT2FLS:
    """A system of the size of ``work`` with the estimators' t-norm.

    Slopes and intercepts are spread out, as after training: near zero the consequents of all rules agree, and the end
    points of equal consequents are easy to find.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        system: T1FLS | IT2FLS
        if kind == "t1":
            system = T1FLS(work.n_features, n_rules=work.n_rules, tnorm="htsk")
        elif kind == "gt2":
            system = GT2FLS(work.n_features, n_rules=work.n_rules, tnorm="htsk", shared_spread=False)
        else:
            system = IT2FLS(work.n_features, n_rules=work.n_rules, uncertainty=kind, algorithm=algorithm, tnorm="htsk")
        system.slopes = torch.randn(work.n_rules, 1, work.n_features) / math.sqrt(work.n_features)
        system.intercepts = torch.randn(work.n_rules, 1)
    return system


def random_rows(n_rows: int, n_features: int) -> Rows:
    """Standard normal inputs and a smooth target, float32."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n_rows, n_features, generator=generator)
    return Rows.of(x, torch.sin(x.sum(dim=1, keepdim=True) / math.sqrt(n_features)) + x[:, :1])


def fitted_model(n_features: int, n_rules: int) -> FLSRegressor:
    """A model whose predictions are timed; two epochs of training are enough for that."""
    x = np.random.default_rng(0).standard_normal((2_000, n_features))
    return FLSRegressor(kind="it2", n_rules=n_rules, epochs=2, random_state=0).fit(x, np.sin(x.sum(axis=1)))


class EpochTimes:
    """Progress of a training run that records the time at the end of every epoch."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.times: list[float] = []

    def compiled(self, seconds: float) -> None:
        """Compiling ends before the first step."""

    def step(self, n_rows: int) -> None:
        """Several steps may be one compiled call."""

    def epoch(self, row: dict[str, float]) -> None:
        self.times.append(self.clock())


def run_steps(
    system: T1FLS | IT2FLS,
    rows: Rows,
    batch: int,
    weight_decay: float = 0.0,
    epochs: int = 1,
    clock: Clock = ONE_THREAD,
) -> list[float]:
    """Train by the training loop with Adam and the squared error; the times at the ends of the epochs."""
    config = TrainConfig(epochs=epochs, batch_size=batch, weight_decay=weight_decay)
    progress = EpochTimes(clock)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the loop warns of an early end, which raises below
        result = train(system, rows, config, generator=torch.Generator().manual_seed(2), progress=progress)
    if result.stopped_by == "interrupt":
        raise KeyboardInterrupt
    if result.stopped_by != "epochs" or result.n_steps != epochs * -(-len(rows) // batch):
        raise RuntimeError(f"a run of {result.n_steps} steps ended by {result.stopped_by}, which is no measurement.")
    return progress.times


class Steps:
    """Training steps of one system and size. A call returns the seconds of one step, from an epoch of several.

    The time between the ends of the first and the second epoch is divided by the number of steps of an epoch. What an epoch
    costs beside its steps, such as drawing their order, is in it; what a run costs before its first epoch is not.
    """

    def __init__(self, kind: str, work: Work, algorithm: str = "auto", clock: Clock = ONE_THREAD) -> None:
        self.clock = clock
        self.system = new_system(kind, work, algorithm)
        self.work = work
        self._n_steps = _MIN_STEPS
        self._rows = random_rows(self._n_steps * work.batch, work.n_features)
        self()  # compiles or loads the kernels
        self._n_steps = round(min(_MAX_STEPS, max(_MIN_STEPS, _WINDOW_SECONDS / self())))
        self._rows = random_rows(self._n_steps * work.batch, work.n_features)

    def __call__(self) -> float:
        first, last = run_steps(self.system, self._rows, self.work.batch, epochs=2, clock=self.clock)
        return (last - first) / self._n_steps


class Calls:
    """Calls of a function. A call of this object returns the seconds of one of them, from a window of several."""

    def __init__(self, function: Callable[[], object], clock: Clock = ONE_THREAD) -> None:
        self._clock = clock
        self._function = function
        self._repeats = 1
        self()  # compiles or loads the kernels
        self._repeats = round(min(1000, max(1, _WINDOW_SECONDS / self())))

    def __call__(self) -> float:
        began = self._clock()
        for _ in range(self._repeats):
            self._function()
        return (self._clock() - began) / self._repeats


def fastest(competitors: Mapping[Name, Callable[[], float]], effort: Effort) -> dict[Name, float]:
    """Shortest window of every competitor in seconds. The competitors take turns, in alternating order."""
    best = dict.fromkeys(competitors, math.inf)
    names = list(competitors)
    began = time.perf_counter()
    for turn in range(effort.windows):
        if turn >= effort.min_windows and time.perf_counter() - began > effort.seconds:
            break
        for name in names if turn % 2 == 0 else reversed(names):
            best[name] = min(best[name], competitors[name]())
    return best
