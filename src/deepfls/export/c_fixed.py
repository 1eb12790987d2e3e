"""A C99 header in fixed point: integers alone, for cores without a floating-point unit."""

from __future__ import annotations

from typing import Any

import numpy as np

from deepfls._checks import check_holdable
from deepfls.export import c_fixed_runtime as runtime
from deepfls.export.c_text import CHeader, code_bytes, comment, described, documented_tables, filled, functions, prefixed
from deepfls.export.fixed_point import (
    EXPONENT_BITS,
    FLOOR,
    LN_2,
    LOG2_E,
    POWERS,
    SIXTH,
    WIDE,
    FixedError,
    FixedPoint,
    check_error,
    sweep_bound,
)
from deepfls.export.text import float_literal
from deepfls.inspection.plain import PlainSystem

Array = np.ndarray[Any, np.dtype[Any]]

# Bytes of code and of stack beside the arrays, rounded up from what gcc 12 -O2 makes for a Cortex-M3.
CODE_BYTES = {"t1": 700, "it2": 2_300, "classes": 1_000, "direct": 1_000}
FRAME_BYTES = {"t1": 160, "it2": 260}


def fixed_header(plain: PlainSystem, *, prefix: str, number: str, margins: Array | None, rows: Any) -> CHeader:
    """The header of a system in fixed point; an error where the integers cannot hold it."""
    fixed = FixedPoint.of(plain, number, rows)
    error = fixed.error(rows)
    check_error(number, error)
    tables = _tables(fixed, margins)
    width = 2 if number == "q15" else 4
    wide_tables = ("power", "height", "mix", "margin")
    table_bytes = sum(values.size * (4 if name in wide_tables else width) for name, values in tables.items())
    arrays = 4 * (plain.n_features + (2 if plain.kind == "t1" else 3) * plain.n_rules + 3 * plain.n_outputs)
    flash_bytes, ram_bytes = table_bytes + code_bytes(plain, CODE_BYTES), arrays + FRAME_BYTES[plain.kind]
    lines = [_intro(fixed, error, table_bytes, ram_bytes, margins), "#ifndef FLS_H", "#define FLS_H", ""]
    lines += ["#include <stdint.h>", "", f"typedef {'int16_t' if number == 'q15' else 'int32_t'} fls_q;", ""]
    constants: dict[str, Any] = {"INPUTS": plain.n_features, "RULES": plain.n_rules, "OUTPUTS": plain.n_outputs}
    limit = "INT16" if number == "q15" else "INT32"
    constants |= {"MIN": f"{limit}_MIN", "MAX": f"{limit}_MAX", "WEIGHT_BITS": fixed.weight_bits}
    constants["FLOOR"] = f"{FLOOR} /* exponents beyond e^-600 count as that */"
    if plain.kind == "it2":
        constants |= {"SWEEPS": sweep_bound(plain.n_rules), "WIDE": f"{WIDE} /* e^-2 */"}
    lines += [f"#define FLS_{name} {value}" for name, value in constants.items()]
    lines.append("")
    lines += documented_tables(tables, dict.fromkeys(wide_tables, "int32_t"), "fls_q", str)
    lines += [_code(fixed, margins), "#endif", ""]
    share = float((error.largest / error.ranges).max())
    return CHeader(prefixed("\n".join(lines), prefix), table_bytes, flash_bytes, ram_bytes, share)


def _tables(fixed: FixedPoint, margins: Array | None) -> dict[str, Array]:
    plain = fixed.plain
    tables = {"power": POWERS, "center": fixed.centers}
    if plain.kind == "t1":
        tables["inverse"] = fixed.upper_inverses
    else:
        if "s" in plain.uncertainty:
            tables["lower_inverse"] = fixed.lower_inverses
        tables["upper_inverse"] = fixed.upper_inverses
        if "h" in plain.uncertainty:
            tables["height"] = fixed.heights
    tables["intercept"] = fixed.intercepts
    if plain.order == 1:
        tables["slope"] = fixed.slopes
    if plain.type_reduction in ("bmm", "sm"):
        tables["mix"] = fixed.mix
    if margins is not None:
        shares = margins / fixed.output_half
        check_holdable("margin in half ranges of the output", shares, 2.0)
        tables["margin"] = np.round(shares * 2.0**fixed.value_bits).astype(np.int64)
    return tables


