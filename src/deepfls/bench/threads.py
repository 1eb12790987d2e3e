"""Do two threads help large work, do they leave small work alone, and is their number as before after every call?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from deepfls.bench.prediction import fitted, n_cores
from deepfls.bench.rows import Row, Target
from deepfls.bench.timing import FULL, QUICK, WALL, Calls, Effort, Steps, Work, fastest, threads
from deepfls.estimators import FLSRegressor

LARGE = Work(batch=8192, n_features=90, n_rules=50)
# The last ones lie on both sides of the size from which the loop takes a second thread.
SMALL = (Work(64, 4, 5), Work(64, 13, 15), Work(512, 4, 15), Work(512, 13, 50), Work(512, 13, 780), Work(512, 13, 820))
QUICK_SMALL = SMALL[1:2]
NAMES = {"t1": "T1", "hs": "IT2 hs"}
FASTER, NOT_SLOWER, UNCHANGED = Target(">=", 1.5), Target("<=", 1.1), Target("<=", 0)
_PREDICTED_ROWS = 200_000


def _on(number: int, call: Callable[[], float]) -> Callable[[], float]:
    def on_threads() -> float:
        with threads(number):
            return call()

    return on_threads


def measure(quick: bool = False) -> Iterator[Row]:
    """Large work: one thread over two. Small work: two threads over one, where the loop takes one by itself."""
    effort = QUICK if quick else FULL
    if n_cores() < 2:
        yield Row("threads", "two threads over one: this machine offers one core", None, "x", FASTER)
    else:
        for kind, name in NAMES.items():
            one, two = _one_and_two(Steps(kind, LARGE, clock=WALL), effort)
            yield Row("threads", f"large step, 1 thread / 2, {name}, {LARGE}", one / two, "x", FASTER)
        model, x = fitted(), np.random.default_rng(0).standard_normal((_PREDICTED_ROWS, 10))
        one, two = _one_and_two(Calls(lambda: model.predict(x), WALL), effort)
        yield Row(
            "threads", f"predicting {_PREDICTED_ROWS:,} rows, 1 thread / 2, IT2 hs, M 10, P 20", one / two, "x", FASTER
        )
        for small in QUICK_SMALL if quick else SMALL:
            for kind, name in NAMES.items():
                one, two = _one_and_two(Steps(kind, small, clock=WALL), effort)
                yield Row("threads", f"small step, 2 threads / 1, {name}, {small}", two / one, "x", NOT_SLOWER)
    yield Row("threads", "calls that leave another number of threads", float(len(changing_calls())), "calls", UNCHANGED)


def _one_and_two(call: Callable[[], float], effort: Effort) -> tuple[float, float]:
    best = fastest({"one": _on(1, call), "two": _on(2, call)}, effort)
    return best["one"], best["two"]


def changing_calls() -> list[str]:
    """Names of the calls of the library after which torch has another number of threads than before."""
    x = np.random.default_rng(0).standard_normal((300, 3))
    y = x[:, 0]
    model = FLSRegressor(n_rules=3, epochs=1, random_state=0).fit(x, y)
    steps = Steps("hs", Work(16, 3, 3))
    large = Steps("t1", Work(4096, 20, 20))
    calls: dict[str, Callable[[], object]] = {
        "fit": lambda: FLSRegressor(n_rules=3, epochs=1, random_state=0).fit(x, y),
        "fit with patience": lambda: FLSRegressor(n_rules=3, epochs=2, patience=1, random_state=0).fit(x, y),
        "predict": lambda: model.predict(x),
        "firing_strengths": lambda: model.firing_strengths(x),
        "a small training step": steps,
        "a large training step": large,
    }
    changed = []
    for number in (1, 2, 3):
        for name, call in calls.items():
            with threads(number):
                call()
                if torch.get_num_threads() != number:
                    changed.append(name)
    return changed
