"""What do altered model files, tables, .fis files and hostile names do? Nothing executes, hangs or fills the memory.

    python benchmarks/hostile_files.py [--quick] [--json FILE] [--markdown FILE]

Every file is a good one with a few random changes: bytes replaced, cut out, repeated or moved, the end missing; for model
files also values of the description and arrays, with a digest that fits again. Each is opened in a process with bounded
memory. An outcome is good if the file is refused in one sentence, or is read and gives finite predictions. Names that close
comments, strings and tags are written to every kind of output, which is then checked.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from _report import Row, Target, answer

FILES = {"model": 10_000, "parquet": 1_000, "csv": 1_000, "fis": 1_000}
QUICK_FILES = {"model": 120, "parquet": 60, "csv": 60, "fis": 60}
# Files of one process: it starts anew for the next ones, so that a crash is found and counted.
_AT_ONCE = 500
# Seconds that one file may take, and bytes that a process may have beyond those it starts with.
_SECONDS, _MEMORY = 20, 2 * 2**30
NAMES = (
    "</script><script>document.title='run'</script>",
    '<img src=x onerror="document.title=1">',
    "*/ int main(void) { return 1; } /*",
    '"; system("touch run"); //',
    "a\nRULE evil : y = 1",
    "x\\",
    "'; DROP TABLE rows; --",
    "${jndi:ldap://host}",
    "{{ 7 * 7 }}{% raw %}",
    "| a | b |\n|---|---|",
    "[link](javascript:run())",
    "=HYPERLINK(0)",
    "\x1b[2J\x00\u202e",
    "%n%s%1000d",
    "??/\n trigraph",
)
Change = Callable[[bytes, random.Random], bytes]


# Changes


def _replaced(content: bytes, source: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(source.choice((1, 1, 2, 8, 64))):
        changed[source.randrange(len(changed))] = source.randrange(256)
    return bytes(changed)


def _cut(content: bytes, source: random.Random) -> bytes:
    first = source.randrange(len(content))
    return content[:first] + content[first + source.randrange(1, 200) :]


def _repeated(content: bytes, source: random.Random) -> bytes:
    first = source.randrange(len(content))
    part = content[first : first + source.randrange(1, 400)]
    return content[:first] + part * source.choice((2, 50)) + content[first:]


def _moved(content: bytes, source: random.Random) -> bytes:
    first, second = sorted(source.randrange(len(content)) for _ in range(2))
    return content[:first] + content[second:] + content[first:second]


def _shortened(content: bytes, source: random.Random) -> bytes:
    return content[: source.randrange(len(content))]


def _other_numbers(content: bytes, source: random.Random) -> bytes:
    """Numbers in text become extreme ones."""
    extreme = (b"-1", b"0", b"1e308", b"nan", b"99999999999999999999", b"-inf", b"1e-320", b"")
    found = list(re.finditer(rb"-?\d+\.?\d*", content))
    if not found:
        return _replaced(content, source)
    place = source.choice(found)
    return content[: place.start()] + source.choice(extreme) + content[place.end() :]


CHANGES: tuple[Change, ...] = (_replaced, _cut, _repeated, _moved, _shortened, _other_numbers)


def altered_description(content: bytes, source: random.Random) -> bytes:
    """A model file with another value somewhere in its description or an array, and a digest that fits."""
    from deepfls._files import MODEL

    description, arrays = MODEL.unpacked(content, "model")
    values: list[Any] = [None, -1, 0, 10**9, 1e300, "", "x" * 10_000, [], {}, [[]], True, "__import__('os')"]
    if source.random() < 0.5:
        place: Any = description
        for _ in range(source.randrange(1, 4)):
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = source.choice(keys)
            if isinstance(place[key], (dict, list)) and source.random() < 0.6:
                place = place[key]
                continue
            if source.random() < 0.2 and isinstance(place, dict):
                del place[key]
            else:
                place[key] = source.choice(values)
            break
    else:
        name = source.choice(sorted(arrays))
        value = arrays.pop(name)
        kind = source.randrange(5)
        if kind == 0:
            arrays[name] = value[..., :-1] if value.ndim else value
        elif kind == 1:
            arrays[name] = value * source.choice((0.0, -1.0, 1e300))
        elif kind == 2:
            arrays[name] = value.astype(source.choice((np.float32, np.int64, np.uint8)))
        elif kind == 3:
            arrays[f"{name}x"] = value
    with np.errstate(all="ignore"), contextlib.suppress(ValueError):
        return bytes(MODEL.packed(description, arrays))
    return content


# Files and what is done with them


def good_files(folder: Path) -> dict[str, bytes]:
    """A good file of every kind."""
    import pyarrow as pa
    from pyarrow import parquet

    from deepfls import FLSRegressor

    source = np.random.default_rng(0)
    x = source.normal(size=(60, 2))
    y = x[:, 0] - x[:, 1] ** 2
    table = pa.table({"a": x[:, 0], "b": x[:, 1], "y": y, "text": ["up" if value > 0 else "down" for value in y]})
    inputs = table.select(["a", "b"])
    FLSRegressor(n_rules=3, epochs=2, coverage=0.8, random_state=0).fit(inputs, y).save(folder / "good.model")
    simple = FLSRegressor(kind="t1", n_rules=3, epochs=2, tnorm="product", random_state=0).fit(inputs, y)
    simple.to_fis(folder / "good.fis")
    parquet.write_table(table, folder / "good.parquet", row_group_size=20)
    names = table.schema.names
    lines = [",".join(names), *(",".join(str(row[name]) for name in names) for row in table.to_pylist())]
    (folder / "good.csv").write_text("\n".join(lines) + "\n")
    return {kind: (folder / f"good.{kind}").read_bytes() for kind in FILES}


def opened(kind: str, path: Path) -> str:
    """Open a file and use it; "read" or "refused"."""
    from deepfls import load
    from deepfls.data.layout import inputs, learn_layout, targets
    from deepfls.data.tables import read_table
    from deepfls.export.fuzzy_tools import read_fis

    try:
        if kind in ("model", "fis"):
            model: Any = load(path) if kind == "model" else read_fis(path)
            rows = np.zeros((2, model.n_features_in_))
            predicted = model.predict(rows)
            if not np.isfinite(predicted).all() and np.isfinite(model.system_.centers.numpy()).all():
                return "not finite"
        else:
            table = read_table(path)
            layout = learn_layout(table, [table.names[-1]])
            inputs(table, layout)
            targets(table, layout, classes=True)
    except (ValueError, OSError) as error:
        return "refused" if str(error).strip() and len(str(error)) < 2_000 else "unclear message"
    return "read"


def work(kind: str, first: int, count: int) -> None:
    """Open altered files in this process; prints the counts of their outcomes and the first few that are not good."""
    warnings.simplefilter("ignore")
    outcomes: Counter[str] = Counter()
    examples: list[str] = []
    ending = {"model": ".fls", "parquet": ".parquet", "csv": ".csv", "fis": ".fis"}[kind]

    def late(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        content = good_files(folder)[kind]
        path = folder / f"altered{ending}"
        path.write_bytes(content)
        assert opened(kind, path) == "read"
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + _MEMORY, in_use + _MEMORY))
        for number in range(first, first + count):
            source = random.Random(f"{kind} {number}")
            changes = (altered_description,) if kind == "model" and number % 2 else CHANGES
            path.write_bytes(source.choice(changes)(content, source))
            signal.alarm(_SECONDS)
            try:
                outcome = opened(kind, path)
            except TimeoutError:
                outcome = "hang"
            except MemoryError:
                outcome = "memory"
            except Exception as error:  # noqa: BLE001  # any other one is what is looked for
                outcome = f"{type(error).__name__}"
                examples.append(f"{kind} {number}: {type(error).__name__}: {str(error)[:200]}")
            finally:
                signal.alarm(0)
            outcomes[outcome] += 1
            if outcome not in ("read", "refused"):
                examples.append(f"{kind} {number}: {outcome}")
        if (folder / "run").exists():
            outcomes["executed"] += 1
    print(json.dumps({"outcomes": outcomes, "examples": examples[:10]}))


def counted(kind: str, n_files: int) -> tuple[Counter[str], list[str]]:
    """Outcomes of altered files of a kind."""
    outcomes: Counter[str] = Counter()
    examples: list[str] = []
    for first in range(0, n_files, _AT_ONCE):
        count = min(_AT_ONCE, n_files - first)
        done = subprocess.run(
            [sys.executable, __file__, "--worker", kind, str(first), str(count)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            outcomes["crash"] += 1
            examples.append(f"{kind} {first}: exit code {done.returncode}: {done.stderr[-300:]}")
            continue
        said = json.loads(done.stdout.splitlines()[-1])
        outcomes.update(said["outcomes"])
        examples += said["examples"]
    return outcomes, examples


def hostile_names(folder: Path) -> Iterator[tuple[str, bool]]:
    """For every hostile name and kind of output, whether the output is harmless."""
    import pyarrow as pa

    from deepfls import FLSRegressor
    from deepfls.cli.opening import csv_bytes
    from deepfls.cli.output import printable

    source = np.random.default_rng(0)
    x = source.normal(size=(60, 2))
    for number, name in enumerate(NAMES):
        table = pa.table({name: x[:, 0], "b": x[:, 1]})
        model = FLSRegressor(kind="t1", n_rules=2, epochs=1, tnorm="product", random_state=0).fit(table, x[:, 0])
        page = model.to_report(folder / f"{number}.html", table, x[:, 0]).read_text(encoding="utf-8")
        yield f"page, {name!r}", page.count("<script") == page.count("</script>") and "<img src=x" not in page
        model.to_c(folder / f"h{number}.h", prefix="plant")
        text = (folder / f"h{number}.h").read_text(encoding="utf-8")
        code = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
        yield f"C, {name!r}", "system(" not in code and "int main" not in code and "evil" not in code
        try:
            model.to_fll(folder / f"{number}.fll")
        except ValueError:
            yield f"FLL, {name!r}", True
        else:
            lines = (folder / f"{number}.fll").read_text(encoding="utf-8").splitlines()
            yield f"FLL, {name!r}", not any(line.startswith(("RULE", "|")) or "\x1b" in line for line in lines)
        markdown = model.rules().render("markdown")
        tags = any(tag in markdown for tag in ("<script>", "<img", "[link](javascript", "\n|---|---|\n"))
        yield f"Markdown, {name!r}", not tags
        rows = list(csv.reader(io.StringIO(csv_bytes(table).decode(), newline="")))
        yield f"CSV, {name!r}", rows[0] == [name, "b"] and len(rows) == 61
        yield f"terminal, {name!r}", printable(name).isprintable()


def compiled_names(folder: Path) -> bool | None:
    """Whether headers with hostile names compile without a warning; None without a compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    for header in sorted(folder.glob("h*.h")):
        done = subprocess.run(
            [compiler, "-Wall", "-Wextra", "-Werror", "-trigraphs", "-fsyntax-only", "-x", "c", str(header)],
            capture_output=True,
            check=False,
        )
        if done.returncode:
            print(header.name, done.stderr.decode()[:500], file=sys.stderr)
            return False
    return True


