"""Training: settings, batches, checkpoints, processes and the loop."""

from deepfls.training.checkpoint import Checkpoints
from deepfls.training.config import TrainConfig
from deepfls.training.loop import TrainResult, train

__all__ = ["Checkpoints", "TrainConfig", "TrainResult", "train"]
