"""A system in integers of 16 or 32 bits, and the arithmetic of the generated C in NumPy, bit for bit.

A value is an integer over a power of two. The powers are constants of the system, chosen so that nothing can overflow for
any input. Inputs are fractions of their range, z = (x - middle) / half, and so are outputs:

    exponent of rule p   Σ_m ((z_m - d_pm) r_pm)²,  r = half √share / (√2 σ), in units of 2^-20
    weights              e^-exponent relative to the smallest: a table of 32 powers of two and a cubic
    output of a rule     b_p + Σ_m a_pm z_m, in half ranges of the output.

z lies within ±1, so |b| + Σ|a| bounds every output of a rule. A system whose bound leaves too few bits is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from deepfls._checks.arguments import check_option
from deepfls._checks.values import Array
from deepfls.export.targets import input_box, refuse_form, rows_for
from deepfls.functional.constants import LOG_FLOOR, max_sweeps
from deepfls.inspection.plain import PlainOutput, PlainSystem

BITS = {"q15": 15, "q31": 31}
# Fraction bits of exponents and of powers of two.
EXPONENT_BITS, POWER_BITS = 20, 30
LOG2_E, LN_2, SIXTH = (round(value * 2**30) for value in (1.0 / np.log(2.0), np.log(2.0), 1.0 / 6.0))
POWERS = np.round(2.0 ** (POWER_BITS - np.arange(32) / 32.0)).astype(np.int64)
# Larger exponents, relative to the smallest, count as this one.
MAX_EXPONENT = round(-LOG_FLOOR) << EXPONENT_BITS
# If lower firing is below e^-2 of the upper one, its integers would have too few bits: every sweep takes its own scale.
WIDE = 2 << EXPONENT_BITS
_NONE = -(2**31)
_LARGEST_STEP = 2**31 - 1
# Largest accepted error on the rows, as a share of the range of an output.
LARGEST_ERROR = {"q15": 0.01, "q31": 0.0001}
_N_DRAWN = 10_000


def sweep_bound(n_rules: int) -> int:
    """Bound of the sweeps for an end point: one more per rule than in floating point, the trial of the rule's position."""
    return max_sweeps(n_rules) + n_rules


class FixedError(NamedTuple):
    """Largest and root mean square error of every output in its units, its range, and the rows of the measurement."""

    largest: Array
    rms: Array
    ranges: Array
    n_rows: int
    given: bool


