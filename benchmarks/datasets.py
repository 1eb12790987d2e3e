"""Do the real files of the named data sets have the expected rows?

    python benchmarks/datasets.py [--data-dir DIR]

Compares the first row, the means of the targets and the number of repeated rows with known values. Without DIR the files
come from the cache or a download. The exit code is 1 if a set differs.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from deepfls.data.datasets import load_dataset

# Name: first row, means of the targets, repeated rows. Boston is the rounded copy of the paper, boston.csv.
EXPECTED = {
    "ccpp": ([14.96, 41.76, 1024.07, 73.17, 463.26], [454.365009], 41),
    "boston": ([0.006, 18, 2.31, 0, 0.538, 6.575, 65.2, 4.09, 1, 296, 15.3, 396.898, 4.98, 24], [22.532806], 0),
    "enb": ([0.98, 514.5, 294, 110.25, 7, 2, 0, 0, 15.55, 21.33], [22.307201, 24.587760], 0),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="folder with the files; otherwise the cache, then a download")
    data_dir = parser.parse_args().data_dir
    failed = 0
    for name, (first, means, n_repeated) in EXPECTED.items():
        data = load_dataset(name, data_dir=data_dir)
        table = np.column_stack([data.x, data.y])
        same = {
            "first row": np.allclose(table[0], first, rtol=0, atol=5e-3),  # the rounding of boston.csv
            "means": np.allclose(data.y.mean(axis=0), means, rtol=1e-6),
            "repeated rows": len(table) - len(np.unique(table, axis=0)) == n_repeated,
        }
        wrong = [what for what, equal in same.items() if not equal]
        result = f"different {', '.join(wrong)}" if wrong else "as expected"
        print(f"{name}: {len(table):,} rows from {data.source}: {result}")
        failed += bool(wrong)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
