"""deepfls: Type-1 and Interval Type-2 fuzzy logic systems learned from data with PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepfls.estimators import FLSClassifier, FLSRegressor, load

__version__ = "0.2.0"

__all__ = ["FLSClassifier", "FLSRegressor", "__version__", "load"]


def __getattr__(name: str) -> Any:
    # The estimators bring scikit-learn along, which takes longer to import than everything below them.
    if name in ("FLSClassifier", "FLSRegressor", "load"):
        from deepfls import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'deepfls' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
