"""Training: settings, batches, checkpoints, processes and the loop."""

from deepfls.train.checkpoint import Checkpoints
from deepfls.train.config import TrainConfig
from deepfls.train.loop import TrainResult, train

__all__ = ["Checkpoints", "TrainConfig", "TrainResult", "train"]
