"""The systems of a fit: their starting point, their training side by side in threads, and corrections of their mean.

All systems of a model learn from the same rows, from different starting points and in different orders. Of the squared
error, the second half learns where the first half is wrong as well: its targets are ``y + (y - m)`` with m the mean of the
first half, so that the mean of both halves is y where each half reaches its target.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from deepfls._checks.values import Array, evenly_spaced
from deepfls.data.arrays import Samples, TrainingData
from deepfls.data.columns import Columns
from deepfls.estimators.choice import USUAL_PATH, Choice, System, Task, scale_consequents
from deepfls.estimators.settings import DTYPES, Settings
from deepfls.estimators.structure import Structure, frozen_masks, frozen_rule_numbers
from deepfls.functional.constants import SMALLEST_ALPHA
from deepfls.kernels.threads import in_threads
from deepfls.nn.general import GT2FLS
from deepfls.nn.systems import IT2FLS
from deepfls.training import recipe
from deepfls.training.checkpoint import CheckpointFolder
from deepfls.training.distributed import Group
from deepfls.training.loop import TrainResult, train
from deepfls.training.recipe import TrainConfig
from deepfls.training.start import SPACING_ROWS, initialize_system, start_from_tree, width_limits
from deepfls.training.steps import Rows, mean_loss
from deepfls.training.terms import SAMPLE_ROWS, ConditionRevision

if TYPE_CHECKING:
    from deepfls.estimators.prediction import ScaledSystem
    from deepfls.training.progress import TrainingBar

# Starts of a system whose rules share terms, of which the one of the smallest loss on the training rows is kept. Which term
# a rule has is a choice that training revises but seldom undoes, so a single start may end far from the best. Runs on few
# rows scatter more and take less time, so they have twice as many.
_TERM_STARTS, _TERM_STARTS_OF_FEW = 4, 8
# Rows of a chunk of the outputs of trained systems.
_CHUNK = 16_384


@dataclass
class Run:
    """What the steps of one fit share once its data are read."""

    settings: Settings
    columns: Columns
    data: TrainingData
    structure: Structure
    config: TrainConfig
    earlier: ScaledSystem | None  # of the fit that a warm start continues
    device: torch.device
    group: Group
    folder: CheckpointFolder | None
    path: recipe.Path = USUAL_PATH  # whose width and tree decide how systems start

    @property
    def task(self) -> Task:
        return Task.of(self.settings, self.data.classes)

    @property
    def learns_means(self) -> bool:
        """Whether outputs are means of numbers, whose errors can be learned by other systems."""
        return self.data.classes is None and self.config.loss == "l2" and self.config.coverage is None

    def with_choice(self, choice: Choice) -> Run:
        structure = replace(self.structure, n_rules=choice.n_rules)
        return replace(self, structure=structure, config=choice.config(self.config), path=choice.path)

    def rows(self, samples: Samples) -> Rows:
        """Samples as tensors in scaled units."""

        def tensor(values: Array) -> Tensor:
            return torch.tensor(values, dtype=DTYPES[self.settings.dtype], device=self.device)

        x, y = self.data.x_scaling.apply(samples.x), self.data.y_scaling.apply(samples.y)
        return Rows.of(tensor(x), tensor(y), None if samples.weight is None else tensor(samples.weight))

    @property
    def validation(self) -> Rows | None:
        """The rows of this process among those held out for validation."""
        held_out = self.data.validation
        return None if held_out is None else self.rows(held_out.take(slice(self.group.rank, None, self.group.size)))

    def before(self, number: int) -> System | None:
        """The system of a number in the fit that a warm start continues."""
        return None if self.earlier is None else self.earlier.systems[number]

    def placed(self, system: System, before: System | None = None) -> System:
        """A system on the device of the run, in its dtype, with sets within the range of its data."""
        system.to(device=self.device, dtype=DTYPES[self.settings.dtype])
        system.missing = self.data.has_missing
        self.set_range(system, before)
        return system

    @functools.cached_property
    def _limits(self) -> tuple[Array, Array]:
        """Ranges of the centers and of the widths of sets, each (2, features)."""
        data = self.data
        centers = data.x_scaling.apply(data.input_range)
        some = data.measured.x[evenly_spaced(data.measured.n_rows, SPACING_ROWS)]
        return centers, width_limits(data.x_scaling.apply(some), centers)

    def set_range(self, system: System, before: System | None) -> None:
        """Hold the sets of a system within the range of the training data, if its structure requires it."""
        if self.structure.n_terms is not None or self.structure.centers_within != "data":
            return  # terms have limits of their own
        centers, widths = self._limits
        limits = None if before is None else before.antecedents.width_limits
        if limits is not None:
            # An earlier fit may have had wider limits, and an imported system sets of any width.
            earlier = limits.cpu().numpy()
            widths = joined_range(widths, np.stack([earlier[0].min(axis=0), earlier[1].max(axis=0)]))
        system.antecedents.set_range(*centers, *widths)

    def desired_outputs(self, rows: Rows) -> Tensor:
        """The targets; for classes logits of +2 for the class and -2 / (classes - 1) for the others."""
        if self.data.classes is None:
            return rows.target
        n = len(self.data.classes)
        logits = 2.0 * (np.eye(n) * n - 1.0) / max(n - 1, 1)
        return torch.from_numpy(logits).to(rows.x)[rows.target[:, 0].long()]


def joined_range(first: Array, second: Array) -> Array:
    """The range that holds both, (2, features)."""
    return np.stack([np.minimum(first[0], second[0]), np.maximum(first[1], second[1])])


@dataclass(frozen=True)
class Member:
    """A trained system and what its training leaves; rows and sets are None for a table on disk."""

    system: System
    result: TrainResult
    rows: Rows | None = None  # that it learned from
    initial_sets: Array | None = None  # (4, rules, features)
    started: System | None = None  # as it was before training, where parts of it are frozen


def first_system(run: Run, rows: Rows | None, random: np.random.RandomState, number: int = 0) -> System:
    """A system before training: at its starting point, or that of an earlier fit; the same in every process.

    Without rows its values do not matter, because a checkpoint replaces them.
    """
    before = run.before(number)
    if rows is None or before is None:
        system = run.placed(run.structure.new_system(), before)
    else:
        system = run.placed(copy.deepcopy(before).requires_grad_(True), before)
    if rows is None or before is not None:
        return system
    settings, group = run.settings, run.group
    if run.path.tree:
        share = 1.0 if settings.n_systems == 1 else recipe.TREE_ROWS
        options: dict[str, Any] = {"sample_weight": rows.weight, "random_state": random}
        start_from_tree(system, rows.x, run.desired_outputs(rows), trained=True, row_share=share, **options)
        return system
    width: Any = run.path.width * recipe.width(run.data.n_rows) if settings.width == "auto" else settings.width
    # Every process adds the normal equations of its part of the rows.
    first, end = (len(rows) * place // group.size for place in (group.rank, group.rank + 1))
    initialize_system(
        system,
        rows.x,
        run.desired_outputs(rows),
        centers=settings.centers,
        consequents=settings.consequents,
        width=width,
        ridge=settings.ridge,
        sample_weight=rows.weight,
        n_terms=run.structure.terms_per_input,
        groups=[(first, end) for _, first, end in run.columns.groups],
        random_state=random,
        part=slice(first, end),
        total=group.total if group.size > 1 else None,
    )
    for parameter in system.parameters():
        group.same(parameter.data)
    return system


def _sets_of(run: Run, system: System) -> Array:
    """Centers, lower widths, upper widths and heights of the sets in the units of the data, (4, rules, features)."""
    if isinstance(system, GT2FLS):
        system = system.plane_system(SMALLEST_ALPHA)
    if isinstance(system, IT2FLS):
        parts = system.centers, system.lower_sigmas, system.upper_sigmas, system.heights
    else:
        parts = system.centers, system.sigmas, system.sigmas, torch.ones_like(system.centers)
    centers, lower, upper, heights = (value.detach().cpu().double().numpy() for value in parts)
    scaling = run.data.x_scaling
    return np.stack([scaling.invert(centers), lower * scaling.scale, upper * scaling.scale, heights])


def kept_parts(run: Run, system: System, rows: Rows | None) -> dict[str, Any]:
    """Arguments of a training: the values that stay as they are, and what revises the conditions of rules in a first fit.

    Without ``rows`` the revision takes the rows on which the data are measured.
    """
    frozen = frozen_masks(system, run.settings, run.structure, run.columns.input_names)
    if system.antecedents.terms is None or run.earlier is not None:
        return {"frozen": frozen, "revise": None}
    if rows is None:
        rows = run.rows(run.data.measured.take(evenly_spaced(run.data.measured.n_rows, SAMPLE_ROWS)))
    fixed = np.zeros(run.structure.n_rules, dtype=bool)
    fixed[frozen_rule_numbers(run.settings.frozen_rules, run.structure.n_rules)] = True
    revise = ConditionRevision(
        system,
        rows.x,
        run.desired_outputs(rows),
        n_terms=run.structure.terms_per_input,
        max_conditions=run.structure.max_conditions,
        frozen=fixed,
    )
    return {"frozen": frozen, "revise": revise}


def trained_member(
    run: Run,
    rows: Rows,
    random: np.random.RandomState,
    number: int = 0,
    watch: Callable[[int, System], None] | None = None,
    **options: Any,
) -> Member:
    """A system started and trained on rows in memory; ``watch`` is called with the system after every epoch."""
    system = first_system(run, rows, random, number)
    sets = _sets_of(run, system)
    parts = kept_parts(run, system, rows)
    started = (run.before(number) or copy.deepcopy(system)) if parts["frozen"] else None
    result = train(
        system,
        rows,
        run.config,
        generator=torch.Generator().manual_seed(int(random.randint(2**31 - 1))),
        watch=None if watch is None else lambda epoch: watch(epoch, system),
        **options,
        **parts,
    )
    return Member(system, result, rows, sets, started)


def _best_start(run: Run, rows: Rows, random: np.random.RandomState, number: int, **options: Any) -> Member:
    """A trained system; where rules share terms in a first fit, the best of several starts."""
    n_starts = 1
    if run.structure.n_terms is not None and run.earlier is None:
        n_starts = _TERM_STARTS_OF_FEW if len(rows) < recipe.FOLD_ROWS else _TERM_STARTS
    members: list[Member] = []
    for _ in range(n_starts):
        members.append(trained_member(run, rows, random, number, **options))
        if members[-1].result.stopped_by == "interrupt":
            break
    if n_starts == 1:
        return members[0]
    with torch.no_grad():
        losses = [float(mean_loss(run.config.loss_function(), member.system, rows)) for member in members]
    return members[int(np.nanargmin([*losses, np.inf]) % len(members))]


def trained_members(
    run: Run, rows: Rows, bar: TrainingBar | None, random: np.random.RandomState, *, corrected: bool
) -> list[Member]:
    """The systems of a fit in their order; the first one is that of a fit of one system.

    ``corrected``: a first quarter of them is trained, and the others are corrections of their mean.
    """
    n_systems = run.settings.n_systems
    seeds = np.random.RandomState(int(random.randint(2**31 - 1))).randint(2**31 - 1, size=n_systems)
    validation = run.validation

    def train_one(number: int, rows: Rows, watch: Callable[[int, System], None] | None = None) -> Member:
        own = np.random.RandomState(seeds[number])
        return _best_start(
            run, rows, own, number, watch=watch, progress=bar if number == 0 else None, validation=validation
        )

    def train_some(numbers: range, rows: Rows) -> list[Member]:
        return in_threads(lambda number, watch: train_one(number, rows, lambda epoch, _: watch(epoch)), numbers)

    if n_systems == 1:
        return [train_one(0, rows)]
    n_first = n_trained(n_systems) if corrected else -(-n_systems // 2) if run.learns_means else n_systems
    members = train_some(range(n_first), rows)
    if n_first == n_systems or any(member.result.stopped_by == "interrupt" for member in members):
        return members
    if corrected:
        return _with_corrections(run, members, rows, random)
    target = 2.0 * rows.target - _mean_outputs([member.system for member in members], rows)
    return members + train_some(range(n_first, n_systems), Rows.of(rows.x, target, rows.weight))


def n_trained(n_systems: int) -> int:
    """How many of the systems are trained where the others are corrections of their mean."""
    return max(n_systems // 4, 1)


def correction_systems(run: Run, rows: Rows, outputs: Tensor, random: np.random.RandomState) -> list[System]:
    """Systems that each add what the sum before them misses. ``outputs``: the mean of the trained systems.

    Those of planes have no width: they move all quantiles of a row alike.
    """
    systems: list[System] = []
    left = rows.target - outputs
    for _ in range(run.settings.n_systems - n_trained(run.settings.n_systems)):
        system = run.placed(run.structure.new_system())
        start_from_tree(system, rows.x, left, sample_weight=rows.weight, random_state=random)
        left = left - _mean_outputs([system], rows)
        systems.append(system)
    return systems


def _with_corrections(run: Run, members: list[Member], rows: Rows, random: np.random.RandomState) -> list[Member]:
    """Trained systems and the corrections of their mean, scaled so that the mean of all is the sum of both.

    The model is the mean of all systems, and corrections are to be added to the mean of the trained ones. So with k
    systems, k1 of them trained and k2 corrections, a correction becomes k times itself plus the line of the rows, and a
    trained system becomes k / k1 times itself less k2 / k1 of that line. With missing values it is the mean of the targets.
    """
    task = run.task
    outputs = _mean_outputs(
        [member.system for member in members],
        rows,
        lambda system, x: torch.from_numpy(task.middles(task.outputs(system, x))).to(rows.target),
    )
    added = correction_systems(run, rows, outputs, random)
    # Where inputs are unknown, every rule has its own value in their place, so lines would not cancel in the mean.
    line = replace(task, constant=task.constant or run.data.has_missing).lines(rows)[0]
    n_first, n_all = len(members), len(members) + len(added)
    for member in members:
        scale_consequents(member.system, n_all / n_first, line, -len(added) / n_first)
    for system in added:
        scale_consequents(system, float(n_all), line, 1.0)
    return [*members, *(Member(system, TrainResult(), rows, _sets_of(run, system)) for system in added)]


def _mean_outputs(
    systems: Sequence[System], rows: Rows, output: Callable[[System, Tensor], Tensor] = lambda system, x: system(x)
) -> Tensor:
    """Mean of the outputs of systems, (rows, outputs), by default the crisp ones."""
    parts = []
    with torch.no_grad():
        for first in range(0, len(rows), _CHUNK):
            x = rows.x[first : first + _CHUNK]
            parts.append(torch.stack([output(system, x) for system in systems]).mean(dim=0))
    return torch.cat(parts)
