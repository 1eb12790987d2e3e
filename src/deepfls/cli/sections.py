"""Sections of a Markdown file that commands write, each between its own marks, so that several commands share one file."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from deepfls._files import write_whole


def write_section(path: Path, name: str, text: str) -> None:
    """Put ``text`` between the marks of the section ``name``, or at the end of the file where it has none yet."""
    begin, end = f"<!-- {name}: written by a command, not by hand -->", f"<!-- end of {name} -->"
    section = f"{begin}\n\n{text.strip()}\n\n{end}"
    content = path.read_text(encoding="utf-8") if path.exists() else ""
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if pattern.search(content):
        content = pattern.sub(lambda _: section, content)
    else:
        content = f"{content.rstrip()}\n\n{section}\n".lstrip()
    write_whole(path, content.encode())


def hardware() -> str:
    """One line on the machine and the versions, for the foot of a table of measurements."""
    import numpy as np
    import torch

    from deepfls import __version__

    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text(encoding="utf-8", errors="replace"))
        processor = found.group(1).strip() if found else processor
    versions = (
        f"Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}, deepfls {__version__}"
    )
    return f"{processor}, {os.cpu_count()} cores, {platform.system()}; {versions}."


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, first column to the left and the others to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)
