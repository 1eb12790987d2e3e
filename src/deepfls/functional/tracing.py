"""Whether torch records operations instead of only running them."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad


def is_traced() -> bool:
    """True under torch.compile, export, jit, torch.func and forward-mode derivatives: only plain operations are valid."""
    # torch has no public question for the last three.
    return bool(
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or forward_ad._current_level >= 0
        or torch._C._are_functorch_transforms_active()
    )
