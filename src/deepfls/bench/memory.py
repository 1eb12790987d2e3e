"""Does the memory of a training step grow with batch x (rules + features), and never with batch x rules x features?"""

from __future__ import annotations

import functools
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from deepfls.bench.peak import step_growth
from deepfls.bench.rows import Row, Target
from deepfls.bench.timing import Work, new_system, random_rows, run_steps, threads

# Rules and features double together. The batch dwarfs both, so that the parameters, rules x features, do not show.
SIZES = tuple(Work(batch=4096, n_features=size, n_rules=size) for size in (8, 16, 32, 64))
LARGE = Work(batch=8192, n_features=90, n_rules=200)
NAMES = {"t1": "T1", "hs": "IT2 hs", "h": "IT2 h"}
# An exponent of 1 where bytes grow with rules + features, of 2 where they grow with rules x features.
EXPONENT, OF_TENSOR = Target("<=", 1.1), Target("<=", 0.25)


class Growth(NamedTuple):
    """How the bytes of a step grow with rules and features: the exponent, and bytes per batch x (rules + features)."""

    exponent: float
    bytes_per_sum: float


class _Storages(TorchDispatchMode):
    """Adds up the memory that operations return and did not take: results, but no views and no results in place."""

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
    """Bytes that a call takes, never less than its peak: results of all tensor operations, and the peak of NumPy arrays.

    The scratch of compiled kernels is not seen. It has a fixed size, or that of a few rows.
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
    """Bytes that an epoch of one training step takes, its rows and its system aside."""
    system = new_system(kind, work)
    rows = random_rows(work.batch, work.n_features)
    with threads(1):
        run_steps(system, random_rows(4, work.n_features), 4, weight_decay=0.1)  # kernels are compiled and loaded
        return allocated(lambda: run_steps(system, rows, work.batch, weight_decay=0.1))


def measure(quick: bool = False) -> Iterator[Row]:
    """Two rows for each kind of system by counting, and one by the operating system's peak."""
    doubling = f"batch {SIZES[0].batch:,}, M = P from {SIZES[0].n_rules} to {SIZES[-1].n_rules}"
    for kind, name in NAMES.items():
        found = growth(functools.partial(step_bytes, kind))
        yield Row("memory", f"{name} step per batch x (rules + features)", found.bytes_per_sum, "bytes")
        yield Row("memory", f"{name} step, exponent of rules + features, {doubling}", found.exponent, "", EXPONENT)
    for kind, name in list(NAMES.items())[: 1 if quick else None]:
        peak = step_growth(kind, LARGE.batch, LARGE.n_features, LARGE.n_rules)
        tensor = 4 * LARGE.batch * LARGE.n_features * LARGE.n_rules
        work = f"{name} peak / a tensor of batch x rules x features, {LARGE}"
        yield Row("memory", work, peak / tensor, "x", OF_TENSOR)
