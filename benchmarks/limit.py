"""How far is a large training step from the bare matrix products it needs?

    python benchmarks/limit.py [--quick] [--json FILE] [--markdown FILE]

The same as ``deepfls bench --only limit``; docs/speed.md tells how it is measured.
"""

from __future__ import annotations

import sys

from deepfls.cli.app import app

if __name__ == "__main__":
    app(["bench", "--only", "limit", *sys.argv[1:]])
