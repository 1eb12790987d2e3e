"""Checks of settings (options, counts, numbers) and of samples (tables and targets as NumPy arrays)."""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]  # the type of an array in the whole package

# Largest magnitude of a number in a table.
LARGEST = 1e150
# Rows that are checked together. The temporary arrays are then small for a large table as well.
_CHECKED_ROWS = 16_384
# Characters of a name, and names of a list, that a message shows.
_SHOWN_CHARACTERS, _SHOWN_NAMES = 80, 5
# A value in a message; one from a file may be of any length.
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 200


def did_you_mean(name: str, options: Iterable[str], similarity: float = 0.6) -> str:
    """The hint `` Did you mean 'x'?`` for a mistyped name, or "" when no option is close.

    Letter case and outer blanks are ignored.
    """
    plain = {option.strip().casefold(): option for option in options}
    matches = difflib.get_close_matches(str(name).strip().casefold(), plain, n=1, cutoff=similarity)
    return f" Did you mean {plain[matches[0]]!r}?" if matches else ""


def quoted(name: object) -> str:
    """A name as a message shows it: quoted, shortened, without control characters.

    Examples
    --------
    >>> print(quoted("a" + chr(27)))
    'a\\x1b'
    """
    text = str(name)
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…")


def listed(names: Iterable[object]) -> str:
    """Quoted names, separated by commas; a long list ends with the number of names left out."""
    names = list(names)
    rest = len(names) - _SHOWN_NAMES
    return ", ".join(map(quoted, names[:_SHOWN_NAMES])) + (f" and {rest} more" if rest > 0 else "")


def check_option(name: str, value: Any, options: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``options``."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, one of {', '.join(map(repr, options))}, got {_short.repr(value)}.")
    if value not in options:
        hint = did_you_mean(value, options)
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {_short.repr(value)}.{hint}")
    return value


def check_options_of(name: str, owner: str, options: Any, known: Sequence[str] | None) -> None:
    """Require a mapping whose keys ``owner`` takes; with ``known=None`` all keys are accepted."""
    if not isinstance(options, Mapping):
        raise TypeError(f"{name} must be a dictionary, got {options!r}.")
    for key in options:
        if known is not None and key not in known:
            takes = ", ".join(map(repr, known)) or "none"
            raise ValueError(
                f"{name} has {key!r}, which {owner} does not take (it takes {takes}).{did_you_mean(key, known)}"
            )


def check_count(name: str, value: Any, minimum: int = 1, maximum: int | None = None) -> int:
    """Return ``value`` as an ``int`` within ``minimum`` and ``maximum``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {_short.repr(value)}.")
    count = int(value)
    if maximum is not None and not minimum <= count <= maximum:
        raise ValueError(f"{name} must be between {minimum} and {maximum}, got {count}.")
    if count < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {count}.")
    return count


def check_number(
    name: str, value: Any, *, above: float = -math.inf, minimum: float = -math.inf, below: float = math.inf
) -> float:
    """Return ``value`` as a finite ``float`` with ``minimum <= value``, ``above < value`` and ``value < below``."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {_short.repr(value)}.")
    rules = []
    if above > -math.inf:
        rules.append(f"greater than {above:g}")
    if minimum > -math.inf:
        rules.append(f"at least {minimum:g}")
    if below < math.inf:
        rules.append(f"less than {below:g}")
    number = float(value)
    if not (math.isfinite(number) and number > above and number >= minimum and number < below):
        raise ValueError(f"{name} must be {' and '.join(rules) or 'finite'}, got {_short.repr(value)}.")
    return number


def check_coverage(coverage: Any) -> float:
    """Return a coverage within (0, 1)."""
    return check_number("coverage", coverage, above=0.0, below=1.0)


def check_finite_table(name: str, values: Array, columns: Sequence[str] | None = None, *, missing: bool = False) -> None:
    """Require finite numbers in a table (rows, columns) or a vector; an error names the first wrong one. Reads values.

    With ``missing`` NaN is allowed.
    """
    # Numbers above the limit are refused like infinite ones, because sums of their squares overflow.
    parts = (values[first : first + _CHECKED_ROWS] for first in range(0, len(values), _CHECKED_ROWS))
    if all((np.abs(part) <= LARGEST).all() for part in parts):
        return
    bad = np.abs(values) > LARGEST if missing else ~(np.abs(values) <= LARGEST)
    if not bad.any():
        return
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    value = values[at]
    rule = f"within ±{LARGEST:g}" if np.isfinite(value) else "finite"
    got = "NaN" if np.isnan(value) else f"{value:g}"
    where = f"row {at[0]}"
    if len(at) > 1:
        where += f", column {at[1] if columns is None else repr(str(columns[at[1]]))}"
    values_in_all = f"{int(bad.sum())} such value{'' if bad.sum() == 1 else 's'} in all"
    raise ValueError(f"{name} must be {rule}, got {got} in {where} ({values_in_all}).")


def comparable(values: Array) -> Array:
    """Values with infinity in place of NaN, which is not equal to itself."""
    unknown = np.isnan(values)
    return np.where(unknown, np.inf, values) if unknown.any() else values


def known_mean(values: Array) -> Array:
    """Mean over the values of each column that are not NaN, (columns,); 0 where none is."""
    unknown = np.isnan(values)
    if not unknown.any():
        return values.mean(axis=0)
    return np.where(unknown, 0.0, values).sum(axis=0) / np.maximum((~unknown).sum(axis=0), 1)


def check_targets_given(y: Any) -> None:
    """Require a target."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None.")


def check_number_targets(y: Any) -> Array:
    """Return targets as float64, (rows,) or (rows, outputs)."""
    check_targets_given(y)
    values = np.ma.filled(y.astype(np.float64), np.nan) if isinstance(y, np.ma.MaskedArray) else np.asarray(y)
    if values.dtype.kind == "c":
        raise ValueError("y must hold real numbers, got: Complex data not supported.")
    if values.dtype.kind in "Mm":
        raise ValueError("y must hold numbers, got dates or durations: convert them to numbers, such as days, first.")
    if values.ndim not in (1, 2) or (values.ndim == 2 and values.shape[1] < 1):
        raise ValueError(f"y must have shape (rows,) or (rows, outputs), got {values.shape}.")
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        is_text = "string to float" in str(error)
        got = f"text ({quoted_text(error)})" if is_text else f"values of the type {type(values.flat[0]).__name__}"
        raise ValueError(f"y must hold numbers, got {got}; FLSClassifier learns classes.") from None


def check_same_length(x: Any, y: Any) -> None:
    """Require as many targets as rows."""
    if len(x) != len(y):
        raise ValueError(f"X and y must have the same number of rows, got {len(x)} and {len(y)}.")


def quoted_text(error: Exception) -> str:
    """The text of a "could not convert string to float: ..." error, in quotes."""
    return str(error).split(": ", 1)[-1].removeprefix("np.str_(").removesuffix(")")
