"""What several targets need: rows on which an export is measured, refusals, the text of files, tables and headers of C.

Text comes from Jinja templates; numbers and names are written so that another language reads them back unchanged.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, NamedTuple, NoReturn

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined

from deepfls import __version__
from deepfls._checks.arguments import counted
from deepfls._checks.values import Array, check_finite_table
from deepfls.functional.constants import LOG_FLOOR, LOG_FLOORS, max_sweeps
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.plain_model import AnyModel, PlainModel


def with_finite_widths(model: PlainModel) -> PlainModel:
    """The same model with a number for every width: a condition that was left out becomes a very wide set.

    Its grade is 1 within 1e-8 over the range of the input.
    """

    def finite(s: PlainSystem) -> PlainSystem:
        wide = np.array([1e4 * (high - low) for low, high in map(s.input_span, range(s.n_features))])
        lower, upper = (np.where(np.isfinite(widths), widths, wide) for widths in (s.lower_sigmas, s.upper_sigmas))
        return replace(s, lower_sigmas=lower, upper_sigmas=upper)

    return replace(model, systems=tuple(map(finite, model.systems)))


def rows_for(plain: AnyModel, rows: Any, n_drawn: int) -> Array:
    """Rows (rows, features) in the units of the data: those given, or drawn, always the same ones for the same system.

    A system that was trained without missing values gives NaN for rows that have some in C and ONNX, so they are left out.
    Half of the drawn rows are uniform over the range of the training data. The other half lie around the centers of the
    rules, where most data are.
    """
    if rows is not None:
        values = np.asarray(rows, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != plain.n_features or len(values) == 0:
            raise ValueError(f"X must have shape (rows, features) with features={plain.n_features}, got {values.shape}.")
        check_finite_table("X", values, missing=True)
        whole = np.ones(len(values), dtype=bool) if plain.missing else ~np.isnan(values).any(axis=1)
        if not whole.any():
            raise ValueError("X must have a row without missing values, because the model was trained without any.")
        if not whole.all():
            n_left_out = int((~whole).sum())
            are = "is" if n_left_out == 1 else "are"
            warnings.warn(
                f"{counted(n_left_out, 'row')} of X with missing values {are} not compared: the exported model gives NaN.",
                stacklevel=2,
            )
        return values[whole]
    low, high = input_box(plain)
    rng = np.random.default_rng(0)
    uniform = rng.uniform(low, high, (n_drawn - n_drawn // 2, plain.n_features))
    rule = rng.integers(plain.n_rules, size=n_drawn // 2)
    near = rng.normal(plain.centers[rule], plain.upper_sigmas[rule])
    return np.concatenate([uniform, np.clip(near, low, high)])


@dataclass(frozen=True)
class ColumnForm:
    """Columns that a target takes in place of inputs: a category is one column, the index of the category."""

    names: tuple[str, ...]
    sources: Array  # (inputs,): the column of every input
    codes: Array  # (inputs,): the index at which an input of a category is 1; -1 for inputs that are numbers
    categories: dict[int, tuple[str, ...]]  # of the columns that are categories

    @classmethod
    def of(cls, plain: AnyModel) -> ColumnForm | None:
        """The columns of a system; None without categories, where columns are inputs."""
        if plain.columns is None or not plain.columns.groups:
            return None
        parts = plain.columns.read_inputs
        sources = np.repeat(np.arange(len(parts)), [end - first for _, first, end, _ in parts])
        codes = np.full(plain.n_features, -1)
        for _, first, end, column in parts:
            if column is not None:  # two categories share one input, 1 for the second
                codes[first:end] = np.arange(len(column.categories))[-column.width :]
        categories = {place: column.categories for place, (*_, column) in enumerate(parts) if column is not None}
        return cls(tuple(name for name, *_ in parts), sources, codes, categories)

    def columns(self, x: Array) -> Array:
        """Columns (rows, columns) from inputs (rows, inputs), whose categories are taken where their input is largest."""
        found = np.zeros((len(x), len(self.names)))
        for column in range(len(self.names)):
            own = x[:, self.sources == column]
            index = own[:, 0]
            if column in self.categories:
                single = own.shape[1] < len(self.categories[column])
                index = np.round(np.clip(index, 0.0, 1.0)) if single else own.argmax(axis=1)
            found[:, column] = np.where(np.isnan(own).any(axis=1), np.nan, index)
        return found

    def inputs(self, columns: Array) -> Array:
        """Inputs (rows, inputs) from columns (rows, columns)."""
        values = columns[:, self.sources]
        found = np.where(self.codes < 0, values, (values == self.codes).astype(np.float64))
        return np.where(np.isnan(values), np.nan, found)


def input_box(plain: AnyModel) -> tuple[Array, Array]:
    """Smallest and largest value of every input in the training data; if unknown, the sets within two widths."""
    if plain.input_range is not None:
        return plain.input_range[0], plain.input_range[1]
    reach = 2.0 * plain.upper_sigmas
    return (plain.centers - reach).min(axis=0), (plain.centers + reach).max(axis=0)


def refuse_form(target: str, reason: str, remedy: str) -> NoReturn:
    """Raise the error that says why a system cannot be written in the form of a target."""
    raise ValueError(f"{target} cannot express this system: {reason}; {remedy}.")


def check_type_reduction(target: str, model: AnyModel) -> None:
    """Refuse a type reduction that the targets which compute by themselves do not have."""
    for system in model.systems:
        if system.type_reduction not in ("", "km", "nt", "bmm", "sm"):
            refuse_form(target, f"its type reduction is {system.type_reduction!r}", "train with type_reduction='km'")


def check_holdable(what: str, values: Array, limit: float) -> None:
    """Require numbers that the number format of a target can hold."""
    if values.size and not (np.isfinite(values).all() and np.abs(values).max() <= limit):
        largest = np.abs(np.where(np.isfinite(values), values, np.inf)).max()
        raise ValueError(f"{what} must be within ±{limit:.3g} for this target, got {largest:.3g}: scale the data first.")


# Characters of a name from data.
_LONGEST = 60
# Bytes of a number in C.
_BYTES = {"float": 4, "int16_t": 2, "int32_t": 4, "int64_t": 8, "halves": 8}
# Characters that are allowed in a C comment. The others could end it, join lines or form a trigraph.
_PLAIN = re.compile(r"[A-Za-z0-9 _.,:;=+%()<>\[\]{}|&$#@!^~'`-]")


def render(template: str, **context: Any) -> str:
    """The text of a template of the folder ``templates``. A variable that is missing is an error."""
    return _environment().get_template(template).render(context)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_source),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # no markup; names from data pass through quoted, one_line or identifiers
    )
    environment.filters |= {
        "counted": counted,
        "literal": literal,
        "one_line": one_line,
        "quoted": quoted,
        "spaced": spaced,
        "thousands": "{:,}".format,
    }
    environment.globals |= {
        "log_floor": round(LOG_FLOOR),
        "log_floor_float": round(LOG_FLOORS["float32"]),
        "max_sweeps": max_sweeps,
        "tuple": tuple,
    }
    return environment


def _source(name: str) -> str:
    """A template; in C the prefix of the header takes the place of ``fls``."""
    text = resources.files("deepfls.export").joinpath("templates", name).read_text(encoding="utf-8").replace("\r\n", "\n")
    if name.endswith(".h"):
        text = re.sub(r"\bfls_", "{{ prefix }}_", text)
        text = re.sub(r"\bFLS_", "{{ prefix | upper }}_", text)
    return text


def literal(value: float, kind: str = "double") -> str:
    """A number as a literal of C that is read back as the same number; "double" is also what FuzzyLite and MATLAB read."""
    if kind == "double":
        return repr(float(value))
    if kind == "float":
        # 9 significant digits identify a float32.
        text = f"{float(np.float32(value)):.9g}"
        return f"{text}f" if "." in text or "e" in text else f"{text}.0f"
    return f"{int(value)}LL" if kind == "int64_t" else str(int(value))


def spaced(values: Sequence[float]) -> str:
    """Numbers as literals with spaces between them."""
    return " ".join(literal(value) for value in values)


@dataclass(frozen=True)
class CTable:
    """An array of numbers of one to three dimensions in C.

    ``kind`` is "float", "int16_t", "int32_t", "int64_t", or "halves": integers in two halves, the lower one of ``bits``.
    """

    values: Array
    kind: str
    bits: int = 0

    @property
    def n_bytes(self) -> int:
        return self.values.size * _BYTES[self.kind]

    @property
    def text(self) -> str:
        """Shape and values for a declaration, one innermost row per line."""
        shape = "".join(f"[{size}]" for size in self.values.shape)
        return f"{shape} = {self._braces(self.values, '')}"

    def _braces(self, values: Array, indent: str) -> str:
        if values.ndim == 1:
            cells = [self._cell(value) for value in values]
            in_line = max(1, 90 // max(map(len, cells)))
            rows = [", ".join(cells[i : i + in_line]) for i in range(0, len(cells), in_line)]
            return "{" + f",\n{indent} ".join(rows) + "}"
        inner = indent + "  "
        return "{\n" + ",\n".join(inner + self._braces(part, inner) for part in values) + f"\n{indent}}}"

    def _cell(self, value: Any) -> str:
        if self.kind != "halves":
            return literal(value, self.kind)
        halves = int(value) >> self.bits, int(value) & ((1 << self.bits) - 1)
        return "{" + ", ".join(literal(half, "int32_t") for half in halves) + "}"


def quoted(name: object) -> str:
    """A name from data in quotes, without characters that could end a C comment or change its lines."""
    text = str(name)
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    return '"' + "".join(c if _PLAIN.fullmatch(c) else f"\\u{ord(c):04x}" for c in text) + '"'


def one_line(name: object) -> str:
    """A name in printable ASCII without quotes: it cannot begin a line or end a string of another language."""
    text = str(name)[:_LONGEST]
    return "".join(c if c.isascii() and c.isprintable() and c not in "'\"\\#%" else "_" for c in text)


def identifiers(names: Sequence[str], default: str, taken: Sequence[str] = ()) -> list[str]:
    """Names as distinct identifiers of letters, digits and underscores that differ from those ``taken``."""
    made: list[str] = []
    used = {word.lower() for word in taken}
    for place, name in enumerate(names):
        text = re.sub(r"[^A-Za-z0-9_]", "_", str(name))[:40]
        text = text if text[:1].isalpha() else f"{default}{text}"
        if text.lower() in used:
            text = f"{text}_{place}"
        while text.lower() in used:
            text += "_"
        used.add(text.lower())
        made.append(text)
    return made


class CHeader(NamedTuple):
    """A header and its costs: bytes of tables, of flash (tables and code, without libm), and of stack.

    ``error`` is the largest error of fixed point as a share of the output's range; None in float.
    """

    text: str
    table_bytes: int
    flash_bytes: int
    ram_bytes: int
    error: float | None = None


def code_bytes(plain: PlainSystem, base: Mapping[str, int]) -> int:
    """Bytes of code of all functions: classes, and a crisp output that is not the midpoint of the set, need more."""
    direct = plain.kind == "it2" and plain.type_reduction != "km"
    return base[plain.kind] + base["classes"] * (plain.classes is not None) + base["direct"] * direct


def interval_text(plain: AnyModel, margins: Array | None) -> str:
    """What an uncalibrated interval is, for comments of a header; empty if there is none."""
    if plain.kind == "t1" and margins is None:
        return ""
    crisp = "crisp outputs" if plain.classes is None else "logits"
    text = crisp if plain.kind == "t1" else "type-reduced set" + (" of the logits" if plain.classes is not None else "")
    text += " of the widest plane" if plain.kind == "gt2" else ""
    text = f"mean of the {len(plain.systems)} {text}s" if len(plain.systems) > 1 else text
    return text + ("; not calibrated to a coverage" if margins is None else ", with a margin on both sides")


def rendered_header(
    template: str, arrays: Iterable[CTable], n_code: int, n_ram: int, error: float | None = None, **context: Any
) -> CHeader:
    """The header of a template, with its costs: bytes of code and of stack."""
    n_tables = sum(array.n_bytes for array in arrays)
    sizes = {"table_bytes": n_tables, "code_bytes": n_code, "ram_bytes": n_ram}
    text = render(template, version=__version__, **sizes, **context)
    return CHeader(text, n_tables, n_tables + n_code, n_ram, error)
