"""Explanations as text, plain values and HTML.

An explanation is ``Any`` here: this file lies below those that make them and call it.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from deepfls.inspection.plain import Array
from deepfls.inspection.words import number_text, share_text, shortened

# Rules and inputs that a notebook shows.
_SHOWN = 10


class TextTable:
    """Columns of text: names to the left, numbers to the right."""

    def __init__(self, head: Sequence[str], rows: Sequence[Sequence[str]], n_left: int = 1) -> None:
        self.head, self.rows, self.n_left = list(head), [list(row) for row in rows], n_left

    def text(self) -> str:
        lines = [self.head, *self.rows]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.head))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if place < self.n_left else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def html(self) -> str:
        def cells(row: Sequence[str], tag: str) -> str:
            sides = ["left" if place < self.n_left else "right" for place in range(len(row))]
            return "".join(
                f"<{tag} style='text-align:{side}'>{html.escape(cell)}</{tag}>"
                for cell, side in zip(row, sides, strict=True)
            )

        body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in self.rows)
        return f"<table><thead><tr>{cells(self.head, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def _output_label(e: Any, k: int) -> str:
    name = shortened(e.output_names[k])
    return name if e.classes is None else f"score of {name}"


def output_sentence(e: Any, k: int, digits: int) -> str:
    """The prediction of one output in a line."""
    left, right, y = (number_text(end[k], digits) for end in e.output)
    text = f"{_output_label(e, k)} = {y}"
    if e.output.y_left[k] < e.output.y_right[k]:
        text += f", type-reduced set {left} to {right}"
    if e.probabilities is not None:
        text += f", probability {e.probabilities[k]:.4f}"
    return text


def rules_table(e: Any, k: int, digits: int, top: int) -> TextTable:
    """Firing, consequent and contributions of the rules that weigh most in output k."""
    interval = bool((e.lower != e.upper).any()) or bool((e.weights.y_left != e.weights.y_right).any())
    order = np.argsort(-e.weights.y[:, k], kind="stable")
    columns = [e.contributions.y] if not interval else [*e.contributions]
    head = ["rule", *(["lower", "upper"] if interval else ["firing"]), "says", "weight"]
    head += ["adds to y_left", "to y_right", "to y"] if interval else ["adds"]

    def row(name: str, chosen: Array, says: str) -> list[str]:
        firing = [f"{f[chosen].max():.3g}" for f in ((e.lower, e.upper) if interval else (e.upper,))]
        weight = share_text(float(e.weights.y[chosen, k].sum()))
        return [name, *firing, says, weight, *(number_text(c[chosen, k].sum(), digits) for c in columns)]

    rows = [row(str(p + 1), np.array([p]), number_text(e.consequents[p, k], digits)) for p in order[:top].tolist()]
    rest = order[top:]
    if len(rest):
        rows.append(row(f"{len(rest)} others", rest, ""))
    blank = [""] * (2 + len(head) - 3 - len(columns))
    rows.append(["sum", *blank, *(number_text(end[k], digits) for end in (e.output if interval else [e.output.y]))])
    return TextTable(head, rows)


def inputs_table(e: Any, k: int, digits: int, top: int) -> TextTable:
    """Where the inputs stand, and what they added to output k."""
    order = np.argsort(-np.abs(e.pushes.y[:, k]), kind="stable")
    signed = [f"{'+' if v >= 0 else '-'}{number_text(abs(v), digits)}" for v in e.pushes.y[:, k].tolist()]
    rows = [["reference", "", "", number_text(e.base.y[k], digits)]]
    for m in order[:top].tolist():
        numbers = (number_text(value, digits) for value in (e.x[m], e.reference[m]))
        rows.append([shortened(e.feature_names[m]), *numbers, signed[m]])
    rest = order[top:]
    if len(rest):
        total = float(e.pushes.y[rest, k].sum())
        rows.append([f"{len(rest)} others", "", "", f"{'+' if total >= 0 else '-'}{number_text(abs(total), digits)}"])
    rows.append(["sum", "", "", number_text(e.output.y[k], digits)])
    return TextTable(["input", "value", "reference", "pushes y by"], rows)


def _about_pushes(e: Any) -> str:
    orders = "all orders of the inputs" if e.exact_pushes else "random orders of the inputs and their reverses"
    return f"Pushes: steps from the reference to the row, averaged over {orders}."


def explanation_text(e: Any, digits: int, top: int) -> str:
    parts = []
    for k in range(len(e.output_names)):
        parts.append(output_sentence(e, k, digits))
        parts.append(rules_table(e, k, digits, top).text())
        parts.append(inputs_table(e, k, digits, top).text())
    return "\n\n".join([*parts, _about_pushes(e)]) + "\n"


def explanation_html(e: Any) -> str:
    parts = []
    for k in range(len(e.output_names)):
        parts.append(f"<p><b>{html.escape(output_sentence(e, k, 4))}</b></p>")
        parts.append(rules_table(e, k, 4, _SHOWN).html() + inputs_table(e, k, 4, _SHOWN).html())
    return f"<div>{''.join(parts)}<p>{html.escape(_about_pushes(e))}</p></div>"


def explanation_content(e: Any) -> dict[str, Any]:
    """Plain values: one entry per output, with its rules and inputs."""
    ends = e.output._fields

    def of(group: Any, *place: Any) -> dict[str, float]:
        return {name: float(values[place]) for name, values in zip(ends, group, strict=True)}

    return {
        "x": dict_of_columns(e.feature_names, e.x),
        "reference": dict_of_columns(e.feature_names, e.reference),
        "exact_pushes": e.exact_pushes,
        "outputs": [
            {
                "name": name,
                **of(e.output, k),
                "probability": None if e.probabilities is None else float(e.probabilities[k]),
                "rules": [
                    {
                        "rule": p + 1,
                        "lower": float(e.lower[p]),
                        "upper": float(e.upper[p]),
                        "consequent": float(e.consequents[p, k]),
                        "weights": of(e.weights, p, k),
                        "contributions": of(e.contributions, p, k),
                        "upper_at_left": bool(e.left_upper[p, k]),
                        "upper_at_right": bool(e.right_upper[p, k]),
                    }
                    for p in range(len(e.upper))
                ],
                "base": of(e.base, k),
                "inputs": [{"name": n, "pushes": of(e.pushes, m, k)} for m, n in enumerate(e.feature_names)],
            }
            for k, name in enumerate(e.output_names)
        ],
    }


def dict_of_columns(names: Sequence[str], values: Array) -> list[dict[str, Any]]:
    """A list rather than an object, because names may be equal."""
    return [{"name": name, "value": float(value)} for name, value in zip(names, values, strict=True)]


def usage_tables(u: Any, top: int) -> list[tuple[str, TextTable]]:
    """Tables of rules and inputs, each with a heading."""
    order = np.argsort(-u.shares, kind="stable")[:top].tolist()
    notes = dict.fromkeys(u.dead, "dead")
    for pair in u.duplicates:
        for rule, other in (pair[:2], pair[1::-1]):
            notes[rule] = f"{notes[rule]}, {other + 1}" if rule in notes else f"much like {other + 1}"
    rows = [
        [
            str(p + 1),
            share_text(float(u.shares[p])),
            share_text(float(u.leads[p])),
            f"{u.largest_weight[p]:.3f}",
            notes.get(p, ""),
        ]
        for p in order
    ]
    rules = TextTable(["rule", "of the firing", "rows led", "largest weight", "note"], rows)
    places = np.argsort(-u.permutation, kind="stable")[:top].tolist()
    heading = (
        "RMSE grows by" if u.measure == "rmse" else "log loss grows by" if u.measure == "log_loss" else "outputs move by"
    )
    inputs = [
        [shortened(u.feature_names[m]), number_text(u.permutation[m], 4), number_text(u.gradient[m], 4)] for m in places
    ]
    return [
        (f"Rules on {u.n_rows:,} rows", rules),
        ("Inputs", TextTable(["input", f"shuffled: {heading}", "gradient times spread"], inputs)),
    ]


def usage_text(u: Any, top: int) -> str:
    return "\n\n".join(f"{heading}\n{table.text()}" for heading, table in usage_tables(u, top)) + "\n"


def usage_html(u: Any) -> str:
    return "".join(f"<p><b>{html.escape(heading)}</b></p>{table.html()}" for heading, table in usage_tables(u, 20))
