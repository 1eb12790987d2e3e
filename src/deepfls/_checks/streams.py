"""Checks of long runs: the interval between two checkpoints."""

from __future__ import annotations

import re
from numbers import Integral
from typing import Any, NamedTuple


class Interval(NamedTuple):
    """Steps between two checkpoints, or seconds; the other is None."""

    steps: int | None
    seconds: float | None


def check_interval(name: str, value: Any) -> Interval:
    """Return a number of steps, or a time such as "30s" or "5min", as an interval."""
    if not isinstance(value, bool) and isinstance(value, (Integral, str)):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h|)", str(value).strip())
        if found and found[2] == "" and re.fullmatch(r"0*[1-9]\d*", found[1]):
            return Interval(int(found[1]), None)
        if found and found[2] and float(found[1]) > 0:
            return Interval(None, float(found[1]) * {"s": 1.0, "min": 60.0, "h": 3600.0}[found[2]])
    raise ValueError(f"{name} must be a number of steps such as 200 or a time such as 30s, 5min or 1h, got {value!r}.")
