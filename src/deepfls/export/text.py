"""Names and numbers as text that another language reads back unchanged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

# What may stand in a C comment as it is: no */ or /*, no trigraph, no backslash that joins lines, ASCII only.
_PLAIN = re.compile(r"[A-Za-z0-9 _.,:;=+%()<>\[\]{}|&$#@!^~'`-]")


def comment_name(name: object, longest: int = 60) -> str:
    """A name from data, in quotes, that cannot end or bend a C comment.

    Examples
    --------
    >>> print(comment_name("flow */ system(1);"))
    "flow \\u002a\\u002f system(1);"
    """
    text = str(name)
    text = text if len(text) <= longest else text[: longest - 3] + "..."
    return '"' + "".join(c if _PLAIN.fullmatch(c) else f"\\u{ord(c):04x}" for c in text) + '"'


def float_literal(value: float) -> str:
    """A float32 as a C literal of 9 significant digits, which name it exactly.

    Examples
    --------
    >>> float_literal(0.1), float_literal(3)
    ('0.100000001f', '3.0f')
    """
    text = f"{float(np.float32(value)):.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def number(value: float) -> str:
    """A float64 in the fewest digits that name it exactly.

    Examples
    --------
    >>> number(0.1), number(1e300)
    ('0.1', '1e+300')
    """
    return repr(float(value))


def c_table(type_name: str, name: str, values: Array, literal: Any) -> str:
    """A ``static const`` array of one to three dimensions, one innermost row per line."""
    shape = "".join(f"[{size}]" for size in values.shape)
    return f"static const {type_name} {name}{shape} = {_braces(values, literal, '')};"


def _braces(values: Array, literal: Any, indent: str) -> str:
    if values.ndim == 1:
        cells = [literal(value) for value in values]
        in_line = max(1, 90 // max(map(len, cells)))
        rows = [", ".join(cells[i : i + in_line]) for i in range(0, len(cells), in_line)]
        return "{" + f",\n{indent} ".join(rows) + "}"
    inner = indent + "  "
    return "{\n" + ",\n".join(inner + _braces(part, literal, inner) for part in values) + f"\n{indent}}}"


def one_line(name: object, longest: int = 60) -> str:
    """A name in printable ASCII without quotes, so that it cannot begin a line or end a string of another language.

    Examples
    --------
    >>> one_line("heat 'in'\\n[Rules]")
    'heat _in__[Rules]'
    """
    text = str(name)[:longest]
    return "".join(c if c.isascii() and c.isprintable() and c not in "'\"\\#%" else "_" for c in text)


def identifiers(names: Sequence[str], default: str, taken: Sequence[str] = ()) -> list[str]:
    """Names as distinct identifiers of letters, digits and underscores, none of them ``taken``.

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
