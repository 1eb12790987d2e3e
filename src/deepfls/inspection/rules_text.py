"""Rules as text, Markdown, JSON, a table in a terminal, and HTML."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from deepfls.inspection.plain import Array, PlainSystem
from deepfls.inspection.words import linear_text, markdown_name, number_text, one_line, position_word, shortened

# Sets of a rule, and rules, that a table or a notebook shows; the text and the JSON have all of them.
_SETS_SHOWN = 8
_RULES_SHOWN = 20


class RuleSet(Protocol):
    """What the formats are made from."""

    @property
    def plain(self) -> PlainSystem: ...

    @property
    def order(self) -> tuple[int, ...]: ...

    @property
    def shares(self) -> Array | None: ...

    @property
    def dropped(self) -> Array: ...

    @property
    def effect(self) -> Any: ...

    def share_of(self, rule: int) -> str: ...


class Clause(NamedTuple):
    """One line of an IF part: the input, what it is about, and the same with the upper width alone, for tables."""

    feature: int
    word: str
    numbers: str
    short: str


def clauses(rules: RuleSet, rule: int, digits: int | None) -> list[Clause]:
    """The sets of a rule that were not dropped."""
    s = rules.plain
    found = []
    for m in np.flatnonzero(~rules.dropped[rule]).tolist():
        word = "" if s.input_range is None else position_word(s.centers[rule, m], *s.input_range[:, m])
        center, lower, upper = (
            number_text(field[rule, m], digits) for field in (s.centers, s.lower_sigmas, s.upper_sigmas)
        )
        width = f"±{upper}" if s.kind == "t1" or s.uncertainty == "h" else f"±{lower} to {upper}"
        height = f", height {number_text(math.exp(s.log_heights[rule, m]), digits)}" if "h" in s.uncertainty else ""
        found.append(Clause(m, word, f"about {center} ({width}{height})", f"about {center} (±{upper})"))
    return found


def kept_height(rules: RuleSet, rule: int) -> float:
    """What the heights of dropped sets leave of the lower firing; 1 where there are none."""
    s = rules.plain
    share = 1.0 if s.tnorm == "product" else 1.0 / s.n_features
    return math.exp(share * float(s.log_heights[rule][rules.dropped[rule]].sum()))


def consequents(rules: RuleSet, rule: int, digits: int | None, name: Callable[[object], str]) -> list[str]:
    """The THEN part, one text per output."""
    s = rules.plain
    inputs = [name(feature) for feature in s.feature_names]
    texts = []
    for k, output in enumerate(s.output_names):
        terms = [] if s.order == 0 else list(zip(s.slopes[rule, k].tolist(), inputs, strict=True))
        texts.append(f"{_output_name(s, output, name)} = {linear_text(s.intercepts[rule, k], terms, digits)}")
    return texts


def _output_name(s: PlainSystem, output: str, name: Callable[[object], str]) -> str:
    return name(output) if s.classes is None else f"score of {name(output)}"


def system_line(s: PlainSystem) -> str:
    """One sentence on the system."""
    kind = "Type-1" if s.kind == "t1" else "Interval Type-2"

    def plural(count: int, word: str, ending: str = "s") -> str:
        return f"{count:,} {word}{ending * (count != 1)}"

    what = plural(s.n_outputs, "output") if s.classes is None else plural(s.n_outputs, "class", "es")
    return f"{kind} system: {plural(s.n_rules, 'rule')}, {plural(s.n_features, 'input')}, {what}."


def how_to_read(s: PlainSystem, digits: int | None) -> list[str]:
    """What the numbers mean: enough to compute every prediction from the text."""
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
        lines.append("The class with the highest score is predicted; the softmax of the scores are the probabilities.")
    return lines


def _heading(rules: RuleSet, rule: int) -> str:
    share = rules.share_of(rule)
    return f"Rule {rule + 1}" + (f", {share} of the firing" if share else "")


def as_text(rules: RuleSet, digits: int | None) -> str:
    """Plain text."""
    s = rules.plain
    parts = ["\n".join([system_line(s), *how_to_read(s, digits)])]
    if rules.effect is not None:
        parts.append(str(rules.effect))
    for rule in rules.order:
        lines = [_heading(rules, rule)]
        for place, clause in enumerate(clauses(rules, rule, digits)):
            word = f"{clause.word}, " if clause.word else ""
            lines.append(
                f"  {'AND' if place else 'IF '} {one_line(s.feature_names[clause.feature])} is {word}{clause.numbers}"
            )
        if rules.dropped[rule].all():
            lines.append("  IF  anything")
        height = kept_height(rules, rule)
        if height < 1.0:
            lines.append(f"  (lower firing times {number_text(height, digits)}, from the sets left out)")
        for place, text in enumerate(consequents(rules, rule, digits, one_line)):
            lines.append(f"  {'AND ' if place else 'THEN'} {text}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def as_markdown(rules: RuleSet, digits: int | None) -> str:
    """Markdown: a heading and a sentence for every rule."""
    s = rules.plain
    names = [markdown_name(name) for name in s.feature_names]
    parts = [" ".join([f"**{system_line(s)}**", *(line.replace("*", r"\*") for line in how_to_read(s, digits))])]
    if rules.effect is not None:
        parts.append(str(rules.effect))
    for rule in rules.order:
        conditions = [
            f"{names[c.feature]} is {f'*{c.word}*, ' if c.word else ''}{c.numbers}" for c in clauses(rules, rule, digits)
        ]
        height = kept_height(rules, rule)
        note = f" (lower firing times {number_text(height, digits)})" if height < 1.0 else ""
        outputs = " and ".join(consequents(rules, rule, digits, markdown_name))
        parts.append(f"### {_heading(rules, rule)}")
        parts.append(f"**IF** {' **AND** '.join(conditions) or 'anything'}{note} **THEN** {outputs}")
    return "\n\n".join(parts) + "\n"


def as_json(rules: RuleSet) -> str:
    """JSON with every number exact."""
    return json.dumps(content(rules), ensure_ascii=True, allow_nan=False)


def content(rules: RuleSet) -> dict[str, Any]:
    """The rules as plain values."""
    s, effect = rules.plain, rules.effect
    ranges = [None] * s.n_features if s.input_range is None else s.input_range.T.tolist()
    return {
        "kind": s.kind,
        "tnorm": s.tnorm,
        "order": s.order,
        "uncertainty": s.uncertainty,
        "type_reduction": s.type_reduction,
        "mix": None if s.mix is None else s.mix.tolist(),
        "task": "regression" if s.classes is None else "classification",
        "inputs": [{"name": name, "range": pair} for name, pair in zip(s.feature_names, ranges, strict=True)],
        "outputs": list(s.output_names),
        "dropped": None if effect is None else _plain_effect(effect),
        "rules": [_plain_rule(rules, rule) for rule in rules.order],
    }


def _plain_effect(effect: Any) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in vars(effect).items()}


def _plain_rule(rules: RuleSet, rule: int) -> dict[str, Any]:
    s = rules.plain
    return {
        "rule": rule + 1,
        "share": None if rules.shares is None else float(rules.shares[rule]),
        "if": [
            {
                "input": m,
                "label": word or None,
                "center": float(s.centers[rule, m]),
                "lower_sigma": float(s.lower_sigmas[rule, m]),
                "upper_sigma": float(s.upper_sigmas[rule, m]),
                "height": math.exp(s.log_heights[rule, m]),
            }
            for m, word, *_ in clauses(rules, rule, 1)
        ],
        "lower_firing_times": kept_height(rules, rule),
        "then": [
            {"output": k, "intercept": float(s.intercepts[rule, k]), "slopes": s.slopes[rule, k].tolist()}
            for k in range(s.n_outputs)
        ],
    }


def _conditions(rules: RuleSet, rule: int, digits: int | None) -> list[tuple[str, str, str]]:
    """The first sets of a rule as (name, word, numbers), and how many follow."""
    found = clauses(rules, rule, digits)
    shown = [(shortened(rules.plain.feature_names[c.feature]), c.word, c.short) for c in found[:_SETS_SHOWN]]
    if len(found) > _SETS_SHOWN:
        shown.append((f"and {len(found) - _SETS_SHOWN:,} more", "", ""))
    return shown or [("anything", "", "")]


def _outcomes(rules: RuleSet, rule: int, digits: int | None) -> list[str]:
    s = rules.plain
    if s.order == 0 or s.n_features <= _SETS_SHOWN:
        return consequents(rules, rule, digits, shortened)
    texts = []
    for k, output in enumerate(s.output_names):
        terms = list(zip(s.slopes[rule, k].tolist(), map(shortened, s.feature_names), strict=True))
        # Those that move the output most over the range of their input.
        reach = np.abs(s.slopes[rule, k]) * (1.0 if s.input_range is None else np.ptp(s.input_range, axis=0))
        chosen = sorted(np.argsort(-reach, kind="stable")[:_SETS_SHOWN].tolist())
        text = linear_text(s.intercepts[rule, k], [terms[m] for m in chosen], digits)
        texts.append(f"{_output_name(s, output, shortened)} = {text} + {s.n_features - _SETS_SHOWN:,} more terms")
    return texts


def as_table(rules: RuleSet, digits: int | None) -> Any:
    """A table of rich."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for name, justify in (("rule", "right"), ("firing", "right"), ("IF", "left"), ("THEN", "left")):
        table.add_column(name, justify=justify, no_wrap=name in ("rule", "firing"))  # type: ignore[arg-type]  # literals
    for rule in rules.order:
        lines = []
        for name, word, numbers in _conditions(rules, rule, digits):
            lines.append(
                Text.assemble(name, *((" is ", (word, "bold"), ", ") if word else (" is ",) if numbers else ()), numbers)
            )
        outcome = Text("\n").join(Text(text) for text in _outcomes(rules, rule, digits))
        table.add_row(str(rule + 1), rules.share_of(rule), Text("\n").join(lines), outcome, end_section=True)
    return table


