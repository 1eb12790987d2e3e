"""The fit pipeline: settings, source, scaling, starting point, training, calibration, result.

Arrays and tables on disk take the same way. A fit gets settings and a source and gives a result, which an estimator adopts;
it does not see the estimator.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from sklearn.utils import check_random_state

from deepfls._checks.arguments import check_option, counted, left_out
from deepfls._checks.values import Array, evenly_spaced
from deepfls.data.arrays import ArraySource, DataPlan, Samples, TrainingData
from deepfls.estimators import intervals
from deepfls.estimators.calibration import Calibration
from deepfls.estimators.choice import Choice, is_chosen
from deepfls.estimators.comparison import chosen_settings
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
from deepfls.estimators.structure import Structure, frozen_masks, restore_frozen, structure_for
from deepfls.estimators.system_training import (
    Member,
    Run,
    first_system,
    joined_range,
    kept_parts,
    trained_members,
)
from deepfls.training.checkpoint import CheckpointFolder, Checkpoints
from deepfls.training.distributed import Group, own_device, process_group
from deepfls.training.loop import train
from deepfls.training.progress import ReadingBar, TrainingBar

if TYPE_CHECKING:
    from deepfls.data.sources import ParquetSource
    from deepfls.training.stream_batches import StreamBatches

# Rows, evenly spaced, on which the shares of the rules are measured.
_SHARE_ROWS = 2_048
# Settings that do not change what is learned, so a run may continue with other values of them.
_FREE = ("device", "verbose", "warm_start", "random_state")
# Copies of the parameters of a system that its training holds: values, gradient, two moments, last, best and average; and
# parameters of one condition of a rule: center, two widths, height, slope.
_COPIES, _PER_CONDITION = 8, 5


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
    source: ArraySource | ParquetSource,
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
    check_settings(settings)
    _check_systems(settings, source)
    plan = DataPlan(
        classes=settings._classifies,
        scaled=settings.scaling == "standard",
        clips=settings.outliers == "clip",
        validation_fraction=None if settings.patience is None or watched is not None else settings.validation_fraction,
    )
    if settings.coverage is not None or settings.calibration == "alpha":
        streamed, continued = source.streamed, earlier is not None
        settings, plan = intervals.with_intervals(settings, plan, source.columns, streamed=streamed, continued=continued)
    asked = _Fit(settings, source, plan, earlier, checkpoints, watched)
    if plan.calibration_rows is None or source.streamed or not intervals.is_refitted(settings, source.n_rows):
        return asked.result()[0]
    # Two systems: one learns without the calibration rows and gives the intervals, the other one learns from all rows.
    # Both draw the same random numbers, so a generator is copied for the first.
    first = replace(settings, random_state=copy.deepcopy(settings.random_state))
    before = None if earlier is None else earlier.part
    part, choice = replace(asked, settings=first, earlier=before, warns=False).result()
    if part.stopped_by == "interrupt":
        return part
    result, _ = replace(asked, plan=replace(plan, calibration_rows=None), choice=choice).result()
    return replace(result, calibration=part.calibration, part=part)


@dataclass(frozen=True)
class _Fit:
    """One fit, from the rows to the calibration; settings, plan and source are checked."""

    settings: Settings
    source: ArraySource | ParquetSource
    plan: DataPlan
    earlier: FitResult | None
    checkpoints: Checkpoints | None
    watched: Samples | None
    choice: Choice | None = None  # of another fit, which this one takes over
    warns: bool = True  # whether warnings about the data are given

    def result(self) -> tuple[FitResult, Choice | None]:
        """What the fit gives, and what was chosen for it."""
        settings, source = self.settings, self.source
        # Without a seed, numbers of its own: NumPy's generator of the process stays as it is.
        random = np.random.RandomState() if settings.random_state is None else check_random_state(settings.random_state)
        with contextlib.ExitStack() as stack:
            group = stack.enter_context(process_group()) if source.streamed else Group()
            device = _check_device(settings.device)
            folder = None
            if self.checkpoints is not None:
                folder = stack.enter_context(
                    self.checkpoints.opened(_run_facts(settings, cast("ParquetSource", source)), group)
                )
            run = self._run(group, own_device(device) if group.size > 1 else device, folder, random)
            choice = None
            if source.streamed:
                members = [self._trained_on_stream(run)]
            else:
                run, members, choice = self._trained_on_arrays(run, random)
            result = self._result(run, members, choice)
        stream = run.data.stream
        if group.leads and stream is not None and stream.n_dropped:
            what = "a target" if stream.mean_weight is None else "a target or a weight"
            warnings.warn(f"{left_out(stream.n_dropped, what)}.", stacklevel=4)
        return result, choice

    def _run(
        self, group: Group, device: torch.device, folder: CheckpointFolder | None, random: np.random.RandomState
    ) -> Run:
        """What the steps share, from the data of the source or of a checkpoint."""
        settings, source, earlier = self.settings, self.source, self.earlier
        data = self._data(group, folder, random)
        structure = structure_for(
            settings, source.columns, data.n_outputs, data.n_rows, None if earlier is None else earlier.structure
        )
        is_number = isinstance(structure.n_rules, int)  # text other than "auto" is refused later
        if is_number and not source.streamed and structure.n_rules > data.n_rows:
            structure = replace(structure, n_rules=data.n_rows)
            if self.warns:
                words = f"the {counted(data.n_rows, 'row')} to learn from: the model has {counted(data.n_rows, 'rule')}."
                warnings.warn(f"n_rules={settings.n_rules} is more than {words}", stacklevel=5)
        if earlier is not None:
            _check_continued(earlier, settings.n_systems, data.classes, structure)
            data = replace(data, x_scaling=earlier.model.x_scaling, y_scaling=earlier.model.y_scaling)
            if earlier.input_range is not None:
                data = replace(data, input_range=joined_range(earlier.input_range, data.input_range))
        structure.term_words(settings.words, list(source.columns.input_names))  # checks the words
        n_held_out = 0 if data.validation is None or self.watched is not None else data.validation.n_rows
        n_rows, n_features = data.n_rows + n_held_out, structure.n_features
        config = train_config(settings, n_rows, n_features, streamed=source.streamed)
        continued = None if earlier is None else earlier.model
        return Run(settings, source.columns, data, structure, config, continued, device, group, folder)

    def _data(self, group: Group, folder: CheckpointFolder | None, random: np.random.RandomState) -> TrainingData:
        """The data of a fit, from the source or from the checkpoint of a run that continues."""
        settings = self.settings
        if folder is not None and folder.start is not None:
            data = TrainingData.from_state(*folder.start)
        else:
            progress = ReadingBar if settings.verbose and group.leads else None
            # A warm start keeps the scaling of the earlier fit.
            plan = replace(self.plan, scaled=self.plan.scaled and self.earlier is None)
            data = self.source.prepared(plan, random, group, progress)
            if self.warns and group.leads and data.note:
                warnings.warn(data.note, stacklevel=6)
            if data.has_missing and check_option("missing", settings.missing, MISSING) == "error":
                raise ValueError("missing must be 'auto' for a table with missing values, got 'error'.")
        return data if self.watched is None else replace(data, validation=self.watched)

    def _trained_on_arrays(self, run: Run, random: np.random.RandomState) -> tuple[Run, list[Member], Choice | None]:
        """The systems of a fit to rows in memory; the settings are chosen first unless another fit has chosen them."""
        assert run.data.sample is not None
        rows, choice = run.rows(run.data.sample), self.choice
        if choice is None and self.earlier is None and is_chosen(self.settings):
            choice = chosen_settings(run, rows, random)
        if choice is not None:
            run = run.with_choice(choice)
        corrected = choice is not None and choice.corrected
        with _progress_bar(run) as bar:
            return run, trained_members(run, rows, bar, random, corrected=corrected), choice

    def _trained_on_stream(self, run: Run) -> Member:
        """The system of a fit to a table on disk."""
        assert run.data.stream is not None
        seed, folder = run.data.stream.seed, run.folder
        generator = torch.Generator().manual_seed(seed)
        rows = None if run.data.sample is None else run.rows(run.data.sample)
        # Opened before the starting point is computed, so that the table is read meanwhile.
        with _stream_batches(run, cast("ParquetSource", self.source)) as stream:
            if rows is not None:
                stream.read_ahead(generator)
            with _progress_bar(run) as bar:
                system = first_system(run, rows, np.random.RandomState(seed))
                if folder is not None and rows is not None:
                    with run.group.together():
                        folder.begin(*run.data.state())
                # The sample is large and no longer needed.
                run.data, rows = replace(run.data, sample=None), None
                result = train(
                    system,
                    stream,
                    run.config,
                    generator=generator,
                    validation=run.validation,
                    progress=bar,
                    group=run.group,
                    checkpoints=folder,
                    **kept_parts(run, system, None),
                )
        return Member(system, result, started=run.before(0))

    def _result(self, run: Run, members: list[Member], choice: Choice | None) -> FitResult:
        """What a fit gives: the model with what is measured of it, calibration included."""
        settings, data, earlier = self.settings, run.data, self.earlier
        _finish(run, members, choice)
        first, *others = (member.system for member in members)
        model = ScaledSystem(first, data.x_scaling, data.y_scaling, tuple(others))
        some = data.measured.x[evenly_spaced(data.measured.n_rows, _SHARE_ROWS)]
        shares = model.rule_weights(some)
        if settings.extrapolation == "clip":
            model = model.clipped(data.input_range)
        importances = feature_importances(model, data.measured.x, classifies=data.classes is not None)
        calibration = None
        if settings.coverage is not None:
            columns = self.plan.group_columns
            calibration = intervals.calibrated(model, settings, columns, data.measured, data.calibration)
        history = [] if earlier is None else earlier.history
        initial_sets = None
        if not self.source.streamed:
            initial_sets = np.concatenate([cast("Array", member.initial_sets) for member in members], axis=1)
            if earlier is not None and earlier.initial_sets is not None:
                initial_sets = earlier.initial_sets
        first_epoch = history[-1]["epoch"] if history else 0.0
        result = members[0].result
        return FitResult(
            structure=run.structure,
            model=model,
            history=[*history, *({**row, "epoch": first_epoch + row["epoch"]} for row in result.history)],
            stopped_by=result.stopped_by,
            classes=data.classes,
            input_range=data.input_range,
            rule_shares=torch.from_numpy(shares).mean(dim=0).numpy(),
            feature_importances=run.columns.summed(importances),
            initial_sets=initial_sets,
            familiar_firing=np.median(model.best_firing(some), axis=0),
            calibration=calibration,
            chosen=None if choice is None else choice.description(run.config),
        )


def _finish(run: Run, members: list[Member], choice: Choice | None) -> None:
    """Convert trained systems to float64, mix in the line of the choice, and restore frozen values."""
    for number, member in enumerate(members):
        system = member.system
        # Trained in `dtype`, kept in float64: predictions then do not depend on how rows are divided into batches.
        system.to(dtype=torch.float64).requires_grad_(False)
        if choice is not None and member.rows is not None:
            choice.mix(system, member.rows, run.task)
        run.set_range(system, run.before(number))  # the limits in all their digits
        if member.started is not None:
            masks = frozen_masks(system, run.settings, run.structure, run.columns.input_names)
            restore_frozen(system, masks, member.started)


def _check_systems(settings: Settings, source: ArraySource | ParquetSource) -> None:
    """Refuse a number of systems that the source or the memory does not allow."""
    n_systems = settings.n_systems
    if n_systems > 1 and source.streamed:
        raise ValueError(f"n_systems must be 1 for a source that is read in parts, got {n_systems}.")
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not a POSIX system
        return
    n_rules = settings.n_rules if isinstance(settings.n_rules, int) else 1
    size = n_rules * source.n_features * _PER_CONDITION * 8 * _COPIES
    if n_systems > 1 and n_systems * size > memory:
        raise ValueError(
            f"n_systems must be at most {memory // size:,}, for which this machine has the memory, got {n_systems:,}."
        )


def _check_continued(earlier: FitResult, n_systems: int, classes: Array | None, structure: Structure) -> None:
    """Require that a warm start continues the systems it finds."""

    def facts(n_systems: int, classes: Array | None, structure: Structure) -> dict[str, Any]:
        named = {"n_systems": n_systems, "classes": None if classes is None else classes.tolist()}
        return named | dataclasses.asdict(structure)

    before = facts(len(earlier.model.systems), earlier.classes, earlier.structure)
    for name, value in facts(n_systems, classes, structure).items():
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


def _run_facts(settings: Settings, source: ArraySource | ParquetSource) -> dict[str, Any]:
    """What must be the same for a run to continue from a checkpoint."""
    facts: dict[str, Any] = {"task": "classification" if settings._classifies else "regression"}
    for name, value in settings_by_name(settings).items():
        if name not in _FREE:
            facts[name] = plain_value(value) if is_plain(value) else getattr(value, "__qualname__", type(value).__name__)
    seed = settings.random_state
    facts["random_state"] = int(seed) if isinstance(seed, (int, np.integer)) else None
    return {**facts, **cast("ParquetSource", source).fingerprint()}


def _stream_batches(run: Run, table: ParquetSource) -> StreamBatches:
    """The batches of a table on disk; the caller closes them."""
    from deepfls.training.stream_batches import Preparation, StreamBatches  # here: it needs pyarrow

    data, stream = run.data, run.data.stream
    assert stream is not None
    if stream.held_out_share > 0:
        table = table.part(stream.seed + 1, stream.held_out_share, 1.0)
    dtype = DTYPES[run.settings.dtype]
    prepared = Preparation(data.x_scaling, data.y_scaling, data.classes, stream.mean_weight, run.device, dtype)
    return StreamBatches(
        table, stream.counts, prepared, run.config.batch_size, run.group, run.config.epochs - _position(run)[0]
    )


def _progress_bar(run: Run) -> contextlib.AbstractContextManager[TrainingBar | None]:
    """The progress bar of a verbose fit, in the first process."""
    if not (run.settings.verbose and run.group.leads):
        return contextlib.nullcontext()
    (epoch, step), n_rows = _position(run), run.data.n_rows
    return TrainingBar(run.config.epochs, n_rows, n_done=epoch * n_rows + step * run.config.batch_size)


def _position(run: Run) -> tuple[int, int]:
    """Epoch and step at which a run starts: those of its checkpoint, if there is one."""
    found = None if run.folder is None else run.folder.found
    return (0, 0) if found is None else (found[0]["epoch"], found[0]["step"])
