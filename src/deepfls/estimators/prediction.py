"""Predictions: the outputs of a trained system for rows in memory, and the importance of its inputs.

Rows are divided over threads, and each computes its rows in chunks, at bounds of blocks that do not depend on the number of
threads, so the bits of a prediction do not either.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from deepfls._checks.values import Array, evenly_spaced, known_mean, softmax
from deepfls.data.scaling import Scaling
from deepfls.kernels import CompiledOutputs, compiled_outputs
from deepfls.kernels.entrance import kernels_are_off
from deepfls.nn.general import GT2FLS
from deepfls.nn.systems import IT2FLS, T1FLS

System = T1FLS | IT2FLS
# Tensors (rows, ...) from a system, or from all systems of a model, and scaled rows (rows, features).
RowFunction = Callable[..., tuple[Tensor, ...]]

# Rows of a chunk, which bounds the memory beside the rows and the results; a multiple of the blocks of the kernels.
CHUNK = 8_192


class ReducedSet(NamedTuple):
    """Ends of the type-reduced set and crisp output, each (rows, outputs); ``lower <= y <= upper``."""

    lower: Array
    upper: Array
    y: Array


@dataclass(frozen=True)
class ScaledSystem:
    """A trained system and the scalings between its units and those of the data.

    Where there are ``others``, outputs are means over all systems.
    """

    system: System
    x_scaling: Scaling
    y_scaling: Scaling
    others: tuple[System, ...] = ()

    @property
    def systems(self) -> tuple[System, ...]:
        return (self.system, *self.others)

    @property
    def shares(self) -> Array:
        """Share of every system in the outputs, (systems,); they add up to 1."""
        return np.full(len(self.systems), 1.0 / len(self.systems))

    def clipped(self, input_range: Array) -> ScaledSystem:
        """The same with inputs held within a range (2, features), in the units of the data."""
        low, high = input_range
        if self.x_scaling.low is not None and self.x_scaling.high is not None:
            low, high = np.maximum(low, self.x_scaling.low), np.minimum(high, self.x_scaling.high)
        scaling = Scaling(self.x_scaling.shift, self.x_scaling.scale, low, high)
        return replace(self, x_scaling=scaling)

    def best_firing(self, x: Array) -> Array:
        """Firing strength of the best-fitting rule of every system, (rows, systems), of values as they are, not clipped."""

        def best(systems: Sequence[System], z: Tensor) -> tuple[Tensor, ...]:
            return (torch.stack([_strengths(_log_firing(system, z)[1].amax(dim=1)) for system in systems], dim=1),)

        free = replace(self, x_scaling=Scaling(self.x_scaling.shift, self.x_scaling.scale))
        return free.evaluated_by_all(x, best)[0]

    def evaluated(self, x: Array, function: RowFunction) -> tuple[Array, ...]:
        """The arrays of a function of the first system for rows x in the units of the data, a chunk at a time."""
        return self.evaluated_by_all(x, lambda systems, z: function(systems[0], z))

    def evaluated_by_all(self, x: Array, function: RowFunction, *columns: Array) -> tuple[Array, ...]:
        """The same of a function of all systems, which gets the same rows of the ``columns`` (rows, ...) as tensors."""
        if not self.system.missing and np.isnan(x).any():
            return self.taking_nan().evaluated_by_all(x, function, *columns)
        device = self.system.antecedents.raw_centers.device
        parts = []
        with torch.no_grad():
            for first in range(0, max(len(x), 1), CHUNK):
                z = torch.from_numpy(self.x_scaling.apply(x[first : first + CHUNK])).to(device)
                more = (torch.from_numpy(column[first : first + CHUNK]).to(device) for column in columns)
                parts.append([value.cpu().numpy() for value in function(self.systems, z, *more)])
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    def _values(self, x: Array, first: int) -> Array:
        """Of y_left, y_right and y those from ``first`` on, in scaled units, (rows, values, outputs).

        All three are equal for Type-1 systems.
        """
        if self.others:
            parts = (replace(self, system=system, others=())._values(x, first) for system in self.systems)
            return np.asarray(sum(share * part for share, part in zip(self.shares, parts, strict=True)))
        compiled = _compiled(self.system)
        if compiled is None:
            return self.evaluated(x, _plain_outputs)[0][:, first:]
        values = np.empty((len(x), 3 - first, self.system.n_outputs))

        def run(_: int, begin: int, end: int) -> None:
            for start in range(begin, end, CHUNK):
                part = slice(start, min(start + CHUNK, end))
                values[part] = compiled(self.x_scaling.apply(x[part]))[:, first:]

        compiled.over_rows(run, len(x))
        unknown = np.isnan(values[:, 0, 0])  # one input that is not known makes all outputs NaN
        if not self.system.missing and unknown.any():
            values[unknown] = self.taking_nan().evaluated(x[unknown], _plain_outputs)[0][:, first:]
        return values

    def taking_nan(self) -> ScaledSystem:
        """The same, where the systems take NaN for an input that is not known."""
        system, *others = map(_with_missing, self.systems)
        return replace(self, system=system, others=tuple(others))

    def outputs(self, x: Array) -> Array:
        """Crisp outputs in scaled units, (rows, outputs): the logits of a classifier."""
        return self._values(x, 2)[:, 0]

    def predictions(self, x: Array) -> Array:
        """Crisp outputs in the units of the targets, (rows, outputs)."""
        return self.y_scaling.invert(self.outputs(x))

    def reduced(self, x: Array) -> ReducedSet:
        """The type-reduced set of an IT2 system, or of the widest plane of a GT2 one, in the units of the targets."""
        lower, upper, y = map(self.y_scaling.invert, self._values(x, 0).transpose(1, 0, 2))
        # The change of units may round the ends past the crisp output.
        return ReducedSet(np.minimum(lower, y), np.maximum(upper, y), y)

    def rule_weights(self, x: Array) -> Array:
        """Firing of the rules, lower and upper together, as shares that add up to 1, (rows, rules of all systems)."""

        def weights(systems: Sequence[System], z: Tensor) -> tuple[Tensor, ...]:
            parts = zip(self.shares.tolist(), systems, strict=True)
            return (torch.cat([share * normalised_firing(system, z) for share, system in parts], dim=1),)

        return self.evaluated_by_all(x, weights)[0]

    def firing_strengths(self, x: Array) -> tuple[Array, ...]:
        """Lower and upper firing strength, each (rows, rules of all systems), in [0, 1]; equal for Type-1 systems.

        Those of the widest plane for General Type-2 systems.
        """

        def strengths(systems: Sequence[System], z: Tensor) -> tuple[Tensor, ...]:
            ends = zip(*(_log_firing(system, z) for system in systems), strict=True)
            return tuple(_strengths(torch.cat(end, dim=1)) for end in ends)

        return self.evaluated_by_all(x, strengths)


def _log_firing(system: System, z: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithms of lower and upper firing, each (rows, rules); equal for Type-1 systems."""
    logs = system.widest_log_firing(z) if isinstance(system, GT2FLS) else system.antecedents(z)
    return (logs[0], logs[1]) if isinstance(logs, tuple) else (logs, logs)


