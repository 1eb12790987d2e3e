"""Does the memory of a training step grow with batch x (rules + features), and never with batch x rules x features?

python benchmarks/memory.py [--quick] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import functools
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from _memory import in_new_process, resident_growth
from _report import Row, Target, answer
from _timing import NAMES, Work, new_system, random_rows, run_steps, threads

TITLE = "Memory of a training step"
METHOD = "Allocations are counted; peaks are those of the operating system."
# Rules and features double together. The batch is far larger, so that rules x features, the parameters, do not show.
SIZES = tuple(Work(batch=65_536, n_features=size, n_rules=size) for size in (8, 16, 32, 64))
LARGE = Work(batch=8192, n_features=90, n_rules=200)
# The exponent is 1 if the bytes grow with rules + features, and 2 if they grow with rules x features.
EXPONENT, OF_TENSOR = Target("<=", 1.1), Target("<=", 0.25)


class Growth(NamedTuple):
    """Growth of the bytes of a step with rules and features: the exponent, and bytes per batch x (rules + features)."""

    exponent: float
    bytes_per_sum: float


class _Storages(TorchDispatchMode):
    """Adds up the bytes of the results of operations; views and results in place have none of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = {t.untyped_storage().data_ptr() for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        result = func(*args, **kwargs)
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() not in given:
                self.total += tensor.untyped_storage().nbytes()
        return result


def allocated(call: Callable[[], object]) -> int:
    """Bytes of the results of all tensor operations of a call, plus its peak of NumPy arrays: never below its peak.

    The scratch memory of compiled kernels is not included. It has a fixed size, or that of a few rows.
    """
    with _Storages():
        torch.zeros(1)  # the first operation under such a mode imports much of torch
    tracemalloc.start()
    try:
        with _Storages() as storages:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            call()
            peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return storages.total + peak - before


def growth(bytes_of: Callable[[Work], int], works: Sequence[Work] = SIZES) -> Growth:
    """Slope of log bytes over log (rules + features), and the bytes at the largest size."""
    taken = [bytes_of(work) for work in works]
    sums = [work.n_rules + work.n_features for work in works]
    exponent = float(np.polyfit(np.log(sums), np.log(taken), 1)[0])
    return Growth(exponent, taken[-1] / (works[-1].batch * sums[-1]))


def step_bytes(kind: str, work: Work) -> int:
    """Bytes that an epoch of one training step allocates, rows and system excluded."""
    system = new_system(kind, work)
    rows = random_rows(work.batch, work.n_features)
    with threads(1):
        run_steps(system, random_rows(4, work.n_features), 4, weight_decay=0.1)  # compiles or loads the kernels
        return allocated(lambda: run_steps(system, rows, work.batch, weight_decay=0.1))


def step_growth(kind: str, work: Work) -> int:
    """Growth of the memory of this process during two training steps, rows and parameters excluded."""
    system = new_system(kind, work)
    with threads(1):
        run_steps(system, random_rows(16, work.n_features), 8)
        rows = random_rows(2 * work.batch, work.n_features)
        return resident_growth(lambda: run_steps(system, rows, work.batch))


def measure(quick: bool = False) -> Iterator[Row]:
    doubling = f"batch {SIZES[0].batch:,}, M = P from {SIZES[0].n_rules} to {SIZES[-1].n_rules}"
    for kind, name in NAMES.items():
        found = growth(functools.partial(step_bytes, kind), SIZES)
        yield Row(f"{name} step per batch x (rules + features)", found.bytes_per_sum, "bytes")
        yield Row(f"{name} step, exponent of rules + features, {doubling}", found.exponent, "", EXPONENT)
    for kind, name in list(NAMES.items())[: 1 if quick else None]:
        tensor = 4 * LARGE.batch * LARGE.n_features * LARGE.n_rules
        work = f"{name} peak / a tensor of batch x rules x features, {LARGE}"
        yield Row(work, in_new_process(step_growth, kind, LARGE) / tensor, "x", OF_TENSOR)


if __name__ == "__main__":
    sys.exit(answer(__file__, __doc__, TITLE, METHOD, measure))
