"""The text of one rule, and the sentences about its system.

A set that was left out of the rules is infinitely wide in the system: its grade is 1 everywhere, and no clause names it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.words import linear_text, number_text, plural, position_word, shortened

# Sets of a rule that a table or a notebook shows; the text and the JSON have all of them.
_SETS_SHOWN = 8


class Clause(NamedTuple):
    """One clause of an IF part: input, position word, center with all its widths, center with the upper width alone."""

    feature: int
    word: str
    numbers: str
    short: str


def clauses(s: PlainSystem, rule: int, digits: int | None) -> list[Clause]:
    """The sets of a rule that were not left out."""
    found = []
    for m in np.flatnonzero(np.isfinite(s.upper_sigmas[rule])).tolist():
        word = "" if s.input_range is None else position_word(s.centers[rule, m], *s.input_range[:, m])
        center, lower, upper = (
            number_text(field[rule, m], digits) for field in (s.centers, s.lower_sigmas, s.upper_sigmas)
        )
        width = f"±{upper}" if s.kind == "t1" or s.uncertainty == "h" else f"±{lower} to {upper}"
        height = f", height {number_text(math.exp(s.log_heights[rule, m]), digits)}" if "h" in s.uncertainty else ""
        found.append(Clause(m, word, f"about {center} ({width}{height})", f"about {center} (±{upper})"))
    return found


def lower_firing_factor(s: PlainSystem, rule: int) -> float:
    """The product of the heights of the sets left out, as it enters the lower firing; 1 without such sets."""
    return math.exp(s.grade_power * float(s.log_heights[rule][np.isinf(s.upper_sigmas[rule])].sum()))


def consequent_texts(s: PlainSystem, rule: int, digits: int | None, name: Callable[[object], str]) -> list[str]:
    """The THEN part, one text per output."""
    every = list(range(s.n_features)) if s.order == 1 else []
    return [f"{_output_name(s, k, name)} = {_linear(s, rule, k, every, digits, name)}" for k in range(s.n_outputs)]


def short_clauses(s: PlainSystem, rule: int, digits: int | None) -> list[tuple[str, str, str]]:
    """The first sets of a rule as (name, word, numbers), and the number of those that follow."""
    found = clauses(s, rule, digits)
    shown = [(shortened(s.feature_names[c.feature]), c.word, c.short) for c in found[:_SETS_SHOWN]]
    if len(found) > _SETS_SHOWN:
        shown.append((f"and {len(found) - _SETS_SHOWN:,} more", "", ""))
    return shown or [("anything", "", "")]


def short_consequent_texts(s: PlainSystem, rule: int, digits: int | None) -> list[str]:
    """The THEN part with the terms that change the output most over the range of their input."""
    if s.order == 0 or s.n_features <= _SETS_SHOWN:
        return consequent_texts(s, rule, digits, shortened)
    texts = []
    for k in range(s.n_outputs):
        reach = np.abs(s.slopes[rule, k]) * (1.0 if s.input_range is None else np.ptp(s.input_range, axis=0))
        chosen = sorted(np.argsort(-reach, kind="stable")[:_SETS_SHOWN].tolist())
        text = _linear(s, rule, k, chosen, digits, shortened)
        texts.append(f"{_output_name(s, k, shortened)} = {text} + {s.n_features - _SETS_SHOWN:,} more terms")
    return texts


def _linear(
    s: PlainSystem, rule: int, output: int, inputs: list[int], digits: int | None, name: Callable[[object], str]
) -> str:
    terms = [(float(s.slopes[rule, output, m]), name(s.feature_names[m])) for m in inputs]
    return linear_text(s.intercepts[rule, output], terms, digits)


def _output_name(s: PlainSystem, output: int, name: Callable[[object], str]) -> str:
    return f"{'' if s.classes is None else 'score of '}{name(s.output_names[output])}"


def system_line(s: PlainSystem) -> str:
    """One sentence on the system."""
    kind = "Type-1" if s.kind == "t1" else "Interval Type-2"
    outputs = plural(s.n_outputs, "output") if s.classes is None else plural(s.n_outputs, "class", "es")
    return f"{kind} system: {plural(s.n_rules, 'rule')}, {plural(s.n_features, 'input')}, {outputs}."


def how_to_read(s: PlainSystem, digits: int | None) -> list[str]:
    """The meaning of the numbers: enough to compute every prediction from the text."""
    if s.kind == "t1":
        lines = ["x is about c (±s): grade exp(-(x - c)² / (2 s²))."]
    else:
        width = "±s" if s.uncertainty == "h" else "±s to t"
        height = ", height h" if "h" in s.uncertainty else ""
        factor = "h " if height else ""
        upper = "s" if s.uncertainty == "h" else "t"
        lines = [
            f"x is about c ({width}{height}): lower grade {factor}exp(-(x - c)² / (2 s²)), "
            f"upper grade exp(-(x - c)² / (2 {upper}²))."
        ]
    power = "" if s.tnorm == "product" else f", each to the power 1/{s.n_features}"
    average = "the average of the THEN parts weighted by"
    if s.kind == "t1":
        output = f"{average} the firing"
    elif s.type_reduction == "km":
        output = f"midway between the least and the largest {average.removeprefix('the ')} firing between lower and upper"
    elif s.type_reduction == "nt":
        output = f"{average} lower plus upper firing"
    else:
        mix = [0.5] if s.mix is None else s.mix.tolist()
        shares = ", ".join(number_text(value, digits) for value in mix)
        output = f"{shares} times {average} the lower firing, and the rest by the upper firing"
    lines.append(f"Firing: the product of the grades{power}. Output: {output}.")
    if s.classes is not None:
        lines.append("The class with the highest score is predicted; the probabilities are the softmax of the scores.")
    return lines
