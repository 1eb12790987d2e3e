"""Formulas as pure functions of tensors: plain torch operations, no state, no modules.

May import ``_checks``. Only :func:`karnik_mendel` reaches up, to its compiled kernel.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepfls.functional.firing import (
        IntervalFiring,
        IntervalGrades,
        gaussian_grades,
        interval_gaussian_grades,
        interval_log_firing,
        log_firing,
        relative_firing,
        relative_interval_firing,
        rule_outputs,
    )
    from deepfls.functional.karnik_mendel import TypeReducedSet, karnik_mendel
    from deepfls.functional.reduction import type_reduce, type_reduced_set, weighted_average

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


def __getattr__(name: str) -> Any:
    # Imported on first use: the constants of this folder are needed without torch, which takes seconds to import.
    if name in __all__:
        for home in ("firing", "karnik_mendel", "reduction"):
            module = importlib.import_module(f"deepfls.functional.{home}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Functional(ModuleType):
    """This package, whose karnik_mendel is the function, also after the module of that name is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        is_file = isinstance(value, ModuleType) and name in __all__
        super().__setattr__(name, getattr(value, name) if is_file else value)


sys.modules[__name__].__class__ = _Functional