@dataclass(frozen=True)
class FixedPoint:
    """Integers of a system and the positions of their binary points."""

    plain: PlainSystem
    number: str
    input_middle: Array
    input_half: Array
    output_middle: Array
    output_half: Array
    z_bits: int
    center_bits: int
    inverse_bits: int
    step_bits: int
    value_bits: int
    slope_bits: int
    intercept_bits: int
    weight_bits: int
    centers: Array
    lower_inverses: Array
    upper_inverses: Array
    heights: Array
    intercepts: Array
    slopes: Array
    mix: Array

    @property
    def bits(self) -> int:
        return BITS[self.number]

    @classmethod
    def of(cls, plain: PlainSystem, number: str, rows: Any = None) -> FixedPoint:
        """Integers fitted to the range of the training data and of the rows; an error if they cannot hold the system."""
        bits = BITS[check_option("number", number, tuple(BITS))]
        low, high = input_box(plain)
        measured = rows_for(plain, rows, _N_DRAWN)
        low, high = np.minimum(low, measured.min(axis=0)), np.maximum(high, measured.max(axis=0))
        middle, half = _middle_and_half(low, high)
        if plain.bounds is not None:  # inputs saturate where the system clips them
            low, high = (np.clip(end, *plain.bounds) for end in (middle - half, middle + half))
            middle, half = _middle_and_half(low, high, margin=0.0)
        output_middle, output_half = _output_box(plain, measured)

        share = plain.grade_power
        centers = (plain.centers - middle) / half
        lower, upper = (half * np.sqrt(0.5 * share) / s for s in (plain.lower_sigmas, plain.upper_sigmas))
        slopes = plain.slopes * half / output_half[:, np.newaxis]
        intercepts = (plain.intercepts + plain.slopes @ middle - output_middle) / output_half
        bound = float((np.abs(intercepts) + np.abs(slopes).sum(axis=2)).max())
        value_bits = 29 - max(0, _ceil_log2(bound))
        if value_bits < min(bits + 1, 20):
            refuse_form(
                number,
                f"outputs of its rules reach {bound:.3g} half ranges of the output, and cancel",
                "use float, more data or fewer rules" if number == "q31" else "use q31 or float",
            )
        z_bits = min(28, 30 - _ceil_log2(1.0 + np.abs(centers).max()))
        center_bits = min(z_bits, _fraction_bits(centers, bits))
        inverse_bits = _fraction_bits(lower, bits)
        if z_bits < 16 or inverse_bits < 0:
            reason = "its sets are too narrow or too far from the data for the integers"
            refuse_form(number, reason, "use float" if number == "q31" else "use q31 or float")
        inverse_bits = min(inverse_bits, 30)
        slope_bits = min(_fraction_bits(slopes, bits), 30) if slopes.any() else 0
        intercept_bits = min(value_bits, _fraction_bits(intercepts, bits))
        return cls(
            plain=plain,
            number=number,
            input_middle=middle,
            input_half=half,
            output_middle=output_middle,
            output_half=output_half,
            z_bits=z_bits,
            center_bits=center_bits,
            inverse_bits=inverse_bits,
            step_bits=min(22, z_bits + inverse_bits),
            value_bits=value_bits,
            slope_bits=slope_bits,
            intercept_bits=intercept_bits,
            weight_bits=30 - _ceil_log2(plain.n_rules),
            centers=_rounded(centers, center_bits),
            lower_inverses=_rounded(lower, inverse_bits),
            upper_inverses=_rounded(upper, inverse_bits),
            heights=np.minimum(_rounded(-share * plain.log_heights.sum(axis=1), EXPONENT_BITS), MAX_EXPONENT),
            intercepts=_rounded(intercepts, intercept_bits),
            slopes=_rounded(slopes, slope_bits),
            mix=_rounded(np.full(plain.n_outputs, 0.5) if plain.mix is None else plain.mix, 30),
        )

    def quantized(self, x: Array) -> Array:
        """Rows in the units of the data as the integers that the C takes."""
        scaled = np.round((np.asarray(x, dtype=np.float64) - self.input_middle) / self.input_half * 2.0**self.bits)
        return np.clip(scaled, -(2**self.bits), 2**self.bits - 1).astype(np.int64)

    def values(self, y: Array) -> Array:
        """Outputs of the C in the units of the data."""
        return self.output_middle + self.output_half * np.asarray(y, dtype=np.float64) / 2.0**self.bits

    def output(self, quantized: Array) -> PlainOutput:
        """The results of the C for rows of integers: ends and crisp outputs, each (rows, outputs)."""
        z = quantized << (self.z_bits - self.bits) if self.z_bits >= self.bits else quantized >> (self.bits - self.z_bits)
        lower, upper = self._exponents(z)
        results = [self._reduced(lower, upper, self._rule_outputs(z, k), k) for k in range(self.plain.n_outputs)]
        return PlainOutput(*(np.stack([self._narrowed(r[i]) for r in results], axis=1) for i in range(3)))

    def _exponents(self, z: Array) -> tuple[Array, Array]:
        """Exponents of lower and upper firing relative to the smallest upper one, (rows, rules)."""
        distances = z[:, np.newaxis, :] - (self.centers << (self.z_bits - self.center_bits))

        def sums(inverses: Array) -> Array:
            steps = (distances * inverses) >> (self.z_bits + self.inverse_bits - self.step_bits)
            steps = np.clip(steps, -_LARGEST_STEP, _LARGEST_STEP)
            squares = (steps * steps) >> (2 * self.step_bits - EXPONENT_BITS)
            return np.minimum(squares.sum(axis=2), _LARGEST_STEP)

        upper = sums(self.upper_inverses)
        lower = upper
        if self.plain.kind == "it2":
            lower = sums(self.lower_inverses) if "s" in self.plain.uncertainty else upper
            lower = np.maximum(np.minimum(lower + self.heights, _LARGEST_STEP), upper)
        peak = upper.min(axis=1, keepdims=True)
        return lower - peak, upper - peak

    def _rule_outputs(self, z: Array, k: int) -> Array:
        products = (z[:, np.newaxis, :] * self.slopes[:, k, :]) >> (self.slope_bits + self.z_bits - self.value_bits)
        values = self.intercepts[:, k] << (self.value_bits - self.intercept_bits)
        return values + products.sum(axis=2) if self.plain.order else np.broadcast_to(values, products.shape[:2])

    def _powers(self, exponents: Array) -> Array:
        """e^-exponent with ``weight_bits`` bits."""
        t = (np.minimum(exponents, MAX_EXPONENT) * LOG2_E) >> 26
        shift = (t >> 24) + (POWER_BITS - self.weight_bits)
        a = ((t & 0x7FFFF) * LN_2) >> 24
        square = (a * a) >> 30
        cube = (((square * a) >> 30) * SIXTH) >> 30
        power = (POWERS[(t >> 19) & 31] * ((1 << 30) - a + (square >> 1) - cube)) >> 30
        return np.where(shift > 30, 0, power >> np.minimum(shift, 31))

    def _reduced(self, lower: Array, upper: Array, values: Array, k: int) -> tuple[Array, Array, Array]:
        def mean(weights: Array) -> Array:
            return _divided((weights * values).sum(axis=1), weights.sum(axis=1))

        start = mean(self._powers(upper))
        if self.plain.kind == "t1":
            return start, start, start
        left = self._end(lower, upper, values, start, 1)
        right = np.maximum(self._end(lower, upper, values, start, -1), left)
        method = self.plain.type_reduction
        if method == "km":
            return left, right, (left + right) >> 1
        if method == "nt":
            return left, right, mean((self._powers(lower) + self._powers(upper)) >> 1)
        own = mean(self._powers(lower - lower.min(axis=1, keepdims=True)))
        return left, right, (own * self.mix[k] + start * ((1 << 30) - self.mix[k])) >> 30

    def _end(self, lower: Array, upper: Array, values: Array, start: Array, sign: int) -> Array:
        """One end point by Newton steps on the residual Σ w (y_p - end), as in :func:`deepfls.functional.karnik_mendel`.

        The weight of a rule just beyond the end may be so large that the weights of the others are rounded away, which
        stops the steps too early. So the position of that rule is tried as the end: there it adds nothing to the residual,
        and the weights of the others get their own scale.
        """
        wide = lower.min(axis=1) > WIDE
        low, up = self._powers(lower), self._powers(upper)
        values, end = sign * values, sign * start
        kept, trial = end, np.zeros(len(end), dtype=bool)
        moving = np.ones(len(end), dtype=bool)
        for _ in range(sweep_bound(values.shape[1])):
            gap = values - end[:, np.newaxis]
            chosen = np.minimum(np.where(gap < 0, upper, lower), MAX_EXPONENT)
            own = self._powers(chosen - chosen.min(axis=1, keepdims=True))
            weights = np.where(wide[:, np.newaxis], own, np.where(gap < 0, up, low))
            residual, total = (weights * gap).sum(axis=1), weights.sum(axis=1)
            # Rounded outwards, so that a step of less than one unit moves too.
            stepped = end - (total - 1 - residual) // total
            nearest = np.where(gap < 0, values, _NONE).max(axis=1)
            steps = moving & (residual < 0)
            tries = moving & ~steps & wide & ~trial & (nearest > _NONE)
            kept, trial = np.where(tries, end, kept), tries | (trial & ~steps)
            end = np.where(steps, stepped, np.where(tries, nearest, end))
            moving = steps | tries
            if not moving.any():
                break
        return sign * np.where(trial, kept, end)

    def _narrowed(self, values: Array) -> Array:
        """Values with ``value_bits`` as outputs of the number format, saturated."""
        shift = self.value_bits - self.bits
        scaled = (values + (1 << (shift - 1))) >> shift if shift > 0 else values << -shift
        return np.clip(scaled, -(2**self.bits), 2**self.bits - 1)

    def error(self, rows: Any = None) -> FixedError:
        """The error against float64 on rows, given or drawn from the range of the training data."""
        x = rows_for(self.plain, rows, _N_DRAWN)
        got = self.values(self.output(self.quantized(x)).y)
        wrong = got - self.plain.output(x).y
        ranges = 2.0 * self.output_half / 1.1
        return FixedError(
            np.abs(wrong).max(axis=0), np.sqrt(np.square(wrong).mean(axis=0)), ranges, len(x), rows is not None
        )


