"""How many threads a piece of work gets. Torch's setting is as before after every call."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import torch

# Multiply-adds of the matrix products in one step of work from which a second thread pays for itself.
_THREADED_WORK = 16_000_000


@contextlib.contextmanager
def threads_for(work: int) -> Iterator[None]:
    """One thread for small work, where a second costs more than it gives; the setting from before afterwards."""
    before = torch.get_num_threads()
    if work < _THREADED_WORK:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def each_in_threads(function: Callable[[int], None], numbers: range) -> None:
    """Call a function for every number, on as many threads as torch uses, each with one thread of torch's own.

    Whole chunks side by side scale better than threads inside every operation of a chunk.
    """
    n_threads = min(torch.get_num_threads(), len(numbers))
    if n_threads <= 1:
        for number in numbers:
            function(number)
        return
    with threads_for(0), ThreadPoolExecutor(n_threads) as pool:
        for _ in pool.map(function, numbers):
            pass


class OneTorchThread:
    """A context, to be entered for every step, in which torch has one thread: the step has its own, :func:`side_by_side`.

    Any small operation of torch's on several threads, such as those of an optimiser, would leave idle threads behind that
    spin for milliseconds on the cores that the next step wants.
    """

    def __init__(self, before: int) -> None:
        self._before = before

    def __enter__(self) -> None:
        torch.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self._before)


@functools.cache
def _workers(n_threads: int) -> ThreadPoolExecutor:
    pool = ThreadPoolExecutor(n_threads, "deepfls-step", initializer=torch.set_num_threads, initargs=(1,))
    started = threading.Barrier(n_threads + 1)
    for _ in range(n_threads):
        pool.submit(started.wait)
    started.wait()  # none begins later, and sets the number that new threads take over when nobody puts it right
    return pool


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_workers.cache_clear)  # a forked process has no thread but its own


def side_by_side(function: Callable[[int], None], n_tasks: int) -> None:
    """Call a function for every number below ``n_tasks``, each on a thread of its own; to be called with one of torch's.

    Threads inside every operation would move the numbers from core to core between one and the next.
    """
    pool = _workers(n_tasks)
    calls = [pool.submit(function, number) for number in range(n_tasks)]
    try:
        wait(calls)
    finally:
        wait(calls)  # on Ctrl-C: nothing goes on in the memory of a run that has ended
    for call in calls:
        call.result()
