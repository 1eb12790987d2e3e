"""All parameters of a system in one vector, its gradient in a second one; steps, optimisers and decay that act on both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from deepfls._checks.tensors import check_batch, check_loss_values
from deepfls.functional.losses import QuantileLoss, SetLoss
from deepfls.kernels import CompiledStep, can_compile, compiled_step
from deepfls.training.batches import Batch, Rows

if TYPE_CHECKING:
    from deepfls.nn.systems import IT2FLS, T1FLS
    from deepfls.training.config import TrainConfig

Array = np.ndarray[Any, np.dtype[Any]]
LossFunction = Callable[..., Tensor]

# Options of Adam that the compiled update takes.
_ADAM_OPTIONS = {"betas", "eps", "weight_decay"}


class FlatParameters:
    """One contiguous buffer for the parameters of a system, which become views of it, and one for the gradient.

    Trainable parameters come first, so that everything that changes them acts on the beginning of both buffers.

    Attributes
    ----------
    values, gradient : Tensor, shape (parameters,)
    free : Parameter, shape (trainable parameters,)
        The beginning of ``values``, with the beginning of ``gradient`` as its gradient: what an optimiser is given.
    offsets : dict of str to int
        Where each named parameter begins.
    terms : Tensor or None
        The term of every rule and feature, which a run may change, of a system that has them.
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
        self._limits = self._limited(system.antecedents.bounds, frozen or {})
        self.project()

    def _limited(self, bounds: Tensor | None, frozen: Mapping[str, Tensor]) -> tuple[Any, Any, Any] | None:
        """The part of the trainable parameters that has limits, its least and its largest values; None without limits.

        As arrays on the CPU, where NumPy's calls take a fraction of the time of torch's.
        """
        if bounds is None and not frozen:
            return None
        n_free = self.free.numel()
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
        limited = torch.isfinite(low[:n_free]).nonzero().reshape(-1)
        if not len(limited):
            return None
        part = slice(int(limited[0]), int(limited[-1]) + 1)
        values, least, largest = self.free.detach()[part], low[part].clone(), high[part].clone()
        if self.values.device.type == "cpu":
            return values.numpy(), least.numpy(), largest.numpy()
        return values, least, largest

    def project(self) -> None:
        """Put every trainable parameter that left its limits back to the nearest one: frozen ones where they were."""
        if self._limits is None:
            return
        part, low, high = self._limits
        if isinstance(part, Tensor):
            torch.clamp(part, low, high, out=part)
        else:
            np.minimum(np.maximum(part, low, out=part), high, out=part)

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

        A device may still compute it.
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
        self._table: tuple[Tensor, ...] = ()

    def warm_up(self) -> None:
        """Compile or load the machine code, without a loss."""
        row = torch.zeros(1, self._system.n_features + self._step.n_targets, dtype=self._system.centers.dtype)
        self(Batch.of(Rows(row, self._system.n_features, self._step.n_targets)))
        self._gradient[:] = 0.0

    def __call__(self, batch: Batch, share: float = 1.0, number: int = 0) -> float:
        rows, order, first, size, _ = batch
        if not self._table or rows.packed is not self._table[0]:
            check_batch(rows.x, self._system.n_features, self._system.centers)
            self._table = (rows.packed,)
            self._rows = rows.packed.numpy()
        return self._step(self._theta, self._gradient, self._rows, order, first, size, share, number)


class SlopeDecay:
    """Moves the slopes of the consequents towards their mean over the rules.

    The data tell little about the slopes of a rule that fires for few rows. Pulled towards zero they would flatten the
    system; pulled towards each other they keep the trend that all rows support.
    """

    def __init__(self, system: T1FLS | IT2FLS, flat: FlatParameters) -> None:
        slopes = system.consequents.raw_slopes
        self._slopes = slopes if slopes is not None and slopes.requires_grad else None
        self._kernel: Any = None
        if self._slopes is not None and can_compile(flat.values):
            from deepfls.kernels.updates import decay_towards_mean  # here: Numba is slow to import

            n_rules = system.n_rules
            place = flat.offsets["consequents.raw_slopes"]
            self._kernel = decay_towards_mean
            self._arguments = (flat.values.numpy(), place, n_rules, self._slopes.numel() // n_rules)

    def __call__(self, share: float) -> None:
        """Move the slopes by ``share`` of the way."""
        if self._kernel is not None:
            self._kernel(*self._arguments, share)
        elif self._slopes is not None:
            with torch.no_grad():
                self._slopes.lerp_(self._slopes.mean(dim=0, keepdim=True), share)


class TorchOptimizer:
    """Any optimiser of torch on the flat vector."""

    def __init__(self, config: TrainConfig, flat: FlatParameters) -> None:
        self._optimizer = config.build_optimizer([flat.free])

    def update(self, rate: float) -> None:
        """Take a step along the gradient, at a rate."""
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Plain values and tensors to go on from."""
        entries = self._optimizer.state_dict()["state"].get(0, {})
        tensors = {name: value.detach() for name, value in entries.items() if isinstance(value, Tensor)}
        return {name: value for name, value in entries.items() if name not in tensors}, tensors

    def load(self, plain: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Go on from :meth:`state`."""
        entries = {**plain, **tensors}
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": {0: entries} if entries else {}, "param_groups": groups})


class CompiledAdam:
    """Adam in one compiled call: for a thousand parameters torch's takes ten times as long around its arithmetic."""

    def __init__(self, config: TrainConfig, flat: FlatParameters) -> None:
        from deepfls.kernels.updates import adam_update  # here: Numba is slow to import

        self._kernel = adam_update
        self._theta, self._gradient = flat.free.detach().numpy(), flat.gradient[: flat.free.numel()].numpy()
        self._means, self._squares = np.zeros_like(self._theta), np.zeros_like(self._theta)
        self._n_steps = 0
        options = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, **config.optimizer_options}
        self._options = (*map(float, options["betas"]), float(options["eps"]), float(options["weight_decay"]))

    @staticmethod
    def serves(config: TrainConfig, flat: FlatParameters) -> bool:
        """True if the settings ask for Adam with no other options than the compiled update takes."""
        is_adam = config.optimizer_class() is torch.optim.Adam
        return is_adam and set(config.optimizer_options) <= _ADAM_OPTIONS and can_compile(flat.values)

    def update(self, rate: float) -> None:
        self._n_steps += 1
        self._kernel(self._theta, self._gradient, self._means, self._squares, self._n_steps, rate, *self._options)

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        vectors = {"exp_avg": torch.from_numpy(self._means), "exp_avg_sq": torch.from_numpy(self._squares)}
        return {"step": self._n_steps}, vectors

    def load(self, plain: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self._n_steps = int(plain["step"])
        self._means[:], self._squares[:] = tensors["exp_avg"].numpy(), tensors["exp_avg_sq"].numpy()


def optimizer_for(config: TrainConfig, flat: FlatParameters) -> TorchOptimizer | CompiledAdam:
    """The optimiser of the settings, by its compiled update where there is one."""
    return CompiledAdam(config, flat) if CompiledAdam.serves(config, flat) else TorchOptimizer(config, flat)