def check_error(number: str, error: FixedError) -> None:
    """Refuse integers whose error exceeds LARGEST_ERROR."""
    share = float((error.largest / error.ranges).max())
    if share > LARGEST_ERROR[number]:
        refuse_form(
            number,
            f"on {error.n_rows:,} rows it would be wrong by up to {100 * share:.2g} % of the output's range",
            "use float" if number == "q31" else "use q31 or float",
        )


def _output_box(plain: PlainSystem, rows: Array) -> tuple[Array, Array]:
    """Midpoint and half range of every output and its ends over rows; a common range for all logits."""
    ends = plain.output(rows)
    low = np.minimum(ends.y_left, ends.y).min(axis=0)
    high = np.maximum(ends.y_right, ends.y).max(axis=0)
    if plain.classes is not None:
        largest = max(float(np.abs([low, high]).max()), 1e-3)
        low, high = np.full_like(low, -largest), np.full_like(high, largest)
    return _middle_and_half(low, high)


def _middle_and_half(low: Array, high: Array, margin: float = 0.1) -> tuple[Array, Array]:
    """Midpoints and half ranges, by a share larger than the data need; values beyond them saturate."""
    middle, half = (low + high) / 2, 0.5 * (1.0 + margin) * (high - low)
    return middle, np.where(half > 0, half, np.maximum(np.abs(middle), 1.0))


def _ceil_log2(value: float) -> int:
    return int(np.ceil(np.log2(max(float(value), 1e-300))))


def _fraction_bits(values: Array, bits: int) -> int:
    """The largest number of fraction bits with which the values fit."""
    largest = max(float(np.abs(values).max()), 2.0**-20)
    return int(np.floor(np.log2((2**bits - 1) / largest)))


def _rounded(values: Array, bits: int) -> Array:
    return np.round(np.asarray(values) * 2.0**bits).astype(np.int64)


def _divided(numerator: Array, denominator: Array) -> Array:
    """Integer division as in C, rounded towards zero."""
    return np.sign(numerator) * (np.abs(numerator) // denominator)
