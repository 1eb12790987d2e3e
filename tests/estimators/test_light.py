"""Predictions of few rows without torch: the numbers of the estimator, and the estimator where it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deepfls import FLSClassifier, FLSRegressor
from deepfls.estimators.light import LightModel, NotLightError, light_model

RANDOM = np.random.default_rng(0)
FRAME = pd.DataFrame({"a": RANDOM.normal(size=60), "b": np.resize(["x", "y", "z"], 60), "c": RANDOM.normal(size=60)})
HOLES = FRAME.assign(a=FRAME["a"].where(np.arange(60) % 5 > 0))
Y = FRAME["a"].to_numpy() + (FRAME["b"] == "x")
QUICK = {"n_rules": 3, "epochs": 2, "random_state": 0}


def light(model: Any, tmp_path: Path) -> LightModel | None:
    model.save(tmp_path / "m.fls")
    return light_model(tmp_path / "m.fls")


@pytest.mark.parametrize("frame", [FRAME, HOLES], ids=["complete", "holes"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"kind": "t1"}, {"type_reduction": "bmm"}, {"order": 0, "tnorm": "product"}, {"uncertainty": "s"}],
    ids=str,
)
def test_predictions_are_those_of_the_estimator_to_the_bit(tmp_path: Path, settings: dict[str, Any], frame: Any) -> None:
    model = FLSRegressor(**QUICK, **settings).fit(frame, Y)
    found = light(model, tmp_path)
    assert found is not None
    np.testing.assert_array_equal(found.predict(frame[:9]), model.predict(frame[:9]))


def test_probabilities_are_those_of_the_estimator_to_the_bit(tmp_path: Path) -> None:
    model = FLSClassifier(**QUICK).fit(HOLES, FRAME["b"])
    found = light(model, tmp_path)
    assert found is not None
    assert found.classes_ is not None
    assert found.classes_.tolist() == ["x", "y", "z"]
    np.testing.assert_array_equal(found.predict_proba(HOLES[:9]), model.predict_proba(HOLES[:9]))


def test_what_needs_the_estimator_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert light(FLSRegressor(**QUICK, kind="gt2").fit(FRAME, Y), tmp_path) is None
    assert light(FLSRegressor(**QUICK, uncertainty="h").fit(HOLES, Y), tmp_path) is None
    assert light(FLSRegressor(**QUICK).fit(FRAME[["a", "c"]].to_numpy(), Y), tmp_path) is None
    found = light(FLSRegressor(**QUICK).fit(FRAME, Y), tmp_path)
    assert found is not None
    with pytest.raises(NotLightError):
        found.predict(HOLES[:9])
    with pytest.raises(NotLightError):
        found.predict(pd.concat([FRAME] * 200))
    (tmp_path / "broken.fls").write_bytes(b"nothing")
    assert light_model(tmp_path / "broken.fls") is None
    monkeypatch.setenv("DEEPFLS_KERNELS", "0")
    assert light_model(tmp_path / "m.fls") is None


def test_command_line_predicts_without_heavy_packages(tmp_path: Path) -> None:
    FLSRegressor(**QUICK).fit(FRAME, Y).save(tmp_path / "m.fls")
    FRAME[:9].to_csv(tmp_path / "t.csv", index=False)
    source = (
        "import sys; sys.argv = ['deepfls', 'predict', 'm.fls', 't.csv', '--out', 'p.csv']\n"
        "from deepfls.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('torch', 'sklearn', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
