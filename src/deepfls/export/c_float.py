"""A C99 header in float32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from deepfls.export import c_reduction_runtime as reduction
from deepfls.export import c_runtime as runtime
from deepfls.export.c_intervals import calibrated_interval
from deepfls.export.c_text import (
    CHeader,
    code_bytes,
    comment,
    described,
    documented_tables,
    filled,
    functions,
    prefixed,
    sweep_bound,
)
from deepfls.export.calibrated import CalibratedInterval
from deepfls.export.forms import DEPTH_BITS, Forms
from deepfls.export.text import float_literal
from deepfls.inspection.plain import PlainSystem

Array = np.ndarray[Any, np.dtype[Any]]

# Bytes of code and of stack beside the arrays, rounded up from what gcc 12 -O2 makes for a Cortex-M4;
# tests/export/test_embedded.py holds them against the compiler.
CODE_BYTES = {"t1": 1_650, "it2": 2_300, "classes": 1_000, "direct": 1_400}
FRAME_BYTES = {"t1": 140, "it2": 180}

_METHODS = {
    "nt": ("Nie-Tan, mean with the sum of lower and upper firing as weights", "fls_mean(value, upper)"),
    "sm": ("mean of the means under lower and upper firing", "0.5f * (fls_mean(value, lower) + fls_mean(value, upper))"),
    "bmm": (
        "mix of the means under lower and upper firing",
        "fls_mix[k] * fls_mean(value, lower) + (1.0f - fls_mix[k]) * fls_mean(value, upper)",
    ),
}

# Types of the tables that are not float, and bytes of those that do not have 4.
_TYPES = {"unit": "int16_t", "exponent": "int16_t", "form": "fls_halves", "slope": "fls_halves"}
_TYPES |= dict.fromkeys(("constant", "height", "intercept"), "int64_t")
_BYTES = {"fls_halves": 8, "int64_t": 8, "int16_t": 2}


class Work(NamedTuple):
    """Operations of one inference: those on integers and floats together, divisions, exponentials."""

    simple: int
    divisions: int
    exponentials: int


def work(plain: PlainSystem, sweeps: int | None = None) -> Work:
    """Operations of ``predict``, in the worst case or for a number of sweeps an end."""
    rules, inputs, outputs = plain.n_rules, plain.n_features, plain.n_outputs
    firings = rules * (1 if plain.kind == "t1" else 2)
    forms = firings if "s" in plain.uncertainty or plain.kind == "t1" else rules
    # A product of two numbers in halves is three of 32 bits, each added to a sum of 64.
    simple = 40 * inputs + forms * (12 * inputs + 3) + 10 * firings + outputs * rules * (6 * inputs * plain.order + 4)
    divisions, exponentials = outputs, firings
    if plain.type_reduction == "km":
        worst = sweeps is None
        ends = 2 * outputs * (sweep_bound(rules) if sweeps is None else sweeps)
        # Where firing spans too many scales, every sweep takes exponentials of its own.
        simple += ends * ((14 if worst else 6) * rules + 2) + 2 * outputs * rules
        divisions, exponentials = ends, ends * rules if worst else exponentials
    else:
        means = 2 if plain.type_reduction in ("bmm", "sm") else 1
        simple, divisions = simple + outputs * means * 3 * rules + 4 * outputs, outputs * means
    if plain.classes is not None:
        simple, divisions, exponentials = simple + 4 * outputs, divisions + outputs, exponentials + outputs
    return Work(simple, divisions, exponentials)


def float_header(
    plain: PlainSystem, *, prefix: str, exp: str, margins: Array | None, calibrated: CalibratedInterval | None = None
) -> CHeader:
    """The header of a system in float32; an error where its numbers span more than C in float holds."""
    own, n_bytes = _system(plain, exp, margins, interval=calibrated is None)
    table_bytes, flash_bytes = n_bytes, n_bytes + code_bytes(plain, CODE_BYTES)
    # Arrays on the stack: inputs and terms in halves, firing of the rules, their values.
    ram_bytes = _arrays(plain) + FRAME_BYTES[plain.kind]
    pieces = [own]
    if calibrated is not None:
        if calibrated.system is not None:
            # A system of its own, with names of its own.
            other, n_bytes = _system(calibrated.system, exp, None, interval=False)
            pieces.append(prefixed(other, "fls_interval"))
            table_bytes, flash_bytes = table_bytes + n_bytes, flash_bytes + n_bytes + code_bytes(plain, CODE_BYTES)
            ram_bytes = max(ram_bytes, _arrays(calibrated.system) + FRAME_BYTES[plain.kind])
        pieces.append(calibrated_interval(plain, calibrated))
        table_bytes, flash_bytes = table_bytes + 8 * plain.n_outputs, flash_bytes + 8 * plain.n_outputs + 400
        ram_bytes += 12 * plain.n_outputs + 40
    intro = _intro(plain, exp, table_bytes, flash_bytes - table_bytes, ram_bytes, margins, calibrated)
    lines = [intro, "#ifndef FLS_H", "#define FLS_H", "", "#ifdef __FAST_MATH__"]
    lines += ['#error "-ffast-math assumes NaN away and reorders sums: compile without it"', "#endif", ""]
    lines += ["#include <math.h>", "#include <stdint.h>", "#include <string.h>", "", *pieces, "#endif", ""]
    return CHeader(prefixed("\n".join(lines), prefix), table_bytes, flash_bytes, ram_bytes)


def _arrays(plain: PlainSystem) -> int:
    arrays = 24 * plain.n_features + (12 if plain.kind == "t1" else 20) * plain.n_rules
    return arrays + 4 * plain.n_outputs * (plain.classes is not None)


def _system(plain: PlainSystem, exp: str, margins: Array | None, *, interval: bool) -> tuple[str, int]:
    """Constants, tables and functions of a system, for the prefix ``fls``, and the bytes of its tables."""
    forms = Forms.of(plain)
    tables = _tables(plain, forms, margins)
    constants = {"INPUTS": str(plain.n_features), "RULES": str(plain.n_rules), "OUTPUTS": str(plain.n_outputs)}
    constants["SETS"] = f"{(1 if plain.kind == 't1' else 2) * plain.n_rules} /* firings: one a rule, or two */"
    if plain.kind == "it2":
        constants["SWEEPS"] = str(sweep_bound(plain.n_rules))
    constants |= {
        "BITS": f"{forms.bits} /* of half an integer of the tables */",
        "LAST": float_literal(2.0**-forms.bits),
        "ONE": f"({1 << DEPTH_BITS}) /* of a depth, which is minus a logarithm of firing relative to the strongest rule */",
        "DEPTH_UNIT": float_literal(2.0**-DEPTH_BITS),
        "DEPTH_SHIFT": f"({forms.depth_shift})",
        "DEEPEST": f"((int64_t){600 << DEPTH_BITS}) /* firing below e^-600 of the strongest counts as that */",
    }
    lines = [*(f"#define FLS_{name} {value}" for name, value in constants.items()), runtime.HALVES]

    def halves(value: int) -> str:
        return f"{{{int(value) >> forms.bits}, {int(value) & ((1 << forms.bits) - 1)}}}"

    for name, values in tables.items():
        kind = _TYPES.get(name, "float")
        literal: Any = {"float": float_literal, "fls_halves": halves, "int64_t": "{}LL".format, "int16_t": str}[kind]
        lines += documented_tables({name: values}, {}, kind, literal)
    lines.append(_code(plain, exp, margins, interval=interval))
    n_bytes = sum(_BYTES.get(_TYPES.get(name, "float"), 4) * values.size for name, values in tables.items())
    return "\n".join(lines), n_bytes


def _tables(plain: PlainSystem, forms: Forms, margins: Array | None) -> Mapping[str, Array]:
    """The tables by their names in the header, in the order of their use."""
    tables = {"origin": forms.origin, "unit": forms.unit_exponents}
    tables |= {"form": forms.terms, "constant": forms.constants}
    if plain.uncertainty == "h":
        tables["height"] = forms.heights
    tables |= {"offset": forms.offsets, "exponent": forms.exponents, "intercept": forms.intercepts}
    if plain.order == 1:
        tables["slope"] = forms.slopes
    if plain.type_reduction == "bmm":
        assert plain.mix is not None
        tables["mix"] = plain.mix
    if margins is not None:
        tables["margin"] = margins
    return tables


def _code(plain: PlainSystem, exp: str, margins: Array | None, *, interval: bool) -> str:
    """The functions of a header."""
    pieces = [runtime.NUMBERS, runtime.EXP_LIBM if exp == "libm" else runtime.EXP_BUILTIN, runtime.DEPTHS]
    if plain.order == 1:
        form = {"form": "fls_dot(fls_slope[p][k], in->z, FLS_INPUTS) + ", "scale": "in->exponent", "unused": ""}
    else:
        form = {"form": "", "scale": "0", "unused": "    (void)in;\n"}
    on_scale = " + in->exponent" if plain.order == 1 else ""
    consequents = filled(runtime.CONSEQUENTS, on_scale=on_scale, **form)
    classes = plain.classes is not None
    called = {"name": "fls_logits", "what": "Logits of the classes"} if classes else {"name": "fls_predict"}
    called.setdefault("what", "Crisp outputs")
    if plain.kind == "t1":
        fire = filled(runtime.FIRING, which="", first="0", place="", lower="")
        pieces += [fire, consequents, reduction.MEAN, filled(reduction.OUTPUTS_T1, **called)]
    else:
        if "s" in plain.uncertainty:
            parts = {"first": "0", "place": "", "lower": runtime.LOWER_OWN_WIDTH}
        else:
            parts = {"first": "FLS_RULES", "place": " - FLS_RULES", "lower": runtime.LOWER_HEIGHT}
        pieces += [filled(runtime.FIRING, which=", lower before upper", **parts), consequents, reduction.KARNIK_MENDEL]
        if plain.type_reduction == "km":
            pieces += [filled(reduction.OUTPUTS_KM, **called)]
        else:
            method, mean = _METHODS[plain.type_reduction]
            weights = reduction.WEIGHTS_NT if plain.type_reduction == "nt" else reduction.WEIGHTS_TWO_MEANS
            p = "p, " if plain.type_reduction == "nt" else ""
            direct = filled(reduction.OUTPUTS_DIRECT, method=method, weights=weights, mean=mean, p=p, **called)
            pieces += [reduction.MEAN, direct]
    if classes:
        pieces.append(reduction.CLASSES)
    if interval and (plain.kind == "it2" or margins is not None):
        pieces.append(_interval(plain, margins))
    return "".join(pieces)


def _interval(plain: PlainSystem, margins: Array | None) -> str:
    what = "Ends of the type-reduced set" if plain.kind == "it2" else "Crisp outputs"
    what += " of the logits" if plain.classes is not None else ""
    crisp = "fls_logits" if plain.classes is not None else "fls_predict"
    if margins is None:
        return filled(reduction.INTERVAL_IT2, what=what, body="    fls_reduce(x, y_left, y_right);")
    begin = "    int k;\n    " + ("fls_reduce(x, y_left, y_right);\n" if plain.kind == "it2" else f"{crisp}(x, y_left);\n")
    other = "y_right[k]" if plain.kind == "it2" else "y_left[k]"
    loop = (
        "    for (k = 0; k < FLS_OUTPUTS; ++k) {\n"
        f"        y_right[k] = {other} + fls_margin[k];\n"
        "        y_left[k] -= fls_margin[k];\n"
        "    }"
    )
    return filled(reduction.INTERVAL_IT2, what=f"{what}, less and plus a margin", body=begin + loop)


def _intro(
    plain: PlainSystem,
    exp: str,
    table_bytes: int,
    n_code: int,
    ram_bytes: int,
    margins: Array | None,
    calibrated: CalibratedInterval | None,
) -> str:
    from deepfls import __version__

    worst, usual = work(plain), work(plain, sweeps=4)
    lines = [f"Exported by deepfls {__version__}.", "", *described(plain), ""]
    lines += [*functions(plain, margins, told="" if calibrated is None else calibrated.told()), ""]
    if calibrated is not None and calibrated.system is not None:
        lines += [
            "The interval comes from a system of its own, fls_interval, with tables of its own: that which was trained"
        ]
        lines += ["without the rows held out, or the same with a local scale.", ""]
    lines += [
        f"Flash  {table_bytes:,} bytes of tables, and code of about {n_code:,} bytes"
        f"{' beside expf' if exp == 'libm' else ''} (gcc 12 -O2, Cortex-M4).",
        f"RAM    none static; about {ram_bytes:,} bytes of stack{' beside that of expf' if exp == 'libm' else ''}.",
    ]
    counts = f"{worst.simple:,} additions, multiplications and comparisons of integers and floats,"
    lines.append(f"Work   of fls_predict, at most: {counts}")
    lines.append(f"       {worst.divisions:,} divisions, {worst.exponentials:,} exponentials.")
    if worst != usual:
        lines.append(
            f"       Usual, 4 sweeps an end: {usual.simple:,}, {usual.divisions:,} and {usual.exponentials:,}; never more"
        )
        lines.append(f"       than {sweep_bound(plain.n_rules)} sweeps. No sort, no enumeration.")
    lines += [
        "",
        "NaN or infinity in an input gives NaN in every output. For any other input the outputs are within 1e-5 of what",
        "float64 gives, relative to them or to their spread where they are near zero, or infinite where a float cannot",
        "hold them. Not for -ffast-math, which assumes NaN away.",
        "All functions and tables are static: include the header in one source file.",
    ]
    return comment(lines)
