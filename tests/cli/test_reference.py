"""docs/cli.md says what is: all options, and the defaults of the estimators."""

from __future__ import annotations

import json
import re
import typing
from pathlib import Path

from deepfls import FLSRegressor
from deepfls.cli.settings import ESTIMATOR_SETTINGS

TEXT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def test_reference_lists_settings_with_their_defaults() -> None:
    defaults = FLSRegressor().get_params()
    rows = [
        (
            f"--{name.replace('_', '-')}",
            parameter,
            "none" if (value := defaults[parameter]) is None else f"`{json.dumps(value)}`",
        )
        for name, parameter in ESTIMATOR_SETTINGS.items()
    ]
    assert re.findall(r"^\| `(--[\w-]+)` \| `(\w+)` \| (.*?) \|$", TEXT, flags=re.MULTILINE) == rows


def test_reference_names_every_option() -> None:
    from deepfls.cli.evaluate import evaluate
    from deepfls.cli.explain import explain
    from deepfls.cli.export import export
    from deepfls.cli.predict import predict
    from deepfls.cli.report import report
    from deepfls.cli.simplify import simplify
    from deepfls.cli.start import import_
    from deepfls.cli.train import train

    commands = (train, predict, evaluate, explain, export, report, simplify, import_)
    names = {name for command in commands for name in typing.get_type_hints(command)}
    options = names - {"ctx", "return", "data", "model"}
    options.discard("rules")  # an argument of import, an option of train
    assert "--rules" in TEXT
    assert {name for name in options if f"--{name.replace('_', '-')}" not in TEXT} == set()
