"""A trained system as one C99 header for microcontrollers: in float32, with its calibrated interval; costs of both forms.

The text of a header is in ``templates/float.h``. Fixed point, in ``fixed_point.py``, is for cores without a floating-point
unit.

Every calibration without groups is an affine function of the crisp output y and the ends l, r of the type-reduced set,

    y - gain (y - l) - reach s,    y + gain (r - y) + reach s,

limited so that it contains y. "cqr" has gain 1 and its offset as reach; with normalised scores gain and reach are
proportional to the radius. "split" has gain 0, and s is 1 or the local scale, whose logarithm is an output of a Type-1
system with the same sets.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepfls._checks.arguments import check_count, check_number, check_option
from deepfls._checks.values import Array
from deepfls._files import write_whole
from deepfls.estimators.calibration import Calibration
from deepfls.export import targets
from deepfls.export.centered import CenteredIntegers
from deepfls.export.fixed_point import fixed_header
from deepfls.export.targets import CHeader, ColumnForm, CTable
from deepfls.functional.constants import LOG_FLOORS, max_sweeps
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.plain_model import AnyModel, PlainModel, gain_and_reach
from deepfls.nn.general import GT2FLS

NUMBERS = ("float", "q15", "q31")
EXPONENTIALS = ("libm", "builtin")
_LONGEST_PREFIX = 40
_LARGEST_FLOAT = float(np.finfo(np.float32).max)
# Bytes of code and of stack without arrays, rounded up from those of gcc 12 -O2 for a Cortex-M4;
# tests/export/test_embedded.py compares them with the compiler.
_CODE = {"t1": 1_650, "it2": 2_300, "classes": 1_000, "direct": 1_400, "calibrated": 400, "mean": 150}
_FRAME = {"t1": 140, "it2": 180}
_REMEDY = "train with {}, or export with margin=None, where the interval is the type-reduced set"


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
    """A system of a header; ``suffix`` extends the prefix of its names."""

    suffix: str
    plain: PlainSystem
    integers: CenteredIntegers
    share: float = 1.0  # in the crisp outputs
    set_share: float = 1.0  # in the type-reduced set

    @property
    def tables(self) -> dict[str, CTable]:
        found = dict(self.integers.tables)
        if self.plain.bounds is not None:
            found["low"], found["high"] = (
                CTable(np.clip(end, -_LARGEST_FLOAT, _LARGEST_FLOAT), "float") for end in self.plain.bounds
            )
        if self.plain.mix is not None:
            found["mix"] = CTable(self.plain.mix, "float")
        return found


@dataclass(frozen=True)
class CalibratedInterval:
    """Gains and reaches (outputs,) of a calibrated interval.

    ``system`` computes y, l and r if the system of the predictions does not. If ``scaled``, its outputs are followed by as
    many logarithms of the local scale. If ``refitted``, the interval must also contain the prediction of the other system.
    """

    calibration: Calibration
    gain: Array
    reach: Array
    system: PlainModel | None
    scaled: bool
    refitted: bool

    @classmethod
    def of(cls, estimator: Any) -> CalibratedInterval | None:
        """The interval of a fitted estimator; None if it has none, an error if C has no form for it."""
        calibration: Calibration | None = getattr(estimator, "calibration_", None)
        if calibration is None or estimator._classifies:
            return None
        if calibration.group_columns:
            targets.refuse_form(
                "A C header", "its intervals are calibrated by groups", _REMEDY.format("group_calibration=None")
            )
        if isinstance(estimator.system_, GT2FLS):
            targets.refuse_form(
                "A C header", "its intervals are planes", _REMEDY.format("kind='it2'") + " of the widest plane"
            )
        refitted = getattr(estimator, "interval_model_", None) is not None
        source = estimator.interval_model_ if refitted else estimator
        system = targets.with_finite_widths(PlainModel.of(source))
        n_outputs = system.n_outputs
        gain, reach = gain_and_reach(calibration, system)
        scaled = calibration.scale is not None
        if calibration.method == "split":
            gain, reach = np.zeros(n_outputs), reach * np.asarray(source.y_scaling_.scale)
        if calibration.scale is not None:
            system = _with_log_scale(system, source, calibration.scale)
        return cls(calibration, gain, reach, system if refitted or scaled else None, scaled, refitted)

    def margin(self, kind: str) -> Array:
        """The margin (outputs,) of an interval that is only a margin around the type-reduced set; else an error."""
        around_set = kind == "t1" or bool((self.gain == 1.0).all())  # with a gain of 0 the margin is around the output
        if self.system is not None or self.scaled or not (around_set and (self.reach >= 0).all()):
            targets.refuse_form(
                "A C header in fixed point",
                "its calibrated interval is more than a margin around what the system gives",
                _REMEDY.format("kind='t1', refit=False and normalized_scores=False"),
            )
        return self.reach

    @property
    def text(self) -> str:
        """What the interval is, for comments of a header."""
        c = self.calibration
        if c.method == "none":
            return f"type-reduced set as trained for a coverage of {c.coverage:g}, not calibrated"
        return f"interval of coverage {c.coverage:g}, calibrated ({c.method}) on {c.n_rows:,} held-out rows"


def _with_log_scale(model: PlainModel, estimator: Any, coefficients: Array) -> PlainModel:
    """The Type-1 model with the logarithms of the local scale as further outputs; see ``intervals._local_scale``.

    The local scale is a system with the sets of the first one, so that its outputs in the others are 0.
    """
    if model.kind != "t1":
        targets.refuse_form(
            "A C header",
            "the local scale of its intervals is another fuzzy system over both firings",
            _REMEDY.format("calibration='cqr' or normalized_scores=False"),
        )
    system = model.systems[0]
    n_rules, n_features = system.n_rules, system.n_features
    intercepts = coefficients[:n_rules] + coefficients[-1]
    slopes = np.zeros((n_rules, n_features, coefficients.shape[1]))
    if len(coefficients) > n_rules + 1:
        slopes = coefficients[n_rules:-1].reshape(n_rules, n_features, -1)
    # From scaled inputs to the units of the data.
    slopes = np.moveaxis(slopes, 1, 2) / estimator.x_scaling_.scale
    intercepts = intercepts - slopes @ estimator.x_scaling_.shift
    intercepts, slopes = intercepts / model.shares[0], slopes / model.shares[0]
    first = _with_outputs(system, intercepts, slopes)
    n_outputs = len(system.output_names)
    shapes = ((other, (other.n_rules, n_outputs)) for other in model.systems[1:])
    zeros = (_with_outputs(other, np.zeros(shape), np.zeros((*shape, n_features))) for other, shape in shapes)
    return replace(model, systems=(first, *zeros))


def _with_outputs(system: PlainSystem, intercepts: Array, slopes: Array) -> PlainSystem:
    return replace(
        system,
        order=int(bool(system.order or slopes.any())),
        output_names=(*system.output_names, *(f"log scale of {name}" for name in system.output_names)),
        intercepts=np.concatenate([system.intercepts, intercepts], axis=1),
        slopes=np.concatenate([system.slopes, slopes], axis=1),
    )


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
    targets.check_type_reduction("A C header", plain)
    margins = _checked_margins(margin, plain.n_outputs)
    if number == "float":
        return _float_header(plain, prefix=prefix, exp=exp, margins=margins, calibrated=calibrated)
    if len(plain.systems) > 1:
        # Every system has its own ranges of integers, so a mean would need a conversion of each.
        reason = f"its output is a mean over {len(plain.systems)} systems, each with integers of its own"
        targets.refuse_form("A C header in fixed point", reason, 'number="float" takes it')
    (system,) = plain.systems
    if system.alphas is not None:
        targets.refuse_form(
            "A C header in fixed point", "its output is a mean over planes", "export one of them with plane="
        )
    if calibrated is not None:
        margins = calibrated.margin(system.kind)
    return fixed_header(system, prefix=prefix, number=number, margins=margins, rows=rows)


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
    """Write a header, completely or not at all; unless ``force`` it must fit the bytes of the microcontroller."""
    flash, ram = check_count("flash", flash), check_count("ram", ram)
    if not force and (header.flash_bytes > flash or header.ram_bytes > ram):
        raise ValueError(
            f"The header must fit {flash:,} bytes of flash and {ram:,} bytes of RAM, got about {header.flash_bytes:,} and "
            f"{header.ram_bytes:,}: train fewer rules, state a larger part with flash= and ram=, or take force=True "
            "(--force)."
        )
    write_whole(Path(path), header.text.encode("ascii"))
    return CReport(str(path), *header[1:])


def operation_counts(model: AnyModel, sweeps: int | None = None) -> OperationCounts:
    """Operations of ``predict``, in the worst case or for a number of sweeps per end point."""
    each = [_counts_of_system(plane, sweeps) for system in model.systems for _, plane in system.planes()]
    return OperationCounts(*map(sum, zip(*each, strict=True)))


def _counts_of_system(plain: PlainSystem, sweeps: int | None) -> OperationCounts:
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


def _float_header(
    plain: AnyModel, *, prefix: str, exp: str, margins: Array | None, calibrated: CalibratedInterval | None = None
) -> CHeader:
    """The header of a model in float32; an error if its numbers span more than C in float can hold."""
    parts = _parts(plain, "")
    is_mean = len(parts) > 1
    interval_parts = [] if calibrated is None or calibrated.system is None else _parts(calibrated.system, "_interval")
    every = [*parts, *interval_parts]
    interval_tables = {} if margins is None else {"margin": CTable(margins, "float")}
    if calibrated is not None:
        gains = {"gain": CTable(calibrated.gain, "float")} if plain.kind == "it2" and calibrated.gain.any() else {}
        interval_tables = {**gains, "reach": CTable(calibrated.reach, "float")}
    n_code = sum(targets.code_bytes(part.plain, _CODE) for part in every)
    n_ram = max(_array_bytes(part.plain) + _FRAME[part.plain.kind] for part in every)
    if is_mean:
        n_code += _CODE["mean"] * len(parts) + _CODE["classes"] * (plain.classes is not None)
        n_ram += 8 * plain.n_outputs + 40
    if calibrated is not None:
        n_code += _CODE["calibrated"] + _CODE["mean"] * len(interval_parts)
        n_ram += 12 * plain.n_outputs + 40
    return targets.rendered_header(
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
        interval_text=targets.interval_text(plain, margins) if calibrated is None else calibrated.text,
        smallest_weight=math.exp(LOG_FLOORS["float32"]),
        worst=operation_counts(plain),
        usual=operation_counts(plain, sweeps=4),
    )


def _parts(model: AnyModel, suffix: str) -> list[_SystemPart]:
    """The systems whose mean a model is, each with tables of its own; the planes of a General Type-2 one, widest first."""
    found = []
    for number, (share, system) in enumerate(zip(model.shares, model.systems, strict=True)):
        name = suffix if len(model.systems) == 1 else f"{suffix}_system{number}"
        planes = system.planes()
        for k, (plane_share, plane) in enumerate(planes):
            own = f"{name}_plane{k}" if system.alphas is not None else name
            found.append(_SystemPart(own, plane, CenteredIntegers.of(plane), share * plane_share, 0.0 if k else share))
    # Of a mean, the parts give scores, and the probabilities follow from their mean.
    return found if len(found) == 1 else [part._replace(plain=replace(part.plain, classes=None)) for part in found]


def _array_bytes(plain: PlainSystem) -> int:
    """Arrays on the stack: inputs and terms in halves, firing of the rules, outputs of the rules."""
    arrays = 24 * plain.n_features + (12 if plain.kind == "t1" else 20) * plain.n_rules
    return arrays + 4 * plain.n_outputs * (plain.classes is not None)
