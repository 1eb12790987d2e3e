"""The doors of the estimators to the exports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.exceptions import NotFittedError

from deepfls import FLSClassifier, FLSRegressor


@pytest.mark.parametrize("name", ["to_c", "to_onnx", "to_fll", "to_fis"])
@pytest.mark.parametrize("estimator", [FLSRegressor(), FLSClassifier()], ids=["regressor", "classifier"])
def test_estimator_that_is_not_fitted_exports_nothing(estimator: FLSRegressor, name: str, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        getattr(estimator, name)(tmp_path / "plant.fis")
    assert list(tmp_path.iterdir()) == []


def test_importing_the_package_opens_no_export() -> None:
    source = "import sys, deepfls; print([m for m in sys.modules if m.startswith(('deepfls.export.', 'onnx'))])"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
