"""The options that commands share, and the configuration file behind them.

An option is declared once, here, as an annotated type. A command takes those it wants as parameters that default to None,
and reads all of them with :func:`settings_of`: flags first, then the file of ``--config``, whose keys are the command's own
options. What is given nowhere is absent, so every default is the estimators'.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from deepfls.cli.errors import UsageError

DATA, MODEL, TRAINING, START, OUTPUT = "Data", "Model", "Training", "Starting point", "Output"
INTERVALS = "Prediction intervals"


def option(flag: str, text: str, panel: str, **more: Any) -> Any:
    """An option without a default of its own."""
    return typer.Option(flag, help=text, rich_help_panel=panel, show_default=False, **more)


def flag(*names: str, text: str) -> Any:
    """A switch that is off by default."""
    return typer.Option(*names, help=text, rich_help_panel=OUTPUT, metavar="")


def chosen(option: str, text: str, known: Sequence[str]) -> list[str]:
    """Names separated by commas, each one of ``known``, none twice."""
    from deepfls._checks import check_option

    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError(f"{option} must name at least one of {', '.join(known)}.")
    return list(dict.fromkeys(check_option(option, name, known) for name in names))


DATA_ARGUMENT = typer.Argument(help='CSV or Parquet file, or a quoted pattern such as "parts/*.csv".', metavar="DATA")
MODEL_ARGUMENT = typer.Argument(help="Model file.", metavar="MODEL")

Target = Annotated[list[str] | None, option("--target", "Column to predict; repeat for several.", DATA, metavar="COL")]
Feature = Annotated[
    list[str] | None, option("--feature", "Column to learn from; repeat. All others by default.", DATA, metavar="COL")
]
Drop = Annotated[list[str] | None, option("--drop", "Column to leave out; repeat for several.", DATA, metavar="COL")]
Weight = Annotated[str | None, option("--weight", "Column of sample weights.", DATA, metavar="COL")]
OneHot = Annotated[
    bool | None, option("--one-hot/--no-one-hot", "Turn text columns into one input per category.", DATA, metavar="")
]
Task = Annotated[
    str | None,
    option("--task", "auto, regression or classification; auto takes the target's type.", DATA, metavar="NAME"),
]
TestFraction = Annotated[
    float | None, option("--test-fraction", "Share of the rows held out to measure the error on.", DATA, metavar="SHARE")
]
Stream = Annotated[
    bool | None,
    option("--stream/--no-stream", "Read row group by row group, for tables larger than memory.", DATA, metavar=""),
]
Nulls = Annotated[
    str | None, option("--nulls", "A missing value is an error, or drop leaves its row out.", DATA, metavar="NAME")
]
BufferRows = Annotated[int | None, option("--buffer-rows", "Rows of a stream that are mixed at a time.", DATA, metavar="N")]
Config = Annotated[
    Path | None, option("--config", "TOML file with any of these settings; flags win.", DATA, metavar="FILE")
]

Kind = Annotated[str | None, option("--kind", "it2 (Interval Type-2) or t1 (Type-1).", MODEL, metavar="NAME")]
Rules = Annotated[int | None, option("--rules", "Number of rules.", MODEL, metavar="N")]
Order = Annotated[int | None, option("--order", "Consequents: 0 constant, 1 linear.", MODEL, metavar="N")]
Uncertainty = Annotated[
    str | None,
    option("--uncertainty", "What is uncertain in the sets: h heights, s widths, hs both.", MODEL, metavar="NAME"),
]
Reduction = Annotated[str | None, option("--reduction", "Type reduction: km, nt, bmm or sm.", MODEL, metavar="NAME")]
Tnorm = Annotated[str | None, option("--tnorm", "How grades combine: product, htsk or auto.", MODEL, metavar="NAME")]
Scaling = Annotated[str | None, option("--scaling", "Of inputs and targets: standard or none.", MODEL, metavar="NAME")]

Epochs = Annotated[str | None, option("--epochs", "Passes over the rows, or auto.", TRAINING, metavar="N")]
BatchSize = Annotated[str | None, option("--batch-size", "Rows per step, or auto.", TRAINING, metavar="N")]
Loss = Annotated[
    str | None,
    option("--loss", "l1, l2, huber, log-cosh or pinball; cross-entropy for classes.", TRAINING, metavar="NAME"),
]
LossOption = Annotated[
    list[str] | None, option("--loss-option", "Such as delta=0.5 or quantile=0.9; repeat.", TRAINING, metavar="NAME=VALUE")
]
Optimizer = Annotated[str | None, option("--optimizer", "Any of torch.optim by name.", TRAINING, metavar="NAME")]
OptimizerOption = Annotated[
    list[str] | None, option("--optimizer-option", "Such as momentum=0.9; repeat.", TRAINING, metavar="NAME=VALUE")
]
LearningRate = Annotated[str | None, option("--learning-rate", "Peak of the schedule, or auto.", TRAINING, metavar="RATE")]
Schedule = Annotated[str | None, option("--schedule", "constant, cosine or onecycle.", TRAINING, metavar="NAME")]
WeightDecay = Annotated[
    str | None, option("--weight-decay", "Of the slopes towards their mean, or auto.", TRAINING, metavar="RATE")
]
GradientClip = Annotated[float | None, option("--gradient-clip", "Largest norm of the gradient.", TRAINING, metavar="NORM")]
Patience = Annotated[
    int | None, option("--patience", "Stop after N epochs without a better validation loss.", TRAINING, metavar="N")
]
Validation = Annotated[
    float | None, option("--validation", "Share of the training rows that --patience watches.", TRAINING, metavar="SHARE")
]
Seed = Annotated[int | None, option("--seed", "Makes the run repeatable.", TRAINING, metavar="N")]
Device = Annotated[str | None, option("--device", "auto, cpu, cuda, mps, ...", TRAINING, metavar="NAME")]
Dtype = Annotated[str | None, option("--dtype", "float32 or float64.", TRAINING, metavar="NAME")]

CheckpointDir = Annotated[
    Path | None, option("--checkpoint-dir", "Folder that keeps the state of a run on a stream.", TRAINING, metavar="DIR")
]
CheckpointEvery = Annotated[
    str | None, option("--checkpoint-every", "Steps, or a time such as 30s; 200 by default.", TRAINING, metavar="N")
]
Resume = Annotated[
    bool | None, option("--resume/--no-resume", "Go on from the newest checkpoint, if there is one.", TRAINING, metavar="")
]

Start = Annotated[
    Path | None, option("--start", "Go on from the rules of a .fis file, or from a model file.", START, metavar="FILE")
]
Centers = Annotated[str | None, option("--centers", "kmeans, kmeans-per-input or grid.", START, metavar="NAME")]
Consequents = Annotated[str | None, option("--consequents", "ridge or random.", START, metavar="NAME")]
Width = Annotated[str | None, option("--width", "Widths of the sets, in standard deviations, or auto.", START, metavar="X")]
Ridge = Annotated[float | None, option("--ridge", "Penalty of the ridge start.", START, metavar="X")]

Coverage = Annotated[
    float | None, option("--coverage", "Share of the targets that intervals are to hold.", INTERVALS, metavar="SHARE")
]
Calibration = Annotated[
    str | None,
    option("--calibration", "cqr, split or none; split or aps for classes.", INTERVALS, metavar="NAME"),
]
IntervalWeight = Annotated[
    float | None, option("--interval-weight", "Weight of the ends in training.", INTERVALS, metavar="X")
]
CalibrationFraction = Annotated[
    str | None,
    option("--calibration-fraction", "Share of the training rows that calibrates, or auto.", INTERVALS, metavar="SHARE"),
]
NormalizedScores = Annotated[
    bool | None,
    option("--normalized-scores/--no-normalized-scores", "Corrections by the local scale.", INTERVALS, metavar=""),
]
Refit = Annotated[
    bool | None,
    option("--refit/--no-refit", "Train on the rows that calibrate too; auto up to 5,000.", INTERVALS, metavar=""),
]
GroupCalibration = Annotated[
    list[str] | None,
    option("--group-calibration", "Column whose values each keep the coverage; repeat.", INTERVALS, metavar="COL"),
]

TrueValues = Annotated[
    list[str] | None,
    option("--target", "Column with the true values, if not named as in training; repeat.", DATA, metavar="COL"),
]
Force = Annotated[bool, flag("--force", text="Replace an existing file.")]
Quiet = Annotated[bool, flag("--quiet", "-q", text="Print nothing but errors.")]
Json = Annotated[bool, flag("--json", text="Print one JSON object and nothing else.")]
Debug = Annotated[bool, flag("--debug", text="Show tracebacks of errors.")]

# Settings of the estimators, by the name of their option.
ESTIMATOR_SETTINGS = {
    "kind": "kind",
    "rules": "n_rules",
    "order": "order",
    "uncertainty": "uncertainty",
    "reduction": "type_reduction",
    "tnorm": "tnorm",
    "scaling": "scaling",
    "epochs": "epochs",
    "batch_size": "batch_size",
    "loss": "loss",
    "loss_option": "loss_options",
    "optimizer": "optimizer",
    "optimizer_option": "optimizer_options",
    "learning_rate": "learning_rate",
    "schedule": "schedule",
    "weight_decay": "weight_decay",
    "gradient_clip": "gradient_clip",
    "patience": "patience",
    "validation": "validation_fraction",
    "seed": "random_state",
    "device": "device",
    "dtype": "dtype",
    "centers": "centers",
    "consequents": "consequents",
    "width": "width",
    "ridge": "ridge",
    "coverage": "coverage",
    "calibration": "calibration",
    "interval_weight": "interval_weight",
    "calibration_fraction": "calibration_fraction",
    "normalized_scores": "normalized_scores",
    "refit": "refit",
    "group_calibration": "group_calibration",
}
_OPTION_OF = {parameter: name for name, parameter in ESTIMATOR_SETTINGS.items()}
# Settings that are a number or "auto".
_AUTOMATIC: dict[str, type] = {
    "batch_size": int,
    "epochs": int,
    "learning_rate": float,
    "weight_decay": float,
    "width": float,
    "calibration_fraction": float,
}
# What a file may also hold where a flag can only be text.
_ALSO = {"loss_option": (dict,), "optimizer_option": (dict,), "checkpoint_every": (int,)} | {
    name: (kind,) for name, kind in _AUTOMATIC.items()
}
# Options of a single call, not settings of a run.
_NOT_IN_FILE = ("config", "quiet", "json", "debug", "force")
_WORDS = {
    int: "an integer",
    float: "a number",
    str: "text",
    bool: "true or false",
    dict: "a table",
    list: "a list of text",
}


def settings_of(ctx: typer.Context, command: Callable[..., None]) -> dict[str, Any]:
    """What flags and configuration file give, by the name of the option; flags win."""
    hints = {name: hint for name, hint in typing.get_type_hints(command).items() if name not in ("ctx", "return")}
    known = {name: hint for name, hint in hints.items() if name not in _NOT_IN_FILE}
    given = {name: value for name, value in ctx.params.items() if value is not None and value != [] and value != ()}
    # Older versions of typer make paths, and lists out of tuples, only when they call the command.
    flags: dict[str, Any] = {name: list(v) if isinstance(v, tuple) else v for name, v in given.items()}
    settings: dict[str, Any] = {**(_read_config(Path(flags["config"]), ctx, known) if "config" in flags else {}), **flags}
    return {name: Path(value) if Path in typing.get_args(hints[name]) else value for name, value in settings.items()}


def _read_config(path: Path, ctx: typer.Context, known: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a TOML file: those at its top and, before them, those of the table named after the command."""
    from deepfls.data.tables import nearest, quoted

    label = quoted(path)
    content = _parse_toml(path, label)
    command = str(ctx.info_name)
    sections = {name: content.pop(name) for name in _command_names(ctx) if isinstance(content.get(name), dict)}
    found: dict[str, Any] = {}
    for table in (content, sections.get(command, {})):
        named: dict[str, Any] = {}
        for key, value in table.items():
            name = key.replace("-", "_")
            name = _OPTION_OF.get(name, name)
            if name not in known:
                options = [*known, *(_OPTION_OF if set(ESTIMATOR_SETTINGS) <= set(known) else ())]
                raise UsageError(
                    f"{label} has the key {quoted(key)}, which {command} does not take.{nearest(key, options)}"
                )
            if name in named:
                raise UsageError(f"{label} gives {quoted(name)} twice, once as {quoted(key)}.")
            named[name] = _checked(name, key, value, known[name], label)
        found |= named
    return found


