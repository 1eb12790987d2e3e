"""A step of Adam without what torch does around it: for a thousand parameters that takes five times as long as the step."""

from __future__ import annotations

import torch
from torch.optim import optimizer as torch_optimizer

# Options that are passed on here, and such that must be off. One that is in neither is left to torch.
_PASSED = {"params", "lr", "betas", "eps", "weight_decay", "maximize", "fused", "foreach"}
_OFF = {"amsgrad", "capturable", "differentiable", "decoupled_weight_decay"}


@torch.no_grad()
def repeat_adam(optimizer: torch.optim.Optimizer) -> bool:
    """Take another step of a fused Adam, with its state where torch keeps it, and say True.

    False, and nothing done, for other optimisers and options, and for a first step, which makes the state.
    """
    if type(optimizer) is not torch.optim.Adam or len(optimizer.param_groups) != 1 or _is_watched(optimizer):
        return False
    (group,) = optimizer.param_groups
    parameters = group["params"]
    others = group.keys() - _PASSED
    if not group["fused"] or not others <= _OFF or any(group[name] for name in others):
        return False
    if len(optimizer.state) != len(parameters):
        return False
    gradients = [p.grad for p in parameters]
    if any(gradient is None for gradient in gradients):
        return False
    states = [optimizer.state[p] for p in parameters]
    steps = [state["step"] for state in states]
    if not all(step.is_cpu for step in steps):
        return False
    for step in steps:
        count = step.numpy()
        count += 1.0
    beta1, beta2 = group["betas"]
    torch._fused_adam_(
        parameters,
        gradients,
        [state["exp_avg"] for state in states],
        [state["exp_avg_sq"] for state in states],
        [],
        steps,
        amsgrad=False,
        beta1=beta1,
        beta2=beta2,
        lr=group["lr"],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        maximize=group["maximize"],
    )
    return True


def _is_watched(optimizer: torch.optim.Optimizer) -> bool:
    """Whether someone wants to be told of its steps."""
    own = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    return bool(own or torch_optimizer._global_optimizer_pre_hooks or torch_optimizer._global_optimizer_post_hooks)
