"""The model card: what a model is, on one page to print, as HTML or Markdown."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deepfls import __version__
from deepfls._checks.arguments import check_option, counted, printable
from deepfls._checks.values import Array, softmax
from deepfls._files import user_path, write_whole
from deepfls.inspection import plain_model, words
from deepfls.inspection.display import new_figure
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.plain_model import PlainModel
from deepfls.inspection.report_page import SHARES, measures_of, settings_of, title_of
from deepfls.inspection.rules import rules_of
from deepfls.inspection.system_plots import MembershipsDisplay
from deepfls.inspection.usage import complexity_of

if TYPE_CHECKING:
    from deepfls.estimators.base import FLSEstimator

# Rules, inputs, conditions of a rule, terms of a formula and inputs in the picture of a card, so that it fits one page.
_RULES, _INPUTS, _CONDITIONS, _TERMS, _PANELS = 10, 12, 4, 5, 6


def write_card(
    estimator: FLSEstimator, path: str | os.PathLike[str], X: Any = None, y: Any = None, *, title: str | None = None
) -> Path:
    """Write the card of a fitted estimator; :meth:`FLSRegressor.to_card` has the parameters."""
    target = user_path(path)
    ending = check_option("the ending of path", target.suffix.lower(), (".html", ".md"))
    text = card_text(estimator, X, y, title=title, markdown=ending == ".md")
    write_whole(target, text.encode("utf-8", "xmlcharrefreplace"))
    return target


def card_text(
    estimator: FLSEstimator, X: Any = None, y: Any = None, *, title: str | None = None, markdown: bool = False
) -> str:
    """The card of a fitted estimator as text."""
    model = PlainModel.of(estimator)
    s, n_systems = model.systems[0], len(model.systems)
    name = words.markdown_name if markdown else printable
    rules = rules_of(estimator)
    x = plain_model.rows_given(estimator, X, y)
    measures = [] if x is None or y is None else measures_of(estimator, model, x, plain_model.true_values(model, x, y))
    places = {m: place for place, m in enumerate(plain_model.most_important(estimator, s.n_features))}
    center = plain_model.reference_row(estimator, s)
    shown = []
    for rule in rules.order[:_RULES]:
        told = [c for c in words.clauses(s, rule, 4) if c.word != words.ALMOST_ANY]
        told.sort(key=lambda c: places[c.feature])
        conditions = words.shown_clauses(told, _CONDITIONS, name)
        outputs = [name(text) for text in _says(s, rule, center)]
        shown.append({"number": rule + 1, "share": rules.share_of(rule), "conditions": conditions, "outputs": outputs})
    alone = []  # what a rule that is not shown as a formula says
    if s.classes is not None or s.n_outputs > 1:
        what = "The class, with its probability," if s.classes is not None else "The value"
        alone = [f"{what} is what the rule alone says at the centers of its sets, with the other inputs at their mean."]
    context = {
        "title": name(title or title_of(s)),
        "about": words.system_line(model),
        "systems": "" if n_systems == 1 else f"System 1 of {n_systems}, whose mean is the prediction",
        "facts": settings_of(estimator, model),
        "inputs": _inputs(estimator, s, name),
        "more_inputs": counted(max(0, len(estimator.columns_.names) - _INPUTS), "more input"),
        "measures": [(name(one["name"]), one["values"]) for one in measures],
        "n_rows": "" if x is None else counted(len(x), "row"),
        "calibration": _calibration(estimator),
        "readability": complexity_of(model, x).table.rows,
        "vocabulary": words.vocabulary(s, 4, name),
        "rules": shown,
        "more_rules": counted(max(0, s.n_rules - _RULES), "more rule"),
        "reading": [*alone, *words.how_to_read(s, 4)],
        "version": __version__,
        "number": _measure_text,
        "picture": None if markdown else _picture(estimator, s),
    }
    return words.rendered("card.md" if markdown else "card.html", **context)


def _inputs(estimator: FLSEstimator, s: PlainSystem, name: Any) -> list[tuple[str, str, str]]:
    """Names of the columns, what they may be, and their importance, the most important first."""
    columns = estimator.columns_
    importances = getattr(estimator, "feature_importances_", np.zeros(len(columns.names)))
    found = []
    for place in np.argsort(-importances, kind="stable")[:_INPUTS].tolist():
        column, (first, end) = columns.columns[place], columns.spans[place]
        values = ""
        if column.role == "category":
            values = ", ".join(name(category) for category in column.categories)
        elif s.input_range is not None and end > first:
            values = " to ".join(words.number_text(v, 4) for v in s.input_range[:, first])
        found.append((name(column.name), values, words.share_text(float(importances[place]))))
    return found


def _says(s: PlainSystem, rule: int, reference: Array) -> list[str]:
    """The THEN part of a rule: a formula of one output; of several, or of classes, what it says at its center."""
    if s.classes is None and s.n_outputs == 1:
        return words.short_consequent_texts(s, rule, 4, _TERMS)
    told = [c.feature for c in words.input_clauses(s, rule, 4) if c.word != words.ALMOST_ANY]
    x = reference.copy()
    x[told] = s.centers[rule, told]
    said = s.intercepts[rule] + (s.slopes[rule] @ x if s.order == 1 else 0.0)
    if s.classes is None:
        values = zip(s.output_names, said, strict=True)
        return [f"{words.shortened(one)} is about {words.number_text(value, 4)}" for one, value in values]
    chances = softmax(said)
    best = int(chances.argmax())
    return [f"{words.shortened(s.output_names[best])} ({words.share_text(float(chances[best]))})"]


def _measure_text(measure: str, value: float | None) -> str:
    if value is None:
        return "–"
    return words.share_text(value) if measure in SHARES else words.number_text(value, 4)


def _calibration(estimator: FLSEstimator) -> str:
    calibration = plain_model.calibration_of(estimator)
    what = "sets of classes" if estimator._classifies else "intervals"
    if calibration is None:
        return f"None: the model has no calibrated {what}; coverage=0.9 in the fit gives them."
    rows, share = counted(len(calibration.scores), "held-out row"), words.coverage_text(calibration.coverage)
    return f"{what.capitalize()} of coverage {share}, calibrated ({calibration.method}) on {rows}."


def _picture(estimator: FLSEstimator, s: PlainSystem) -> str:
    """The sets of the most important inputs as a PNG in text."""
    left_out = words.category_inputs(s)
    if s.terms is not None:
        left_out |= {m for m in range(s.n_features) if not words.used_terms(s, m)}
    ranked = [m for m in plain_model.most_important(estimator, s.n_features) if m not in left_out]
    display = MembershipsDisplay.from_estimator(estimator, features=ranked[:_PANELS] or [0])
    count = len(display.names)
    n_rows = 1 if count <= 4 else 2
    axes = new_figure(10.5, 1.75 * n_rows + 0.4).subplots(n_rows, -(-count // n_rows), squeeze=False)
    display.plot(axes)
    memory = io.BytesIO()
    display.figure_.savefig(memory, format="png", dpi=110)
    return base64.b64encode(memory.getvalue()).decode()
