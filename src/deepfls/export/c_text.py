"""What every C header says, and how its text is put together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from deepfls.export.text import c_table, comment_name
from deepfls.inspection.plain import PlainSystem

Array = np.ndarray[Any, np.dtype[Any]]

# What the tables hold, by their names in a header.
MEANINGS = {
    "origin": "Middle of every input, taken off before anything else: nothing cancels far from zero.",
    "unit": "Exponents of two of the units of the inputs.",
    "form": "Coefficients of squares, then of inputs, in minus the logarithm of firing; lower sets first: [set][term].",
    "constant": "What that is at the origin: [set].",
    "exponent": "Exponents of two of the scales of the outputs.",
    "center": "Centers of the sets from the middle of the input: [rule][input].",
    "height": "Minus the logarithm of the height of every rule's lower firing: [rule].",
    "offset": "Middle of every output, added at the end.",
    "intercept": "Outputs of the rules at the middle of the inputs, less the offset: [rule][output].",
    "slope": "Slopes of the outputs of the rules: [rule][output][input].",
    "mix": "Share of the mean under lower firing: [output].",
    "gain": "Share of the type-reduced set in the interval: [output].",
    "reach": "What is added to it on both sides: [output].",
    "margin": "Margin of the interval: [output].",
    "power": "2^(-i/32) with 30 bits behind the point.",
    "inverse": "1 / (sqrt(2) width) of the sets: [rule][input].",
    "lower_inverse": "1 / (sqrt(2) width) of the lower sets: [rule][input].",
    "upper_inverse": "1 / (sqrt(2) width) of the upper sets: [rule][input].",
}


class CHeader(NamedTuple):
    """A header and what it costs: bytes of tables, of flash (tables and code, without libm), and of stack.

    ``error`` is the largest error of fixed point as a share of the output's range; None in float.
    """

    text: str
    table_bytes: int
    flash_bytes: int
    ram_bytes: int
    error: float | None = None


def sweep_bound(n_rules: int) -> int:
    """Most Newton sweeps that an end takes: rules + 2 in exact arithmetic; rounding may split a step."""
    return 2 * n_rules + 4


def code_bytes(plain: PlainSystem, base: Mapping[str, int]) -> int:
    """Bytes of code of all functions of a header: more where classes or a second way to a crisp output come on top."""
    direct = plain.kind == "it2" and plain.type_reduction != "km"
    return base[plain.kind] + base["classes"] * (plain.classes is not None) + base["direct"] * direct


def prefixed(source: str, prefix: str) -> str:
    """C with the prefix in place of ``fls``."""
    source = re.sub(r"\bfls_", f"{prefix}_", source)
    return re.sub(r"\bFLS_", f"{prefix.upper()}_", source)


def filled(piece: str, **parts: str) -> str:
    """A piece of C with ``{name}`` replaced; other braces are C's own."""
    for name, text in parts.items():
        piece = piece.replace(f"{{{name}}}", text)
    return piece


def counted(count: int, noun: str, plural: str = "s") -> str:
    """A count with its noun."""
    return f"{count:,} {noun}{plural * (count != 1)}"


def documented_tables(tables: Mapping[str, Array], types: Mapping[str, str], default: str, literal: Any) -> list[str]:
    """Tables as C, each under a line that says what it holds."""
    lines = []
    for name, values in tables.items():
        lines += [f"/* {MEANINGS[name]} */", c_table(types.get(name, default), f"fls_{name}", values, literal)]
    return lines


def comment(lines: list[str]) -> str:
    """Lines as one C comment."""
    return "/*\n" + "\n".join(f" * {line}".rstrip() for line in lines) + "\n */"


def described(plain: PlainSystem) -> list[str]:
    """What a header says of its system, and the meaning of its inputs and outputs."""
    kind = "Type-1" if plain.kind == "t1" else "Interval Type-2"
    order = "linear" if plain.order == 1 else "constant"
    reduction = f", type reduction {plain.type_reduction}" if plain.kind == "it2" else ""
    what = counted(plain.n_outputs, "output") if plain.classes is None else counted(plain.n_outputs, "class", "es")
    lines = [
        f"{kind} TSK fuzzy system: {counted(plain.n_features, 'input')}, {counted(plain.n_rules, 'rule')}, {what},",
        f"t-norm {plain.tnorm}, {order} consequents{reduction}.",
        "",
        "Inputs" + ("" if plain.input_range is None else ", with their range in the training data"),
    ]
    for m, name in enumerate(plain.feature_names):
        seen = ""
        if plain.input_range is not None:
            seen = f"  {plain.input_range[0, m]:.7g} to {plain.input_range[1, m]:.7g}"
        lines.append(f"  x[{m}]  {comment_name(name)}{seen}")
    lines += ["", "Classes" if plain.classes is not None else "Outputs"]
    lines += [f"  y[{k}]  {comment_name(name)}" for k, name in enumerate(plain.output_names)]
    return lines


def functions(plain: PlainSystem, margins: Array | None, real: str = "float", told: str = "") -> list[str]:
    """The functions of a header, for its comment; ``told`` says what a calibrated interval is."""
    inputs, outputs = plain.n_features, plain.n_outputs
    crisp = "probabilities of the classes" if plain.classes is not None else "crisp outputs"
    lines = ["Functions", f"  fls_predict(const {real} x[{inputs}], {real} y[{outputs}])", f"    {crisp}"]
    if plain.classes is not None:
        lines += [f"  fls_classify(const {real} x[{inputs}])", "    index of the most probable class"]
        lines += [
            f"  fls_logits(const {real} x[{inputs}], {real} y[{outputs}])",
            "    outputs of the system, whose softmax",
        ]
        lines[-1] += " are the probabilities"
    if plain.kind == "it2" or margins is not None or told:
        set_ = "the type-reduced set" if plain.kind == "it2" else "the crisp outputs"
        set_ += " of the logits" if plain.classes is not None else ""
        set_ += ", with a margin on both sides" if margins is not None else "; not calibrated to a coverage"
        lines.append(
            f"  fls_predict_interval(const {real} x[{inputs}], {real} y_left[{outputs}], {real} y_right[{outputs}])"
        )
        lines.append(f"    {told or set_}")
    return lines
