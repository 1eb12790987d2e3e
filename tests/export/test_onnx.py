"""ONNX models in onnxruntime agree with the estimator."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepfls import FLSClassifier, FLSRegressor
from deepfls.export.onnx import onnx_bytes, write_onnx
from deepfls.inspection.plain import PlainSystem
from export_cases import inputs_of, random_plain_system

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytest.importorskip("onnx", reason="the extra onnx is not installed")

SYSTEMS: list[dict[str, Any]] = [
    {"kind": "t1"},
    {"kind": "t1", "order": 0, "tnorm": "htsk"},
    *({"type_reduction": name, "n_outputs": 2} for name in ("km", "nt", "bmm", "sm")),
    *({"uncertainty": name, "tnorm": "htsk"} for name in ("h", "s")),
    {"n_rules": 1},
    {"n_rules": 40, "n_features": 12},
    {"kind": "gt2", "alphas": np.array([0.01, 0.5, 1.0]), "n_rules": 4, "n_outputs": 2},
]


def session_of(content: bytes) -> Any:
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("fields", SYSTEMS, ids=str)
def test_onnx_agrees_with_python_for_any_batch(fields: dict[str, Any]) -> None:
    plain = random_plain_system(len(str(fields)), **fields)
    session = session_of(onnx_bytes(plain))
    names = [output.name for output in session.get_outputs()]
    assert names == (["y"] if plain.kind == "t1" else ["y", "y_left", "y_right"])
    for n_rows, stretch in ((1, 1.0), (257, 1.0), (300, 100.0)):
        x = inputs_of(plain, n_rows, stretch=stretch)
        truth = plain.output(x)
        got = session.run(names, {"x": x.astype(np.float32)})
        for name, values in zip(names, got, strict=True):
            assert values.dtype == np.float32
            expected = getattr(truth, name)
            # Relative to the rounding of float32, and to that of a sum that cancels.
            np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_onnx_in_float32_agrees_within_its_rounding() -> None:
    plain = random_plain_system(4, tnorm="htsk")
    x = inputs_of(plain, 500)
    got = session_of(onnx_bytes(plain, "float32")).run(["y"], {"x": x.astype(np.float32)})[0]
    np.testing.assert_allclose(got, plain.output(x).y, rtol=1e-4, atol=1e-4)


def test_onnx_of_nan_is_nan_and_of_infinity_is_finite() -> None:
    for fields in ({"kind": "t1"}, {}):
        plain = random_plain_system(2, n_features=2, **fields)
        x = np.array([[0, np.nan], [np.inf, 0], [-np.inf, np.inf], [1e38, 0]], dtype=np.float32)
        for dtype in ("float64", "float32"):
            for values in session_of(onnx_bytes(plain, dtype)).run(None, {"x": x}):
                assert np.isnan(values[0]).all()
                assert np.isfinite(values[1:]).all()


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_to_onnx_writes_a_checked_model_with_its_names(kind: str, tmp_path: Path) -> None:
    import onnx
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal([1e3, 2.0], [10.0, 1.0], (200, 2)), columns=["heat", "flow"])
    y = pd.Series(1e4 + 0.1 * frame["heat"] + np.sin(frame["flow"]), name="load")
    model = FLSRegressor(kind=kind, n_rules=4, epochs=3, random_state=0).fit(frame, y)
    path = tmp_path / "plant.onnx"
    report = model.to_onnx(path, X=frame)
    assert report.size == path.stat().st_size
    assert report.error < 1e-5
    assert str(report).startswith(f"{path}: {report.size:,} bytes; ")
    assert "µs for one row, " in str(report)
    got = onnxruntime.InferenceSession(path).run(["y"], {"x": frame.to_numpy(dtype=np.float32)})[0]
    expected = model.predict(frame.astype(np.float32).astype(float))
    np.testing.assert_allclose(got[:, 0], expected, rtol=1e-6)
    props = {item.key: item.value for item in onnx.load(path).metadata_props}
    assert props == {"inputs": "heat\nflow", "outputs": "load"}


def test_classifier_gives_probabilities(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    model = FLSClassifier(n_rules=3, epochs=3, random_state=0).fit(x, np.where(x[:, 0] > 0, "up", "down"))
    model.to_onnx(tmp_path / "c.onnx")
    y, y_left, y_right = onnxruntime.InferenceSession(tmp_path / "c.onnx").run(["y", "y_left", "y_right"], {"x": x})
    np.testing.assert_allclose(y, model.predict_proba(x), atol=1e-6)
    logits = PlainSystem.of(model).output(x.astype(np.float64))
    np.testing.assert_allclose(y_left, logits.y_left, atol=1e-5)
    np.testing.assert_allclose(y_right, logits.y_right, atol=1e-5)


@pytest.mark.parametrize("kind", ["t1", "it2", "gt2"])
@pytest.mark.parametrize("missing", [False, True])
def test_every_constant_is_used(kind: str, missing: bool) -> None:
    import onnx

    x = np.random.default_rng(0).normal(size=(30, 2))
    y = x[:, 0].copy()
    x[::5, 1] = np.nan if missing else 0.0
    plain = PlainSystem.of(FLSRegressor(kind=kind, n_rules=2, epochs=1, random_state=0).fit(x, y))
    graph = onnx.load_from_string(onnx_bytes(plain)).graph
    used = {name for node in graph.node for name in node.input}
    assert {constant.name for constant in graph.initializer} <= used


def test_model_that_disagrees_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = onnx_bytes(random_plain_system(1, kind="t1", n_features=2, n_outputs=1))
    monkeypatch.setattr("deepfls.export.onnx.onnx_bytes", lambda *_: other)
    plain = random_plain_system(2, kind="t1", n_features=2, n_outputs=1)
    with pytest.raises(ValueError, match=r"The ONNX model must agree with the estimator to 1e-05 of the output's"):
        write_onnx(tmp_path / "p.onnx", plain)
    assert list(tmp_path.iterdir()) == []


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"ONNX export needs onnx and onnxruntime: pip install 'deepfls\[onnx\]'\."):
        write_onnx(tmp_path / "p.onnx", random_plain_system(0))
    with pytest.raises(ValueError, match=r"dtype must be one of 'float64', 'float32', got 'float16'\."):
        write_onnx(tmp_path / "p.onnx", random_plain_system(0), dtype="float16")
