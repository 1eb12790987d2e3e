"""How far is exported C in float from the float64 of Python? Random systems of every kind, within and beyond their data.

``python benchmarks/c_accuracy.py --markdown RESULTS.md``

Errors are relative to the output, or to its spread where it is near zero; crisp outputs and both ends count. Needs gcc.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the systems of the tests

from deepfls.cli.sections import hardware, markdown_table, write_section  # noqa: E402
from deepfls.export.c import c_header  # noqa: E402
from export_cases import compiled, inputs_of, random_snapshot, run_c  # noqa: E402  # after the path

# Width of the box of inputs in ranges of the data, which is 6 standard deviations of the centers.
WIDTHS = (1.0, 1.5, 3.0, 10.0)
METHODS = ("km", "nt", "bmm", "sm")


def errors_of(seed: int, rows: int) -> list[np.ndarray]:
    """Relative errors of one system for every width of the box."""
    snapshot = random_snapshot(
        seed,
        kind="it2" if seed % 4 else "t1",
        uncertainty=("h", "s", "hs")[seed % 3],
        type_reduction=METHODS[seed // 4 % 4],
        order=int(seed % 5 > 0),
        tnorm=("product", "htsk")[seed % 2],
    )
    header = c_header(snapshot, prefix="plant", exp=("libm", "builtin")[seed // 2 % 2]).text
    found = []
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder), header)
        for width in WIDTHS:
            x = inputs_of(snapshot, rows, seed, width)
            got, truth = run_c(program, x, snapshot.n_outputs), snapshot.output(x)
            names = ("y",) if snapshot.kind == "t1" else ("y", "y_left", "y_right")
            parts = []
            for name in names:
                expected = getattr(truth, name)
                size = np.maximum(np.abs(expected), expected.std(axis=0))
                parts.append(np.abs(getattr(got, name) - expected) / np.maximum(size, 1e-30))
            found.append(np.max([part.max(axis=1) for part in parts], axis=0))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=int, default=120)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    by_width = zip(*(errors_of(seed, arguments.rows) for seed in range(arguments.systems)), strict=True)
    lines = []
    for width, parts in zip(WIDTHS, by_width, strict=True):
        errors = np.concatenate(parts)
        largest = [part.max() for part in parts]
        cells = [f"{np.median(largest):.1e}", f"{errors.max():.1e}", f"{100 * (errors > 1e-5).mean():.4f}"]
        lines.append([f"{width:g}", *cells])
    text = markdown_table(
        ["box / range of the data", "median of the systems' largest", "largest", "% of rows over 1e-5"], lines
    )
    print(text)
    if arguments.markdown:
        intro = (
            "## Accuracy of exported C\n\nWritten by `python benchmarks/c_accuracy.py --markdown RESULTS.md`: "
            f"{arguments.systems} random systems of every kind, {arguments.rows:,} inputs each, uniform over a box as "
            "wide as the data or wider; C in float32 against Python in float64, relative to the output, or to its spread "
            "where it is near zero; the worst of crisp output and both ends."
        )
        write_section(arguments.markdown, "c-accuracy", f"{intro}\n\n{text}\n\n{hardware()}")


if __name__ == "__main__":
    main()
