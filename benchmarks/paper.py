"""The table of Köklü, Güven and Kumbasar (2024): training time and test error, the paper's figures beside ours.

    python benchmarks/paper.py --data-dir DIR --seeds 10 --json FILE --markdown RESULTS.md

The classic Karnik-Mendel algorithm (it2-km) is timed on a few real training steps and extrapolated, unless --full. Ctrl-C
keeps the finished cells. Another run with the same --json file measures only the cells that the file does not have.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

import _protocol as protocol
from _report import INTERRUPTED, names_among, option_parser, positive, positives, print_table, write_json, write_results
from _report import markdown_table as as_markdown
from deepfls.data.datasets import load_dataset
from deepfls.functional.karnik_mendel import MAX_ENUMERATED_RULES

# Real training steps whose time is extrapolated to a complete run of the classic algorithm.
TIMED_STEPS = 5
# Rules up to which the paper's enumeration is run to its end.
MAX_FULL_ENUMERATION = 15
HEAD = ["set", "rules", "system", "out", "RMSE", "±", "paper", "s", "paper s", "ms/step", "× KM"]

Row = dict[str, Any]
Cell = tuple[str, int, str]


def new_parser() -> argparse.ArgumentParser:
    parser = option_parser(__doc__, "json", "markdown")
    add = parser.add_argument
    add("--data-dir", type=Path, metavar="DIR", help="folder with ccpp.csv, boston.csv and enb.csv")
    add("--sets", type=names_among(protocol.SETS), default=",".join(protocol.SETS), help="data sets, separated by commas")
    add("--rules", type=positives, default="5,10,15", help="numbers of rules, separated by commas")
    systems = ",".join(protocol.SYSTEMS)
    add("--systems", type=names_among(protocol.SYSTEMS), default=systems, help="systems, separated by commas")
    add("--seeds", type=positive, default=1, help="splits and starting values: mean errors, median times")
    add("--epochs", type=positive, default=protocol.EPOCHS, help="epochs of each run; the paper's 100 by default")
    add("--full", action="store_true", help="run the classic algorithm to its end too")
    add("--quiet", action="store_true", help="print only errors")
    add("--debug", action="store_true", help="show the traceback of an error")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    given = new_parser().parse_args(arguments)
    try:
        return reproduce(given)
    except (ValueError, OSError) as error:
        if given.debug:
            raise
        print(f"Error: {error}", file=sys.stderr)
        return 1


def reproduce(given: argparse.Namespace) -> int:
    """Measure the missing cells, print and write the table; returns the exit code."""
    kept = kept_rows(given.json)
    cells = [
        (dataset, rules, system)
        for dataset, rules, system in itertools.product(given.sets, given.rules, given.systems)
        if system != "it2-fkm" or rules <= MAX_ENUMERATED_RULES
    ]
    too_many = [rules for rules in given.rules if rules > MAX_ENUMERATED_RULES]
    if too_many and "it2-fkm" in given.systems and not given.quiet:
        print(f"it2-fkm is left out from {min(too_many)} rules on: it enumerates 2^rules choices.")
    rows, interrupted = run_cells(cells, kept, given)
    if rows and not given.quiet:
        table = zip(rows, text_cells(rows), strict=True)
        groups = itertools.groupby(table, key=lambda pair: (pair[0]["dataset"], pair[0]["rules"]))
        print_table(HEAD, *([cells for _, cells in group] for _, group in groups), left=("set", "system", "out"))
        print(*notes(rows), sep="\n")
    if rows and given.markdown:
        write_markdown(given.markdown, rows, given.epochs)
    if interrupted:
        print("Stopped: interrupted; the cells that were finished are above.", file=sys.stderr)
    return INTERRUPTED if interrupted else 0


def kept_rows(path: Path | None) -> list[Row]:
    """Rows of an earlier run."""
    if path is None or not path.exists():
        return []
    try:
        rows = [dict(row) for row in json.loads(path.read_text(encoding="utf-8"))]
        for row in rows:
            _ = [row[name] for name in ("dataset", "rules", "system", "seeds", "epochs", "extrapolated")]
        return rows
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{str(path)!r} must hold a list of rows from an earlier run, got something else ({error})."
        ) from None


def run_cells(cells: list[Cell], kept: list[Row], given: argparse.Namespace) -> tuple[list[Row], bool]:
    """All rows in order, and whether Ctrl-C ended the work early. Every finished cell is written to the JSON file."""
    data = {name: load_dataset(name, data_dir=given.data_dir) for name in {cell[0] for cell in cells}}
    # A cell of an earlier run is kept if it was measured with the options of this run.
    asked = {
        cell: {"seeds": given.seeds, "epochs": given.epochs, "extrapolated": is_timed(cell, given.full)} for cell in cells
    }
    rows = [row for row in kept if asked.get(cell_of(row), {}).items() <= row.items()]
    done = {cell_of(row) for row in rows}
    todo = [cell for cell in cells if cell not in done]
    if todo:
        protocol.warm_up()
    with Progress(console=Console(stderr=True), disable=given.quiet or not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=len(todo) * given.seeds)
        try:
            for cell in todo:
                dataset, n_rules, system = cell
                timed_steps = TIMED_STEPS if is_timed(cell, given.full) else None
                runs = []
                for seed in range(given.seeds):
                    bar.update(task, description=f"{dataset} {system} {n_rules} rules, seed {seed}")
                    split = protocol.protocol_split(data[dataset], seed)
                    options = {"epochs": given.epochs, "timed_steps": timed_steps}
                    runs.append(protocol.run(dataset, split, n_rules, system, seed, **options))
                    bar.advance(task)
                found = protocol.summary_rows(data[dataset], n_rules, system, runs)
                rows += [{**row, "epochs": given.epochs} for row in found]
                if given.json:
                    write_json(given.json, rows)
        except KeyboardInterrupt:
            return in_order(rows), True
    if given.json:
        write_json(given.json, in_order(rows))
    return in_order(rows), False


def cell_of(row: Row) -> Cell:
    return row["dataset"], row["rules"], row["system"]


def is_timed(cell: Cell, full: bool) -> bool:
    """Whether a cell is timed on a few steps and extrapolated: the classic algorithm, and enumerations that take hours."""
    _, rules, system = cell
    return not full and (system == "it2-km" or (system == "it2-fkm" and rules > MAX_FULL_ENUMERATION))


def in_order(rows: list[Row]) -> list[Row]:
    def place(row: Row) -> tuple[int, int, int]:
        return protocol.SETS.index(row["dataset"]), row["rules"], protocol.SYSTEMS.index(row["system"])

    return sorted(rows, key=place)


def speed_ups(rows: list[Row]) -> dict[Cell, float]:
    """Training speed of each cell in times that of the classic algorithm, where the table has both."""
    classic = {(row["dataset"], row["rules"]): row["ms_per_step"] for row in rows if row["system"] == "it2-km"}
    return {
        cell_of(row): classic[row["dataset"], row["rules"]] / row["ms_per_step"]
        for row in rows
        if (row["dataset"], row["rules"]) in classic
    }


def text_cells(rows: list[Row]) -> list[list[str]]:
    """The table as text. An asterisk marks an extrapolated number."""
    ratios = speed_ups(rows)
    table = []
    for row in rows:
        asterisk = "*" if row["extrapolated"] else ""
        ratio = ratios.get(cell_of(row))
        table.append(
            [
                row["dataset"],
                str(row["rules"]),
                row["system"],
                row["output"],
                "-" if row["rmse_mean"] is None else f"{row['rmse_mean']:.3f}",
                "-" if row["rmse_std"] is None or row["seeds"] < 2 else f"{row['rmse_std']:.3f}",
                "-" if row["paper_rmse"] is None else f"{row['paper_rmse']:.3f}",
                f"{row['seconds']:,.{1 if row['seconds'] >= 1.0 else 2}f}{asterisk}",
                "-" if row["paper_seconds"] is None else f"{row['paper_seconds']:,.0f}",
                f"{row['ms_per_step']:,.{2 if row['ms_per_step'] >= 1.0 else 3}f}{asterisk}",
                "-" if ratio is None else f"{ratio:,.{0 if ratio >= 100.0 else 1}f}",
            ]
        )
    return table


def notes(rows: list[Row]) -> list[str]:
    seeds = sorted({row["seeds"] for row in rows})
    found = [
        f"RMSE in z-units, mean over {' or '.join(map(str, seeds))} seed(s) and its spread. Seconds and ms: the median "
        "over them, on one thread of this machine; the paper's on a 12-core i9-7920 with a GTX 1080 Ti, in MATLAB.",
        "× KM: how many times as fast a training step is as with the classic algorithm, same set and rules.",
    ]
    if any(row["extrapolated"] for row in rows):
        found.append(f"* extrapolated from {TIMED_STEPS} real training steps per seed; --full runs it to the end.")
    ours = [value for (_, _, system), value in speed_ups(rows).items() if system == "it2"]
    if ours:
        found.append(
            f"Ours trains {min(ours):,.0f} to {max(ours):,.0f} times as fast as with the classic one, "
            "which is written here as well as it allows. The paper reports 7,218 for its fKM, against its own classic one."
        )
    return found + ratio_notes(rows)


def ratio_notes(rows: list[Row]) -> list[str]:
    """Time with the most rules of each set: ours in times T1, and the enumeration in times ours."""
    times = {cell_of(row): row["ms_per_step"] for row in rows}
    found = []
    for slower, faster, sentence in (
        ("it2", "t1", "Ours takes {} times as long as T1"),
        ("it2-fkm", "it2", "The enumeration takes {} times as long as ours"),
    ):
        both = [(name, rules) for name, rules, system in times if system == slower and (name, rules, faster) in times]
        most = max((rules for _, rules in both), default=0)
        ratios = {name: times[name, most, slower] / times[name, most, faster] for name, rules in both if rules == most}
        if ratios:
            text = ", ".join(f"{ratio:,.{0 if ratio >= 100.0 else 2}f} ({name})" for name, ratio in ratios.items())
            found.append(f"{sentence.format(text)}, with {most} rules.")
    return found


def write_markdown(path: Path, rows: list[Row], epochs: int) -> None:
    intro = (
        "`t1` is the Type-1 system; `it2-km`, `it2-fkm` and `it2` are one Interval Type-2 system, reduced by the classic "
        "Karnik-Mendel algorithm, by the paper's enumeration of 2^rules choices, and by ours."
    )
    listed = "\n".join(f"- {note}" for note in [*notes(rows), f"{epochs} epochs."])
    table = as_markdown(HEAD, text_cells(rows))
    write_results(path, "paper", "The paper's experiment", "paper.py --data-dir DIR --json FILE", intro, table, listed)


if __name__ == "__main__":
    sys.exit(main())
