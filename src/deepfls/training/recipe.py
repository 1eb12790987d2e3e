"""The settings that "auto" stands for, chosen by the experiments in docs/recipe.md: functions of the number of rows, and
the paths along which a fit looks for the complexity that its rows support.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Path:
    """Runs that differ in their number of epochs alone, so that one run shows them all."""

    rate: float = 1.0  # times the learning rate
    decay: float = 1.0  # times the weight decay
    width: float = 1.0  # times the starting width
    shares: tuple[float, ...] = (1.0,)  # of the epochs


# Rows from which one part is held out instead of folds, and rows beyond which a sample of so many is used.
_FOLD_ROWS, CHOICE_ROWS = 4_000, 16_000
_N_FOLDS = 3
# Fewest rows of which the errors of trained systems are worth systems of their own.
CORRECTION_ROWS = 2_000
# Numbers of rules that n_rules="auto" compares, and the rows that each rule needs.
_RULES, _ROWS_PER_RULE = (3, 6, 12, 25, 50, 100), 8


def paths(n_rows: int, *, several: bool) -> tuple[Path, ...]:
    """The runs that are compared; of several systems one more.

    Where rows are few the slopes are nearly common to all rules. The second path has thrice the rate: averaged over the
    epochs it fits noise less closely, and needs fewer of them. The third has narrow sets: what is too rough in one system
    is even in a mean.
    """
    decay = 100.0 * min(1.0, 1_000 / n_rows)
    usual = Path(1.0, decay, shares=(0.06, 0.12, 0.25, 0.5, 1.0))
    fast = Path(3.0, decay / 3.0, shares=(0.06, 0.12, 0.25))
    narrow = Path(1.0, decay, 0.25, shares=(0.25, 0.5, 1.0))
    return (usual, fast, narrow) if several else (usual, fast)


def batch_size(n_rows: int) -> int:
    """About thirteen batches to the epoch, a power of two from 32 to 4,096."""
    return int(2 ** np.clip(np.round(np.log2(max(n_rows, 1) / 13)), 5, 12))


def epochs(n_rows: int, batch_size: int) -> int:
    """About 600 steps times the fourth root of the rows: 3,400 for a thousand rows, 19,000 for a million.

    And no more than nine for every two rows: few rows are learned by heart.
    """
    n_steps = min(600.0 * n_rows**0.25, 4.5 * n_rows)
    return int(np.clip(round(n_steps / math.ceil(n_rows / batch_size)), 5, 400))


def learning_rate(n_rows: int) -> float:
    """0.05 up to 500 rows, then falling with their fifth root, down to the paper's 0.01."""
    return float(np.clip(0.05 * (500 / n_rows) ** 0.2, 0.01, 0.05))


def width(n_rows: int) -> float:
    """Wide sets, nearly one common model, where rows are few; narrower the more there are, as bandwidths are."""
    return float(np.clip((500 / n_rows) ** 0.25, 0.3, 1.0))


def weight_decay(n_rows: int) -> float:
    """1 up to 350 rows, then falling as their number grows: a pull as strong as 350 rows are."""
    return min(1.0, 350 / n_rows)


def fold_shares(n_rows: int) -> tuple[int, int]:
    """Parts into which rows are divided, and how many of them are held out in turn."""
    return (_N_FOLDS, _N_FOLDS) if n_rows < _FOLD_ROWS else (5, 1)


def usual_rules(n_rows: int) -> int:
    """The number of rules that ``n_rules="auto"`` stands for where none is compared: eighty rows to a rule, 3 to 50.

    One for each of fewer rows than three.
    """
    return max((count for count in _RULES[:5] if 10 * count * _ROWS_PER_RULE <= n_rows), default=min(_RULES[0], n_rows))


def rule_numbers(n_rows: int) -> tuple[int, ...]:
    """Numbers of rules that ``n_rules="auto"`` compares, at least eight rows to a rule."""
    return tuple(count for count in _RULES if count * _ROWS_PER_RULE <= n_rows) or _RULES[:1]
