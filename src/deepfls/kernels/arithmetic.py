# mypy: disable-error-code="no-untyped-def"
# (compiled functions: Numba infers the types)
"""Exponentials and maxima of whole rows: arithmetic that LLVM vectorises, five times as fast as ``exp`` per number."""

from __future__ import annotations

import numpy as np

from deepfls.functional.constants import LOG_FLOOR
from deepfls.kernels.compiling import inner

# e^v = 2^k e^r with k the integer next to v / ln 2. Adding 1.5 * 2^52 leaves k in the low bits of the sum.
_ROUND = 6755399441055744.0
_INVERSE_LN2 = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


@inner
def exponentials(values, bits):
    """Replace values (n,), not above 700, by their exponentials, to one unit in the last place.

    Values below LOG_FLOOR count as LOG_FLOOR; NaN stays NaN. ``bits`` is int64 scratch, at least as long.
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


@inner
def log1p_unit(t):
    """log(1 + t) for t in [0, 1], as 2 artanh(s) with s = t / (2 + t) <= 1/3: a series that vectorises."""
    s = t / (2.0 + t)
    q = s * s
    series = 1.0 / 33.0
    series = series * q + 1.0 / 31.0
    series = series * q + 1.0 / 29.0
    series = series * q + 1.0 / 27.0
    series = series * q + 1.0 / 25.0
    series = series * q + 1.0 / 23.0
    series = series * q + 1.0 / 21.0
    series = series * q + 1.0 / 19.0
    series = series * q + 1.0 / 17.0
    series = series * q + 1.0 / 15.0
    series = series * q + 1.0 / 13.0
    series = series * q + 1.0 / 11.0
    series = series * q + 1.0 / 9.0
    series = series * q + 1.0 / 7.0
    series = series * q + 1.0 / 5.0
    series = series * q + 1.0 / 3.0
    return 2.0 * s * (series * q + 1.0)


@inner
def index(start, i):
    """``start + i``, unsigned: Numba would test whether it counts from the end, and the loop would not vectorise."""
    return np.uintp(start) + np.uintp(i)


@inner
def largest(values, row, start, n):
    """The largest of n numbers of a row from ``start`` on. Four at a time: one chain of comparisons waits for itself."""
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