def as_table_text(rules: RuleSet, digits: int | None, width: int = 124) -> str:
    """The table as text, without colours."""
    from rich.console import Console

    # A terminal of its own, so that nothing is written and nobody's width or colours matter.
    console = Console(width=width, color_system=None, force_terminal=False, highlight=False, record=False, emoji=False)
    with console.capture() as capture:
        console.print(as_table(rules, digits))
    return capture.get()


def as_html(rules: RuleSet, digits: int | None) -> str:
    """A table for notebooks; every name is escaped."""
    s = rules.plain
    rows = []
    for rule in rules.order[:_RULES_SHOWN]:
        conditions = "<br>".join(
            html.escape(name) + (f" is <b>{word}</b>, {numbers}" if word else f" is {numbers}" if numbers else "")
            for name, word, numbers in _conditions(rules, rule, digits)
        )
        outcome = "<br>".join(html.escape(text) for text in _outcomes(rules, rule, digits))
        rows.append(
            f"<tr style='vertical-align:top'><td>{rule + 1}</td><td>{html.escape(rules.share_of(rule))}</td>"
            f"<td style='text-align:left'>{conditions}</td><td style='text-align:left'>{outcome}</td></tr>"
        )
    more = len(rules.order) - _RULES_SHOWN
    notes = [html.escape(line) for line in ([str(rules.effect)] if rules.effect is not None else [])]
    if more > 0:
        notes.append(f"{more:,} more rules are not shown.")
    return (
        f"<div><p><b>{html.escape(system_line(s))}</b> {' '.join(notes)}</p><table><thead><tr><th>rule</th><th>firing</th>"
        "<th style='text-align:left'>IF</th><th style='text-align:left'>THEN</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
