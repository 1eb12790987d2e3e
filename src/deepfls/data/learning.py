"""What the columns of a training table are: roles, categories, formats. Warnings state what was decided."""

from __future__ import annotations

import dataclasses
import re
import shlex
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepfls._checks.arguments import check_count, check_option, listed
from deepfls._checks.values import Array
from deepfls.data import written
from deepfls.data.columns import OTHER, Column, Columns, check_place, date_seconds, distinct_texts, without_sentinels
from deepfls.data.frames import KINDS, RawTable, as_text, kind_of
from deepfls.data.written import DAY, NumberStyle

# Categories that a column keeps at most; the others are pooled.
MAX_CATEGORIES = 200
# Categories up to which a column is kept although none of them has enough rows.
_FEW_CATEGORIES = 10
# Share of distinct texts from which texts are identifiers, and the least number of texts.
_DISTINCT_SHARE, _DISTINCT_ROWS = 0.9, 5
# Share of numbers from which texts that would be identifiers are numbers, with other texts among them.
_NUMBER_SHARE = 0.5
# Texts whose units are looked at, and units that a message names.
_SOME_TEXTS, _FEW_UNITS = 1_000, 5
_YEAR = 365.0 * DAY
# Categories beside which NA may be one, such as codes of countries.
_CODE = re.compile("[A-Z]{2}")
# Last words of the names of columns that may number the rows.
_ROW_NAMES = {"id", "idx", "index", "row", "rownames", "rownum", "unnamed"}


@dataclass(frozen=True)
class ColumnSettings:
    """The settings of the estimators that decide what columns are."""

    categorical: Any = None  # names or places of columns of numbers that are categories
    min_category_rows: int = 5
    missing_values: Sequence[str] | None = None
    decimal: str = "auto"

    def __post_init__(self) -> None:
        check_count("min_category_rows", self.min_category_rows)
        check_option("decimal", self.decimal, ("auto", *written.DECIMALS))
        if self.missing_values is not None and (
            isinstance(self.missing_values, str) or not isinstance(self.missing_values, Iterable)
        ):
            raise TypeError(f"missing_values must be a list of texts or numbers, got {self.missing_values!r}.")


class _Notes:
    """Sentences about columns, one for each kind of fact."""

    def __init__(self) -> None:
        self._columns: dict[str, list[str]] = {}

    def add(self, name: str, fact: str) -> None:
        """Note a fact about a column: the words behind its name."""
        self._columns.setdefault(fact, []).append(name)

    def forget(self, reason: str) -> None:
        """Take back that columns are left out for a reason."""
        self._columns.pop(f"{reason} and is left out", None)

    def warn(self) -> None:
        for fact, names in self._columns.items():
            word, rest = fact.split(" ", 1)
            if len(names) > 1:
                word = {"is": "are", "has": "have"}.get(word, word.removesuffix("s"))
                rest = rest.replace(" and is left out", " and are left out").replace(" its ", " their ")
            warnings.warn(f"Column{'s' * (len(names) > 1)} {listed(names)} {word} {rest}.", stacklevel=5)

    def left_out(self, column: Column, reason: str) -> Column:
        self.add(column.name, f"{reason} and is left out")
        return dataclasses.replace(column, role="left out", reason=reason)


# Distinct texts of a column, and the place of every row among them.
_Texts = tuple[list[str], Array]
_IDENTIFIER = "has a different text in nearly every row, as identifiers have,"
_CONSTANT = "has the same value in every row"
_EMPTY = "has no values"


