"""The fit pipeline: settings, source, scaling, starting point, training, calibration, result.

Arrays and tables on disk take the same way. A fit gets settings and a source and gives a result, which an estimator adopts;
it does not see the estimator.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from sklearn.utils import check_random_state

from deepfls._checks.arguments import check_option, counted
from deepfls._checks.values import Array, evenly_spaced
from deepfls.data.arrays import ArraySource, DataPlan, Samples, Source, StreamPlan, TrainingData
from deepfls.estimators import intervals
from deepfls.estimators.calibration import Calibration
from deepfls.estimators.choice import Choice, System, Task, is_chosen
from deepfls.estimators.prediction import ScaledSystem, feature_importances
from deepfls.estimators.settings import (
    DTYPES,
    MISSING,
    Settings,
    check_settings,
    is_plain,
    plain_value,
    settings_by_name,
    train_config,
)
from deepfls.estimators.side_by_side import check_systems, trained_systems
from deepfls.estimators.structure import (
    Structure,
    frozen_masks,
    joined_range,
    restore_frozen,
    set_range,
    structure_for,
)
from deepfls.estimators.system_runs import (
    Run,
    chosen_settings,
    first_system,
    kept_parts,
    learns_means,
    member_corrector,
    member_trainer,
)
from deepfls.training.batches import Rows
from deepfls.training.checkpoint import Checkpoints
from deepfls.training.distributed import Group, own_device, process_group
from deepfls.training.loop import TrainResult, train
from deepfls.training.progress import ReadingBar, TrainingBar
from deepfls.training.recipe import TrainConfig

if TYPE_CHECKING:
    from deepfls.data.sources import ParquetSource
    from deepfls.training.stream_batches import StreamBatches

# Rows, evenly spaced, on which the shares of the rules are measured.
_SHARE_ROWS = 2_048
# Settings that do not change what is learned, so a run may continue with other values of them.
_FREE = ("device", "verbose", "warm_start", "random_state")


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
    familiar_firing: Array | None = None  # (systems,)
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
        source.warn_of_odd_data()
    if earlier is not None and isinstance(source, ArraySource):
        expected = structure_for(settings, source.columns, source.n_outputs, source.n_rows, earlier.structure)
        _check_continued(earlier, expected, source.classes)
    check_settings(settings)
    check_systems(settings, source, None if earlier is None else len(earlier.model.systems))
    plan = DataPlan(
        classes=settings._classifies,
        scaled=settings.scaling == "standard",
        clips=settings.outliers == "clip",
        validation_fraction=None if settings.patience is None or watched is not None else settings.validation_fraction,
    )
    if settings.coverage is not None or settings.calibration == "alpha":
        settings = intervals.with_auto_calibration(settings)
        intervals.check_interval_settings(settings, streamed=source.streamed, continued=earlier is not None)
        plan = intervals.with_calibration(plan, settings, intervals.group_columns(settings, source.columns))
    if plan.calibration_rows is None or source.streamed or not intervals.is_refitted(settings, source.n_rows):
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
class _Trained:
    """Trained systems with what their results need; the lists are empty for a table on disk."""

    systems: list[System]
    rows: list[Rows]  # that each learned from
    started: list[System | None]  # each before training, where parts of it are frozen
    result: TrainResult
    initial_sets: Array | None
    data: TrainingData
    structure: Structure
    config: TrainConfig
    choice: Choice | None


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
    # Without a seed, numbers of its own: NumPy's generator of the process stays as it is.
    random = np.random.RandomState() if settings.random_state is None else check_random_state(settings.random_state)
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(process_group()) if source.streamed else Group()
        device = _check_device(settings.device)
        folder = None
        if checkpoints is not None:
            folder = stack.enter_context(checkpoints.opened(_run_facts(settings, source), group))
        continued = None if earlier is None else earlier.model
        run = Run(settings, source, continued, group, own_device(device) if group.size > 1 else device, folder, tells)
        trained = _trained(run, plan, earlier, choice, watched, random)
        _finish_systems(run, trained)
        result = _result(run, plan, trained, earlier)
    stream = trained.data.stream
    if group.leads and stream is not None and stream.n_dropped:
        verb = "is" if stream.n_dropped == 1 else "are"
        warnings.warn(f"{counted(stream.n_dropped, 'row')} without a target {verb} left out.", stacklevel=5)
    return result, trained.choice


def _trained(
    run: Run,
    plan: DataPlan,
    earlier: FitResult | None,
    choice: Choice | None,
    watched: Samples | None,
    random: np.random.RandomState,
) -> _Trained:
    """Read the data, choose what is left open, and train."""
    settings, source, group = run.settings, run.source, run.group
    data = _data_of(run, plan, random)
    if watched is not None:
        data = replace(data, validation=watched)
    before = None if earlier is None else earlier.structure
    structure = structure_for(settings, source.columns, data.n_outputs, data.n_rows, before)
    is_number = isinstance(structure.n_rules, int)  # text other than "auto" is refused later
    if is_number and isinstance(source, ArraySource) and structure.n_rules > data.n_rows:
        structure = replace(structure, n_rules=data.n_rows)
        if run.tells:
            words = f"the {counted(data.n_rows, 'row')} to learn from: the model has {counted(data.n_rows, 'rule')}."
            warnings.warn(f"n_rules={settings.n_rules} is more than {words}", stacklevel=6)
    if earlier is not None:
        if earlier.input_range is not None:
            data = replace(data, input_range=joined_range(earlier.input_range, data.input_range))
        _check_continued(earlier, structure, data.classes)
    structure.term_words(settings.words, list(source.columns.input_names))
    held_out = data.validation
    n_held_out = 0 if held_out is None or watched is not None else held_out.n_rows
    config = train_config(settings, data.n_rows + n_held_out, streamed=source.streamed)
    rows = None if data.sample is None else run.rows(data.sample, data)
    validation = None if held_out is None else run.rows(held_out.take(slice(group.rank, None, group.size)), data)
    if data.stream is None:
        assert rows is not None
        return _trained_on_arrays(run, structure, data, rows, config, validation, choice, random)
    random = np.random.RandomState(data.stream.seed)
    generator = torch.Generator().manual_seed(data.stream.seed)
    # Opened before the starting point is computed, so that the table is read meanwhile.
    with _stream_batches(run, data, data.stream, config) as stream:
        if rows is not None:
            stream.read_ahead(generator)
        with _progress_bar(run, data.n_rows, config) as bar:
            system = first_system(run, structure, data, rows, random)
            if run.folder is not None and rows is not None:
                with group.together():
                    run.folder.begin(*data.state())
            data, rows = replace(data, sample=None), None  # the sample is large and no longer needed
            result = train(
                system,
                stream,
                config,
                generator=generator,
                validation=validation,
                keeps_best=settings.patience is not None,
                progress=bar,
                group=group,
                checkpoints=run.folder,
                **kept_parts(run, structure, data, system, None),
            )
    return _Trained([system], [], [], result, None, data, structure, config, None)


def _trained_on_arrays(
    run: Run,
    structure: Structure,
    data: TrainingData,
    rows: Rows,
    config: TrainConfig,
    validation: Rows | None,
    choice: Choice | None,
    random: np.random.RandomState,
) -> _Trained:
    """Train the systems of a fit to rows in memory; the settings are chosen first unless ``choice`` has them."""
    task = Task.of(run.settings, data.classes)
    if choice is None and run.earlier is None and is_chosen(run.settings):
        choice = chosen_settings(run, structure, data, rows, config, task, random)
    if choice is not None:
        structure, config = replace(structure, n_rules=choice.n_rules), choice.config(config)
    width = 1.0 if choice is None else choice.width
    with _progress_bar(run, data.n_rows, config) as bar:
        own = member_trainer(run, structure, data, config, validation, bar, random, width)
        corrector = None
        if choice is not None and choice.corrected:
            corrector = member_corrector(run, structure, data, rows, task, random)
        members = trained_systems(
            own, run.settings.n_systems, rows, corrects=learns_means(task, config), corrector=corrector
        )
    return _Trained(
        systems=[member.system for member in members],
        rows=[member.rows for member in members],
        started=[member.started for member in members],
        result=members[0].result,
        initial_sets=np.concatenate([member.initial_sets for member in members], axis=1),
        data=data,
        structure=structure,
        config=config,
        choice=choice,
    )


def _finish_systems(run: Run, trained: _Trained) -> None:
    """Trained systems in float64, with the line of the choice mixed in, and with what is frozen as it was."""
    data, structure = trained.data, trained.structure
    task = Task.of(run.settings, data.classes)
    for place, system in enumerate(trained.systems):
        # Trained in `dtype`, kept in float64: predictions then do not depend on how rows are divided into batches.
        system.to(dtype=torch.float64).requires_grad_(False)
        if trained.choice is not None:
            trained.choice.mix(system, trained.rows[place], task)
        before = None if run.earlier is None else run.earlier.alone(place).system
        set_range(system, structure, data, before)  # the limits in all their digits
        kept = trained.started[place] if before is None and trained.started else before
        if kept is not None:
            restore_frozen(system, frozen_masks(system, run.settings, structure, run.source.columns.input_names), kept)


def _result(run: Run, plan: DataPlan, trained: _Trained, earlier: FitResult | None) -> FitResult:
    """What a fit gives: the model with what is measured of it, calibration included."""
    settings, data = run.settings, trained.data
    model = ScaledSystem(trained.systems[0], data.x_scaling, data.y_scaling, tuple(trained.systems[1:]))
    some = data.measured.x[evenly_spaced(data.measured.n_rows, _SHARE_ROWS)]
    shares = model.rule_weights(some)
    if settings.extrapolation == "clip":
        model = model.clipped(data.input_range)
    importances = feature_importances(model, data.measured.x, classifies=data.classes is not None)
    calibration = intervals.calibrated(model, settings, plan.group_columns, data.measured, data.calibration)
    history = [] if earlier is None else earlier.history
    initial_sets = trained.initial_sets
    if initial_sets is not None and earlier is not None and earlier.initial_sets is not None:
        initial_sets = earlier.initial_sets
    first_epoch = history[-1]["epoch"] if history else 0.0
    return FitResult(
        structure=trained.structure,
        model=model,
        history=[*history, *({**row, "epoch": first_epoch + row["epoch"]} for row in trained.result.history)],
        stopped_by=trained.result.stopped_by,
        classes=data.classes,
        input_range=data.input_range,
        rule_shares=torch.from_numpy(shares).mean(dim=0).numpy(),
        feature_importances=run.source.columns.summed(importances),
        initial_sets=initial_sets,
        familiar_firing=np.median(model.best_firing(some), axis=0),
        calibration=calibration,
        chosen=None if trained.choice is None else trained.choice.description(trained.config),
    )


def _data_of(run: Run, plan: DataPlan, random: np.random.RandomState) -> TrainingData:
    """The data of a fit, from the source or from the checkpoint of a run that continues."""
    if run.folder is not None and run.folder.start is not None:
        return TrainingData.from_state(*run.folder.start)
    progress = ReadingBar if run.settings.verbose and run.group.leads else None
    # A warm start keeps the scaling of the earlier fit.
    plan = replace(plan, scaled=plan.scaled and run.earlier is None)
    data = run.source.prepared(plan, random, run.group, progress)
    if run.tells and run.group.leads and data.note:
        warnings.warn(data.note, stacklevel=7)
    if data.has_missing and check_option("missing", run.settings.missing, MISSING) == "error":
        raise ValueError("missing must be 'auto' for a table with missing values, got 'error'.")
    if run.earlier is None:
        return data
    return replace(data, x_scaling=run.earlier.x_scaling, y_scaling=run.earlier.y_scaling)


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


def _check_device(name: Any) -> torch.device:
    """The torch device of that name, if this machine has it; "auto" takes a CUDA device where there is one."""
    name = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    try:
        torch.zeros(1, device=name).item()  # not on the device "meta", which has no values
        return torch.empty(0, device=name).device
    except (AssertionError, RuntimeError, TypeError):
        raise ValueError(f"device must be 'auto' or a torch device of this machine, got {name!r}.") from None


def _run_facts(settings: Settings, source: Source) -> dict[str, Any]:
    """What must be the same for a run to continue from a checkpoint."""
    facts: dict[str, Any] = {"task": "classification" if settings._classifies else "regression"}
    for name, value in settings_by_name(settings).items():
        if name not in _FREE:
            facts[name] = plain_value(value) if is_plain(value) else getattr(value, "__qualname__", type(value).__name__)
    seed = settings.random_state
    facts["random_state"] = int(seed) if isinstance(seed, (int, np.integer)) else None
    return {**facts, **cast("ParquetSource", source).fingerprint()}


def _stream_batches(run: Run, data: TrainingData, stream: StreamPlan, config: TrainConfig) -> StreamBatches:
    """The batches of a table on disk; the caller closes them."""
    from deepfls.training.stream_batches import Preparation, StreamBatches  # here: it needs pyarrow

    table = cast("ParquetSource", run.source)
    if stream.held_out_share > 0:
        table = table.part(stream.seed + 1, stream.held_out_share, 1.0)
    dtype = DTYPES[run.settings.dtype]
    prepared = Preparation(data.x_scaling, data.y_scaling, data.classes, stream.mean_weight, run.device, dtype)
    n_epochs = config.epochs - _position(run)[0]
    return StreamBatches(table, stream.counts, prepared, config.batch_size, run.group, n_epochs)


def _progress_bar(run: Run, n_rows: int, config: TrainConfig) -> contextlib.AbstractContextManager[TrainingBar | None]:
    """The progress bar of a verbose fit, in the first process."""
    if not (run.settings.verbose and run.group.leads):
        return contextlib.nullcontext()
    epoch, step = _position(run)
    return TrainingBar(config.epochs, n_rows, n_done=epoch * n_rows + step * config.batch_size)


def _position(run: Run) -> tuple[int, int]:
    """Epoch and step at which a run starts: those of its checkpoint, if there is one."""
    found = None if run.folder is None else run.folder.found()
    return (0, 0) if found is None else (found[0]["epoch"], found[0]["step"])
