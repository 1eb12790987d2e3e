"""How much longer is a training step of an IT2 system than of a T1 system with as many rules?

    python benchmarks/steps.py [--quick] [--json FILE] [--markdown FILE]

The same as ``deepfls bench --only steps``; docs/speed.md tells how it is measured.
"""

from __future__ import annotations

import sys

from deepfls.cli.app import app

if __name__ == "__main__":
    app(["bench", "--only", "steps", *sys.argv[1:]])
