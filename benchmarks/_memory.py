"""Growth of the resident memory of a process during a call, as the operating system reports it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

STATUS = Path("/proc/self/status")
# Writing 5 to this file resets the peak to the present use: proc(5).
_RESET = Path("/proc/self/clear_refs")


def resident_growth(function: Callable[[], object]) -> int:
    """Bytes by which the peak of the resident memory during a call exceeds its use before the call."""
    if not STATUS.exists():
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        function()
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit
    _RESET.write_text("5", encoding="ascii")
    before = _kilobytes("VmRSS")
    function()
    return max(0, _kilobytes("VmHWM") - before) * 1024


def _kilobytes(name: str) -> int:
    found = re.search(rf"^{name}:\s*(\d+) kB$", STATUS.read_text(encoding="ascii"), flags=re.MULTILINE)
    assert found is not None
    return int(found.group(1))


def in_new_process(function: Callable[..., Result], *arguments: object) -> Result:
    """Result of a call in a process of its own: memory that an allocator keeps from earlier work would hide growth."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()
