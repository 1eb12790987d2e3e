# mypy: disable-error-code="no-untyped-def"
# (compiled functions: Numba infers the types)
"""What the compiled row kernels share: how they are compiled, exponentials of whole rows, and rows over several threads.

A row is one sample. Kernels copy a block of rows to float64 scratch that stays in the cache, and work on that: no
allocation per row, sums in float64 whatever the dtype of the tensors. The files of kernels are imported on first use,
because importing Numba costs more than the rest of the package together.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numba import njit

from deepfls.functional.tracing import Array

# The licence to reorder sums lets LLVM vectorise them. The flags that assume away NaN and infinity stay off, and a division
# by zero gives NaN as in NumPy instead of raising.
_OPTIONS: Any = {"nogil": True, "fastmath": {"reassoc", "contract"}, "error_model": "numpy"}

# Numbers in one piece of scratch: 12 kB, so that two or three of them share a first-level cache.
BLOCK = 1536
# Numbers in the first array of a kernel from which a second thread pays for its start.
_THREADED_SIZE = 100_000

# Multiply-adds of a product up to which a second thread does not pay, and OpenBLAS, NumPy's as a rule, takes none.
_SMALL_PRODUCT = 4 * 65_536
# Rows that may be added up one after the other.
_FEW_ROWS = 512

# Pieces of such work for each thread.
_PIECES = 8

# Log-firing further than this below a sample's largest is held there: e^-600 is far from the smallest normal number.
LOG_FLOOR = -600.0
# e^v = 2^k e^r with k the integer next to v / ln 2. Adding 1.5 * 2^52 leaves k in the low bits of the sum.
_ROUND = 6755399441055744.0
_INVERSE_LN2 = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first call and keep the machine code on disk, or only in memory where nothing can be written."""
    try:
        return njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # Numba found no writable place for its cache
        return njit(**_OPTIONS)(function)


@compiled
def exponentials(values, bits):
    """Replace values (n,), not above 700, by their exponentials, to one unit in the last place.

    Plain arithmetic in three loops that LLVM vectorises: five times as fast as calling ``exp`` for each number. ``bits`` is
    scratch of int64, at least as long.
    """
    floats = bits.view(np.float64)
    for i in range(values.shape[0]):
        value = values[i]
        value = LOG_FLOOR if value < LOG_FLOOR else value  # in this order NaN stays NaN
        shifted = value * _INVERSE_LN2 + _ROUND
        k = shifted - _ROUND
        r = (value - k * _LN2_HIGH) - k * _LN2_LOW
        # Taylor's series to r^13 / 13!, which is below 1e-17 for |r| <= ln 2 / 2.
        series = 1.0 / 6227020800.0
        series = series * r + 1.0 / 479001600.0
        series = series * r + 1.0 / 39916800.0
        series = series * r + 1.0 / 3628800.0
        series = series * r + 1.0 / 362880.0
        series = series * r + 1.0 / 40320.0
        series = series * r + 1.0 / 5040.0
        series = series * r + 1.0 / 720.0
        series = series * r + 1.0 / 120.0
        series = series * r + 1.0 / 24.0
        series = series * r + 1.0 / 6.0
        series = series * r + 0.5
        series = series * r + 1.0
        values[i] = series * r + 1.0
        floats[i] = shifted
    for i in range(values.shape[0]):
        bits[i] = (bits[i] + 1023) << 52  # the float64 whose exponent is k
    for i in range(values.shape[0]):
        values[i] *= floats[i]


@compiled
def index(start, i):
    """``start + i``, unsigned: Numba would look whether it counts from the end, and the loop would not vectorise."""
    return np.uintp(start) + np.uintp(i)


@compiled
def largest(values, row, start):
    """The largest number of a row from ``start`` on. Four at a time: one chain of comparisons would wait for itself."""
    n = values.shape[1] - start
    a = values[row, start]
    b = a
    c = a
    d = a
    for i in range(0, n - 3, 4):
        v = values[row, index(start, i)]
        a = v if v > a else a
        v = values[row, index(start, i + 1)]
        b = v if v > b else b
        v = values[row, index(start, i + 2)]
        c = v if v > c else c
        v = values[row, index(start, i + 3)]
        d = v if v > d else d
    for i in range(n - n % 4, n):
        v = values[row, index(start, i)]
        a = v if v > a else a
    return max(max(a, b), max(c, d))


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="deepfls")


