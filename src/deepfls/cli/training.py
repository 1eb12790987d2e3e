"""What training from memory and training from a stream say alike: checks before, words before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepfls.cli.errors import UsageError
from deepfls.cli.output import Output, shown

if TYPE_CHECKING:
    from deepfls.cli.models import Model
    from deepfls.data.layout import Layout

TASKS = ("auto", "regression", "classification")


def refuse_without_stream(given: Mapping[str, Any]) -> None:
    """Refuse options that only a stream has."""
    for name in ("nulls", "buffer_rows", "checkpoint_dir", "checkpoint_every", "resume"):
        if given.get(name) not in (None, False):
            raise UsageError(f"--{name.replace('_', '-')} must come with --stream, got it without.")


def check_training(task: str, fraction: float, seed: int) -> None:
    """Refuse settings of a run that no estimator checks."""
    from deepfls.data.tables import nearest

    if task not in TASKS:
        raise UsageError(f"--task must be one of {', '.join(TASKS)}, got {task!r}.{nearest(task, TASKS)}")
    if not 0.0 <= fraction < 1.0:
        raise UsageError(f"--test-fraction must be at least 0 and less than 1, got {fraction}.")
    if not 0 <= seed < 2**32:
        raise UsageError(f"--seed must be between 0 and {2**32 - 1}, got {seed}.")


def with_task(layout: Layout, task: str) -> tuple[Layout, bool]:
    """The layout for a task, and whether that is classification: "auto" takes text and true/false as classes."""
    classes = task == "classification" or (task == "auto" and layout.target_kind != "number")
    if classes and len(layout.targets) > 1:
        raise UsageError(f"Classification takes one --target, got {len(layout.targets)}.")
    # Read as numbers, text is refused by name and row, and true and false are 1 and 0.
    return (layout if classes else replace(layout, target_kind="number")), classes


def announce(output: Output, paths: Sequence[Path], layout: Layout, n_trained: int, n_tested: int) -> None:
    """Say what is learned from what."""
    files = shown(paths[0].name, "bold") if len(paths) == 1 else f"{len(paths)} files"
    rows = f"{n_trained:,} rows" if not n_tested else f"{n_trained:,} of {n_trained + n_tested:,} rows"
    n_inputs = len(layout.input_names)
    names = [part for name in layout.targets for part in (", ", shown(name, "bold", width=40))][1:]
    output.line(
        "Training on ",
        files,
        f": {rows}, {n_inputs} input{'s' * (n_inputs != 1)}, target{'s' * (len(layout.targets) > 1)} ",
        *names,
    )


def close(output: Output, model: Model, seconds: float, *, measured_on_test: bool) -> None:
    """Say what came of it."""
    estimator = model.estimator
    if not measured_on_test:
        output.line("Measured on the rows it was trained on; --test-fraction 0.2 would hold rows out.", style="dim")
    ends = {
        "interrupt": ", as it was when training was interrupted",
        "patience": ", stopped early",
        "divergence": ", the last finite state",
    }
    output.line(
        "Saved ",
        shown(model.path, "bold"),
        f": {estimator.kind}, {estimator.n_rules} rule{'s' * (estimator.n_rules != 1)}, "
        f"{estimator.n_epochs_} epochs, {seconds:.1f} s{ends.get(estimator.stopped_by_, '')}",
    )
