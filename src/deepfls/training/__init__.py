"""Training on one flat vector of parameters: settings, batches, loop, checkpoints, processes, the starting point.

May import every folder up to ``data``.
"""

from deepfls.training.checkpoint import Checkpoints
from deepfls.training.loop import TrainResult, train
from deepfls.training.recipe import TrainConfig

__all__ = ["Checkpoints", "TrainConfig", "TrainResult", "train"]
