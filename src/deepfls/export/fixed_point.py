"""A system in integers of 16 or 32 bits: its C header, and the arithmetic of the generated C in NumPy, bit for bit.

The text of a header is in ``templates/fixed.h``. A value is an integer over a power of two. The powers are constants of the
system, chosen so that nothing can overflow for any input. Inputs are fractions of their range, z = (x - middle) / half, and
so are outputs:

    exponent of rule p   Σ_m ((z_m - d_pm) r_pm)²,  r = half √share / (√2 σ), in units of 2^-20
    weights              e^-exponent relative to the smallest: a table of 32 powers of two and a cubic
    output of a rule     b_p + Σ_m a_pm z_m, in half ranges of the output.

z lies within ±1, so |b| + Σ|a| bounds every output of a rule. A system whose bound leaves too few bits is refused.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from deepfls._checks.arguments import check_option
from deepfls._checks.values import Array
from deepfls.export import targets
from deepfls.export.targets import CHeader, CTable
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
# What the text of a header names.
_SHARED = {"LOG2_E": LOG2_E, "LN_2": LN_2, "SIXTH": SIXTH, "EXPONENT_BITS": EXPONENT_BITS}
_SHARED |= {"MAX_EXPONENT": MAX_EXPONENT, "WIDE": WIDE}
# Bytes of code and of stack without arrays, rounded up from those of gcc 12 -O2 for a Cortex-M3.
_CODE = {"t1": 700, "it2": 2_300, "classes": 1_000, "direct": 1_000}
_FRAME = {"t1": 160, "it2": 260}
_NONE = -(2**31)
_LARGEST_STEP = 2**31 - 1
# Largest accepted error on the rows, as a share of the range of an output.
LARGEST_ERROR = {"q15": 0.01, "q31": 0.0001}
_REMEDIES = {"q15": "use q31 or float", "q31": "use float"}
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

    @property
    def share(self) -> float:
        """The largest error as a share of the range of its output."""
        return float((self.largest / self.ranges).max())


class FixedPoint:
    """Integers of a system, and the positions of their binary points, in ``..._bits``.

    They are fitted to the range of the training data and of the rows; an error if they cannot hold the system.
    """

    def __init__(self, plain: PlainSystem, number: str, rows: Any = None) -> None:
        self.plain, self.number = plain, check_option("number", number, tuple(BITS))
        self.bits = bits = BITS[number]
        low, high = targets.input_box(plain)
        measured = targets.rows_for(plain, rows, _N_DRAWN)
        low, high = np.minimum(low, measured.min(axis=0)), np.maximum(high, measured.max(axis=0))
        middle, half = _middle_and_half(low, high)
        if plain.bounds is not None:  # inputs saturate where the system clips them
            low, high = (np.clip(end, *plain.bounds) for end in (middle - half, middle + half))
            middle, half = _middle_and_half(low, high, margin=0.0)
        self.input_middle, self.input_half = middle, half
        self.output_middle, self.output_half = _output_box(plain, measured)

        share = plain.grade_power
        centers = (plain.centers - middle) / half
        lower, upper = (half * np.sqrt(0.5 * share) / s for s in (plain.lower_sigmas, plain.upper_sigmas))
        slopes = plain.slopes * half / self.output_half[:, np.newaxis]
        intercepts = (plain.intercepts + plain.slopes @ middle - self.output_middle) / self.output_half
        bound = float((np.abs(intercepts) + np.abs(slopes).sum(axis=2)).max())
        self.value_bits = 29 - max(0, _ceil_log2(bound))
        if self.value_bits < min(bits + 1, 20):
            targets.refuse_form(
                number,
                f"outputs of its rules reach {bound:.3g} half ranges of the output, and cancel",
                "use float, more data or fewer rules" if number == "q31" else _REMEDIES[number],
            )
        self.z_bits = min(28, 30 - _ceil_log2(1.0 + np.abs(centers).max()))
        self.center_bits = min(self.z_bits, _fraction_bits(centers, bits))
        self.inverse_bits = min(_fraction_bits(lower, bits), 30)
        if self.z_bits < 16 or self.inverse_bits < 0:
            reason = "its sets are too narrow or too far from the data for the integers"
            targets.refuse_form(number, reason, _REMEDIES[number])
        self.step_bits = min(22, self.z_bits + self.inverse_bits)
        self.slope_bits = min(_fraction_bits(slopes, bits), 30) if slopes.any() else 0
        self.intercept_bits = min(self.value_bits, _fraction_bits(intercepts, bits))
        self.weight_bits = 30 - _ceil_log2(plain.n_rules)
        self.centers = _rounded(centers, self.center_bits)
        self.lower_inverses, self.upper_inverses = (_rounded(part, self.inverse_bits) for part in (lower, upper))
        self.heights = np.minimum(_rounded(-share * plain.log_heights.sum(axis=1), EXPONENT_BITS), MAX_EXPONENT)
        self.intercepts, self.slopes = _rounded(intercepts, self.intercept_bits), _rounded(slopes, self.slope_bits)
        self.mix = _rounded(np.full(plain.n_outputs, 0.5) if plain.mix is None else plain.mix, 30)

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
            total = (weights * values).sum(axis=1)  # divided as in C, rounded towards zero
            return np.sign(total) * (np.abs(total) // weights.sum(axis=1))

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
        x = targets.rows_for(self.plain, rows, _N_DRAWN)
        got = self.values(self.output(self.quantized(x)).y)
        wrong = got - self.plain.output(x).y
        largest, rms = np.abs(wrong).max(axis=0), np.sqrt(np.square(wrong).mean(axis=0))
        return FixedError(largest, rms, 2.0 * self.output_half / 1.1, len(x), rows is not None)


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


def fixed_header(plain: PlainSystem, *, prefix: str, number: str, margins: Array | None, rows: Any) -> CHeader:
    """The header of a system in fixed point; an error if the integers cannot hold it."""
    if plain.missing:
        targets.refuse_form("C in fixed point", "its training table has missing values", 'number="float" takes it')
    fixed = FixedPoint(plain, number, rows)
    error = fixed.error(rows)
    if error.share > LARGEST_ERROR[number]:
        wrong = f"on {error.n_rows:,} rows it would be wrong by up to {100 * error.share:.2g} % of the output's range"
        targets.refuse_form(number, wrong, _REMEDIES[number])
    tables = _fixed_tables(fixed, margins)
    arrays = 4 * (plain.n_features + (2 if plain.kind == "t1" else 3) * plain.n_rules + 3 * plain.n_outputs)
    # From half ranges of the logits to units of the exponent.
    logit_bits = 30 - int(np.ceil(np.log2(fixed.output_half[0])))
    scalings = ("input_middle", "input_half", "output_middle", "output_half")
    return targets.rendered_header(
        "fixed.h",
        tables.values(),
        targets.code_bytes(plain, _CODE),
        arrays + _FRAME[plain.kind],
        error.share,
        prefix=prefix,
        real=f"{prefix}_q",
        plain=plain,
        fixed=fixed,
        measured=error,
        tables=tables,
        constants=_SHARED,
        sweeps=sweep_bound(plain.n_rules),
        interval_text=targets.interval_text(plain, margins),
        logit_factor=round(float(fixed.output_half[0]) * 2.0**logit_bits),
        logit_shift=fixed.value_bits + logit_bits - EXPONENT_BITS,
        conversion={name: CTable(getattr(fixed, name), "float") for name in scalings},
    )


def _fixed_tables(fixed: FixedPoint, margins: Array | None) -> dict[str, CTable]:
    plain = fixed.plain
    narrow = "int16_t" if fixed.number == "q15" else "int32_t"
    tables = {
        "power": CTable(POWERS, "int32_t"),
        "center": CTable(fixed.centers, narrow),
        "upper_inverse": CTable(fixed.upper_inverses, narrow),
        "intercept": CTable(fixed.intercepts, narrow),
    }
    if "s" in plain.uncertainty:
        tables["lower_inverse"] = CTable(fixed.lower_inverses, narrow)
    if "h" in plain.uncertainty:
        tables["height"] = CTable(fixed.heights, "int32_t")
    if plain.order == 1:
        tables["slope"] = CTable(fixed.slopes, narrow)
    if plain.type_reduction in ("bmm", "sm"):
        tables["mix"] = CTable(fixed.mix, "int32_t")
    if margins is not None:
        shares = margins / fixed.output_half
        targets.check_holdable("margin in half ranges of the output", shares, 2.0)
        tables["margin"] = CTable(np.round(shares * 2.0**fixed.value_bits).astype(np.int64), "int32_t")
    return tables
