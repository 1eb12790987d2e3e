"""How many tensor operations does a small training step issue?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from deepfls.bench.rows import Row, Target
from deepfls.bench.timing import Work, new_system, random_rows, run_steps, threads

WORK = Work(batch=64, n_features=13, n_rules=15)
TARGETS = {"t1": Target("<=", 60), "hs": Target("<=", 90), "h": Target("<=", 90)}
NAMES = {"t1": "T1", "hs": "IT2 hs", "h": "IT2 h"}
_FEW, _MANY = 10, 20


class _Counting(TorchDispatchMode):
    """Counts what reaches the dispatcher. Marks of the profiler come through as well, and are no tensor operations."""

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
    """Operations of one step by name: the difference between runs of 10 and of 20 steps through the real loop.

    Optimiser and weight decay are included, views as well; what an epoch costs around its steps cancels.
    """
    with threads(1):
        _counts(kind, 2)  # kernels are compiled and loaded
        few, many = _counts(kind, _FEW), _counts(kind, _MANY)
    per_step = {name: (many[name] - few[name]) / (_MANY - _FEW) for name in many}
    return {name: count for name, count in sorted(per_step.items(), key=lambda item: -item[1]) if count}


def measure(quick: bool = False) -> Iterator[Row]:
    """A row for each kind of system."""
    for kind, target in TARGETS.items():
        yield Row("operations", f"{NAMES[kind]}, {WORK}", sum(operations_of_a_step(kind).values()), "operations", target)
