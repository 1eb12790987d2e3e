"""Checkpoints: the state of a run in a folder, so that a run that was stopped at any moment continues to the same result.

A checkpoint is one safetensors file with a JSON description and a digest, flushed to disk before it takes its name, so a
file under its name is complete. The two newest are kept: if one is damaged, a run continues from the one before it. A lock,
which the system releases when the process ends, excludes a second run from the folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from deepfls._checks.values import Array
from deepfls._files import ArrayFormat, user_path, write_whole
from deepfls.training.distributed import Group

# A run as plain values and tensors.
State = tuple[dict[str, Any], dict[str, Tensor]]

_START = "start.safetensors"
_OWNER = "owner.txt"
_STEP = re.compile(r"step-(\d{12})\.safetensors")
_KEPT = 2


class CheckpointError(ValueError):
    """A checkpoint that cannot be written, or from which this run cannot continue."""


# Before version 2 every parameter was an array of its own.
_FORMAT = ArrayFormat("deepfls-checkpoint", 2, "checkpoint", CheckpointError, oldest=2)


class Interval(NamedTuple):
    """Steps between two checkpoints, or seconds; the other is None."""

    steps: int | None
    seconds: float | None


@dataclass(frozen=True)
class Checkpoints:
    """How a run keeps its state.

    Parameters
    ----------
    folder : path
        Made where there is none. One run at a time has it.
    every : int or str
        Steps between two checkpoints, or a time: 200, "30s", "5min", "1h".
    resume : bool
        Whether to continue from the newest checkpoint in the folder; without one the run starts from the beginning.

    Examples
    --------
    >>> Checkpoints("run", every="30s").interval
    Interval(steps=None, seconds=30.0)
    """

    folder: str | os.PathLike[str]
    every: int | str = 200
    resume: bool = False

    def __post_init__(self) -> None:
        _ = self.interval  # checked at once

    @property
    def interval(self) -> Interval:
        """Steps or seconds between two checkpoints."""
        if not isinstance(self.every, bool) and isinstance(self.every, (Integral, str)):
            found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h|)", str(self.every).strip())
            if found and found[2] == "" and re.fullmatch(r"0*[1-9]\d*", found[1]):
                return Interval(int(found[1]), None)
            if found and found[2] and float(found[1]) > 0:
                return Interval(None, float(found[1]) * {"s": 1.0, "min": 60.0, "h": 3600.0}[found[2]])
        raise ValueError(
            f"checkpoint_every must be a number of steps such as 200 or a time such as 30s, 5min or 1h, got {self.every!r}."
        )

    @contextlib.contextmanager
    def opened(self, settings: Mapping[str, Any], group: Group) -> Iterator[CheckpointFolder]:
        """The folder, locked for a run of these settings, after checking that it holds no other run."""
        folder = CheckpointFolder(self, settings, group)
        with contextlib.ExitStack() as stack:
            with group.together():
                if group.leads:
                    stack.enter_context(folder.locked())
                    folder.look()
            folder.share()
            yield folder


class CheckpointFolder:
    """The checkpoints of one run; the leader reads and writes them and sends what it read to the others."""

    def __init__(self, asked: Checkpoints, settings: Mapping[str, Any], group: Group) -> None:
        self.path = user_path(asked.folder)
        self.start: tuple[dict[str, Any], dict[str, Array]] | None = None
        self._asked = asked
        self._interval = asked.interval
        self._settings = json.loads(json.dumps(dict(settings)))
        self._group = group
        self.found: State | None = None  # of the run that continues
        self._contents = (b"", b"")
        self._written = time.monotonic()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """A context in which no other run can use the folder. The system frees the lock of a process that was killed."""
        from filelock import FileLock, Timeout  # here: keeps `import deepfls` light

        owner, name = self.path / _OWNER, ""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / "lock", timeout=0)
            lock.acquire()
        except Timeout:
            with contextlib.suppress(OSError):
                name = owner.read_text(encoding="utf-8")[:200]
            raise CheckpointError(
                f"checkpoint_dir must be used by one run at a time, got {str(self.path)!r}, which "
                f"{name or 'another process'} has in use."
            ) from None
        except OSError as error:
            raise CheckpointError(
                f"checkpoint_dir must be a folder that can be written to, got {str(self.path)!r} ({error.strerror})."
            ) from error
        with lock:
            with contextlib.suppress(OSError):  # only words of a message; a full disk is reported with the first checkpoint
                owner.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
            yield

    def look(self) -> None:
        """Find what an earlier run left, and take away what it could not finish writing."""
        for unfinished in self.path.glob(".*.safetensors.*.tmp"):
            unfinished.unlink(missing_ok=True)
        steps = self._steps()
        if not steps:
            return
        if not self._asked.resume:
            raise CheckpointError(
                f"checkpoint_dir must be an empty folder for a new run, got {str(self.path)!r} with a checkpoint of step "
                f"{_number(steps[-1])}: continue from it with resume=True (--resume), or give another folder."
            )
        start = (self.path / _START).read_bytes()
        description, _ = _FORMAT.unpacked(start, self.path / _START)
        check_same_run(description["settings"], self._settings, self.path)
        problem: CheckpointError | None = None
        for step in reversed(steps):
            try:
                content = step.read_bytes()
                _FORMAT.unpacked(content, step)
            except (CheckpointError, OSError) as error:
                problem = problem or CheckpointError(str(error))
                warnings.warn(f"{error} The checkpoint before it is used.", stacklevel=2)
                continue
            self._contents = (start, content)
            return
        assert problem is not None
        raise problem

    def share(self) -> None:
        """Send what the leader found to every process."""
        start, content = (self._group.same_bytes(part) for part in self._contents)
        self._contents = (b"", b"")
        if content:
            self.start = _FORMAT.unpacked(start, self.path / _START)
            description, arrays = _FORMAT.unpacked(content, self.path)
            self.found = description, {name: torch.from_numpy(value.copy()) for name, value in arrays.items()}

    def begin(self, description: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Store what is known before the first step of a run."""
        self._write(_START, {**description, "settings": self._settings}, arrays)

    def due(self, n_steps: int) -> bool:
        steps, seconds = self._interval
        if steps is not None:
            return n_steps % steps == 0
        return seconds is not None and time.monotonic() - self._written >= seconds

    def keep(self, state: State) -> None:
        """Write a checkpoint; the one before it is kept, and older ones are deleted."""
        if not self._group.leads:
            return
        description, tensors = state
        arrays = {name: value.detach().cpu().numpy() for name, value in tensors.items()}
        self._write(f"step-{description['n_steps']:012d}.safetensors", description, arrays)
        for old in self._steps()[:-_KEPT]:
            old.unlink(missing_ok=True)
        self._written = time.monotonic()

    def _steps(self) -> list[Path]:
        return sorted(path for path in self.path.iterdir() if _STEP.fullmatch(path.name))

    def _write(self, name: str, description: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        if not self._group.leads:
            return
        try:
            write_whole(self.path / name, _FORMAT.packed(description, arrays))
            _flush_folder(self.path)
        except OSError as error:
            steps = self._steps()
            kept = f"; the checkpoint of step {_number(steps[-1])} is whole" if steps else ""
            raise CheckpointError(
                f"checkpoint {str(self.path / name)!r} could not be written ({error.strerror or error}){kept}: make room "
                "and continue with resume=True (--resume)."
            ) from error


def check_same_run(before: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Raise an error if the checkpoint is that of another run."""
    for name in dict.fromkeys([*now, *before]):
        if before.get(name) != now.get(name):
            old, new = (json.dumps(part.get(name))[:200] for part in (before, now))
            raise CheckpointError(
                f"checkpoint_dir must hold a run of the same settings and data, got {str(folder)!r}, where {name} was "
                f"{old} and now is {new}: give another folder, or the old settings."
            )


def _number(path: Path) -> int:
    found = _STEP.fullmatch(path.name)
    assert found is not None
    return int(found[1])


def _flush_folder(path: Path) -> None:
    """Flush a folder to disk; before that, a crash may lose the name of a new file."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
