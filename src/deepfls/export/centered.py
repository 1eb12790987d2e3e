"""The numbers of a system relative to an origin, for float32 (ONNX) and for integers (C in float), so that nothing cancels.

With an origin o and a unit 2^k for every input, z = (x - o) 2^-k is exact if x is within a factor of two of o, and small
everywhere in the data. Sets and rule outputs are stated in z, and rule outputs relative to an offset per output:

    -log f = Σ_m w (z_m - d_m)²,  w = 2^2k / (2 σ²),  d = (c - o) 2^-k,    y_p = offset + b_p + Σ_m a_pm z_m .

In integers the first sum is multiplied out, which makes both of them forms of z:

    -log f = Σ_m (A z_m² + B z_m) + C,  A = w,  B = -2 A d,  C = Σ_m A d² - log h .

Far from every rule two log-firings are large and nearly equal, and float32 would lose their difference. C therefore
evaluates the forms in 64-bit integers: coefficients and z have ``2 bits`` bits, in two halves whose products fit 64 bits.
The coefficients are rounded once, from exact fractions: the rounding of float64 shows at a thousand ranges of the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from deepfls._checks.values import Array
from deepfls.export.targets import check_holdable
from deepfls.inspection.plain import PlainSystem

# An input further than this many units from the origin is replaced by one at this distance: squares and sums stay finite.
FARTHEST = 2.0**20
_LARGEST = 1e34
# Fraction bits of a depth, which is minus the log-firing relative to the strongest rule: up to 600, it fills 32 bits.
_DEPTH_BITS = 22
# The coarsest step of the log-firing that a header may have within a unit of the origin.
_COARSEST = 2.0**-20


@dataclass(frozen=True)
class CenteredTables:
    """Tables in float64, to be rounded once. Shapes as in PlainSystem; weights and slopes are those of z."""

    origin: Array
    units: Array
    farthest: float
    centers: Array
    lower_weights: Array
    upper_weights: Array
    log_heights: Array
    offsets: Array
    intercepts: Array
    slopes: Array

    @classmethod
    def of(cls, plain: PlainSystem) -> CenteredTables:
        """The tables of a system; an error if float32 cannot hold them."""
        check_holdable("The centers of the sets", plain.centers, 1e30)
        origin = plain.centers.mean(axis=0).astype(np.float32).astype(np.float64)
        from_origin = plain.centers - origin
        spread = np.maximum(np.abs(from_origin).max(axis=0), np.median(plain.upper_sigmas, axis=0))
        units = np.exp2(np.round(np.log2(spread)))
        share = plain.grade_power
        upper = 0.5 * share * np.square(units / plain.upper_sigmas)
        lower = 0.5 * share * np.square(units / plain.lower_sigmas)
        at_origin = plain.intercepts + np.einsum("pkm,m->pk", plain.slopes, origin)
        slopes = plain.slopes * units
        check_holdable("The outputs of the rules", np.concatenate([at_origin.ravel(), slopes.ravel()]), 1e28)
        offsets = at_origin.mean(axis=0).astype(np.float32).astype(np.float64)
        check_holdable("The squares of the inverse widths", lower, 1e28)
        farthest = min(
            FARTHEST,
            0.25 * float(np.sqrt(_LARGEST / lower.sum(axis=1).max())),
            _LARGEST / max(float(np.abs(slopes).sum(axis=2).max()), 1.0),
        )
        return cls(
            origin=origin,
            units=units,
            farthest=2.0 ** np.floor(np.log2(farthest)),
            centers=from_origin / units,
            lower_weights=lower,
            upper_weights=upper,
            log_heights=share * plain.log_heights.sum(axis=1),
            offsets=offsets,
            intercepts=at_origin - offsets,
            slopes=slopes,
        )


@dataclass(frozen=True)
class CenteredIntegers:
    """Coefficients of the forms as integers.

    ``terms`` (sets, 2 features) are the coefficients of the squares and of the inputs; ``constants`` (sets,) have the same
    scale. Sets are the rules; with uncertain widths, the lower sets of all rules and then the upper ones. 2^(2 bits)
    stands for 2^log_exponent in the log-firing and for 2^exponents (outputs,) in the rule outputs. Slopes are
    (rules, outputs, features), intercepts (rules, outputs), and ``heights`` (rules,) minus the logarithms of the heights.
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
    unknown: Array  # (sets, features): what an input that is not known takes off the constants
    unknown_heights: Array  # (rules, features): what it takes off the heights
    fills: Array  # (rules, outputs, features): slope times center, which a rule adds for an input that is not known

    @classmethod
    def of(cls, plain: PlainSystem) -> CenteredIntegers:
        """The integers of a system; an error if its sets are too narrow for them."""
        t = CenteredTables.of(plain)
        # Sums of 2 n_features + 1 products of two halves must fit 63 bits.
        bits = (62 - (2 * plain.n_features + 1).bit_length()) // 2
        share: Any = Fraction(1) if plain.tnorm == "product" else Fraction(1, plain.n_features)
        units, origin = _exact(t.units), _exact(t.origin)
        centers = (_exact(plain.centers) - origin) / units
        each_height = -share * _exact(plain.log_heights)
        heights = each_height.sum(axis=1)

        def form(sigmas: Array) -> tuple[Array, Array, Array, Array]:
            squares = share * (units / _exact(sigmas)) ** 2 / 2
            parts = squares * centers**2
            return squares, -2 * squares * centers, parts.sum(axis=1), parts

        sets = [form(plain.upper_sigmas)]
        if "s" in plain.uncertainty:
            squares, inputs, constants, parts = form(plain.lower_sigmas)
            sets.insert(0, (squares, inputs, constants + heights, parts + each_height))
        # The lower sets are the narrower ones, so their coefficients are the larger ones.
        sizes = np.abs(sets[0][0]).sum(axis=1) + np.abs(sets[0][1]).sum(axis=1) + sets[0][2] + heights
        log_exponent = max(_exponent(sizes), 0)
        step = 2.0 ** (log_exponent - 2 * bits)
        if step > _COARSEST:
            raise ValueError(
                "The widths of the sets must be at least about 4e-6 of the distance between the rules for this target, "
                f"where log-firing has steps of {_COARSEST:.1g}, got steps of {step:.1g}: use to_onnx, or fewer inputs."
            )
        log_scale = Fraction(2) ** (2 * bits - log_exponent)

        slopes = _exact(plain.slopes)
        intercepts = _exact(plain.intercepts) + (slopes * origin).sum(axis=2) - _exact(t.offsets)
        slopes = slopes * units
        fills = slopes * centers[:, np.newaxis]
        sizes = np.abs(slopes).sum(axis=2) + np.abs(intercepts)
        if plain.missing:
            sizes = sizes + np.abs(fills).sum(axis=2)
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
            unknown=_rounded(np.concatenate([part[3] for part in sets]) * log_scale),
            unknown_heights=_rounded(each_height * log_scale),
            fills=_rounded(fills * scales[:, np.newaxis]),
        )

    @property
    def depth_one(self) -> int:
        """The integer that stands for a depth of 1."""
        return 1 << _DEPTH_BITS

    @property
    def depth_shift(self) -> int:
        """Bits from a form within a unit of the origin to a depth."""
        return 2 * self.bits - self.log_exponent - _DEPTH_BITS


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
