"""What a run on a source knows before its first step: found in one pass over the rows, the same in every process.

An estimator is ``Any`` here: this file lies below the estimators.
"""

from __future__ import annotations

import contextlib
import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from deepfls.data.scaling import Scaling
from deepfls.data.sources import ParquetSource
from deepfls.data.summary import HELD_OUT_ROWS, Summary
from deepfls.estimators import intervals
from deepfls.estimators.calibration import held_out_rows
from deepfls.training.checkpoint import packed, unpacked
from deepfls.training.distributed import Group
from deepfls.training.progress import ReadingBar

Array = np.ndarray[Any, np.dtype[Any]]

# Rows of the sample that stay with a run to tell how much every rule fires.
_SHOWN_ROWS = 16_384
# Of a start.
_ARRAYS = ("counts", "input_range", "shown", "held_out", "calibrating")


@dataclass(frozen=True)
class Start:
    """What a run knows of its data before the first step: found in one pass, or read from a checkpoint.

    Attributes
    ----------
    counts : ndarray of int
        Training rows in every row group.
    x_scaling, y_scaling : Scaling
    input_range : ndarray, shape (2, features)
    shown : ndarray, shape (rows, features + targets)
        Part of the sample.
    held_out, calibrating : ndarray, shape (rows, columns)
        Rows for early stopping, and for the calibration of intervals, in the units of the data.
    classes : ndarray or None
    mean_weight : float or None
    seed : int
        Of everything that is random in the run.
    held_out_share : float
        Of the rows, for both.
    n_dropped : int
    """

    counts: Array
    x_scaling: Scaling
    y_scaling: Scaling
    input_range: Array
    shown: Array
    held_out: Array
    calibrating: Array
    classes: Array | None
    mean_weight: float | None
    seed: int
    held_out_share: float
    n_dropped: int

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        description = {
            "classes": None if self.classes is None else self.classes.tolist(),
            "mean_weight": self.mean_weight,
            "seed": self.seed,
            "held_out_share": self.held_out_share,
            "n_dropped": self.n_dropped,
        }
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        for name in ("x_scaling", "y_scaling"):
            scaling = getattr(self, name)
            arrays |= {f"{name}.shift": scaling.shift, f"{name}.scale": scaling.scale}
        return description, arrays

    @classmethod
    def from_state(cls, description: dict[str, Any], arrays: dict[str, Array]) -> Start:
        classes = description["classes"]
        kept: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
        return cls(
            **kept,
            x_scaling=Scaling(arrays["x_scaling.shift"], arrays["x_scaling.scale"]),
            y_scaling=Scaling(arrays["y_scaling.shift"], arrays["y_scaling.scale"]),
            classes=None if classes is None else np.array(classes),
            **{name: description[name] for name in ("mean_weight", "seed", "held_out_share", "n_dropped")},
        )


def find_start(estimator: Any, source: ParquetSource, classes: bool, group: Group) -> tuple[Start, Array]:
    """The pass over the data: the start of the run, the same in every process, and the sample."""
    drawn = check_random_state(estimator.random_state).randint(2**31 - 1)
    seed = int(group.same(torch.tensor(int(drawn))))
    calibrating, watching = _shares(estimator, source.files.n_rows)
    share = calibrating + watching
    with group.together():
        summary = summarized(source, classes=classes, seed=seed, held_out_share=share, group=group, bar=estimator.verbose)
    summary = _joined(summary, source, group)
    if summary.n_rows == 0:
        raise ValueError(f"{source.files.label} must have rows to learn from, got none without a missing value.")
    start, sample = _start_of(estimator, source, summary, seed, (share, watching))
    if calibrating > 0:
        intervals.check_held_out(named_copy(estimator, source), start.calibrating[:, : len(source.layout.features)])
    return start, sample


