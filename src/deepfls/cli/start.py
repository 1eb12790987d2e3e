"""``deepfls import``, and ``deepfls train --start``: rules that are there before learning."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepfls.cli import settings as s
from deepfls.cli.errors import UsageError
from deepfls.cli.output import Output, shown, started_processes

if TYPE_CHECKING:
    from deepfls.estimators import FLSRegressor

# What a file of rules decides, so that an option cannot.
_OF_THE_RULES = ("kind", "rules", "order", "uncertainty", "reduction", "tnorm", "scaling")
_OF_THE_START = ("centers", "consequents", "width", "ridge")


def import_(
    rules: Annotated[Path, typer.Argument(help="File of rules: a Sugeno system in a .fis file.", metavar="RULES")],
    out: Annotated[
        Path | None, s.option("--out", "Model file to write; that of RULES with .fls by default.", s.OUTPUT, metavar="FILE")
    ] = None,
    approximate: Annotated[
        bool,
        s.flag("--approximate", text="Take Gaussian sets of the same width for others, and the product for the minimum."),
    ] = False,
    force: s.Force = False,
    quiet: s.Quiet = False,
    json: s.Json = False,
    debug: s.Debug = False,
) -> None:
    """Make a model of rules that an expert wrote in a .fis file, as MATLAB and Octave save them."""
    output = Output(quiet=quiet, json=json)
    with output.shown_warnings():
        _run(rules, rules.with_suffix(".fls") if out is None else out, output, approximate=approximate, force=force)


def _run(rules: Path, out: Path, output: Output, *, approximate: bool, force: bool) -> None:
    from deepfls.cli.models import check_output

    _check_there(rules)
    check_output(out, force=force)
    with output.working("reading the rules"):
        estimator = _read(rules, approximate=approximate)
        estimator.save(out)
    n_rules, names = estimator.n_rules, [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    inputs = ", ".join(names) if names else str(estimator.n_features_in_)
    output.line(
        "Saved ",
        shown(out, "bold"),
        f": {estimator.kind}, {n_rules} rule{'s' * (n_rules != 1)}, inputs ",
        shown(inputs),
        ", outputs ",
        shown(", ".join(estimator.target_names_)),
    )
    content = {"command": "import", "rules": str(rules), "model": str(out), "kind": estimator.kind, "n_rules": n_rules}
    output.result({**content, "inputs": names, "targets": list(estimator.target_names_)})


def _check_there(path: Path) -> None:
    from deepfls.data.tables import nearest, quoted

    if not path.is_file():
        near = [entry.name for entry in path.parent.iterdir() if entry.is_file()] if path.parent.is_dir() else []
        raise UsageError(f"There is no file of rules {quoted(path)}.{nearest(path.name, near)}")


def _read(path: Path, *, approximate: bool = False, settings: Mapping[str, Any] | None = None) -> FLSRegressor:
    from deepfls.data.layout import Layout
    from deepfls.export.fis_reader import FisFileError, read_fis

    try:
        estimator = read_fis(path, approximate=approximate, **(settings or {}))
    except FisFileError as error:
        text = str(error).replace("approximate=True takes", "deepfls import --approximate takes")
        raise UsageError(text) from error
    names = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    if names:
        estimator.table_ = Layout(tuple(names), {}, estimator.target_names_, "number").as_dict()
    return estimator


def check_start(given: Mapping[str, Any]) -> None:
    """Refuse options that ``--start`` decides, or that cannot go on from it."""
    if "start" not in given:
        return
    for name in (*_OF_THE_RULES, *_OF_THE_START):
        if name in given:
            raise UsageError(f"--{name} must not be given with --start, which decides it.")
    if given.get("stream") or started_processes() > 1:
        raise UsageError("--start must come without --stream, and in one process.")
    _check_there(given["start"])


def started_from(path: Path, arguments: Mapping[str, Any]) -> FLSRegressor:
    """The estimator that a run of ``deepfls train --start`` goes on with: of a .fis file, or of a model file."""
    if path.suffix.lower() == ".fis":
        return _read(path, settings=arguments)
    from deepfls import FLSRegressor, load

    estimator = load(path)
    if not isinstance(estimator, FLSRegressor):
        raise UsageError(f"--start must be a file of rules or a model of numbers, got one of classes: {str(path)!r}.")
    return estimator.set_params(**{**arguments, "warm_start": True})


def features_of(estimator: FLSRegressor, given: Mapping[str, Any]) -> list[str]:
    """The columns that a model to go on with reads, in its order."""
    names = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    if not names:
        raise UsageError("--start must be a file whose inputs have distinct names, which are the columns to learn from.")
    if given.get("feature") and set(given["feature"]) != set(names):
        raise UsageError(f"--feature must be {', '.join(names)}, the inputs of --start, or be left out.")
    return names
