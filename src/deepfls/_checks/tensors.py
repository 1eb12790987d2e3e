"""Checks of tensors: shapes, dtypes, values, and whether operations on them are recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


def check_tensor(name: str, value: Any) -> Tensor:
    """Return ``value`` if it is a floating-point tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(value).__name__}.")
    if not value.is_floating_point():
        raise TypeError(f"{name} must have a floating-point dtype, got {value.dtype}.")
    if value.layout != torch.strided:
        raise TypeError(f"{name} must be dense, got {value.layout}: to_dense() makes it so.")
    return value


def check_alike(name: str, value: Tensor, like_name: str, like: Tensor) -> None:
    """Require the dtype and the device of ``like``."""
    if value.dtype != like.dtype:
        raise TypeError(f"{name} must have the dtype of {like_name}, {like.dtype}, got {value.dtype}.")
    if value.device != like.device:
        raise ValueError(f"{name} must be on the device of {like_name}, {like.device}, got {value.device}.")


def check_batch(x: Any, n_features: int, parameter: Tensor) -> Tensor:
    """Return ``x`` if it is a batch ``(batch, features)`` that fits a module holding ``parameter``."""
    check_tensor("x", x)
    if x.ndim != 2 or x.shape[1] != n_features:
        raise ValueError(f"x must have shape (batch, features) with features={n_features}, got {tuple(x.shape)}.")
    check_alike("x", x, "the module's parameters", parameter)
    return x


def check_rule_tensors(consequents: Any, **firing: Any) -> None:
    """Check ``consequents`` (batch, rules, outputs) and tensors (batch, rules) that belong to it; reads no values."""
    for name, value in firing.items():
        check_tensor(name, value)
        if value.ndim != 2 or value.shape[1] < 1:
            raise ValueError(f"{name} must have shape (batch, rules) with at least one rule, got {tuple(value.shape)}.")
    check_tensor("consequents", consequents)
    first_name, first = next(iter(firing.items()))
    for name, value in firing.items():
        if value.shape != first.shape:
            raise ValueError(f"{name} must have the shape of {first_name}, {tuple(first.shape)}, got {tuple(value.shape)}.")
        check_alike(name, value, first_name, first)
    if consequents.ndim != 3 or consequents.shape[:2] != first.shape or consequents.shape[2] < 1:
        raise ValueError(
            "consequents must have shape (batch, rules, outputs) with at least one output and "
            f"batch={first.shape[0]}, rules={first.shape[1]} as in {first_name}, got {tuple(consequents.shape)}."
        )
    check_alike("consequents", consequents, first_name, first)


def _require(holds: Tensor, rule: str, *values: Tensor, advice: str = "") -> None:
    """Raise an error at the first element for which a rule does not hold; of two values the first is too large."""
    if not holds.is_meta and not holds.all():  # a tensor of the device "meta" has no values
        at = tuple(int(i) for i in (~holds).nonzero()[0])
        got = " > ".join(f"{value[at].item():g}" for value in values)
        raise ValueError(f"{rule}, got {got} at index {at}{advice}.")


def _check_finite_values(name: str, value: Tensor) -> None:
    _require(torch.isfinite(value), f"{name} must be finite", value)


def check_firing_values(lower_firing: Tensor, upper_firing: Tensor, consequents: Tensor) -> None:
    """Require finite values, 0 <= lower <= upper, and some upper firing in every sample. Reads values."""
    for name, value in (("lower_firing", lower_firing), ("upper_firing", upper_firing), ("consequents", consequents)):
        _check_finite_values(name, value)
    _require(lower_firing >= 0, "lower_firing must not be negative", lower_firing)
    check_order_values("lower_firing", lower_firing, "upper_firing", upper_firing)
    fires = (upper_firing > 0).any(dim=1)
    if not fires.all():
        sample = int((~fires).nonzero()[0])
        raise ValueError(
            f"upper_firing must be positive for at least one rule of every sample, got zeros in sample {sample}."
        )


def check_assigned_values(name: str, value: Any, like: Tensor) -> Tensor:
    """Return ``value`` as a finite tensor with the shape, dtype and device of the parameter ``like``. Reads values."""
    try:
        value = torch.as_tensor(value, dtype=like.dtype, device=like.device).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must be convertible to a tensor, got {type(value).__name__}.") from error
    try:
        value = value.expand(like.shape)
    except RuntimeError:
        raise ValueError(f"{name} must have shape {tuple(like.shape)}, got {tuple(value.shape)}.") from None
    _check_finite_values(name, value)
    return value


def check_range_values(name: str, value: Tensor, minimum: float, maximum: float) -> None:
    """Require ``minimum <= value <= maximum`` everywhere. Reads values."""
    _require((value >= minimum) & (value <= maximum), f"{name} must be between {minimum:g} and {maximum:g}", value)


def check_magnitude_values(name: str, value: Tensor) -> None:
    """Require numbers whose squares are finite in their dtype with room to spare. Reads values."""
    largest = 1e15 if value.dtype == torch.float32 else 1e150
    if value.numel():
        low, high = value.aminmax()
        if low >= -largest and high <= largest:  # false for NaN; a fifth of the time of looking for the place
            return
    _require(
        value.abs() <= largest, f"{name} must be within ±{largest:g} in {value.dtype}", value, advice="; scale the data"
    )


def check_equal_values(name: str, value: Tensor, expected: float, where: str) -> None:
    """Require ``value == expected`` everywhere, because of ``where``. Reads values."""
    _require(value == expected, f"{name} must be {expected:g} {where}", value)


def check_order_values(lower_name: str, lower: Tensor, upper_name: str, upper: Tensor) -> None:
    """Require ``lower <= upper`` everywhere. Reads values."""
    _require(lower <= upper, f"{lower_name} must not exceed {upper_name}", lower, upper)


def check_loss_values(losses: Any, y: Tensor, weighted: bool) -> Tensor:
    """Return what a loss gave as (batch, values); a scalar stays one, where no weights are to be applied."""
    if not isinstance(losses, Tensor):
        raise TypeError(f"loss must return a torch.Tensor, got {type(losses).__name__}.")
    if losses.ndim == 0 and not weighted:
        return losses
    if losses.ndim == 0 or len(losses) != len(y):
        also = "" if weighted else "a scalar or "
        why = " so that sample weights can apply" if weighted else ""
        raise ValueError(f"loss must return {also}shape (batch, ...) with batch={len(y)}{why}, got {tuple(losses.shape)}.")
    return losses.reshape(len(y), -1)


@contextlib.contextmanager
def usual_torch() -> Iterator[None]:
    """A context in which gradients are recorded, nothing is cast and new tensors are on the CPU, whatever surrounds it."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        yield


def is_traced() -> bool:
    """True under torch.compile, export, jit, torch.func and forward-mode derivatives: only plain operations are valid."""
    # torch has no public function for the last three.
    return bool(
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or forward_ad._current_level >= 0
        or torch._C._are_functorch_transforms_active()
    )
