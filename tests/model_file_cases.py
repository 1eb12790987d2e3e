"""Small fitted estimators of every kind, and a look into the files they write."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from deepfls import FLSClassifier, FLSRegressor, load

RANDOM = np.random.RandomState(0)
X = RANDOM.normal(size=(30, 2))
Y = np.sin(X[:, 0]) + X[:, 1]
TINY = {"n_rules": 2, "epochs": 2, "random_state": 0}

ESTIMATORS: dict[str, Callable[[], Any]] = {
    "t1": lambda: FLSRegressor(kind="t1", **TINY).fit(X, Y),
    "t1 order 0": lambda: FLSRegressor(kind="t1", order=0, **TINY).fit(X, Y),
    "it2": lambda: FLSRegressor(**TINY).fit(X, Y),
    "it2 h nt": lambda: FLSRegressor(uncertainty="h", type_reduction="nt", **TINY).fit(X, Y),
    "it2 s bmm": lambda: FLSRegressor(uncertainty="s", type_reduction="bmm", **TINY).fit(X, Y),
    "it2 product": lambda: FLSRegressor(tnorm="product", **TINY).fit(X, Y),
    "no scaling": lambda: FLSRegressor(scaling="none", **TINY).fit(X, Y),
    "column target": lambda: FLSRegressor(**TINY).fit(X, Y[:, None]),
    "two targets": lambda: FLSRegressor(**TINY).fit(X, np.column_stack([Y, -Y])),
    "named columns": lambda: FLSRegressor(**TINY).fit(pd.DataFrame(X, columns=["é", "b c"]), Y),
    "text classes": lambda: FLSClassifier(**TINY).fit(X, np.where(Y > 0, "üp", "down")),
    "object classes": lambda: FLSClassifier(**TINY).fit(X, np.where(Y > 0, "up", "down").astype(object)),
    "integer classes": lambda: FLSClassifier(**TINY).fit(X, (Y > 0).astype(int) + (Y > 1)),
    "boolean classes": lambda: FLSClassifier(kind="t1", **TINY).fit(X, Y > 0),
    "whole float classes": lambda: FLSClassifier(**TINY).fit(X, np.where(Y > 0, 1.0, 2.0)),
}


def rows_for(model: Any) -> Any:
    """Rows to predict, named where the model knows names."""
    return pd.DataFrame(X, columns=model.feature_names_in_) if hasattr(model, "feature_names_in_") else X


def round_trip(model: Any, folder: Path) -> Any:
    model.save(folder / "model.fls")
    return load(folder / "model.fls")


def header(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length])
