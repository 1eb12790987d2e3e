"""Training: settings, batches, checkpoints, processes and the loop."""

from deepfls.train.config import TrainConfig
from deepfls.train.loop import TrainResult, train

__all__ = ["TrainConfig", "TrainResult", "train"]