def _parse_toml(path: Path, label: str) -> dict[str, Any]:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        try:
            import tomli as tomllib  # type: ignore[import-not-found, no-redef, unused-ignore]  # the same, for 3.10
        except ModuleNotFoundError:
            raise UsageError("--config needs Python 3.11 or newer, or the package tomli.") from None
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        from deepfls.data.tables import nearest

        near = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise UsageError(f"There is no file {label}.{nearest(path.name, near)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{label} is not valid TOML: {error}.") from None
    except OSError as error:
        raise UsageError(f"{label} cannot be read: {error.strerror}.") from None


def _command_names(ctx: typer.Context) -> list[str]:
    return list(getattr(ctx.find_root().command, "commands", {}))


def _checked(name: str, key: str, value: Any, hint: Any, label: str) -> Any:
    """The value of a setting in a file, if its type is the option's."""
    kinds = [kind for kind in (typing.get_args(hint) or (hint,)) if kind is not types.NoneType]
    kind = typing.get_origin(kinds[0]) or kinds[0]
    allowed = tuple(str if k is Path else k for k in (kind, *_ALSO.get(name, ())))
    if kind is list and isinstance(value, str):
        value = [value]
    exact = type(value) in allowed or (float in allowed and type(value) is int)
    if not exact or (type(value) is list and not all(isinstance(item, str) for item in value)):
        from deepfls.data.tables import quoted

        words = " or ".join(_WORDS[k] for k in allowed)
        raise UsageError(f"{quoted(key)} in {label} must be {words}, got {value!r}.")
    return value


