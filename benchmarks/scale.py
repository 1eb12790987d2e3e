"""How much does it cost to train on tables larger than memory, and how much faster are two processes?

    python benchmarks/scale.py [--part NAME] [--rows N] [--repeats N] [--dir DIR] [--markdown FILE]

Each part makes its own Parquet tables in a temporary folder inside --dir, measures in new processes with one torch thread
each, prints a table, and removes the folder. Rows have 10 inputs and a target in float32, in row groups of 65,536 without
dictionaries; the system is IT2 with 20 rules.

stream      rows per second of training, streamed against in memory, batch 4,096
memory      peak memory of the process, and time per row, at the numbers of rows of --rows (1, 10 and 50 million)
processes   rows per second of two processes over one, at four batches, and for a larger system (30 inputs, 50 rules)
costs       a training step, reading a row group, an exchange of gradients between two processes
start       the first consequents from a sample (streamed) and from all rows (in memory): time and error by epochs
turbidity   an epoch over all 111,974,400 rows of the turbidity set, 50 rules, from the files in the package pvlib
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet

from _report import markdown_table, option_parser, positive, write_results
from _timing import Calls, Effort, Steps, Work, fastest, threads
from deepfls import FLSRegressor
from deepfls.data.datasets import turbidity_blocks
from deepfls.data.sources import ParquetSource
from deepfls.data.turbidity import FEATURE_NAMES

N_INPUTS, N_RULES, BATCH = 10, 20, 4_096
GROUP_ROWS = 65_536
TURBIDITY_ROWS = 111_974_400
STEP_ROWS = (1_024, 4_096, 16_384, 65_536)
# Inputs, rules and batches per process of the comparison of two processes with one.
SYSTEMS = ((10, 20, (1_024, 4_096, 16_384, 65_536)), (30, 50, (4_096, 16_384)))
EXCHANGES = 300

Columns = list[np.ndarray[Any, np.dtype[np.float32]]]


class Result(NamedTuple):
    title: str
    head: list[str]
    lines: list[list[str]]
    note: str = ""


# Tables


def random_columns(n_rows: int, n_inputs: int, seed: int) -> Iterator[Columns]:
    """Random inputs and a target that is no sum of functions of one input, a row group at a time."""
    for first in range(0, n_rows, GROUP_ROWS):
        random = np.random.default_rng([seed, first])
        x = random.standard_normal((min(GROUP_ROWS, n_rows - first), n_inputs), dtype=np.float32)
        noise = 0.1 * random.standard_normal(len(x), dtype=np.float32)
        y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + np.abs(x[:, 3]) + noise
        yield [*(np.ascontiguousarray(column) for column in x.T), y]


def turbidity_columns(n_rows: int, test: bool) -> Iterator[Columns]:
    """The first rows of the turbidity set: every hundredth row for the test, the others for training."""
    for block in turbidity_blocks(map_rows=10):
        chosen = np.flatnonzero((np.arange(min(n_rows, len(block.y))) % 100 == 0) == test)
        yield [column[chosen].astype(np.float32) for column in (*block.x.T, block.y[:, 0])]
        n_rows -= len(block.y)
        if n_rows <= 0:
            return


def write_table(folder: Path, names: Sequence[str], groups: Iterator[Columns], **options: Any) -> Path:
    """A Parquet file, and the pattern that finds it.

    Without dictionaries: pyarrow writes one for every column by default, which makes files of distinct numbers larger and
    slower to read. ``options`` go to pyarrow.
    """
    folder.mkdir()
    schema = pa.schema([(name, pa.float32()) for name in names])
    with parquet.ParquetWriter(folder / "rows.parquet", schema, **{"use_dictionary": False, **options}) as writer:
        for columns in groups:
            writer.write_table(pa.table(dict(zip(names, columns, strict=True))), row_group_size=GROUP_ROWS)
    return folder / "rows.parquet"


def random_table(folder: Path, n_rows: int, n_inputs: int = N_INPUTS, seed: int = 1, **options: Any) -> Path:
    free, needed = shutil.disk_usage(folder.parent).free, 1.3 * n_rows * (n_inputs + 1) * 4 + 2**30
    if free < needed:
        sys.exit(f"{folder.parent} must have {needed / 2**30:.1f} GB free, got {free / 2**30:.1f}.")
    names = [*(f"x{m}" for m in range(n_inputs)), "y"]
    return write_table(folder, names, random_columns(n_rows, n_inputs, seed), **options)


def read(path: str, target: str) -> tuple[Any, Any]:
    """Inputs and target of a table in memory, with the names of their columns."""
    frame = parquet.read_table(path).to_pandas()
    return frame.drop(columns=target), frame[target]


# One measurement, in processes of its own


def measured(task: dict[str, Any], n_processes: int = 1) -> list[dict[str, float]]:
    """Results of a task in new processes with one torch thread each, by rank."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if n_processes > 1:
        with socket.socket() as found:
            found.bind(("localhost", 0))
            port = str(found.getsockname()[1])
        environment |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": str(n_processes)}
    command = [sys.executable, __file__, "--task", json.dumps(task, default=str)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**environment, "RANK": rank, "LOCAL_RANK": rank})
        for rank in map(str, range(n_processes))
    ]
    printed = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        sys.exit(f"a measurement failed: {task}")
    return [json.loads(text.splitlines()[-1]) for text in printed]


