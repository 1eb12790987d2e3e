"""The systems of a fit: their starting point, their training, and the runs by which settings are chosen."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from deepfls._checks.values import Array, evenly_spaced
from deepfls.data.arrays import Samples, Source, TrainingData
from deepfls.data.scaling import Scaling
from deepfls.estimators.choice import Choice, System, Task, choice_paths, scale_consequents
from deepfls.estimators.comparison import choose
from deepfls.estimators.settings import DTYPES, Settings
from deepfls.estimators.side_by_side import Member, MemberCorrector, MemberTrainer, n_trained, outputs_for
from deepfls.estimators.structure import (
    Structure,
    condition_revision,
    desired_outputs,
    frozen_masks,
    set_range,
)
from deepfls.functional.constants import SMALLEST_ALPHA
from deepfls.nn.general import GT2FLS
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training import recipe
from deepfls.training.batches import Rows, mean_loss
from deepfls.training.checkpoint import CheckpointFolder
from deepfls.training.distributed import Group
from deepfls.training.loop import TrainResult, train
from deepfls.training.progress import TrainingBar
from deepfls.training.recipe import TrainConfig
from deepfls.training.start import initialize_system
from deepfls.training.terms import SAMPLE_ROWS
from deepfls.training.tree_start import start_from_tree

if TYPE_CHECKING:
    from deepfls.estimators.prediction import ScaledSystem

# Number of systems that the choice of settings trains where a model has several. The choice compares their mean.
_CHOICE_SYSTEMS = 3
# Starts of a system whose rules share terms, of which the one of the smallest loss on the training rows is kept. Which term
# a rule has is a choice that training revises but seldom undoes, so a single start may end far from the best. Runs on few
# rows scatter more and take less time, so they have twice as many.
_TERM_STARTS, _TERM_STARTS_OF_FEW = 4, 8


@dataclass(frozen=True)
class Run:
    """What the steps of one fit share."""

    settings: Settings
    source: Source
    earlier: ScaledSystem | None  # of the fit that a warm start continues
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


def first_system(
    run: Run,
    structure: Structure,
    data: TrainingData,
    rows: Rows | None,
    random: np.random.RandomState,
    width_factor: float = 1.0,
) -> T1FLS | IT2FLS:
    """The system before training: at its starting point, or that of an earlier fit; the same in every process.

    Without rows its values do not matter, because a checkpoint replaces them.
    """
    if rows is not None and run.earlier is not None:
        system = copy.deepcopy(run.earlier.system).requires_grad_(True)
    else:
        system = structure.new_system()
    system.to(device=run.device, dtype=DTYPES[run.settings.dtype])
    system.missing = data.has_missing
    set_range(system, structure, data, None if run.earlier is None else run.earlier.system)
    if rows is None or run.earlier is not None:
        return system
    settings, group = run.settings, run.group
    width: Any = width_factor * recipe.width(data.n_rows) if settings.width == "auto" else settings.width
    # Every process adds the normal equations of its part of the rows.
    first, end = (len(rows) * place // group.size for place in (group.rank, group.rank + 1))
    initialize_system(
        system,
        rows.x,
        desired_outputs(rows, data),
        centers=settings.centers,
        consequents=settings.consequents,
        width=width,
        ridge=settings.ridge,
        sample_weight=rows.weight,
        n_terms=structure.terms_per_input,
        groups=[(first, end) for _, first, end in run.source.columns.groups],
        random_state=random,
        part=slice(first, end),
        total=group.total if group.size > 1 else None,
    )
    for parameter in system.parameters():
        group.same(parameter.data)
    return system


def sets_of(system: T1FLS | IT2FLS, scaling: Scaling) -> Array:
    """Centers, lower widths, upper widths and heights of the sets in the units of the data, (4, rules, features)."""
    if isinstance(system, GT2FLS):
        system = system.plane_system(SMALLEST_ALPHA)
    lower, upper = (system.lower_sigmas, system.upper_sigmas) if isinstance(system, IT2FLS) else (system.sigmas,) * 2
    heights = system.heights if isinstance(system, IT2FLS) else torch.ones_like(system.centers)
    centers, lower, upper, heights = (
        value.detach().cpu().double().numpy() for value in (system.centers, lower, upper, heights)
    )
    return np.stack([scaling.invert(centers), lower * scaling.scale, upper * scaling.scale, heights])


def kept_parts(
    run: Run, structure: Structure, data: TrainingData, system: T1FLS | IT2FLS, rows: Rows | None
) -> dict[str, Any]:
    """Arguments of a training: the values that stay as they are, and what revises the conditions of rules in a first fit.

    Without ``rows`` the revision takes the rows on which the data are measured.
    """
    frozen = frozen_masks(system, run.settings, structure, run.source.columns.input_names)
    if system.antecedents.terms is None or run.earlier is not None:
        return {"frozen": frozen, "revise": None}
    if rows is None:
        rows = run.rows(data.measured.take(evenly_spaced(data.measured.n_rows, SAMPLE_ROWS)), data)
    return {"frozen": frozen, "revise": condition_revision(system, run.settings, structure, data, rows)}


def chosen_settings(
    run: Run,
    structure: Structure,
    data: TrainingData,
    rows: Rows,
    config: TrainConfig,
    task: Task,
    random: np.random.RandomState,
) -> Choice | None:
    """The choice of :func:`deepfls.estimators.comparison.choose` for these rows."""
    seed = int(random.randint(2**31 - 1))

    def trained(part: Rows, choice: Choice, config: TrainConfig, number: int, note: Callable[[int, System], None]) -> None:
        own = np.random.RandomState((seed + number) % 2**32)
        own_structure = replace(structure, n_rules=choice.n_rules)
        system = first_system(run, own_structure, data, part, own, choice.width)
        generator = torch.Generator().manual_seed(int(own.randint(2**31 - 1)))
        parts = kept_parts(run, own_structure, data, system, part)
        parts |= {"generator": generator, "watch": lambda epoch: note(epoch, system), "warns": False}
        result = train(system, part, config, **parts)
        if result.stopped_by == "interrupt":
            raise KeyboardInterrupt  # nothing is trained yet that could be kept

    n_members = min(run.settings.n_systems, _CHOICE_SYSTEMS)
    numbers = recipe.rule_numbers(len(rows)) if run.settings.n_rules == "auto" else (structure.n_rules,)
    paths = choice_paths(run.settings, config, len(rows))
    own = np.random.RandomState(seed)

    def corrector(part: Rows, n_rules: int, outputs: torch.Tensor) -> list[System]:
        return corrections(run, replace(structure, n_rules=n_rules), data, part, outputs, np.random.RandomState(seed))

    return choose(
        rows,
        config,
        task,
        trained,
        own,
        rule_numbers=numbers,
        paths=paths,
        n_systems=n_members,
        corrector=corrector if may_correct(run.settings, task, config, len(rows)) else None,
    )


def may_correct(settings: Settings, task: Task, config: TrainConfig, n_rows: int) -> bool:
    """Whether some of the systems may be corrections of the others."""
    restricted = (settings.n_terms, settings.max_conditions, settings.frozen_rules, settings.frozen_terms)
    return (
        settings.n_systems > 1
        and n_rows >= recipe.CORRECTION_ROWS
        and (learns_means(task, config) or task.planes)
        and settings.epochs == "auto"
        and all(value is None for value in restricted)
    )


def learns_means(task: Task, config: TrainConfig) -> bool:
    """Whether outputs are means of numbers, whose errors can be learned by other systems."""
    return task.n_classes is None and config.loss == "l2" and config.coverage is None


def corrections(
    run: Run, structure: Structure, data: TrainingData, rows: Rows, outputs: torch.Tensor, random: np.random.RandomState
) -> list[System]:
    """Systems that each add what the sum before them misses. ``outputs``: the mean of the trained systems.

    Those of planes have no width: they move all quantiles of a row alike.
    """
    systems: list[System] = []
    left = rows.target - outputs
    for _ in range(run.settings.n_systems - n_trained(run.settings.n_systems)):
        system = structure.new_system().to(device=run.device, dtype=DTYPES[run.settings.dtype])
        system.missing = data.has_missing
        set_range(system, structure, data, None)
        start_from_tree(system, rows.x, left, sample_weight=rows.weight, random_state=random)
        left = left - outputs_for([system], rows)
        systems.append(system)
    return systems


def member_trainer(
    run: Run,
    structure: Structure,
    data: TrainingData,
    config: TrainConfig,
    validation: Rows | None,
    bar: TrainingBar | None,
    random: np.random.RandomState,
    width_factor: float = 1.0,
) -> MemberTrainer:
    """What trains the systems of a fit by their number; the first one is that of a fit of one system."""
    n_systems, earlier = run.settings.n_systems, run.earlier
    seeds = np.random.RandomState(int(random.randint(2**31 - 1))).randint(2**31 - 1, size=n_systems)

    def trained(number: int, rows: Rows, watch: Callable[[int], None] | None) -> Member:
        own = np.random.RandomState(seeds[number])
        before = None if earlier is None else earlier.alone(number)
        if structure.n_terms is None or before is not None:
            return from_start(number, rows, watch, own, before)
        members: list[Member] = []
        for _ in range(_TERM_STARTS_OF_FEW if len(rows) < recipe.FOLD_ROWS else _TERM_STARTS):
            members.append(from_start(number, rows, watch, own, None))
            if members[-1].result.stopped_by == "interrupt":
                break
        with torch.no_grad():
            losses = [float(mean_loss(config.loss_function(), member.system, rows)) for member in members]
        return members[int(np.nanargmin([*losses, np.inf]) % len(members))]

    def from_start(
        number: int,
        rows: Rows,
        watch: Callable[[int], None] | None,
        own: np.random.RandomState,
        before: ScaledSystem | None,
    ) -> Member:
        own_run = replace(run, earlier=before)
        system = first_system(own_run, structure, data, rows, own, width_factor)
        sets = sets_of(system, data.x_scaling)
        parts = kept_parts(own_run, structure, data, system, rows)
        started = copy.deepcopy(system) if parts["frozen"] and before is None else None
        result = train(
            system,
            rows,
            config,
            generator=torch.Generator().manual_seed(int(own.randint(2**31 - 1))),
            validation=validation,
            keeps_best=run.settings.patience is not None,
            progress=bar if number == 0 else None,
            watch=watch,
            **parts,
        )
        return Member(system, rows, result, sets, started)

    return trained


def member_corrector(
    run: Run, structure: Structure, data: TrainingData, rows: Rows, task: Task, random: np.random.RandomState
) -> MemberCorrector:
    """What completes the trained systems by corrections.

    The model is the mean of all systems, and corrections are to be added to the mean of the trained ones. So with k
    systems, k1 of them trained and k2 corrections, a correction becomes k times itself plus the line of the rows, and a
    trained system becomes k / k1 times itself less k2 / k1 of that line. With missing values it is the mean of the targets.
    """

    def middle(system: System, x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(task.middles(task.outputs(system, x))).to(rows.target)

    def corrected(members: list[Member]) -> list[Member]:
        outputs = outputs_for([member.system for member in members], rows, middle)
        added = corrections(run, structure, data, rows, outputs, random)
        # Where inputs are unknown, every rule has its own value in their place, so lines would not cancel in the mean.
        line = replace(task, constant=task.constant or data.has_missing).lines(rows)[0]
        n_first, n_all = len(members), len(members) + len(added)
        for member in members:
            scale_consequents(member.system, n_all / n_first, line, -len(added) / n_first)
        result = members
        for system in added:
            scale_consequents(system, float(n_all), line, 1.0)
            result = [*result, Member(system, rows, TrainResult(), sets_of(system, data.x_scaling))]
        return result

    return corrected