def estimator_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of an estimator from what was given."""
    given = {parameter: settings[name] for name, parameter in ESTIMATOR_SETTINGS.items() if name in settings}
    for parameter, kind in _AUTOMATIC.items():
        text = given.get(parameter)
        if isinstance(text, str) and text != "auto":
            try:
                given[parameter] = kind(text)
            except ValueError:
                flag_name = _OPTION_OF[parameter].replace("_", "-")
                raise UsageError(f"--{flag_name} must be {_WORDS[kind]} or auto, got {text!r}.") from None
    if given.get("calibration") == "none":
        given["calibration"] = None
    for parameter in ("loss_options", "optimizer_options"):
        if isinstance(given.get(parameter), list):
            given[parameter] = dict(_pair(text, _OPTION_OF[parameter]) for text in given[parameter])
    return given


def _pair(text: str, name: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise UsageError(f"--{name.replace('_', '-')} must be NAME=VALUE, got {text!r}.")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value


@contextmanager
def settings_errors_as_usage() -> Iterator[None]:
    """Errors of the estimators about a setting, told of the option that sets it."""
    try:
        yield
    except (ValueError, TypeError) as error:
        found = re.match(r"(\w+) (must|has|takes) ", str(error))
        if found is None or found[1] not in _OPTION_OF:
            raise
        flag = "--" + _OPTION_OF[found[1]].replace("_", "-")
        raise UsageError(str(error).replace(found[1], flag, 1)) from error
