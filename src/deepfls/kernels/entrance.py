"""From a system and a loss to compiled calls: whether kernels may be used, what is served, on how many threads."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from deepfls._checks.tensors import is_traced
from deepfls._checks.values import Array
from deepfls.functional import losses
from deepfls.kernels.forms import SharedTerms, SystemForm, outputs_of_rows, record_of
from deepfls.kernels.threads import n_parts_of, one_blas_thread, over_parts

# Multiply-adds of rows whose products are so small that BLAS takes one thread by itself.
_SMALL_WORK = 100_000
# About how many multiply-adds of a matrix product take the time of a rule's part in the sweeps.
_WORK_OF_A_RULE = 40
# End points as plain tensor operations with the switch points held fixed: (lower, upper, consequents, y_left, y_right).
PlainEnds = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]

_OFF: ContextVar[bool] = ContextVar("deepfls_kernels_off", default=False)

# Code and option of the losses that have a compiled slope.
_LOSSES: dict[Callable[..., Tensor], tuple[int, str, float]] = {
    losses.l2: (0, "", 0.0),
    losses.l1: (1, "", 0.0),
    losses.huber: (2, "delta", 1.0),
    losses.log_cosh: (3, "", 0.0),
    losses.pinball: (4, "quantile", 0.5),
    losses.cross_entropy: (5, "", 0.0),
}
_QUANTILES = 6


def kernels_are_off() -> bool:
    """True inside :func:`kernels_off`, and if the environment variable DEEPFLS_KERNELS is 0."""
    return _OFF.get() or os.environ.get("DEEPFLS_KERNELS") == "0"


@contextlib.contextmanager
def kernels_off() -> Iterator[None]:
    """A context in which everything runs by plain torch operations."""
    token = _OFF.set(True)
    try:
        yield
    finally:
        _OFF.reset(token)


def can_compile(*tensors: Tensor) -> bool:
    """True if kernels can take these tensors: on the CPU, all float32 or all float64, and no operation is traced."""
    if is_traced():  # first: torch.compile does not trace what follows
        return False
    dtype = tensors[0].dtype
    if dtype not in (torch.float32, torch.float64) or not all(t.is_cpu and t.dtype is dtype for t in tensors):
        return False
    return not kernels_are_off()


class _System(Protocol):
    """A module that can describe itself to the kernels; ``form`` is None where they do not serve it as it is."""

    def form(self) -> SystemForm | None: ...

    def named_parameters(self) -> Any: ...


def compiled_step(
    system: _System, loss: Callable[..., Tensor], offsets: Mapping[str, int] | None = None
) -> CompiledStep | None:
    """The training step of a system with a loss of :mod:`deepfls.functional.losses`, compiled.

    None where there is none: other devices, dtypes and losses, tracing, hooks, modified or tied parts. ``offsets`` tell
    where each named parameter begins in the flat vector; by default they follow each other as in the system.
    """
    form = _served_form(system)
    if form is None or any(_is_hooked(parameter) for _, parameter in system.named_parameters()):
        return None
    settings = _loss_settings(loss, form)
    return None if settings is None else CompiledStep(form, offsets or _offsets_of(system), settings)


def compiled_outputs(system: _System) -> CompiledOutputs | None:
    """The outputs of a system without gradients, compiled; None where :func:`compiled_step` would be."""
    form = _served_form(system)
    return None if form is None else CompiledOutputs(form, system)


def _served_form(system: _System) -> SystemForm | None:
    form, parameters = system.form(), dict(system.named_parameters())
    if form is None or not can_compile(*parameters.values()):
        return None
    return form if set(form.parameters.values()) <= set(parameters) else None  # a parameter in two places has one name


def _is_hooked(parameter: nn.Parameter) -> bool:
    # torch has no public way to ask for the hooks of a tensor.
    return bool(parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None))


def _offsets_of(system: _System) -> dict[str, int]:
    names, sizes = zip(*((name, parameter.numel()) for name, parameter in system.named_parameters()), strict=True)
    return dict(zip(names, np.cumsum((0, *sizes[:-1])), strict=True))


def _loss_settings(loss: Callable[..., Tensor], form: SystemForm) -> dict[str, float] | None:
    """Fields of the record that describe a loss; None for one without a compiled slope."""
    if isinstance(loss, losses.QuantileLoss):
        # A system without planes has no quantiles to train: the plain operations raise the error.
        ends = {"trains_set": 1, "set_weight": 1.0}
        return {"loss": _QUANTILES, "n_targets": form.n_outputs, **ends} if form.n_planes else None
    if isinstance(loss, losses.SetLoss):
        point = None if loss.point is losses.cross_entropy else _loss_settings(loss.point, form)
        # A Type-1 system has no set to train: the plain operations raise the error.
        if point is None or not form.is_interval:
            return None
        return point | {"trains_set": 1, "tail": 0.5 * (1.0 - loss.coverage), "set_weight": loss.weight}
    function, options = (loss.func, loss.keywords) if isinstance(loss, functools.partial) and not loss.args else (loss, {})
    found = next((entry for known, entry in _LOSSES.items() if known is function), None)  # it need not be hashable
    if found is None:
        return None
    code, name, default = found
    n_targets = 1 if function is losses.cross_entropy else form.n_outputs
    return {"loss": code, "option": options.get(name, default), "n_targets": n_targets}


class _Compiled:
    """The record that describes a system and a loss to the kernels, and the shared terms of its rules."""

    def __init__(self, form: SystemForm, offsets: Mapping[str, int], settings: Mapping[str, float]) -> None:
        self._terms = SharedTerms(form, offsets)
        self._record, self._work_per_row = record_of(form, self._terms.offsets, settings), form.work_per_row


class CompiledStep(_Compiled):
    """Mean loss of a batch and its gradient, or steps with many batches, without the interpreter lock.

    Callers hold BLAS at one thread, :func:`one_blas_thread`, around many steps.
    """

    def __init__(self, form: SystemForm, offsets: Mapping[str, int], settings: Mapping[str, float]) -> None:
        from deepfls.kernels import parameters, step  # here: Numba is slow to import

        super().__init__(form, offsets, settings)
        self._kernel = step.step_kernel(form.is_interval, form.n_planes > 0, form.terms is not None)
        self._rule = np.zeros(1, parameters.UPDATE)
        self.n_targets = int(settings["n_targets"])

    def __call__(
        self,
        theta: Array,
        gradient: Array,
        rows: Array,
        order: Array,
        first: int,
        n_rows: int,
        share: float = 1.0,
        number: int = 0,
    ) -> float:
        """``share`` times the mean loss over rows and outputs; its gradient is written to ``gradient``.

        ``rows`` are a packed table (any, features + targets, perhaps a weight), contiguous, in the dtype of theta. Of the
        places in ``order``, or of the rows in their own order where it is empty, ``n_rows`` from ``first`` on are used. A
        loss of all quantiles takes the levels of the rows from the ``number`` of the step.
        """
        self._record["number"], self._record["batch_first"] = number, first
        n_parts = n_parts_of(n_rows, self._work_per_row)
        gradients = [gradient, *(np.empty_like(gradient) for _ in range(n_parts - 1))]
        scale, no_state, no_rates = share / (n_rows * self.n_targets), (theta[:0],) * 4, np.empty(0)

        def run(part: int, begin: int, end: int) -> float:
            loss, size = np.empty(1), end - begin
            self._kernel(
                theta, gradients[part], rows, order, first + begin, first + end, size, scale, self._record,
                self._terms.arrays(theta.dtype), self._rule, no_state, no_rates, loss,
            )  # fmt: skip
            return float(loss[0])

        loss = sum(over_parts(run, n_rows, n_parts))
        for other in gradients[1:]:
            gradient += other
        return loss

    def is_divided(self, n_rows: int) -> bool:
        """Whether the rows of a batch are divided over threads."""
        return n_parts_of(n_rows, self._work_per_row) > 1

    def run(self, theta: Array, gradient: Array, rows: Array, places: Any, number: int, update: Any, rates: Array) -> Array:
        """Mean losses of steps, the first one number ``number``, each followed by an update at its rate.

        ``places`` are the order, first and end of the rows, and the rows of a step; ``update`` the rule and the state of
        :func:`deepfls.kernels.parameters.update`.
        """
        self._record["number"] = number
        losses, shared = np.empty(len(rates)), self._terms.arrays(theta.dtype)
        self._kernel(theta, gradient, rows, *places, 0.0, self._record, shared, *update, rates, losses)
        return losses


class CompiledOutputs(_Compiled):
    """Ends of the type-reduced set and the crisp output of rows, in one compiled call."""

    def __init__(self, form: SystemForm, system: _System) -> None:
        from deepfls.kernels import step  # here: Numba is slow to import

        super().__init__(form, _offsets_of(system), {})
        self._kernel = step.row_kernel(False, form.is_interval, form.n_planes > 0)
        self._block_rows = step.BLOCK_ROWS
        self._parameters = [parameter for _, parameter in system.named_parameters()]

    def __call__(self, x: Array) -> Array:
        """(rows, 3, outputs): y_left, y_right and y, all three equal for Type-1 systems, of rows x (rows, features)."""
        theta = nn.utils.parameters_to_vector(self._parameters).detach().numpy()
        return outputs_of_rows(self._kernel, self._terms.expanded(theta), x, self._record)

    def over_rows(self, function: Callable[[int, int, int], None], n_rows: int) -> None:
        """Call ``function(part, first, end)`` for parts of rows, each in a thread of its own; BLAS has one thread in it.

        Parts begin at bounds of blocks, so that the bits of the outputs do not depend on the number of threads.
        """
        if n_rows * self._work_per_row < _SMALL_WORK:
            function(0, 0, n_rows)
        else:
            with one_blas_thread():
                over_parts(function, n_rows, n_parts_of(n_rows, self._work_per_row), self._block_rows)


# Compiled end points as a differentiable torch operation, behind functional.karnik_mendel


def compiled_end_points(
    lower: Tensor, upper: Tensor, consequents: Tensor, logs: bool, plain: PlainEnds
) -> tuple[Tensor, Tensor]:
    """End points, each (batch, outputs), from (log-)firing (batch, rules) and consequents (batch, rules, outputs).

    ``plain`` gives the same in operations that can be differentiated again.
    """
    return _EndPoints.apply(lower, upper, consequents, logs, plain)


def _over_rows(kernel: Callable[..., Any], logs: bool, *tensors: Tensor) -> None:
    """Call a kernel with the rows of all tensors, divided over threads; the third of them are consequents."""
    arrays = [tensor.detach().contiguous().numpy() for tensor in tensors]
    batch, n_rules, n_outputs = arrays[2].shape
    n_parts = n_parts_of(batch, _WORK_OF_A_RULE * n_rules * n_outputs)
    over_parts(lambda _, first, end: kernel(logs, *(array[first:end] for array in arrays)), batch, n_parts)


class _EndPoints(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lower: Tensor, upper: Tensor, consequents: Tensor, logs: bool, plain: PlainEnds) -> Any:
        from deepfls.kernels.end_points import ends_of_rows  # here: Numba is slow to import

        ends = consequents.new_empty(len(consequents), 2, consequents.shape[2])
        _over_rows(ends_of_rows, logs, lower, upper, consequents, ends)
        ctx.save_for_backward(lower, upper, consequents, ends)
        ctx.logs, ctx.plain = logs, plain
        return ends[:, 0].clone(), ends[:, 1].clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        *inputs, ends = ctx.saved_tensors  # raises if one was changed in place
        if torch.is_grad_enabled():  # the gradient will itself be differentiated
            # Views, because one input may be computed from another, whose gradient must not be counted twice.
            inputs = [tensor.view_as(tensor) for tensor in inputs]
            asked = [tensor for tensor in inputs if tensor.requires_grad]
            plain_ends = ctx.plain(*inputs, *ends.unbind(1))
            found = iter(torch.autograd.grad(plain_ends, asked, grads, create_graph=True, allow_unused=True))
            return *(next(found) if tensor.requires_grad else None for tensor in inputs), None, None
        from deepfls.kernels.end_points import end_gradients_of_rows

        results = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in inputs]
        _over_rows(end_gradients_of_rows, ctx.logs, *inputs, ends, torch.stack(grads, dim=1), *results)
        return *results, None, None
