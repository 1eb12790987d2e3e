"""The compiled twin of ``functional`` and ``nn`` on the CPU: a training step, outputs, end points. Only here is Numba used.

:func:`compiled_step` is the entrance. ``DEEPFLS_KERNELS=0`` or :func:`kernels_off` leave everything to plain operations.
May import ``_checks``, ``_files`` and ``functional``; Numba is imported on first use, because that is slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepfls.kernels.entrance import (
        CompiledOutputs,
        CompiledStep,
        can_compile,
        compiled_outputs,
        compiled_step,
        kernels_off,
    )
    from deepfls.kernels.forms import SystemForm

__all__ = [
    "CompiledOutputs",
    "CompiledStep",
    "SystemForm",
    "can_compile",
    "compiled_outputs",
    "compiled_step",
    "kernels_off",
]


def __getattr__(name: str) -> Any:
    # Imported when asked for: outputs of rows are computed without torch, which takes seconds to import.
    if name in __all__:
        from deepfls.kernels import entrance

        return getattr(entrance, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
