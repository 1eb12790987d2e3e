"""``deepfls export`` and ``import``: models for other programs and devices, and from rules that an expert wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepfls._checks.arguments import counted, printable
from deepfls.cli import options as o
from deepfls.cli.output import CommandOutput, UsageError, shown

if TYPE_CHECKING:
    from deepfls.estimators import FLSRegressor

# Endings of files by target.
ENDINGS = {"c": (".h",), "onnx": (".onnx",), "fll": (".fll",), "fis": (".fis", ".m", ".t2fis")}
# Targets that take an option.
_TAKEN_BY = dict.fromkeys(("prefix", "number", "exp", "margin", "flash", "ram"), "c") | {
    "dtype": "onnx",
    "data": "c onnx",
    "plane": "c onnx fll fis",
}
# Settings that the file of `deepfls train --start` determines.
_OF_THE_START = (
    *("kind", "n_rules", "order", "uncertainty", "type_reduction", "tnorm", "scaling"),
    *("centers", "consequents", "width", "ridge"),
)
_MARGIN = "Interval in C: auto, the calibrated one if there is one; none, the type-reduced set; a number widens that."


@o.command
def export(
    output: CommandOutput,
    model: Annotated[Path, o.MODEL_ARGUMENT],
    to: Annotated[str | None, o.output_option("c, onnx, fll or fis.", "by the ending of --out")] = None,
    out: Annotated[Path | None, o.output_option("File to write: .h, .onnx, .fll, .fis, .m or .t2fis.")] = None,
    prefix: Annotated[str | None, o.output_option("Begins every name in C.", "the stem of --out")] = None,
    number: Annotated[str | None, o.output_option("Arithmetic of C: float, q15 or q31.", "float")] = None,
    exp: Annotated[str | None, o.output_option("Exponential of C in float: libm or builtin.", "libm")] = None,
    margin: Annotated[str | None, o.output_option(_MARGIN, "auto")] = None,
    dtype: Annotated[str | None, o.output_option("Arithmetic inside ONNX: float64 or float32.", "float64")] = None,
    plane: Annotated[
        float | None, o.output_option("Level of the plane of kind gt2 to write; 1 is its Type-1 system.")
    ] = None,
    data: Annotated[str | None, o.option("Table to measure the error of q15, q31 and ONNX on.")] = None,
    flash: Annotated[int | None, o.output_option("Bytes of flash of the device.", "32768")] = None,
    ram: Annotated[int | None, o.output_option("Bytes of RAM of the device.", "8192")] = None,
    force: Annotated[
        bool, o.flag("--force", text="Replace an existing file, and write C that needs more than --flash or --ram.")
    ] = False,
) -> None:
    """Write a model as C for microcontrollers, as ONNX, or for FuzzyLite or MATLAB."""
    given: dict[str, Any] = {name: value for name, value in locals().items() if name in _TAKEN_BY and value is not None}
    from deepfls.cli.opening import check_output, open_model

    target, out = _target(to, out)
    for name in given:
        if target not in _TAKEN_BY[name].split():
            raise UsageError(f"--{name} must not be given with --to {target}, which does not take it.")
    if plane is not None and not 0.0 < plane <= 1.0:
        raise UsageError(f"--plane must be greater than 0 and at most 1, got {plane}.")
    check_output(out, force=force, inputs=[model])
    with output.working("exporting"):
        opened = open_model(model)
        if "data" in given:
            given["X"] = opened.inputs(opened.table(given.pop("data")))
        if target == "c":
            given |= {"force": force, "margin": _margin(given.get("margin", "auto"))}
        try:
            with o.errors_by_option(_TAKEN_BY):
                report = getattr(opened.estimator, f"to_{target}")(out, **given)
        except ImportError as error:  # a package that is not installed
            raise UsageError(str(error)) from error
    output.line(f"Wrote {printable(out if report is None else report)}")
    numbers = {} if report is None else {name: value for name, value in report._asdict().items() if name != "path"}
    output.result({"command": "export", "model": str(model), "to": target, "out": str(out), **numbers})


def _margin(text: str) -> float | str | None:
    """The argument of ``to_c`` for ``--margin``."""
    if text in ("auto", "none"):
        return None if text == "none" else text
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--margin must be auto, none or a number, got {text!r}.") from None


def _target(to: str | None, out: Path | None) -> tuple[str, Path]:
    """The target, and the file, whose ending must be one of the target's."""
    if out is None:
        raise UsageError("--out, the file to write, must be given. See 'deepfls export --help'.")
    ending = out.suffix.lower()
    if to is None:
        found = [name for name, endings in ENDINGS.items() if ending in endings]
        if not found:
            known = ", ".join(ending for endings in ENDINGS.values() for ending in endings)
            raise UsageError(f"--out must end in {known}, or --to must be given, got {str(out)!r}.")
        return found[0], out
    if ending not in ENDINGS[o.check_choice("--to", to, tuple(ENDINGS))]:
        raise UsageError(f"--out must end in {', '.join(ENDINGS[to])} for --to {to}, got {str(out)!r}.")
    return to, out


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
    from deepfls.cli.opening import check_model_ending, check_output

    _check_exists(rules)
    out = rules.with_suffix(".fls") if out is None else out
    if out == rules:
        raise UsageError(f"RULES must be a file of rules, such as expert.fis, got the model file {str(rules)!r}.")
    check_model_ending(out)
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


def _read_rules(path: Path, **how: Any) -> FLSRegressor:
    """The estimator of a .fis file with the layout of a table; ``how`` are options of :func:`read_fis`."""
    from deepfls.data.layout import Layout
    from deepfls.export.fuzzy_tools import FisFileError, read_fis

    try:
        estimator = read_fis(path, **how)
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
    taken = next((name for name in _OF_THE_START if name in given), None)
    if taken is not None:
        raise UsageError(f"{o.option_of(taken)} must not be given with --start, which determines it.")
    if streamed:
        raise UsageError("--start must be given without --stream, and in one process.")
    _check_exists(given["start"])


def started_from(path: Path, arguments: Mapping[str, Any]) -> FLSRegressor:
    """The estimator that ``deepfls train --start`` continues: from a .fis file or a model file."""
    if path.suffix.lower() == ".fis":
        return _read_rules(path, **arguments)
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
