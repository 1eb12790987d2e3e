"""A trained system made readable: rules, explanations, simplification, plots and the report page.

Everything is computed from :mod:`deepfls.inspection.plain`, the system as NumPy arrays in the units of the data.
May import every folder up to ``estimators``. matplotlib is imported inside functions, without pyplot.
"""

from deepfls.inspection.display import COLORS, label, new_figure
from deepfls.inspection.explanation import EXACT_INPUTS, Explanation, explain, input_pushes, reference_row
from deepfls.inspection.plain import RuleWeights, outputs_of, rule_weights, shares_of
from deepfls.inspection.prediction_plots import (
    BandDisplay,
    CoverageDisplay,
    IntervalDisplay,
    LearningCurveDisplay,
    PredictionDisplay,
    WidthErrorDisplay,
)
from deepfls.inspection.report_page import report_html, write_report
from deepfls.inspection.rules import DropEffect, Rules, as_html, content, rules_of, summary_html
from deepfls.inspection.simplification import Simplification, SimplifyReport, simplify
from deepfls.inspection.system_plots import (
    FiringMapDisplay,
    MembershipsDisplay,
    ResponseCurveDisplay,
    ResponseSurfaceDisplay,
)
from deepfls.inspection.usage import DataExplanation, RulePair, explain_data

__all__ = [
    "COLORS",
    "EXACT_INPUTS",
    "BandDisplay",
    "CoverageDisplay",
    "DataExplanation",
    "DropEffect",
    "Explanation",
    "FiringMapDisplay",
    "IntervalDisplay",
    "LearningCurveDisplay",
    "MembershipsDisplay",
    "PredictionDisplay",
    "ResponseCurveDisplay",
    "ResponseSurfaceDisplay",
    "RulePair",
    "RuleWeights",
    "Rules",
    "Simplification",
    "SimplifyReport",
    "WidthErrorDisplay",
    "as_html",
    "content",
    "explain",
    "explain_data",
    "input_pushes",
    "label",
    "new_figure",
    "outputs_of",
    "reference_row",
    "report_html",
    "rule_weights",
    "rules_of",
    "shares_of",
    "simplify",
    "summary_html",
    "write_report",
]
