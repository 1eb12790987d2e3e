"""How much faster is a training step than with the paper's fKM, and does it still work with 1,000 rules?

    python benchmarks/fkm.py [--quick] [--json FILE] [--markdown FILE]

The same as ``deepfls bench --only fkm``; docs/speed.md tells how it is measured.
"""

from __future__ import annotations

import sys

from deepfls.cli.app import app

if __name__ == "__main__":
    app(["bench", "--only", "fkm", *sys.argv[1:]])
