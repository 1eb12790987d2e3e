"""A C99 header in float32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from deepfls.export import c_runtime as runtime
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
from deepfls.export.tables import FloatTables
from deepfls.export.text import float_literal
from deepfls.snapshot import Snapshot

Array = np.ndarray[Any, np.dtype[Any]]

# Bytes of code and of stack beside the arrays, rounded up from what gcc 12 -O2 makes for a Cortex-M4;
# tests/export/test_embedded.py holds them against the compiler.
CODE_BYTES = {"t1": 700, "it2": 2_000}
FRAME_BYTES = {"t1": 100, "it2": 160}

_METHODS = {
    "nt": ("Nie-Tan, mean with the sum of lower and upper firing as weights", "fls_mean(value, upper)"),
    "sm": ("mean of the means under lower and upper firing", "0.5f * (fls_mean(value, lower) + fls_mean(value, upper))"),
    "bmm": (
        "mix of the means under lower and upper firing",
        "fls_mix[k] * fls_mean(value, lower) + (1.0f - fls_mix[k]) * fls_mean(value, upper)",
    ),
}


class Work(NamedTuple):
    """Operations of one inference: additions, multiplications and comparisons together, divisions, exponentials."""

    simple: int
    divisions: int
    exponentials: int


def work(snapshot: Snapshot, sweeps: int | None = None) -> Work:
    """Operations of ``predict``, in the worst case or for a number of sweeps an end."""
    rules, inputs, outputs = snapshot.n_rules, snapshot.n_features, snapshot.n_outputs
    per_set = 6 if snapshot.kind == "it2" and "s" in snapshot.uncertainty else 4
    simple = 5 * inputs + per_set * rules * inputs + 6 * rules + outputs * (3 * rules + 6)
    simple += 2 * outputs * rules * inputs * snapshot.order
    divisions, exponentials = outputs, rules * (1 if snapshot.kind == "t1" else 2)
    if snapshot.kind == "it2" and snapshot.type_reduction == "km":
        worst = sweeps is None
        ends = 2 * outputs * (sweep_bound(rules) if sweeps is None else sweeps)
        # Where firing spans too many scales, every sweep takes exponentials of its own.
        simple += ends * ((11 if worst else 6) * rules + 2)
        divisions += ends
        exponentials = (ends + outputs) * rules if worst else exponentials
    elif snapshot.kind == "it2":
        simple += outputs * 3 * rules
        divisions += outputs * (snapshot.type_reduction != "nt")
    if snapshot.classes is not None:
        simple, divisions, exponentials = simple + 4 * outputs, divisions + outputs, exponentials + outputs
    return Work(simple, divisions, exponentials)


def float_header(snapshot: Snapshot, *, prefix: str, exp: str, margins: Array | None) -> CHeader:
    """The header of a system in float32; an error where float32 cannot hold it."""
    tables = _tables(snapshot, margins)
    table_bytes = sum(4 * values.size for values in tables.values())
    # Arrays on the stack: z, lower, upper, value, and one right end per output.
    n_rule_arrays = 2 if snapshot.kind == "t1" else 3
    arrays = 4 * (snapshot.n_features + n_rule_arrays * snapshot.n_rules + 2 * snapshot.n_outputs)
    flash_bytes, ram_bytes = table_bytes + code_bytes(snapshot, CODE_BYTES), arrays + FRAME_BYTES[snapshot.kind]
    intro = _intro(snapshot, exp, table_bytes, ram_bytes, margins)
    constants = {"INPUTS": snapshot.n_features, "RULES": snapshot.n_rules, "OUTPUTS": snapshot.n_outputs}
    if snapshot.kind == "it2":
        constants["SWEEPS"] = sweep_bound(snapshot.n_rules)
    lines = [intro, "#ifndef FLS_H", "#define FLS_H", "", "#include <math.h>"]
    if exp == "builtin":
        lines += ["#include <stdint.h>", "#include <string.h>"]
    lines += ["", *(f"#define FLS_{name} {value}" for name, value in constants.items())]
    lines += [f"#define FLS_FARTHEST {float_literal(FloatTables.of(snapshot).farthest)}", ""]
    lines += documented_tables(tables, {}, "float", float_literal)
    lines += [_code(snapshot, exp, margins), "#endif", ""]
    return CHeader(prefixed("\n".join(lines), prefix), table_bytes, flash_bytes, ram_bytes)


def _tables(snapshot: Snapshot, margins: Array | None) -> Mapping[str, Array]:
    """The tables by their names in the header, in the order of their use."""
    t = FloatTables.of(snapshot)
    tables = {"origin": t.origin, "per_unit": 1.0 / t.units, "center": t.centers}
    if snapshot.kind == "t1":
        tables["weight"] = t.upper_weights
    else:
        if "s" in snapshot.uncertainty:
            tables["lower_weight"] = t.lower_weights
        tables["upper_weight"] = t.upper_weights
        if "h" in snapshot.uncertainty:
            tables["log_height"] = t.log_heights
    tables |= {"offset": t.offsets, "intercept": t.intercepts}
    if snapshot.order == 1:
        tables["slope"] = t.slopes
    if snapshot.type_reduction == "bmm":
        assert snapshot.mix is not None
        tables["mix"] = snapshot.mix
    if margins is not None:
        tables["margin"] = margins
    return tables


def _code(snapshot: Snapshot, exp: str, margins: Array | None) -> str:
    """The functions of a header."""
    pieces = [runtime.EXP_LIBM if exp == "libm" else runtime.EXP_BUILTIN, runtime.SCALED]
    z = "z, " if snapshot.order == 1 else ""
    consequents = runtime.CONSEQUENTS if snapshot.order == 1 else runtime.CONSEQUENTS_ORDER_0
    classes = snapshot.classes is not None
    called = {"name": "fls_logits", "what": "Logits of the classes"} if classes else {"name": "fls_predict"}
    called.setdefault("what", "Crisp outputs")
    if snapshot.kind == "t1":
        pieces += [runtime.FIRING_T1, consequents, runtime.MEAN, filled(runtime.OUTPUTS_T1, z=z, **called)]
    else:
        height = "fls_log_height[p]" if "h" in snapshot.uncertainty else "0.0f"
        sets = runtime.SETS_TWO_WIDTHS if "s" in snapshot.uncertainty else runtime.SETS_ONE_WIDTH
        pieces += [filled(runtime.FIRING_IT2, sets=filled(sets, height=height)), consequents]
        pieces += [filled(runtime.KARNIK_MENDEL, z=z)]
        if snapshot.type_reduction == "km":
            pieces += [filled(runtime.OUTPUTS_KM, **called)]
        else:
            method, mean = _METHODS[snapshot.type_reduction]
            weights = runtime.WEIGHTS_NT if snapshot.type_reduction == "nt" else runtime.WEIGHTS_TWO_MEANS
            direct = filled(runtime.OUTPUTS_DIRECT, method=method, weights=weights, mean=mean, z=z, **called)
            pieces += [runtime.MEAN, direct]
    if classes:
        pieces.append(runtime.CLASSES)
    if snapshot.kind == "it2" or margins is not None:
        pieces.append(_interval(snapshot, margins))
    return "".join(pieces)


def _interval(snapshot: Snapshot, margins: Array | None) -> str:
    what = "Ends of the type-reduced set" if snapshot.kind == "it2" else "Crisp outputs"
    what += " of the logits" if snapshot.classes is not None else ""
    crisp = "fls_logits" if snapshot.classes is not None else "fls_predict"
    if margins is None:
        return filled(runtime.INTERVAL_IT2, what=what, body="    (void)fls_reduce(x, y_left, y_right);")
    begin = "    int k;\n    " + (
        "(void)fls_reduce(x, y_left, y_right);\n" if snapshot.kind == "it2" else f"{crisp}(x, y_left);\n"
    )
    other = "y_right[k]" if snapshot.kind == "it2" else "y_left[k]"
    loop = (
        "    for (k = 0; k < FLS_OUTPUTS; ++k) {\n"
        f"        y_right[k] = {other} + fls_margin[k];\n"
        "        y_left[k] -= fls_margin[k];\n"
        "    }"
    )
    return filled(runtime.INTERVAL_IT2, what=f"{what}, less and plus a margin", body=begin + loop)


def _intro(snapshot: Snapshot, exp: str, table_bytes: int, ram_bytes: int, margins: Array | None) -> str:
    from deepfls import __version__

    worst, usual = work(snapshot), work(snapshot, sweeps=3)
    lines = [f"Exported by deepfls {__version__}.", "", *described(snapshot), "", *functions(snapshot, margins), ""]
    lines += [
        f"Flash  {table_bytes:,} bytes of tables, and code of about {code_bytes(snapshot, CODE_BYTES):,} bytes"
        f"{' beside expf' if exp == 'libm' else ''} (gcc 12 -O2, Cortex-M4).",
        f"RAM    none static; about {ram_bytes:,} bytes of stack{' beside that of expf' if exp == 'libm' else ''}.",
    ]
    counts = f"{worst.simple:,} additions, multiplications and comparisons, {worst.divisions:,} divisions,"
    lines += [f"Work   of fls_predict, at most: {counts}", f"       {worst.exponentials:,} exponentials."]
    if worst != usual:
        lines[-1] += (
            f" Usual, 3 sweeps an end: {usual.simple:,}, {usual.divisions:,} and {usual.exponentials:,}; never more than "
        )
        lines.append(f"       {sweep_bound(snapshot.n_rules)} sweeps. No sort, no enumeration.")
    lines += [
        "",
        "NaN in an input gives NaN in every output. An input further than FLS_FARTHEST units (1 / fls_per_unit) from",
        "fls_origin, infinity included, counts as that far. Do not compile with -ffast-math, which assumes NaN away.",
        "All functions and tables are static: include the header in one source file.",
    ]
    return comment(lines)
