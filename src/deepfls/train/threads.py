"""How many threads a piece of work gets. Torch's setting is as before after every call."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import torch

# Multiply-adds of the matrix products in one step of work from which a second thread pays for itself.
_THREADED_WORK = 8_000_000


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
    """A context, to be entered as often as needed, in which torch has one thread: others are used :func:`side_by_side`."""

    def __init__(self, before: int) -> None:
        self._before = before

    def __enter__(self) -> None:
        torch.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self._before)


@functools.cache
def _workers() -> ThreadPoolExecutor:
    # Torch's setting belongs to a thread, but threads that begin later take over the last one anybody made. Whoever enters
    # OneTorchThread puts that right on leaving.
    return ThreadPoolExecutor(thread_name_prefix="deepfls-step", initializer=torch.set_num_threads, initargs=(1,))


def side_by_side(function: Callable[[int], None], n_tasks: int) -> None:
    """Call a function for every number below ``n_tasks``, on as many threads, this one among them.

    To be called with one thread of torch's own. Its threads would share every operation, move the numbers from core to core
    in between, and spin on the core that another thread wants.
    """
    numbers = iter(range(n_tasks))

    def work() -> None:
        for number in numbers:
            function(number)

    others = [_workers().submit(work) for _ in range(n_tasks - 1)]
    work()
    for other in others:
        if not other.cancel():  # one that has not begun has nothing left to do
            other.result()
