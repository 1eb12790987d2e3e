"""Numbers, names and tables as text."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence

LABELS = ("very low", "low", "medium", "high", "very high")


def position_word(center: float, low: float, high: float) -> str:
    """Where a center lies within the range of its input; empty for an input of one value.

    Examples
    --------
    >>> position_word(14.0, 0.0, 40.0), position_word(-1.0, 0.0, 40.0)
    ('low', 'below the data')
    """
    if not high > low:
        return ""
    share = (center - low) / (high - low)
    if share < 0.0:
        return "below the data"
    if share > 1.0:
        return "above the data"
    return LABELS[min(int(share * len(LABELS)), len(LABELS) - 1)]


def number_text(value: float, digits: int | None) -> str:
    """A number with so many significant digits, or, for None, so that it reads back exactly.

    Examples
    --------
    >>> number_text(1013.2567, 4), number_text(123456.7, 4), number_text(0.1 + 0.2, None)
    ('1013', '123457', '0.30000000000000004')
    """
    value = float(value)
    if digits is None:
        return repr(value)
    # An exponent is harder to read than a few more digits.
    if 10.0 ** (digits - 1) <= abs(value) < 1e9:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def signed_text(value: float, digits: int | None) -> str:
    """A number with its sign, plus included."""
    return f"{'+' if value >= 0 else '-'}{number_text(abs(value), digits)}"


def share_text(share: float) -> str:
    """A share in percent.

    Examples
    --------
    >>> share_text(0.1234), share_text(0.00001)
    ('12.3 %', '<0.1 %')
    """
    return "<0.1 %" if 0.0 < share < 0.0005 else f"{100 * share:.1f} %"


def plural(count: int, word: str, ending: str = "s") -> str:
    """A count with its noun.

    Examples
    --------
    >>> plural(1, "rule"), plural(1200, "class", "es")
    ('1 rule', '1,200 classes')
    """
    return f"{count:,} {word}{ending * (count != 1)}"


def one_line(name: object) -> str:
    """A name on one line, with every control character as its escape."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(name))


def shortened(name: object, width: int = 40) -> str:
    """A name on one line of at most ``width`` characters."""
    text = one_line(name)
    return text if len(text) <= width else text[: width - 1] + "…"


def markdown_name(name: object) -> str:
    """A name that Markdown shows unchanged: punctuation and HTML are escaped.

    Examples
    --------
    >>> print(markdown_name("a|b <i>"))
    a\\|b &lt;i&gt;
    """
    text = one_line(name).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#+!|~$-])", r"\\\1", text)


def linear_text(intercept: float, terms: list[tuple[float, str]], digits: int | None) -> str:
    """``a0 + a1 x1 - a2 x2``, with signs between the terms.

    Examples
    --------
    >>> linear_text(471.3, [(-1.9, "AT"), (0.25, "V")], 4)
    '471.3 - 1.9 AT + 0.25 V'
    """
    text = number_text(intercept, digits)
    for slope, name in terms:
        # The sign of a zero counts, so that the text reads back to the same bits.
        sign = "-" if math.copysign(1.0, slope) < 0 else "+"
        text += f" {sign} {number_text(abs(slope), digits)} {name}"
    return text


class TextTable:
    """Columns of text, the first aligned left, the others right."""

    def __init__(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.head, self.rows = head, rows

    def text(self) -> str:
        lines = [self.head, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.head))]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if column else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def html(self) -> str:
        def cells(row: Sequence[str], tag: str) -> str:
            return "".join(
                f"<{tag} style='text-align:{'right' if column else 'left'}'>{html.escape(cell)}</{tag}>"
                for column, cell in enumerate(row)
            )

        body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in self.rows)
        return f"<table><thead><tr>{cells(self.head, 'th')}</tr></thead><tbody>{body}</tbody></table>"
