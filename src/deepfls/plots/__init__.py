"""Plots of learned systems, in the manner of scikit-learn's displays: data in, ``plot(ax=None)`` returns the display.

matplotlib is imported inside, without pyplot, so that nothing global changes and no window system is needed.
"""

from deepfls.plots.canvas import COLORS, label, new_figure
from deepfls.plots.intervals import CoverageDisplay, IntervalDisplay, WidthErrorDisplay
from deepfls.plots.memberships import FiringMapDisplay, MembershipsDisplay
from deepfls.plots.predictions import BandDisplay, LearningCurveDisplay, PredictionDisplay
from deepfls.plots.responses import ResponseCurveDisplay, ResponseSurfaceDisplay

__all__ = [
    "COLORS",
    "BandDisplay",
    "CoverageDisplay",
    "FiringMapDisplay",
    "IntervalDisplay",
    "LearningCurveDisplay",
    "MembershipsDisplay",
    "PredictionDisplay",
    "ResponseCurveDisplay",
    "ResponseSurfaceDisplay",
    "WidthErrorDisplay",
    "label",
    "new_figure",
]
