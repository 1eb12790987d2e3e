"""Options of the commands: those that commands share, those of the estimators, and the file of ``--config``.

The dataclasses of ``estimators/settings.py`` declare the settings of a model. Every setting that can be written as text is
an option of ``deepfls train``: ``n_rules`` is ``--n-rules``. Name and type of a field are read from the source, because
importing the estimators takes seconds; description, choices and default come from the imported classes, which only
``--help`` needs.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import re
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from deepfls._checks.arguments import did_you_mean, quoted
from deepfls.cli.output import GONE, RENAMED, CommandOutput, UsageError, in_options, started_processes
from deepfls.cli.output import option_of as option_of

DATA, RUN, SETTINGS, OUTPUT = "Data", "Run", "Settings of FLSRegressor and FLSClassifier", "Output"
NULLS = ("drop", "error")
_METAVARS = {bool: "", int: "N", float: "X", str: "TEXT", list: "TEXT", Path: "PATH"}


def option(text: str, default: str | None = None, *, panel: str = DATA, **more: Any) -> Any:
    """An option that is None if it is not given; ``default`` is the text that the help shows."""
    return typer.Option(help=text + _default_text(default), rich_help_panel=panel, show_default=False, **more)


def flag(*names: str, text: str) -> Any:
    """A flag that is off by default."""
    return typer.Option(*names, help=text, rich_help_panel=OUTPUT)


def _default_text(default: str | None) -> str:
    """The default as typer shows it, in the markup of rich."""
    return "" if default is None else rf" [dim]\[default: {default}][/dim]"


output_option = functools.partial(option, panel=OUTPUT)
run_option = functools.partial(option, panel=RUN)

DATA_ARGUMENT = typer.Argument(
    help='CSV, Excel or Parquet file, or a quoted pattern such as "parts/*.csv".', metavar="DATA"
)
MODEL_ARGUMENT = typer.Argument(help="Model file.", metavar="MODEL")
Names = list[str] | None
TrueValues = Annotated[Names, option("Column of the true values, if its name is not that of the training; repeat.")]
Stream = Annotated[bool | None, option("Read row group by row group, for tables larger than memory.")]
Nulls = Annotated[str | None, option("Rows without a target: drop to leave them out, or error.", "drop")]
ENGINES = ("local", "ray")
Engine = Annotated[
    str | None, option("ray: on a Ray cluster; local: here, or the processes of torchrun.", "local", panel=RUN)
]
RayAddress = Annotated[str | None, option("Ray cluster to connect to, such as auto.", "Ray on this machine", panel=RUN)]
NumWorkers = Annotated[int | None, option("Number of workers of --engine ray.", "1", panel=RUN, min=1)]
Force = Annotated[bool, flag("--force", text="Replace an existing file.")]
_SHARED: dict[str, Any] = {
    "quiet": Annotated[bool, flag("--quiet", "-q", text="Print errors only.")],
    "json": Annotated[bool, flag("--json", text="Print one JSON object and nothing else.")],
    "debug": Annotated[bool, flag("--debug", text="Show the traceback of an error.")],
}


def check_choice(option: str, value: str, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    if value not in choices:
        hint = did_you_mean(value, choices)
        raise UsageError(f"{option} must be one of {', '.join(map(repr, choices))}, got {value!r}.{hint}")
    return value


def check_engine(engine: str | None, **of_ray: Any) -> bool:
    """True for the engine ray; options that only it takes are refused without it."""
    with_ray = check_choice("--engine", engine or "local", ENGINES) == "ray"
    given = [name for name, value in of_ray.items() if value is not None]
    if given and not with_ray:
        raise UsageError(f"{option_of(given[0])} must be given with --engine ray.")
    if with_ray and started_processes() > 1:
        raise UsageError("--engine ray must be given without torchrun, because Ray starts the workers.")
    return with_ray


@contextmanager
def errors_by_option(names: Collection[str]) -> Iterator[None]:
    """Turn an error about an argument among ``names`` into a usage error about the option of that name."""
    try:
        yield
    except (ValueError, TypeError) as error:
        found = re.match(r"(\w+)(=\S+)? (must|has|takes) ", str(error))
        if found is None or found[1] not in names:
            raise
        text = str(error) if found[2] else str(error).replace(found[1], option_of(found[1]), 1)
        raise UsageError(text) from error


# Parameters that are paths. A shell does not expand those behind = and in the file of --config.
_PATHS = ("data", "model", "rules", "start", "out", "checkpoint_dir")


def _from_home(path: Any) -> Any:
    """A path, address or None; a path has the home folder in place of ~."""
    from deepfls._files import user_path  # here: it imports NumPy, which takes longer than a page of help

    return type(path)(user_path(path)) if str(path).startswith(("~/", "~\\")) else path


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Add --quiet, --json and --debug to a command, and pass it its output.

    A command that takes ``**settings`` gets an option for every setting of the estimators too.
    """

    @functools.wraps(function)
    def run(*, quiet: bool, json: bool, debug: bool, **given: Any) -> None:
        given = {name: _from_home(value) if name in _PATHS else value for name, value in given.items()}
        names = {*all_settings(), *described}
        output = CommandOutput(quiet=quiet, json=json, worded=lambda text: in_options(text, names))
        with output.shown_warnings():
            try:
                function(output, **given)
            except (ValueError, UsageError) as error:
                if error.args and isinstance(error.args[0], str):
                    error.args = (output.worded(error.args[0]), *error.args[1:])
                raise

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    keyword = inspect.Parameter.KEYWORD_ONLY
    made = [inspect.Parameter(name, keyword, default=False, annotation=hint) for name, hint in _SHARED.items()]
    if own[-1].kind is inspect.Parameter.VAR_KEYWORD:
        settings = all_settings().values()
        own[-1:] = [inspect.Parameter(s.name, keyword, default=None, annotation=s.annotation) for s in settings]
    parameters = [parameter.replace(kind=keyword) for parameter in (*own, *made)]
    described = {parameter.name: typing.get_args(parameter.annotation) for parameter in parameters}
    for hint, info in described.values():
        kind = (typing.get_args(hint) or (hint,))[0]
        info.metavar = _METAVARS[typing.get_origin(kind) or kind] if info.metavar is None else info.metavar
    # The help shows panels in the order of the parameters.
    parameters.sort(key=lambda parameter: described[parameter.name][1].rich_help_panel == OUTPUT)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by typer
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


