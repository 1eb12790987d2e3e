"""FLSRegressor and FLSClassifier: scikit-learn estimators around one fit pipeline, intervals and model files.

May import every folder below it. Methods that belong to ``inspection`` or ``export`` import their function locally.
"""

from deepfls.estimators.classifier import FLSClassifier
from deepfls.estimators.model_file import load
from deepfls.estimators.regressor import FLSRegressor

__all__ = ["FLSClassifier", "FLSRegressor", "load"]
