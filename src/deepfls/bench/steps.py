"""How much longer is a training step of an IT2 system than of a T1 system with as many rules?"""

from __future__ import annotations

from collections.abc import Iterator

from deepfls.bench.rows import Row, Target
from deepfls.bench.timing import FULL, QUICK, Steps, Work, fastest, threads

RULES = (5, 15, 50, 200, 1000)
SIZES = ((64, 4), (64, 13), (512, 4), (512, 13), (8192, 90))
QUICK_RULES = (15, 200)
QUICK_SIZES = ((64, 13), (512, 4), (8192, 90))
TARGETS = {"hs": Target("<=", 2.0), "h": Target("<=", 1.4)}


def works(quick: bool) -> list[Work]:
    """Small steps first."""
    rules, sizes = (QUICK_RULES, QUICK_SIZES) if quick else (RULES, SIZES)
    return [Work(batch, n_features, n_rules) for batch, n_features in sizes for n_rules in rules]


def measure(quick: bool = False) -> Iterator[Row]:
    """Two rows for each size, "hs" and "h", in times the step of T1. One thread."""
    for work in works(quick):
        with threads(1):
            seconds = fastest({kind: Steps(kind, work) for kind in ("t1", *TARGETS)}, QUICK if quick else FULL)
        for kind, target in TARGETS.items():
            yield Row("steps", f"IT2 {kind} / T1, {work}", seconds[kind] / seconds["t1"], "x", target)
