"""Tables that give a model of little use: each is told in one sentence."""

from __future__ import annotations

import warnings

import numpy as np

from deepfls.data.arrays import ArraySource

# Rows from which 0 and 1 as the only targets are called classes.
_FEW_ROWS = 10
# Rows from which as many classes as half of them are called identifiers.
_MANY_ROWS = 20


def warn_of_odd_data(source: ArraySource) -> None:
    """Warn of one row, a target of one value or one class, and numbers that look like classes."""
    for text in _facts(source):
        warnings.warn(text, stacklevel=6)


def _facts(source: ArraySource) -> list[str]:
    if source.n_rows == 1:
        return ["The table has 1 row: the model gives its target for every input."]
    if source.classes is not None:
        if len(source.classes) == 1:
            return [f"The target has one class, {source.classes[0]!s}: the model gives it for every input."]
        if source.n_rows >= _MANY_ROWS and len(source.classes) > source.n_rows / 2:
            counts = f"{len(source.classes):,} classes in {source.n_rows:,} rows"
            return [f"The target has {counts}, as identifiers have: the model has little to learn from."]
        return []
    found = []
    for column in source.y.T:
        if (column == column[0]).all():
            found.append(f"The target is {column[0]:g} in every row: the model gives it for every input.")
        elif source.n_rows >= _FEW_ROWS and np.isin(column, (0.0, 1.0)).all():
            found.append("The target is 0 or 1 in every row: FLSClassifier (--task classification) learns classes.")
    return found


def fewer_rules(n_rules: int, n_rows: int, *, tells: bool) -> int:
    """The number of rules, at most one for every row; ``tells`` warns of fewer than asked for."""
    if not isinstance(n_rules, int) or n_rules <= n_rows:
        return n_rules
    if not tells:
        return n_rows
    rows, rules = (f"{count:,} {word}{'s' if count != 1 else ''}" for count, word in ((n_rows, "row"), (n_rows, "rule")))
    warnings.warn(f"n_rules={n_rules} is more than the {rows} to learn from: the model has {rules}.", stacklevel=6)
    return n_rows
