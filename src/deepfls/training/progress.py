"""The progress bar of a training run, on standard error."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Protocol

# Seconds between two updates of the numbers.
_REFRESH = 0.1


class Progress(Protocol):
    """What the training loop tells about its progress."""

    def compiled(self, seconds: float) -> None:
        """The kernels of the system had to be compiled, which took this long and is not part of the training time."""

    def step(self, n_rows: int) -> None:
        """A batch of ``n_rows`` was trained on."""

    def epoch(self, row: dict[str, float]) -> None:
        """An epoch ended with this row of the history."""


class TrainingBar:
    """A rich progress bar with epoch, loss and rows per second; use as a context manager."""

    def __init__(self, n_epochs: int, n_rows: int, description: str = "training", *, n_done: int = 0) -> None:
        from rich.console import Console  # here: keeps `import deepfls` light
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            TextColumn("{task.fields[losses]}"),
            TextColumn("{task.fields[rate]} rows/s"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task(
            description, total=max(n_epochs * n_rows, 1), epoch=0, epochs=n_epochs, losses="loss -", rate="-"
        )
        self._done = n_done  # rows of an earlier sitting
        self._rows = 0
        self._began = time.perf_counter()
        self._shown = 0.0

    def __enter__(self) -> TrainingBar:
        self._bar.start()
        self._began = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._show()
        self._bar.stop()

    def compiled(self, seconds: float) -> None:
        self._bar.console.print(f"compiled the kernels in {seconds:.0f} s; they are kept, so this happens once")
        self._began = time.perf_counter()

    def step(self, n_rows: int) -> None:
        self._rows += n_rows
        if time.perf_counter() - self._shown > _REFRESH:
            self._show()

    def epoch(self, row: dict[str, float]) -> None:
        losses = f"loss {row['loss']:.4g}"
        if "validation_loss" in row:
            losses += f" (validation {row['validation_loss']:.4g})"
        self._show(epoch=int(row["epoch"]), losses=losses)

    def _show(self, **fields: Any) -> None:
        self._shown = time.perf_counter()
        rate = self._rows / max(self._shown - self._began, 1e-9)
        self._bar.update(self._task, completed=self._done + self._rows, rate=f"{rate:,.0f}", **fields)


class ReadingBar:
    """A rich progress bar over rows that are read, with rows per second; use as a context manager."""

    def __init__(self, n_rows: int, description: str = "reading") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]} rows/s"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task(description, total=max(n_rows, 1), rate="-")
        self._rows = 0
        self._began = time.perf_counter()

    def __enter__(self) -> ReadingBar:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def step(self, n_rows: int) -> None:
        """So many more rows were read."""
        self._rows += n_rows
        rate = self._rows / max(time.perf_counter() - self._began, 1e-9)
        self._bar.update(self._task, completed=self._rows, rate=f"{rate:,.0f}")
