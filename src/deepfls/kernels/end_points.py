# mypy: disable-error-code="no-untyped-def"
# (compiled functions: Numba infers the types)
"""End points of type-reduced sets and their gradients, row by row: the compiled Karnik-Mendel problem.

Both end points of a row are found together by Newton sweeps over scratch in float64: no sort, no allocation per row.
Scratch is flat, ``width`` numbers to a row: a slice for every row would cost more than a sweep over few rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepfls.functional.constants import TOLERANCE, max_sweeps
from deepfls.kernels.arithmetic import exponentials, index, largest
from deepfls.kernels.compiling import compiled, inner
from deepfls.kernels.threads import n_parts_of, over_parts

# Numbers in one piece of scratch: 12 kB, so that two or three of them share a first-level cache.
BLOCK_NUMBERS = 1536
# Up to so many rules a row is not padded: the longest loop is not vectorised, and rules of no weight would be more work.
_UNPADDED = 12

_ROUNDING = TOLERANCE * np.finfo(np.float64).eps
_max_sweeps = inner(max_sweeps)


@inner
def padded(n_rules):
    """Numbers of a row of scratch: rules of no weight fill it up, or a loop would do what is left over one by one."""
    return n_rules if n_rules <= _UNPADDED else (n_rules + 7) // 8 * 8


@inner
def copy_padded(source, first, n_rows, n_rules, width, target):
    """Copy some rows of source (any, rules) to flat scratch, padded with 0."""
    for row in range(n_rows):
        for p in range(n_rules):
            target[index(row * width, p)] = source[first + row, p]
        for p in range(n_rules, width):
            target[index(row * width, p)] = 0.0


@inner
def exponentials_of_rows(scratch, n_stacks, n_rows, n_rules, width, bits):
    """Replace the first stacks of scratch (stacks, block * width), log-firing of some rows, by firing; pads weigh nothing.

    The first stack holds upper bounds, the second lower ones: rounding may have moved one above the other by an ulp.
    """
    for stack in range(n_stacks):
        exponentials(scratch[stack, : n_rows * width], bits)
        for row in range(n_rows if width > n_rules else 0):
            for p in range(n_rules, width):
                scratch[stack, index(row * width, p)] = 0.0
    if n_stacks > 1:
        for i in range(n_rows * width):  # in this order NaN stays NaN
            scratch[1, i] = scratch[0, i] if scratch[0, i] < scratch[1, i] else scratch[1, i]


@inner
def average(y, y_start, firing, start, width):
    """Σ f y / Σ f and Σ f of one row of scratch; consequents begin ``y_start`` further on than firing."""
    y_start += start
    total = 0.0
    weighted = 0.0
    for p in range(width):
        f = firing[index(start, p)]
        total += f
        weighted += f * y[index(y_start, p)]
    return weighted / total, total


@inner
def _residuals(y, y_start, low, up, start, width, left, right):
    """Σ w (y_p - end) and Σ w for both ends of one row. Loads come before choices, so that the loop vectorises.

    A rule at an end itself adds nothing to the residual. It weighs what it will weigh once the end has moved on.
    """
    left_residual = 0.0
    left_sum = 0.0
    right_residual = 0.0
    right_sum = 0.0
    y_start += start
    for p in range(width):
        place = index(start, p)
        value = y[index(y_start, p)]
        f_low = low[place]
        f_up = up[place]
        left_weight = f_up if value < left else f_low
        right_weight = f_up if value > right else f_low
        left_residual += left_weight * (value - left)
        left_sum += left_weight
        right_residual += right_weight * (value - right)
        right_sum += right_weight
    return left_residual, left_sum, right_residual, right_sum


@inner
def find_ends(y, y_start, low, up, n_rows, n_rules, width, left, right, moving):
    """Fill left and right with both ends of some rows, for one output.

    An end is the zero of its residual, and a sweep is a step of Newton's method on it. The sweeps start from an attainable
    mean, so the left end only ever moves down and the right end only up. They stop on "no longer moves that way" rather
    than on "same switch point", which ties and rounding can alternate for ever. Residuals, not quotients of sums: a heavy
    rule would hide a light one in the quotient, and the sweeps would stop on the heavy one's consequent.

    Rows take their steps in turn: the sweeps of one row depend on each other, and those of its neighbours fill the time.
    """
    for row in range(n_rows):
        left[row], _ = average(y, y_start, up, row * width, width)
        right[row] = left[row]
        moving[row] = row
    n_moving = n_rows
    for _ in range(_max_sweeps(n_rules)):
        n_moved = 0
        for i in range(n_moving):
            row = moving[i]
            y_left = left[row]
            y_right = right[row]
            left_residual, left_sum, right_residual, right_sum = _residuals(
                y, y_start, low, up, row * width, width, y_left, y_right
            )
            # Where nothing weighs on a side, 0 / 0 compares false and the end stays.
            new_left = y_left + left_residual / left_sum
            new_right = y_right + right_residual / right_sum
            left[row] = new_left if new_left < y_left else y_left
            right[row] = new_right if new_right > y_right else y_right
            moving[n_moved] = row
            n_moved += (new_left < y_left) | (new_right > y_right)
        n_moving = n_moved
        if n_moving == 0:
            break
    for row in range(n_rows):  # a set of no width may come out inverted by an ulp
        y_left = left[row]
        left[row] = min(y_left, right[row])
        right[row] = max(y_left, right[row])


@inner
def add_end_gradients(y, y_start, low, up, start, width, logs, ends, by, to_low, to_up, to_y):
    """Add the gradients of one row and output to to_low, to_up and to_y (width,), by the envelope theorem.

    With the weights w chosen at an end and their shares s_p = w_p / Σ w: d end / dy_p = s_p, and for the bound in use
    d end / dw_p = (y_p - end) / Σ w or, for logarithms, d end / dlog w_p = s_p (y_p - end), which cannot overflow. Firing
    begins at ``start`` of its scratch, consequents ``y_start`` further on; ``ends`` and ``by`` are pairs, left and right.
    """
    left, right = ends
    y_start += start
    magnitude = 0.0
    for p in range(width):
        magnitude += abs(y[index(y_start, p)])
    # A rule whose consequent is an end up to rounding is on the inner side of it: it may carry all the weight there is, and
    # taking it for a rule beyond the end would divide by what is left.
    left_limit = left + _ROUNDING * magnitude
    right_limit = right - _ROUNDING * magnitude
    left_sum = 0.0
    right_sum = 0.0
    for p in range(width):
        place = index(start, p)
        value = y[index(y_start, p)]
        f_low = low[place]
        f_up = up[place]
        left_sum += f_up if value <= left_limit else f_low
        right_sum += f_up if value >= right_limit else f_low
    left_scale = by[0] / left_sum
    right_scale = by[1] / right_sum
    for p in range(width):
        place = index(start, p)
        value = y[index(y_start, p)]
        f_low = low[place]
        f_up = up[place]
        left_up = value <= left_limit
        right_up = value >= right_limit
        left_share = left_scale * (f_up if left_up else f_low)
        right_share = right_scale * (f_up if right_up else f_low)
        left_push = (value - left) * (left_share if logs else left_scale)
        right_push = (value - right) * (right_share if logs else right_scale)
        to_up[p] += (left_push if left_up else 0.0) + (right_push if right_up else 0.0)
        to_low[p] += (0.0 if left_up else left_push) + (0.0 if right_up else right_push)
        to_y[p] += left_share + right_share


@inner
def _load_bounds(lower, upper, logs, first, n_rows, width, firing, bits):
    """Copy upper and lower firing, or the exponentials of its logarithms, to scratch (2, block * width)."""
    n_rules = lower.shape[1]
    copy_padded(upper, first, n_rows, n_rules, width, firing[0])
    copy_padded(lower, first, n_rows, n_rules, width, firing[1])
    if logs:
        for row in range(n_rows):
            peak = np.float64(largest(upper, first + row, 0, n_rules))
            for p in range(n_rules):
                firing[0, index(row * width, p)] -= peak
                firing[1, index(row * width, p)] -= peak
        exponentials_of_rows(firing, 2, n_rows, n_rules, width, bits)


@compiled
def ends_of_rows(lower, upper, consequents, logs, y_left, y_right):
    """Fill the ends (batch, outputs) from (log-)firing, each (batch, rules), and consequents (outputs, batch, rules)."""
    n_outputs, batch, n_rules = consequents.shape
    width = padded(n_rules)
    block = max(1, BLOCK_NUMBERS // width)
    firing, y = np.empty((2, block * width)), np.empty(block * width)
    bits, moving = np.empty(block * width, np.int64), np.empty(block, np.int64)
    left, right = np.empty(block), np.empty(block)
    for first in range(0, batch, block):
        n_rows = min(block, batch - first)
        _load_bounds(lower, upper, logs, first, n_rows, width, firing, bits)
        for output in range(n_outputs):
            copy_padded(consequents[output], first, n_rows, n_rules, width, y)
            find_ends(y, 0, firing[1], firing[0], n_rows, n_rules, width, left, right, moving)
            for row in range(n_rows):
                y_left[first + row, output] = left[row]
                y_right[first + row, output] = right[row]


@compiled
def end_gradients_of_rows(lower, upper, consequents, logs, y_left, y_right, by_left, by_right, to_lower, to_upper, to_y):
    """Fill the gradients of what :func:`ends_of_rows` takes from those of its ends (batch, outputs)."""
    n_outputs, batch, n_rules = consequents.shape
    width = padded(n_rules)
    block = max(1, BLOCK_NUMBERS // width)
    firing, y = np.empty((2, block * width)), np.empty(n_outputs * block * width)
    up, low = firing[0], firing[1]
    row_low, row_up, row_y = np.empty(width), np.empty(width), np.empty(width)
    bits = np.empty(block * width, np.int64)
    for first in range(0, batch, block):
        n_rows = min(block, batch - first)
        _load_bounds(lower, upper, logs, first, n_rows, width, firing, bits)
        for output in range(n_outputs):
            copy_padded(consequents[output], first, n_rows, n_rules, width, y[output * block * width :])
        for row in range(n_rows):
            at = first + row
            row_low[:] = 0.0
            row_up[:] = 0.0
            for output in range(n_outputs):
                row_y[:] = 0.0
                ends = np.float64(y_left[at, output]), np.float64(y_right[at, output])
                by = np.float64(by_left[at, output]), np.float64(by_right[at, output])
                add_end_gradients(
                    y, output * block * width, low, up, row * width, width, logs, ends, by, row_low, row_up, row_y
                )
                for p in range(n_rules):
                    to_y[output, at, p] = row_y[p]
            for p in range(n_rules):
                to_lower[at, p] = row_low[p]
                to_upper[at, p] = row_up[p]


# The same as a differentiable torch operation, for functional.karnik_mendel

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
            ends_of_rows(low[part], up[part], own, logs, left[part], right[part])

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
            end_gradients_of_rows(
                low[part], up[part], own, ctx.logs, left[part], right[part], by_left[part], by_right[part],
                results[0][part], results[1][part], own_result,
            )  # fmt: skip
            results[2][:, part] = own_result

        batch, n_rules, n_outputs = consequents.shape
        over_parts(run, batch, n_parts_of(batch, _WORK_OF_A_RULE * n_rules * n_outputs))
        return to_lower, to_upper, to_y.permute(1, 2, 0), None, None