def _code(fixed: FixedPoint, margins: Array | None) -> str:
    plain = fixed.plain
    z = "z, " if plain.order == 1 else ""
    up = fixed.z_bits - fixed.bits
    numbers = {
        "log2_e": str(LOG2_E),
        "ln_2": str(LN_2),
        "sixth": str(SIXTH),
        "z_bits": str(fixed.z_bits),
        "value_bits": str(fixed.value_bits),
        "center_factor": str(2 ** (fixed.z_bits - fixed.center_bits)),
        "step_shift": str(fixed.z_bits + fixed.inverse_bits - fixed.step_bits),
        "square_shift": str(2 * fixed.step_bits - EXPONENT_BITS),
        "scaled": f"(int32_t)x[m] * {2**up}" if up >= 0 else f"x[m] >> {-up}",
        "intercept_factor": str(2 ** (fixed.value_bits - fixed.intercept_bits)),
        "slope_shift": str(fixed.slope_bits + fixed.z_bits - fixed.value_bits),
        "z": z,
    }
    narrow = fixed.value_bits - fixed.bits
    numbers["narrowed"] = f"(value + {2 ** (narrow - 1)}) >> {narrow}" if narrow > 0 else f"value * {2**-narrow}"
    pieces = [runtime.EXP, runtime.SCALED, runtime.SUMS]
    consequents = runtime.CONSEQUENTS if plain.order == 1 else runtime.CONSEQUENTS_ORDER_0
    method = plain.type_reduction
    if plain.kind == "t1":
        pieces += [runtime.FIRING_T1, consequents, runtime.MEAN, runtime.OUTPUTS_T1]
    else:
        lower = "upper[p]"
        if "s" in plain.uncertainty:
            lower = "fls_exponent(z, fls_center[p], fls_lower_inverse[p])"
        numbers["lower"] = f"(int64_t){lower}" + (" + fls_height[p]" if "h" in plain.uncertainty else "")
        pieces += [runtime.FIRING_IT2, consequents, runtime.KARNIK_MENDEL]
        if method == "km":
            pieces.append(runtime.OUTPUTS_KM)
        else:
            nt = method == "nt"
            numbers["weights"] = runtime.WEIGHTS_NT if nt else runtime.WEIGHTS_TWO_MEANS
            numbers["mean"] = "fls_mean(value, upper)" if nt else runtime.MEAN_TWO
            numbers["method"] = "Nie-Tan" if nt else "mix of the means under lower and upper firing"
            pieces += [runtime.MEAN, runtime.OUTPUTS_DIRECT]
    pieces.append(runtime.NARROWED)
    if plain.classes is not None:
        # Logits from half ranges to units of the exponent.
        factor = float(fixed.output_half[0])
        factor_bits = 30 - int(np.ceil(np.log2(factor)))
        numbers["logit_factor"] = str(round(factor * 2.0**factor_bits))
        numbers["logit_shift"] = str(fixed.value_bits + factor_bits - EXPONENT_BITS)
        pieces.append(runtime.CLASSES)
    else:
        pieces.append(runtime.PREDICT)
    if plain.kind == "it2" or margins is not None:
        pieces.append(_interval(plain, margins))
    code = "".join(filled(piece, **numbers) for piece in pieces)
    arrays = ("input_middle", "input_half", "output_middle", "output_half")
    cells = {name: "{" + ", ".join(float_literal(v) for v in getattr(fixed, name)) + "}" for name in arrays}
    return code + filled(runtime.FLOAT_HELPERS, **cells)


def _interval(plain: PlainSystem, margins: Array | None) -> str:
    it2 = plain.kind == "it2"
    what = "Ends of the type-reduced set" if it2 else "Crisp outputs"
    what += " of the logits" if plain.classes is not None else ""
    return filled(
        runtime.INTERVAL,
        what=what + (", less and plus a margin" if margins is not None else ""),
        right=", right[FLS_OUTPUTS]" if it2 else "",
        call="fls_reduce(x, left, right);" if it2 else "fls_outputs(x, left);",
        other="right" if it2 else "left",
        minus=" - fls_margin[k]" if margins is not None else "",
        plus=" + fls_margin[k]" if margins is not None else "",
    )


def _intro(fixed: FixedPoint, error: FixedError, table_bytes: int, ram_bytes: int, margins: Array | None) -> str:
    from deepfls import __version__

    plain, scale = fixed.plain, f"2^{fixed.bits}"
    lines = [f"Exported by deepfls {__version__} in fixed point, {fixed.number}.", "", *described(plain), ""]
    lines += ["Inputs and outputs are integers q. Their values are middle + half range * q / " + scale + ":"]
    for m in range(plain.n_features):
        lines.append(f"  x[{m}]  {fixed.input_middle[m]:.9g} + {fixed.input_half[m]:.9g} * q / {scale}")
    for k in range(plain.n_outputs):
        lines.append(f"  y[{k}]  {fixed.output_middle[k]:.9g} + {fixed.output_half[k]:.9g} * q / {scale}")
    if plain.classes is not None:
        lines.append(f"These are the logits; the probabilities of fls_predict are q / {scale}.")
    on = "given rows" if error.given else "rows drawn from the range of the training data"
    lines += ["", *functions(plain, margins, "fls_q"), "", f"Error on {error.n_rows:,} {on}, against float64:"]
    for k in range(plain.n_outputs):
        share = 100 * error.largest[k] / error.ranges[k]
        lines.append(
            f"  y[{k}]  at most {error.largest[k]:.2g} ({share:.2g} % of its range), root mean square {error.rms[k]:.2g}"
        )
    lines += [
        "",
        f"Flash  {table_bytes:,} bytes of tables, and code of about {code_bytes(plain, CODE_BYTES):,} bytes beside the",
        "       division of 64-bit integers (gcc 12 -O2, Cortex-M3).",
        f"RAM    none static; about {ram_bytes:,} bytes of stack.",
    ]
    rules, ends = plain.n_rules, 2 * plain.n_outputs * sweep_bound(plain.n_rules)
    if plain.kind == "it2" and plain.type_reduction == "km":
        lines.append(
            f"Work   at most {ends} sweeps over {rules} rules ({sweep_bound(rules)} an end), usually 3 an end; each has one"
        )
        lines.append(f"       division and at most {rules} exponentials. No sort, no enumeration.")
    else:
        means = plain.n_outputs * (2 if plain.type_reduction in ("bmm", "sm") else 1)
        exponentials = rules * (1 if plain.kind == "t1" else 2)
        lines.append(
            f"Work   of one prediction: {means} {'divisions' if means > 1 else 'division'}, {exponentials} exponentials."
        )
    lines += [
        "",
        "Inputs beyond the range above saturate at its ends. No floating point in any function but those under",
        "FLS_WITH_FLOAT. Right shifts of negative numbers are taken to be arithmetic, as in every common compiler.",
        "All functions and tables are static: include the header in one source file.",
    ]
    return comment(lines)
