"""How many tensor operations does a small training step issue, and which?

    python benchmarks/operations.py

Counts by name. ``deepfls bench --only operations`` prints the sums beside their targets; docs/speed.md tells how they are
counted.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from deepfls.bench.operations import NAMES, TARGETS, WORK, operations_of_a_step


def main() -> None:
    counts = {kind: operations_of_a_step(kind) for kind in NAMES}
    names = sorted(set().union(*counts.values()), key=lambda name: -max(count.get(name, 0) for count in counts.values()))
    table = Table(title=f"Tensor operations of one training step, {WORK}")
    table.add_column("operation")
    for kind, name in NAMES.items():
        table.add_column(f"{name}\n({TARGETS[kind]})", justify="right")
    for name in names:
        table.add_row(name, *(f"{count[name]:g}" if name in count else "" for count in counts.values()))
    table.add_section()
    table.add_row("all", *(f"{sum(count.values()):g}" for count in counts.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
