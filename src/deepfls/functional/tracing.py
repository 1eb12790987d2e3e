"""Where compiled kernels and hand-written gradients reach, and where plain tensor operations are required."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


def is_traced(*tensors: Tensor) -> bool:
    """Whether someone looks at the operations: torch.compile, export, jit, torch.func, forward-mode derivatives."""
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None or forward_ad._current_level >= 0:
        return True
    return any(torch._C._functorch.is_functorch_wrapped_tensor(t) for t in tensors)


def can_use_kernels(*tensors: Tensor) -> bool:
    """Whether the compiled kernels can be used: on the CPU, in float32 or float64, and not traced."""
    first = tensors[0]
    return first.device.type == "cpu" and first.dtype in (torch.float32, torch.float64) and not is_traced(*tensors)


class _Forgetful:
    """The context of a forward pass that no backward pass will follow."""

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep nothing."""


def applied(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Apply an autograd function, or only its forward pass where no gradient is asked for: a third of a small call."""
    if torch.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in arguments):
        return function.apply(*arguments)
    return function.forward(_Forgetful(), *arguments)


def plain_gradients(
    formula: Callable[..., Tensor | tuple[Tensor, ...]], inputs: Sequence[Tensor | None], grads: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    """Gradients of the inputs through plain operations, for a backward pass that will itself be differentiated."""
    outputs = formula(*inputs)
    asked = [t for t in inputs if t is not None and t.requires_grad]
    found = iter(torch.autograd.grad(outputs, asked, grads, create_graph=True, allow_unused=True))
    return tuple(next(found) if t is not None and t.requires_grad else None for t in inputs)
