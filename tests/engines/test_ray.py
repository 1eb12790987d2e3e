"""A fit on a Ray cluster of two nodes, of which one is removed, and predictions there; the whole is a benchmark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="ray is not installed: pip install 'deepfls[ray]'")


@pytest.mark.skipif("DEEPFLS_TEST_RAY" not in os.environ, reason="takes minutes: DEEPFLS_TEST_RAY=1 runs it")
def test_fit_that_loses_a_node_gives_the_model_of_one_process(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "ray_cluster.py"
    subprocess.run([sys.executable, str(script), "--quick", "--json", str(tmp_path / "rows.json")], check=True, timeout=900)
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert len(rows) == 8
    assert [row["work"] for row in rows if row["holds"] is False] == []
