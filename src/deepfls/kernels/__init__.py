"""The compiled twin of ``functional`` and ``nn`` on the CPU: a training step, outputs, end points. Only here is Numba used.

:func:`compiled_step` is the entrance. ``DEEPFLS_KERNELS=0`` or :func:`kernels_off` leave everything to plain operations.
May import ``_checks``, ``_files`` and ``functional``; Numba is imported on first use, because that is slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepfls.kernels.entrance import CompiledOutputs, CompiledStep, compiled_outputs, compiled_step
    from deepfls.kernels.forms import SystemForm
    from deepfls.kernels.switch import can_compile, kernels_off

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
    if name == "SystemForm":
        from deepfls.kernels.forms import SystemForm

        return SystemForm
    if name in __all__:
        from deepfls.kernels import entrance, switch

        return getattr(switch if hasattr(switch, name) else entrance, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
