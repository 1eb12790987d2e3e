"""Exponentials and maxima of whole rows: arithmetic that LLVM vectorises, unlike calls of ``exp``."""

from __future__ import annotations

import math

import numpy as np

from deepfls.functional.constants import LOG_FLOOR
from deepfls.kernels.compiling import inner

# e^v = 2^k e^r with k the integer next to v / ln 2. Adding 1.5 * 2^52 leaves k in the low bits of the sum.
_ROUND = 6755399441055744.0
_INVERSE_LN2 = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Taylor's series to r^13 / 13!, which is below 1e-17 for |r| <= ln 2 / 2; from r^7 / 7! on it is right to 1e-8.
_INVERSE_FACTORIALS = tuple(1.0 / math.factorial(n) for n in range(13, -1, -1))
_MORE_FACTORIALS, _FIRST_FACTORIALS = _INVERSE_FACTORIALS[:6], _INVERSE_FACTORIALS[6:]

# Times a squared input and a rounding error it is still a normal number of float32.
_TINY = 1e-30


@inner
def exponentials(values, n_bytes):
    """Replace values (n,), not above 700, by their exponentials, to one unit in the last place of numbers of ``n_bytes``.

    Values below LOG_FLOOR count as LOG_FLOOR; NaN stays NaN.
    """
    for i in range(values.shape[0]):
        value = values[i]
        value = LOG_FLOOR if value < LOG_FLOOR else value  # in this order NaN stays NaN
        shifted = np.float64(value * _INVERSE_LN2 + _ROUND)
        k = shifted - _ROUND
        r = (value - k * _LN2_HIGH) - k * _LN2_LOW
        series = 0.0
        if n_bytes > 4:
            for factor in _MORE_FACTORIALS:
                series = series * r + factor
        for factor in _FIRST_FACTORIALS:
            series = series * r + factor
        power = np.int64((shifted.view(np.int64) + 1023) << 52).view(np.float64)  # the float64 whose exponent is k
        values[i] = series * power


@inner
def flush_tiny(values, n_rows):
    """Replace float32 numbers near the denormal ones by 0 in some rows: they make matrix products eight times slower."""
    if values.itemsize > 4:
        return
    flat = values.reshape(values.size)  # one loop: short rows would leave much that is not vectorised
    for i in range(n_rows * values.shape[1]):
        value = flat[i]
        flat[i] = 0.0 if abs(value) < _TINY else value  # in this order NaN stays NaN


@inner
def index(start, i):
    """``start + i``, unsigned: Numba would test whether it counts from the end, and the loop would not vectorise."""
    return np.uintp(start) + np.uintp(i)


@inner
def largest(values, row, n):
    """The largest of the first n numbers of a row. Four at a time: one chain of comparisons waits for itself."""
    a = b = c = d = values[row, 0]
    for i in range(0, n - 3, 4):
        a = max(a, values[row, i])
        b = max(b, values[row, i + 1])
        c = max(c, values[row, i + 2])
        d = max(d, values[row, i + 3])
    for i in range(n - n % 4, n):
        a = max(a, values[row, i])
    return max(max(a, b), max(c, d))
