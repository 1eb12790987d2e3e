"""How time is measured: real training steps, in short windows, the competitors in turn.

Work on one thread is timed by the processor time of that thread, which is the time on the wall but for what other processes
take from it. Where several threads work, only the wall tells.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch

from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training.config import TrainConfig
from deepfls.training.loop import Rows, train

# A window is this long where a step is short: long against the clock, short against the slices a busy system hands out.
_WINDOW_SECONDS = 0.02
_MAX_STEPS = 64
_MIN_STEPS = 2

Name = TypeVar("Name", bound=Hashable)
Clock = Callable[[], float]
ONE_THREAD: Clock = time.thread_time
WALL: Clock = time.perf_counter


@dataclass(frozen=True)
class Effort:
    """How long to measure: windows for each competitor, and the seconds after which the rest of them are left out."""

    windows: int
    seconds: float
    min_windows: int = 3


FULL, QUICK = Effort(windows=30, seconds=8.0), Effort(windows=8, seconds=0.7, min_windows=2)


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
    """So many torch threads inside, the former number outside."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def new_system(kind: str, work: Work, algorithm: str = "auto") -> T1FLS | IT2FLS:
    """A system of the size of ``work``: kind "t1", or the uncertainty of an IT2 one, "hs", "h" or "s".

    The t-norm is the estimators' default. Slopes and intercepts are spread out, as after training: near zero all rules
    would agree, and end points are easy to find where rules agree.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        system: T1FLS | IT2FLS
        if kind == "t1":
            system = T1FLS(work.n_features, n_rules=work.n_rules, tnorm="htsk")
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


class _Marks:
    """The moments at which steps ended; takes the place of a progress bar."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.moments: list[float] = []

    def compiled(self, seconds: float) -> None:
        """Not of interest: before the first moment."""

    def step(self, n_rows: int) -> None:
        self.moments.append(self.clock())

    def epoch(self, row: dict[str, float]) -> None:
        """Not of interest."""


def run_steps(
    system: T1FLS | IT2FLS, rows: Rows, batch: int, weight_decay: float = 0.0, clock: Clock = ONE_THREAD
) -> list[float]:
    """Train for one epoch by the real loop, Adam and the squared error; the moments at which its steps ended."""
    config = TrainConfig(epochs=1, batch_size=batch, weight_decay=weight_decay)
    marks = _Marks(clock)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a run cut short, which is told below
        result = train(system, rows, config, generator=torch.Generator().manual_seed(2), progress=marks)
    if result.stopped_by == "interrupt":
        raise KeyboardInterrupt  # a run cut short is no measurement
    if result.stopped_by != "epochs" or result.n_steps != -(-len(rows) // batch):
        raise RuntimeError(f"a run of {result.n_steps} steps ended by {result.stopped_by}, which is no measurement.")
    return marks.moments


class Steps:
    """Training steps of one system and size; a call gives the seconds of one step, from a window of several.

    The time between the ends of the first and the last step is divided by the steps between: what an epoch costs before and
    after its steps is left out.
    """

    def __init__(self, kind: str, work: Work, algorithm: str = "auto", clock: Clock = ONE_THREAD) -> None:
        self.clock = clock
        self.system = new_system(kind, work, algorithm)
        self.work = work
        self._rows = random_rows((_MIN_STEPS + 1) * work.batch, work.n_features)
        self()  # the first steps compile or load kernels
        steps = round(min(_MAX_STEPS, max(_MIN_STEPS, _WINDOW_SECONDS / self())))
        self._rows = random_rows((steps + 1) * work.batch, work.n_features)

    def __call__(self) -> float:
        moments = run_steps(self.system, self._rows, self.work.batch, clock=self.clock)
        return (moments[-1] - moments[0]) / (len(moments) - 1)


class Calls:
    """A function; a call gives the seconds of one call of it, from a window of several."""

    def __init__(self, function: Callable[[], object], clock: Clock = ONE_THREAD) -> None:
        self._clock = clock
        self._function = function
        self._repeats = 1
        self()
        self._repeats = round(min(1000, max(1, _WINDOW_SECONDS / self())))

    def __call__(self) -> float:
        began = self._clock()
        for _ in range(self._repeats):
            self._function()
        return (self._clock() - began) / self._repeats


def fastest(competitors: Mapping[Name, Callable[[], float]], effort: Effort) -> dict[Name, float]:
    """Shortest window of every competitor in seconds. They take turns, in alternating order."""
    best = dict.fromkeys(competitors, math.inf)
    names = list(competitors)
    began = time.perf_counter()
    for turn in range(effort.windows):
        if turn >= effort.min_windows and time.perf_counter() - began > effort.seconds:
            break
        for name in names if turn % 2 == 0 else reversed(names):
            best[name] = min(best[name], competitors[name]())
    return best


def warm_up(say: Callable[[str], None], patience: float = 3.0) -> None:
    """Compile or load the kernels, so that no time that is reported holds it. Says so where it takes long."""
    timer = threading.Timer(patience, say, ["compiling kernels, once per machine ..."])
    timer.start()
    try:
        for kind in ("t1", "hs", "h"):
            for dtype in (torch.float32, torch.float64):
                rows = random_rows(32, 2)
                system = new_system(kind, Work(16, 2, 3)).to(dtype)
                run_steps(system, Rows.of(rows.x.to(dtype), rows.target.to(dtype)), 16, weight_decay=0.1)
    finally:
        timer.cancel()
