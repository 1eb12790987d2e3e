"""A trained system as one C99 header for microcontrollers, in float or in fixed point."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepfls._checks import check_export_size, check_identifier, check_margin, check_option
from deepfls.export import c_runtime as runtime
from deepfls.export.tables import FloatTables
from deepfls.export.text import c_table, comment_name, float_literal
from deepfls.model_file import write_whole
from deepfls.snapshot import Snapshot

Array = np.ndarray[Any, np.dtype[Any]]

NUMBERS = ("float", "q15", "q31")
EXPONENTIALS = ("libm", "builtin")
# What a small part has, where nothing else is said.
FLASH, RAM = 32_768, 8_192
# Bytes of code and of stack beside the arrays, rounded up from what gcc 12 -O2 makes for a Cortex-M4;
# tests/export/test_embedded.py holds them against the compiler.
CODE_BYTES = {"t1": 1_000, "it2": 2_000}
FRAME_BYTES = {"t1": 160, "it2": 240}

_METHODS = {
    "nt": ("Nie-Tan, mean with the sum of lower and upper firing as weights", "fls_mean(value, upper)"),
    "sm": ("mean of the means under lower and upper firing", "0.5f * (fls_mean(value, lower) + fls_mean(value, upper))"),
    "bmm": (
        "mix of the means under lower and upper firing",
        "fls_mix[k] * fls_mean(value, lower) + (1.0f - fls_mix[k]) * fls_mean(value, upper)",
    ),
}


class CHeader(NamedTuple):
    """A header and what it costs: bytes of tables, of flash (tables and code, without libm), and of stack."""

    text: str
    table_bytes: int
    flash_bytes: int
    ram_bytes: int


class Work(NamedTuple):
    """Operations of one inference: additions, multiplications and comparisons together, divisions, exponentials."""

    simple: int
    divisions: int
    exponentials: int


def sweep_bound(n_rules: int) -> int:
    """Largest number of Newton sweeps an end takes: one more than the rules in exact arithmetic; rounding may split a step."""
    return 2 * n_rules + 4


def work(snapshot: Snapshot, sweeps: int | None = None) -> Work:
    """Operations of ``predict``, in the worst case or for a number of sweeps an end."""
    rules, inputs, outputs = snapshot.n_rules, snapshot.n_features, snapshot.n_outputs
    per_set = 6 if snapshot.kind == "it2" and "s" in snapshot.uncertainty else 4
    simple = 5 * inputs + per_set * rules * inputs + 6 * rules + outputs * (3 * rules + 2)
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


def write_c(
    path: str | os.PathLike[str],
    snapshot: Snapshot,
    *,
    prefix: str | None = None,
    number: str = "float",
    exp: str = "libm",
    margin: Any = None,
    rows: Any = None,
    flash: int = FLASH,
    ram: int = RAM,
    force: bool = False,
) -> CHeader:
    """Write a system as a C99 header, whole or not at all.

    Parameters
    ----------
    path : path
    snapshot : Snapshot
    prefix : str, optional
        Begins every name in the header; the stem of the file by default.
    number : {"float", "q15", "q31"}
        Arithmetic of the inference: float32, or integers alone with inputs, outputs and tables of 16 or 32 bits.
    exp : {"libm", "builtin"}
        Where a header in float takes the exponential from: expf, or a polynomial of its own.
    margin : float or array, shape (outputs,), optional
        Added on both sides of the interval, such as the margin of a calibration.
    rows : array, shape (rows, features), optional
        Data on which fixed point is fitted and measured; drawn from the range of the training data by default.
    flash, ram : int
        Bytes that the part has.
    force : bool
        Write a header that needs more than that.

    Returns
    -------
    CHeader
        Named tuple (text, table_bytes, flash_bytes, ram_bytes).
    """
    header = c_header(snapshot, prefix=_prefix_of(path, prefix), number=number, exp=exp, margin=margin, rows=rows)
    check_export_size("The header", header.flash_bytes, header.ram_bytes, flash, ram, force=force)
    write_whole(Path(path), header.text.encode("ascii"))
    return header


def _prefix_of(path: str | os.PathLike[str], prefix: str | None) -> str:
    return check_identifier("prefix", Path(path).stem if prefix is None else prefix)


def c_header(
    snapshot: Snapshot, *, prefix: str, number: str = "float", exp: str = "libm", margin: Any = None, rows: Any = None
) -> CHeader:
    """The header that :func:`write_c` writes."""
    check_identifier("prefix", prefix)
    check_option("number", number, NUMBERS)
    check_option("exp", exp, EXPONENTIALS)
    margins = check_margin(margin, snapshot.n_outputs)
    if number != "float":
        from deepfls.export.c_fixed import fixed_header

        return fixed_header(snapshot, prefix=prefix, number=number, margins=margins, rows=rows)
    tables = _tables(snapshot, margins)
    table_bytes = sum(4 * values.size for values in tables.values())
    # Arrays on the stack: z, lower, upper, value, and one right end per output.
    n_rule_arrays = 2 if snapshot.kind == "t1" else 3
    arrays = 4 * (snapshot.n_features + n_rule_arrays * snapshot.n_rules + 2 * snapshot.n_outputs)
    flash_bytes, ram_bytes = table_bytes + CODE_BYTES[snapshot.kind], arrays + FRAME_BYTES[snapshot.kind]
    intro = _intro(snapshot, exp, table_bytes, ram_bytes, margins)
    constants = {"INPUTS": snapshot.n_features, "RULES": snapshot.n_rules, "OUTPUTS": snapshot.n_outputs}
    if snapshot.kind == "it2":
        constants["SWEEPS"] = sweep_bound(snapshot.n_rules)
    lines = [intro, "#ifndef FLS_H", "#define FLS_H", "", "#include <math.h>"]
    if exp == "builtin":
        lines += ["#include <stdint.h>", "#include <string.h>"]
    lines += ["", *(f"#define FLS_{name} {value}" for name, value in constants.items())]
    lines += [f"#define FLS_FARTHEST {float_literal(FloatTables.of(snapshot).farthest)}", ""]
    lines += [c_table("float", f"fls_{name}", values, float_literal) for name, values in tables.items()]
    lines += [_code(snapshot, exp, margins), "#endif", ""]
    return CHeader(prefixed("\n".join(lines), prefix), table_bytes, flash_bytes, ram_bytes)


def prefixed(source: str, prefix: str) -> str:
    """C with the prefix in place of ``fls``."""
    source = re.sub(r"\bfls_", f"{prefix}_", source)
    return re.sub(r"\bFLS_", f"{prefix.upper()}_", source)


def filled(piece: str, **parts: str) -> str:
    """A piece of C with ``{name}`` replaced; other braces are C's own."""
    for name, text in parts.items():
        piece = piece.replace(f"{{{name}}}", text)
    return piece


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


