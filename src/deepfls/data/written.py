"""Numbers and dates as people write them: decimal commas, thousands, percent, currencies, markers of no value."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

# Texts that mean a missing value in any column, in lower case, and those that do so in a column of numbers only.
MISSING_TEXTS = ("", "n/a", "na", "n.a.", "nan", "null", "<na>", "#n/a", "?", "-", "--", "—", ".")
_NOT_A_NUMBER = ("none", "nil", "missing", "unknown", "inf", "-inf", "#value!", "#div/0!", "#ref!")
DECIMALS = (".", ",")
# Share of the distinct texts of a column that must be numbers, or dates, for the column to hold numbers, or dates.
_NEARLY_ALL = 0.9

_CURRENCY = r"(?:[$€£¥₹₺₽₩]|(?:USD|EUR|GBP|CHF|JPY|CNY|INR|TRY|TL|CAD|AUD|SEK|NOK|DKK|PLN|kr|zł))"
_SPACES = re.compile(r"[\s\u00a0\u202f\u2009']")
_SPACED = re.compile(rf"\d{_SPACES.pattern}+\d")
_GROUPED = re.compile(rf"\D*\d{{1,3}}(?:{_SPACES.pattern}\d{{3}})+(?:[.,]\d*)?\D*")
_PARTS = re.compile(
    rf"(?P<open>\()?(?P<sign>[+-]?)(?:{_CURRENCY})?(?P<sign2>[+-]?)(?P<body>[\d.,]*\d[.,]?(?:[eE][+-]?\d+)?)"
    rf"(?P<mark>%|{_CURRENCY})?(?P<after>-?)(?P<close>\))?",
    re.IGNORECASE,
)
_BODY = {
    mark: re.compile(rf"(?:[1-9]\d{{0,2}}(?:{group}\d{{3}})+|\d*)(?:{point}\d*)?(?:[eE][+-]?\d+)?")
    for mark, point, group in ((".", r"\.", ","), (",", ",", r"\."))
}
_DATE_FORMATS = tuple(
    f"{day}{time}"
    for day in (
        "%Y-%m-%d",
        "%Y/%m/%d",
        "%d.%m.%Y",
        "%m/%d/%Y",
        "%d/%m/%Y",
        "%d-%m-%Y",
        "%d %b %Y",
        "%b %d, %Y",
        "%d-%b-%Y",
        "%m/%d/%y",
        "%d/%m/%y",
    )
    for time in ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
)


def is_missing_text(text: str, missing_values: Sequence[str] | None) -> bool:
    """Whether a text means that there is no value: one of ``missing_values``, or of the usual ones where these are None.

    Examples
    --------
    >>> is_missing_text(" N/A ", None), is_missing_text("?", ["none"]), is_missing_text("None", ["none"])
    (True, False, True)
    """
    plain = text.strip().casefold()
    if missing_values is None:
        return plain in MISSING_TEXTS
    return not plain or plain in {str(value).strip().casefold() for value in missing_values}


def number_of(text: str, decimal: str = ".") -> float | None:
    """The number that a text writes with this decimal mark, or None.

    Separators of thousands, a currency and a percent sign are read over: "12%" is 12. Parentheses make a number negative.

    Examples
    --------
    >>> number_of("1,304.5"), number_of("1.304,5", ","), number_of("12%"), number_of("€ 3,50", ","), number_of("($7)")
    (1304.5, 1304.5, 12.0, 3.5, -7.0)
    >>> number_of("0,125"), number_of("red") is None
    (None, True)
    """
    if _SPACED.search(text) and not _GROUPED.fullmatch(text):
        return None  # a telephone number, for example
    found = _PARTS.fullmatch(_SPACES.sub("", text).replace("\u2212", "-"))
    if found is None or bool(found["open"]) != bool(found["close"]) or not _BODY[decimal].fullmatch(found["body"]):
        return None
    body = found["body"].replace("," if decimal == "." else ".", "").replace(decimal, ".")
    minus = [found["sign"], found["sign2"], found["after"], "-" if found["open"] else ""].count("-")
    if minus > 1 or body in ("", "."):
        return None
    value = float(body)
    return -value if minus else value


class NumberStyle(NamedTuple):
    """How the numbers of a text column are written."""

    decimal: str
    sure: bool  # False where the texts read as numbers with either decimal mark, such as "1,304"
    marks: tuple[str, ...]  # what is read over, in words
    wrong: tuple[str, ...]  # texts that are no numbers and count as missing


def number_style(
    texts: Collection[str], decimal: str = "auto", missing_values: Sequence[str] | None = None
) -> NumberStyle | None:
    """How distinct texts write numbers; None where they are not nearly all numbers."""
    unknown = (lambda text: is_missing_text(text, missing_values)) if missing_values else _is_no_number
    known = [text for text in texts if not unknown(text)]
    if not known:
        return None
    marks = DECIMALS if decimal == "auto" else (decimal,)
    wrong = {mark: [text for text in known if number_of(text, mark) is None] for mark in marks}
    best = min(marks, key=lambda mark: len(wrong[mark]))
    if len(wrong[best]) > (1.0 - _NEARLY_ALL) * len(known):
        return None
    both = len(marks) > 1 and len(wrong["."]) == len(wrong[","])
    differs = both and any(number_of(text, ".") != number_of(text, ",") for text in known if text not in wrong["."])
    return NumberStyle(best, not differs, _marks(known, best), tuple(wrong[best]))


def _is_no_number(text: str) -> bool:
    return is_missing_text(text, None) or text.strip().casefold() in _NOT_A_NUMBER


def _marks(texts: Iterable[str], decimal: str) -> tuple[str, ...]:
    other = "." if decimal == "," else ","
    tests = {
        "decimal commas": lambda text: decimal == "," and "," in text,
        "separators of thousands": lambda text: other in text or re.search(r"\d['\s\u00a0\u202f]\d", text),
        "percent signs": lambda text: "%" in text,
        "currencies": lambda text: re.search(_CURRENCY, text, re.IGNORECASE),
    }
    texts = list(texts)
    return tuple(words for words, test in tests.items() if any(map(test, texts)))


def date_format(texts: Sequence[str]) -> tuple[str, bool] | None:
    """The format in which distinct texts are dates, and whether it is the only one; None where they are no dates."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not texts or sum(any(c.isdigit() for c in text) for text in texts[:100]) < 0.9 * min(len(texts), 100):
        return None
    column = pa.array([text.strip() for text in texts])
    counts = {}
    for form in _DATE_FORMATS:
        if pc.strptime(column[:3], format=form, unit="s", error_is_null=True).null_count < min(len(column), 3):
            dates = pc.strptime(column, format=form, unit="s", error_is_null=True)
            first = pc.min(pc.year(dates)).as_py()
            if first is not None and first >= 1000:  # %Y takes years of two digits as well
                counts[form] = len(column) - dates.null_count
    if not counts or max(counts.values()) < _NEARLY_ALL * len(column):
        return None
    most = max(counts.values())
    best = [form for form, count in counts.items() if count == most]
    return best[0], len(best) == 1
