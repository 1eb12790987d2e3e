"""Several systems of one model, trained side by side in threads.

All learn from the same rows, from different starting points and in different orders. Of the squared error, the second half
learns where the first half is wrong as well: its targets are ``y + (y - m)`` with m the mean of the first half, so that the
mean of both halves is y where each half reaches its target.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from deepfls._checks.values import Array
from deepfls.data.arrays import Source
from deepfls.estimators.settings import Settings
from deepfls.kernels.threads import one_blas_thread
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training.batches import Rows
from deepfls.training.loop import TrainResult

Result = TypeVar("Result")
# Rows of a chunk of the outputs of trained systems.
_CHUNK = 16_384
# Copies of the parameters of a system that its training holds: values, gradient, two moments, last, best and average.
_COPIES = 8
# Parameters of one condition of a rule: center, two widths, height, slope.
_PER_CONDITION = 5


@dataclass(frozen=True)
class Member:
    """A trained system, the rows it learned from, what its run left, and the sets it began with (4, rules, features).

    ``started`` is the system before training where parts of it are frozen.
    """

    system: T1FLS | IT2FLS
    rows: Rows
    result: TrainResult
    initial_sets: Array
    started: T1FLS | IT2FLS | None = None


# Trains the system of a number from 0 on, from rows, and calls back after every epoch.
MemberTrainer = Callable[[int, Rows, Callable[[int], None] | None], Member]
# Gives all systems from those that were trained.
MemberCorrector = Callable[[list[Member]], list[Member]]


def check_systems(settings: Settings, source: Source, n_before: int | None) -> None:
    """Refuse a number of systems that the source, an earlier fit of ``n_before`` systems or the memory does not allow."""
    n_systems = settings.n_systems
    if n_before is not None and n_before != n_systems:
        raise ValueError(
            f"n_systems must stay {n_before} with warm_start=True, got {n_systems}; warm_start=False starts anew."
        )
    if n_systems > 1 and source.streamed:
        raise ValueError(f"n_systems must be 1 for a source that is read in parts, got {n_systems}.")
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not a POSIX system
        return
    n_rules = settings.n_rules if isinstance(settings.n_rules, int) else 1
    size = n_rules * source.n_features * _PER_CONDITION * 8 * _COPIES
    if n_systems > 1 and n_systems * size > memory:
        raise ValueError(
            f"n_systems must be at most {memory // size:,}, for which this machine has the memory, got {n_systems:,}."
        )


def trained_systems(
    trained: MemberTrainer, n_systems: int, rows: Rows, *, corrects: bool, corrector: MemberCorrector | None = None
) -> list[Member]:
    """The systems in their order.

    ``corrects``: the second half learns where the first half is wrong. A ``corrector`` completes a first quarter of them.
    """

    if n_systems == 1:
        return [trained(0, rows, None)]

    def members_of(numbers: Sequence[int], rows: Rows) -> list[Member]:
        return in_threads(lambda number, watch: trained(number, rows, watch), numbers)

    n_first = n_trained(n_systems) if corrector is not None else -(-n_systems // 2) if corrects else n_systems
    members = members_of(range(n_first), rows)
    if n_first == n_systems or any(member.result.stopped_by == "interrupt" for member in members):
        return members
    if corrector is not None:
        return corrector(members)
    target = 2.0 * rows.target - outputs_for([member.system for member in members], rows)
    return members + members_of(range(n_first, n_systems), Rows.of(rows.x, target, rows.weight))


def n_trained(n_systems: int) -> int:
    """How many of the systems are trained where the others are corrections of their mean."""
    return max(n_systems // 4, 1)


def in_threads(run: Callable[[int, Callable[[int], None]], Result], numbers: Sequence[int]) -> list[Result]:
    """Results of ``run(number, watch)`` from as many threads as there are processors.

    ``watch`` is to be called after every epoch: an interrupt ends all runs there.
    """
    stopped = threading.Event()

    def watch(_: int) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt

    if len(numbers) == 1:
        return [run(numbers[0], watch)]
    affinity = getattr(os, "sched_getaffinity", None)
    n_threads = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    # Threads of BLAS would compete with these.
    with one_blas_thread(), ThreadPoolExecutor(max_workers=min(n_threads, len(numbers))) as pool:
        futures: list[Future[Result]] = [pool.submit(run, number, watch) for number in numbers]
        try:
            return [future.result() for future in futures]
        except BaseException as error:
            stopped.set()
            if not isinstance(error, KeyboardInterrupt):
                for future in futures:
                    future.cancel()
                raise
            # A second interrupt leaves without the results.
            return [future.result() for future in futures if not future.cancel()]


def _crisp_output(system: T1FLS | IT2FLS, x: Tensor) -> Tensor:
    return system(x)


def outputs_for(
    systems: Sequence[T1FLS | IT2FLS], rows: Rows, output: Callable[[T1FLS | IT2FLS, Tensor], Tensor] = _crisp_output
) -> Tensor:
    """Mean of the outputs of systems, (rows, outputs), by default the crisp ones."""
    parts = []
    with torch.no_grad():
        for first in range(0, len(rows), _CHUNK):
            x = rows.x[first : first + _CHUNK]
            parts.append(torch.stack([output(system, x) for system in systems]).mean(dim=0))
    return torch.cat(parts)
