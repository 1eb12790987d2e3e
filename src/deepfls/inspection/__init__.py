"""A trained system made readable: rules, explanations, simplification, plots and the report page.

Everything is computed from :mod:`deepfls.inspection.plain`, the system as NumPy arrays in the units of the data.
May import every folder up to ``estimators``. matplotlib is imported inside functions, without pyplot.
"""

from deepfls.inspection.display import (
    COLORS,
    BandDisplay,
    CoverageDisplay,
    FiringMapDisplay,
    IntervalDisplay,
    LearningCurveDisplay,
    PredictionDisplay,
    WidthErrorDisplay,
    new_figure,
)
from deepfls.inspection.explanation import Explanation, explain
from deepfls.inspection.plain_model import rule_weights
from deepfls.inspection.pushes import EXACT_INPUTS, PushesDisplay, input_pushes
from deepfls.inspection.report_page import report_html, write_report
from deepfls.inspection.rules import Rules, rules_of
from deepfls.inspection.simplification import Simplification, simplify
from deepfls.inspection.system_plots import MembershipsDisplay, ResponseCurveDisplay, ResponseSurfaceDisplay
from deepfls.inspection.usage import Complexity, DataExplanation, complexity, explain_data

__all__ = [
    "COLORS",
    "EXACT_INPUTS",
    "BandDisplay",
    "Complexity",
    "CoverageDisplay",
    "DataExplanation",
    "Explanation",
    "FiringMapDisplay",
    "IntervalDisplay",
    "LearningCurveDisplay",
    "MembershipsDisplay",
    "PredictionDisplay",
    "PushesDisplay",
    "ResponseCurveDisplay",
    "ResponseSurfaceDisplay",
    "Rules",
    "Simplification",
    "WidthErrorDisplay",
    "complexity",
    "explain",
    "explain_data",
    "input_pushes",
    "new_figure",
    "report_html",
    "rule_weights",
    "rules_of",
    "simplify",
    "write_report",
]
