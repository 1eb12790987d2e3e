"""How many threads a piece of work gets. Torch's setting is as before after every call."""

from __future__ import annotations

import contextlib
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