def _strengths(logs: Tensor) -> Tensor:
    """Firing strengths; at a center rounding may leave the logarithm a little above 0."""
    return logs.clamp(max=0.0).exp()


def _with_missing(original: System) -> System:
    system = copy.copy(original)
    system._modules = dict(system._modules)
    system.antecedents = copy.copy(original.antecedents)
    system.missing = True
    return system


# Compiled outputs of systems that have predicted before: to make them takes longer than a prediction of one row.
_COMPILED: weakref.WeakKeyDictionary[System, CompiledOutputs | None] = weakref.WeakKeyDictionary()


def _compiled(system: System) -> CompiledOutputs | None:
    # Raw values may have been set since: outside their bounds they are not the values, which the kernels take them for.
    if kernels_are_off() or not system.antecedents.within_bounds():
        return None
    if system not in _COMPILED:
        _COMPILED[system] = compiled_outputs(system)
    return _COMPILED[system]


def _plain_outputs(system: System, z: Tensor) -> tuple[Tensor, ...]:
    """Both ends and the crisp output by torch operations, for devices and systems without compiled outputs."""
    ends = system.reduce(z) if isinstance(system, (IT2FLS, GT2FLS)) else (system(z),) * 3
    return (torch.stack(tuple(ends), dim=1),)


def normalised_firing(system: System, z: Tensor) -> Tensor:
    """Firing of the rules for scaled rows, as shares that add up to 1, (rows, rules)."""
    firing = system.firing(z)
    weight = firing.lower + firing.upper if isinstance(firing, tuple) else firing
    return weight / weight.sum(dim=1, keepdim=True)


# Importance of the inputs

# Rows, evenly spaced, and orders of each, every one with its reverse. Where inputs are many there are fewer rows, but not
# fewer than the last, so that about this many numbers are evaluated.
_ROWS, _ORDERS, _NUMBERS, _FEWEST = 128, 2, 1_000_000, 8


def feature_importances(model: ScaledSystem, x: Array, *, classifies: bool) -> Array:
    """Mean absolute push of every input on the outputs, as shares that add up to 1, (features,).

    The inputs of a row move one after another from a reference, the mean of the rows, to their values. The push of an input
    is the change of the output at its step, averaged over a few random orders and their reverses, as in an explanation of
    one row. Outputs are in scaled units, so that several targets count alike; those of a classifier are probabilities.
    """
    random = np.random.default_rng(0)
    n_features = x.shape[1]
    numbers = 2 * _ORDERS * n_features * (n_features + 1)  # of one row
    rows = x[evenly_spaced(len(x), int(np.clip(_NUMBERS // numbers, _FEWEST, _ROWS)))]
    reference = known_mean(rows)
    totals = np.zeros(n_features)
    n_chunk = max(1, _NUMBERS // numbers)
    for first in range(0, len(rows), n_chunk):
        chunk = rows[first : first + n_chunk]
        each = np.tile(np.arange(n_features), (len(chunk), 1))
        orders = np.concatenate([random.permuted(each, axis=1) for _ in range(_ORDERS)])
        sequences = np.concatenate([orders, orders[:, ::-1]])
        pushes = _steps(model, np.tile(chunk, (2 * _ORDERS, 1)), reference, sequences, classifies)
        totals += np.abs(pushes.reshape(2 * _ORDERS, *each.shape, -1).sum(axis=0)).sum(axis=(0, 2))
    total = totals.sum()
    # Where the output changes by rounding alone, no input is more important than another.
    return totals / total if total > 1e-12 * len(rows) else np.full(n_features, 1.0 / n_features)


def _steps(model: ScaledSystem, rows: Array, reference: Array, sequences: Array, classifies: bool) -> Array:
    """Changes of the outputs as the inputs of rows move in the order of their sequence, (rows, features, outputs)."""
    n_rows, n_features = rows.shape
    turns = np.argsort(sequences, axis=1)  # when each input moves
    moved = turns[:, np.newaxis, :] < np.arange(n_features + 1)[:, np.newaxis]
    path = np.where(moved, rows[:, np.newaxis, :], reference)
    outputs = model.outputs(path.reshape(-1, n_features))
    if classifies:
        outputs = softmax(outputs)
    steps = np.diff(outputs.reshape(n_rows, n_features + 1, -1), axis=1)
    return np.take_along_axis(steps, turns[:, :, np.newaxis], axis=1)