def learn_columns(table: RawTable, settings: ColumnSettings, *, named: bool, complete: bool = True) -> Columns:
    """The description of the columns of a training table; warnings report what a user would not expect.

    Where the table is not ``complete``, constant and repeated columns stay, because other rows may differ.
    """
    notes = _Notes()
    missing_values = None if settings.missing_values is None else tuple(map(str, settings.missing_values))
    plain = Columns(tuple(Column(name, missing_values=missing_values) for name in table.names), named)
    chosen = settings.categorical
    chosen = [] if chosen is None else chosen if isinstance(chosen, (list, tuple, np.ndarray)) else [chosen]
    categorical = {check_place("categorical", column, plain) for column in chosen}
    texts = {
        place: distinct_texts(values, missing_values)
        for place, values in enumerate(table.values)
        if place in categorical or kind_of(values) in ("text", "category", "boolean")
    }
    styles = _number_styles(table, texts, categorical, settings)
    found = list(plain.columns)
    for place, (column, values) in enumerate(zip(plain.columns, table.values, strict=True)):
        kind = kind_of(values)
        if place in styles:
            found[place] = _written_numbers(column, styles[place], texts[place][0], values, notes)
        elif place in texts:
            least = settings.min_category_rows
            found[place] = _text_column(column, values, texts[place], least, notes, named=place in categorical)
        elif kind == "number":
            found[place] = _number_column(column, without_sentinels(values, missing_values), values, notes)
        elif kind == "date":
            found[place] = _date_column(column, values, notes)
        else:
            found[place] = notes.left_out(column, _EMPTY if kind == "empty" else f"holds {KINDS[kind]}")
    described = Columns(tuple(found), named)
    if described.width == 0:
        first = next((c for c in described.columns if c.reason == _IDENTIFIER), described.columns[0])
        option = f"categorical=[{first.name!r}] (--categorical {shlex.quote(first.name)})"
        hint = f"; {option} takes its texts as categories" if first.reason == _IDENTIFIER else ""
        raise ValueError(f"X must have a column to learn from, but {first.name!r} {first.reason} and is left out{hint}.")
    if complete:
        described = _without_useless(described, table, notes)
    notes.warn()
    return described


def _number_styles(
    table: RawTable, texts: dict[int, _Texts], categorical: set[int], settings: ColumnSettings
) -> dict[int, NumberStyle]:
    """How the text columns that hold numbers write them. Where a column leaves it open, the others of the table decide."""
    styles: dict[int, NumberStyle] = {}
    for place, (distinct, places) in texts.items():
        if kind_of(table.values[place]) == "text" and place not in categorical:
            style = written.number_style(distinct, settings.decimal, settings.missing_values)
            if style is None and _are_identifiers(distinct, places):
                style = written.number_style(distinct, settings.decimal, settings.missing_values, _NUMBER_SHARE)
            if style is not None:
                styles[place] = style
    sure = [style.decimal for style in styles.values() if style.sure and style.marks]
    if sure.count(",") > sure.count("."):
        styles |= {place: style.with_commas(texts[place][0]) for place, style in styles.items() if not style.sure}
    return styles


def _are_identifiers(distinct: Sequence[str], places: Array) -> bool:
    n_known = int((places >= 0).sum())
    return n_known >= _DISTINCT_ROWS and len(distinct) >= _DISTINCT_SHARE * n_known


def _written_numbers(column: Column, style: NumberStyle, distinct: Sequence[str], values: Any, notes: _Notes) -> Column:
    for fact in style.facts:
        notes.add(column.name, fact)
    if not style.facts:
        found = _number_column(column, np.array([style.number(text) for text in distinct], np.float64), values, notes)
        if found.role == "date":
            return found
    return dataclasses.replace(column, decimal=style.decimal, unit=style.unit, pooled=style.wrong)


def _number_column(column: Column, numbers: Array, values: Any, notes: _Notes) -> Column:
    """A column of numbers, or of dates that are written as such."""
    if len(numbers) and numbers[0] < written.SMALLEST_DATE:  # nearly all columns of numbers
        return column
    form = written.number_date_format(numbers, column.name)
    if form is None:
        return column
    number = numbers[~np.isnan(numbers)][0]
    date = np.datetime64(int(written.number_seconds(np.array([number]), form)[0]), "s")
    notes.add(column.name, f"is read as dates, {number:.15g} as {str(date).replace('T', ' ').removesuffix(' 00:00:00')}")
    return _date_column(dataclasses.replace(column, date_format=form), values, notes)


