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
from deepfls.export.targets import CTable, check_holdable
from deepfls.inspection.plain import PlainSystem

# An input further than this many units from the origin is replaced by one at this distance: squares and sums stay finite.
FARTHEST = 2.0**20
_LARGEST = 1e34
# Fraction bits of a depth, which is minus the log-firing relative to the strongest rule: up to 600, it fills 32 bits.
_DEPTH_BITS = 22
# The coarsest step of the log-firing that a header may have within a unit of the origin.
_COARSEST = 2.0**-20


class CenteredTables:
    """Tables in float64, to be rounded once. Shapes as in PlainSystem; weights and slopes are those of z.

    An error if float32 cannot hold them.
    """

    def __init__(self, plain: PlainSystem) -> None:
        check_holdable("The centers of the sets", plain.centers, 1e30)
        self.origin = plain.centers.mean(axis=0).astype(np.float32).astype(np.float64)
        from_origin = plain.centers - self.origin
        spread = np.maximum(np.abs(from_origin).max(axis=0), np.median(plain.upper_sigmas, axis=0))
        self.units = np.exp2(np.round(np.log2(spread)))
        self.centers = from_origin / self.units
        share = plain.grade_power
        self.upper_weights, self.lower_weights = (
            0.5 * share * np.square(self.units / sigmas) for sigmas in (plain.upper_sigmas, plain.lower_sigmas)
        )
        self.log_heights = share * plain.log_heights.sum(axis=1)
        at_origin = plain.intercepts + np.einsum("pkm,m->pk", plain.slopes, self.origin)
        self.slopes = plain.slopes * self.units
        check_holdable("The outputs of the rules", np.concatenate([at_origin.ravel(), self.slopes.ravel()]), 1e28)
        self.offsets = at_origin.mean(axis=0).astype(np.float32).astype(np.float64)
        self.intercepts = at_origin - self.offsets
        check_holdable("The squares of the inverse widths", self.lower_weights, 1e28)
        farthest = min(
            FARTHEST,
            0.25 * float(np.sqrt(_LARGEST / self.lower_weights.sum(axis=1).max())),
            _LARGEST / max(float(np.abs(self.slopes).sum(axis=2).max()), 1.0),
        )
        self.farthest = 2.0 ** np.floor(np.log2(farthest))


@dataclass(frozen=True)
class CenteredIntegers:
    """The forms of a system as integers, in the tables of a C header.

    The table "form" (sets, 2 features) has the coefficients of the squares and of the inputs; "constant" (sets,) has the
    same scale. Sets are the rules; with uncertain widths, the lower sets of all rules and then the upper ones. 2^(2 bits)
    represents 2^log_exponent in the log-firing and for 2^exponent, a table (outputs,), in the rule outputs. Heights are
    minus their logarithms. With missing values, "unknown" (sets, features) and "unknown_height" (rules, features) are what
    an input that is not known takes off constants and heights, and "fill" (rules, outputs, features) what a rule adds.
    """

    bits: int
    log_exponent: int
    tables: dict[str, CTable]

    @classmethod
    def of(cls, plain: PlainSystem) -> CenteredIntegers:
        """The integers of a system; an error if its sets are too narrow for them."""
        t = CenteredTables(plain)
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
        columns = zip(*((np.hstack(part[:2]), *part[2:]) for part in sets), strict=True)
        terms, constants, unknown = map(np.concatenate, columns)
        tables = {
            "origin": CTable(t.origin, "float"),
            "unit": CTable(np.round(np.log2(t.units)).astype(np.int64), "int16_t"),
            "form": CTable(_rounded(terms * log_scale), "halves", bits),
            "constant": CTable(_rounded(constants * log_scale), "int64_t"),
            "offset": CTable(t.offsets, "float"),
            "exponent": CTable(exponents, "int16_t"),
            "intercept": CTable(_rounded(intercepts * scales), "int64_t"),
        }
        if plain.missing:
            tables["unknown"] = CTable(_rounded(unknown * log_scale), "int64_t")
        if plain.uncertainty == "h":
            tables["height"] = CTable(_rounded(heights * log_scale), "int64_t")
            if plain.missing:
                tables["unknown_height"] = CTable(_rounded(each_height * log_scale), "int64_t")
        if plain.order == 1:
            tables["slope"] = CTable(_rounded(slopes * scales[:, np.newaxis]), "halves", bits)
            if plain.missing:
                tables["fill"] = CTable(_rounded(fills * scales[:, np.newaxis]), "int64_t")
        return cls(bits, log_exponent, tables)

    @property
    def depth_one(self) -> int:
        """The integer that represents a depth of 1."""
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
