"""How much faster is a training step than with the paper's fKM, and does it still work with 1,000 rules?"""

from __future__ import annotations

from collections.abc import Iterator

from deepfls.bench.rows import Row, Target
from deepfls.bench.timing import FULL, QUICK, Steps, Work, fastest, threads

WORKS = (Work(64, 13, 15), Work(512, 4, 15))
QUICK_WORKS = WORKS[:1]
MANY_RULES = Work(512, 4, 1000)
TARGET = Target(">=", 100)


def measure(quick: bool = False) -> Iterator[Row]:
    """A row for each size, in times our step; then our step at 1,000 rules, where enumeration has 2^1000 choices."""
    for work in QUICK_WORKS if quick else WORKS:
        with threads(1):
            competitors = {algorithm: Steps("hs", work, algorithm) for algorithm in ("auto", "enumerate")}
            seconds = fastest(competitors, QUICK if quick else FULL)
        yield Row("fkm", f"fKM / ours, IT2 hs, {work}", seconds["enumerate"] / seconds["auto"], "x", TARGET)
    with threads(1):
        # A step that leaves the finite numbers raises.
        seconds = fastest({"ours": Steps("hs", MANY_RULES)}, QUICK if quick else FULL)
    yield Row("fkm", f"ours, IT2 hs, {MANY_RULES}: a step, fKM cannot", 1e3 * seconds["ours"], "ms")