def _text_column(column: Column, values: Any, texts: _Texts, least: int, notes: _Notes, *, named: bool) -> Column:
    """A column of text, of booleans, or of numbers that the user calls categories, of ``least`` rows each."""
    distinct, places = texts
    if not distinct:
        return notes.left_out(column, _EMPTY)
    if not named and kind_of(values) == "text":
        date = written.date_format(distinct)
        if date is not None:
            if not date[1]:
                notes.add(column.name, _date_reading(distinct, date[0]))
            return _date_column(dataclasses.replace(column, date_format=date[0]), values, notes)
        if _are_identifiers(distinct, places):
            some = distinct[:_SOME_TEXTS]
            units = written.units_of(some)
            is_measured = len(units) > 1 and sum(units.values()) >= _DISTINCT_SHARE * len(some)
            mixed = f"has numbers with different units ({', '.join(map(repr, list(units)[:_FEW_UNITS]))})"
            dates = "has dates that are written in different ways, not all as 2024-12-31,"
            return notes.left_out(column, mixed if is_measured else dates if written.are_dates(some) else _IDENTIFIER)
        if written.are_codes(distinct):
            notes.add(column.name, "has numbers with leading zeros and is read as text")
    _note_doubts(column, values, distinct, notes)
    counts = np.bincount(places[places >= 0], minlength=len(distinct))
    if not named and len(distinct) > _FEW_CATEGORIES and counts.max() < 2 * least:
        return notes.left_out(column, f"has {len(distinct):,} categories, none of them in {2 * least} rows,")
    categories, pooled = _pooled(distinct, counts, least)
    if len(distinct) > MAX_CATEGORIES:
        stay = f"of which {len(categories) - 1:,} stay and the others count as {OTHER!r}"
        notes.add(column.name, f"has {len(distinct):,} categories, {stay}")
    return dataclasses.replace(column, role="category", categories=categories, pooled=pooled)


def _date_reading(texts: Sequence[str], form: str) -> str:
    """What a user should know about dates that can be read in two ways, with one that shows it."""
    import pyarrow as pa

    some = texts[:_SOME_TEXTS]
    dates = np.nan_to_num(written.seconds_of(pa.array(some), form)).astype("datetime64[s]")
    days = (dates.astype("datetime64[D]") - dates.astype("datetime64[M]").astype("datetime64[D]")).astype(int)
    place = int(np.argmax(days != dates.astype("datetime64[M]").astype(int) % 12))  # not the second of February
    day, time = str(dates[place]).split("T")
    read = time if written.is_time_format(form) else f"{day} {time}" if "%M" in form else day
    taken = f"has dates that can be read in two ways, and {some[place]!r} is taken as {read}"
    return f"{taken}; write them as 2024-12-31 to be sure"


def _note_doubts(column: Column, values: Any, distinct: Sequence[str], notes: _Notes) -> None:
    """Note texts that count as missing, and categories that are probably the same."""
    import pyarrow.compute as pc

    if column.missing_values is None and kind_of(values) in ("text", "category"):
        doubtful = [*written.DOUBTFUL, *(["NA"] if len(distinct) > 1 and all(map(_CODE.fullmatch, distinct)) else [])]
        texts = pc.utf8_trim_whitespace(as_text(values))
        for text in doubtful:
            count = 0 if text in distinct else pc.sum(pc.equal(texts, text)).as_py() or 0
            if count:
                rows = f"{count:,} row{'' if count == 1 else 's'}"
                option = "missing_values=[''] (--missing-values '')"
                notes.add(column.name, f"has {text!r} in {rows}, which counts as missing; {option} takes it as a category")
    same = written.alike(distinct)
    if same is not None:
        notes.add(column.name, f"has categories that differ in case alone, {same}; write them alike to join them")


