"""How far is exported C in float from the float64 of Python? Random and trained systems, within and beyond their data.

    python benchmarks/c_accuracy.py [--quick] [--markdown FILE]

Errors are relative to the output, or to its spread where it is near zero; and to the spread alone, raw and beyond half a
unit of the output in float32, which no function that returns a float can avoid. Crisp outputs and both ends are compared.
gcc must be installed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from _report import markdown_table, option_parser, positive, write_results
from deepfls import FLSRegressor
from deepfls.export.c_header import c_header
from deepfls.inspection.plain import PlainSystem

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from export_cases import compiled, inputs_of, random_plain_system, reference, run_c

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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = option_parser(__doc__, "markdown")
    parser.add_argument("--systems", type=positive, default=120, help="random systems; 120 by default")
    parser.add_argument("--trained", type=positive, default=24, help="trained systems; 24 by default")
    parser.add_argument("--rows", type=positive, default=10_000, help="inputs of each; 10,000 by default")
    parser.add_argument("--quick", action="store_true", help="a tenth of the systems: a first look, no result")
    given = parser.parse_args(arguments)
    share = 10 if given.quick else 1
    n_random, n_trained = -(-given.systems // share), -(-given.trained // share)
    lines = []
    for what, count, system in (("random", n_random, random_system), ("trained", n_trained, trained_system)):
        by_width = zip(*(errors_of(system(seed), seed, given.rows) for seed in range(count)), strict=True)
        for width, parts in zip(WIDTHS, by_width, strict=True):
            largest = np.array([part.max(axis=1) for part in parts])
            over_share = np.mean([(part[0] > 1e-5).mean() for part in parts])
            cells = [f"{np.median(largest[:, 0]):.1e}", *(f"{value:.1e}" for value in largest.max(axis=0))]
            over = [str(int((largest[:, column] > 1e-5).sum())) for column in (0, 1, 2)]
            lines.append([what, f"{width:g}", *cells, f"{100 * over_share:.4f}", " / ".join(over)])
    head = ["systems", "box / range", "median of the systems' largest", "largest", "by spread alone"]
    head += ["the same beyond rounding of the output", "% of rows over 1e-5", "systems over 1e-5"]
    text = markdown_table(head, lines)
    print(text)
    if given.markdown:
        intro = (
            f"{n_random} random systems of every kind and {n_trained} trained ones, {given.rows:,} inputs each, uniform "
            "over a box as wide as the data or wider; C in float32 against Python in float64; the worst of crisp output "
            "and both ends. Median and largest are relative to the output, or to its spread over the rows where it is near "
            "zero. By spread alone, systems with outputs far from zero are held to less than float32 resolves there, so "
            "the next column takes off half a unit of the output in float32; outputs constant to float32 are left out "
            "there. The last column counts systems by the three errors."
        )
        write_results(given.markdown, "c-accuracy", "Accuracy of exported C", "c_accuracy.py", intro, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
