"""The mean loss of a batch and its gradients, by autograd or by the kernels of the system themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from deepfls._checks import check_batch, check_loss_values, check_type_reduced
from deepfls.functional.loss_terms import LossTerms, terms_of
from deepfls.functional.losses import SetLoss
from deepfls.functional.tracing import Array, array_of, quietly
from deepfls.nn.systems import IT2FLS, T1FLS, whole_stage
from deepfls.nn.whole import Whole, raw_parameters
from deepfls.training.rows import Rows
from deepfls.training.threads import OneTorchThread, side_by_side

LossFunction = Callable[..., Tensor]
# What a stage does for the parameters alone, it does in every part: that is little beside so many rows.
_ROWS_OF_A_PART = 128
# A loss, and the gradients of raw_parameters.
Part = tuple[float, Sequence[Array | None]]


class Gradients(Protocol):
    """How a step gets its gradients."""

    def __call__(self, rows: Rows, share: float = 1.0) -> Tensor | float:
        """``share`` times the mean loss of some rows; its gradients are left in ``.grad`` of the parameters.

        They may lie in memory that the next call uses again. The loss is a number where it is known already, and a tensor
        where a device may still be at it.
        """

    def warm_up(self) -> None:
        """Compile or load the kernels, without a loss."""

    def take_threads(self) -> AbstractContextManager[None]:
        """Use as many threads as torch has now. The result is to be entered for every step, and left after it."""


def gradients_of(system: T1FLS | IT2FLS, loss_function: LossFunction, parameters: list[nn.Parameter]) -> Gradients:
    """By kernels where that can be done: on the CPU, with a loss whose slopes are known, and nobody watching on the way."""
    by_autograd = ByAutograd(system, loss_function, parameters)
    stage, terms = whole_stage(system), terms_of(loss_function)
    # A loss of a set on a system that has none is left to the way that refuses it with a reason.
    fits = isinstance(system, IT2FLS) or not isinstance(loss_function, SetLoss)
    if stage is None or terms is None or not fits or any(map(_is_watched, parameters)):
        return by_autograd
    used = [p for p in raw_parameters(system.antecedents, system.consequents) if p is not None]
    if len({id(p) for p in used}) < len(used):  # one parameter in two places, whose gradients add up
        return by_autograd
    return ByKernels(system, stage, terms, by_autograd)


def _is_watched(parameter: nn.Parameter) -> bool:
    """Whether someone wants to see its gradient on the way, or its memory cannot be used as it is."""
    hooks = parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None)
    return bool(hooks) or not parameter.is_contiguous()


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
        self._system, self.loss_function, self._parameters = system, loss_function, parameters

    def warm_up(self) -> None:
        self._system(self._parameters[0].new_zeros(1, self._system.n_features)).sum().backward()
        for parameter in self._parameters:
            parameter.grad = None

    def take_threads(self) -> AbstractContextManager[None]:
        return nullcontext()  # torch has them

    def __call__(self, rows: Rows, share: float = 1.0) -> Tensor:
        for parameter in self._parameters:
            parameter.grad = None
        loss = mean_loss(self.loss_function, self._system, rows) * share
        loss.backward()
        return loss.detach()


class ByKernels:
    """Systems on the CPU with a loss whose slopes are known: no graph is built, and memory is used again in every step.

    With several threads each takes a part of the rows all the way to its gradients, and the parts are added up.
    """

    def __init__(
        self,
        system: T1FLS | IT2FLS,
        stage: Whole,
        terms: Callable[..., LossTerms],
        by_autograd: ByAutograd,
    ) -> None:
        self._system, self._stages, self._terms, self._by_autograd = system, [stage], terms, by_autograd
        self._of_set = isinstance(by_autograd.loss_function, SetLoss)
        self._parameters = raw_parameters(system.antecedents, system.consequents)
        self._places: list[int] = []
        self._values: list[Array | None] = []
        self._gradients: list[tuple[Tensor, Tensor]] = []

    def warm_up(self) -> None:
        row = torch.zeros_like(self._parameters[0][:1])  # centers have a column for every feature
        with quietly():
            outputs = self._stages[0].forward(array_of(row), *self._current_values())
            self._stages[0].backward([np.zeros_like(output) for output in outputs], (False,))

    def take_threads(self) -> AbstractContextManager[None]:
        n_threads = torch.get_num_threads()
        while len(self._stages) < n_threads:
            stage = whole_stage(self._system)
            if stage is None:  # someone began to watch since the first one was made
                break
            self._stages.append(stage)
        return OneTorchThread(n_threads) if len(self._stages) > 1 else nullcontext()

    def __call__(self, rows: Rows, share: float = 1.0) -> Tensor | float:
        check_batch(rows.x, self._parameters[0].shape[1], self._parameters[0])
        loss = self._backward(rows, share)
        # None for targets of another shape or dtype, which torch broadcasts or casts.
        return self._by_autograd(rows, share) if loss is None else loss

    def _backward(self, rows: Rows, share: float) -> float | None:
        values = self._current_values()
        n_parts = min(len(self._stages), len(rows) // _ROWS_OF_A_PART)
        part = self._part(0, rows, share, values) if n_parts <= 1 else self._added_up(n_parts, rows, share, values)
        if part is None:
            return None
        loss, found = part
        self._leave(found)
        return loss

    def _added_up(self, n_parts: int, rows: Rows, share: float, values: list[Array | None]) -> Part | None:
        """The parts of the rows, each by a stage of its own, added up in the memory of the first."""
        bounds = np.linspace(0, len(rows), n_parts + 1, dtype=int).tolist()
        parts: list[Part | None] = [None] * n_parts

        def fill(number: int) -> None:
            own = rows.between(bounds[number], bounds[number + 1])
            parts[number] = self._part(number, own, share * len(own) / len(rows), values)

        side_by_side(fill, n_parts)
        whole = [part for part in parts if part is not None]
        if len(whole) < n_parts:
            return None
        loss, found = whole[0]
        for other_loss, others in whole[1:]:
            loss += other_loss
            for gradient, other in zip(found, others, strict=True):
                if gradient is not None:
                    gradient += other
        return loss, found

    def _part(self, number: int, rows: Rows, share: float, values: list[Array | None]) -> Part | None:
        """``share`` times the mean loss of some rows, and its gradients in memory of a stage."""
        stage = self._stages[number]
        with quietly():  # NumPy's warnings are a matter of the thread
            outputs = stage.forward(array_of(rows.x), *values)
            y = outputs[0] if len(outputs) == 1 else 0.5 * (outputs[0] + outputs[1])
            seen = (*outputs, y) if self._of_set else (y,)
            losses, slopes = self._terms(*seen, array_of(rows.target))
            if any(slope.shape != y.shape or slope.dtype != y.dtype for slope in slopes):
                return None
            # The mean over all entries, and the weights of the rows, are factors of the slopes.
            scale: Any = share / max(losses.size, 1)
            if rows.weight is None:
                loss = np.add.reduce(losses, axis=None) * scale
            else:
                scale = array_of(rows.weight)[:, None] * scale
                loss = np.add.reduce(losses * scale, axis=None)
            return float(loss), stage.backward(self._slopes_of_outputs(len(outputs), slopes, scale), (False,))[1:]

    def _slopes_of_outputs(self, n_outputs: int, slopes: Sequence[Array], scale: Any) -> list[Array]:
        """``scale`` times the slopes, for the output or for both ends, whose middle the crisp output is."""
        if n_outputs == 1:
            return [slopes[-1] * scale]
        half = slopes[-1] * (0.5 * scale)
        return [slope * scale + half for slope in slopes[:2]] if self._of_set else [half, half]

    def _current_values(self) -> list[Array | None]:
        """The memory of the parameters, which may have moved since the step before."""
        places = [0 if p is None else p.data_ptr() for p in self._parameters]
        if places != self._places:
            self._places = places
            self._values = [None if p is None else array_of(p) for p in self._parameters]
        return self._values

    def _leave(self, found: Sequence[Array | None]) -> None:
        """Hand gradients over. The stage leaves them at the same place after every step."""
        if not self._gradients:
            pairs = zip(self._parameters, found, strict=True)
            self._gradients = [(p, torch.from_numpy(g)) for p, g in pairs if p is not None]
        for parameter, gradient in self._gradients:
            if parameter.requires_grad and parameter.grad is not gradient:
                parameter.grad = gradient
