"""The questions that ``deepfls bench`` asks, by name and in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

from deepfls.bench import fkm, limit, memory, operations, peers, prediction, steps, threads
from deepfls.bench.rows import Row

_MODULES: dict[str, ModuleType] = {
    module.__name__.rpartition(".")[2]: module
    for module in (steps, operations, limit, fkm, prediction, threads, memory, peers)
}


@dataclass(frozen=True)
class Question:
    """A name, a title, and how its numbers were taken; the file of the same name measures them."""

    name: str
    title: str
    method: str

    def measure(self, *, quick: bool = False, say: Callable[[str], None] = lambda text: None) -> Iterator[Row]:
        """Rows as they are measured; ``say`` is told of what takes long."""
        measure = _MODULES[self.name].measure
        rows: Iterator[Row] = measure(quick, say) if self.name == "peers" else measure(quick)
        return rows


_FASTEST = "One thread; the fastest of many short windows, in turn."

QUESTIONS = {
    question.name: question
    for question in (
        Question("steps", "A training step of IT2, in times that of T1", _FASTEST),
        Question("operations", "Tensor operations of a small training step", "Counted at the dispatcher, views included."),
        Question("limit", "A large training step, in times the bare matrix products it needs", _FASTEST),
        Question("fkm", "A training step with the paper's fKM, in times ours", _FASTEST),
        Question("prediction", "Predictions: speed, memory, one row at a time", "All cores; the fastest of many windows."),
        Question("threads", "Two threads and one", "The fastest of many short windows, in turn."),
        Question("memory", "Memory of a training step", "Allocations counted; peaks as the operating system sees them."),
        Question("peers", "Seconds of a fit beside other packages", "One thread, k-means included; in turn, the fastest."),
    )
}
# What runs without being asked for by name: the peers need a network and several minutes.
DEFAULT = tuple(name for name in QUESTIONS if name != "peers")
