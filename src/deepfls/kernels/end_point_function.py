"""Compiled end points as a differentiable torch operation, behind ``functional.karnik_mendel``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from deepfls.kernels.end_points import end_gradients_of_rows, ends_of_rows
from deepfls.kernels.threads import n_parts_of, over_parts

# About how many multiply-adds of a matrix product take the time of a rule's part in the sweeps.
_WORK_OF_A_RULE = 40
# End points as plain tensor operations with the switch points held fixed: (lower, upper, consequents, y_left, y_right).
PlainEnds = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


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
        results = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in inputs]
        _over_rows(end_gradients_of_rows, ctx.logs, *inputs, ends, torch.stack(grads, dim=1), *results)
        return *results, None, None
