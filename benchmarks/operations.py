"""How many tensor operations does a small training step issue, and which?

python benchmarks/operations.py [--quick] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from _report import Row, Target, answer
from _timing import NAMES, Work, new_system, random_rows, run_steps, threads

TITLE = "Tensor operations of a small training step"
METHOD = "Counted at the dispatcher, views included."
WORK = Work(batch=64, n_features=13, n_rules=15)
TARGETS = {"t1": Target("<=", 60), "hs": Target("<=", 90), "h": Target("<=", 90)}
_FEW, _MANY = 10, 20


class _Counting(TorchDispatchMode):
    """Counts operations at the dispatcher. Marks of the profiler pass it too and are no tensor operations."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace != "profiler":
            self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))


def _counts(kind: str, n_steps: int) -> Counter[str]:
    system = new_system(kind, WORK)
    rows = random_rows(n_steps * WORK.batch, WORK.n_features)
    with _Counting() as counting:
        run_steps(system, rows, WORK.batch, weight_decay=0.1)
    return counting.counts


def operations_of_a_step(kind: str) -> dict[str, float]:
    """Operations of one step by name: the difference between runs of 10 and of 20 steps, divided by 10.

    Optimiser, weight decay and views are included. The operations of an epoch around its steps cancel.
    """
    with threads(1):
        _counts(kind, 2)  # compiles or loads the kernels
        few, many = _counts(kind, _FEW), _counts(kind, _MANY)
    per_step = {name: (many[name] - few[name]) / (_MANY - _FEW) for name in many}
    return {name: count for name, count in sorted(per_step.items(), key=lambda item: -item[1]) if count}


def measure(quick: bool = False) -> Iterator[Row]:
    for kind, target in TARGETS.items():
        counts = operations_of_a_step(kind)
        yield Row(f"{NAMES[kind]}, {WORK}", sum(counts.values()), "operations", target)
        for name, count in counts.items():
            yield Row(f"{NAMES[kind]}, of these {name}", count, "operations")


if __name__ == "__main__":
    sys.exit(answer(__file__, __doc__, TITLE, METHOD, measure))
