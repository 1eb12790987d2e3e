"""FLSRegressor and FLSClassifier: scikit-learn estimators around one fit pipeline, intervals and model files.

May import every folder below it. Methods that belong to ``inspection`` or ``export`` import their function locally.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepfls.estimators.fls import FLSClassifier, FLSRegressor
    from deepfls.estimators.model_file import load

__all__ = ["FLSClassifier", "FLSRegressor", "load"]


def __getattr__(name: str) -> Any:
    # The command line reads tables with this folder before it needs torch and scikit-learn, which take seconds to import.
    if name in __all__:
        from deepfls.estimators import fls, model_file

        return getattr(model_file if name == "load" else fls, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
