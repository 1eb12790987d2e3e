"""Whether compiled kernels may be used: a switch for everything, and the conditions that tensors must meet."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

import torch
from torch import Tensor

from deepfls.functional.tracing import is_traced

_OFF: ContextVar[bool] = ContextVar("deepfls_kernels_off", default=False)


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
