"""The progress bar of a training run, on standard error."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

# Seconds between two updates of the numbers.
_REFRESH = 0.1


class _Bar:
    """A rich progress bar on standard error with rows per second; use as a context manager."""

    def __init__(self, description: str, total: int, fields: dict[str, Any], *columns: str) -> None:
        from rich.console import Console  # here: keeps `import deepfls` light
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        texts = map(TextColumn, (*columns, "{task.fields[rate]} rows/s"))
        shown = [TextColumn("{task.description}"), BarColumn(), *texts, TimeRemainingColumn()]
        self._bar = Progress(*shown, console=Console(stderr=True))
        self._task = self._bar.add_task(description, total=max(total, 1), rate="-", **fields)
        self._done = 0  # rows trained before the run was resumed
        self._rows = 0
        self._began = self._shown = time.perf_counter()

    def __enter__(self) -> Self:
        self._bar.start()
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._show()
        self._bar.stop()

    def step(self, n_rows: int) -> None:
        """Count rows that were read or trained on."""
        self._rows += n_rows
        if time.perf_counter() - self._shown > _REFRESH:
            self._show()

    def _show(self, **fields: Any) -> None:
        self._shown = time.perf_counter()
        rate = self._rows / max(self._shown - self._began, 1e-9)
        self._bar.update(self._task, completed=self._done + self._rows, rate=f"{rate:,.0f}", **fields)


class TrainingBar(_Bar):
    """The progress of training, with epoch and loss."""

    def __init__(self, n_epochs: int, n_rows: int, *, n_done: int = 0) -> None:
        fields = {"epoch": 0, "epochs": n_epochs, "losses": "loss -"}
        columns = ("epoch {task.fields[epoch]}/{task.fields[epochs]}", "{task.fields[losses]}")
        super().__init__("training", n_epochs * n_rows, fields, *columns)
        self._done = n_done

    def compiled(self, seconds: float) -> None:
        """The kernels of the system had to be compiled, which took this long and is not part of the training time."""
        self._bar.console.print(f"compiled the kernels in {seconds:.0f} s; they are kept, so this happens once")
        self._began = time.perf_counter()

    def epoch(self, row: dict[str, float]) -> None:
        """An epoch ended with this row of the history."""
        losses = f"loss {row['loss']:.4g}"
        if "validation_loss" in row:
            losses += f" (validation {row['validation_loss']:.4g})"
        self._show(epoch=int(row["epoch"]), losses=losses)


class ReadingBar(_Bar):
    """The progress of reading rows."""

    def __init__(self, n_rows: int, description: str = "reading") -> None:
        super().__init__(description, n_rows, {}, "{task.percentage:>3.0f}%")
