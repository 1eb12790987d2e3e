"""One fit of a model that is not ours, in an environment of its own: MODEL DATA RESULT SEED.

DATA is an npz file with x, y and x_test; with classes, y holds their places. RESULT gets the predictions (probabilities of
classes) and the seconds of the fit. All models have their defaults, and inputs in z-scores where scales matter.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

MODELS = ("linear", "MLP", "HistGB", "XGBoost", "LightGBM", "CatBoost", "EBM")


def new_model(name: str, *, classifies: bool, seed: int) -> Any:
    """A model of that name; imports are here, because an environment need not have all packages."""
    if name in ("linear", "MLP", "HistGB"):
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
        from sklearn.linear_model import LinearRegression, LogisticRegression
        from sklearn.neural_network import MLPClassifier, MLPRegressor

        if name == "HistGB":
            return (HistGradientBoostingClassifier if classifies else HistGradientBoostingRegressor)(random_state=seed)
        if name == "linear":
            return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000) if classifies else LinearRegression())
        made = (MLPClassifier if classifies else MLPRegressor)(random_state=seed, max_iter=500)
        return make_pipeline(StandardScaler(), made)
    if name == "XGBoost":
        import xgboost

        return (xgboost.XGBClassifier if classifies else xgboost.XGBRegressor)(random_state=seed, n_jobs=1)
    if name == "LightGBM":
        import lightgbm

        made = lightgbm.LGBMClassifier if classifies else lightgbm.LGBMRegressor
        return made(random_state=seed, n_jobs=1, verbose=-1)
    if name == "CatBoost":
        import catboost

        made = catboost.CatBoostClassifier if classifies else catboost.CatBoostRegressor
        return made(random_seed=seed, thread_count=1, verbose=False, allow_writing_files=False)
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    return (ExplainableBoostingClassifier if classifies else ExplainableBoostingRegressor)(random_state=seed, n_jobs=1)


def main(name: str, data: str, result: str, seed: str) -> None:
    with np.load(data) as given:
        x, y, x_test, classifies = given["x"], given["y"], given["x_test"], bool(given["classifies"])
    model = new_model(name, classifies=classifies, seed=int(seed))
    # MLPs and CatBoost learn small targets badly, so targets are in z-scores for all.
    shift, scale = (0.0, 1.0) if classifies else (y.mean(), y.std())
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, y if classifies else (y - shift) / scale)
    seconds = time.perf_counter() - began
    found = model.predict_proba(x_test) if classifies else model.predict(x_test) * scale + shift
    np.savez(result, predicted=found, seconds=seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
