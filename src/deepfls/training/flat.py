"""All parameters of a system in one vector, its gradient in a second one; optimisers that act on both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from deepfls._checks.values import Array
from deepfls.kernels import can_compile

if TYPE_CHECKING:
    from deepfls.nn.systems import IT2FLS, T1FLS
    from deepfls.training.recipe import TrainConfig

# Options of Adam that the compiled update takes.
_ADAM_OPTIONS = {"betas", "eps", "weight_decay"}


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
        """Put every trainable parameter that left its limits back to the nearest one: frozen ones where they were."""
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
