"""Training steps: samples and batches of them, all parameters of a system in one vector, optimisers, losses and gradients.

The parameters become views of one vector, and the gradient is a second one: an optimiser acts on two vectors. A step is
compiled where that is possible, else autograd takes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from deepfls._checks.tensors import check_batch, check_loss_values
from deepfls._checks.values import Array
from deepfls.functional.losses import QuantileLoss, SetLoss
from deepfls.kernels import CompiledStep, can_compile, compiled_step
from deepfls.training.distributed import Group

if TYPE_CHECKING:
    from deepfls.nn.systems import IT2FLS, T1FLS
    from deepfls.training.recipe import TrainConfig

LossFunction = Callable[..., Tensor]

_OWN_ORDER = np.empty(0, np.int64)

# Options of Adam that the compiled update takes.
_ADAM_OPTIONS = {"betas", "eps", "weight_decay"}


@dataclass(frozen=True)
class Rows:
    """Samples in scaled units in one contiguous table: inputs, targets and perhaps a weight, side by side."""

    packed: Tensor
    n_features: int
    n_targets: int

    @classmethod
    def of(cls, x: Tensor, target: Tensor, weight: Tensor | None = None) -> Rows:
        """From x (batch, features), target (batch, targets) and weight (batch,), in the dtype and on the device of x."""
        columns = [x, target.to(x), *([] if weight is None else [weight.to(x).unsqueeze(1)])]
        return cls(torch.cat(columns, dim=1), x.shape[1], target.shape[1])

    def __len__(self) -> int:
        return len(self.packed)

    @property
    def x(self) -> Tensor:
        return self.packed[:, : self.n_features]

    @property
    def target(self) -> Tensor:
        return self.packed[:, self.n_features : self.n_features + self.n_targets]

    @property
    def weight(self) -> Tensor | None:
        return self.packed[:, -1] if self.packed.shape[1] > self.n_features + self.n_targets else None


class Batch(NamedTuple):
    """The rows of a step that this process has, or those of several steps: places of ``order`` from ``first`` to ``end``.

    Without an order, (0,), rows have their own. A step has ``size`` rows, the last one perhaps fewer; ``n_rows`` is the
    number of rows of all processes.
    """

    rows: Rows
    order: Array
    first: int
    end: int
    size: int
    n_rows: int

    @classmethod
    def of(cls, rows: Rows, n_rows: int | None = None) -> Batch:
        """All rows of a table, in their own order, in one step."""
        return cls(rows, _OWN_ORDER, 0, len(rows), len(rows), len(rows) if n_rows is None else n_rows)

    @property
    def n_steps(self) -> int:
        return -(-(self.end - self.first) // self.size) if self.size else 1

    @property
    def sizes(self) -> list[int]:
        """The rows of each step, of all processes."""
        return [self.size] * (self.n_steps - 1) + [self.n_rows - self.size * (self.n_steps - 1)]

    def steps(self) -> list[Batch]:
        """Each step on its own."""
        if self.n_steps == 1:
            return [self]
        spans = ((first, min(first + self.size, self.end)) for first in range(self.first, self.end, self.size))
        return [Batch(self.rows, self.order, first, end, end - first, end - first) for first, end in spans]

    def gathered(self) -> Rows:
        """The rows in a table of their own."""
        packed = self.rows.packed
        if len(self.order):
            places = torch.from_numpy(self.order[self.first : self.end]).to(packed.device)
            return Rows(packed.index_select(0, places), self.rows.n_features, self.rows.n_targets)
        return Rows(packed[self.first : self.end], self.rows.n_features, self.rows.n_targets)


# Parameters and optimisers


class FlatParameters:
    """One contiguous buffer for the parameters of a system, which become views of it, and one for the gradient.

    Trainable parameters come first: ``free`` is the beginning of ``values`` with the beginning of ``gradient`` as its
    gradient, which an optimiser is given. ``offsets`` tell where each named parameter begins. ``terms`` are those of the
    rules, which a run may change, and ``slopes`` those of the consequents, if they are trained.
    """

    def __init__(self, system: T1FLS | IT2FLS, frozen: Mapping[str, Tensor] | None = None) -> None:
        named = sorted(system.named_parameters(), key=lambda item: not item[1].requires_grad)
        self._parameters = [parameter for _, parameter in named]
        self.values = torch.cat([p.detach().reshape(-1) for p in self._parameters])
        self.gradient = torch.zeros_like(self.values)
        self.offsets: dict[str, int] = {}
        place = n_free = 0
        for name, parameter in named:
            end = place + parameter.numel()
            self.offsets[name] = place
            parameter.data = self.values[place:end].view_as(parameter)
            if parameter.requires_grad:
                parameter.grad = self.gradient[place:end].view_as(parameter)
                n_free = end
            place = end
        self.free = nn.Parameter(self.values[:n_free])
        self.free.grad = self.gradient[:n_free]
        self.terms = system.antecedents.terms
        slopes = system.consequents.raw_slopes
        self.slopes = slopes if slopes is not None and slopes.requires_grad else None
        self.limits = self._limited(system.antecedents.bounds, frozen or {})
        self.project()

    def _limited(self, bounds: Tensor | None, frozen: Mapping[str, Tensor]) -> tuple[int, Array, Array] | None:
        """Where the trainable parameters that have limits begin, their least and their largest values; None without."""
        if bounds is None and not frozen:
            return None
        low, high = (torch.full_like(self.values, end) for end in (-torch.inf, torch.inf))
        if bounds is not None:
            for name, (least, largest) in (("raw_centers", bounds[:2]), ("raw_sigmas", bounds[2:])):
                place = self.offsets[f"antecedents.{name}"]
                low[place : place + least.numel()] = least.reshape(-1)
                high[place : place + least.numel()] = largest.reshape(-1)
        for name, mask in frozen.items():
            place = self.offsets[name]
            chosen = place + mask.reshape(-1).nonzero().reshape(-1).to(low.device)
            low[chosen] = high[chosen] = self.values[chosen]
        limited = torch.isfinite(low[: self.free.numel()]).nonzero().reshape(-1)
        if not len(limited):
            return None
        first, end = int(limited[0]), int(limited[-1]) + 1
        return first, low[first:end].cpu().numpy().copy(), high[first:end].cpu().numpy().copy()

    def project(self) -> None:
        """Clamp the trainable parameters to their limits, which are equal for frozen ones."""
        if self.limits is None:
            return
        first, *ends = self.limits
        part = self.values[first : first + len(ends[0])]
        low, high = (torch.from_numpy(end).to(part.device) for end in ends)
        torch.clamp(part, low, high, out=part)

    def release(self) -> None:
        """Give every parameter memory of its own again, and no gradient."""
        for parameter in self._parameters:
            parameter.data = parameter.data.clone()
            parameter.grad = None

    def put(self, values: Tensor) -> None:
        """Replace the trainable parameters by a vector."""
        with torch.no_grad():
            self.free.copy_(values)

    def copy(self) -> Tensor:
        """The trainable parameters as a vector of their own."""
        return self.free.detach().clone()


class TorchOptimizer:
    """Any optimiser of torch on the flat vector, with clipping before it, and decay and limits after it.

    The decay moves the slopes of the consequents towards their mean over the rules. The data tell little about the slopes
    of a rule that fires for few rows. Pulled towards zero they would flatten the system; pulled towards each other they
    keep the trend that all rows support.
    """

    def __init__(self, config: TrainConfig, flat: FlatParameters) -> None:
        self._config, self._flat = config, flat
        self._optimizer = config.build_optimizer([flat.free])

    def update(self, rate: float) -> None:
        """Take a step along the gradient, at a rate."""
        flat, config = self._flat, self._config
        if config.gradient_clip is not None:
            nn.utils.clip_grad_norm_([flat.free], config.gradient_clip)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        if config.weight_decay and flat.slopes is not None:
            with torch.no_grad():
                mean = flat.slopes.mean(dim=0, keepdim=True)
                flat.slopes.lerp_(mean, min(rate * config.weight_decay, 1.0))
        flat.project()

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Plain values and tensors from which a run continues."""
        entries = self._optimizer.state_dict()["state"].get(0, {})
        tensors = {name: value.detach() for name, value in entries.items() if isinstance(value, Tensor)}
        return {name: value for name, value in entries.items() if name not in tensors}, tensors

    def load(self, plain: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Continue from :meth:`state`."""
        entries = {**plain, **tensors}
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": {0: entries} if entries else {}, "param_groups": groups})


class CompiledAdam:
    """As :class:`TorchOptimizer` with Adam, by :func:`deepfls.kernels.parameters.update`, which takes rule and arrays."""

    def __init__(self, config: TrainConfig, flat: FlatParameters) -> None:
        from deepfls.kernels import parameters  # here: Numba is slow to import

        self._kernel = parameters.update
        self._theta, self._gradient = flat.values.numpy(), flat.gradient.numpy()
        n_free = flat.free.numel()
        means, squares = np.zeros_like(self._theta[:n_free]), np.zeros_like(self._theta[:n_free])
        limited, low, high = flat.limits or (0, means[:0], means[:0])
        self.arrays = (means, squares, low, high)
        options = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, **config.optimizer_options}
        fields = {"beta1": options["betas"][0], "beta2": options["betas"][1], "eps": options["eps"], "limited": limited}
        fields |= {"l2": options["weight_decay"], "decay": config.weight_decay}
        fields["clip"] = math.inf if config.gradient_clip is None else config.gradient_clip
        if flat.slopes is not None:
            n_rules = len(flat.slopes)
            fields |= {"n_rules": n_rules, "n_columns": flat.slopes.numel() // n_rules}
            fields["slopes"] = flat.offsets["consequents.raw_slopes"]
        self.rule = np.zeros(1, parameters.UPDATE)
        for name, value in fields.items():
            self.rule[name] = value

    @staticmethod
    def serves(config: TrainConfig, flat: FlatParameters) -> bool:
        """True if the settings ask for Adam with no other options than the compiled update takes."""
        is_adam = config.optimizer_class() is torch.optim.Adam
        return is_adam and set(config.optimizer_options) <= _ADAM_OPTIONS and can_compile(flat.values)

    def update(self, rate: float) -> None:
        self._kernel(self._theta, self._gradient, self.rule, self.arrays, rate)

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        means, squares = map(torch.from_numpy, self.arrays[:2])
        return {"step": int(self.rule["n_done"][0])}, {"exp_avg": means, "exp_avg_sq": squares}

    def load(self, plain: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.rule["n_done"] = int(plain["step"])
        for array, name in zip(self.arrays, ("exp_avg", "exp_avg_sq"), strict=False):
            array[:] = tensors[name].numpy()


def optimizer_for(config: TrainConfig, flat: FlatParameters) -> TorchOptimizer | CompiledAdam:
    """The optimiser of the settings, by its compiled update where there is one."""
    return CompiledAdam(config, flat) if CompiledAdam.serves(config, flat) else TorchOptimizer(config, flat)


# Steps


def step_for(system: T1FLS | IT2FLS, loss: LossFunction, flat: FlatParameters) -> ByKernel | ByAutograd:
    """The fastest step that is valid for a system and a loss."""
    step = compiled_step(system, loss, flat.offsets)
    return ByAutograd(system, loss, flat) if step is None else ByKernel(system, step, flat)


def mean_loss(loss_function: LossFunction, system: T1FLS | IT2FLS, rows: Rows, number: int = 0) -> Tensor:
    """Mean over outputs and samples, by weight where there are weights.

    ``number`` is that of the step: a loss of all quantiles takes other levels in every step.
    """
    if isinstance(loss_function, QuantileLoss):
        ends_at = getattr(system, "ends_at", None)
        if ends_at is None:
            raise TypeError(f"loss='quantiles' must come with a GT2FLS, which has planes, got a {type(system).__name__}.")
        alphas = loss_function.alphas(rows.target, number)
        y, y_right = ends_at(rows.x, alphas)
        losses = loss_function(y, y_right, rows.target, alphas)
    elif isinstance(loss_function, SetLoss):
        reduced = getattr(system, "reduce", None)
        if reduced is None:
            kind = type(system).__name__
            raise TypeError(f"coverage must be None for a system without a type-reduced set, got a {kind}.")
        y_left, y_right, y = reduced(rows.x)
        losses = loss_function(y_left, y_right, y, rows.target)
    else:
        y = system(rows.x)
        losses = loss_function(y, rows.target)
    losses = check_loss_values(losses, y, weighted=rows.weight is not None)
    # Weights have mean 1 over all rows, so a batch's own sum need not divide: it may be 0.
    return losses.mean() if rows.weight is None else (losses.mean(dim=1) * rows.weight).mean()


class ByAutograd:
    """Any system and any loss."""

    def __init__(self, system: T1FLS | IT2FLS, loss: LossFunction, flat: FlatParameters) -> None:
        self._system, self._loss, self._flat = system, loss, flat

    def warm_up(self) -> None:
        """Compile what a step needs, without a loss."""
        with torch.no_grad():
            self._system(self._flat.values.new_zeros(1, self._system.n_features))

    def __call__(self, batch: Batch, share: float = 1.0, number: int = 0) -> Tensor:
        """``share`` times the mean loss of step ``number``; its gradient is left in the flat vector.

        A device that computes asynchronously may not have finished.
        """
        self._flat.gradient.zero_()
        loss = mean_loss(self._loss, self._system, batch.gathered(), number) * share
        loss.backward()
        return loss.detach()


class ByKernel:
    """A compiled step on the memory of the flat vectors."""

    def __init__(self, system: T1FLS | IT2FLS, step: CompiledStep, flat: FlatParameters) -> None:
        self._system, self._step = system, step
        self._theta, self._gradient = flat.values.numpy(), flat.gradient.numpy()
        self._packed: Tensor | None = None  # the table of ``_rows``, which is checked

    def warm_up(self) -> None:
        """Compile or load the machine code, without a loss."""
        like = self._system.antecedents.raw_centers
        row = torch.zeros(1, self._system.n_features + self._step.n_targets, dtype=like.dtype)
        self(Batch.of(Rows(row, self._system.n_features, self._step.n_targets)))
        self._gradient[:] = 0.0

    def _array(self, rows: Rows) -> Array:
        if rows.packed is not self._packed:
            check_batch(rows.x, self._system.n_features, self._system.antecedents.raw_centers)
            self._packed, self._rows = rows.packed, rows.packed.numpy()
        return self._rows

    def __call__(self, batch: Batch, share: float = 1.0, number: int = 0) -> float:
        rows, order, first, end, _, _ = batch
        return self._step(self._theta, self._gradient, self._array(rows), order, first, end - first, share, number)

    def is_divided(self, batch: Batch) -> bool:
        """Whether the rows of a step are divided over threads."""
        return self._step.is_divided(batch.size)

    def run(self, batch: Batch, rates: list[float], number: int, adam: CompiledAdam) -> list[Tensor | float]:
        """The losses of all steps of a batch, in one compiled call that updates the parameters after each."""
        update = adam.rule, adam.arrays
        rows, places = self._array(batch.rows), batch[1:5]
        return self._step.run(self._theta, self._gradient, rows, places, number, update, np.array(rates)).tolist()


def take_steps(
    step: ByKernel | ByAutograd,
    optimizer: TorchOptimizer | CompiledAdam,
    batch: Batch,
    rates: list[float],
    number: int,
    flat: FlatParameters,
    group: Group,
) -> Iterator[tuple[Batch, list[Tensor | float]]]:
    """Take the steps of a batch, the first one number ``number``: parts of the batch, and the losses of their steps.

    All steps are one compiled call, unless something has to happen between gradient and update, or threads divide a step.
    """
    alone = group.size == 1
    if alone and isinstance(step, ByKernel) and isinstance(optimizer, CompiledAdam) and not step.is_divided(batch):
        yield batch, step.run(batch, rates, number, optimizer)
        return
    for k, (one, rate) in enumerate(zip(batch.steps(), rates, strict=True)):
        loss = step(one, number=number + k) if alone else summed_step(step, one, number + k, flat, group)
        optimizer.update(rate)
        yield one, [loss]


def summed_step(step: ByKernel | ByAutograd, batch: Batch, number: int, flat: FlatParameters, group: Group) -> Tensor:
    """Mean loss and gradient over the rows of all processes, each process counting by its rows.

    Both are sent as one vector: a message takes about a millisecond whatever its size.
    """
    loss: Tensor | float = 0.0
    size = batch.end - batch.first
    if size:
        loss = step(batch, size / batch.n_rows, number)
    else:
        flat.gradient.zero_()
    gradient = flat.gradient[: flat.free.numel()]
    message = torch.cat([gradient, gradient.new_tensor([loss]) if isinstance(loss, float) else loss.reshape(1)])
    group.total(message)
    gradient.copy_(message[:-1])
    return message[-1]
