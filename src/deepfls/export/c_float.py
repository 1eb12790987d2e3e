"""A C99 header in float32: tables, sizes and operation counts for ``templates/float.h``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from deepfls.export.calibrated import CalibratedInterval
from deepfls.export.centered import CenteredIntegers
from deepfls.export.rendering import CTable, render
from deepfls.functional.constants import LOG_FLOORS, max_sweeps
from deepfls.inspection.plain import PlainSystem

Array = np.ndarray[Any, np.dtype[Any]]

# Bytes of code and of stack without arrays, rounded up from those of gcc 12 -O2 for a Cortex-M4;
# tests/export/test_embedded.py compares them with the compiler.
CODE_BYTES = {"t1": 1_650, "it2": 2_300, "classes": 1_000, "direct": 1_400, "calibrated": 400}
FRAME_BYTES = {"t1": 140, "it2": 180}


class CHeader(NamedTuple):
    """A header and its costs: bytes of tables, of flash (tables and code, without libm), and of stack.

    ``error`` is the largest error of fixed point as a share of the output's range; None in float.
    """

    text: str
    table_bytes: int
    flash_bytes: int
    ram_bytes: int
    error: float | None = None


class OperationCounts(NamedTuple):
    """Operations of one inference: simple ones on integers and floats together, divisions, exponentials."""

    simple: int
    divisions: int
    exponentials: int


@dataclass(frozen=True)
class _SystemPart:
    """A system of a header; ``suffix`` extends the prefix of its names."""

    suffix: str
    plain: PlainSystem
    integers: CenteredIntegers
    tables: Mapping[str, CTable]


def operation_counts(plain: PlainSystem, sweeps: int | None = None) -> OperationCounts:
    """Operations of ``predict``, in the worst case or for a number of sweeps per end point."""
    rules, inputs, outputs = plain.n_rules, plain.n_features, plain.n_outputs
    firings = rules * (1 if plain.kind == "t1" else 2)
    forms = firings if "s" in plain.uncertainty or plain.kind == "t1" else rules
    # A product of two numbers in halves is three of 32 bits, each added to a sum of 64.
    simple = 40 * inputs + forms * (12 * inputs + 3) + 10 * firings + outputs * rules * (6 * inputs * plain.order + 4)
    divisions, exponentials = outputs, firings
    if plain.type_reduction == "km":
        worst = sweeps is None
        ends = 2 * outputs * (max_sweeps(rules) if sweeps is None else sweeps)
        # If firing spans too many scales, every sweep computes its own exponentials.
        simple += ends * ((14 if worst else 6) * rules + 2) + 2 * outputs * rules
        divisions, exponentials = ends, ends * rules if worst else exponentials
    else:
        means = 2 if plain.type_reduction in ("bmm", "sm") else 1
        simple, divisions = simple + outputs * means * 3 * rules + 4 * outputs, outputs * means
    if plain.classes is not None:
        simple, divisions, exponentials = simple + 4 * outputs, divisions + outputs, exponentials + outputs
    return OperationCounts(simple, divisions, exponentials)


def code_bytes(plain: PlainSystem, base: Mapping[str, int]) -> int:
    """Bytes of code of all functions: classes, and a crisp output that is not the midpoint of the set, need more."""
    direct = plain.kind == "it2" and plain.type_reduction != "km"
    return base[plain.kind] + base["classes"] * (plain.classes is not None) + base["direct"] * direct


def interval_text(plain: PlainSystem, margins: Array | None) -> str:
    """What an uncalibrated interval is, for comments of a header; empty if there is none."""
    if plain.kind == "t1" and margins is None:
        return ""
    crisp = "crisp outputs" if plain.classes is None else "logits"
    text = crisp if plain.kind == "t1" else "type-reduced set" + (" of the logits" if plain.classes is not None else "")
    return text + ("; not calibrated to a coverage" if margins is None else ", with a margin on both sides")


def float_header(
    plain: PlainSystem, *, prefix: str, exp: str, margins: Array | None, calibrated: CalibratedInterval | None = None
) -> CHeader:
    """The header of a system in float32; an error if its numbers span more than C in float can hold."""
    from deepfls import __version__

    parts = [_part("", plain)]
    if calibrated is not None and calibrated.system is not None:
        parts.append(_part("_interval", calibrated.system))
    interval_tables = _interval_tables(plain, margins, calibrated)
    tables = [*interval_tables.values(), *(table for part in parts for table in part.tables.values())]
    table_bytes = sum(table.n_bytes for table in tables)
    n_code = len(parts) * code_bytes(plain, CODE_BYTES)
    ram_bytes = max(_array_bytes(part.plain) for part in parts) + FRAME_BYTES[plain.kind]
    if calibrated is not None:
        n_code += CODE_BYTES["calibrated"]
        ram_bytes += 12 * plain.n_outputs + 40
    text = render(
        "float.h",
        version=__version__,
        prefix=prefix,
        real="float",
        plain=plain,
        parts=parts,
        exp=exp,
        calibrated=calibrated,
        interval_tables=interval_tables,
        interval_text=interval_text(plain, margins) if calibrated is None else calibrated.text,
        smallest_weight=math.exp(LOG_FLOORS[torch.float32]),
        table_bytes=table_bytes,
        code_bytes=n_code,
        ram_bytes=ram_bytes,
        worst=operation_counts(plain),
        usual=operation_counts(plain, sweeps=4),
    )
    return CHeader(text, table_bytes, table_bytes + n_code, ram_bytes)


def _array_bytes(plain: PlainSystem) -> int:
    """Arrays on the stack: inputs and terms in halves, firing of the rules, outputs of the rules."""
    arrays = 24 * plain.n_features + (12 if plain.kind == "t1" else 20) * plain.n_rules
    return arrays + 4 * plain.n_outputs * (plain.classes is not None)


def _part(suffix: str, plain: PlainSystem) -> _SystemPart:
    integers = CenteredIntegers.of(plain)
    tables = {
        "origin": CTable(integers.origin, "float"),
        "unit": CTable(integers.unit_exponents, "int16_t"),
        "form": CTable(integers.terms, "halves", integers.bits),
        "constant": CTable(integers.constants, "int64_t"),
        "offset": CTable(integers.offsets, "float"),
        "exponent": CTable(integers.exponents, "int16_t"),
        "intercept": CTable(integers.intercepts, "int64_t"),
    }
    if plain.uncertainty == "h":
        tables["height"] = CTable(integers.heights, "int64_t")
    if plain.order == 1:
        tables["slope"] = CTable(integers.slopes, "halves", integers.bits)
    if plain.type_reduction == "bmm":
        assert plain.mix is not None
        tables["mix"] = CTable(plain.mix, "float")
    return _SystemPart(suffix, plain, integers, tables)


def _interval_tables(plain: PlainSystem, margins: Array | None, calibrated: CalibratedInterval | None) -> dict[str, CTable]:
    if calibrated is None:
        return {} if margins is None else {"margin": CTable(margins, "float")}
    gains = {"gain": CTable(calibrated.gain, "float")} if plain.kind == "it2" and calibrated.gain.any() else {}
    return {**gains, "reach": CTable(calibrated.reach, "float")}
