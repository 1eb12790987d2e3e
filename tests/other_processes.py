"""Run by test_processes.py in a process of its own: fits and predictions after fork, in spawn and under joblib.

``python other_processes.py WAY`` prints how far the results of the other processes are from those of this one.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import joblib
import numpy as np
import torch

from deepfls import FLSRegressor

N_JOBS = 2


def rows() -> tuple[Any, Any]:
    """So many rows that torch and the kernels use threads for them."""
    random = np.random.default_rng(0)
    x = random.normal(size=(12_000, 8))
    return x, np.sin(2 * x[:, 0]) + x[:, 1]


def fitted(seed: int) -> FLSRegressor:
    return FLSRegressor(n_rules=20, epochs=1, batch_size=4_096, dtype="float64", random_state=seed).fit(*rows())


def by_autograd(seed: int) -> Any:
    model = FLSRegressor(n_rules=5, epochs=1, batch_size=4_096, loss=lambda y, t: (y - t).square(), random_state=seed)
    return model.fit(*rows()).predict(rows()[0][:100])


def work(model: FLSRegressor, seed: int) -> tuple[Any, Any]:
    """Predictions of a model that was fitted before, and of one that is fitted here."""
    x = rows()[0]
    return model.predict(x), fitted(seed).predict(x)


def forked(model: FLSRegressor) -> list[tuple[Any, Any]]:
    """After work in the parent that leaves it with threads of every library, also those of torch."""
    x = torch.from_numpy(rows()[0])
    torch.exp(x).sum(), x @ x.T[:, :500]
    by_autograd(0)
    reader, writer = multiprocessing.get_context("fork").Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        by_autograd(0)
        writer.send([work(model, 0)])
        os._exit(0)
    found: list[tuple[Any, Any]] = reader.recv() if reader.poll(240) else []
    if not found:
        os.kill(child, 9)
    os.waitpid(child, 0)
    return found


def spawned(model: FLSRegressor) -> list[tuple[Any, Any]]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return [pool.apply(work, (model, 0))]


def threads(model: FLSRegressor) -> list[tuple[Any, Any]]:
    with ThreadPoolExecutor(N_JOBS) as pool:
        return list(pool.map(lambda _: work(model, 0), range(N_JOBS)))


def under_joblib(backend: str, model: FLSRegressor) -> list[tuple[Any, Any]]:
    jobs = (joblib.delayed(work)(model, 0) for _ in range(N_JOBS))
    return list(joblib.Parallel(n_jobs=N_JOBS, backend=backend)(jobs))


def main(way: str) -> None:
    model = fitted(0)
    expected = model.predict(rows()[0])
    ways = {"fork": forked, "spawn": spawned, "threads": threads}
    found = ways[way](model) if way in ways else under_joblib(way, model)
    same = all(np.array_equal(predicted, expected) for predicted, _ in found)
    print(len(found), same, max(float(np.abs(other - expected).max()) for _, other in found))


if __name__ == "__main__":
    warnings.simplefilter("error")
    main(sys.argv[1])
