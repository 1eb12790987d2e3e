"""Do two threads help large work, do they leave small work alone, and is their number as before after every call?

    python benchmarks/threads.py [--quick] [--json FILE] [--markdown FILE]

The same as ``deepfls bench --only threads``; docs/speed.md tells how it is measured.
"""

from __future__ import annotations

import sys

from deepfls.cli.app import app

if __name__ == "__main__":
    app(["bench", "--only", "threads", *sys.argv[1:]])
