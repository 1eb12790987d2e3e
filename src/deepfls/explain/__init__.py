"""Explanations of predictions and of data, and systems with fewer rules."""

from deepfls.explain.point import Explanation, explain, reference_row
from deepfls.explain.pushes import EXACT_INPUTS, input_pushes
from deepfls.explain.simplify import Simplification, SimplifyReport, simplify
from deepfls.explain.usage import DataExplanation, RulePair, explain_data
from deepfls.explain.weights import RuleWeights, rule_weights

__all__ = [
    "EXACT_INPUTS",
    "DataExplanation",
    "Explanation",
    "RulePair",
    "RuleWeights",
    "Simplification",
    "SimplifyReport",
    "explain",
    "explain_data",
    "input_pushes",
    "reference_row",
    "rule_weights",
    "simplify",
]
