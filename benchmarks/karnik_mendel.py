"""How long does one sample take in each Karnik-Mendel algorithm, and by how much does "newton" win?

    python benchmarks/karnik_mendel.py [--quick] [--json FILE]

Times are µs per sample on one thread, best of several repeats. The repeats of all algorithms alternate within one run, so
that a slow moment of the machine hits all of them; the ratios are therefore worth more than the times.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from deepfls.functional import karnik_mendel

RULES = (5, 10, 14, 15, 50, 200, 1000)
MAX_ENUMERATED = 15  # 2^15 candidates already take most of a millisecond per sample
FORWARD = ("newton", "sort", "enumerate", "iterative")
BACKWARD = ("newton", "sort")
TIMES = (*FORWARD, *(f"{algorithm}+backward" for algorithm in BACKWARD))
RATIOS = tuple(f"{algorithm}/newton" for algorithm in FORWARD[1:])

Row = dict[str, float | None]


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread inside, the former number outside."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def random_case(batch: int, n_rules: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n_rules)
    upper = torch.rand(batch, n_rules, generator=generator)
    lower = upper * torch.rand(batch, n_rules, generator=generator)
    return lower, upper, torch.randn(batch, n_rules, 1, generator=generator)


def batch_size(algorithm: str, n_rules: int, quick: bool) -> int:
    """Enough samples that the overhead of a call disappears, few enough that a repeat stays well under a second."""
    full = 4096 if n_rules <= 50 else 1024
    if algorithm == "enumerate":
        full = 64 if n_rules > 10 else 512
    elif algorithm == "iterative":
        full = 100
    return max(16, full // 8) if quick else full


def forward_call(algorithm: str, case: tuple[Tensor, Tensor, Tensor]) -> Callable[[], object]:
    def call() -> object:
        with torch.no_grad():
            return karnik_mendel(*case, algorithm, check=False)

    return call


def backward_call(algorithm: str, case: tuple[Tensor, Tensor, Tensor]) -> Callable[[], object]:
    lower, upper, consequents = (t.clone().requires_grad_() for t in case)

    def call() -> object:
        y_left, y_right = karnik_mendel(lower, upper, consequents, algorithm, check=False)
        return torch.autograd.grad((y_left + y_right).sum(), (lower, upper, consequents))

    return call


def best_times(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Shortest duration of each call in seconds, the calls taking turns."""
    for call in calls.values():  # twice: the first call compiles or loads the kernel
        call()
        call()
    best = dict.fromkeys(calls, math.inf)
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def measure(rules: Sequence[int], *, quick: bool = False) -> list[Row]:
    """One row for each number of rules: µs per sample of every algorithm, None where it is not run, and the ratios."""
    rows: list[Row] = []
    with one_thread():
        for n_rules in rules:
            calls, batches = {}, {}
            for algorithm in FORWARD:
                if algorithm == "enumerate" and n_rules > MAX_ENUMERATED:
                    continue
                batches[algorithm] = batch_size(algorithm, n_rules, quick)
                calls[algorithm] = forward_call(algorithm, random_case(batches[algorithm], n_rules))
            for algorithm in BACKWARD:
                name = f"{algorithm}+backward"
                batches[name] = batch_size(algorithm, n_rules, quick)
                calls[name] = backward_call(algorithm, random_case(batches[name], n_rules))
            seconds = best_times(calls, repeats=3 if quick else 15)
            micros = {name: 1e6 * seconds[name] / batches[name] for name in calls}
            row: Row = {"rules": n_rules}
            row |= {name: micros.get(name) for name in TIMES}
            for slow, ratio in zip(FORWARD[1:], RATIOS, strict=True):
                row[ratio] = micros[slow] / micros["newton"] if slow in micros else None
            rows.append(row)
    return rows


def cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(title: str, rows: list[Row], columns: Sequence[str]) -> Table:
    result = Table(title=title)
    for name in ("rules", *columns):
        result.add_column(name.replace("+", "\n+"), justify="right")
    for row in rows:
        result.add_row(f"{row['rules']:.0f}", *(cell(row[name]) for name in columns))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer samples and repeats: a look, not a result")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    arguments = parser.parse_args()
    rows = measure(RULES, quick=arguments.quick)
    times = table("Karnik-Mendel: µs per sample, one thread, float32, one output", rows, TIMES)
    Console().print(times, table("Times as long as newton, forward only", rows, RATIOS))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
