"""Does the memory of a training step grow with batch x (rules + features), and never with batch x rules x features?

    python benchmarks/memory.py [--quick] [--json FILE] [--markdown FILE]

The same as ``deepfls bench --only memory``; docs/speed.md tells how it is measured.
"""

from __future__ import annotations

import sys

from deepfls.cli.app import app

if __name__ == "__main__":
    app(["bench", "--only", "memory", *sys.argv[1:]])
