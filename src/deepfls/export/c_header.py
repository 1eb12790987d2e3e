"""A trained system as one C99 header for microcontrollers, in float32 or in fixed point: tables, sizes, operation counts.

The text of a header is in ``templates/float.h`` and ``templates/fixed.h``. Fixed point is for cores without a
floating-point unit.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepfls._checks.arguments import check_count, check_number, check_option
from deepfls._checks.values import Array
from deepfls._files import write_whole
from deepfls.export import fixed_point
from deepfls.export.calibrated import CalibratedInterval
from deepfls.export.centered import CenteredIntegers
from deepfls.export.fixed_point import EXPONENT_BITS, FixedPoint, check_error
from deepfls.export.targets import ColumnForm, CTable, check_holdable, check_type_reduction, refuse_form, render
from deepfls.functional.constants import LOG_FLOORS, max_sweeps
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.plain_model import AnyModel

NUMBERS = ("float", "q15", "q31")
EXPONENTIALS = ("libm", "builtin")
_LONGEST_PREFIX = 40
_LARGEST_FLOAT = float(np.finfo(np.float32).max)
# Bytes of code and of stack without arrays, rounded up from those of gcc 12 -O2 for a Cortex-M4 (float) and a Cortex-M3
# (fixed point); tests/export/test_embedded.py compares them with the compiler.
_FLOAT_CODE = {"t1": 1_650, "it2": 2_300, "classes": 1_000, "direct": 1_400, "calibrated": 400, "mean": 150}
_FIXED_CODE = {"t1": 700, "it2": 2_300, "classes": 1_000, "direct": 1_000}
_FLOAT_FRAME = {"t1": 140, "it2": 180}
_FIXED_FRAME = {"t1": 160, "it2": 260}


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


class CReport(NamedTuple):
    """The file that was written, and its costs: see :class:`CHeader`."""

    path: str
    table_bytes: int
    flash_bytes: int
    ram_bytes: int
    error: float | None

    def __str__(self) -> str:
        error = "" if self.error is None else f"; within {100 * self.error:.2g} % of the output's range"
        return (
            f"{self.path}: about {self.flash_bytes:,} bytes of flash ({self.table_bytes:,} of tables), "
            f"{self.ram_bytes:,} bytes of stack{error}"
        )


class _SystemPart(NamedTuple):
    """A system of a header; ``suffix`` extends the prefix of its names.

    ``share`` is its share in the crisp outputs, and ``set_share`` that in the type-reduced set.
    """

    suffix: str
    plain: PlainSystem
    integers: CenteredIntegers
    tables: Mapping[str, CTable]
    share: float = 1.0
    set_share: float = 1.0


def c_header(
    plain: AnyModel,
    *,
    prefix: str,
    number: str = "float",
    exp: str = "libm",
    margin: Any = None,
    calibrated: CalibratedInterval | None = None,
    rows: Any = None,
) -> CHeader:
    """The header of a system; :meth:`FLSRegressor.to_c` has the parameters.

    ``margin`` are numbers or None. ``calibrated`` is the interval, if it is not the type-reduced set.
    """
    _check_prefix(prefix)
    check_option("number", number, NUMBERS)
    check_option("exp", exp, EXPONENTIALS)
    check_type_reduction("A C header", plain)
    margins = _checked_margins(margin, plain.n_outputs)
    if number == "float":
        return _float_header(plain, prefix=prefix, exp=exp, margins=margins, calibrated=calibrated)
    if len(plain.systems) > 1:
        # Every system has its own ranges of integers, so a mean would need a conversion of each.
        reason = f"its output is a mean over {len(plain.systems)} systems, each with integers of its own"
        refuse_form("A C header in fixed point", reason, 'number="float" takes it')
    (system,) = plain.systems
    if system.alphas is not None:
        refuse_form("A C header in fixed point", "its output is a mean over planes", "export one of them with plane=")
    if calibrated is not None:
        margins = calibrated.margin()
    return _fixed_header(system, prefix=prefix, number=number, margins=margins, rows=rows)


def _check_prefix(prefix: Any) -> None:
    """Require a prefix that makes legal names in C and C++; the error suggests one."""
    if not isinstance(prefix, str):
        raise TypeError(f"prefix must be a string, got {prefix!r}.")
    # A leading or double underscore is reserved for the compiler.
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", prefix) and len(prefix) <= _LONGEST_PREFIX:
        return
    plain = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9]", "_", prefix)).strip("_")[:_LONGEST_PREFIX].rstrip("_")
    suggestion = plain if plain[:1].isalpha() else f"model_{plain}".rstrip("_")[:_LONGEST_PREFIX]
    raise ValueError(
        "prefix must be a C identifier of letters, digits and single underscores that begins with a letter, at most "
        f"{_LONGEST_PREFIX} characters, got {prefix!r}: try prefix={suggestion!r}."
    )


def _checked_margins(margin: Any, n_outputs: int) -> Array | None:
    """Margins of intervals, one per output, not negative; None if none are given."""
    if margin is None:
        return None
    values = np.atleast_1d(np.asarray(margin, dtype=np.float64))
    if values.shape not in ((1,), (n_outputs,)):
        raise ValueError(f"margin must be a number or have shape ({n_outputs},), got shape {values.shape}.")
    for value in values:
        check_number("margin", float(value), minimum=0.0)
    return np.broadcast_to(values, (n_outputs,)).copy()


def write_c(path: str | os.PathLike[str], header: CHeader, *, flash: int, ram: int, force: bool = False) -> CReport:
    """Write a header, completely or not at all; unless ``force`` it must fit so many bytes of a microcontroller."""
    flash, ram = check_count("flash", flash), check_count("ram", ram)
    if not force and (header.flash_bytes > flash or header.ram_bytes > ram):
        raise ValueError(
            f"The header must fit {flash:,} bytes of flash and {ram:,} bytes of RAM, got about {header.flash_bytes:,} and "
            f"{header.ram_bytes:,}: train fewer rules, state a larger part with flash and ram, or force it."
        )
    write_whole(Path(path), header.text.encode("ascii"))
    return CReport(str(path), *header[1:])


def operation_counts(model: AnyModel, sweeps: int | None = None) -> OperationCounts:
    """Operations of ``predict``, in the worst case or for a number of sweeps per end point."""
    if len(model.systems) > 1:
        each = [operation_counts(system, sweeps) for system in model.systems]
        return OperationCounts(*map(sum, zip(*each, strict=True)))
    (plain,) = model.systems
    if plain.alphas is not None:
        planes = [operation_counts(plain.plane(float(alpha)), sweeps) for alpha in plain.alphas]
        return OperationCounts(*map(sum, zip(*planes, strict=True)))
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


def _code_bytes(plain: PlainSystem, base: Mapping[str, int]) -> int:
    """Bytes of code of all functions: classes, and a crisp output that is not the midpoint of the set, need more."""
    direct = plain.kind == "it2" and plain.type_reduction != "km"
    return base[plain.kind] + base["classes"] * (plain.classes is not None) + base["direct"] * direct


def _interval_text(plain: AnyModel, margins: Array | None) -> str:
    """What an uncalibrated interval is, for comments of a header; empty if there is none."""
    if plain.kind == "t1" and margins is None:
        return ""
    crisp = "crisp outputs" if plain.classes is None else "logits"
    text = crisp if plain.kind == "t1" else "type-reduced set" + (" of the logits" if plain.classes is not None else "")
    text += " of the widest plane" if plain.kind == "gt2" else ""
    text = f"mean of the {len(plain.systems)} {text}s" if len(plain.systems) > 1 else text
    return text + ("; not calibrated to a coverage" if margins is None else ", with a margin on both sides")


def _rendered(
    template: str, arrays: Iterable[CTable], code_bytes: int, ram_bytes: int, error: float | None = None, **context: Any
) -> CHeader:
    """The header of a template, with its costs."""
    from deepfls import __version__

    table_bytes = sum(array.n_bytes for array in arrays)
    sizes = {"table_bytes": table_bytes, "code_bytes": code_bytes, "ram_bytes": ram_bytes}
    text = render(template, version=__version__, **sizes, **context)
    return CHeader(text, table_bytes, table_bytes + code_bytes, ram_bytes, error)


def _float_header(
    plain: AnyModel, *, prefix: str, exp: str, margins: Array | None, calibrated: CalibratedInterval | None = None
) -> CHeader:
    """The header of a model in float32; an error if its numbers span more than C in float can hold."""
    parts = _parts(plain, "")
    # Of a mean, the parts give scores, and the probabilities follow from their mean.
    is_mean = len(parts) > 1
    interval_parts = [] if calibrated is None or calibrated.system is None else _parts(calibrated.system, "_interval")
    every = [*parts, *interval_parts]
    interval_tables = _interval_tables(plain, margins, calibrated)
    n_code = sum(_code_bytes(part.plain, _FLOAT_CODE) for part in every)
    n_ram = max(_array_bytes(part.plain) + _FLOAT_FRAME[part.plain.kind] for part in every)
    if is_mean:
        n_code += _FLOAT_CODE["mean"] * len(parts) + _FLOAT_CODE["classes"] * (plain.classes is not None)
        n_ram += 8 * plain.n_outputs + 40
    if calibrated is not None:
        n_code += _FLOAT_CODE["calibrated"] + _FLOAT_CODE["mean"] * len(interval_parts)
        n_ram += 12 * plain.n_outputs + 40
    return _rendered(
        "float.h",
        [*interval_tables.values(), *(table for part in every for table in part.tables.values())],
        n_code,
        n_ram,
        prefix=prefix,
        real="float",
        plain=plain,
        first=plain.systems[0],
        columns=ColumnForm.of(plain),
        parts=parts,
        interval_parts=interval_parts,
        exp=exp,
        unusable="infinite" if plain.missing else "NaN or infinite",
        calibrated=calibrated,
        interval_tables=interval_tables,
        interval_text=_interval_text(plain, margins) if calibrated is None else calibrated.text,
        smallest_weight=math.exp(LOG_FLOORS["float32"]),
        worst=operation_counts(plain),
        usual=operation_counts(plain, sweeps=4),
    )


def _parts(model: AnyModel, suffix: str) -> list[_SystemPart]:
    """The systems whose mean a model is, each with tables of its own; the planes of a General Type-2 one, widest first."""
    if len(model.systems) == 1 and model.systems[0].alphas is None:
        return [_part(suffix, model.systems[0])]
    found = []
    for number, (share, system) in enumerate(zip(model.shares, model.systems, strict=True)):
        system = replace(system, classes=None)
        name = suffix if len(model.systems) == 1 else f"{suffix}_system{number}"
        if system.alphas is None:
            found.append(_part(name, system)._replace(share=share, set_share=share))
            continue
        levels = zip(system.alphas.tolist(), system.plane_shares(), strict=True)
        for k, (alpha, (plane_share, _)) in enumerate(levels):
            part = _part(f"{name}_plane{k}", system.plane(alpha))
            found.append(part._replace(share=share * plane_share, set_share=0.0 if k else share))
    return found


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
    if plain.missing:
        tables["unknown"] = CTable(integers.unknown, "int64_t")
        if plain.uncertainty == "h":
            tables["unknown_height"] = CTable(integers.unknown_heights, "int64_t")
        if plain.order == 1:
            tables["fill"] = CTable(integers.fills, "int64_t")
    if plain.bounds is not None:
        tables["low"], tables["high"] = (
            CTable(np.clip(bound, -_LARGEST_FLOAT, _LARGEST_FLOAT), "float") for bound in plain.bounds
        )
    if plain.type_reduction == "bmm":
        assert plain.mix is not None
        tables["mix"] = CTable(plain.mix, "float")
    return _SystemPart(suffix, plain, integers, tables)


def _interval_tables(plain: AnyModel, margins: Array | None, calibrated: CalibratedInterval | None) -> dict[str, CTable]:
    if calibrated is None:
        return {} if margins is None else {"margin": CTable(margins, "float")}
    gains = {"gain": CTable(calibrated.gain, "float")} if plain.kind == "it2" and calibrated.gain.any() else {}
    return {**gains, "reach": CTable(calibrated.reach, "float")}


def _fixed_header(plain: PlainSystem, *, prefix: str, number: str, margins: Array | None, rows: Any) -> CHeader:
    """The header of a system in fixed point; an error if the integers cannot hold it."""
    if plain.missing:
        refuse_form("C in fixed point", "its training table has missing values", 'number="float" takes it')
    fixed = FixedPoint.of(plain, number, rows)
    error = fixed.error(rows)
    check_error(number, error)
    tables = _fixed_tables(fixed, margins)
    arrays = 4 * (plain.n_features + (2 if plain.kind == "t1" else 3) * plain.n_rules + 3 * plain.n_outputs)
    # From half ranges of the logits to units of the exponent.
    logit_bits = 30 - int(np.ceil(np.log2(fixed.output_half[0])))
    scalings = ("input_middle", "input_half", "output_middle", "output_half")
    return _rendered(
        "fixed.h",
        tables.values(),
        _code_bytes(plain, _FIXED_CODE),
        arrays + _FIXED_FRAME[plain.kind],
        float((error.largest / error.ranges).max()),
        prefix=prefix,
        real=f"{prefix}_q",
        plain=plain,
        fixed=fixed,
        measured=error,
        tables=tables,
        constants=fixed_point,
        sweeps=fixed_point.sweep_bound(plain.n_rules),
        interval_text=_interval_text(plain, margins),
        logit_factor=round(float(fixed.output_half[0]) * 2.0**logit_bits),
        logit_shift=fixed.value_bits + logit_bits - EXPONENT_BITS,
        conversion={name: CTable(getattr(fixed, name), "float") for name in scalings},
    )


def _fixed_tables(fixed: FixedPoint, margins: Array | None) -> dict[str, CTable]:
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
