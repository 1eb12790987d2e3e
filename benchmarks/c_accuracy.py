"""How far is exported C in float from the float64 of Python? Random and trained systems, within and beyond their data.

``python benchmarks/c_accuracy.py --markdown RESULTS.md``

Errors are relative to the output, or to its spread where it is near zero; and to the spread alone, raw and beyond half a
unit of the output in float32, which no function that returns a float can avoid. Crisp outputs and both ends count. Needs
gcc.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the systems of the tests

from deepfls import FLSRegressor  # noqa: E402
from deepfls.cli.sections import hardware, markdown_table, write_section  # noqa: E402
from deepfls.export.c_header import c_header  # noqa: E402
from deepfls.inspection.plain import PlainSystem  # noqa: E402
from export_cases import compiled, inputs_of, random_plain_system, reference, run_c  # noqa: E402  # after the path

# Width of the box of inputs in ranges of the data; 6 standard deviations of the centers in random systems.
WIDTHS = (1.0, 1.5, 3.0, 10.0, 100.0, 1000.0)
METHODS = ("km", "nt", "bmm", "sm")


def random_system(seed: int) -> PlainSystem:
    return random_plain_system(
        seed,
        kind="it2" if seed % 4 else "t1",
        uncertainty=("h", "s", "hs")[seed % 3],
        type_reduction=METHODS[seed // 4 % 4],
        order=int(seed % 5 > 0),
        tnorm=("product", "htsk")[seed % 2],
    )


def trained_system(seed: int) -> PlainSystem:
    """A system of 1 to 6 inputs on scales of their own, trained on a function with a bend and a product."""
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(1, 7))
    scale = 10.0 ** rng.integers(-3, 4, n_features)
    z = rng.normal(size=(600, n_features))
    x = scale * (rng.choice([0.0, 1.0, -30.0, 1e4], n_features) + z)
    y = rng.choice([0.0, 500.0]) + np.sin(2 * z[:, 0]) + z[:, 0] * z[:, -1] + 0.1 * rng.normal(size=600)
    model = FLSRegressor(
        kind="it2" if seed % 3 else "t1",
        n_rules=int(rng.integers(2, 9)),
        type_reduction=METHODS[seed % 4],
        epochs=20,
        random_state=seed,
        device="cpu",
    )
    return PlainSystem.of(model.fit(x, y))


def errors_of(plain: PlainSystem, seed: int, rows: int) -> list[np.ndarray]:
    """Errors (3, rows) of one system for every width of the box: by output, by spread, by spread beyond the rounding."""
    header = c_header(plain, prefix="plant", exp=("libm", "builtin")[seed // 2 % 2]).text
    found = []
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder), header)
        for width in WIDTHS:
            x = inputs_of(plain, rows, seed, width)
            got, truth = run_c(program, x, plain.n_outputs), reference(plain, x)
            parts = []
            for name in ("y",) if plain.kind == "t1" else ("y", "y_left", "y_right"):
                expected = getattr(truth, name)
                error, spread = np.abs(getattr(got, name) - expected), expected.std(axis=0)
                half_unit = np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64) / 2
                by_output = error / np.maximum(np.abs(expected), np.maximum(spread, 1e-30))
                # An output that is constant to float32 has no spread to compare with.
                spread = np.where(spread > half_unit.max(axis=0), spread, np.inf)
                parts.append(np.stack([by_output, error / spread, np.maximum(error - half_unit, 0) / spread]).max(axis=2))
            found.append(np.max(parts, axis=0))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=int, default=120)
    parser.add_argument("--trained", type=int, default=24)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    lines = []
    for what, count, system in (
        ("random", arguments.systems, random_system),
        ("trained", arguments.trained, trained_system),
    ):
        by_width = zip(*(errors_of(system(seed), seed, arguments.rows) for seed in range(count)), strict=True)
        for width, parts in zip(WIDTHS, by_width, strict=True):
            largest = np.array([part.max(axis=1) for part in parts])
            share = np.mean([(part[0] > 1e-5).mean() for part in parts])
            cells = [f"{np.median(largest[:, 0]):.1e}", *(f"{value:.1e}" for value in largest.max(axis=0))]
            over = [str(int((largest[:, column] > 1e-5).sum())) for column in (0, 1, 2)]
            lines.append([what, f"{width:g}", *cells, f"{100 * share:.4f}", " / ".join(over)])
    head = ["systems", "box / range", "median of the systems' largest", "largest", "by spread alone"]
    head += ["the same beyond rounding of the output", "% of rows over 1e-5", "systems over 1e-5"]
    text = markdown_table(head, lines)
    print(text)
    if arguments.markdown:
        intro = (
            "## Accuracy of exported C\n\nWritten by `python benchmarks/c_accuracy.py --markdown RESULTS.md`: "
            f"{arguments.systems} random systems of every kind and {arguments.trained} trained ones, {arguments.rows:,} "
            "inputs each, uniform over a box as wide as the data or wider; C in float32 against Python in float64; the "
            "worst of crisp output and both ends. Median and largest are relative to the output, or to its spread over the "
            "rows where it is near zero. By spread alone, systems with outputs far from zero are held to less than float32 "
            "resolves there, so the next column takes off half a unit of the output in float32; outputs constant to "
            "float32 are left out there. The last column counts systems by the three errors."
        )
        write_section(arguments.markdown, "c-accuracy", f"{intro}\n\n{text}\n\n{hardware()}")


if __name__ == "__main__":
    main()