def _shares(estimator: Any, n_rows: int) -> tuple[float, float]:
    """Shares of the rows to hold out for the calibration of intervals and for early stopping; both stay in memory."""
    calibrating = watching = 0.0
    if estimator.coverage is not None and estimator.calibration is not None:
        wanted = held_out_rows(n_rows, estimator.coverage, estimator.calibration_fraction)
        calibrating = min(wanted, HELD_OUT_ROWS) / n_rows
    if estimator.patience is not None:
        watching = min(estimator.validation_fraction * (1.0 - calibrating), HELD_OUT_ROWS / n_rows)
    return calibrating, watching


def _joined(summary: Summary, source: ParquetSource, group: Group) -> Summary:
    """What all processes found, in each of them."""
    if group.size == 1:
        return summary
    # First the keys alone: they tell which rows are in the joint sample, and only those travel.
    keys = [np.frombuffer(content) for content in group.gathered_bytes(summary.sample.keys.tobytes())]
    others = [part for rank, part in enumerate(keys) if rank != group.rank]
    summary.sample.trim(np.concatenate(others))
    joined = Summary.empty(source.n_groups, len(summary.lowest), len(summary.y.mean), weighted=summary.weighted)
    for content in group.gathered_bytes(packed(*summary.state())):
        joined.merge_state(*unpacked(content, Path("summary of a process")))
    return joined


def summarized(
    source: ParquetSource, *, classes: bool, seed: int, held_out_share: float, group: Group, bar: int = 0
) -> Summary:
    """What this process's row groups tell: every ``group.size``-th of them."""
    n_targets = 1 if classes else len(source.layout.targets)
    weighted = source.weight is not None
    summary = Summary.empty(source.n_groups, len(source.layout.features), n_targets, weighted=weighted)
    mine = range(group.rank, source.n_groups, group.size)
    with contextlib.ExitStack() as stack:
        shown = None
        if bar and group.leads:
            shown = stack.enter_context(ReadingBar(sum(source.files.groups[number].n_rows for number in mine)))
        for number, rows in source.all_rows(mine, classes=classes):
            summary.update(number, rows, seed=seed, held_out_share=held_out_share)
            if shown is not None:
                shown.step(source.files.groups[number].n_rows)
    return summary


def _start_of(
    estimator: Any, source: ParquetSource, summary: Summary, seed: int, shares: tuple[float, float]
) -> tuple[Start, Array]:
    """The start of a run, and the sample, whose targets are numbers or places among the sorted classes.

    ``shares`` of the rows: held out, and of these for early stopping.
    """
    n_features = len(source.layout.features)
    sample = summary.sample.rows.copy()
    held_out, calibrating = summary.split_held_out(seed, shares[1])
    classes = None
    if summary.labels:
        classes, place = np.unique(np.array(summary.labels), return_inverse=True)
        for rows in (sample, held_out, calibrating):
            rows[:, n_features] = place[rows[:, n_features].astype(np.int64)]
    standard = estimator.scaling == "standard"
    x_scaling = Scaling(summary.x.mean, summary.x.scale) if standard else Scaling.identity(n_features)
    y_scaling = Scaling.identity(len(summary.y.mean))
    if standard and classes is None:
        y_scaling = Scaling(summary.y.mean, summary.y.scale)
    if estimator._continues:
        x_scaling, y_scaling = estimator.x_scaling_, estimator.y_scaling_
    start = Start(
        summary.counts,
        x_scaling,
        y_scaling,
        np.stack([summary.lowest, summary.highest]),
        sample[:_SHOWN_ROWS, : n_features + len(summary.y.mean)],
        held_out,
        calibrating,
        classes,
        summary.x.count / summary.n_rows if summary.weighted else None,
        seed,
        shares[0],
        summary.n_dropped,
    )
    return start, sample


def named_copy(estimator: Any, source: ParquetSource) -> Any:
    """A copy of the estimator that knows the columns of the source by name; the estimator itself may be that of another."""
    other = copy.copy(estimator)
    other.feature_names_in_ = np.array(source.layout.input_names, dtype=object)
    return other