def trained(task: dict[str, Any]) -> dict[str, float]:
    """Times of a fit, and the peak memory of the process.

    Keys of a task: rows (file), target, rules, batch, epochs; how ("stream" or "memory"); optional test (file).
    """
    settings = {"kind": "it2", "n_rules": task["rules"], "batch_size": task["batch"], "epochs": task["epochs"]}
    model = FLSRegressor(**settings, random_state=0, device="cpu")
    # The first fit of a process imports modules and compiles kernels, which is no cost of the rows.
    random = np.random.default_rng(0)
    FLSRegressor(n_rules=2, epochs=1).fit(random.normal(size=(50, 2)), random.normal(size=50))
    target = task["target"]
    data = read(task["rows"], target) if task["how"] == "memory" else (ParquetSource(task["rows"], target=target),)
    began, processor = time.perf_counter(), time.process_time()
    model.fit(*data)
    seconds, processor = time.perf_counter() - began, time.process_time() - processor
    ends = [row["seconds"] for row in model.history_] or [0.0]
    # The mean of the later epochs, if there are any: the first one may wait for its first rows.
    epoch = (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else ends[0]
    result = {
        "rows_per_second": parquet.read_metadata(task["rows"]).num_rows / epoch if epoch else 0.0,
        "epoch_seconds": epoch,
        "before_seconds": seconds - ends[-1],
        "processor_seconds": processor,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    if "test" in task:
        x, y = read(task["test"], target)
        result["rmse"] = float(np.sqrt(np.mean(np.square(model.predict(x) - y))))
    return result


def exchanged(task: dict[str, Any]) -> dict[str, float]:
    """Seconds and processor seconds of a sum of all gradients by gloo; the second process may compute for a while first."""
    torch.distributed.init_process_group("gloo")
    gradients = torch.zeros(5 * N_RULES * N_INPUTS + N_RULES + 1)
    late = task["late"] if torch.distributed.get_rank() == 1 else 0.0
    for _ in range(10):
        torch.distributed.all_reduce(gradients)
    torch.distributed.barrier()
    began, processor = time.perf_counter(), time.process_time()
    for _ in range(EXCHANGES):
        end = time.thread_time() + late
        while time.thread_time() < end:
            pass
        torch.distributed.all_reduce(gradients)
    spent = {
        "seconds": time.perf_counter() - began,
        "processor": time.process_time() - processor - EXCHANGES * late,
    }
    torch.distributed.destroy_process_group()
    return {name: value / EXCHANGES for name, value in spent.items()}


# Parts


def task_of(path: Path, **other: Any) -> dict[str, Any]:
    return {"rows": path, "target": "y", "rules": N_RULES, "batch": BATCH, "how": "stream", **other}


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def stream_part(folder: Path, rows: list[int], repeats: int) -> Result:
    path = random_table(folder / "rows", rows[0])
    found: dict[str, list[float]] = {"memory": [], "stream": []}
    for _ in range(repeats):
        for how, rates in found.items():
            rates.append(measured(task_of(path, how=how, epochs=3))[0]["rows_per_second"])
    ratios = [s / m for s, m in zip(found["stream"], found["memory"], strict=True)]
    lines = [[how, f"{statistics.median(rates):,.0f}"] for how, rates in found.items()]
    title = f"Rows per second of training, {rows[0]:,} rows, batch {BATCH:,}, medians of {repeats} pairs of runs"
    return Result(title, ["rows from", "rows/s"], [*lines, ["stream / memory", spread(ratios)]])


def memory_part(folder: Path, rows: list[int], repeats: int) -> Result:
    lines = []
    for n_rows in rows:
        path = random_table(folder / "rows", n_rows)
        # Other work on the machine takes a large share of the second that a small table needs: the median of several runs.
        runs = [measured(task_of(path, epochs=1))[0] for _ in range(repeats if n_rows <= 10_000_000 else 1)]
        result = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        shutil.rmtree(folder / "rows")
        per_row = [1e6 * result[f"{name}_seconds"] / n_rows for name in ("before", "epoch", "processor")]
        times = [*(f"{value:.2f}" for value in per_row), f"{result['epoch_seconds']:.1f}"]
        lines.append([f"{n_rows:,}", f"{result['peak_mb']:,.0f}", *times])
        print(lines[-1], file=sys.stderr)
    before, epoch = (result[f"{name}_seconds"] / n_rows * 1e9 / 60 for name in ("before", "epoch"))
    note = (
        f"At the rates of the last line a billion rows take one such process {before:.0f} min before the first step "
        f"and {epoch:.0f} min per epoch; 16 processes that each reach 0.8 of its rate, {epoch / 16 / 0.8:.1f} min."
    )
    title = (
        f"Peak memory of the process, torch included, and time per row; one epoch, batch {BATCH:,}, medians of {repeats} "
        "runs up to 10 million rows and one run beyond"
    )
    head = ["rows", "peak MB", "µs/row before", "µs/row of the epoch", "processor µs/row of both", "seconds of the epoch"]
    return Result(title, head, lines, note)


def processes_part(folder: Path, rows: list[int], repeats: int) -> Result:
    lines = []
    for n_inputs, n_rules, batches in SYSTEMS:
        # The larger system takes several times as long per row.
        n_rows = rows[0] if n_inputs == N_INPUTS else rows[0] // 4
        path = random_table(folder / "rows", n_rows, n_inputs)
        for batch in batches:
            task = task_of(path, rules=n_rules, batch=2 * batch, epochs=3)
            pairs = [(measured(task), measured(task, 2)) for _ in range(repeats)]
            rates = [[runs[0]["rows_per_second"] for runs in pair] for pair in pairs]
            spent = [[1e6 / n_rows / 3 * sum(run["processor_seconds"] for run in runs) for runs in pair] for pair in pairs]
            medians = [f"{statistics.median(pair[k] for pair in rates):,.0f}" for k in (0, 1)]
            processor = [f"{statistics.median(pair[k] for pair in spent):.2f}" for k in (0, 1)]
            size = [f"{n_inputs} inputs, {n_rules} rules", f"{n_rows:,}", f"{batch:,}"]
            lines.append([*size, *medians, spread([two / one for one, two in rates]), *processor])
            print(lines[-1], file=sys.stderr)
        shutil.rmtree(folder / "rows")
    title = (
        "Two processes, each with the batch named, against one with twice that batch, each process with one torch thread "
        f"and one that reads; three epochs, medians of {repeats} pairs of runs"
    )
    note = (
        "Processor time is that of all threads of all processes during the fit, per row and epoch; the starting point, "
        "whose ridge solution has rules x (inputs + 1) unknowns, is part of it and not of the rates. "
        "One process has the second core for its reader, so twice its rate "
        "is out of reach."
    )
    head = ["system", "rows", "batch per process", "one: rows/s", "two: rows/s", "two / one"]
    return Result(title, [*head, "one: processor µs/row", "two: processor µs/row"], lines, note)


def costs_part(folder: Path, rows: list[int], repeats: int) -> Result:
    title = (
        f"Costs of the pieces, {N_INPUTS} inputs, {N_RULES} rules, IT2, float32: processor time of one thread, the "
        f"shortest of several windows; exchanges as means of {EXCHANGES}"
    )
    lines = []
    for name, seconds, n_rows in (*step_costs(repeats), *reading_costs(folder, repeats)):
        lines.append([name, f"{1e3 * seconds:.2f} ms", f"{1e9 * seconds / n_rows:.0f} ns per row"])
    for late in (0.0, 0.002):
        found = measured({"how": "exchange", "late": late}, 2)
        when = "both ready" if late == 0 else f"one {1e3 * late:.0f} ms late"
        seconds, processor = max(one["seconds"] for one in found) - late, sum(one["processor"] for one in found)
        name = f"a sum of all gradients over two processes by gloo, {when}"
        lines.append([name, f"{1e3 * seconds:.3f} ms", f"{1e3 * processor:.3f} ms of processor time, both"])
    return Result(title, ["piece", "time", ""], lines)


def step_costs(repeats: int) -> Iterator[tuple[str, float, int]]:
    with threads(1):
        for size in STEP_ROWS:
            steps = Steps("hs", Work(size, N_INPUTS, N_RULES))
            yield f"a training step on {size:,} rows", fastest({0: steps}, Effort(2 * repeats, 5.0))[0], size


def reading_costs(folder: Path, repeats: int) -> Iterator[tuple[str, float, int]]:
    for name, options in (("without dictionaries", {}), ("as pyarrow writes by default", {"use_dictionary": True})):
        path = random_table(folder / name.replace(" ", "-"), GROUP_ROWS, **options)
        source = ParquetSource(path, target="y")
        calls = Calls(lambda source=source: source.read(0))
        bytes_per_row = f"{path.stat().st_size / GROUP_ROWS:.0f} bytes per row"
        label = f"reading a row group of {GROUP_ROWS:,} rows, {name} ({bytes_per_row})"
        yield label, fastest({0: calls}, Effort(4 * repeats, 5.0))[0], GROUP_ROWS


def start_part(folder: Path, rows: list[int], repeats: int) -> Result:
    path = random_table(folder / "rows", rows[0])
    test = random_table(folder / "test", max(1, rows[0] // 100), seed=2)
    lines = []
    for how, what, n_epochs in (("stream", "a sample, streamed", (0, 1, 2)), ("memory", "all rows, in memory", (0, 1))):
        for epochs in n_epochs:
            result = measured(task_of(path, how=how, epochs=epochs, test=test))[0]
            spent = [result["before_seconds"], epochs * result["epoch_seconds"]]
            lines.append([what, str(epochs), *(f"{seconds:.1f}" for seconds in spent), f"{result['rmse']:.4f}"])
            print(lines[-1], file=sys.stderr)
    title = (
        f"The first consequents from the normal equations of a sample and of all rows; {rows[0]:,} rows, batch {BATCH:,}, "
        "RMSE on other rows"
    )
    return Result(title, ["equations of", "epochs", "seconds before them", "seconds of them", "RMSE"], lines)


def turbidity_part(folder: Path, rows: list[int], repeats: int) -> Result:
    n_rows = min(rows[0], TURBIDITY_ROWS)
    names = [*FEATURE_NAMES, "turbidity"]
    path, test = (write_table(folder / name, names, turbidity_columns(n_rows, name == "test")) for name in ("rows", "test"))
    result = measured(task_of(path, target="turbidity", rules=50, epochs=1, test=test))[0]
    lines = [
        ["rows", f"{n_rows:,}"],
        ["seconds before the first step", f"{result['before_seconds']:.0f}"],
        ["seconds of the epoch", f"{result['epoch_seconds']:.0f}"],
        ["rows/s of the epoch", f"{result['rows_per_second']:,.0f}"],
        ["processor seconds of both", f"{result['processor_seconds']:.0f}"],
        ["peak MB", f"{result['peak_mb']:,.0f}"],
        ["RMSE on 1 % of the rows, held out", f"{result['rmse']:.4f}"],
    ]
    title = (
        f"One epoch over the turbidity of the air in every cell and month, streamed; 6 inputs, 50 rules, batch {BATCH:,}"
    )
    return Result(title, ["", "measured"], lines)


PARTS: dict[str, tuple[Callable[[Path, list[int], int], Result], list[int]]] = {
    "stream": (stream_part, [4_000_000]),
    "memory": (memory_part, [1_000_000, 10_000_000, 50_000_000]),
    "processes": (processes_part, [4_000_000]),
    "costs": (costs_part, []),
    "start": (start_part, [4_000_000]),
    "turbidity": (turbidity_part, [TURBIDITY_ROWS]),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = option_parser(__doc__, "markdown")
    add = parser.add_argument
    add("--part", action="append", choices=PARTS, help="repeat for several; all by default")
    add("--rows", type=positive, action="append", help="rows of the table; repeat for several of --part memory")
    add("--repeats", type=positive, default=3, help="runs of each measurement; 3 by default")
    add("--dir", type=Path, metavar="DIR", help="folder of the tables; the system's temporary folder by default")
    add("--task", type=json.loads, help="run one measurement in this process and print it as JSON")
    given = parser.parse_args(arguments)
    if given.task:
        with threads(1):
            print(json.dumps(exchanged(given.task) if given.task["how"] == "exchange" else trained(given.task)))
        return 0
    for name in given.part or PARTS:
        part, default_rows = PARTS[name]
        with tempfile.TemporaryDirectory(prefix="deepfls-scale-", dir=given.dir) as folder:
            result = part(Path(folder), given.rows or default_rows, given.repeats)
        text = f"{markdown_table(result.head, result.lines)}\n\n{result.note}".rstrip()
        print(f"\n{result.title}\n\n{text}\n")
        if given.markdown:
            load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
            foot = f"One torch thread per process. Load averages at the end: {load}."
            command = f"scale.py --part {name}"
            write_results(given.markdown, f"scale-{name}", f"Scale: {name}", command, f"{result.title}.", text, foot=foot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