def described(snapshot: Snapshot) -> list[str]:
    """What a header says of its system, and the meaning of its inputs and outputs."""
    kind = "Type-1" if snapshot.kind == "t1" else "Interval Type-2"
    order = "linear" if snapshot.order == 1 else "constant"
    reduction = f", type reduction {snapshot.type_reduction}" if snapshot.kind == "it2" else ""
    lines = [
        f"{kind} TSK fuzzy system: {snapshot.n_features} input(s), {snapshot.n_rules} rule(s), "
        f"{snapshot.n_outputs} {'classes' if snapshot.classes is not None else 'output(s)'},",
        f"t-norm {snapshot.tnorm}, {order} consequents{reduction}.",
        "",
        "Inputs" + ("" if snapshot.input_range is None else ", with their range in the training data"),
    ]
    for m, name in enumerate(snapshot.feature_names):
        seen = ""
        if snapshot.input_range is not None:
            seen = f"  {snapshot.input_range[0, m]:.7g} to {snapshot.input_range[1, m]:.7g}"
        lines.append(f"  x[{m}]  {comment_name(name)}{seen}")
    lines += ["", "Classes" if snapshot.classes is not None else "Outputs"]
    lines += [f"  y[{k}]  {comment_name(name)}" for k, name in enumerate(snapshot.output_names)]
    return lines


def functions(snapshot: Snapshot, margins: Array | None, real: str = "float") -> list[str]:
    """The functions of a header, for its comment."""
    inputs, outputs = snapshot.n_features, snapshot.n_outputs
    crisp = "probabilities of the classes" if snapshot.classes is not None else "crisp outputs"
    lines = ["Functions", f"  fls_predict(const {real} x[{inputs}], {real} y[{outputs}])", f"    {crisp}"]
    if snapshot.classes is not None:
        lines += [f"  fls_classify(const {real} x[{inputs}])", "    index of the most probable class"]
        lines += [f"  fls_logits(const {real} x[{inputs}], {real} y[{outputs}])", "    outputs of the system, whose softmax"]
        lines[-1] += " are the probabilities"
    if snapshot.kind == "it2" or margins is not None:
        set_ = "the type-reduced set" if snapshot.kind == "it2" else "the crisp outputs"
        set_ += " of the logits" if snapshot.classes is not None else ""
        set_ += ", with a margin on both sides" if margins is not None else "; not calibrated to a coverage"
        lines.append(f"  fls_predict_interval(const {real} x[{inputs}], {real} y_left[{outputs}], {real} y_right[{outputs}])")
        lines.append(f"    {set_}")
    return lines


def comment(lines: list[str]) -> str:
    """Lines as one C comment."""
    return "/*\n" + "\n".join(f" * {line}".rstrip() for line in lines) + "\n */"


def _intro(snapshot: Snapshot, exp: str, table_bytes: int, ram_bytes: int, margins: Array | None) -> str:
    from deepfls import __version__

    worst, usual = work(snapshot), work(snapshot, sweeps=3)
    lines = [f"Exported by deepfls {__version__}.", "", *described(snapshot), "", *functions(snapshot, margins), ""]
    lines += [
        f"Flash  {table_bytes:,} bytes of tables, and code of about {CODE_BYTES[snapshot.kind]:,} bytes"
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
