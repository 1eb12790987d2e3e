"""``deepfls export``: write a model for other places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from deepfls.cli import settings as s
from deepfls.cli.errors import UsageError
from deepfls.cli.output import Output, printable

# Endings of files by target.
ENDINGS = {"c": (".h",), "onnx": (".onnx",), "fll": (".fll",), "fis": (".fis", ".m", ".t2fis")}
# Which targets take which options.
_TAKEN_BY = {
    "prefix": ("c",),
    "number": ("c",),
    "exp": ("c",),
    "margin": ("c",),
    "flash": ("c",),
    "ram": ("c",),
    "dtype": ("onnx",),
    "data": ("c", "onnx"),
}


def export(
    model: Annotated[Path, s.MODEL_ARGUMENT],
    to: Annotated[
        str | None, s.option("--to", "c, onnx, fll or fis; by the ending of --out if not given.", s.OUTPUT, metavar="NAME")
    ] = None,
    out: Annotated[
        Path | None, s.option("--out", "File to write: .h, .onnx, .fll, .fis, .m or .t2fis.", s.OUTPUT, metavar="FILE")
    ] = None,
    prefix: Annotated[
        str | None, s.option("--prefix", "Begins every name in C; the file's stem by default.", s.OUTPUT, metavar="NAME")
    ] = None,
    number: Annotated[
        str | None, s.option("--number", "Arithmetic of C: float (default), q15 or q31.", s.OUTPUT, metavar="NAME")
    ] = None,
    exp: Annotated[
        str | None, s.option("--exp", "Exponential of C in float: libm (default) or builtin.", s.OUTPUT, metavar="NAME")
    ] = None,
    margin: Annotated[
        str | None,
        s.option(
            "--margin",
            "Interval in C: auto (default), the calibrated one if any; none, the type-reduced set; a number widens that.",
            s.OUTPUT,
            metavar="X",
        ),
    ] = None,
    dtype: Annotated[
        str | None, s.option("--dtype", "Arithmetic inside ONNX: float64 (default) or float32.", s.OUTPUT, metavar="NAME")
    ] = None,
    data: Annotated[
        str | None,
        s.option("--data", "Table to measure the error of q15, q31 and ONNX on.", s.DATA, metavar="FILE"),
    ] = None,
    flash: Annotated[int | None, s.option("--flash", "Bytes of flash the part has; 32768.", s.OUTPUT, metavar="N")] = None,
    ram: Annotated[int | None, s.option("--ram", "Bytes of RAM the part has; 8192.", s.OUTPUT, metavar="N")] = None,
    force: Annotated[
        bool, s.flag("--force", text="Replace an existing file, and write C that needs more than --flash or --ram.")
    ] = False,
    quiet: s.Quiet = False,
    json: s.Json = False,
    debug: s.Debug = False,
) -> None:
    """Write a model as C for microcontrollers, as ONNX, or for FuzzyLite or MATLAB."""
    output = Output(quiet=quiet, json=json)
    options = {"prefix": prefix, "number": number, "exp": exp, "margin": margin, "flash": flash, "ram": ram}
    given = {name: value for name, value in {**options, "dtype": dtype, "data": data}.items() if value is not None}
    with output.shown_warnings():
        _run(model, to, out, given, output, force=force)


def _run(path: Path, to: str | None, out: Path | None, given: dict[str, Any], output: Output, *, force: bool) -> None:
    from deepfls.cli.models import check_output, open_data, open_model

    target, out = _target(to, out)
    for name in given:
        if target not in _TAKEN_BY[name]:
            raise UsageError(f"--{name} must not be given with --to {target}, which does not take it.")
    check_output(out, force=force, inputs=[path] if path.exists() else [])
    with output.working("exporting"):
        model = open_model(path)
        if "data" in given:
            given["X"] = model.inputs(open_data(given.pop("data"), model))
        if target == "c":
            given["force"] = force
            given |= _margin(given.get("margin"))
        with _told_by_option():
            report = getattr(model.estimator, f"to_{target}")(out, **given)
    output.line(f"Wrote {printable(out if report is None else report)}")
    numbers = {} if report is None else {name: value for name, value in report._asdict().items() if name != "path"}
    output.result({"command": "export", "model": str(path), "to": target, "out": str(out), **numbers})


def _margin(text: str | None) -> dict[str, Any]:
    """What ``--margin`` says, as the argument of ``to_c``."""
    if text is None or text == "auto":
        return {"margin": "auto"}
    if text == "none":
        return {"margin": None}
    try:
        return {"margin": float(text)}
    except ValueError:
        raise UsageError(f"--margin must be auto, none or a number, got {text!r}.") from None


def _target(to: str | None, out: Path | None) -> tuple[str, Path]:
    """The target, and the file, whose ending must be one of the target's."""
    from deepfls._checks import did_you_mean

    if out is None:
        raise UsageError("--out, the file to write, must be given. See 'deepfls export --help'.")
    ending = out.suffix.lower()
    if to is None:
        found = [name for name, endings in ENDINGS.items() if ending in endings]
        if not found:
            known = ", ".join(ending for endings in ENDINGS.values() for ending in endings)
            raise UsageError(f"--out must end in {known}, or --to must be given, got {str(out)!r}.")
        return found[0], out
    if to not in ENDINGS:
        raise UsageError(f"--to must be one of {', '.join(map(repr, ENDINGS))}, got {to!r}.{did_you_mean(to, ENDINGS)}")
    if ending not in ENDINGS[to]:
        raise UsageError(f"--out must end in {', '.join(ENDINGS[to])} for --to {to}, got {str(out)!r}.")
    return to, out


@contextmanager
def _told_by_option() -> Iterator[None]:
    """Errors about an argument of an export, told of the option that sets it; a missing package in one sentence."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if "margin=None" in str(error):
            raise ValueError(str(error).replace("margin=None", "--margin none")) from error
        found = re.match(r"(\w+) must ", str(error))
        if found is None or found[1] not in _TAKEN_BY:
            raise
        text = str(error).replace(found[1], f"--{found[1]}", 1)
        raise UsageError(re.sub(r"try (\w+)='", r"try --\1 '", text)) from error
    except ImportError as error:
        raise UsageError(str(error)) from error
