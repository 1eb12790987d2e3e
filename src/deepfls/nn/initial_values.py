"""Random values of new parameters, from torch's generator or without touching it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import torch
from torch import Tensor, nn

_SEPARATE: ContextVar[bool] = ContextVar("_SEPARATE", default=False)


@contextlib.contextmanager
def separate_generator() -> Iterator[None]:
    """A context in which new modules do not draw from torch's generator, for values that are replaced later.

    Unlike ``torch.random.fork_rng`` it may overlap with the work of other threads, because it restores nothing.
    """
    token = _SEPARATE.set(True)
    try:
        yield
    finally:
        _SEPARATE.reset(token)


def draw_normal(values: Tensor) -> None:
    """Fill a tensor from the standard normal distribution."""
    nn.init.normal_(values, generator=_generator(values))


def draw_uniform(values: Tensor, largest: float = 1.0) -> None:
    """Fill a tensor with uniform values from 0 to ``largest``."""
    nn.init.uniform_(values, 0.0, largest, generator=_generator(values))


def _generator(values: Tensor) -> torch.Generator | None:
    return torch.Generator(values.device) if _SEPARATE.get() else None
