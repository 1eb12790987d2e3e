"""Processor time of training steps with the deepfls that Python finds, of this version or an earlier one, as JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch

from deepfls.nn import IT2FLS, T1FLS

try:
    from deepfls.training import TrainConfig
    from deepfls.training.loop import train
    from deepfls.training.steps import Rows
except ImportError:  # up to 0.1.0
    from deepfls.train import TrainConfig
    from deepfls.train.loop import Rows, train


def microseconds(kind: str, batch: int, n_features: int, n_rules: int, options: dict[str, Any], n_windows: int) -> float:
    """The fastest of several windows of steps, with the default optimiser and the decay of the default settings."""
    torch.manual_seed(0)
    options = {"tnorm": "htsk", **options}
    loss, coverage, n_outputs = options.pop("loss", "l2"), options.pop("coverage", None), options.pop("n_outputs", 1)
    dtype = getattr(torch, options.pop("dtype", "float32"))
    system = (T1FLS if kind == "t1" else IT2FLS)(n_features, n_outputs, n_rules=n_rules, dtype=dtype, **options)
    with torch.no_grad():  # spread out, as after training
        system.consequents.raw_intercepts.normal_()
    x = torch.randn(8 * batch, n_features, dtype=dtype)
    target = (x[:, :1] > 0).to(dtype) if loss == "cross-entropy" else torch.sin(x[:, :1]).repeat(1, n_outputs)
    rows = getattr(Rows, "of", Rows)(x, target)
    epochs = max(1, 400 // 8) if batch < 1000 else 1
    config = TrainConfig(
        epochs=epochs, batch_size=batch, weight_decay=0.1, loss=loss, coverage=coverage, learning_rate=1e-4
    )
    best = float("inf")
    for window in range(n_windows + 1):
        began = time.process_time()
        train(system, rows, config, generator=torch.Generator().manual_seed(0))
        if window:  # the first one compiles or loads machine code
            best = min(best, (time.process_time() - began) / (8 * epochs))
    return 1e6 * best


if __name__ == "__main__":
    torch.set_num_threads(1)
    cases, n_windows = json.loads(sys.argv[1]), int(sys.argv[2])
    print(json.dumps([microseconds(*case, n_windows) for case in cases]))
