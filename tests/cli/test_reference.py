"""docs/cli.md and the commands agree: every option, and the defaults of the estimators."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest
from typer.main import get_command

from deepfls import FLSClassifier, FLSRegressor
from deepfls.cli import options
from deepfls.cli.app import app
from deepfls.cli.output import ERROR, INTERRUPT, RENAMED, USAGE

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
COMMANDS = ("train", "predict", "evaluate", "explain", "simplify", "report", "export", "import", "demo")


def test_reference_lists_settings_with_their_defaults() -> None:
    defaults = FLSRegressor().get_params()
    classes = FLSClassifier().get_params()
    rows = {}
    for name in options.all_settings():
        values = [
            json.dumps(value).replace("null", "none")
            for value in (defaults.get(name, classes.get(name)), classes.get(name, defaults.get(name)))
        ]
        text = f"`{values[0]}`" if len(set(values)) == 1 else f"`{values[0]}`; for classes `{values[1]}`"
        rows[options.option_of(name)] = text.replace("`none`", "none")
    section = TEXT.split("## Settings")[1].split("\n## ")[0]
    assert dict(re.findall(r"^\| `(--[\w-]+)` \| (.*?) \|$", section, flags=re.MULTILINE)) == rows


@pytest.mark.parametrize("command", COMMANDS)
def test_reference_names_every_option(command: str) -> None:
    parameters = get_command(app).commands[command].params  # type: ignore[attr-defined]
    names = {name for parameter in parameters for name in parameter.opts if name.startswith("--")} - {"--help"}
    assert {name for name in names if name not in TEXT} == set()


def test_reference_names_the_exit_codes() -> None:
    codes = re.findall(r"^\| (\d+) \| ", TEXT.split("| exit code |")[1], flags=re.MULTILINE)
    assert [int(code) for code in codes] == [0, ERROR, USAGE, INTERRUPT]


@pytest.mark.parametrize(
    "document", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_documents_use_options_that_exist(document: str) -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    text = (ROOT / document).read_text(encoding="utf-8").replace("\\\n", " ")
    text = re.sub(r"^\$ deepfls .*\nError: There is no option.*$", "", text, flags=re.MULTILINE)
    for name, rest in re.findall(r"\bdeepfls ([a-z]+)([^\n`|#]*)", text):
        if name in commands:
            known = {
                option for parameter in commands[name].params for option in (*parameter.opts, *parameter.secondary_opts)
            }
            assert set(re.findall(r"(?<=\s)--[\w-]+", rest)) <= known | {"--help"}, f"{document}: deepfls {name}{rest}"


def test_changelog_lists_renamed_options() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert [pair for pair in RENAMED.items() if "| `{}` | `{}` |".format(*pair) not in text] == []


def test_settings_have_a_description() -> None:
    texts = options.setting_texts(FLSRegressor, FLSClassifier)
    assert set(texts) == set(options.all_settings())
    assert all(text.count("[default:") == 1 for text in texts.values())
    assert set(inspect.signature(FLSRegressor).parameters) - set(texts) == {"warm_start", "verbose"}
