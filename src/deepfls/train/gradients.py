"""The mean loss of a batch and its gradients, by autograd or by the kernels of the system themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from deepfls._checks import check_loss_values, check_type_reduced
from deepfls.functional.losses import SetLoss, slopes_of
from deepfls.functional.tracing import array_of
from deepfls.nn.systems import IT2FLS, T1FLS, whole_stage
from deepfls.nn.whole import raw_parameters
from deepfls.train.rows import Rows

LossFunction = Callable[..., Tensor]


class Gradients(Protocol):
    """How a step gets its gradients."""

    def __call__(self, rows: Rows, share: float = 1.0) -> Tensor:
        """``share`` times the mean loss of some rows; its gradients are left in ``.grad`` of the parameters."""

    def warm_up(self) -> None:
        """Compile or load the kernels, without a loss."""


def gradients_of(system: T1FLS | IT2FLS, loss_function: LossFunction, parameters: list[nn.Parameter]) -> Gradients:
    """The faster of the two ways, where both can be gone."""
    if ByKernels.can_be_used(system, loss_function, parameters):
        return ByKernels(system, loss_function)
    return ByAutograd(system, loss_function, parameters)


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

    def __init__(self, system: T1FLS | IT2FLS, loss_function: LossFunction) -> None:
        from deepfls.functional._compiled import Workspace  # here: Numba is slow to import

        stage, slopes = whole_stage(system, Workspace()), slopes_of(loss_function)
        assert stage is not None and slopes is not None
        self._stage, self._slopes, self._loss_function = stage, slopes, loss_function
        self._of_set = isinstance(loss_function, SetLoss)
        self._parameters = raw_parameters(system.antecedents, system.consequents)
        self._values = [None if parameter is None else array_of(parameter) for parameter in self._parameters]

    @staticmethod
    def can_be_used(system: T1FLS | IT2FLS, loss_function: LossFunction, parameters: list[nn.Parameter]) -> bool:
        if slopes_of(loss_function) is None or whole_stage(system) is None:
            return False
        if isinstance(loss_function, SetLoss) and not isinstance(system, IT2FLS):
            return False  # which the other way refuses with a reason
        return all(p.is_contiguous() and not p._backward_hooks for p in parameters)

    def warm_up(self) -> None:
        centers = self._values[0]
        assert centers is not None
        outputs = self._stage.forward(np.zeros_like(centers[:1]), *self._values)
        self._stage.backward([np.zeros_like(output) for output in outputs], (False,))

    def __call__(self, rows: Rows, share: float = 1.0) -> Tensor:
        outputs = list(map(torch.from_numpy, self._stage.forward(array_of(rows.x), *self._values)))
        if len(outputs) == 2:
            outputs.append(torch.lerp(*outputs, 0.5))
        seen = outputs if self._of_set else outputs[-1:]
        losses = self._loss_function(*seen, rows.target)
        slopes = self._slopes(*seen, rows.target)
        # The mean over all entries, and the weights of the rows, as factors of the slopes.
        factor = share / max(losses.numel(), 1)
        scale = factor if rows.weight is None else rows.weight.unsqueeze(1) * factor
        grads = [slope * scale for slope in slopes]
        if len(outputs) == 2 + 1:
            half = 0.5 * grads[-1]
            grads = [half, half] if len(grads) == 1 else [grads[0] + half, grads[1] + half]
        _, *found = self._stage.backward([grad.numpy() for grad in grads], (False,))
        for parameter, grad in zip(self._parameters, found, strict=True):
            if parameter is not None and parameter.requires_grad:
                parameter.grad = torch.from_numpy(grad)
        loss = _mean(losses, rows.weight)
        return loss if share == 1.0 else loss * share
