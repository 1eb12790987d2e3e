"""How does the time of a fit compare with that of other packages on the same work?

    python benchmarks/peers.py [--quick] [--json FILE] [--markdown FILE]

The same as ``deepfls bench --only peers``; docs/speed.md tells how it is measured.
"""

from __future__ import annotations

import sys

from deepfls.cli.app import app

if __name__ == "__main__":
    app(["bench", "--only", "peers", *sys.argv[1:]])
