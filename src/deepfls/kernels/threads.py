"""Rows divided over threads at the top of a step or a prediction, and runs side by side; BLAS has one thread then."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

Result = TypeVar("Result")
# Multiply-adds of a part of the rows from which a thread of its own pays for its start.
_WORK_OF_A_PART = 2_000_000


def n_parts_of(n_rows: int, work_per_row: int) -> int:
    """Into how many parts rows are divided: as many as torch has threads where each has enough to do."""
    n_parts = min(n_rows * work_per_row // _WORK_OF_A_PART, n_rows)
    if n_parts <= 1:
        return 1
    import torch  # here: it takes seconds to import, and little work does without

    return max(1, min(torch.get_num_threads(), n_parts))


@functools.cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, "deepfls")


def over_parts(function: Callable[[int, int, int], Any], n_rows: int, n_parts: int, multiple: int = 1) -> list[Any]:
    """Results of ``function(part, first, end)`` for all parts, each in a thread of its own; the caller runs the first.

    Parts begin at multiples of ``multiple`` rows.
    """
    if n_parts == 1:
        return [function(0, 0, n_rows)]
    bounds = [n_rows * part // n_parts // multiple * multiple for part in range(n_parts)] + [n_rows]
    spans = [(part, *span) for part, span in enumerate(itertools.pairwise(bounds))]
    others = [_pool(n_parts - 1).submit(function, *span) for span in spans[1:]]
    try:
        first = function(*spans[0])
    finally:
        wait(others)  # also after an error or Ctrl-C: no thread goes on in memory of a run that has ended
    return [first, *(other.result() for other in others)]


class _BlasGuard:
    """Holds BLAS at one thread while anyone is inside; the last one to leave restores what the first one found."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._limit: Any = None

    @functools.cached_property
    def _libraries(self) -> Any:
        import scipy.linalg.cython_blas  # noqa: F401  # loads the library that compiled code calls
        from threadpoolctl import ThreadpoolController

        return ThreadpoolController().select(user_api="blas")

    def move(self, n_more: int) -> None:
        """Count one more inside, or one less."""
        with self._lock:
            if self._n_inside == 0:
                self._take_control()
                self._limit = self._libraries.limit(limits=1)
            self._n_inside += n_more
            if self._n_inside == 0:
                self._take_control()
                self._limit.restore_original_limits()
                self._take_control()  # releases control, so that any thread may take it

    def _take_control(self) -> None:
        """Let the calling thread set the threads of OpenBLAS.

        From threadpoolctl 3.8 on only the first thread that set them may do so again; calls of the others do nothing.
        """
        for library in self._libraries.lib_controllers:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)

    def restart(self) -> None:
        """Start anew in a forked process: it has no other threads, and a lock they held would stay locked."""
        self._lock = threading.Lock()
        if self._n_inside:
            self.move(-self._n_inside)


_GUARD = _BlasGuard()

if hasattr(os, "register_at_fork"):
    # A forked process has no thread but its own.
    os.register_at_fork(after_in_child=_pool.cache_clear)
    os.register_at_fork(after_in_child=_GUARD.restart)


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which BLAS has one thread; contexts may overlap in several threads."""
    _GUARD.move(1)
    try:
        yield
    finally:
        _GUARD.move(-1)


def in_threads(run: Callable[[int, Callable[[int], None]], Result], numbers: Sequence[int]) -> list[Result]:
    """Results of ``run(number, watch)`` from as many threads as there are cores; the threads share the cores.

    ``watch`` is to be called after every epoch: an interrupt ends all runs there.
    """
    stopped = threading.Event()

    def watch(_: int) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt

    if len(numbers) == 1:
        return [run(numbers[0], watch)]
    from threadpoolctl import ThreadpoolController

    affinity = getattr(os, "sched_getaffinity", None)
    n_cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    n_threads = min(n_cores, len(numbers))
    openmp = ThreadpoolController().select(user_api="openmp")

    def run_in_thread(number: int) -> Result:
        import torch

        torch.get_num_threads()  # the first call in a thread sets the usual number there
        # In this thread alone: torch would start as many threads in each of the runs as there are cores.
        with openmp.limit(limits=max(1, n_cores // n_threads)):
            return run(number, watch)

    # Threads of BLAS would compete with these.
    with one_blas_thread(), ThreadPoolExecutor(max_workers=n_threads) as pool:
        futures: list[Future[Result]] = [pool.submit(run_in_thread, number) for number in numbers]
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
