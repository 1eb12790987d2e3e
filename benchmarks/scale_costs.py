"""What the pieces of training on a stream cost: a step, a row on its way in, the order of a window, an exchange.

Processor time where a piece is one thread's work, the shortest of several rounds: other work on the machine stretches it
least.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from scale_child import GROUP_ROWS, measured, write_table

WINDOW_ROWS = 2**20
N_INPUTS, N_RULES = 10, 20
STEP_ROWS = (1_024, 4_096, 16_384, 65_536)


def shortest(work: Callable[[], Any], rounds: int) -> float:
    """Processor seconds of this thread."""
    work()
    times = []
    for _ in range(rounds):
        before = time.thread_time()
        work()
        times.append(time.thread_time() - before)
    return min(times)


def cost_lines(folder: Path, rounds: int) -> list[list[str]]:
    """What is measured, its size, and the measurement."""
    return [*_steps(rounds), *_reading(folder, rounds), *_mixing(rounds), *_exchanges()]


def _steps(rounds: int) -> list[list[str]]:
    import torch

    from deepfls import FLSRegressor
    from deepfls.estimators.settings import train_config
    from deepfls.training import loop
    from deepfls.training.distributed import Group
    from deepfls.training.gradients import gradients_of
    from deepfls.training.rows import Batch, Rows
    from deepfls.training.state import Run

    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    model = FLSRegressor(kind="it2", n_rules=N_RULES, epochs=0, random_state=0)
    model.fit(random.normal(size=(500, N_INPUTS)), random.normal(size=500))
    system = model.system_.float().requires_grad_(True)
    config = train_config(model, 10**6)
    parameters = list(system.parameters())
    run = Run(config, parameters, torch.Generator(), 1)
    gradients = gradients_of(system, config.loss_function(), parameters)
    lines = []
    for size in STEP_ROWS:
        rows = torch.randn(size, N_INPUTS + 1)
        batch = Batch(Rows(rows[:, :N_INPUTS], rows[:, N_INPUTS:]), size)
        repeats = max(1, 32_768 // size)

        def steps(batch: Batch = batch, repeats: int = repeats) -> None:
            for _ in range(repeats):
                loop._step(system, batch, gradients, config, run, 1e-3, Group())

        took = shortest(steps, rounds) / repeats
        lines.append([f"a training step on {size:,} rows", f"{1e3 * took:.2f} ms", f"{1e9 * took / size:.0f} ns per row"])
    return lines


def _reading(folder: Path, rounds: int) -> list[list[str]]:
    from deepfls.data.sources import ParquetSource

    lines = []
    for name, options in (("without dictionaries", {}), ("as pyarrow writes by default", {"use_dictionary": True})):
        path = write_table(folder / name.replace(" ", "-"), GROUP_ROWS, N_INPUTS, **options)
        source = ParquetSource(path, target="y")
        took = shortest(lambda source=source: source.read(0), 4 * rounds)
        size = sum(file.stat().st_size for file in path.parent.iterdir())
        lines.append(
            [
                f"reading a row group of {GROUP_ROWS:,} rows, {name} ({size / GROUP_ROWS:.0f} bytes per row)",
                f"{1e3 * took:.2f} ms",
                f"{1e9 * took / GROUP_ROWS:.0f} ns per row",
            ]
        )
    return lines


def _mixing(rounds: int) -> list[list[str]]:
    from deepfls.data import _mixing_cpu
    from deepfls.data.windows import plan_epoch, ranked

    counts = np.full(WINDOW_ROWS // GROUP_ROWS, GROUP_ROWS)
    (window,) = plan_epoch(0, counts, WINDOW_ROWS, 2)
    half = window.owners(2) == 0
    goes = window.places()
    columns = np.random.default_rng(0).standard_normal((N_INPUTS + 1, GROUP_ROWS), dtype=np.float32)
    zeros, ones = np.zeros(N_INPUTS + 1), np.ones(N_INPUTS + 1)

    def put() -> None:
        packed = np.empty((WINDOW_ROWS, N_INPUTS + 1), dtype=np.float32)
        for first in range(0, WINDOW_ROWS, GROUP_ROWS):
            _mixing_cpu.put_rows(columns, zeros, ones, 1e100, goes[first : first + GROUP_ROWS], packed)

    def own_order() -> None:
        ranked(window.places(half), WINDOW_ROWS)

    lines = []
    for what, work, n_rows in (
        (f"the order of a window of {WINDOW_ROWS:,} rows, one process", window.places, WINDOW_ROWS),
        ("the order of its own half of them, one of two processes", own_order, WINDOW_ROWS // 2),
        (f"scaling {WINDOW_ROWS:,} rows and putting each at its place", put, WINDOW_ROWS),
    ):
        took = shortest(work, rounds)
        lines.append([what, f"{1e3 * took:.2f} ms", f"{1e9 * took / n_rows:.0f} ns per row"])
    return lines


def _exchanges() -> list[list[str]]:
    lines = []
    for late in (0.0, 0.002):
        for by in ("sockets", "gloo"):
            found = measured({"how": "exchange", "by": by, "late": late}, 2)
            when = "both ready" if late == 0 else f"one {1e3 * late:.0f} ms late"
            more = max(one["seconds"] for one in found) - late
            processor = sum(one["processor"] for one in found)
            lines.append(
                [
                    f"an exchange of all gradients between two processes by {by}, {when}",
                    f"{1e3 * more:.3f} ms",
                    f"{1e3 * processor:.3f} ms of processor time, both",
                ]
            )
    return lines


def exchanged(task: dict[str, Any]) -> dict[str, float]:
    """Seconds and processor seconds of an exchange in one of two processes, of which the second may come late."""
    import torch

    from deepfls.training.distributed import process_group

    rounds = 300
    with process_group() as group:
        tensor = torch.zeros(5 * N_RULES * N_INPUTS + N_RULES + 1)
        total = group.total if task["by"] == "sockets" else torch.distributed.all_reduce
        for _ in range(10):
            total(tensor)
        group.barrier()
        late = task["late"] if group.rank == 1 else 0.0
        began, processor = time.perf_counter(), time.process_time()
        for _ in range(rounds):
            # Work, not sleep: whoever is late is late because it computes.
            end = time.thread_time() + late
            while time.thread_time() < end:
                pass
            total(tensor)
        spent = {"seconds": time.perf_counter() - began, "processor": time.process_time() - processor - rounds * late}
    return {name: value / rounds for name, value in spent.items()}
