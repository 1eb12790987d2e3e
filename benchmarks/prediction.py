"""How fast are predictions, of a million rows and of one, and how much memory do they take?

    python benchmarks/prediction.py [--quick] [--json FILE] [--markdown FILE]

The same as ``deepfls bench --only prediction``; docs/speed.md tells how it is measured.
"""

from __future__ import annotations

import sys

from deepfls.cli.app import app

if __name__ == "__main__":
    app(["bench", "--only", "prediction", *sys.argv[1:]])
