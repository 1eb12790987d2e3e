"""Numbers, names, tables, rules and the sentences about a system as text.

A set that was left out of the rules is infinitely wide in the system: its grade is 1 everywhere, and no clause names it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deepfls._checks.arguments import counted, printable
from deepfls.estimators.structure import LABELS

if TYPE_CHECKING:
    from deepfls.data.columns import Column, Columns
    from deepfls.inspection.plain import PlainSystem
    from deepfls.inspection.plain_model import AnyModel

# Sets of a rule that a table or a notebook shows; the text and the JSON have all of them.
_SETS_SHOWN = 8
# Characters of a shortened name.
_LONGEST_NAME = 40
# Smallest grade of a category, relative to the largest, that is shown.
_LEAST_GRADE = 0.05
# The word for a set whose grade hardly varies over the range of its input, and its least grade there.
ALMOST_ANY, _ANY_GRADE = "almost any value", 0.9


def position_word(center: float, half_width: float, low: float, high: float) -> str:
    """Where a set lies within the range of its input; empty for an input of one value.

    A set whose grade is near 1 over all of the range has no effect, wherever its center lies.
    """
    if not high > low:
        return ""
    if 2.0 ** -((max(high - center, center - low) / half_width) ** 2) >= _ANY_GRADE:
        return ALMOST_ANY
    share = (center - low) / (high - low)
    if share < 0.0:
        return "below the data"
    if share > 1.0:
        return "above the data"
    return LABELS[min(int(share * len(LABELS)), len(LABELS) - 1)]


def set_words(s: PlainSystem) -> list[list[str]]:
    """The word of every set, (rules, features): its term, where it lies, or "" where neither is known."""
    if s.terms is not None:
        return [[s.words[m][t] for m, t in enumerate(row)] for row in s.terms.tolist()]
    if s.input_range is None:
        return [[""] * s.n_features for _ in range(s.n_rules)]
    widths, ranges = s.half_widths[1].tolist(), s.input_range.T.tolist()
    return [
        [position_word(center, width, *span) for center, width, span in zip(*row, ranges, strict=True)]
        for row in zip(s.centers.tolist(), widths, strict=True)
    ]


def number_text(value: float, digits: int | None) -> str:
    """A number with ``digits`` significant digits or, for None, with all that it needs to read back exactly."""
    value = float(value)
    if digits is None:
        return repr(value)
    # An exponent is harder to read than a few more digits.
    if 10.0 ** (digits - 1) <= abs(value) < 1e9:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def decimals_of(values: Any, digits: int) -> int:
    """Decimals that give the largest of some numbers ``digits`` significant digits; with them all numbers align."""
    largest = float(np.abs(values).max(initial=0.0))
    return max(0, digits - 1 - math.floor(math.log10(largest))) if 0.0 < largest < math.inf else 0


def finite_or_none(value: Any) -> Any:
    """A value for JSON, which has no NaN and no infinity: None in their place."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def share_text(share: float) -> str:
    """A share in percent."""
    if 0.9995 <= share < 1.0:
        return ">99.9 %"
    return "<0.1 %" if 0.0 < share < 0.0005 else f"{100 * share:.1f} %"


def coverage_text(coverage: float) -> str:
    """A coverage in percent, without a zero after the point."""
    return f"{100 * coverage:.4g} %"


def listed(names: Sequence[str]) -> str:
    """Names in a row."""
    return " and ".join([", ".join(names[:-1])] * (len(names) > 1) + [*names[-1:]])


def shortened(name: object) -> str:
    """A name on one line of at most 40 characters."""
    text = printable(name)
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


def markdown_name(name: object) -> str:
    """A name that Markdown shows unchanged: punctuation and HTML are escaped."""
    text = printable(name).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#+!|~$-])", r"\\\1", text)


def linear_text(intercept: float, terms: list[tuple[float, str]], digits: int | None) -> str:
    """``a0 + a1 x1 - a2 x2``, with signs between the terms."""
    text = number_text(intercept, digits)
    for slope, name in terms:
        # The sign of a zero counts, so that the text reads back to the same bits.
        sign = "-" if math.copysign(1.0, slope) < 0 else "+"
        text += f" {sign} {number_text(abs(slope), digits)} {name}"
    return text


