"""What a worker of a Ray cluster computes for a batch of a dataset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deepfls import FLSRegressor
from deepfls.engines.ray_workers import BatchPredictor

X = np.random.default_rng(0).normal(size=(200, 2))
BATCH = pa.table({"id": np.arange(200), "a": X[:, 0], "b": X[:, 1], "y": X[:, 0]})


@pytest.mark.parametrize(
    ("keep", "how", "names"),
    [
        (None, {}, ["id", "a", "b", "y"]),
        (["id"], {"prefix": "p_"}, ["id", "p_y"]),
        ([], {"interval": 0.8}, ["y", "y_lower", "y_upper"]),
    ],
)
def test_batch_gets_columns_of_predictions(keep: list[str] | None, how: dict[str, Any], names: list[str]) -> None:
    inputs = BATCH.select(["a", "b"])
    model = FLSRegressor(n_rules=2, epochs=1, coverage=0.8, random_state=0).fit(inputs, X[:, 0])
    predictor = BatchPredictor(model, keep, {"prefix": "", "interval": None, "quantiles": (), "familiarity": False, **how})
    made = predictor(BATCH)
    assert made.column_names == names
    np.testing.assert_array_equal(made.column("p_y" if "p_y" in names else "y").to_numpy(), model.predict(inputs))
