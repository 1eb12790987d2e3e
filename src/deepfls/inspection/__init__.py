"""A trained system made readable: rules, explanations, simplification, plots and the report page.

Everything is computed from :mod:`deepfls.inspection.plain`, the system as NumPy arrays in the units of the data.
May import every folder up to ``estimators``. matplotlib is imported inside functions, without pyplot.
"""

from deepfls.inspection.display import COLORS, new_figure
from deepfls.inspection.explanation import EXACT_INPUTS, Explanation, explain, input_pushes
from deepfls.inspection.plain import rule_weights
from deepfls.inspection.prediction_plots import (
    BandDisplay,
    CoverageDisplay,
    IntervalDisplay,
    LearningCurveDisplay,
    PredictionDisplay,
    WidthErrorDisplay,
)
from deepfls.inspection.report_page import report_html, write_report
from deepfls.inspection.rules import Rules, rules_of
from deepfls.inspection.simplification import Simplification, simplify
from deepfls.inspection.system_plots import (
    FiringMapDisplay,
    MembershipsDisplay,
    ResponseCurveDisplay,
    ResponseSurfaceDisplay,
)
from deepfls.inspection.usage import DataExplanation, explain_data

__all__ = [
    "COLORS",
    "EXACT_INPUTS",
    "BandDisplay",
    "CoverageDisplay",
    "DataExplanation",
    "Explanation",
    "FiringMapDisplay",
    "IntervalDisplay",
    "LearningCurveDisplay",
    "MembershipsDisplay",
    "PredictionDisplay",
    "ResponseCurveDisplay",
    "ResponseSurfaceDisplay",
    "Rules",
    "Simplification",
    "WidthErrorDisplay",
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
