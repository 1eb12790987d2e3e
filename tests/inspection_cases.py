"""Small systems of every kind on data far from zero and of very different scales, and hostile names."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from deepfls import FLSClassifier, FLSRegressor

RNG = np.random.default_rng(0)
# Far from zero and of different scales, so that an error in the folded scaling shows.
X = RNG.normal([1e3, -4.0, 0.02, 5.0], [30.0, 2.0, 1e-3, 1.0], (150, 4))
Y = np.stack([500 + 0.3 * X[:, 0] + 9 * np.sin(X[:, 1]), 1e-3 * X[:, 2] * X[:, 3]], axis=1)
LABELS = np.where(X[:, 1] > -3.0, "warm", np.where(X[:, 1] > -5.0, "mild", "cold"))
NEW = RNG.normal(X.mean(axis=0), 2 * X.std(axis=0), (60, 4))

SYSTEMS: dict[str, dict[str, Any]] = {
    "t1": {"kind": "t1"},
    "t1-constant": {"kind": "t1", "order": 0, "tnorm": "product"},
    "km": {"kind": "it2"},
    "nt": {"kind": "it2", "type_reduction": "nt"},
    "bmm": {"kind": "it2", "type_reduction": "bmm"},
    "sm": {"kind": "it2", "type_reduction": "sm"},
    "heights": {"kind": "it2", "uncertainty": "h", "tnorm": "product"},
    "widths": {"kind": "it2", "uncertainty": "s", "scaling": "none", "learning_rate": 1e-4},
    "one-rule": {"kind": "it2", "n_rules": 1},
    "gt2": {"kind": "gt2"},
    "gt2-shared": {"kind": "gt2", "shared_spread": True, "tnorm": "product", "n_planes": 2},
}

HOSTILE = [
    "<script>document.documentElement.dataset.hit=1</script>",
    '"><img src=x onerror="document.documentElement.dataset.hit=1">',
    "'quoted' & \"double\"",
    "😀 emoji \u202e right to left",
    "x" * 200,
    "</script><b>bold</b>",
    "a\nb\tc",
    "$x_1$ | `code` *star* [link](javascript:1)",
]


@cache
def regressor(name: str, n_outputs: int = 2) -> FLSRegressor:
    settings = {"n_rules": 5, "epochs": 6, "random_state": 0, **SYSTEMS[name]}
    return FLSRegressor(**settings).fit(X, Y if n_outputs == 2 else Y[:, 0])


@cache
def classifier(name: str = "km") -> FLSClassifier:
    return FLSClassifier(**{"n_rules": 4, "epochs": 6, "random_state": 0, **SYSTEMS[name]}).fit(X, LABELS)


@cache
def hostile_regressor() -> FLSRegressor:
    """Hostile names of inputs and of targets."""
    x = RNG.normal(size=(60, len(HOSTILE)))
    frame = pd.DataFrame(x, columns=HOSTILE)
    target = pd.DataFrame({"<i>y</i>": x[:, 0], "</script>": x[:, 1]})
    return FLSRegressor(n_rules=3, epochs=2, random_state=0).fit(frame, target)
