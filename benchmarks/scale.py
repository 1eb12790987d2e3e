"""What does it cost to train on tables larger than memory, and what do more processes give?

``python benchmarks/scale.py --part stream --part memory --part processes --part turbidity --dir /big/disk``

Each part makes its own Parquet tables in a temporary folder inside --dir, measures in fresh processes, prints a table, and
removes the folder. Rows have 10 inputs and a target in float32, in row groups of 65,536; the system is IT2 with 20 rules.

stream      rows per second of training, streamed against in memory, batch 4,096
memory      largest memory of the process, and time per row, at the numbers of rows of --rows (1, 10 and 50 million)
processes   rows per second of two processes over one, each with one thread
turbidity   an epoch over all 111,974,400 rows of the turbidity set, 50 rules, from the files in the package pvlib
"""

from __future__ import annotations

import argparse
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
from pathlib import Path
from typing import Any

import numpy as np

PARTS = ("stream", "memory", "processes", "turbidity")
N_INPUTS, N_RULES, BATCH = 10, 20, 4_096
GROUP_ROWS = 65_536
TURBIDITY_ROWS = 111_974_400


# Title, head and lines of a table, and what follows from it.
Measured = tuple[str, list[str], list[list[str]], str]


# Tables


def write_table(folder: Path, n_rows: int) -> Path:
    """Random inputs and a target that is no sum of functions of one input, in files of at most 5 million rows."""
    import pyarrow as pa
    from pyarrow import parquet

    check_room(folder, n_rows * (N_INPUTS + 1) * 4)
    folder.mkdir()
    names = [*(f"x{m}" for m in range(N_INPUTS)), "y"]
    schema = pa.schema([(name, pa.float32()) for name in names])
    per_file = 76 * GROUP_ROWS
    for number, first in enumerate(range(0, n_rows, per_file)):
        with parquet.ParquetWriter(folder / f"rows-{number:04d}.parquet", schema) as writer:
            for start in range(first, min(first + per_file, n_rows), GROUP_ROWS):
                random = np.random.default_rng([1, start])
                x = random.standard_normal((min(GROUP_ROWS, n_rows - start), N_INPUTS), dtype=np.float32)
                noise = 0.1 * random.standard_normal(len(x), dtype=np.float32)
                y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + np.abs(x[:, 3]) + noise
                columns = [*(np.ascontiguousarray(column) for column in x.T), y]
                writer.write_table(pa.table(dict(zip(names, columns, strict=True))))
    return folder / "*.parquet"


def write_turbidity(folder: Path, n_rows: int) -> Path:
    import pyarrow as pa
    from pyarrow import parquet

    from deepfls.data.datasets import turbidity_blocks
    from deepfls.data.turbidity import FEATURE_NAMES

    check_room(folder, n_rows * 7 * 4)
    folder.mkdir()
    names = [*FEATURE_NAMES, "turbidity"]
    schema = pa.schema([(name, pa.float32()) for name in names])
    written = 0
    with parquet.ParquetWriter(folder / "turbidity.parquet", schema) as writer:
        for block in turbidity_blocks(map_rows=10):
            columns = [*block.x.T.astype(np.float32), block.y[:, 0].astype(np.float32)]
            part = pa.table(dict(zip(names, columns, strict=True))).slice(0, n_rows - written)
            writer.write_table(part, row_group_size=GROUP_ROWS)
            written += part.num_rows
            if written >= n_rows:
                break
    return folder / "*.parquet"


def check_room(folder: Path, n_bytes: int) -> None:
    free = shutil.disk_usage(folder.parent).free
    if free < 1.3 * n_bytes + 2**30:
        sys.exit(f"{folder.parent} must have {1.3 * n_bytes / 2**30 + 1:.1f} GB free, got {free / 2**30:.1f}.")


# One measurement, in a process of its own


