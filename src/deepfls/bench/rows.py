"""What a question yields: rows of one number each, beside its target."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_SENSES: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True)
class Target:
    """What a number should be: at most (``<=``) or at least (``>=``) a limit.

    Examples
    --------
    >>> Target("<=", 2.0).holds(1.9), str(Target("<=", 2.0))
    (True, '<= 2')
    """

    sense: str
    limit: float

    def holds(self, value: float) -> bool:
        return _SENSES[self.sense](value, self.limit)

    def __str__(self) -> str:
        return f"{self.sense} {self.limit:,.10g}"


@dataclass(frozen=True)
class Row:
    """One measured number.

    Parameters
    ----------
    question : str
        Name of the question, as ``--only`` takes it.
    work : str
        What was measured.
    value : float or None
        None where it could not be measured; ``work`` then says why.
    unit : str
        "x" for ratios.
    target : Target, optional
    """

    question: str
    work: str
    value: float | None
    unit: str
    target: Target | None = None

    @property
    def holds(self) -> bool | None:
        """Whether the target is met; None without a target or a value."""
        if self.target is None or self.value is None:
            return None
        return math.isfinite(self.value) and self.target.holds(self.value)

    def plain(self) -> dict[str, Any]:
        """The row for JSON."""
        value = self.value if self.value is not None and math.isfinite(self.value) else None
        return {
            "question": self.question,
            "work": self.work,
            "value": value,
            "unit": self.unit,
            "target": None if self.target is None else str(self.target),
            "holds": self.holds,
        }

    def shown_value(self) -> str:
        """The value in at most four digits, and whole numbers whole.

        Examples
        --------
        >>> Row("steps", "", 1.23456, "x").shown_value(), Row("prediction", "", 2345678.0, "rows/s").shown_value()
        ('1.235', '2,345,678')
        """
        if self.value is None:
            return "-"
        if self.value == round(self.value) or abs(self.value) >= 1000:
            return f"{self.value:,.0f}"
        digits = max(0, 3 - math.floor(math.log10(abs(self.value))))
        return f"{self.value:.{min(digits, 6)}f}"
