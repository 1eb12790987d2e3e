"""The model card: what a model is, on one page to print, as HTML or Markdown."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deepfls import __version__
from deepfls._checks.arguments import check_option
from deepfls._files import write_whole
from deepfls.inspection.complexity import complexity
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.plain_model import PlainModel, check_rows_given
from deepfls.inspection.report_page import payload_of
from deepfls.inspection.rules import rules_of
from deepfls.inspection.system_plots import MembershipsDisplay
from deepfls.inspection.words import (
    how_to_read,
    listed,
    markdown_name,
    number_text,
    one_line,
    plural,
    rendered,
    share_text,
    short_clauses,
    short_consequent_texts,
    system_line,
    vocabulary,
)

if TYPE_CHECKING:
    from deepfls.estimators.base import FLSEstimator

# Rules and inputs of a card.
_RULES, _INPUTS = 10, 15


def write_card(
    estimator: FLSEstimator, path: str | os.PathLike[str], X: Any = None, y: Any = None, *, title: str | None = None
) -> Path:
    """Write the card of a fitted estimator; :meth:`FLSEstimator.to_card` has the parameters."""
    target = Path(path)
    ending = check_option("the ending of path", target.suffix.lower(), (".html", ".md"))
    text = card_text(estimator, X, y, title=title, markdown=ending == ".md")
    write_whole(target, text.encode("utf-8", "xmlcharrefreplace"))
    return target


def card_text(
    estimator: FLSEstimator, X: Any = None, y: Any = None, *, title: str | None = None, markdown: bool = False
) -> str:
    """The card of a fitted estimator as text."""
    check_rows_given(X, y)
    model = PlainModel.of(estimator)
    s, n_systems = model.systems[0], len(model.systems)
    name = markdown_name if markdown else one_line
    rules = rules_of(estimator)
    payload = payload_of(estimator, X, y)
    data = payload["data"]
    shown = [
        {
            "number": rule + 1,
            "share": rules.share_of(rule),
            "conditions": [(name(n), word, numbers) for n, word, numbers in short_clauses(s, rule, 4)],
            "outputs": [name(text) for text in short_consequent_texts(s, rule, 4, 8 if s.n_outputs == 1 else 3)],
        }
        for rule in rules.order[:_RULES]
    ]
    context = {
        "title": name(title or listed(s.output_names[:3])),
        "about": system_line(model),
        "systems": "" if n_systems == 1 else f"System 1 of {n_systems}, whose mean is the prediction",
        "facts": payload["settings"],
        "inputs": _inputs(estimator, s, name),
        "more_inputs": max(0, len(estimator.columns_.names) - _INPUTS),
        "measures": [] if data is None else [(name(m["name"]), m["values"]) for m in data["metrics"]],
        "n_rows": 0 if data is None else data["rows"],
        "calibration": _calibration(estimator),
        "readability": complexity(estimator, X).table.rows,
        "vocabulary": [(name(s.feature_names[m]), terms) for m, terms in vocabulary(s, 4)],
        "rules": shown,
        "more_rules": max(0, s.n_rules - _RULES),
        "reading": how_to_read(s, 4),
        "version": __version__,
        "number": lambda value: "–" if value is None else number_text(value, 4),
        "picture": None if markdown else _picture(estimator),
    }
    return rendered("card.md" if markdown else "card.html", **context)


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
            values = " to ".join(number_text(v, 4) for v in s.input_range[:, first])
        found.append((name(column.name), values, share_text(float(importances[place]))))
    return found


def _calibration(estimator: FLSEstimator) -> str:
    calibration = getattr(estimator, "calibration_", None)
    what = "sets of classes" if estimator._classifies else "intervals"
    if calibration is None or calibration.method == "none":
        return f"None: the model has no calibrated {what}; coverage=0.9 in the fit gives them."
    rows = plural(len(calibration.scores), "held-out row")
    return f"{what.capitalize()} of coverage {calibration.coverage:.0%}, calibrated ({calibration.method}) on {rows}."


def _picture(estimator: FLSEstimator) -> str:
    """The sets of the most important inputs as a PNG in text."""
    display = MembershipsDisplay.from_estimator(estimator).plot()
    memory = io.BytesIO()
    display.figure_.savefig(memory, format="png", dpi=80)
    return base64.b64encode(memory.getvalue()).decode()
