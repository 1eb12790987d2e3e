"""What does it cost to train on tables larger than memory, and what do more processes give?

``python benchmarks/scale.py --part stream --part memory --dir /big/disk``

Each part makes its own Parquet tables in a temporary folder inside --dir, measures in fresh processes with one thread of
torch's each, prints a table, and removes the folder. Rows have 10 inputs and a target in float32, in row groups of 65,536
without dictionaries; the system is IT2 with 20 rules.

stream      rows per second of training, streamed against in memory, batch 4,096
memory      largest memory of the process, and time per row, at the numbers of rows of --rows (1, 10 and 50 million)
processes   rows per second of two processes over one, at four batches, and for a larger system (30 inputs, 50 rules)
costs       a step, a row on its way in, the order of a window, an exchange between two processes
start       the first consequents from a sample and from all rows: time, and error before and after an epoch
turbidity   an epoch over all 111,974,400 rows of the turbidity set, 50 rules, from the files in the package pvlib
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from scale_child import measured, write_table, write_turbidity
from scale_costs import cost_lines

N_INPUTS, N_RULES, BATCH = 10, 20, 4_096
TURBIDITY_ROWS = 111_974_400
# Inputs, rules and batches per process of the comparison of two processes with one.
SYSTEMS = ((10, 20, (1_024, 4_096, 16_384, 65_536)), (30, 50, (4_096, 16_384)))

# Title, head and lines of a table, and what follows from it.
Measured = tuple[str, list[str], list[list[str]], str]


def stream_part(folder: Path, rows: list[int], repeats: int) -> Measured:
    n_rows = rows[0]
    path = write_table(folder / "rows", n_rows)
    task = {"rows": path, "target": "y", "rules": N_RULES, "batch": BATCH, "epochs": 3}
    found: dict[str, list[float]] = {"memory": [], "stream": []}
    for _ in range(repeats):
        for how, rates in found.items():
            rates.append(measured({**task, "how": how})[0]["rows_per_second"])
    ratios = [s / m for s, m in zip(found["stream"], found["memory"], strict=True)]
    lines = [[how, f"{statistics.median(rates):,.0f}"] for how, rates in found.items()]
    lines.append(["stream / memory", spread(ratios)])
    title = f"Rows per second of training, {n_rows:,} rows, batch {BATCH:,}, medians of {repeats} pairs of runs"
    return title, ["rows from", "rows/s"], lines, ""


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def memory_part(folder: Path, rows: list[int], repeats: int) -> Measured:
    lines = []
    for n_rows in rows:
        path = write_table(folder / "rows", n_rows)
        task = {"rows": path, "target": "y", "rules": N_RULES, "batch": BATCH, "epochs": 1, "how": "stream"}
        # A small table is over in a second, of which a moment's other work is a large share: the median of several runs.
        runs = [measured(task)[0] for _ in range(repeats if n_rows <= 10_000_000 else 1)]
        result = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
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
    before, epoch = (result[f"{name}_seconds"] / n_rows * 1e9 / 60 for name in ("before", "epoch"))
    note = (
        f"At the rates of the last line a billion rows take one such process {before:.0f} min before the first step "
        f"and {epoch:.0f} min per epoch; 16 processes that each reach 0.8 of its rate, {epoch / 16 / 0.8:.1f} min."
    )
    title = (
        f"Largest memory of the process, torch included, and time per row; one epoch, batch {BATCH:,}, medians of "
        f"{repeats} runs up to 10 million rows and one run beyond"
    )
    head = ["rows", "peak MB", "µs/row before", "µs/row of the epoch", "its processor time", "seconds of the epoch"]
    return title, head, lines, note


def processes_part(folder: Path, rows: list[int], repeats: int) -> Measured:
    lines = []
    for n_inputs, n_rules, batches in SYSTEMS:
        # The larger system takes several times as long per row.
        n_rows = rows[0] if n_inputs == N_INPUTS else rows[0] // 4
        path = write_table(folder / "rows", n_rows, n_inputs)
        for batch in batches:
            task = {"rows": path, "target": "y", "rules": n_rules, "batch": 2 * batch, "epochs": 3, "how": "stream"}
            pairs = [(measured(task), measured(task, 2)) for _ in range(repeats)]
            rates = [[runs[0]["rows_per_second"] for runs in pair] for pair in pairs]
            spent = [
                [1e6 / n_rows * sum(run["epoch_processor_seconds"] for run in runs) for runs in pair] for pair in pairs
            ]
            lines.append(
                [
                    f"{n_inputs} inputs, {n_rules} rules",
                    f"{n_rows:,}",
                    f"{batch:,}",
                    *(f"{statistics.median(pair[k] for pair in rates):,.0f}" for k in (0, 1)),
                    spread([two / one for one, two in rates]),
                    *(f"{statistics.median(pair[k] for pair in spent):.2f}" for k in (0, 1)),
                ]
            )
            print(lines[-1], file=sys.stderr)
        shutil.rmtree(folder / "rows")
    title = (
        "Two processes, each with the batch named, against one with twice that batch, each process with one thread of "
        f"torch's and one that reads; medians of {repeats} pairs of runs"
    )
    note = (
        "Processor time is that of all threads of all processes: where that of two processes is no more than that of one, "
        "nothing is done twice. One process has the second core for its reader, so twice its rate is out of reach."
    )
    head = ["system", "rows", "batch per process", "one: rows/s", "two: rows/s", "two / one"]
    return title, [*head, "one: processor µs/row", "two: processor µs/row"], lines, note


def costs_part(folder: Path, rows: list[int], repeats: int) -> Measured:
    title = (
        f"What the pieces cost, {N_INPUTS} inputs, {N_RULES} rules, IT2, float32: processor time of one thread, the "
        f"shortest of {repeats} rounds and more; exchanges as means of 300"
    )
    return title, ["what", "time", ""], cost_lines(folder, repeats), ""


def start_part(folder: Path, rows: list[int], repeats: int) -> Measured:
    n_rows = rows[0]
    path = write_table(folder / "rows", n_rows)
    task = {"rows": path, "target": "y", "rules": N_RULES, "batch": BATCH, "how": "stream", "test": True}
    lines = []
    for start, what, n_epochs in (("sample", "262,144 rows", (0, 1, 2)), ("all", "all rows", (0, 1))):
        for epochs in n_epochs:
            result = measured({**task, "epochs": epochs, "start": start})[0]
            spent = [result["before_seconds"], epochs * result["epoch_seconds"]]
            lines.append([what, str(epochs), *(f"{seconds:.1f}" for seconds in spent), f"{result['rmse']:.4f}"])
            print(lines[-1], file=sys.stderr)
    title = (
        f"The first consequents from the normal equations of a sample and of all rows; {n_rows:,} rows, batch {BATCH:,}, "
        "RMSE on 1 % of the rows, held out"
    )
    return title, ["equations of", "epochs", "seconds before them", "seconds of them", "RMSE"], lines, ""


def turbidity_part(folder: Path, rows: list[int], repeats: int) -> Measured:
    n_rows = min(rows[0], TURBIDITY_ROWS)
    path = write_turbidity(folder / "rows", n_rows)
    task = {"rows": path, "target": "turbidity", "rules": 50, "batch": BATCH, "epochs": 1, "how": "stream", "test": True}
    result = measured(task)[0]
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


MEASURES = {
    "stream": stream_part,
    "memory": memory_part,
    "processes": processes_part,
    "costs": costs_part,
    "start": start_part,
    "turbidity": turbidity_part,
}
ROWS = {
    "stream": [4_000_000],
    "memory": [1_000_000, 10_000_000, 50_000_000],
    "processes": [4_000_000],
    "costs": [],
    "start": [4_000_000],
    "turbidity": [TURBIDITY_ROWS],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=MEASURES, help="repeat for several; all by default")
    parser.add_argument("--rows", type=int, action="append", help="rows of the table, or of several for --part memory")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="where the tables go; the system's temporary folder by default")
    parser.add_argument("--markdown", type=Path, help="file whose sections are written")
    arguments = parser.parse_args()
    from deepfls.cli.sections import hardware, markdown_table, write_section

    for part in arguments.part or MEASURES:
        with tempfile.TemporaryDirectory(prefix="deepfls-scale-", dir=arguments.dir) as folder:
            title, head, lines, note = MEASURES[part](Path(folder), arguments.rows or ROWS[part], arguments.repeats)
        text = markdown_table(head, lines)
        text = f"{text}\n\n{note}".rstrip()
        print(f"\n{title}\n\n{text}\n")
        if arguments.markdown:
            load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
            command = f"`python benchmarks/scale.py --part {part} --markdown RESULTS.md`"
            intro = f"### Scale: {part}\n\nWritten by {command}. {title}."
            foot = f"{hardware()} One thread of torch's per process. Load averages at the end: {load}."
            write_section(arguments.markdown, f"scale-{part}", f"{intro}\n\n{text}\n\n{foot}")


if __name__ == "__main__":
    main()
