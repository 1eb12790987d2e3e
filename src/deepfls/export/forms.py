"""The numbers of a system as whole numbers, so that C in float loses nothing at any distance from the data.

With an origin o and a unit 2^k for every input, z = (x - o) 2^-k, minus the logarithm of firing is a quadratic form and an
output of a rule, less an offset per output, is a linear one:

    -log f = Σ_m (A z_m² + B z_m) + C,  A = 2^2k / (2 σ²),  B = -2 A d,  C = Σ_m A d² - log h,  d = (c - o) 2^-k,
    y_p - offset = b_p + Σ_m a_pm z_m .

Far from every rule two such logarithms are large and nearly equal, and float32 would lose their difference. So the forms
are evaluated in 64-bit integers: coefficients and z have ``2 bits`` bits, in two halves whose products fit. They are
rounded once from exact fractions: the rounding of float64 would show at a thousand ranges of the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from deepfls._checks import check_resolved
from deepfls.export.tables import FloatTables
from deepfls.inspection.plain import PlainSystem

Array = np.ndarray[Any, np.dtype[Any]]

# Bits behind the point of a logarithm relative to the strongest rule: up to 600, it fills 32 bits.
DEPTH_BITS = 22
# The coarsest step of a logarithm that a header may have within a unit of the origin.
_COARSEST = 2.0**-20


@dataclass(frozen=True)
class Forms:
    """Integers of a header.

    ``terms`` (sets, 2 features) are the coefficients of the squares and of the inputs, ``constants`` (sets,) on the same
    scale. Sets are the rules, with uncertain widths their lower and then their upper sets. ``log_exponent`` and
    ``exponents`` (outputs,) are the powers of two that 2^(2 bits) stands for. Slopes are (rules, outputs, features),
    intercepts (rules, outputs), and ``heights`` (rules,) minus the logarithms of the heights.
    """

    bits: int
    origin: Array
    unit_exponents: Array
    log_exponent: int
    terms: Array
    constants: Array
    heights: Array
    offsets: Array
    exponents: Array
    slopes: Array
    intercepts: Array

    @classmethod
    def of(cls, plain: PlainSystem) -> Forms:
        """The integers of a system; an error where its sets are too narrow for them."""
        t = FloatTables.of(plain)
        # Sums of 2 n_features + 1 products of two halves must fit 63 bits.
        bits = (62 - (2 * plain.n_features + 1).bit_length()) // 2
        share: Any = Fraction(1) if plain.tnorm == "product" else Fraction(1, plain.n_features)
        units, origin = _exact(t.units), _exact(t.origin)
        centers = (_exact(plain.centers) - origin) / units
        heights = -share * _exact(plain.log_heights).sum(axis=1)

        def form(sigmas: Array) -> tuple[Array, Array, Array]:
            squares = share * (units / _exact(sigmas)) ** 2 / 2
            return squares, -2 * squares * centers, (squares * centers**2).sum(axis=1)

        sets = [form(plain.upper_sigmas)]
        if "s" in plain.uncertainty:
            squares, inputs, constants = form(plain.lower_sigmas)
            sets.insert(0, (squares, inputs, constants + heights))
        # The lower sets are the narrower ones, so theirs are the larger coefficients.
        sizes = np.abs(sets[0][0]).sum(axis=1) + np.abs(sets[0][1]).sum(axis=1) + sets[0][2] + heights
        log_exponent = max(_exponent(sizes), 0)
        check_resolved(2.0 ** (log_exponent - 2 * bits), _COARSEST)
        log_scale = Fraction(2) ** (2 * bits - log_exponent)

        slopes = _exact(plain.slopes)
        intercepts = _exact(plain.intercepts) + (slopes * origin).sum(axis=2) - _exact(t.offsets)
        slopes = slopes * units
        sizes = np.abs(slopes).sum(axis=2) + np.abs(intercepts)
        exponents = np.array([max(_exponent(sizes[:, k]), -120) for k in range(plain.n_outputs)])
        scales = np.array([Fraction(2) ** (2 * bits - int(e)) for e in exponents], dtype=object)
        return cls(
            bits=bits,
            origin=t.origin,
            unit_exponents=np.round(np.log2(t.units)).astype(np.int64),
            log_exponent=log_exponent,
            terms=_rounded(np.concatenate([np.concatenate(part[:2], axis=1) for part in sets]) * log_scale),
            constants=_rounded(np.concatenate([part[2] for part in sets]) * log_scale),
            heights=_rounded(heights * log_scale),
            offsets=t.offsets,
            exponents=exponents,
            slopes=_rounded(slopes * scales[:, np.newaxis]),
            intercepts=_rounded(intercepts * scales),
        )

    @property
    def depth_shift(self) -> int:
        """Bits from a form within a unit of the origin to a logarithm with DEPTH_BITS."""
        return 2 * self.bits - self.log_exponent - DEPTH_BITS


def _exact(values: Array) -> Array:
    """Fractions equal to float64 values, as an array of objects."""
    return np.frompyfunc(lambda value: Fraction(float(value)), 1, 1)(values)


def _rounded(values: Array) -> Array:
    return np.frompyfunc(round, 1, 1)(values).astype(np.int64)


def _exponent(sizes: Array) -> int:
    """The smallest e with every size at most 2^e."""
    size = max(sizes)
    if size == 0:
        return -120
    e = size.numerator.bit_length() - size.denominator.bit_length()
    return int(e if size <= Fraction(2) ** e else e + 1)