class Workspace:
    """Memory for intermediate results, made on first use and used again for the same name and shape.

    Fresh memory costs a page fault for every 4 kB, which for large batches is more than what is computed in it.
    """

    def __init__(self) -> None:
        self._held: dict[str, Array] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """Room for an array; what it holds from before is of no meaning."""
        held = self._held.get(name)
        if held is None or held.shape != shape or held.dtype != dtype:
            held = self._held[name] = np.empty(shape, dtype)
        return held

    def take_like(self, name: str, array: Array) -> Array:
        """Room for an array of the shape and dtype of another."""
        return self.take(name, array.shape, array.dtype)


def product(left: Array, right: Array, out: Array, offset: Array | None = None) -> Array:
    """The matrix product, plus an offset for each column where there is one.

    Small ones by NumPy, a third of the call; others by torch, on the threads torch has.
    """
    if left.size * right.shape[1] <= _SMALL_PRODUCT:
        np.dot(left, right, out=out)
        if offset is not None:
            out += offset
    elif offset is None:
        torch.mm(torch.from_numpy(left), torch.from_numpy(right), out=torch.from_numpy(out))
    else:
        torch.addmm(*map(torch.from_numpy, (offset, left, right)), out=torch.from_numpy(out))
    return out


def product_over_rows(left: Array, right: Array, out: Array) -> Array:
    """``left.T @ right``: the sum over all rows of the products of their numbers, as gradients of weights need it."""
    if left.size * right.shape[1] > _SMALL_PRODUCT and right.shape[1] < left.shape[1]:
        # With the few columns of a system of few inputs MKL takes up to five times as long as for the transposed product,
        # also where that would be written to the transposed memory.
        out[:] = torch.mm(torch.from_numpy(right.T), torch.from_numpy(left)).numpy().T
        return out
    return product(left.T, right, out)


def column_sums(values: Array, out: Array) -> Array:
    """The sums of all rows. NumPy adds them up one after the other, which for many of them loses digits; torch does not."""
    if len(values) <= _FEW_ROWS:
        return np.add.reduce(values, axis=0, out=out)
    torch.sum(torch.from_numpy(values), dim=0, out=torch.from_numpy(out))
    return out


def over_rows(kernel: Callable[..., Any], arrays: Sequence[Array], *options: Any, sums: Sequence[Array] = ()) -> None:
    """Call a kernel on arrays of equal batch, in pieces shared by as many threads as torch uses where that pays.

    A kernel adds to ``sums``, its last arguments, what it finds for all rows together.
    """
    n_rows = len(arrays[0])
    n_threads = torch.get_num_threads() if arrays[0].size >= _THREADED_SIZE else 1
    if n_threads == 1:
        kernel(*arrays, *options, *sums)
        return
    # Torch's own threads spin for a while after their work and hold their cores, so another thread may get half of one, or
    # none. Pieces taken in turn let whoever runs do more of them.
    n_pieces = _PIECES * n_threads
    bounds = np.linspace(0, n_rows, n_pieces + 1, dtype=int).tolist()
    parts = [np.zeros((n_pieces, *total.shape), total.dtype) for total in sums]
    pieces = iter([(slice(*pair), number) for number, pair in enumerate(itertools.pairwise(bounds))])

    def work() -> None:
        for piece, number in pieces:
            kernel(*(array[piece] for array in arrays), *options, *(part[number] for part in parts))

    others = [_pool().submit(work) for _ in range(n_threads - 1)]
    work()
    for other in others:
        if not other.cancel():  # one that has not begun has nothing left to do
            other.result()
    for total, part in zip(sums, parts, strict=True):
        total += part.sum(axis=0)  # in the order of the rows, whichever thread did them
