"""Text of exported files: Jinja templates, and numbers and names that another language reads back unchanged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined

from deepfls.functional.constants import LOG_FLOOR, LOG_FLOORS, max_sweeps
from deepfls.inspection.plain import Array
from deepfls.inspection.words import plural

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
        "counted": plural,
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
    """A number as a literal of C that is read back as the same number; "double" is also what FuzzyLite and MATLAB read.

    Examples
    --------
    >>> literal(0.1, "float"), literal(3, "float"), literal(0.1), literal(-5, "int64_t"), literal(7, "int32_t")
    ('0.100000001f', '3.0f', '0.1', '-5LL', '7')
    """
    if kind == "double":
        return repr(float(value))
    if kind == "float":
        # 9 significant digits identify a float32.
        text = f"{float(np.float32(value)):.9g}"
        return f"{text}f" if "." in text or "e" in text else f"{text}.0f"
    return f"{int(value)}LL" if kind == "int64_t" else str(int(value))


def spaced(values: Sequence[float]) -> str:
    """Numbers as literals with spaces between them.

    Examples
    --------
    >>> spaced([1, 0.5])
    '1.0 0.5'
    """
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


def quoted(name: object, longest: int = 60) -> str:
    """A name from data in quotes, without characters that could end a C comment or change its lines.

    Examples
    --------
    >>> print(quoted("flow */ system(1);"))
    "flow \\u002a\\u002f system(1);"
    """
    text = str(name)
    text = text if len(text) <= longest else text[: longest - 3] + "..."
    return '"' + "".join(c if _PLAIN.fullmatch(c) else f"\\u{ord(c):04x}" for c in text) + '"'


def one_line(name: object, longest: int = 60) -> str:
    """A name in printable ASCII without quotes: it cannot begin a line or end a string of another language.

    Examples
    --------
    >>> one_line("heat 'in'\\n[Rules]")
    'heat _in__[Rules]'
    """
    text = str(name)[:longest]
    return "".join(c if c.isascii() and c.isprintable() and c not in "'\"\\#%" else "_" for c in text)


def identifiers(names: Sequence[str], default: str, taken: Sequence[str] = ()) -> list[str]:
    """Names as distinct identifiers of letters, digits and underscores that differ from those ``taken``.

    Examples
    --------
    >>> identifiers(["heat", "heat", "2nd", "°C"], "x")
    ['heat', 'heat_1', 'x2nd', 'x_C']
    """
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
