"""How much faster is a training step than with the paper's fKM, and does it work with 1,000 rules?

    python benchmarks/fkm.py [--quick] [--json FILE] [--markdown FILE]

fKM enumerates 2^rules choices for every row. It is refused above 20 rules.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from _report import Row, Target, answer
from _timing import Steps, Work, effort_of, fastest, threads

TITLE = "A training step with the paper's fKM, in times ours"
METHOD = "One thread; the fastest of many short windows, in turn."
WORKS = (Work(64, 13, 15), Work(512, 4, 15))
QUICK_WORKS = WORKS[:1]
MANY_RULES = Work(512, 4, 1000)
TARGET = Target(">=", 300)


def measure(quick: bool = False) -> Iterator[Row]:
    with threads(1):
        for work in QUICK_WORKS if quick else WORKS:
            competitors = {algorithm: Steps("hs", work, algorithm) for algorithm in ("auto", "enumerate")}
            seconds = fastest(competitors, effort_of(quick))
            yield Row(f"fKM / ours, IT2 hs, {work}", seconds["enumerate"] / seconds["auto"], "x", TARGET)
        # A step that leaves the finite numbers raises.
        ours = fastest({"ours": Steps("hs", MANY_RULES)}, effort_of(quick))["ours"]
        yield Row(f"ours, IT2 hs, {MANY_RULES}: a step, fKM cannot", 1e3 * ours, "ms")


if __name__ == "__main__":
    sys.exit(answer(__file__, __doc__, TITLE, METHOD, measure))
