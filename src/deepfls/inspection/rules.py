"""The rules of a trained system in the units of its data: their order, sets left out, and five formats."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from deepfls._checks.arguments import check_count, check_number, check_option, printable
from deepfls._checks.values import Array
from deepfls.inspection import words
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.plain_model import PlainModel, outputs_of, rows_given, shares_of, true_values

if TYPE_CHECKING:
    from rich.table import Table

    from deepfls.estimators.base import FLSEstimator

FORMATS = ("text", "markdown", "table", "json")
# A set whose grade never falls below this share over the range of its input hardly distinguishes rows.
_DROP = 0.95
# Rules that a notebook shows of Rules, and under the diagram of an estimator.
_RULES_SHOWN, _LEADING = 20, 5
# Characters in a line of a table without a terminal.
_TABLE_WIDTH = 124


@dataclass(frozen=True)
class DropEffect:
    """What leaving out sets changed."""

    n_dropped: int
    n_sets: int
    measure: str = ""  # "RMSE" or "accuracy"; empty without true values
    before: float = math.nan  # the measure with all sets; NaN without true values
    after: float = math.nan  # the measure without the dropped sets
    change: float = math.nan  # root mean square of the change of the outputs; NaN without rows

    def __str__(self) -> str:
        text = f"{self.n_dropped} of {self.n_sets} sets left out, wider than the data"
        if self.measure:
            return f"{text}: {self.measure} {self.before:.6g} with all, {self.after:.6g} without."
        if np.isfinite(self.change):
            return f"{text}: outputs change by {self.change:.3g} (root mean square)."
        return f"{text}; the effect was not measured, because no data were given."


@dataclass(frozen=True)
class Rules:
    """Rules that can be shown as text, Markdown, JSON, a table in a terminal and HTML in a notebook.

    Attributes
    ----------
    plain : PlainSystem
        The system as shown: dropped sets are infinitely wide.
    order : tuple of int
        The rules, from 0, in the order in which they are shown.
    shares : ndarray, shape (rules,), or None
        Share of the firing of every rule.
    dropped : ndarray of bool, shape (rules, features)
    effect : DropEffect or None
        None where nothing was to be dropped.
    others : tuple of Rules
        Those of the other systems of a model that is the mean of several. Rendered one after another.
    """

    plain: PlainSystem
    order: tuple[int, ...]
    shares: Array | None
    dropped: Array
    effect: DropEffect | None
    others: tuple[Rules, ...] = ()

    def __len__(self) -> int:
        return sum(len(part.order) for part in self.systems)

    def render(self, format: str = "text", *, top: int | None = None, digits: int | None = 4) -> str:  # noqa: A002
        """The rules in one of the formats "text", "markdown", "table" and "json".

        Parameters
        ----------
        format : {"text", "markdown", "table", "json"}
        top : int, optional
            How many rules; all by default.
        digits : int or None
            Significant digits; None writes every number so that it reads back exactly. JSON always does.
        """
        check_option("format", format, FORMATS)
        if digits is not None:
            check_count("digits", digits, 1, 17)
        shown = self.top(top)
        if format == "json":
            return json.dumps(content(shown), ensure_ascii=True, allow_nan=False)
        parts = [_text(part, format, digits) for part in shown.systems]
        if len(parts) == 1:
            return parts[0]
        mark = "## " if format == "markdown" else ""
        heads = (f"{mark}{_system_name(place, len(parts))}" for place in range(len(parts)))
        return "\n\n".join(f"{head}\n\n{part.strip()}" for head, part in zip(heads, parts, strict=True)) + "\n"

    @property
    def systems(self) -> tuple[Rules, ...]:
        """The rules of every system by itself."""
        return (replace(self, others=()), *self.others)

    def top(self, count: int | None) -> Rules:
        """The first ``count`` rules, of every system."""
        if count is None:
            return self
        others = tuple(other.top(count) for other in self.others)
        return replace(self, order=self.order[: check_count("top", count)], others=others)

    def share_of(self, rule: int) -> str:
        """The share of a rule in percent; empty without shares."""
        return "" if self.shares is None else words.share_text(float(self.shares[rule]))

    def to_table(self, digits: int | None = 4) -> Table:
        """A table of rich, for terminals."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
        for name in ("rule", "firing"):
            table.add_column(name, justify="right", no_wrap=True)
        for name in ("IF", "THEN"):
            table.add_column(name)
        for place, part in enumerate(self.systems):
            if self.others:
                table.add_row("", "", _system_name(place, len(self.systems)), "", end_section=True)
            for rule in part.order:
                lines = []
                for name, word, numbers in words.shown_clauses(words.clauses(part.plain, rule, digits)):
                    comma = ", " if word and numbers else ""
                    between = (" is ", (word, "bold"), comma) if word else (" is ",) if numbers else ()
                    lines.append(Text.assemble(name, *between, numbers))
                outcome = Text("\n").join(Text(text) for text in words.short_consequent_texts(part.plain, rule, digits))
                table.add_row(str(rule + 1), part.share_of(rule), Text("\n").join(lines), outcome, end_section=True)
        return table

    def __str__(self) -> str:
        return self.render()

    def __rich__(self) -> Table:
        return self.to_table()

    def _repr_html_(self) -> str:
        if self.others:
            return "".join(part._repr_html_() for part in self.systems)
        shown = replace(self, order=self.order[:_RULES_SHOWN])
        return words.rendered("rules.html", **_context(shown, str, 4, short=True), more=len(self.order) - _RULES_SHOWN)


