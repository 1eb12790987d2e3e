"""``deepfls import``: a model from the rules of a file; and the start of ``deepfls train --start``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepfls._checks.arguments import counted
from deepfls.cli import options as o
from deepfls.cli.output import CommandOutput, UsageError, shown

if TYPE_CHECKING:
    from deepfls.estimators import FLSRegressor

# Settings that the file of --start determines.
_OF_THE_START = (
    *("kind", "n_rules", "order", "uncertainty", "type_reduction", "tnorm", "scaling"),
    *("centers", "consequents", "width", "ridge"),
)


@o.command
def import_model(
    output: CommandOutput,
    rules: Annotated[Path, typer.Argument(help="File of rules: a Sugeno system in a .fis file.", metavar="RULES")],
    out: Annotated[Path | None, o.output_option("Model file to write.", "RULES with the ending .fls")] = None,
    approximate: Annotated[
        bool, o.flag("--approximate", text="Take Gaussian sets of the same width for others, the product for the minimum.")
    ] = False,
    force: o.Force = False,
) -> None:
    """Make a model of rules that an expert wrote in a .fis file, as MATLAB and Octave save them."""
    from deepfls.cli.opening import check_output

    out = rules.with_suffix(".fls") if out is None else out
    _check_exists(rules)
    if out == rules:
        raise UsageError(f"RULES must be a file of rules, such as expert.fis, got the model file {str(rules)!r}.")
    check_output(out, force=force)
    with output.working("reading the rules"):
        estimator = _read_rules(rules, approximate=approximate)
        estimator.save(out)
    names, targets, size = _names(estimator), list(estimator.target_names_), counted(estimator.system_.n_rules, "rule")
    columns = f"inputs {', '.join(names) or estimator.n_features_in_}, outputs {', '.join(targets)}"
    output.line("Saved ", shown(out, "bold"), f": {estimator.kind}, {size}, ", shown(columns))
    content = {"command": "import", "rules": str(rules), "model": str(out), "kind": estimator.kind}
    output.result({**content, "n_rules": estimator.n_rules, "inputs": names, "targets": targets})


def _check_exists(path: Path) -> None:
    if not path.is_file():
        from deepfls.data.tables import no_such_file

        raise UsageError(no_such_file(path, "file of rules"))


def _names(estimator: FLSRegressor) -> list[str]:
    return [str(name) for name in getattr(estimator, "feature_names_in_", ())]


def _read_rules(path: Path, *, approximate: bool = False, settings: Mapping[str, Any] | None = None) -> FLSRegressor:
    from deepfls.data.layout import Layout
    from deepfls.export.fuzzy_tools import FisFileError, read_fis

    try:
        estimator = read_fis(path, approximate=approximate, **(settings or {}))
    except FisFileError as error:
        text = str(error).replace("approximate=True takes", "deepfls import --approximate takes")
        raise UsageError(text) from error
    if names := _names(estimator):
        estimator.table_ = Layout(tuple(names), estimator.target_names_, "number").as_dict()
    return estimator


def check_start(given: Mapping[str, Any], *, streamed: bool) -> None:
    """Refuse options that ``--start`` determines or that exclude it."""
    if "start" not in given:
        return
    for name in _OF_THE_START:
        if name in given:
            raise UsageError(f"{o.option_of(name)} must not be given with --start, which determines it.")
    if streamed:
        raise UsageError("--start must be given without --stream, and in one process.")
    _check_exists(given["start"])


def started_from(path: Path, arguments: Mapping[str, Any]) -> FLSRegressor:
    """The estimator that ``deepfls train --start`` continues: from a .fis file or a model file."""
    if path.suffix.lower() == ".fis":
        return _read_rules(path, settings=arguments)
    from deepfls import FLSRegressor, load

    estimator = load(path)
    if not isinstance(estimator, FLSRegressor):
        raise UsageError(f"--start must be a file of rules or a model of numbers, got one of classes: {str(path)!r}.")
    return estimator.set_params(**{**arguments, "warm_start": True})


def features_of_start(estimator: FLSRegressor, given: Mapping[str, Any]) -> list[str]:
    """The columns that the model of ``--start`` reads, in its order."""
    names = _names(estimator)
    if not names:
        raise UsageError("--start must be a file whose inputs have distinct names, which are the columns to learn from.")
    if given.get("feature") and set(given["feature"]) != set(names):
        raise UsageError(f"--feature must be {', '.join(names)}, the inputs of --start, or be left out.")
    return names
