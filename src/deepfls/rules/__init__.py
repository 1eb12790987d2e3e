"""Rules of a trained system as text, Markdown, JSON, a table and HTML, in the units of the data."""

from __future__ import annotations

from deepfls.learner import FLSEstimator
from deepfls.rules.render import as_html, content
from deepfls.rules.ruleset import DropEffect, Rules, outputs_of, rules_of, shares_of

__all__ = ["DropEffect", "Rules", "content", "outputs_of", "rules_of", "shares_of", "summary_html"]

# Rules shown under the diagram of an estimator in a notebook.
_LEADING = 5


def summary_html(estimator: FLSEstimator) -> str:
    """The leading rules of a fitted estimator, for notebooks."""
    rules = rules_of(estimator)
    more = len(rules) - _LEADING
    note = f"<p>{more:,} more: <code>rules()</code> shows them.</p>" if more > 0 else ""
    return as_html(rules.top(_LEADING), 4) + note