# Settings of the estimators

_SOURCE = Path(__file__).parents[1] / "estimators" / "settings.py"
# --start sets warm_start; verbose depends on the terminal.
_NOT_OPTIONS = ("warm_start", "verbose")
_TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}


@dataclass(frozen=True)
class Setting:
    """A parameter of the constructor as an option; ``members`` are those of its annotation, such as int, str and None."""

    name: str
    members: tuple[str, ...]

    @property
    def types(self) -> tuple[type, ...]:
        """Types of the values of the option; text beside a number or a flag is "auto"."""
        if {"Mapping", "Sequence"} & set(self.members):
            return (list,)
        return tuple(kind for name, kind in _TYPES.items() if name in self.members) or (str,)

    @property
    def annotation(self) -> Any:
        """The option as an annotated type for typer. :class:`SettingsCommand` adds its help."""
        kind, more = self.types[0], {}
        if "Mapping" in self.members:
            more = {"metavar": "NAME=VALUE"}
        elif self.types in ((int, str), (float, str)):
            more = {"metavar": f"{_METAVARS[kind]}|auto"}
            kind = str
        return Annotated[(list[str] if kind is list else kind) | None, option("", panel=SETTINGS, **more)]

    def value(self, given: Any) -> Any:
        """The argument of the constructor for the value of an option."""
        kind = self.types[0]
        if "Mapping" in self.members:
            if "str" in self.members and len(given) == 1 and "=" not in given[0]:
                return given[0]
            return dict(self._pair(text) for text in given)
        if kind is list and "int" in self.members and "str" not in self.members:
            numbers = [self._number(int, text, "an integer, or several by repeating it") for text in given]
            return numbers[0] if len(numbers) == 1 else numbers
        if kind is str:
            return None if given == "none" and "None" in self.members else given
        if not isinstance(given, str) or given == "auto":
            return given
        return self._number(kind, given, "an integer or auto" if kind is int else "a number or auto")

    def _number(self, kind: type, text: str, words: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise UsageError(f"{option_of(self.name)} must be {words}, got {text!r}.") from None

    def _pair(self, text: str) -> tuple[str, Any]:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise UsageError(f"{option_of(self.name)} must be NAME=VALUE, got {text!r}.")
        try:
            return key, json.loads(value)
        except json.JSONDecodeError:
            return key, value


@functools.cache
def settings_of(name: str) -> Mapping[str, Setting]:
    """The settings of a dataclass and its bases, in the order of its constructor, read from the source."""
    classes = [node for node in ast.parse(_SOURCE.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]
    found: dict[str, Setting] = {}
    node = next(node for node in classes if node.name == name)
    for base in node.bases:
        found |= settings_of(ast.unparse(base))
    for field in node.body:
        if isinstance(field, ast.AnnAssign):
            key, members = ast.unparse(field.target), _members(field.annotation)
            # No text can give a function or a class.
            if key not in _NOT_OPTIONS and not set(members) <= {"Callable", "ClassVar", "type", "None"}:
                found[key] = Setting(key, tuple(members))
    return found


def _members(annotation: ast.expr) -> list[str]:
    """The members of a union: int and str of ``int | str``. Of type arguments only the int of ``Sequence[int]``."""
    if isinstance(annotation, ast.BinOp):
        return _members(annotation.left) + _members(annotation.right)
    if ast.unparse(annotation) == "Sequence[int]":
        return ["Sequence", "int"]
    return [ast.unparse(annotation.value if isinstance(annotation, ast.Subscript) else annotation)]


def all_settings() -> dict[str, Setting]:
    """The settings of both estimators."""
    return {**settings_of("RegressorSettings"), **settings_of("ClassifierSettings")}


class SettingsCommand(TyperCommand):
    """A command with the settings of the estimators as options, whose docstrings are their help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from deepfls.estimators import FLSClassifier, FLSRegressor

        texts = setting_texts(FLSRegressor, FLSClassifier)
        for parameter in self.params:
            if parameter.name in texts:
                parameter.help = texts[parameter.name]  # type: ignore[attr-defined]  # an option has a help text
        super().format_help(ctx, formatter)


def setting_texts(*estimators: type) -> dict[str, str]:
    """Description, choices and default of every setting, from the docstrings and signatures of the estimators."""
    from rich.markup import escape

    documented = [_documented(inspect.cleandoc(estimator.__doc__ or "")) for estimator in estimators]
    signatures = [inspect.signature(estimator).parameters for estimator in estimators]
    texts = {}
    for name, setting in all_settings().items():
        entries = [entry[name] for entry in documented if name in entry]
        words = f"number of {name[2:]}" if name.startswith("n_") else name.replace("_", " ")
        text = next((entry[1] for entry in entries if entry[1]), f"{words.capitalize()}.")
        choices = dict.fromkeys(choice for entry in entries for choice in _choices(entry[0]))
        if choices and setting.types in ((str,), (int,)):
            text += f" One of {', '.join(choices)}."
        defaults = dict.fromkeys(str(signature[name].default).lower() for signature in signatures if name in signature)
        texts[name] = escape(text) + _default_text("; for classes ".join(defaults))
    return texts


def _documented(docstring: str) -> dict[str, tuple[str, str]]:
    """Type and description of every parameter of a NumPy docstring, without markup."""
    section = re.split(r"\n\w+\n-{3,}\n", docstring.partition("Parameters\n----------\n")[2])[0]
    entries = re.findall(r"^(\w+) : (.*)$((?:\n(?: .*)?)*)", section, flags=re.MULTILINE)
    return {name: (kind, _without_markup(text, set(all_settings()) - {name})) for name, kind, text in entries}


def _without_markup(text: str, settings: Collection[str]) -> str:
    """A description in one line, with options in place of the settings that it names."""
    text = " ".join(re.sub(r":\w+:`([^`]+)`", r"\1", text).split())
    text = re.sub(r"``([^`]+)``", lambda found: option_of(found[1]) if found[1] in settings else found[1], text)
    return in_options(text, settings)


def _choices(kind: str) -> list[str]:
    """The values in the documented type of a parameter, such as {"it2", "t1"}."""
    braces = re.search(r"\{(.*?)\}", kind)
    names = [name.strip().strip('"') for name in braces[1].split(",")] if braces else re.findall(r'"([^"]+)"', kind)
    return ["none" if name == "None" else name for name in names]


# The file of --config

# Options of a single call, which a file does not hold.
_NOT_IN_FILE = ("config", "quiet", "json", "debug", "force", "help")


def read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Take the options of a TOML file as defaults: those at its top, then those of the table named after the command."""
    if path is None:
        return None

    path = _from_home(path)
    label, content = quoted(path), _parse_toml(Path(path))
    known = {parameter.name: parameter for parameter in ctx.command.params if parameter.name not in _NOT_IN_FILE}
    commands = getattr(ctx.find_root().command, "commands", {})
    sections = {name: content.pop(name) for name in commands if isinstance(content.get(name), dict)}
    found: dict[str, Any] = {}
    for table in (content, sections.get(str(ctx.info_name), {})):
        keys: dict[str, str] = {}
        for key, value in table.items():
            name = key.replace("-", "_")
            renamed = RENAMED.get(option_of(name), "").lstrip("-").replace("-", "_")
            if option_of(name) in GONE:
                raise UsageError(f"{label} has the key {quoted(key)}, no longer needed: {GONE[option_of(name)]}.")
            if name in _NOT_IN_FILE:
                raise UsageError(
                    f"{label} has the key {quoted(key)}, which stands on the command line only: {option_of(name)}."
                )
            if name not in known and renamed in known:
                raise UsageError(f"{label} has the key {quoted(key)}, which is now called {quoted(renamed)}.")
            if name not in known:
                hint = did_you_mean(key, [str(name) for name in known])
                raise UsageError(f"{label} has the key {quoted(key)}, which {ctx.info_name} does not take.{hint}")
            if name in keys:
                raise UsageError(f"{label} gives {quoted(keys[name])} twice, once as {quoted(key)}.")
            keys[name] = key
            try:
                found[name] = _option_text(known[name], value)
                known[name].process_value(ctx, found[name])
            except typer.BadParameter as error:
                raise UsageError(f"{quoted(key)} in {label} cannot be {value!r}: {str(error).rstrip('.')}.") from None
    ctx.default_map = found
    return path


def _option_text(parameter: Any, value: Any) -> str | list[str] | None:
    """A value of TOML as it would be written on the command line."""
    if isinstance(value, dict):
        value = [f"{key}={json.dumps(item)}" for key, item in value.items()]
    several = isinstance(value, list)
    texts = [
        json.dumps(item, default=str) if isinstance(item, bool | int | float | list | dict) else str(item)
        for item in (value if several else [value])
    ]
    if texts == ["auto"] and getattr(parameter, "is_flag", False):
        return None
    if getattr(parameter, "multiple", False):
        return texts
    if several:
        raise typer.BadParameter("one value is expected")
    return texts[0]


def _parse_toml(path: Path) -> dict[str, Any]:
    from deepfls.data.tables import no_such_file

    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib  # type: ignore[import-not-found, no-redef, unused-ignore]  # the same, for 3.10
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # Windows writes a byte order mark
    except FileNotFoundError:
        raise UsageError(no_such_file(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{quoted(path)} is not valid TOML: {error}.") from None
    except OSError as error:
        raise UsageError(f"{quoted(path)} cannot be read: {error.strerror}.") from None