def child(task: dict[str, Any]) -> None:
    """Train as the task says and print what it took."""
    import torch

    from deepfls import FLSRegressor
    from deepfls.data.sources import ParquetSource

    torch.set_num_threads(1)
    source = ParquetSource(task["rows"], target=task["target"])
    trained = source.part(0, 0.01, 1.0) if task.get("test") else source
    settings = {"kind": "it2", "n_rules": task["rules"], "batch_size": task["batch"], "epochs": task["epochs"]}
    model = FLSRegressor(**settings, random_state=0, device="cpu")
    # What is imported and compiled at the first step of a process is no cost of rows.
    random = np.random.default_rng(0)
    FLSRegressor(n_rules=2, epochs=1).fit(random.normal(size=(50, 2)), random.normal(size=50))
    processor = watched_training()
    began = time.perf_counter()
    if task["how"] == "memory":
        parts = [part for _, part in source.all_rows(range(source.n_groups))]
        x, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "y"))
        del parts
        began = time.perf_counter()
        model.fit(x, y[:, 0])
    else:
        model.fit(trained)
    seconds = time.perf_counter() - began
    marks = [row["seconds"] for row in model.history_]
    n_rows = source.files.n_rows * (0.99 if task.get("test") else 1.0)
    # Later epochs alone, where there are any: the first one waits for its first rows.
    training = (marks[-1] - marks[0]) / (len(marks) - 1) if len(marks) > 1 else marks[0]
    result = {
        "rows_per_second": n_rows / training,
        "epoch_seconds": training,
        "before_seconds": seconds - marks[-1],
        "seconds": seconds,
        "epoch_processor_seconds": sum(processor) / task["epochs"],
        "loss": model.history_[-1]["loss"],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    if task.get("test"):
        result["rmse"] = test_error(model, source.part(0, 0.0, 0.01))
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(result))


def watched_training() -> list[float]:
    """A list that gets the processor time of training from a source, which other work stretches less than its duration."""
    from deepfls import stream_fit

    train, spent = stream_fit.train, []

    def watched(*given: Any, **options: Any) -> Any:
        before = time.process_time()
        result = train(*given, **options)
        spent.append(time.process_time() - before)
        return result

    stream_fit.train = watched  # type: ignore[attr-defined]
    return spent


def test_error(model: Any, source: Any) -> float:
    import pyarrow as pa

    total, count = 0.0, 0
    for _, part in source.all_rows(range(source.n_groups)):
        x = pa.table(dict(zip(source.layout.input_names, part.x.T.copy(), strict=True)))
        total += float(np.square(model.predict(x) - part.y[:, 0]).sum())
        count += len(part.y)
    return float(np.sqrt(total / count))


