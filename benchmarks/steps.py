"""How long is a training step, and how much longer for IT2 than for T1 systems, and for GT2 than for IT2 ones?

    python benchmarks/steps.py [--quick] [--json FILE] [--markdown FILE]

The last rows compare a step whose firing lies among the denormal numbers, which processors may handle many times slower,
with a step of ordinary firing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

import torch

from _report import Row, Target, answer
from _timing import NAMES, Steps, Work, effort_of, fastest, threads

TITLE = "A training step of IT2, in times that of T1"
METHOD = "One thread; the fastest of many short windows, in turn."
RULES = (5, 15, 50, 200, 1000)
SIZES = ((64, 4), (64, 13), (512, 4), (512, 13), (8192, 90))
QUICK_RULES = (15, 200)
QUICK_SIZES = ((64, 13), (512, 4), (8192, 90))
TARGETS = {"hs": Target("<=", 2.0), "h": Target("<=", 1.4)}
# A step of three planes, in times a step of IT2 of uncertain heights and widths.
PLANES_TARGET = Target("<=", 1.8)
DENORMAL_WORK, DENORMAL_TARGET = Work(batch=4096, n_features=10, n_rules=50), Target("<=", 1.1)
# Log-firing of all rules but the first, relative to the first: the denormal numbers of float32 are e^-87 to e^-104.
DENORMAL, ORDINARY = -95.0, -1.0


def works(quick: bool) -> list[Work]:
    rules, sizes = (QUICK_RULES, QUICK_SIZES) if quick else (RULES, SIZES)
    return [Work(batch, n_features, n_rules) for batch, n_features in sizes for n_rules in rules]


class DistantRules(Steps):
    """Steps of a system in which all rules but the first have the log-firing ``log_firing`` at the average row."""

    def __init__(self, kind: str, work: Work, log_firing: float) -> None:
        self.centers = torch.zeros(work.n_rules, work.n_features)
        # "htsk" divides the exponent, -½ d² for widths of 1, by the number of features.
        self.centers[1:, 0] = math.sqrt(-2.0 * work.n_features * log_firing)
        super().__init__(kind, work)

    def __call__(self) -> float:
        self.system.reset_parameters()
        self.system.centers = self.centers
        return super().__call__()


def measure(quick: bool = False) -> Iterator[Row]:
    with threads(1):
        for work in works(quick):
            seconds = fastest({kind: Steps(kind, work) for kind in ("t1", *TARGETS, "gt2")}, effort_of(quick))
            yield Row(f"T1, {work}", 1e6 * seconds["t1"], "µs")
            for kind, target in TARGETS.items():
                yield Row(f"{NAMES[kind]} / T1, {work}", seconds[kind] / seconds["t1"], "x", target)
            yield Row(f"{NAMES['gt2']} / {NAMES['hs']}, {work}", seconds["gt2"] / seconds["hs"], "x", PLANES_TARGET)
        for kind in ("t1", "hs"):
            with torch.random.fork_rng(devices=[]):
                competitors = {level: DistantRules(kind, DENORMAL_WORK, level) for level in (DENORMAL, ORDINARY)}
                times = fastest(competitors, effort_of(quick))
            label = f"denormal / ordinary firing, {NAMES[kind]}, {DENORMAL_WORK}"
            yield Row(label, times[DENORMAL] / times[ORDINARY], "x", DENORMAL_TARGET)


if __name__ == "__main__":
    sys.exit(answer(__file__, __doc__, TITLE, METHOD, measure))
