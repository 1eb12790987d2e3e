"""How much longer is a training step of an IT2 system than of a T1 system with as many rules?

And how much longer is a step whose firing would fall among the denormal numbers, which processors may handle many times
slower than others?
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from deepfls.bench.rows import Row, Target
from deepfls.bench.timing import FULL, QUICK, Steps, Work, fastest, threads

RULES = (5, 15, 50, 200, 1000)
SIZES = ((64, 4), (64, 13), (512, 4), (512, 13), (8192, 90))
QUICK_RULES = (15, 200)
QUICK_SIZES = ((64, 13), (512, 4), (8192, 90))
TARGETS = {"hs": Target("<=", 2.0), "h": Target("<=", 1.4)}
NAMES = {"t1": "T1", "hs": "IT2 hs"}
DENORMAL_WORK, DENORMAL_TARGET = Work(batch=4096, n_features=10, n_rules=50), Target("<=", 1.1)
# Log-firing of all rules but the first, relative to it: the denormal numbers of float32 reach from e^-87 to e^-104.
_DENORMAL, _ORDINARY = -95.0, -1.0


def works(quick: bool) -> list[Work]:
    """Small steps first."""
    rules, sizes = (QUICK_RULES, QUICK_SIZES) if quick else (RULES, SIZES)
    return [Work(batch, n_features, n_rules) for batch, n_features in sizes for n_rules in rules]


class DistantRules(Steps):
    """Steps of a system in which all rules but the first fire as weakly as ``log_firing`` says, for the average row."""

    def __init__(self, kind: str, work: Work, log_firing: float) -> None:
        self._centers = torch.zeros(work.n_rules, work.n_features)
        # "htsk" divides the exponent, -½ d² for widths of 1, by the number of features.
        self._centers[1:, 0] = math.sqrt(-2.0 * work.n_features * log_firing)
        super().__init__(kind, work)

    def __call__(self) -> float:
        self.system.reset_parameters()
        self.system.centers = self._centers
        return super().__call__()


def measure(quick: bool = False) -> Iterator[Row]:
    """Two rows for each size, "hs" and "h", in times the step of T1; then denormal over ordinary firing. One thread."""
    for work in works(quick):
        with threads(1):
            seconds = fastest({kind: Steps(kind, work) for kind in ("t1", *TARGETS)}, QUICK if quick else FULL)
        for kind, target in TARGETS.items():
            yield Row("steps", f"IT2 {kind} / T1, {work}", seconds[kind] / seconds["t1"], "x", target)
    for kind, name in NAMES.items():
        with threads(1), torch.random.fork_rng(devices=[]):
            competitors = {level: DistantRules(kind, DENORMAL_WORK, level) for level in (_DENORMAL, _ORDINARY)}
            times = fastest(competitors, QUICK if quick else FULL)
        label = f"denormal / ordinary firing, {name}, {DENORMAL_WORK}"
        yield Row("steps", label, times[_DENORMAL] / times[_ORDINARY], "x", DENORMAL_TARGET)