def measured(task: dict[str, Any], n_processes: int = 1) -> dict[str, Any]:
    """A task in fresh processes, one thread each."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        port = found.getsockname()[1]
    common = {**os.environ, "OMP_NUM_THREADS": "1"}
    if n_processes > 1:
        common |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "WORLD_SIZE": str(n_processes)}
    command = [sys.executable, __file__, "--child", json.dumps({**task, "rows": str(task["rows"])})]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**common, "RANK": str(k), "LOCAL_RANK": str(k)})
        for k in range(n_processes)
    ]
    said = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        sys.exit(f"a measurement failed: {task}")
    return json.loads(said[0].splitlines()[-1])


# Parts


def stream_part(folder: Path, rows: list[int], repeats: int) -> Measured:
    n_rows = rows[0]
    path = write_table(folder / "rows", n_rows)
    task = {"rows": path, "target": "y", "rules": N_RULES, "batch": BATCH, "epochs": 3}
    found: dict[str, list[float]] = {"memory": [], "stream": []}
    for _ in range(repeats):
        for how, rates in found.items():
            rates.append(measured({**task, "how": how})["rows_per_second"])
    ratios = [s / m for s, m in zip(found["stream"], found["memory"], strict=True)]
    lines = [[how, f"{statistics.median(rates):,.0f}"] for how, rates in found.items()]
    lines.append(["stream / memory", f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"])
    title = f"Rows per second of training, {n_rows:,} rows, batch {BATCH:,}, medians of {repeats} pairs of runs"
    return title, ["rows from", "rows/s"], lines, ""


def memory_part(folder: Path, rows: list[int], repeats: int) -> Measured:
    lines = []
    for n_rows in rows:
        path = write_table(folder / "rows", n_rows)
        task = {"rows": path, "target": "y", "rules": N_RULES, "batch": BATCH, "epochs": 1, "how": "stream"}
        result = measured(task)
        shutil.rmtree(folder / "rows")
        lines.append(
            [
                f"{n_rows:,}",
                f"{result['peak_mb']:,.0f}",
                f"{1e6 * result['before_seconds'] / n_rows:.2f}",
                f"{1e6 * result['epoch_seconds'] / n_rows:.2f}",
                f"{1e6 * result['epoch_processor_seconds'] / n_rows:.2f}",
                f"{result['epoch_seconds']:.1f}",
            ]
        )
        print(lines[-1], file=sys.stderr)
    before, epoch = (result[f"{name}_seconds"] / n_rows * 1e9 / 3600 for name in ("before", "epoch"))
    note = (
        f"At the rates of the last line a billion rows take one such process {before:.1f} h before the first step and "
        f"{epoch:.1f} h per epoch; 16 processes that each reach 0.8 of its rate, {epoch / 16 / 0.8:.2f} h per epoch."
    )
    title = f"Largest memory of the process, torch included, and time per row; one epoch, batch {BATCH:,}"
    return (
        title,
        ["rows", "peak MB", "µs/row before", "µs/row of the epoch", "its processor time", "seconds of the epoch"],
        lines,
        note,
    )


def processes_part(folder: Path, rows: list[int], repeats: int) -> Measured:
    n_rows = rows[0]
    path = write_table(folder / "rows", n_rows)
    lines = []
    for batch in (1_024, 4_096, 16_384):
        task = {"rows": path, "target": "y", "rules": N_RULES, "batch": 2 * batch, "epochs": 3, "how": "stream"}
        pairs = [(measured(task), measured(task, 2)) for _ in range(repeats)]
        one, two = (statistics.median(pair[k]["rows_per_second"] for pair in pairs) for k in (0, 1))
        ratios = [pair[1]["rows_per_second"] / pair[0]["rows_per_second"] for pair in pairs]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        lines.append([f"{batch:,}", f"{one:,.0f}", f"{two:,.0f}", spread])
        print(lines[-1], file=sys.stderr)
    title = (
        f"Two processes, each with the batch named, against one with twice that batch; {n_rows:,} rows, "
        f"medians of {repeats} pairs of runs"
    )
    return title, ["batch per process", "one: rows/s", "two: rows/s", "two / one"], lines, ""


def turbidity_part(folder: Path, rows: list[int], repeats: int) -> Measured:
    n_rows = min(rows[0], TURBIDITY_ROWS)
    path = write_turbidity(folder / "rows", n_rows)
    task = {"rows": path, "target": "turbidity", "rules": 50, "batch": BATCH, "epochs": 1, "how": "stream", "test": True}
    result = measured(task)
    lines = [
        ["rows", f"{n_rows:,}"],
        ["seconds before the first step", f"{result['before_seconds']:.0f}"],
        ["seconds of the epoch", f"{result['epoch_seconds']:.0f}"],
        ["rows/s of the epoch", f"{result['rows_per_second']:,.0f}"],
        ["processor seconds of the epoch", f"{result['epoch_processor_seconds']:.0f}"],
        ["peak MB", f"{result['peak_mb']:,.0f}"],
        ["RMSE on 1 % of the rows, held out", f"{result['rmse']:.4f}"],
    ]
    title = "One epoch over the turbidity of the air in every cell and month, streamed; 6 inputs, 50 rules, batch 4,096"
    return title, ["", "measured"], lines, ""


MEASURES = {"stream": stream_part, "memory": memory_part, "processes": processes_part, "turbidity": turbidity_part}
ROWS = {
    "stream": [4_000_000],
    "memory": [1_000_000, 10_000_000, 50_000_000],
    "processes": [2_000_000],
    "turbidity": [TURBIDITY_ROWS],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS, help="repeat for several; all by default")
    parser.add_argument("--rows", type=int, action="append", help="rows of the table, or of several for --part memory")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="where the tables go; the system's temporary folder by default")
    parser.add_argument("--markdown", type=Path, help="file whose sections are written")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(json.loads(arguments.child))
        return
    from deepfls.cli.sections import hardware, markdown_table, write_section

    for part in arguments.part or PARTS:
        with tempfile.TemporaryDirectory(prefix="deepfls-scale-", dir=arguments.dir) as folder:
            title, head, lines, note = MEASURES[part](Path(folder), arguments.rows or ROWS[part], arguments.repeats)
        text = markdown_table(head, lines)
        text = f"{text}\n\n{note}".rstrip()
        print(f"\n{title}\n\n{text}\n")
        if arguments.markdown:
            load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
            command = f"`python benchmarks/scale.py --part {part} --markdown RESULTS.md`"
            intro = f"### Scale: {part}\n\nWritten by {command}. {title}."
            foot = f"{hardware()} One thread per process. Load averages at the end: {load}."
            write_section(arguments.markdown, f"scale-{part}", f"{intro}\n\n{text}\n\n{foot}")


if __name__ == "__main__":
    main()
