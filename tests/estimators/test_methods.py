"""The methods of the estimators that come from folders above."""

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


def test_importing_the_estimators_imports_no_export() -> None:
    source = (
        "import sys, deepfls.estimators; "
        "print([m for m in sys.modules if m.startswith(('deepfls.export', 'deepfls.inspection', 'onnx'))])"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_methods_have_the_types_of_what_they_return() -> None:
    from deepfls.estimators.methods import Methods

    for name, method in vars(Methods).items():
        if callable(method) and not name.startswith("_"):
            assert method.__annotations__["return"] != "Any", name
