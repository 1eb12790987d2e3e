"""Copy the two tables of README.md from RESULTS.md, where commands wrote them: python docs/tools/readme.py"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FITS = {
    "ours T1": "deepfls Type-1",
    "ours IT2": "deepfls Interval Type-2",
    "pytsk": "PyTSK (Type-1)",
    "highfis": "highFIS (Type-1)",
}
MODELS = {
    "T1": "Type-1",
    "IT2": "Interval Type-2",
    "8 T1": "8 Type-1 systems",
    "linear": "linear",
    "HistGB": "boosted trees (HistGB)",
}


def section(results: str, title: str) -> str:
    """The text below a heading of RESULTS.md."""
    return results.split(f"### {title}\n", 1)[1].split("\n### ", 1)[0]


def rows(text: str) -> list[list[str]]:
    """The first table of a text, without the line below its head."""
    lines = re.search(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    assert lines is not None
    return [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in lines.group().splitlines() if "|---" not in line
    ]


def table(head: list[str], body: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def fits(results: str) -> str:
    """Seconds of a fit beside other packages."""
    seconds: dict[str, dict[str, str]] = {}
    for row in rows(section(results, "Seconds of a fit beside other packages")):
        found = re.match(r"([\w ]+), N ([\d,]+), M (\d+), P (\d+),", row[0])
        if found and found.group(1) in FITS:
            name, *sizes = found.groups()
            seconds.setdefault(", ".join(sizes), {})[name] = f"{float(row[1]):.2g}"
    body = [[work, *(found.get(name, "-") for name in FITS)] for work, found in seconds.items()]
    return table(["rows, inputs, rules", *FITS.values()], body)


def errors(results: str) -> str:
    """Test RMSE beside other models, as far as nine sets go."""
    head, *body = rows(section(results, "Accuracy beside other models"))
    columns = [head.index(name) for name in MODELS if name in head]
    shown = [[row[0], *(row[column] for column in columns)] for row in body if row[0] != "mean rank"][:9]
    return table(["set (splits)", *(MODELS[head[column]] for column in columns)], shown)


def with_tables(readme: str, results: str) -> str:
    """The text of README.md with its tables renewed."""
    for name, made in (("fits", fits(results)), ("errors", errors(results))):
        readme = re.sub(rf"(<!-- {name}:.*-->\n)(?:\|.*\n)*", rf"\g<1>{made}", readme)
    return readme


if __name__ == "__main__":
    path = ROOT / "README.md"
    text = with_tables(path.read_text(encoding="utf-8"), (ROOT / "RESULTS.md").read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8")