def _pooled(distinct: Sequence[str], counts: Array, least: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Categories that stay, sorted, and the rare ones, which become the last category together."""
    order = sorted(range(len(distinct)), key=lambda place: (-counts[place], distinct[place]))
    kept = [place for place in order if counts[place] >= least] or order
    kept = kept[: MAX_CATEGORIES - 1] if len(distinct) > MAX_CATEGORIES else kept
    rare = [place for place in order if place not in set(kept)]
    if len(rare) == 1 and len(distinct) <= MAX_CATEGORIES:  # alone in its pool, it keeps its name
        kept, rare = order, []
    names = sorted(distinct[place] for place in kept if distinct[place] != OTHER or not rare)
    if not rare:
        return tuple(names), ()
    return (*names, OTHER), tuple(sorted({distinct[place] for place in rare} | ({OTHER} & set(distinct))))


def _date_column(column: Column, values: Any, notes: _Notes) -> Column:
    """A column of dates: days, and sine and cosine of the day and of the year where the dates span one."""
    seconds = date_seconds(values, column.date_format)
    known = seconds[~np.isnan(seconds)]
    if len(known) == 0:
        return notes.left_out(column, _EMPTY)
    span, within = np.ptp(known), known % DAY
    is_time = str(getattr(values, "type", "")).startswith(("time32", "time64")) or written.is_time_format(
        column.date_format
    )
    parts = ["hours" if is_time else "days"]
    if np.ptp(within) > 0 and (is_time or span >= DAY):
        parts += ["day_sin", "day_cos"]
    if span >= _YEAR:
        parts += ["year_sin", "year_cos"]
    return dataclasses.replace(column, role="date", date_parts=tuple(parts))


def _without_useless(columns: Columns, table: RawTable, notes: _Notes) -> Columns:
    """The description without constant columns and without columns that repeat another; one column stays at least."""
    if table.n_rows < 2:
        return columns
    found = []
    seen: dict[bytes, list[tuple[str, Array]]] = {}
    for column, values in zip(columns.columns, table.values, strict=True):
        reason = _reason_to_leave_out(column, values, seen)
        found.append(notes.left_out(column, reason) if reason else column)
        if not reason and columns.named and _numbers_rows(column, values):
            notes.add(column.name, f"numbers the rows; --drop {shlex.quote(column.name)} leaves it out of the inputs")
    if all(column.role == "left out" for column in found):
        notes.forget(_CONSTANT)  # nothing varies: the model is a constant, and the constant columns stay
        warnings.warn("No column of X varies: the model gives the same for every row.", stacklevel=5)
        return columns
    return Columns(tuple(found), columns.named)


def _reason_to_leave_out(column: Column, values: Any, seen: dict[bytes, list[tuple[str, Array]]]) -> str:
    """Why an input has no information, or ""; ``seen`` are the numbers of earlier columns, by the bytes of a few rows."""
    if column.role == "category" and len(column.categories) == 1:
        return "" if (column.encoded(values) != column.codes[0]).any() else _CONSTANT
    if column.role != "number":
        return ""
    numbers = column.encoded(values)[:, 0]
    some = np.ascontiguousarray(numbers[:64])
    if (some == some[0]).all() and (numbers == numbers[0]).all():
        return _CONSTANT
    if np.isnan(some).all() and np.isnan(numbers).all():
        return _EMPTY
    others = seen.setdefault(some.tobytes(), [])
    first = next((name for name, other in others if np.array_equal(numbers, other, equal_nan=True)), None)
    others.append((column.name, numbers))
    return "" if first is None else f"repeats column {first!r}"


def _numbers_rows(column: Column, values: Any) -> bool:
    """Whether a column of a name such as "PassengerId" holds every whole number of a range once."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", column.name)
    if column.role != "number" or not words or words[-1].lower() not in _ROW_NAMES:
        return False
    numbers = column.encoded(values)[:, 0]
    n_rows = len(numbers)
    return n_rows >= _DISTINCT_ROWS and bool(np.ptp(numbers) == n_rows - 1 and len(np.unique(numbers)) == n_rows)
