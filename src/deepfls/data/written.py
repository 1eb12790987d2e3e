"""Numbers and dates as people write them: decimal commas, thousands, percent, currencies, markers of no value.

Dates may be written as numbers: 20240131, days of Excel, seconds since 1970.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from deepfls._checks.arguments import listed
from deepfls._checks.values import Array
from deepfls.data.frames import number_array

# Texts that mean a missing value in any column, in lower case, and those that do so in a column of numbers only.
MISSING_TEXTS = ("", "n/a", "na", "n.a.", "nan", "null", "<na>", "#n/a", "?", "-", "--", "—", ".")
_NOT_A_NUMBER = ("none", "nil", "missing", "unknown", "inf", "-inf", "#value!", "#div/0!", "#ref!")
# Those of any column that may be meant as a category.
DOUBTFUL = ("-", "--", "—", ".")
DECIMALS = (".", ",")
# Share of the distinct texts of a column that must be numbers, or dates, for the column to hold numbers, or dates.
_NEARLY_ALL = 0.9
# Digits from which numbers of equal length with leading zeros are codes: 01 to 12 may be months.
_CODE_DIGITS = 3
# Texts of a large column that are looked at first, and the share of numbers among them below which the others are not.
_SOME, _FEW = 500, 0.3
_FEW_TEXTS = 50
_YEAR_1000 = -30_610_224_000.0  # in seconds since 1970

_CURRENCY = r"(?:(?:R|US|A|C|NZ|HK)?\$|[€£¥₹₺₽₩]|(?:USD|EUR|GBP|CHF|JPY|CNY|INR|TRY|TL|CAD|AUD|SEK|NOK|DKK|PLN|kr|zł))"
_SPACES = re.compile(r"[\s\u00a0\u202f\u2009'\u2019]")
_SPACED = re.compile(rf"\d{_SPACES.pattern}+\d")
_GROUPED = re.compile(rf"\D*\d{{1,3}}(?:{_SPACES.pattern}\d{{3}})+(?:[.,]\d*)?\D*")
_PARTS = re.compile(
    rf"(?P<open>\()?(?P<sign>[+-]?)(?:{_CURRENCY})?(?P<sign2>[+-]?)(?P<body>[\d.,]*\d[.,]?(?:[eE][+-]?\d+)?)"
    rf"(?P<mark>%|{_CURRENCY})?(?P<after>-?)(?P<close>\))?",
    re.IGNORECASE,
)
_BODY = {
    mark: re.compile(rf"[1-9]\d{{0,2}}(?:{group}\d{{3}})+(?:{point}\d*)?|\d*(?:{point}\d*)?(?:[eE][+-]?\d+)?")
    for mark, point, group in ((".", r"\.", ","), (",", ",", r"\."))
}
_LAKHS = re.compile(r"[1-9]\d?(?:,\d\d)+,\d{3}(?:\.\d*)?")  # 12,34,567.5 of India
_WITH_UNIT = re.compile(rf"[+\-\u2212]?(?:[\d.,]|{_SPACES.pattern})*\d\s*((?:[^\W\d_]|[°\"])\D{{0,10}}[23]?)")
ISO = "ISO 8601"  # a date with a time, which may have fractions of a second and a time zone
_ISO = (
    r"^(?P<day>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d)(?::(?P<second>\d\d(?:\.\d+)?))?"
    r"\s?(?:Z|UTC|GMT|(?P<zone>[+-]\d\d):?(?P<minute>\d\d)?)?$"
)
_DAY_FORMATS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%d %b %Y", "%b %d, %Y"),
    *("%d-%b-%Y", "%d-%b-%y", "%m/%d/%y", "%d/%m/%y", "%a, %d %b %Y", "%Y%m%d"),
)
_TIME_FORMATS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p")
_DATE_FORMATS = (
    ISO,
    *(f"{day}{time}" for day in _DAY_FORMATS for time in ("", *(f" {time}" for time in _TIME_FORMATS), "T%H:%M:%S")),
    *(f"%a, %d %b %Y %H:%M:%S {zone}" for zone in ("GMT", "+0000")),  # of mails and web servers
    *("%a %b %d %H:%M:%S %Y", "%Y%m%dT%H%M%S", "%Y%m%dT%H%M%SZ"),
    *("%Y-%m", "%Y/%m", "%m/%Y", "%b %Y"),
    *_TIME_FORMATS,
)
DAY, _MONTHS = 86_400.0, 12  # seconds of a day, and months of a year
# Digits of a calendar date, and its format: year and month, then the day, hour, minute and second.
_COMPACT = {6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_FIRST_YEAR, _LAST_YEAR = 1900, 2099
EXCEL, SECONDS, MILLISECONDS = "days of Excel", "seconds since 1970", "milliseconds since 1970"
NUMBER_FORMATS = (*_COMPACT.values(), EXCEL, SECONDS, MILLISECONDS)
SMALLEST_DATE = 29_221  # of all numbers that are read as dates: 1980 in days of Excel
# Smallest and largest number of dates from 1980 to 2060, the day 0 of Excel in days since 1970, and the words of which one
# must be in the name of such a column: a number of five digits may be anything.
_RANGES = {EXCEL: (SMALLEST_DATE, 58_806), SECONDS: (315_532_800, 2_871_763_199)}
_RANGES[MILLISECONDS] = (315_532_800_000, 2_871_763_199_000)
_EXCEL_START = -25_569
_DAY_WORDS = {"date", "datetime", "day", "datum", "fecha", "tarih"}
_TIME_WORDS = {"date", "datetime", "datum", "epoch", "time", "timestamp", "ts", "unix"}
_WORDS = {EXCEL: _DAY_WORDS, SECONDS: _TIME_WORDS, MILLISECONDS: _TIME_WORDS}
# Different numbers that show that a column holds dates, and values that are looked at first.
_FEWEST_DATES, _SOME_DATES = 3, 64


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
    if found is None or bool(found["open"]) != bool(found["close"]):
        return None
    if not (_BODY[decimal].fullmatch(found["body"]) or (decimal == "." and _LAKHS.fullmatch(found["body"]))):
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
    unit: str = ""  # behind every number

    def number(self, text: str) -> float | None:
        """The number that a text writes in this style, or None."""
        return number_of(text.strip().removesuffix(self.unit), self.decimal)

    def with_commas(self, texts: Collection[str]) -> NumberStyle:
        """The same with decimal commas, where the rest of the table decides."""
        return self._replace(decimal=",", sure=True, marks=_marks(texts, ","))

    @property
    def facts(self) -> list[str]:
        """What a user should know: the words behind the name of the column."""
        found = []
        words = [*self.marks, *([f"the unit {self.unit!r}"] if self.unit else [])]
        hint = ""
        if not self.sure:
            hint = f"; --decimal , reads {'decimal commas' if words else 'points as separators of thousands'}"
            words = words or ["decimal points"]
        if words:
            shown = ", ".join(words[:-1]) + " and " * (len(words) > 1) + words[-1]
            found.append(f"is read as numbers with {shown}{hint}")
        if self.wrong:
            count = "counts" if len(self.wrong) == 1 else "count"
            found.append(f"has {listed(self.wrong)} among its numbers, which {count} as missing")
        return found


def number_style(
    texts: Collection[str], decimal: str = "auto", missing_values: Sequence[str] | None = None, share: float = _NEARLY_ALL
) -> NumberStyle | None:
    """How distinct texts write numbers; None where fewer than a share of them are numbers, and for codes."""
    unknown = (lambda text: is_missing_text(text, missing_values)) if missing_values else is_no_number
    texts = list(texts)
    some = texts[:: max(1, len(texts) // _SOME)]
    if len(texts) > 2 * _SOME and sum(_is_like_number(text) or unknown(text) for text in some) < _FEW * len(some):
        return None  # long before all texts of a large table are read
    known = [text for text in texts if not unknown(text)]
    if not known or are_codes(known):
        return None
    # A decimal mark that is given decides what the texts leave open.
    wrong = {mark: [text for text in known if number_of(text, mark) is None] for mark in DECIMALS}
    best = min(DECIMALS, key=lambda mark: (len(wrong[mark]), mark != decimal))
    if len(wrong[best]) > (1.0 - share) * len(known):
        return _style_with_unit(known, decimal)
    both = decimal == "auto" and len(wrong["."]) == len(wrong[","])
    differs = both and any(number_of(text, ".") != number_of(text, ",") for text in known if text not in wrong["."])
    return NumberStyle(best, not differs, _marks(known, best), tuple(wrong[best]))


def _is_like_number(text: str) -> bool:
    return any(number_of(text, mark) is not None for mark in DECIMALS) or _WITH_UNIT.fullmatch(text.strip()) is not None


def _style_with_unit(texts: Sequence[str], decimal: str) -> NumberStyle | None:
    unit, count = next(iter(units_of(texts).items()), ("", 0))
    if count < _NEARLY_ALL * len(texts):
        return None
    plain = {text: text.strip().removesuffix(unit).strip() for text in texts if text.strip().endswith(unit)}
    style = number_style(plain.values(), decimal)
    if style is None or style.unit:
        return None
    wrong = [text for text in texts if text not in plain or plain[text] in style.wrong]
    return style._replace(unit=unit, wrong=tuple(wrong))


def units_of(texts: Collection[str]) -> dict[str, int]:
    """How many texts have which unit behind a number, the most frequent first.

    Examples
    --------
    >>> units_of(["3 kg", "2.5 kg", "700 g", "red"])
    {'kg': 2, 'g': 1}
    """
    found = (_WITH_UNIT.fullmatch(text.strip()) for text in texts)
    return dict(Counter(match[1] for match in found if match is not None).most_common())


def are_codes(texts: Collection[str]) -> bool:
    """Whether texts are codes such as 01067 rather than numbers: digits of one length, some with leading zeros.

    Examples
    --------
    >>> are_codes(["01067", "80331"]), are_codes(["0", "10"]), are_codes(["01", "12"])
    (True, False, False)
    """
    length = len(next(iter(texts), ""))
    return (
        length >= _CODE_DIGITS
        and any(text.startswith("0") for text in texts)
        and all(len(text) == length and text.isdigit() for text in texts)
        and any(text.strip("0") for text in texts)
    )


def is_no_number(text: str) -> bool:
    """Whether a text in a column of numbers means that there is no value."""
    return is_missing_text(text, None) or text.strip().casefold() in _NOT_A_NUMBER


def _marks(texts: Iterable[str], decimal: str) -> tuple[str, ...]:
    other = "." if decimal == "," else ","
    tests = {
        "decimal commas": lambda text: decimal == "," and "," in text,
        "separators of thousands": lambda text: other in text or re.search(rf"\d{_SPACES.pattern}\d", text),
        "percent signs": lambda text: "%" in text,
        "currencies": lambda text: re.search(_CURRENCY, text, re.IGNORECASE),
    }
    texts = list(texts)
    return tuple(words for words, test in tests.items() if any(map(test, texts)))


def date_format(texts: Sequence[str]) -> tuple[str, bool] | None:
    """The format in which distinct texts are dates, and whether it is the only one; None where they are no dates."""
    import pyarrow as pa

    if not texts or sum(any(c.isdigit() for c in text) for text in texts[:100]) < 0.9 * min(len(texts), 100):
        return None
    column = pa.array([text.strip() for text in texts])
    counts = {}
    for form in _DATE_FORMATS:
        if np.isnan(seconds_of(column[:3], form)).sum() < min(len(column), 3):
            seconds = seconds_of(column, form)
            known = seconds[~np.isnan(seconds)]
            if len(known) and known.min() >= _YEAR_1000:  # %Y takes years of two digits as well
                counts[form] = len(known)
    if not counts or max(counts.values()) < _NEARLY_ALL * len(column):
        return None
    most = max(counts.values())
    best = [form for form, count in counts.items() if count == most]
    return best[0], len(best) == 1 or best[0] == ISO


def are_dates(texts: Sequence[str]) -> bool:
    """Whether texts are dates, which may be written in different ways."""
    import pyarrow as pa

    some = pa.array([text.strip() for text in texts[:_FEW_TEXTS]])
    known = np.zeros(len(some), dtype=bool)
    for form in _DATE_FORMATS:
        known |= seconds_of(some, form) >= _YEAR_1000
    return bool(known.mean() >= _NEARLY_ALL)


def alike(texts: Iterable[str]) -> str | None:
    """The first two texts that differ in upper and lower case or outer blanks alone, in words; None where none do.

    Examples
    --------
    >>> alike(["no", "Yes", "yes"]), alike(["no", "yes"])
    ("'Yes' and 'yes'", None)
    """
    seen: dict[str, str] = {}
    for text in texts:
        first = seen.setdefault(text.strip().casefold(), text)
        if first != text:
            return f"{str(first)!r} and {str(text)!r}"
    return None


def is_time_format(form: str) -> bool:
    """Whether texts of a format are times of a day without a date."""
    return form in _TIME_FORMATS


def seconds_of(texts: Any, form: str) -> Array:
    """Seconds since 1970, or since midnight for times of a day, of an arrow array of texts; NaN where one is no date."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def parsed(values: Any, form: str) -> Any:
        return pc.strptime(values, format=form, unit="s", error_is_null=True).cast(pa.int64()).cast(pa.float64())

    texts = pc.utf8_trim_whitespace(texts)
    if form != ISO:
        seconds = parsed(texts, form)
    else:
        parts = pc.extract_regex(texts, _ISO)
        day, time, second, zone, minute = (
            pc.if_else(parts.is_valid(), pc.struct_field(parts, name), None)
            for name in ("day", "time", "second", "zone", "minute")
        )
        number = [pc.if_else(pc.equal(part, ""), "0", part).cast(pa.float64()) for part in (second, zone, minute)]
        # The minutes of a time zone have the sign of its hours.
        minutes = pc.if_else(pc.starts_with(zone, "-"), pc.negate(number[2]), number[2])
        offset = pc.add(pc.multiply(number[1], 3600.0), pc.multiply(minutes, 60.0))
        local = parsed(pc.binary_join_element_wise(day, time, " "), "%Y-%m-%d %H:%M")
        seconds = pc.subtract(pc.add(local, number[0]), offset)
    return number_array(seconds) % DAY if is_time_format(form) else number_array(seconds)


