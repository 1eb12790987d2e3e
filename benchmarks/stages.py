"""Where does the time of a training step go?

    python benchmarks/stages.py [--sizes 64x13x15,512x4x50,8192x90x50] [--markdown RESULTS.md]

Microseconds of every part of a step, for T1 and IT2 systems of each size, batch x inputs x rules: one thread, processor
time, the fastest of many windows. A part is timed by itself, again and again on the same arrays, so gradients do not take
the place of their values as they do in a step; there it takes longer, since others were in the cache before it. The
difference is in the row of the rest.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from deepfls.bench.timing import FULL, Calls, Steps, Work, fastest, new_system, random_rows, threads
from deepfls.cli.sections import hardware, markdown_table, write_section
from deepfls.functional.tracing import array_of, quietly
from deepfls.nn.whole import Whole, raw_parameters

NAMES = {"t1": "T1", "h": "IT2 h", "hs": "IT2 hs"}
SIZES = "64x13x15,512x4x50,8192x90x50"


def parts(kind: str, work: Work) -> dict[str, Callable[[], object]]:
    """Every part of the stage of a system, on what the parts before it made of some rows."""
    system = new_system(kind, work)
    stage = Whole(system.antecedents, "auto")
    x = array_of(random_rows(work.batch, work.n_features).x)
    values = [None if p is None else array_of(p) for p in raw_parameters(system.antecedents, system.consequents)]
    *free, intercepts, slopes = values
    weights, origin, log_ratios = stage._weights.forward(*free)
    (log_firing,) = stage._forms.forward(x, weights, origin)
    consequents = stage._consequents(x, intercepts, slopes)
    reduction, inputs = (stage._average if kind == "t1" else stage._ends), [log_firing, consequents]
    if kind != "t1":
        inputs.append(log_ratios if kind == "h" else None)
    grads = [np.full_like(output, 1.0 / work.batch) for output in reduction.forward(*inputs)]
    grad_firing, grad_consequents, to_ratios = (*reduction.backward(grads, (True, True, True)), None)[:3]
    _, to_weights, _ = stage._forms.backward([grad_firing], (False,))
    flat = grad_consequents.reshape(work.batch, -1)
    grad_slopes, grad_intercepts = np.empty((flat.shape[1], work.n_features), flat.dtype), np.empty_like(flat[0])
    return {
        "parameters to weights": lambda: stage._weights.forward(*free),
        "quadratic forms": lambda: stage._forms.forward(x, weights, origin),
        "consequents": lambda: stage._consequents(x, intercepts, slopes),
        "average or end points": lambda: reduction.forward(*inputs),
        "their gradient": lambda: reduction.backward(grads, (True, True, True)),
        "gradient of the forms": lambda: stage._forms.backward([grad_firing], (False,)),
        "gradient of the parameters": lambda: stage._weights.backward([to_weights, None, to_ratios], ()),
        "gradient of the slopes": lambda: stage._product_over_rows(flat, x, grad_slopes),
        "gradient of the intercepts": lambda: stage._column_sums(flat, grad_intercepts),
    }


def measure(work: Work) -> dict[str, dict[str, float]]:
    """Seconds by system and part."""
    with threads(1), quietly():
        times = {kind: fastest({name: Calls(part) for name, part in parts(kind, work).items()}, FULL) for kind in NAMES}
        steps = fastest({kind: Steps(kind, work) for kind in NAMES}, FULL)
    for kind, of in times.items():
        of["rest: rows, loss, optimiser, calls"] = steps[kind] - sum(of.values())
        of["step"] = steps[kind]
    return times


def table(work: Work) -> str:
    times = measure(work)
    lines = [[part, *(f"{1e6 * times[kind][part]:,.1f}" for kind in NAMES)] for part in times["t1"]]
    lines.append(["in times T1", *(f"{of['step'] / times['t1']['step']:.2f}" for of in times.values())])
    return markdown_table([f"µs, {work}", *NAMES.values()], lines)


def batch_x_inputs_x_rules(text: str) -> list[Work]:
    sizes = [[int(part) for part in size.split("x")] for size in text.split(",")]
    if any(len(size) != 3 or min(size) < 1 for size in sizes):
        raise ValueError  # which argparse tells with the text
    return [Work(*size) for size in sizes]


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--sizes", type=batch_x_inputs_x_rules, default=SIZES, help=f"default {SIZES}")
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    tables = []
    for work in given.sizes:
        tables.append(table(work))
        print(tables[-1], end="\n\n", flush=True)
    if given.markdown:
        intro = (
            "## Parts of a step\n\nWritten by `python benchmarks/stages.py --markdown RESULTS.md`. One thread, processor "
            "time, the fastest of many windows. Parts are timed by themselves, again and again on the same arrays; what "
            "they take longer within a step, where others were in the cache before them, is in the row of the rest, and so "
            "is what gradients save there by taking the place of their values."
        )
        write_section(given.markdown, "stages", "\n\n".join([intro, *tables, hardware()]))


if __name__ == "__main__":
    main()
