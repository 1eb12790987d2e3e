"""What runs in the workers of a Ray cluster: a fit, whose checkpoints Ray stores, and predictions of batches."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from deepfls.data.tables import DataTable
from deepfls.estimators.table_model import TableModel, layout_of
from deepfls.training.checkpoint import CheckpointFolder, Checkpoints
from deepfls.training.distributed import Group

if TYPE_CHECKING:
    import pyarrow as pa

    from deepfls.estimators import FLSClassifier, FLSRegressor

# Steps between two looks of all workers at the first one's clock, where checkpoints go by time.
_CLOCK_STEPS = 20


def trained(work: dict[str, Any]) -> FLSRegressor | FLSClassifier | Exception | None:
    """One worker of a fit; the first one returns the fitted estimator, or the error that ends all of them."""
    from ray import train

    logging.getLogger("ray.train").setLevel(logging.WARNING)  # of this worker: every report would be logged twice
    context = train.get_context()
    leads, size = context.get_world_rank() == 0, context.get_world_size()
    estimator = work["estimator"].set_params(verbose=0)
    try:
        estimator.fit(work["source"], checkpoints=work["checkpoints"])
    except (ValueError, TypeError) as error:
        # An error that all workers know of ends the run. Ray takes any other one for the loss of a worker.
        if size > 1 and not hasattr(error, "reported_by_leader"):
            raise
        return error.with_traceback(None) if leads else None
    return estimator if leads else None


class ReportedCheckpoints(Checkpoints):
    """Checkpoints in a temporary folder of the first worker, each reported to Ray Train, which stores it."""

    @contextlib.contextmanager
    def opened(self, settings: Mapping[str, Any], group: Group) -> Iterator[CheckpointFolder]:
        from ray import train

        with tempfile.TemporaryDirectory(prefix="deepfls-") as folder:
            earlier = train.get_checkpoint()
            if earlier is not None and group.leads:
                earlier.to_directory(folder)
            found = ReportedFolder(Checkpoints(folder, self.every, resume=True), settings, group)
            with group.together():
                if group.leads:
                    found.look()
            found.share()
            yield found


class ReportedFolder(CheckpointFolder):
    """A folder of checkpoints that reports every new one to Ray Train."""

    def due(self, n_steps: int) -> bool:
        if self._interval.seconds is None or n_steps % _CLOCK_STEPS:
            return self._interval.seconds is None and super().due(n_steps)
        # Reports are made by all workers together, so one clock decides.
        late = torch.tensor([float(time.monotonic() - self._written >= self._interval.seconds)])
        return bool(self._group.same(late))

    def keep(self, state: Any) -> None:
        from ray import train

        super().keep(state)
        self._written = time.monotonic()
        about = state[0]
        loss = about["history"][-1]["loss"] if about["history"] else None
        metrics = {"step": about["n_steps"], "epoch": about["epoch"], "loss": loss if isinstance(loss, float) else None}
        train.report(metrics, checkpoint=train.Checkpoint.from_directory(str(self.path)) if self._group.leads else None)


class BatchPredictor:
    """Predictions for batches of a dataset; Ray makes one in every worker."""

    def __init__(self, estimator: FLSRegressor | FLSClassifier, keep: Sequence[str] | None, how: Mapping[str, Any]) -> None:
        self._model = TableModel(estimator, layout_of(estimator))
        self._keep = keep
        self._how = dict(how)  # the other arguments of TableModel.predicted

    def __call__(self, batch: pa.Table) -> pa.Table:
        table = DataTable(batch, "the dataset", (Path(),), (batch.num_rows,))
        made = self._model.predicted(table, keep=self._keep or (), **self._how)
        if self._keep is not None:
            return made
        for place, column in enumerate(name for name in batch.schema.names if name not in made.schema.names):
            made = made.add_column(place, batch.schema.field(column), batch.column(column))
        return made