# Dates as numbers


def number_date_format(values: Array, name: str = "") -> str | None:
    """The format in which the numbers of a column (rows,), NaN where there is none, are dates; None where they are not.

    A calendar date is one where all numbers have as many digits and are dates from 1900 to 2099, which other numbers hardly
    ever are. The other formats need a name with a word such as "date".

    Examples
    --------
    >>> number_date_format(np.array([20240131, 20240201, 20240301.0])), number_date_format(np.array([1.0, 2.0, 3.0]))
    ('%Y%m%d', None)
    >>> number_date_format(np.array([45_322, 45_323, 45_352.0]), "orderDate")
    'days of Excel'
    """
    some = values[:_SOME_DATES]
    form = _format_of(some[~np.isnan(some)], name, 1)
    return None if form is None else _format_of(values[~np.isnan(values)], name, _FEWEST_DATES)


def _format_of(known: Array, name: str, fewest: int) -> str | None:
    if len(known) == 0 or (fewest > 1 and len(np.unique(known)) < fewest):
        return None
    low, high = float(known.min()), float(known.max())
    shortest, longest = len(f"{low:.0f}"), len(f"{high:.0f}")
    compact = _COMPACT.get(shortest)
    if compact is not None and longest == shortest and not np.isnan(number_seconds(known, compact)).any():
        # Numbers that count from 200001 on are months up to 200012.
        return compact if compact != "%Y%m" or fewest == 1 or high // 100 > low // 100 else None
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
    return next((f for f, (first, last) in _RANGES.items() if words & _WORDS[f] and first <= low and high <= last), None)


