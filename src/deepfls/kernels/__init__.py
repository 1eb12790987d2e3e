"""The compiled twin of ``functional`` and ``nn`` on the CPU: a training step, outputs, end points. Only here is Numba used.

:func:`compiled_step` is the entrance. ``DEEPFLS_KERNELS=0`` or :func:`kernels_off` leave everything to plain operations.
May import ``_checks``, ``_files`` and ``functional``; Numba is imported on first use, because that is slow.
"""

from deepfls.kernels.entrance import CompiledOutputs, CompiledStep, SystemForm, compiled_outputs, compiled_step
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
