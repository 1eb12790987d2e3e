"""Print the lowest versions that pyproject.toml promises, as constraints for pip. torch is left out.

The oldest torch comes with several gigabytes of CUDA packages; the one in constraints.txt does not.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

if sys.version_info < (3, 11):
    import tomli as tomllib
else:
    import tomllib

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
# Of the tools for developers only those that tests hand tables to; the others are no promise.
tables = [entry for entry in extras["dev"] if entry.startswith(("pandas", "polars"))]
for requirement in [*project["dependencies"], *extras["onnx"], *extras["examples"], *tables]:
    found = re.match(r"([\w-]+)>=([\d.]+)", requirement)
    if found and found.group(1) != "torch" and "python_version" not in requirement:
        print(f"{found.group(1)}=={found.group(2)}")
