"""Run the code of the other packages on the pages docs/coming_from, in an environment that has them.

    python docs/tools/coming_from.py /path/to/that/environment/bin/python

Their blocks are fenced with ``py``, ours with ``python``, which the tests run.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGES = Path(__file__).parents[1] / "coming_from"


def peer_code(page: Path) -> str:
    """All blocks of a page that are another package's, in order."""
    return "\n".join(re.findall(r"^```py\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL))


def main(python: str) -> int:
    failed = 0
    for page in sorted(PAGES.glob("*.md")):
        code = peer_code(page)
        if code:
            done = subprocess.run([python, "-c", code], capture_output=True, text=True)
            failed += done.returncode != 0
            print(f"{page.name}: {'runs' if done.returncode == 0 else 'FAILS'}\n{done.stdout}{done.stderr[-2000:]}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