class TextTable(NamedTuple):
    """Columns of text, the first aligned left, the others right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        lines = [self.head, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.head))]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if column else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )


def rendered(template: str, **context: Any) -> str:
    """The text of a template in ``page_files``; values are escaped in HTML."""
    from jinja2 import Environment, PackageLoader, select_autoescape  # here: only some formats need it

    environment = Environment(
        loader=PackageLoader("deepfls.inspection", "page_files"),
        autoescape=select_autoescape(["html"]),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(context)


SAME = "All rules have the same THEN part: the output is one linear formula, and the conditions do not change it."
KIND_NAMES = {"t1": "Type-1", "it2": "Interval Type-2", "gt2": "General Type-2"}


class Clause(NamedTuple):
    """One clause of an IF part: input, word, center with all its widths, center with the upper width alone.

    Where rules share terms the word is enough, and the numbers, which the vocabulary has, are empty.
    """

    feature: int
    word: str
    numbers: str
    short: str
    name: str


def clauses(s: PlainSystem, rule: int, digits: int | None) -> list[Clause]:
    """The sets of a rule that were not left out; the inputs of a category are one clause."""
    inside = category_inputs(s)
    found = [clause for clause in input_clauses(s, rule, digits) if clause.feature not in inside]
    for column, first, end in () if s.columns is None else s.columns.groups:
        if np.isfinite(s.upper_sigmas[rule, first:end]).any():
            found.append(_category_clause(s, rule, column, first, end, digits))
    return sorted(found, key=lambda clause: clause.feature)


def category_inputs(s: PlainSystem) -> set[int]:
    """Places of the inputs that categories make."""
    return set() if s.columns is None else {m for _, first, end in s.columns.groups for m in range(first, end)}


def _category_clause(s: PlainSystem, rule: int, column: Column, first: int, end: int, digits: int | None) -> Clause:
    """The condition of a rule on a category: its values by their grade in the firing.

    Grades are relative to the largest, without those near 0; for digits None lower and upper grade of all values, exactly.
    """
    inputs = slice(first, end)
    distance = column.codes - s.centers[rule, inputs]
    lower, upper = (
        -0.5 * np.square(distance / sigmas[rule, inputs]).sum(axis=1) for sigmas in (s.lower_sigmas, s.upper_sigmas)
    )
    low, up = np.exp(s.grade_power * (lower + s.log_heights[rule, inputs].sum())), np.exp(s.grade_power * upper)
    share = up / up.max()
    names = list(map(printable, column.categories))
    if digits is None:
        shown = [f"{name} ({a!r} to {b!r})" for name, a, b in zip(names, low.tolist(), up.tolist(), strict=True)]
    else:
        places = [place for place in np.argsort(-share, kind="stable").tolist() if share[place] >= _LEAST_GRADE]
        shown = [f"{names[place]} ({share[place]:.1f})" for place in places]
    text = " or ".join(shown)
    return Clause(first, ALMOST_ANY if up.min() >= _ANY_GRADE * up.max() else "", text, text, column.name)


def input_clauses(s: PlainSystem, rule: int, digits: int | None) -> list[Clause]:
    """The sets of a rule that were not left out, input by input."""
    words = set_words(s)[rule]
    found = []
    for m in np.flatnonzero(np.isfinite(s.upper_sigmas[rule])).tolist():
        numbers = ("", "") if s.terms is not None else _set_numbers(s, rule, m, digits)
        found.append(Clause(m, words[m], *numbers, s.feature_names[m]))
    return found


def _set_numbers(s: PlainSystem, rule: int, feature: int, digits: int | None) -> tuple[str, str]:
    """A set in numbers: with both widths and the height, and with the upper width alone."""
    at = (rule, feature)
    center, lower, upper = (number_text(field[at], digits) for field in (s.centers, *s.half_widths))
    width = f"±{upper}" if s.kind == "t1" or s.uncertainty == "h" else f"±{lower} to {upper}"
    height = f", height {number_text(s.acting_heights[at], digits)}" if "h" in s.uncertainty else ""
    return f"about {center} ({width}{height})", f"about {center} (±{upper})"


def used_terms(s: PlainSystem, feature: int) -> list[tuple[int, int]]:
    """The terms of an input that rules have, from low to high, each with the first rule that has it."""
    if s.terms is None:
        return []
    column = np.where(np.isfinite(s.upper_sigmas[:, feature]), s.terms[:, feature], -1)
    return [(t, int(np.flatnonzero(column == t)[0])) for t in sorted(set(column.tolist()) - {-1})]


def vocabulary(
    s: PlainSystem, digits: int | None, name: Callable[[object], str] = str
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Inputs with the words of their terms, from low to high, and their meaning; empty where rules share no terms.

    Rules name categories, not the terms of the inputs that a category makes. ``name`` makes names safe.
    """
    found = []
    for m in sorted(set(range(s.n_features)) - category_inputs(s)):
        terms = [(s.words[m][t], _set_numbers(s, rule, m, digits)[0]) for t, rule in used_terms(s, m)]
        if terms:
            found.append((name(s.feature_names[m]), terms))
    return found


def lower_firing_factor(s: PlainSystem, rule: int) -> float:
    """The product of the heights of the sets left out, as it enters the lower firing; 1 without such sets."""
    return math.exp(s.grade_power * float(s.log_heights[rule][np.isinf(s.upper_sigmas[rule])].sum()))