def measure(quick: bool) -> Iterator[Row]:
    none = Target("<=", 0)
    for kind, n_files in (QUICK_FILES if quick else FILES).items():
        outcomes, examples = counted(kind, n_files)
        for example in examples[:10]:
            print(example, file=sys.stderr)
        good = outcomes["read"] + outcomes["refused"]
        yield Row(f"altered {kind} files", float(n_files), "files")
        yield Row(f"altered {kind} files: refused in a sentence", float(outcomes["refused"]), "files")
        yield Row(f"altered {kind} files: neither read nor refused so", float(n_files - good), "files", none)
    with tempfile.TemporaryDirectory() as name:
        found = list(hostile_names(Path(name)))
        bad = [label for label, harmless in found if not harmless]
        for label in bad:
            print(label, file=sys.stderr)
        compiles = compiled_names(Path(name))
    yield Row("hostile names in outputs", float(len(found)), "outputs")
    yield Row("hostile names in outputs: not harmless", float(len(bad)), "outputs", none)
    label = "C with hostile names compiles" + (" (no compiler found)" if compiles is None else "")
    yield Row(label, None if compiles is None else float(compiles), "1: yes", Target(">=", 1))


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return 0
    return answer(
        __file__,
        __doc__,
        "Files from outside",
        f"Each file in a process with {_MEMORY / 2**30:.0f} GB beyond what it starts with and {_SECONDS} s.",
        measure,
    )


if __name__ == "__main__":
    sys.exit(main())
