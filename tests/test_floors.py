"""Imports go down the floors of the house, never up. CONTRIBUTING.md has the map."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import deepfls

PACKAGE = Path(deepfls.__file__).parent

# Bottom to top. A file imports only from entries listed before its own; an entry that is a folder orders its own files.
ORDER = [
    "_checks.settings",
    "_checks.tensors",
    "_checks.tables",
    "_checks.streams",
    "_checks.intervals",
    "_checks.reading",
    "_checks.export",
    "_checks",
    "functional.memberships",
    "functional.tracing",
    "functional._compiled",
    "functional._forms_cpu",
    "functional.firing",
    "functional.consequents",
    "functional._km_cpu",
    "functional.karnik_mendel",
    "functional._average_cpu",
    "functional.reduction",
    "functional.losses",
    "functional.loss_terms",
    "functional",
    "nn._constraints_cpu",
    "nn.constraints",
    "nn.antecedents",
    "nn.consequents",
    "nn._weights_cpu",
    "nn.weights",
    "nn.whole",
    "nn.systems",
    "nn",
    "initialize",
    "metrics",
    "calibration",
    "model_file",
    "data.scaling",
    "data.arrays",
    "data.xlsx",
    "data.turbidity",
    "data.catalog",
    "data.datasets",
    "data.tables",
    "data.layout",
    "data.conversion",
    "data.parquet",
    "data.sources",
    "data.summary",
    "data._mixing_cpu",
    "data.windows",
    "data",
    "train.recipe",
    "train.adam",
    "train.config",
    "train.progress",
    "train.star",
    "train.distributed",
    "train.rows",
    "train.threads",
    "train.gradients",
    "train.state",
    "train.batches",
    "train.checkpoint",
    "train.loop",
    "train",
    "doors",
    "estimator_state",
    "intervals",
    "stream_start",
    "stream_fit",
    "interval_mixins",
    "export_doors",
    "learner",
    "estimators",
    "snapshot",
    "export.text",
    "export.rows",
    "export.tables",
    "export.forms",
    "export.calibrated",
    "export.c_runtime",
    "export.c_reduction_runtime",
    "export.c_fixed_runtime",
    "export.fixed_point",
    "export.c_text",
    "export.c_intervals",
    "export.c_float",
    "export.c_fixed",
    "export.c",
    "export.onnx",
    "export.fll",
    "export.fis",
    "export.fis_reader",
    "export",
    "experiment",
    "batch",
    "plots.canvas",
    "plots.memberships",
    "plots.predictions",
    "plots.intervals",
    "plots.responses",
    "plots",
    "rules.words",
    "rules.render",
    "rules.ruleset",
    "rules",
    "explain.weights",
    "explain.pushes",
    "explain.show",
    "explain.point",
    "explain.usage",
    "explain.fewer",
    "explain.simplify",
    "explain",
    "report.payload",
    "report.page",
    "report",
    "bench.rows",
    "bench.timing",
    "bench.steps",
    "bench.operations",
    "bench.limit",
    "bench.fkm",
    "bench.peak",
    "bench.prediction",
    "bench.threads",
    "bench.memory",
    "bench.peer_worker",
    "bench.peers",
    "bench.questions",
    "bench",
    "cli.output",
    "cli.errors",
    "cli.settings",
    "cli.models",
    "cli.scores",
    "cli.interval_scores",
    "cli.sections",
    "cli.training",
    "cli.start",
    "cli.stream",
    "cli.train",
    "cli.predict",
    "cli.evaluate",
    "cli.rows",
    "cli.explain",
    "cli.report",
    "cli.simplify",
    "cli.export",
    "cli.reproduce",
    "cli.bench",
    "cli.demo",
    "cli.app",
    "cli",
    "__main__",
    "",
]

# Doors lead from an estimator up to the rooms made from it. They import a room by name when they are used, and may name it
# in annotations.
DOORS = ("doors",)


def module_name(path: Path) -> str:
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def imported_modules(path: Path) -> set[str]:
    """Names of this package's modules that a file imports, anywhere in it, including inside functions."""
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if module_name(path) in DOORS:
        tree.body = [
            node for node in tree.body if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        ]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} line {node.lineno}: imports are absolute"
            base = node.module or ""
            candidates = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            candidates = [alias.name for alias in node.names]
        else:
            continue
        for name in candidates:
            inside = name.removeprefix("deepfls").lstrip(".")
            if name.split(".")[0] == "deepfls" and inside in ORDER and inside:
                found.add(inside)
    return found


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=[module_name(p) or "deepfls" for p in FILES])
def test_file_imports_only_from_below(path: Path) -> None:
    name = module_name(path)
    assert name in ORDER, f"{name} has no place on the floors: add it to ORDER where it belongs"
    place = ORDER.index(name)
    # A folder's own name stands for its __init__, which may be reached through any of its files.
    upward = {other for other in imported_modules(path) if ORDER.index(other) >= place and not name.startswith(f"{other}.")}
    assert not upward, f"{name} imports upward from {sorted(upward)}"


@pytest.mark.parametrize("path", FILES, ids=[module_name(p) or "deepfls" for p in FILES])
def test_file_stays_readable_in_one_sitting(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 420


def test_one_file_names_the_engine_of_many_processes() -> None:
    naming = [path.name for path in FILES if "torch.distributed" in path.read_text(encoding="utf-8")]
    assert naming == ["distributed.py"]


def test_functional_floor_holds_no_modules() -> None:
    for path in (PACKAGE / "functional").glob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert "nn.Module" not in source
        assert "nn.Parameter" not in source


def test_only_doors_import_by_name() -> None:
    by_name = {module_name(path) for path in FILES if "import_module" in path.read_text(encoding="utf-8")}
    assert by_name == set(DOORS)


@pytest.mark.parametrize("name", DOORS)
def test_doors_lead_to_rooms_that_exist(name: str) -> None:
    source = (PACKAGE / f"{name}.py").read_text(encoding="utf-8")
    rooms = {
        node.args[0].value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "room" and isinstance(node.args[0], ast.Constant)
    }
    assert rooms
    assert rooms <= set(ORDER)
