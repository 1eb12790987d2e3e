"""The compiled end points as a differentiable torch operation, for :func:`deepfls.functional.karnik_mendel`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepfls.kernels import end_points
from deepfls.kernels.threads import n_parts_of, over_parts

# End points as plain tensor operations with the switch points held fixed: (lower, upper, consequents, y_left, y_right).
PlainEnds = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
# About how many multiply-adds of a matrix product take the time of a rule's part in the sweeps.
_WORK_OF_A_RULE = 40


def compiled_end_points(
    lower: Tensor, upper: Tensor, consequents: Tensor, logs: bool, plain: PlainEnds
) -> tuple[Tensor, Tensor]:
    """End points, each (batch, outputs), from (log-)firing (batch, rules) and consequents (batch, rules, outputs).

    ``plain`` gives the same in operations that can be differentiated again.
    """
    return _EndPoints.apply(lower, upper, consequents, logs, plain)


def _arrays(*tensors: Tensor) -> list[Any]:
    return [tensor.detach().contiguous().numpy() for tensor in tensors]


def _by_output(consequents: Tensor) -> Tensor:
    return consequents.detach().permute(2, 0, 1)


class _EndPoints(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lower: Tensor, upper: Tensor, consequents: Tensor, logs: bool, plain: PlainEnds) -> Any:
        batch, n_rules, n_outputs = consequents.shape
        y_left, y_right = consequents.new_empty(batch, n_outputs), consequents.new_empty(batch, n_outputs)
        low, up, y, left, right = _arrays(lower, upper, _by_output(consequents), y_left, y_right)

        def run(_: int, first: int, end: int) -> None:
            part = slice(first, end)
            own = np.ascontiguousarray(y[:, part])
            end_points.ends_of_rows(low[part], up[part], own, logs, left[part], right[part])

        over_parts(run, batch, n_parts_of(batch, _WORK_OF_A_RULE * n_rules * n_outputs))
        ctx.save_for_backward(lower, upper, consequents, y_left, y_right)
        ctx.logs, ctx.plain = logs, plain
        return y_left, y_right

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        lower, upper, consequents, y_left, y_right = ctx.saved_tensors  # raises if one was changed in place
        if torch.is_grad_enabled():  # the gradient will itself be differentiated
            # Views, because one input may be computed from another, whose gradient must not be counted twice.
            inputs = [tensor.view_as(tensor) for tensor in (lower, upper, consequents)]
            asked = [tensor for tensor in inputs if tensor.requires_grad]
            ends = ctx.plain(*inputs, y_left.detach(), y_right.detach())
            found = iter(torch.autograd.grad(ends, asked, grads, create_graph=True, allow_unused=True))
            return *(next(found) if tensor.requires_grad else None for tensor in inputs), None, None
        to_lower, to_upper = torch.empty_like(lower), torch.empty_like(upper)
        y = _by_output(consequents).contiguous()
        to_y = torch.empty_like(y)
        given = _arrays(lower, upper, y, y_left, y_right, *grads)
        results = [to_lower.numpy(), to_upper.numpy(), to_y.numpy()]
        low, up, ys, left, right, by_left, by_right = given

        def run(_: int, first: int, end: int) -> None:
            part = slice(first, end)
            own = np.ascontiguousarray(ys[:, part])
            own_result = np.empty_like(own)
            end_points.end_gradients_of_rows(
                low[part], up[part], own, ctx.logs, left[part], right[part], by_left[part], by_right[part],
                results[0][part], results[1][part], own_result,
            )  # fmt: skip
            results[2][:, part] = own_result

        batch, n_rules, n_outputs = consequents.shape
        over_parts(run, batch, n_parts_of(batch, _WORK_OF_A_RULE * n_rules * n_outputs))
        return to_lower, to_upper, to_y.permute(1, 2, 0), None, None