def number_seconds(values: Array, form: str) -> Array:
    """Seconds since 1970 of numbers (rows,) in one of :data:`NUMBER_FORMATS`; NaN where a number is no date.

    Examples
    --------
    >>> number_seconds(np.array([19700102, 19700230.0]), "%Y%m%d"), number_seconds(np.array([25569.5]), EXCEL)
    (array([86400.,    nan]), array([43200.]))
    """
    if form == EXCEL:
        return (values + _EXCEL_START) * DAY
    if form in (SECONDS, MILLISECONDS):
        return values / (1.0 if form == SECONDS else 1000.0)
    parts = {name: np.zeros(len(values)) for name in "dHMS"} | {"d": np.ones(len(values))}
    rest = np.where(np.isnan(values), 0.0, values)
    for name in reversed(form.replace("%", "")[1:]):  # the last part first, two digits each
        parts[name], rest = np.mod(rest, 100.0), np.floor(rest / 100.0)
    months, year = parts["m"], rest
    valid = (year >= _FIRST_YEAR) & (year <= _LAST_YEAR) & (months >= 1) & (months <= _MONTHS) & (values == np.rint(values))
    first = (np.where(valid, (year - 1970) * _MONTHS + months - 1, 0)).astype("datetime64[M]")
    n_days = ((first + 1).astype("datetime64[D]") - first.astype("datetime64[D]")).astype(np.int64)
    valid &= (parts["d"] >= 1) & (parts["d"] <= n_days) & (parts["H"] < 24) & (parts["M"] < 60) & (parts["S"] < 60)
    days = first.astype("datetime64[D]").astype(np.float64) + parts["d"] - 1.0
    return np.where(valid, days * DAY + parts["H"] * 3600.0 + parts["M"] * 60.0 + parts["S"], np.nan)
