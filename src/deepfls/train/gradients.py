"""The mean loss of a batch and its gradients, by autograd or by the kernels of the system themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from deepfls._checks import check_loss_values, check_type_reduced
from deepfls.functional.losses import SetLoss, slopes_of
from deepfls.functional.tracing import Array, array_of, quietly
from deepfls.nn.systems import IT2FLS, T1FLS, whole_stage
from deepfls.nn.whole import Whole, raw_parameters
from deepfls.train.rows import Rows

LossFunction = Callable[..., Tensor]


class Gradients(Protocol):
    """How a step gets its gradients."""

    def __call__(self, rows: Rows, share: float = 1.0) -> Tensor:
        """``share`` times the mean loss of some rows; its gradients are left in ``.grad`` of the parameters."""

    def warm_up(self) -> None:
        """Compile or load the kernels, without a loss."""


def gradients_of(system: T1FLS | IT2FLS, loss_function: LossFunction, parameters: list[nn.Parameter]) -> Gradients:
    """By kernels where that can be done: on the CPU, with a loss whose slopes are known, and nobody watching on the way."""
    stage, slopes = whole_stage(system), slopes_of(loss_function)
    watched = any(p._backward_hooks or not p.is_contiguous() for p in parameters)
    # A loss of a set on a system that has none is left to the way that refuses it with a reason.
    fits = isinstance(system, IT2FLS) or not isinstance(loss_function, SetLoss)
    if stage is None or slopes is None or watched or not fits:
        return ByAutograd(system, loss_function, parameters)
    return ByKernels(system, stage, loss_function, slopes)


def mean_loss(loss_function: LossFunction, system: T1FLS | IT2FLS, rows: Rows) -> Tensor:
    """Mean over outputs and samples, by weight where there are weights."""
    if isinstance(loss_function, SetLoss):
        y_left, y_right, y = check_type_reduced(system).reduce(rows.x)
        losses = loss_function(y_left, y_right, y, rows.target)
    else:
        y = system(rows.x)
        losses = loss_function(y, rows.target)
    return _mean(check_loss_values(losses, y, weighted=rows.weight is not None), rows.weight)


def _mean(losses: Tensor, weight: Tensor | None) -> Tensor:
    # Weights have mean 1 over all rows, so a batch's own sum need not divide: it may be 0.
    return losses.mean() if weight is None else (losses.mean(dim=1) * weight).mean()


class ByAutograd:
    """Any system and any loss."""

    def __init__(self, system: T1FLS | IT2FLS, loss_function: LossFunction, parameters: list[nn.Parameter]) -> None:
        self._system, self._loss_function, self._parameters = system, loss_function, parameters

    def warm_up(self) -> None:
        self._system(self._parameters[0].new_zeros(1, self._system.n_features)).sum().backward()
        for parameter in self._parameters:
            parameter.grad = None

    def __call__(self, rows: Rows, share: float = 1.0) -> Tensor:
        for parameter in self._parameters:
            parameter.grad = None
        loss = mean_loss(self._loss_function, self._system, rows) * share
        loss.backward()
        return loss.detach()


class ByKernels:
    """Systems on the CPU with a loss whose slopes are known: no graph is built, and memory is used again in every step."""

    def __init__(
        self,
        system: T1FLS | IT2FLS,
        stage: Whole,
        loss_function: LossFunction,
        slopes: Callable[..., tuple[Array, ...]],
    ) -> None:
        self._stage, self._slopes, self._loss_function = stage, slopes, loss_function
        self._of_set = isinstance(loss_function, SetLoss)
        self._parameters = raw_parameters(system.antecedents, system.consequents)
        self._gradients: list[tuple[Tensor, Tensor]] = []
        self._values = [None if parameter is None else array_of(parameter) for parameter in self._parameters]

    def warm_up(self) -> None:
        row = torch.zeros_like(self._parameters[0][:1])  # centers have a column for every feature
        outputs = self._stage.forward(array_of(row), *self._values)
        self._stage.backward([np.zeros_like(output) for output in outputs], (False,))

    def __call__(self, rows: Rows, share: float = 1.0) -> Tensor:
        with quietly():
            return self._backward(rows, share)

    def _backward(self, rows: Rows, share: float) -> Tensor:
        outputs = self._stage.forward(array_of(rows.x), *self._values)
        if len(outputs) == 2:
            outputs = (*outputs, 0.5 * (outputs[0] + outputs[1]))
        seen = outputs if self._of_set else outputs[-1:]
        losses = self._loss_function(*map(torch.from_numpy, seen), rows.target)
        # The mean over all entries, and the weights of the rows, are factors of the slopes.
        factor = share / max(losses.numel(), 1)
        scale = factor if rows.weight is None else array_of(rows.weight)[:, None] * factor
        grads = [slope * scale for slope in self._slopes(*seen, array_of(rows.target))]
        if len(outputs) == 3:  # the crisp output is the middle of the ends
            half = 0.5 * grads[-1]
            grads = [grads[0] + half, grads[1] + half] if self._of_set else [half, half]
        found = self._stage.backward(grads, (False,))
        self._leave(found[1:])
        loss = _mean(losses, rows.weight)
        return loss if share == 1.0 else loss * share

    def _leave(self, found: Sequence[Array | None]) -> None:
        """Hand gradients over. The stage leaves them at the same place after every step."""
        if not self._gradients:
            pairs = zip(self._parameters, found, strict=True)
            self._gradients = [(p, torch.from_numpy(g)) for p, g in pairs if p is not None and p.requires_grad]
        for parameter, gradient in self._gradients:
            parameter.grad = gradient
