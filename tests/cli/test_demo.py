"""``deepfls demo``: a small real run."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from deepfls import load
from deepfls.cli.app import app


def test_demo_writes_models_and_pictures(tmp_path: Path) -> None:
    pytest.importorskip("h5py", reason="the demo reads its data from the package pvlib, an extra")
    done = CliRunner().invoke(app, ["demo", "--rows", "400", "--rules", "3", "--out", str(tmp_path / "demo")])
    assert done.exit_code == 0, done.output
    names = {path.name for path in (tmp_path / "demo").iterdir()}
    assert names == {
        "intervals.png", "learning_curve.png", "map.png", "memberships.png", "predictions.png", "turbidity_it2.fls",
        "turbidity_t1.fls",
    }  # fmt: skip
    assert load(tmp_path / "demo" / "turbidity_it2.fls").n_rules == 3
    assert "gradient boosting" in done.stdout
    assert "covered" in done.stdout
