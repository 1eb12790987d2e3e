"""Dates that are written as plain numbers: 20240131, days of Excel, seconds since 1970."""

from __future__ import annotations

import re

import numpy as np

from deepfls._checks.values import Array

_DAY, _MONTHS = 86_400.0, 12
# Digits of a calendar date, and its format: year and month, then the day, hour, minute and second.
_COMPACT = {6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_FIRST_YEAR, _LAST_YEAR = 1900, 2099
EXCEL, SECONDS, MILLISECONDS = "days of Excel", "seconds since 1970", "milliseconds since 1970"
NUMBER_FORMATS = (*_COMPACT.values(), EXCEL, SECONDS, MILLISECONDS)
# Smallest and largest number of dates from 1980 to 2060, the day 0 of Excel in days since 1970, and the words of names that
# must stand beside such numbers: a number of five digits may be anything.
_RANGES = {EXCEL: (29_221, 58_806), SECONDS: (315_532_800, 2_871_763_199), MILLISECONDS: (315_532_800e3, 2_871_763_199e3)}
_EXCEL_START = -25_569
_DAY_WORDS = {"date", "datetime", "day", "datum", "fecha", "tarih"}
_TIME_WORDS = {"date", "datetime", "datum", "epoch", "time", "timestamp", "ts", "unix"}
_WORDS = {EXCEL: _DAY_WORDS, SECONDS: _TIME_WORDS, MILLISECONDS: _TIME_WORDS}
# Different numbers that show that a column holds dates, and values that are looked at first.
_FEWEST, _SOME = 3, 64


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
    if len(values) and values[0] < _RANGES[EXCEL][0]:  # nearly all columns of numbers end here
        return None
    some = values[:_SOME]
    form = _format_of(some[~np.isnan(some)], name, 1)
    return None if form is None else _format_of(values[~np.isnan(values)], name, _FEWEST)


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
        return (values + _EXCEL_START) * _DAY
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
    return np.where(valid, days * _DAY + parts["H"] * 3600.0 + parts["M"] * 60.0 + parts["S"], np.nan)
