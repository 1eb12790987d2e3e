"""How kernels are compiled, and where their machine code is kept.

Numba keys cached machine code on the file of a function only: an edit of a file whose kernels are called from another file
would leave stale code. Here the code is kept in a folder named after a digest of all files that enter it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import config as _config
from numba import njit as _njit
from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys

from deepfls.functional import constants

# Numba's type hints lack the cache folder and the options for functions that only compiled code calls.
config: Any = _config
njit: Any = _njit

# The licence to reorder sums lets LLVM vectorise them. The flags that assume away NaN and infinity stay off, and a division
# by zero gives NaN as in NumPy instead of raising.
_OPTIONS: Any = {"nogil": True, "fastmath": {"reassoc", "contract"}, "error_model": "numpy"}
# Folders of earlier sources that are kept, for other processes that still run them.
_KEPT = 2
_LOCK = threading.Lock()


def _cache_folder() -> Path | None:
    """The first folder that can be written to, or None: code is then compiled anew in every process."""
    sources = [*sorted(Path(__file__).parent.glob("*.py")), Path(constants.__file__)]
    digest = hashlib.sha256(b"\0".join(path.name.encode() + b"\0" + path.read_bytes() for path in sources)).hexdigest()
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "deepfls"
    given = [Path(config.CACHE_DIR)] if config.CACHE_DIR else []
    for base in (*given, Path(__file__).parent / "__pycache__", user):
        folder = base / f"kernels-{digest[:20]}"
        with contextlib.suppress(OSError):
            if not folder.is_dir():
                folder.mkdir(parents=True, exist_ok=True)
                folders = sorted(base.glob("kernels-*"), key=lambda path: path.stat().st_mtime)
                for old in folders[: -1 - _KEPT]:
                    shutil.rmtree(old, ignore_errors=True)
            if os.access(folder, os.W_OK):
                return folder
    return None


_FOLDER = _cache_folder()


class _KeptCode(FunctionCache):
    """Machine code on disk. It is loaded without what Numba needs for compiling alone, which takes a fourth of a second.

    Numba's own method calls ``target_context.refresh()``: counts of references, all functions, and all their types.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)  # the first of the three; the compiler does the rest where it is needed
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that Python calls: compiled on first call, kept on disk where a folder can be written to."""
    kernel = njit(**_OPTIONS)(function)
    if _FOLDER is not None:
        with _LOCK:  # Numba reads CACHE_DIR when a cache is made, not later
            before = config.CACHE_DIR
            config.CACHE_DIR = str(_FOLDER)
            try:
                kernel._cache = _KeptCode(function)  # as with the option `cache`
            finally:
                config.CACHE_DIR = before
    return kernel


def inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of kernels, called from compiled code only: its machine code is kept with that of its callers."""
    return njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of one function, as if it stood in its text: a function of its own would be optimised a second time there."""
    return njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, inline="always", **_OPTIONS)(function)
