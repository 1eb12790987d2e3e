"""Formulas as pure functions of tensors: plain torch operations, no state, no modules.

May import ``_checks``. Only :func:`karnik_mendel` reaches up, to its compiled kernel.
"""

from deepfls.functional.firing import (
    IntervalFiring,
    interval_log_firing,
    log_firing,
    relative_firing,
    relative_interval_firing,
)
from deepfls.functional.karnik_mendel import TypeReducedSet, karnik_mendel
from deepfls.functional.memberships import IntervalGrades, gaussian_grades, interval_gaussian_grades
from deepfls.functional.reduction import type_reduce, type_reduced_set, weighted_average
from deepfls.functional.rule_outputs import rule_outputs

__all__ = [
    "IntervalFiring",
    "IntervalGrades",
    "TypeReducedSet",
    "gaussian_grades",
    "interval_gaussian_grades",
    "interval_log_firing",
    "karnik_mendel",
    "log_firing",
    "relative_firing",
    "relative_interval_firing",
    "rule_outputs",
    "type_reduce",
    "type_reduced_set",
    "weighted_average",
]
