"""The fit pipeline: settings, source, scaling, starting point, training, calibration, result.

Arrays and tables on disk take the same way. A fit gets settings and a source and gives a result, which an estimator adopts;
it does not see the estimator.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from deepfls._checks.samples import Array
from deepfls._checks.values import check_option
from deepfls.data.arrays import ArraySource, DataPlan, Samples, Source, TrainingData
from deepfls.data.scaling import Scaling
from deepfls.estimators import intervals
from deepfls.estimators.calibration import Calibration
from deepfls.estimators.choice import Choice, System, Task, choose
from deepfls.estimators.importances import feature_importances
from deepfls.estimators.odd_data import fewer_rules, warn_of_odd_data
from deepfls.estimators.prediction import ScaledSystem
from deepfls.estimators.run import check_device, progress_bar, run_facts, stream_batches
from deepfls.estimators.settings import (
    DTYPES,
    MISSING,
    Settings,
    Structure,
    check_settings,
    choice_paths,
    is_chosen,
    structure_of,
    train_config,
)
from deepfls.functional.constants import SMALLEST_ALPHA
from deepfls.nn.general import GT2FLS
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training import recipe
from deepfls.training.batches import Rows
from deepfls.training.checkpoint import CheckpointFolder, Checkpoints
from deepfls.training.config import TrainConfig
from deepfls.training.distributed import Group, own_device, process_group
from deepfls.training.loop import train
from deepfls.training.progress import ReadingBar
from deepfls.training.start import initialize_system

if TYPE_CHECKING:
    pass

# Rows, evenly spaced, on which the shares of the rules are measured.
_SHARE_ROWS = 8_192


@dataclass(frozen=True)
class FitResult:
    """What a fit gives; the docstrings of the estimators explain the attributes."""

    structure: Structure
    model: ScaledSystem  # in float64
    history: list[dict[str, float]]
    stopped_by: str
    classes: Array | None = None
    input_range: Array | None = None
    rule_shares: Array | None = None
    feature_importances: Array | None = None
    initial_sets: Array | None = None  # None for a table on disk
    calibration: Calibration | None = None
    chosen: dict[str, Any] | None = None
    part: FitResult | None = None  # with a refit, the system that learned without the calibration rows, and was calibrated


def fit(
    settings: Settings,
    source: Source,
    *,
    earlier: FitResult | None = None,
    checkpoints: Checkpoints | None = None,
    watched: Samples | None = None,
) -> FitResult:
    """Fit a system to a source: arrays, or a table on disk.

    ``earlier`` is the result from which a warm start continues; ``checkpoints`` state how a run on a table on disk stores
    its state. The loss of the rows ``watched`` is measured after every epoch, and with ``patience`` stops the training.
    """
    if isinstance(source, ArraySource):
        warn_of_odd_data(source)
    if earlier is not None and isinstance(source, ArraySource):
        _check_continued(
            earlier, _structure(settings, source.n_features, source.n_outputs, source.n_rows, earlier), source.classes
        )
    check_settings(settings)
    intervals.check_interval_settings(settings, streamed=source.streamed, continued=earlier is not None)
    columns = intervals.group_columns(settings, source.columns)
    plan = DataPlan(
        classes=settings._classifies,
        scaled=settings.scaling == "standard",
        clips=settings.outliers == "clip",
        validation_fraction=None if settings.patience is None or watched is not None else settings.validation_fraction,
    )
    plan = intervals.with_calibration(plan, settings, columns)
    if source.streamed or not intervals.is_refitted(settings, source.n_rows):
        return _fit_once(settings, source, plan, earlier, checkpoints, watched=watched)[0]
    # Two systems: one learns without the calibration rows and gives the intervals, the other one learns from all rows.
    # Both draw the same random numbers, so a generator is copied for the first.
    first = replace(settings, random_state=copy.deepcopy(settings.random_state))
    part, choice = _fit_once(
        first, source, plan, None if earlier is None else earlier.part, None, watched=watched, tells=False
    )
    if part.stopped_by == "interrupt":
        return part
    result, _ = _fit_once(settings, source, replace(plan, calibration_rows=None), earlier, None, choice, watched)
    return replace(result, calibration=part.calibration, part=part)


@dataclass(frozen=True)
class _Run:
    """What the steps of one fit share."""

    settings: Settings
    source: Source
    earlier: FitResult | None
    group: Group
    device: torch.device
    folder: CheckpointFolder | None
    tells: bool = True  # whether warnings about the data are given

    def rows(self, samples: Samples, data: TrainingData) -> Rows:
        """Samples as tensors in scaled units."""

        def tensor(values: Array) -> torch.Tensor:
            return torch.tensor(values, dtype=DTYPES[self.settings.dtype], device=self.device)

        weight = None if samples.weight is None else tensor(samples.weight)
        return Rows.of(tensor(data.x_scaling.apply(samples.x)), tensor(data.y_scaling.apply(samples.y)), weight)


def _structure(settings: Settings, n_features: int, n_outputs: int, n_rows: int, earlier: FitResult | None) -> Structure:
    """The structure of the system; ``n_rules="auto"`` is the number of an earlier fit, or that before a choice."""
    if settings.n_rules == "auto":
        settings = replace(settings, n_rules=recipe.usual_rules(n_rows) if earlier is None else earlier.structure.n_rules)
    return structure_of(settings, n_features, n_outputs)


def _fit_once(
    settings: Settings,
    source: Source,
    plan: DataPlan,
    earlier: FitResult | None,
    checkpoints: Checkpoints | None,
    choice: Choice | None = None,
    watched: Samples | None = None,
    *,
    tells: bool = True,
) -> tuple[FitResult, Choice | None]:
    """One system, from the rows to its calibration, and what was chosen for it unless it was given."""
    random = check_random_state(settings.random_state)
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(process_group()) if source.streamed else Group()
        device = check_device(settings.device)
        folder = None
        if checkpoints is not None:
            folder = stack.enter_context(checkpoints.opened(run_facts(settings, source), group))
        run = _Run(settings, source, earlier, group, own_device(device) if group.size > 1 else device, folder, tells)
        data = _data_of(run, plan, random)
        if watched is not None:
            data = replace(data, validation=watched)
        structure = _structure(settings, source.n_features, data.n_outputs, data.n_rows, earlier)
        if isinstance(source, ArraySource):
            structure = replace(structure, n_rules=fewer_rules(structure.n_rules, data.n_rows, tells=tells))
        if earlier is not None:
            _check_continued(earlier, structure, data.classes)
        held_out = data.validation
        n_held_out = 0 if held_out is None or watched is not None else held_out.n_rows
        config = train_config(settings, data.n_rows + n_held_out, streamed=source.streamed)
        rows = None if data.sample is None else run.rows(data.sample, data)
        task = Task.of(settings, data.classes)
        is_new = choice is None and rows is not None and earlier is None and not source.streamed
        if is_new and is_chosen(settings):
            assert rows is not None
            choice = _chosen(run, structure, data, rows, config, task, random)
        if choice is not None:
            structure, config = replace(structure, n_rules=choice.n_rules), choice.config(config)
        stream = None
        if data.stream is not None:
            # Opened before the starting point is computed, so that the table is read meanwhile.
            stream = stack.enter_context(
                stream_batches(source, data, config, run.device, DTYPES[settings.dtype], group, folder)
            )
            random = np.random.RandomState(data.stream.seed)
            generator = torch.Generator().manual_seed(data.stream.seed)
            if rows is not None:
                stream.read_ahead(generator)
        system = _first_system(run, structure, data, rows, random)
        if stream is None:
            initial_sets = _sets_of(system, data.x_scaling) if earlier is None else earlier.initial_sets
            generator = torch.Generator().manual_seed(int(random.randint(2**31 - 1)))
        else:
            initial_sets = None
            if folder is not None and rows is not None:
                with group.together():
                    folder.begin(*data.state())
            data, rows = replace(data, sample=None), None  # the sample is large and no longer needed
        batches = rows if stream is None else stream
        assert batches is not None
        validation = None
        if held_out is not None:
            validation = run.rows(held_out.take(slice(group.rank, None, group.size)), data)
        with progress_bar(settings, data, config, group, folder) as bar:
            trained = train(
                system,
                batches,
                config,
                generator=generator,
                validation=validation,
                keeps_best=settings.patience is not None,
                progress=bar,
                group=group,
                checkpoints=folder,
            )
        # Trained in `dtype`, kept in float64: predictions then do not depend on how rows are divided into batches.
        system.to(dtype=torch.float64).requires_grad_(False)
        if choice is not None and rows is not None:
            choice.mix(system, rows, task)
        model = ScaledSystem(system, data.x_scaling, data.y_scaling)
        shares = model.rule_weights(data.measured.x[:: -(-data.measured.n_rows // _SHARE_ROWS)])
        importances = feature_importances(model, data.measured.x, classifies=data.classes is not None)
        importances = source.columns.summed(importances)
        calibration = intervals.calibrated(model, settings, plan.group_columns, data.measured, data.calibration)
    if group.leads and data.stream is not None and data.stream.n_dropped:
        warnings.warn(f"{left_out_rows(data.stream.n_dropped)}.", stacklevel=5)
    before = [] if earlier is None else earlier.history
    first_epoch = before[-1]["epoch"] if before else 0.0
    result = FitResult(
        structure=structure,
        model=model,
        history=[*before, *({**row, "epoch": first_epoch + row["epoch"]} for row in trained.history)],
        stopped_by=trained.stopped_by,
        classes=data.classes,
        input_range=data.input_range,
        rule_shares=torch.from_numpy(shares).mean(dim=0).numpy(),
        feature_importances=importances,
        initial_sets=initial_sets,
        calibration=calibration,
        chosen=None if choice is None else choice.description(config),
    )
    return result, choice


def _chosen(
    run: _Run,
    structure: Structure,
    data: TrainingData,
    rows: Rows,
    config: TrainConfig,
    task: Task,
    random: np.random.RandomState,
) -> Choice | None:
    """The choice of :func:`deepfls.estimators.choice.choose` for these rows."""
    seed = int(random.randint(2**31 - 1))

    def trained(part: Rows, n_rules: int, config: TrainConfig, note: Callable[[int, System], None]) -> None:
        own = np.random.RandomState(seed)
        system = _first_system(run, replace(structure, n_rules=n_rules), data, part, own)
        generator = torch.Generator().manual_seed(int(own.randint(2**31 - 1)))
        result = train(system, part, config, generator=generator, watch=lambda epoch: note(epoch, system))
        if result.stopped_by == "interrupt":
            raise KeyboardInterrupt  # nothing is trained yet that could be kept

    numbers = recipe.rule_numbers(len(rows)) if run.settings.n_rules == "auto" else (structure.n_rules,)
    paths = choice_paths(run.settings, config)
    return choose(rows, config, task, trained, np.random.RandomState(seed), rule_numbers=numbers, paths=paths)


def _data_of(run: _Run, plan: DataPlan, random: np.random.RandomState) -> TrainingData:
    """The data of a fit, from the source or from the checkpoint of a run that continues."""
    if run.folder is not None and run.folder.start is not None:
        return TrainingData.from_state(*run.folder.start)
    progress = ReadingBar if run.settings.verbose and run.group.leads else None
    # A warm start keeps the scaling of the earlier fit.
    plan = replace(plan, scaled=plan.scaled and run.earlier is None)
    data = run.source.prepared(plan, random, run.group, progress)
    if run.tells and run.group.leads and data.note:
        warnings.warn(data.note, stacklevel=6)
    if data.has_missing and check_option("missing", run.settings.missing, MISSING) == "error":
        raise ValueError("missing must be 'auto' for a table with missing values, got 'error'.")
    if run.earlier is None:
        return data
    return replace(data, x_scaling=run.earlier.model.x_scaling, y_scaling=run.earlier.model.y_scaling)


def left_out_rows(count: int) -> str:
    """How many rows have no target and are left out."""
    return f"{count:,} row{'s' if count != 1 else ''} without a target {'are' if count != 1 else 'is'} left out"


def _check_continued(earlier: FitResult, structure: Structure, classes: Array | None) -> None:
    """Require that a warm start continues the system it finds."""
    before, now = (dataclasses.asdict(part) for part in (earlier.structure, structure))
    if classes is not None and earlier.classes is not None:
        before, now = {"classes": earlier.classes.tolist(), **before}, {"classes": classes.tolist(), **now}
    for name, value in now.items():
        if before[name] != value:
            raise ValueError(
                f"{name} must stay {before[name]!r} with warm_start=True, got {value!r}; warm_start=False starts anew."
            )


def _first_system(
    run: _Run, structure: Structure, data: TrainingData, rows: Rows | None, random: np.random.RandomState
) -> T1FLS | IT2FLS:
    """The system before training: at its starting point, or that of an earlier fit; the same in every process.

    Without rows its values do not matter, because a checkpoint replaces them.
    """
    if rows is not None and run.earlier is not None:
        system = copy.deepcopy(run.earlier.model.system).requires_grad_(True)
    else:
        system = structure.new_system()
    system.to(device=run.device, dtype=DTYPES[run.settings.dtype])
    system.missing = data.has_missing
    if rows is None or run.earlier is not None:
        return system
    targets = rows.target
    if data.classes is not None:
        # Logits of +2 for the class and -2 / (classes - 1) for the others.
        n = len(data.classes)
        logits = 2.0 * (np.eye(n) * n - 1.0) / max(n - 1, 1)
        targets = torch.from_numpy(logits).to(rows.x)[rows.target[:, 0].long()]
    settings, group = run.settings, run.group
    width: Any = recipe.width(data.n_rows) if settings.width == "auto" else settings.width
    # Every process adds the normal equations of its part of the rows.
    first, end = (len(rows) * place // group.size for place in (group.rank, group.rank + 1))
    initialize_system(
        system,
        rows.x,
        targets,
        centers=settings.centers,
        consequents=settings.consequents,
        width=width,
        ridge=settings.ridge,
        sample_weight=rows.weight,
        random_state=random,
        part=slice(first, end),
        total=group.total if group.size > 1 else None,
    )
    for parameter in system.parameters():
        group.same(parameter.data)
    return system


def _sets_of(system: T1FLS | IT2FLS, scaling: Scaling) -> Array:
    """Centers, lower widths, upper widths and heights of the sets in the units of the data, (4, rules, features)."""
    if isinstance(system, GT2FLS):
        system = system.plane_system(SMALLEST_ALPHA)
    lower, upper = (system.lower_sigmas, system.upper_sigmas) if isinstance(system, IT2FLS) else (system.sigmas,) * 2
    heights = system.heights if isinstance(system, IT2FLS) else torch.ones_like(system.centers)
    centers, lower, upper, heights = (
        value.detach().cpu().double().numpy() for value in (system.centers, lower, upper, heights)
    )
    return np.stack([scaling.invert(centers), lower * scaling.scale, upper * scaling.scale, heights])
