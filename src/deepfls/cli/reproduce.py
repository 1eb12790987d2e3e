"""``deepfls reproduce``: the paper's experiment, in its protocol, beside the paper's figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deepfls.cli import options as s
from deepfls.cli.bench import chosen, option
from deepfls.cli.output import CommandOutput as Output
from deepfls.cli.output import UsageError, print_error

if TYPE_CHECKING:
    from deepfls.data.datasets import Dataset

# Real training steps that stand for a whole run of the classic algorithm.
TIMED_STEPS = 5
# Rules up to which the paper's enumeration is run to its end.
MAX_FULL_ENUMERATION = 15

Row = dict[str, Any]


def reproduce(
    data_dir: Annotated[
        Path | None, option("--data-dir", "Folder with ccpp.csv, boston.csv and enb.csv.", s.DATA, metavar="DIR")
    ] = None,
    sets: Annotated[str, option("--sets", "Data sets, separated by commas.", s.DATA)] = "ccpp,boston,enb",
    rules: Annotated[str, option("--rules", "Numbers of rules, separated by commas.", s.DATA)] = "5,10,15",
    systems: Annotated[str, option("--systems", "Systems, separated by commas.", s.DATA)] = "t1,it2-km,it2-fkm,it2",
    seeds: Annotated[int, option("--seeds", "Splits and starting values: mean errors, median times.", s.DATA, min=1)] = 1,
    epochs: Annotated[int, option("--epochs", "Epochs of each run; the paper's 100.", s.DATA, min=1)] = 100,
    full: Annotated[bool, option("--full", "Run the classic algorithm to its end too.", s.DATA)] = False,
    json_file: Annotated[
        Path | None,
        option("--json", "Write a list of rows; cells it already has are not run again.", s.DATA, metavar="FILE"),
    ] = None,
    markdown: Annotated[
        Path | None, option("--markdown", "Write the table into a section of this file.", s.DATA, metavar="FILE")
    ] = None,
    quiet: bool = False,
    debug: bool = False,
) -> None:
    """Reproduce the table of Köklü, Güven and Kumbasar (2024): training time and test error, theirs beside ours.

    The classic Karnik-Mendel algorithm (it2-km) is timed on a few real training steps and extrapolated, unless --full.
    """
    from deepfls import experiment
    from deepfls.functional.karnik_mendel import MAX_ENUMERATED_RULES

    output = Output(quiet=quiet, json=False)
    chosen_sets = chosen("--sets", sets, experiment.SETS)
    chosen_systems = chosen("--systems", systems, experiment.SYSTEMS)
    chosen_rules = _numbers("--rules", rules)
    kept = _kept_rows(json_file)
    cells = [(d, p, y) for d in chosen_sets for p in chosen_rules for y in chosen_systems]
    too_many = [p for p in chosen_rules if p > MAX_ENUMERATED_RULES]
    if too_many and "it2-fkm" in chosen_systems:
        cells = [cell for cell in cells if cell[2] != "it2-fkm" or cell[1] <= MAX_ENUMERATED_RULES]
        output.line(f"it2-fkm is left out from {min(too_many)} rules on: it enumerates 2^rules choices.")
    for path in (json_file, markdown):
        if path is not None and not path.parent.is_dir():
            raise FileNotFoundError(f"the folder of {str(path)!r} must exist.")
    with output.shown_warnings():
        rows, interrupted = _run_cells(cells, kept, data_dir, seeds, epochs, full, output, _saver(json_file))
    _print_table(rows, output)
    if markdown is not None and rows:
        _write_markdown(markdown, rows, epochs)
    if interrupted:
        print_error("interrupted; the cells that were finished are above.", label="Stopped")
        raise KeyboardInterrupt


def _numbers(option: str, text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UsageError(f"{option} must be positive whole numbers separated by commas, got {text!r}.")
    return list(dict.fromkeys(numbers))


def _kept_rows(path: Path | None) -> list[Row]:
    """Rows of an earlier run, to go on from."""
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


def _saver(path: Path | None) -> Callable[[list[Row]], None]:
    from deepfls._files import write_whole

    def save(rows: list[Row]) -> None:
        if path is not None:
            write_whole(path, (json.dumps(rows, indent=1) + "\n").encode())

    return save


def _run_cells(
    cells: list[tuple[str, int, str]],
    kept: list[Row],
    data_dir: Path | None,
    seeds: int,
    epochs: int,
    full: bool,
    output: Output,
    save: Callable[[list[Row]], None],
) -> tuple[list[Row], bool]:
    """All rows in order, and whether Ctrl-C ended the work early; finished cells are saved as they come."""
    from rich.console import Console
    from rich.progress import Progress

    from deepfls import experiment
    from deepfls.data.datasets import load_dataset

    data: dict[str, Dataset] = {name: load_dataset(name, data_dir=data_dir) for name in {cell[0] for cell in cells}}
    # A cell of an earlier run stands where it was measured as asked for now; otherwise it is measured again.
    asked = {cell: {"seeds": seeds, "epochs": epochs, "extrapolated": _is_timed(cell, full)} for cell in cells}
    rows = [row for row in kept if asked.get(_cell(row), {}).items() <= row.items()]
    todo = [cell for cell in cells if cell not in {_cell(row) for row in rows}]
    if todo:
        experiment.warm_up()
    with Progress(console=Console(stderr=True), disable=not output.bars) as bar:
        task = bar.add_task("", total=len(todo) * seeds)
        try:
            for dataset, n_rules, system in todo:
                timed_steps = TIMED_STEPS if _is_timed((dataset, n_rules, system), full) else None
                runs = []
                for seed in range(seeds):
                    bar.update(task, description=f"{dataset} {system} {n_rules} rules, seed {seed}")
                    split = experiment.protocol_split(data[dataset], seed)
                    runs.append(
                        experiment.run(dataset, split, n_rules, system, seed, epochs=epochs, timed_steps=timed_steps)
                    )
                    bar.advance(task)
                rows += [{**row, "epochs": epochs} for row in experiment.summary_rows(data[dataset], n_rules, system, runs)]
                save(rows)
        except KeyboardInterrupt:
            return _in_order(rows), True
    save(_in_order(rows))
    return _in_order(rows), False


def _cell(row: Row) -> tuple[str, int, str]:
    return row["dataset"], row["rules"], row["system"]


def _is_timed(cell: tuple[str, int, str], full: bool) -> bool:
    """Whether a cell is timed on a few steps and extrapolated: the classic algorithm, and enumerations that take hours."""
    _, rules, system = cell
    return not full and (system == "it2-km" or (system == "it2-fkm" and rules > MAX_FULL_ENUMERATION))


def _in_order(rows: list[Row]) -> list[Row]:
    from deepfls import experiment

    def place(row: Row) -> tuple[int, int, int]:
        return experiment.SETS.index(row["dataset"]), row["rules"], experiment.SYSTEMS.index(row["system"])

    return sorted(rows, key=place)


def _speed_ups(rows: list[Row]) -> dict[tuple[str, int, str], float]:
    """How many times faster than the classic algorithm each cell trained, where both are in the table."""
    classic = {(r["dataset"], r["rules"]): r["ms_per_step"] for r in rows if r["system"] == "it2-km"}
    return {
        (r["dataset"], r["rules"], r["system"]): classic[r["dataset"], r["rules"]] / r["ms_per_step"]
        for r in rows
        if (r["dataset"], r["rules"]) in classic
    }


_HEAD = ["set", "rules", "system", "out", "RMSE", "±", "paper", "s", "paper s", "ms/step", "× KM"]


def _cells(rows: list[Row]) -> list[list[str]]:
    """The table as text. An asterisk marks what was extrapolated."""
    speed_ups = _speed_ups(rows)
    table = []
    for row in rows:
        star = "*" if row["extrapolated"] else ""
        speed_up = speed_ups.get((row["dataset"], row["rules"], row["system"]))
        table.append(
            [
                row["dataset"],
                str(row["rules"]),
                row["system"],
                row["output"],
                "-" if row["rmse_mean"] is None else f"{row['rmse_mean']:.3f}",
                "-" if row["rmse_std"] is None or row["seeds"] < 2 else f"{row['rmse_std']:.3f}",
                "-" if row["paper_rmse"] is None else f"{row['paper_rmse']:.3f}",
                f"{row['seconds']:,.{1 if row['seconds'] >= 1.0 else 2}f}{star}",
                "-" if row["paper_seconds"] is None else f"{row['paper_seconds']:,.0f}",
                f"{row['ms_per_step']:,.{2 if row['ms_per_step'] >= 1.0 else 3}f}{star}",
                "-" if speed_up is None else f"{speed_up:,.{0 if speed_up >= 100.0 else 1}f}",
            ]
        )
    return table


def _print_table(rows: list[Row], output: Output) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    if output.silent or not rows:
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(_HEAD):
        table.add_column(name, justify="left" if place in (0, 2, 3) else "right", no_wrap=True)
    before = None
    for row, cells in zip(rows, _cells(rows), strict=True):
        if before is not None and before != (row["dataset"], row["rules"]):
            table.add_section()
        before = (row["dataset"], row["rules"])
        table.add_row(*cells)
    Console(highlight=False).print(table)
    for sentence in _notes(rows):
        output.line(sentence)


def _notes(rows: list[Row]) -> list[str]:
    seeds = sorted({row["seeds"] for row in rows})
    notes = [
        f"RMSE in z-units, mean over {' or '.join(map(str, seeds))} seed(s) and its spread. Seconds and ms: the median "
        "over them, on one thread of this machine; the paper's on a 12-core i9-7920 with a GTX 1080 Ti, in MATLAB.",
        "× KM: how many times as fast a training step is as with the classic algorithm, same set and rules.",
    ]
    if any(row["extrapolated"] for row in rows):
        notes.append(f"* extrapolated from {TIMED_STEPS} real training steps per seed; --full runs it to the end.")
    speed_ups = [value for (_, _, system), value in _speed_ups(rows).items() if system == "it2"]
    if speed_ups:
        notes.append(
            f"Ours trains {min(speed_ups):,.0f} to {max(speed_ups):,.0f} times as fast as with the classic one, "
            "which is written here as well as it allows. The paper reports 7,218 for its fKM, against its own classic one."
        )
    return notes + _ratios(rows)


def _ratios(rows: list[Row]) -> list[str]:
    """What the most rules cost in each set, ours beside T1 and the enumeration beside ours."""
    times = {_cell(row): row["ms_per_step"] for row in rows}
    notes = []
    for slower, faster, sentence in (
        ("it2", "t1", "Ours takes {} times as long as T1"),
        ("it2-fkm", "it2", "The enumeration takes {} times as long as ours"),
    ):
        both = [(name, rules) for name, rules, system in times if system == slower and (name, rules, faster) in times]
        most = max((rules for _, rules in both), default=0)
        ratios = {name: times[name, most, slower] / times[name, most, faster] for name, rules in both if rules == most}
        if ratios:
            found = ", ".join(f"{ratio:,.{0 if ratio >= 100.0 else 2}f} ({name})" for name, ratio in ratios.items())
            notes.append(f"{sentence.format(found)}, with {most} rules.")
    return notes


def _write_markdown(path: Path, rows: list[Row], epochs: int) -> None:
    from deepfls.cli.sections import hardware, markdown_table, write_section

    notes = "\n".join(f"- {note}" for note in [*_notes(rows), f"{epochs} epochs. {hardware()}"])
    text = (
        "## The paper's experiment\n\n"
        "Written by `deepfls reproduce --data-dir DIR --json FILE --markdown RESULTS.md`. `t1` is the Type-1 system; "
        "`it2-km`, `it2-fkm` and `it2` are one Interval Type-2 system, reduced by the classic Karnik-Mendel algorithm, by "
        "the paper's enumeration of 2^rules choices, and by ours.\n\n"
        f"{markdown_table(_HEAD, _cells(rows))}\n\n{notes}"
    )
    write_section(path, "reproduce", text)
