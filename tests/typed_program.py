"""A program as users write it. `make lint` checks its types, and `make package` does so against the installed wheel."""

from __future__ import annotations

import numpy as np
import torch

from deepfls import FLSClassifier, FLSRegressor, load
from deepfls.functional import karnik_mendel
from deepfls.nn import IT2FLS, T1FLS


def learned(x: np.ndarray, y: np.ndarray) -> FLSRegressor:
    model = FLSRegressor(kind="it2", n_rules=5, coverage=0.9, random_state=0)
    return model.fit(x, y)


def lines_of(model: FLSRegressor | FLSClassifier) -> list[str]:
    text: str = model.rules_as_text(top=1)
    return text.splitlines()


def widths(model: FLSRegressor, x: np.ndarray) -> np.ndarray:
    lower, upper = model.predict_interval(x, coverage=0.8)
    return upper - lower


def again(path: str) -> FLSRegressor | FLSClassifier:
    return load(path)


def ends(lower: torch.Tensor, upper: torch.Tensor, consequents: torch.Tensor) -> torch.Tensor:
    reduced = karnik_mendel(lower, upper, consequents, algorithm="auto")
    return reduced.y_right - reduced.y_left


def systems() -> list[torch.nn.Module]:
    return [T1FLS(n_features=2, n_rules=3), IT2FLS(n_features=2, n_rules=3)]