def rules_of(estimator: FLSEstimator, X: Any = None, y: Any = None, *, drop: bool | float = False) -> Rules:
    """The rules of a fitted estimator; :meth:`FLSRegressor.rules` has the parameters."""
    model = PlainModel.of(estimator)
    x = rows_given(estimator, X, y)
    first, *others = (_system_rules(plain, x, y, drop) for plain in model.systems)
    return replace(first, others=tuple(others))


def _system_rules(plain: PlainSystem, x: Array | None, y: Any, drop: bool | float) -> Rules:
    shares = plain.rule_shares if x is None else shares_of(plain, x)
    dropped = np.zeros(plain.centers.shape, dtype=bool)
    effect = None
    if drop is not False:
        least = _DROP if drop is True else check_number("drop", drop, above=0.0, below=1.0)
        # fmin and fmax leave out values that are not known.
        ends = plain.input_range if x is None else np.stack([np.fmin.reduce(x), np.fmax.reduce(x)])
        if ends is not None:
            farthest = np.maximum(np.abs(ends[0] - plain.centers), np.abs(ends[1] - plain.centers))
            # The grade, as it enters the firing, at the end of the range of the input that is farther away.
            dropped = np.exp(-0.5 * plain.grade_power * np.square(farthest / plain.lower_sigmas)) >= least
        lower, upper = (np.where(dropped, np.inf, sigmas) for sigmas in (plain.lower_sigmas, plain.upper_sigmas))
        simpler = replace(plain, lower_sigmas=lower, upper_sigmas=upper)
        effect = _drop_effect(plain, simpler, x, y, dropped)
        plain = simpler
    order = range(plain.n_rules) if shares is None else np.argsort(-shares, kind="stable").tolist()
    return Rules(plain, tuple(order), shares, dropped, effect)


def _drop_effect(full: PlainSystem, simpler: PlainSystem, x: Array | None, y: Any, dropped: Array) -> DropEffect:
    from sklearn.metrics import accuracy_score, root_mean_squared_error  # here: slow to import

    effect = DropEffect(int(dropped.sum()), dropped.size)
    if x is None:
        return effect
    outputs = outputs_of(full, x), outputs_of(simpler, x)
    effect = replace(effect, change=float(np.sqrt(np.mean(np.square(outputs[1] - outputs[0])))))
    if y is None:
        return effect
    truth = true_values(full, x, y)
    if full.classes is not None:
        before, after = (float(accuracy_score(np.ravel(truth), full.classes[logits.argmax(axis=1)])) for logits in outputs)
        return replace(effect, measure="accuracy", before=before, after=after)
    before, after = (float(root_mean_squared_error(np.ravel(truth), np.ravel(values))) for values in outputs)
    return replace(effect, measure="RMSE", before=before, after=after)


