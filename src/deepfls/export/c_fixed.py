"""A C99 header in fixed point, for cores without a floating-point unit: tables and sizes for ``templates/fixed.h``."""

from __future__ import annotations

from typing import Any

import numpy as np

from deepfls.export import fixed_point
from deepfls.export.c_float import CHeader, code_bytes, interval_text
from deepfls.export.fixed_point import EXPONENT_BITS, FixedPoint, check_error
from deepfls.export.rendering import CTable, render
from deepfls.export.targets import check_holdable
from deepfls.inspection.plain import PlainSystem

Array = np.ndarray[Any, np.dtype[Any]]

# Bytes of code and of stack without arrays, rounded up from those of gcc 12 -O2 for a Cortex-M3.
CODE_BYTES = {"t1": 700, "it2": 2_300, "classes": 1_000, "direct": 1_000}
FRAME_BYTES = {"t1": 160, "it2": 260}


def fixed_header(plain: PlainSystem, *, prefix: str, number: str, margins: Array | None, rows: Any) -> CHeader:
    """The header of a system in fixed point; an error if the integers cannot hold it."""
    from deepfls import __version__

    fixed = FixedPoint.of(plain, number, rows)
    error = fixed.error(rows)
    check_error(number, error)
    tables = _tables(fixed, margins)
    table_bytes = sum(table.n_bytes for table in tables.values())
    n_code = code_bytes(plain, CODE_BYTES)
    arrays = 4 * (plain.n_features + (2 if plain.kind == "t1" else 3) * plain.n_rules + 3 * plain.n_outputs)
    ram_bytes = arrays + FRAME_BYTES[plain.kind]
    # From half ranges of the logits to units of the exponent.
    logit_bits = 30 - int(np.ceil(np.log2(fixed.output_half[0])))
    scalings = ("input_middle", "input_half", "output_middle", "output_half")
    text = render(
        "fixed.h",
        version=__version__,
        prefix=prefix,
        real=f"{prefix}_q",
        plain=plain,
        fixed=fixed,
        error=error,
        tables=tables,
        constants=fixed_point,
        sweeps=fixed_point.sweep_bound(plain.n_rules),
        interval_text=interval_text(plain, margins),
        logit_factor=round(float(fixed.output_half[0]) * 2.0**logit_bits),
        logit_shift=fixed.value_bits + logit_bits - EXPONENT_BITS,
        conversion={name: CTable(getattr(fixed, name), "float") for name in scalings},
        table_bytes=table_bytes,
        code_bytes=n_code,
        ram_bytes=ram_bytes,
    )
    share = float((error.largest / error.ranges).max())
    return CHeader(text, table_bytes, table_bytes + n_code, ram_bytes, share)


def _tables(fixed: FixedPoint, margins: Array | None) -> dict[str, CTable]:
    plain = fixed.plain
    narrow = "int16_t" if fixed.number == "q15" else "int32_t"
    tables = {
        "power": CTable(fixed_point.POWERS, "int32_t"),
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
        check_holdable("margin in half ranges of the output", shares, 2.0)
        tables["margin"] = CTable(np.round(shares * 2.0**fixed.value_bits).astype(np.int64), "int32_t")
    return tables
