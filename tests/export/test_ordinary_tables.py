"""Exports of models of everyday tables: missing values, categories and clipped inputs give what Python gives."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deepfls import FLSClassifier, FLSRegressor
from deepfls.export.targets import ColumnForm
from deepfls.inspection.plain import PlainSystem
from export_cases import compiled, needs_gcc, run_c

N = 120
RANDOM = np.random.default_rng(0)
COLOUR = np.resize(["red", "blue", "green"], N)
KIND = RANDOM.choice(["a", "b"], N)
SIZE, AGE = RANDOM.normal(5.0, 2.0, size=(2, N))
Y = SIZE + 3.0 * (COLOUR == "red") - AGE * (KIND == "a")


def table(missing: bool) -> pd.DataFrame:
    frame = pd.DataFrame({"size": SIZE, "colour": COLOUR.astype(object), "kind": KIND.astype(object), "age": AGE})
    if missing:
        for column, every in (("size", 5), ("colour", 7), ("kind", 9), ("age", 4)):
            frame.loc[::every, column] = np.nan if column in ("size", "age") else None
    return frame


def columns_of(frame: pd.DataFrame) -> np.ndarray:
    """The columns as exports take them: numbers, and the index of a category."""
    codes = {"colour": ["blue", "green", "red"], "kind": ["a", "b"]}
    made = frame.copy()
    for name, known in codes.items():
        made[name] = [known.index(value) if value in known else np.nan for value in frame[name]]
    return made.to_numpy(dtype=np.float32)


SYSTEMS = [
    {"kind": "t1"},
    {"kind": "it2"},
    {"kind": "it2", "uncertainty": "h"},
    {"kind": "it2", "type_reduction": "nt", "order": 0},
]


def model_of(settings: dict[str, Any], missing: bool, **more: Any) -> FLSRegressor:
    return FLSRegressor(n_rules=3, epochs=3, random_state=0, **settings, **more).fit(table(missing), Y)


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("settings", SYSTEMS, ids=str)
def test_onnx_gives_the_predictions(tmp_path: Path, settings: dict[str, Any], missing: bool) -> None:
    runtime = pytest.importorskip("onnxruntime")
    model = model_of(settings, missing)
    model.to_onnx(tmp_path / "m.onnx")
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    found = session.run(["y"], {"x": columns_of(table(missing))})[0][:, 0]
    np.testing.assert_allclose(found, model.predict(table(missing)), rtol=1e-4, atol=1e-4)
    props = session.get_modelmeta().custom_metadata_map
    assert json.loads(props["categories"]) == {"colour": ["blue", "green", "red"], "kind": ["a", "b"]}
    if not missing:
        broken = columns_of(table(False))[:1]
        broken[0, 0] = np.nan
        assert np.isnan(session.run(["y"], {"x": broken})[0]).all()


def test_onnx_clips_wild_inputs(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    x = np.stack([SIZE, AGE], axis=1)
    x[3, 0] = 1e7
    with pytest.warns(UserWarning, match="far beyond all others"):
        model = FLSRegressor(n_rules=3, epochs=3, random_state=0).fit(x, Y)
    model.to_onnx(tmp_path / "m.onnx")
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    wild = np.array([[1e7, 5.0], [-1e7, 5.0], [5.0, 5.0]], dtype=np.float32)
    np.testing.assert_allclose(session.run(["y"], {"x": wild})[0][:, 0], model.predict(wild), rtol=1e-4)


def test_columns_and_inputs_of_a_target_belong_together() -> None:
    model = FLSClassifier(n_rules=3, epochs=1, random_state=0).fit(table(True), KIND)
    form = ColumnForm.of(PlainSystem.of(model))
    assert form is not None
    assert form.names == ("size", "colour", "kind", "age")
    columns = columns_of(table(True)).astype(np.float64)
    np.testing.assert_allclose(form.inputs(columns), model._known_x(table(True)), rtol=1e-6)
    np.testing.assert_array_equal(form.columns(form.inputs(columns)), columns)


@needs_gcc
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("settings", SYSTEMS, ids=str)
def test_c_gives_the_predictions(tmp_path: Path, settings: dict[str, Any], missing: bool) -> None:
    model = model_of(settings, missing)
    model.to_c(tmp_path / "m.h", prefix="plant", force=True)
    header = (tmp_path / "m.h").read_text()
    assert "0 'blue', 1 'green', 2 'red'" in header.replace('"', "'")
    inputs = model._known_x(table(missing)).astype(np.float32)
    found = run_c(compiled(tmp_path, header), inputs, 1).y[:, 0]
    np.testing.assert_allclose(found, model.predict(table(missing)), rtol=2e-5, atol=2e-5)
    broken = inputs[:2].copy()
    broken[:, 0] = (np.inf, np.nan)
    assert np.isnan(run_c(compiled(tmp_path, header), broken, 1).y[:, 0]).tolist() == [True, not missing]
    with pytest.raises(ValueError, match="missing values") if missing else contextlib.nullcontext():
        model.to_c(tmp_path / "q.h", number="q31", force=True)


@needs_gcc
def test_c_encodes_columns_and_clips(tmp_path: Path) -> None:
    frame = table(True)
    frame.loc[3, "age"] = 1e7
    with pytest.warns(UserWarning, match="far beyond all others"):
        model = FLSRegressor(n_rules=3, epochs=3, random_state=0).fit(frame, Y)
    model.to_c(tmp_path / "model.h", force=True)
    columns = columns_of(frame)[:6]
    rows = ",".join("{" + ",".join("NAN" if v != v else f"{v:.9g}f" for v in row) + "}" for row in columns.tolist())
    rows = re.sub(r"(?<![\d.e+-])(-?\d+)f", r"\1.0f", rows)
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "model.h"\n'
        f"int main(void) {{ static const float c[6][MODEL_COLUMNS] = {{{rows}}}; int i;\n"
        "for (i = 0; i < 6; ++i) { float x[MODEL_INPUTS], y[MODEL_OUTPUTS]; model_encode(c[i], x); model_predict(x, y);\n"
        'printf("%.9g\\n", (double)y[0]); } return 0; }\n'
    )
    subprocess.run(["gcc", "main.c", "-o", "program", "-lm"], cwd=tmp_path, check=True)
    found = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True).stdout.split()
    np.testing.assert_allclose(np.array(found, dtype=float), model.predict(frame)[:6], rtol=2e-5, atol=2e-5)
