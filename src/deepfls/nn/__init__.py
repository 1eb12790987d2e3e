"""Fuzzy systems and their parts as torch modules with constrained parameters.

May import ``_checks``, ``functional`` and ``kernels``.
"""

from deepfls.nn.general import GT2FLS, GT2Antecedents
from deepfls.nn.rule_parts import IT2Antecedents, T1Antecedents, TSKConsequents
from deepfls.nn.systems import IT2FLS, T1FLS, ReducedOutput

__all__ = [
    "GT2FLS",
    "IT2FLS",
    "T1FLS",
    "GT2Antecedents",
    "IT2Antecedents",
    "ReducedOutput",
    "T1Antecedents",
    "TSKConsequents",
]
