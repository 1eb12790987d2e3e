"""How long does one sample take in each Karnik-Mendel algorithm, in µs and in times "newton"?

    python benchmarks/karnik_mendel.py [--quick] [--json FILE]

One thread, float32, one output. The algorithms take turns within one run, so that a slow moment of the machine affects all
of them: the ratios are more reliable than the times.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from _report import option_parser, print_table, write_json
from _timing import Calls, effort_of, fastest, threads
from deepfls.functional import karnik_mendel

RULES = (5, 10, 14, 15, 50, 200, 1000)
MAX_ENUMERATED = 15  # 2^15 choices take most of a millisecond per sample
FORWARD = ("newton", "sort", "enumerate", "iterative")
TIMES = (*FORWARD, "newton+backward", "sort+backward")
RATIOS = tuple(f"{algorithm}/newton" for algorithm in FORWARD[1:])

Row = dict[str, float | None]


def batch_size(algorithm: str, n_rules: int, quick: bool) -> int:
    """Enough samples to hide the overhead of a call, and few enough for a call well under a second."""
    full = 4096 if n_rules <= 50 else 1024
    if algorithm == "enumerate":
        full = 64 if n_rules > 10 else 512
    elif algorithm == "iterative":
        full = 100
    return max(16, full // 8) if quick else full


def call_of(algorithm: str, batch: int, n_rules: int, backward: bool) -> Callable[[], object]:
    """A call of the algorithm on random samples, or of the algorithm and its gradient."""
    generator = torch.Generator().manual_seed(n_rules)
    upper = torch.rand(batch, n_rules, generator=generator)
    lower = upper * torch.rand(batch, n_rules, generator=generator)
    case = lower, upper, torch.randn(batch, n_rules, 1, generator=generator)

    def forward() -> object:
        with torch.no_grad():
            return karnik_mendel(*case, algorithm, check=False)

    leaves: list[Tensor] = [value.clone().requires_grad_() for value in case]

    def forward_and_backward() -> object:
        y_left, y_right = karnik_mendel(*leaves, algorithm, check=False)
        return torch.autograd.grad((y_left + y_right).sum(), leaves)

    return forward_and_backward if backward else forward


def measure(rules: Sequence[int], quick: bool = False) -> list[Row]:
    """One row for each number of rules: µs per sample of every algorithm, None where it is not run, and the ratios."""
    rows: list[Row] = []
    with threads(1):
        for n_rules in rules:
            calls, batches = {}, {}
            for name in TIMES:
                algorithm, _, backward = name.partition("+")
                if algorithm != "enumerate" or n_rules <= MAX_ENUMERATED:
                    batches[name] = batch_size(algorithm, n_rules, quick)
                    calls[name] = Calls(call_of(algorithm, batches[name], n_rules, bool(backward)))
            seconds = fastest(calls, effort_of(quick))
            micros = {name: 1e6 * seconds[name] / batches[name] for name in calls}
            ratios = {f"{name}/newton": micros[name] / micros["newton"] for name in FORWARD[1:] if name in micros}
            rows.append({"rules": n_rules, **{name: (micros | ratios).get(name) for name in (*TIMES, *RATIOS)}})
    return rows


def cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = option_parser(__doc__, "json")
    parser.add_argument("--quick", action="store_true", help="fewer samples and repeats: a first look, no result")
    given = parser.parse_args(arguments)
    rows = measure(RULES, quick=given.quick)
    for title, columns in (
        ("Karnik-Mendel: µs per sample, one thread, float32, one output", TIMES),
        ("Times as long as newton, forward only", RATIOS),
    ):
        print(f"\n{title}")
        print_table(["rules", *columns], [[f"{row['rules']:,}", *(cell(row[name]) for name in columns)] for row in rows])
    if given.json:
        write_json(given.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