def summary_html(estimator: FLSEstimator) -> str:
    """The leading rules of a fitted estimator, for notebooks."""
    rules = rules_of(estimator)
    leading = rules.top(_LEADING)
    more = len(rules) - len(leading)
    note = f"<p>{more:,} more: <code>rules()</code> shows them.</p>" if more > 0 else ""
    return leading._repr_html_() + note


def _context(rules: Rules, name: Callable[[object], str], digits: int | None, *, short: bool = False) -> dict[str, Any]:
    """What templates show: all sets and consequents of the rules or, if short, the first of them."""
    s = rules.plain
    shown = []
    for rule in rules.order:
        share, factor = rules.share_of(rule), words.lower_firing_factor(s, rule)
        clauses = words.clauses(s, rule, digits)
        if short:
            conditions, outputs = words.shown_clauses(clauses), words.short_consequent_texts(s, rule, digits)
        else:
            conditions = [(name(c.name), c.word, c.numbers) for c in clauses]
            outputs = words.consequent_texts(s, rule, digits, name)
        heading = f"Rule {rule + 1}" + (f", {share} of the firing" if share else "")
        lower = words.number_text(factor, digits) if factor < 1.0 else ""
        own = {"heading": heading, "conditions": conditions, "factor": lower, "outputs": outputs}
        shown.append({"number": rule + 1, "share": share, **own})
    about = {"about": words.system_line(s), "reading": words.how_to_read(s, digits), "effect": rules.effect}
    return {**about, "rules": shown, "vocabulary": words.vocabulary(s, digits, name)}


def content(rules: Rules) -> dict[str, Any]:
    """The rules as plain values, every number exact; of several systems a list of these."""
    if rules.others:
        return {"systems": [content(part) for part in rules.systems]}
    s, effect = rules.plain, rules.effect
    ranges = [None] * s.n_features if s.input_range is None else s.input_range.T.tolist()
    return {
        "kind": s.kind,
        "tnorm": s.tnorm,
        "order": s.order,
        "uncertainty": s.uncertainty,
        "type_reduction": s.type_reduction,
        "mix": None if s.mix is None else s.mix.tolist(),
        "alphas": None if s.alphas is None else s.alphas.tolist(),
        "task": "regression" if s.classes is None else "classification",
        "inputs": [{"name": name, "range": pair} for name, pair in zip(s.feature_names, ranges, strict=True)],
        "outputs": list(s.output_names),
        "dropped": None if effect is None else {name: words.finite_or_none(v) for name, v in vars(effect).items()},
        "words": [list(words) for words in s.words],
        "rules": [_rule_content(rules, rule) for rule in rules.order],
    }


def _rule_content(rules: Rules, rule: int) -> dict[str, Any]:
    s = rules.plain
    lower, upper = s.half_widths
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
                "lower_half_width": float(lower[rule, m]),
                "upper_half_width": float(upper[rule, m]),
            }
            for m, word, *_ in words.input_clauses(s, rule, 1)
        ],
        "lower_firing_times": words.lower_firing_factor(s, rule),
        "then": [
            {"output": k, "intercept": float(s.intercepts[rule, k]), "slopes": s.slopes[rule, k].tolist()}
            for k in range(s.n_outputs)
        ],
    }


def _system_name(place: int, count: int) -> str:
    return f"System {place + 1} of {count}"


def _text(rules: Rules, format: str, digits: int | None) -> str:  # noqa: A002
    """The rules of one system as text, Markdown or a table."""
    if format == "markdown":
        return words.rendered("rules.md", **_context(rules, words.markdown_name, digits))
    if format == "text":
        return words.rendered("rules.txt", **_context(rules, printable, digits))
    from rich.console import Console

    # Width and colours are fixed, so that the text does not depend on the terminal.
    console = Console(width=_TABLE_WIDTH, color_system=None, force_terminal=False, highlight=False, emoji=False)
    with console.capture() as capture:
        console.print(rules.to_table(digits))
    return capture.get()