def consequent_texts(
    s: PlainSystem, rule: int, digits: int | None, name: Callable[[object], str], count: int | None = None
) -> list[str]:
    """The THEN part, one text per output: all terms, or the ``count`` that change it most over the range of their input."""
    texts = []
    for k in range(s.n_outputs):
        chosen, rest = list(range(s.n_features)) if s.order == 1 else [], ""
        if count is not None and len(chosen) > count:
            reach = np.abs(s.slopes[rule, k]) * (1.0 if s.input_range is None else np.ptp(s.input_range, axis=0))
            chosen = sorted(np.argsort(-reach, kind="stable")[:count].tolist())
            rest = f" + {counted(s.n_features - count, 'more term')}"
        terms = [(float(s.slopes[rule, k, m]), name(s.feature_names[m])) for m in chosen]
        texts.append(f"{output_name(s, k, name)} = {linear_text(s.intercepts[rule, k], terms, digits)}{rest}")
    return texts


def shown_clauses(
    found: list[Clause], count: int = _SETS_SHOWN, name: Callable[[object], str] = str
) -> list[tuple[str, str, str]]:
    """The first ``count`` clauses as (name, word, numbers), and the number of the others; ``name`` makes texts safe."""
    shown = [(name(shortened(c.name)), c.word, name(c.short)) for c in found[:count]]
    if len(found) > count:
        shown.append((counted(len(found) - count, "more condition"), "", ""))
    return shown or [("anything", "", "")]


def short_consequent_texts(s: PlainSystem, rule: int, digits: int | None, count: int = _SETS_SHOWN) -> list[str]:
    """The THEN part with shortened names and at most ``count`` terms."""
    return consequent_texts(s, rule, digits, shortened, count)


def output_name(s: AnyModel, output: int, name: Callable[[object], str] = str) -> str:
    """An output as the system computes it: the target, or the score of a class; ``name`` makes names safe."""
    return f"{'' if s.classes is None else 'score of '}{name(s.output_names[output])}"


def system_line(s: AnyModel) -> str:
    """One sentence on a system or a model."""
    kind = f"{KIND_NAMES[s.kind]} system"
    inputs = counted(len(read_inputs(s.feature_names, s.columns)), "input")
    outputs = counted(s.n_outputs, "output") if s.classes is None else counted(s.n_outputs, "class", "es")
    if len(s.systems) > 1:
        kind = f"Mean of {len(s.systems)} {kind}s"
    return f"{kind}: {counted(s.n_rules, 'rule')}, {inputs}, {outputs}."


def read_inputs(names: Sequence[str], columns: Columns | None) -> list[tuple[str, int, int, Column | None]]:
    """Inputs as they are shown: name, first and end; those of a category together, with their column."""
    return [(name, m, m + 1, None) for m, name in enumerate(names)] if columns is None else columns.read_inputs


def says_the_same(s: PlainSystem) -> bool:
    """Whether all rules have the same THEN part, so that their conditions do not matter."""
    parts = np.concatenate([s.intercepts[..., np.newaxis], s.slopes], axis=2) if s.order == 1 else s.intercepts
    return s.n_rules > 1 and bool(np.allclose(parts, parts[:1], rtol=1e-6, atol=0.0))


def how_to_read(s: PlainSystem, digits: int | None) -> list[str]:
    """The meaning of the numbers: enough to compute every prediction from the text."""
    if s.kind == "t1":
        lines = ["x is about c (±w): grade 2^-((x - c) / w)², which is 1 at c and 1/2 at c ± w."]
    else:
        width, upper = ("±w", "w") if s.uncertainty == "h" else ("±w to v", "v")
        height = ", height h" if "h" in s.uncertainty else ""
        factor = "h times " if height else ""
        lines = [
            f"x is about c ({width}{height}): lower grade {factor}2^-((x - c) / w)², upper grade 2^-((x - c) / {upper})², "
            f"which is 1 at c and 1/2 at c ± {upper}."
        ]
    average = "the average of the THEN parts weighted by"
    if s.alphas is not None:
        lines[0] = (
            f"In the widest plane, alpha = {number_text(s.alphas[0], digits)}, {lines[0]} In plane alpha, with "
            "k = sqrt(ln alpha / ln 0.01), the height is h^k and the upper width u, 1/u² = (1 - k)/w² + k/v²."
        )
    if s.kind == "t1":
        output = f"{average} the firing"
    elif s.type_reduction == "km":
        output = f"midway between the least and the largest {average.removeprefix('the ')} firing between lower and upper"
    elif s.type_reduction == "nt":
        output = f"{average} lower plus upper firing"
    else:
        shares = ", ".join(number_text(value, digits) for value in ([0.5] if s.mix is None else s.mix.tolist()))
        output = f"{shares} times {average} the lower firing, and the rest by the upper firing"
    if s.alphas is not None:
        levels = ", ".join(number_text(alpha, digits) for alpha in s.alphas)
        output = f"the mean over the planes alpha = {levels}, weighted by alpha; of each plane, {output}"
    lines.append(f"Firing of a rule: the product of its grades. Output: {output}.")
    if s.classes is not None:
        lines.append("The class with the highest score is predicted; the probabilities are the softmax of the scores.")
    if s.columns is not None and s.columns.groups and digits is not None:
        lines.append("The number beside a category is its grade as a share of that of the category that fits best.")
    if says_the_same(s):
        lines.append(SAME)
    return lines
