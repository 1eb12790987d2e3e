"""Do two threads help large work, do they leave small work alone, and is their number unchanged after every call?

python benchmarks/threads.py [--quick] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
import torch

from _report import Row, Target, answer
from _timing import NAMES, WALL, Calls, Steps, Work, effort_of, fastest, fitted_model, n_cores, threads
from deepfls import FLSRegressor

TITLE = "Two threads and one"
METHOD = "The fastest of many short windows, in turn."
LARGE = Work(batch=8192, n_features=90, n_rules=50)
# The last two lie on both sides of the size from which the loop uses a second thread.
SMALL = (Work(64, 4, 5), Work(64, 13, 15), Work(512, 4, 15), Work(512, 13, 50), Work(512, 13, 780), Work(512, 13, 820))
QUICK_SMALL = SMALL[1:2]
KINDS = ("t1", "hs")
FASTER, NOT_SLOWER, UNCHANGED = Target(">=", 1.8), Target("<=", 1.1), Target("<=", 0)
PREDICTED_ROWS = 200_000
# Systems that are trained side by side, and the rows and inputs of their table.
N_SYSTEMS, SYSTEM_ROWS, SYSTEM_INPUTS = 8, 2_000, 8
SIDE_BY_SIDE = Target("<=", 4.44)  # 8 / 1.8
# Epochs of their fits; "auto" includes the choice of settings.
SYSTEM_EPOCHS = (50, "auto")


def measure(quick: bool = False) -> Iterator[Row]:
    if n_cores() < 2:
        yield Row("two threads over one: this machine offers one core", None, "x", FASTER)
    else:
        for kind in KINDS:
            one, two = _one_and_two(Steps(kind, LARGE, clock=WALL), quick)
            yield Row(f"large step, 1 thread / 2, {NAMES[kind]}, {LARGE}", one / two, "x", FASTER)
        model, x = fitted_model(10, 20), np.random.default_rng(0).standard_normal((PREDICTED_ROWS, 10))
        one, two = _one_and_two(Calls(lambda: model.predict(x), WALL), quick)
        yield Row(f"predicting {PREDICTED_ROWS:,} rows, 1 thread / 2, IT2 hs, M 10, P 20", one / two, "x", FASTER)
        for small in QUICK_SMALL if quick else SMALL:
            for kind in KINDS:
                one, two = _one_and_two(Steps(kind, small, clock=WALL), quick)
                yield Row(f"small step, 2 threads / 1, {NAMES[kind]}, {small}", two / one, "x", NOT_SLOWER)
        for epochs in SYSTEM_EPOCHS[: 1 if quick else 2]:
            eight = fastest({count: Calls(_fit_of(count, epochs), WALL) for count in (1, N_SYSTEMS)}, effort_of(quick))
            work = (
                f"fit of {N_SYSTEMS} systems / of one, IT2 hs, N {SYSTEM_ROWS:,}, M {SYSTEM_INPUTS}, P 10, epochs {epochs}"
            )
            yield Row(work, eight[N_SYSTEMS] / eight[1], "x", SIDE_BY_SIDE)
    yield Row("calls that leave another number of threads", float(len(changing_calls())), "calls", UNCHANGED)


def _fit_of(n_systems: int, epochs: int | str) -> Callable[[], object]:
    """A fit of so many systems."""
    x = np.random.default_rng(0).standard_normal((SYSTEM_ROWS, SYSTEM_INPUTS))
    y = np.sin(x[:, 0]) + x[:, 1]
    return lambda: FLSRegressor(n_systems=n_systems, n_rules=10, epochs=epochs, random_state=0).fit(x, y)


def _one_and_two(call: Callable[[], float], quick: bool) -> tuple[float, float]:
    """Shortest windows with one thread and with two."""

    def on(number: int) -> Callable[[], float]:
        def on_threads() -> float:
            with threads(number):
                return call()

        return on_threads

    best = fastest({number: on(number) for number in (1, 2)}, effort_of(quick))
    return best[1], best[2]


def changing_calls() -> list[str]:
    """Names of the calls of the library after which torch has another number of threads than before."""
    x = np.random.default_rng(0).standard_normal((300, 3))
    y = x[:, 0]
    model = FLSRegressor(n_rules=3, epochs=1, random_state=0).fit(x, y)
    calls: dict[str, Callable[[], object]] = {
        "fit": lambda: FLSRegressor(n_rules=3, epochs=1, random_state=0).fit(x, y),
        "fit with patience": lambda: FLSRegressor(n_rules=3, epochs=2, patience=1, random_state=0).fit(x, y),
        "predict": lambda: model.predict(x),
        "firing_strengths": lambda: model.firing_strengths(x),
        "a small training step": Steps("hs", Work(16, 3, 3)),
        "a large training step": Steps("t1", Work(4096, 20, 20)),
    }
    changed = []
    for number in (1, 2, 3):
        for name, call in calls.items():
            with threads(number):
                call()
                if torch.get_num_threads() != number:
                    changed.append(name)
    return changed


if __name__ == "__main__":
    sys.exit(answer(__file__, __doc__, TITLE, METHOD, measure))
