"""Where compiled kernels and hand-written gradients reach, and where plain tensor operations are required."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

Array = np.ndarray[Any, np.dtype[Any]]


def is_traced() -> bool:
    """Whether someone looks at the operations: torch.compile, export, jit, torch.func, forward-mode derivatives."""
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None or forward_ad._current_level >= 0:
        return True
    return torch._C._are_functorch_transforms_active()


def can_use_kernels(*tensors: Tensor) -> bool:
    """Whether the compiled kernels can be used: on the CPU, all in float32 or all in float64, and not traced."""
    dtype = tensors[0].dtype
    if dtype not in (torch.float32, torch.float64) or not all(t.is_cpu and t.dtype is dtype for t in tensors):
        return False
    return not is_traced()


class Stage(Protocol):
    """A piece of the arithmetic on the CPU with its own gradient, in arrays: compiled kernels and matrix products.

    One object serves one forward pass and the backward passes that belong to it.
    """

    def forward(self, *inputs: Any) -> tuple[Array, ...]:
        """The outputs for contiguous inputs, of which some may be None."""

    def backward(self, grads: Sequence[Array], wanted: Sequence[bool]) -> tuple[Array | None, ...]:
        """Gradients of the inputs from those of the outputs; of those that are not wanted perhaps None."""


def staged(stage: Stage, formula: Callable[..., tuple[Tensor, ...]], *inputs: Tensor | None) -> tuple[Tensor, ...]:
    """The outputs of a stage as tensors. ``formula`` is the same in plain operations, for derivatives of derivatives."""
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs):
        return _Staged.apply(stage, formula, *inputs)
    with quietly():
        return tuple(map(torch.from_numpy, stage.forward(*map(_array_or_none, inputs))))


def quietly() -> np.errstate:
    """Without the warnings that NumPy gives where torch goes on with NaN or infinity."""
    return np.errstate(all="ignore")


def array_of(tensor: Tensor) -> Array:
    """The memory of a tensor as a contiguous array."""
    return (tensor.detach() if tensor.requires_grad else tensor).contiguous().numpy()


def _array_or_none(tensor: Tensor | None) -> Array | None:
    return None if tensor is None else array_of(tensor)


class _Staged(torch.autograd.Function):
    """A stage as torch sees it."""

    @staticmethod
    def forward(ctx: Any, stage: Stage, formula: Callable[..., tuple[Tensor, ...]], *inputs: Tensor | None) -> Any:
        ctx.save_for_backward(*inputs)
        ctx.stage, ctx.formula = stage, formula
        # Copies: what leaves may be changed in place, and the stage may need it to go back.
        with quietly():
            return tuple(torch.from_numpy(output.copy()) for output in stage.forward(*map(_array_or_none, inputs)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        inputs = ctx.saved_tensors  # raises where one was changed in place
        if torch.is_grad_enabled():
            return None, None, *_plain_gradients(ctx.formula, inputs, grads)
        with quietly():
            found = ctx.stage.backward([array_of(grad) for grad in grads], ctx.needs_input_grad[2:])
        # Copies: a second backward pass through the same graph finds its results in the same memory.
        return None, None, *(None if grad is None else torch.from_numpy(grad.copy()) for grad in found)


def _plain_gradients(
    formula: Callable[..., tuple[Tensor, ...]], inputs: Sequence[Tensor | None], grads: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    """Gradients of the inputs through plain operations, for a backward pass that will itself be differentiated."""
    # By views of the inputs: one input may be made from another, whose gradient is not to come from here twice.
    own = [None if t is None else t.view_as(t) for t in inputs]
    asked = [t for t in own if t is not None and t.requires_grad]
    found = iter(torch.autograd.grad(formula(*own), asked, grads, create_graph=True, allow_unused=True))
    return tuple(next(found) if t is not None and t.requires_grad else None for t in own)
