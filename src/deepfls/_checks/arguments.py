"""Checks of arguments (options, counts, numbers) and the words of messages. Without NumPy, which is slow to import."""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

# Characters of a name, and names of a list, that a message shows.
_SHOWN_CHARACTERS, _SHOWN_NAMES = 80, 5
# A value in a message; one from a file may be of any length.
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 200


def counted(count: int, noun: str, ending: str = "s") -> str:
    """A count and its noun, in the plural unless the count is 1.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row"), counted(3, "class", "es")
    ('1 row', '1,200 rows', '3 classes')
    """
    return f"{count:,} {noun}{'' if count == 1 else ending}"


def left_out(count: int, what: str) -> str:
    """The sentence about rows that are not used, without its full stop.

    Examples
    --------
    >>> left_out(1, "a target"), left_out(2, "a weight")
    ('1 row without a target is left out', '2 rows without a weight are left out')
    """
    return f"{counted(count, 'row')} without {what} {'is' if count == 1 else 'are'} left out"


def did_you_mean(name: str, options: Iterable[str], similarity: float = 0.6) -> str:
    """The hint `` Did you mean 'x'?`` for a mistyped name, or "" when no option is close."""
    found = nearest(name, options, similarity)
    return "" if found is None else f" Did you mean {found!r}?"


def nearest(name: str, options: Iterable[str], similarity: float = 0.6) -> str | None:
    """The option nearest to a mistyped name, or None when none is close; letter case and outer blanks are ignored."""
    plain = {option.strip().casefold(): option for option in options}
    matches = difflib.get_close_matches(str(name).strip().casefold(), plain, n=1, cutoff=similarity)
    return plain[matches[0]] if matches else None


def printable(text: object) -> str:
    """Text with every control character as its escape, so that it cannot act on the terminal.

    Examples
    --------
    >>> print(printable("red" + chr(27) + "[31m"))
    red\\x1b[31m
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


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
    number = float(value)
    if not (math.isfinite(number) and number > above and number >= minimum and number < below):
        limits = {"greater than": above, "at least": minimum, "less than": below}
        rules = [f"{words} {limit:g}" for words, limit in limits.items() if math.isfinite(limit)]
        rules += ["finite"] if number == below == math.inf else []
        raise ValueError(f"{name} must be {' and '.join(rules) or 'finite'}, got {_short.repr(value)}.")
    return number


def check_coverage(coverage: Any) -> float:
    """Return a coverage within (0, 1)."""
    return check_number("coverage", coverage, above=0.0, below=1.0)
