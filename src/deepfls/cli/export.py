"""``deepfls export``: write a model for other programs and devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from deepfls._checks.arguments import printable
from deepfls.cli import options as o
from deepfls.cli.output import CommandOutput, UsageError

# Endings of files by target.
ENDINGS = {"c": (".h",), "onnx": (".onnx",), "fll": (".fll",), "fis": (".fis", ".m", ".t2fis")}
# Targets that take an option.
_TAKEN_BY = dict.fromkeys(("prefix", "number", "exp", "margin", "flash", "ram"), "c") | {
    "dtype": "onnx",
    "data": "c onnx",
    "plane": "c onnx fll fis",
}
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
    check_output(out, force=force, inputs=[model])
    with output.working("exporting"):
        opened = open_model(model)
        if "data" in given:
            given["X"] = opened.inputs(opened.table(given.pop("data")))
        if target == "c":
            given |= {"force": force, "margin": _margin(given.get("margin", "auto"))}
        with _errors_of_export():
            report = getattr(opened.estimator, f"to_{target}")(out, **given)
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


@contextmanager
def _errors_of_export() -> Iterator[None]:
    """Name the options instead of the arguments of an export in its errors; a missing package is a usage error."""
    try:
        with o.errors_by_option(_TAKEN_BY):
            yield
    except ImportError as error:
        raise UsageError(str(error)) from error
