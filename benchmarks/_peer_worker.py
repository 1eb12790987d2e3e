"""Fits of one package on request; ``peers.py`` runs this script in an interpreter that need not have deepfls.

    python _peer_worker.py NAME DATA.npz N_RULES EPOCHS BATCH

It prints "ready", then for every line on standard input the processor seconds of one fit, on one thread.
"""

from __future__ import annotations

import functools
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Fit = Callable[[Array, Array], object]

LEARNING_RATE = 0.01


def pytsk(n_rules: int, epochs: int, batch: int) -> Fit:
    from pytsk.gradient_descent import TSK, AntecedentGMF, Wrapper, antecedent_init_center
    from torch import nn, optim

    def fit(x: Array, y: Array) -> object:
        centers = antecedent_init_center(x, n_rule=n_rules, n_init=1)
        sets = AntecedentGMF(in_dim=x.shape[1], n_rule=n_rules, high_dim=True, init_center=centers)
        model = TSK(in_dim=x.shape[1], out_dim=1, n_rule=n_rules, antecedent=sets, order=1)
        wrapper = Wrapper(
            model,
            optimizer=optim.Adam(model.parameters(), lr=LEARNING_RATE),
            criterion=nn.MSELoss(),
            batch_size=batch,
            epochs=epochs,
            label_type="r",
            drop_last=False,
        )
        return wrapper.fit(x, y[:, None])

    return fit


def highfis(n_rules: int, epochs: int, batch: int) -> Fit:
    from highfis import TSKRegressor

    # eval_metrics_every=0: any other value adds a pass over the rows to epochs.
    model = TSKRegressor(
        n_mfs=n_rules,
        mf_init="kmeans",
        rule_base="coco",
        epochs=epochs,
        learning_rate=LEARNING_RATE,
        batch_size=batch,
        patience=None,
        weight_decay=0.0,
        eval_metrics_every=0,
        random_state=0,
    )
    return model.fit


def endgame(n_rules: int, epochs: int, batch: int) -> Fit:
    from endgame.fuzzy.type2.it2_anfis import IT2ANFISRegressor

    # One set for every rule and input, as the others have; it starts on a grid instead of k-means.
    model = IT2ANFISRegressor(
        n_rules=n_rules, n_mfs=n_rules, n_epochs=epochs, lr=LEARNING_RATE, batch_size=batch, random_state=0
    )
    return model.fit


def ours(kind: str, n_rules: int, epochs: int, batch: int) -> Fit:
    from deepfls import FLSRegressor

    # The same work as the peers: k-means, random consequents, a constant rate, no decay.
    model = FLSRegressor(
        kind=kind,
        n_rules=n_rules,
        consequents="random",
        epochs=epochs,
        learning_rate=LEARNING_RATE,
        schedule="constant",
        weight_decay=0.0,
        batch_size=batch,
        random_state=0,
    )
    return model.fit


FITS: dict[str, Callable[[int, int, int], Fit]] = {
    "ours T1": functools.partial(ours, "t1"),
    "ours IT2": functools.partial(ours, "it2"),
    "pytsk": pytsk,
    "highfis": highfis,
    "endgame": endgame,
}


def main(name: str, data: str, n_rules: str, epochs: str, batch: str) -> None:
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    with np.load(data) as arrays:
        x, y = arrays["x"], arrays["y"]
    # Packages print and warn; standard output carries only the seconds.
    answers, sys.stdout = sys.stdout, sys.stderr
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # This fit compiles kernels and imports modules before the timed ones.
        FITS[name](min(int(n_rules), 5), 1, 64)(x[:128], y[:128])
        fit = FITS[name](int(n_rules), int(epochs), int(batch))
        print("ready", file=answers, flush=True)
        for _ in sys.stdin:
            began = time.process_time()
            fit(x, y)
            print(time.process_time() - began, file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
