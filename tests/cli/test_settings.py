"""Flags, configuration files, and their way into the estimators."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deepfls import FLSRegressor, load
from deepfls.cli.settings import ESTIMATOR_SETTINGS
from deepfls.estimators.settings import DTYPES, KINDS, SCALINGS
from deepfls.functional.losses import LOSSES
from deepfls.training.config import SCHEDULES
from deepfls.training.start import CENTERS, CONSEQUENTS

Run = Callable[..., Any]
Refused = Callable[..., str]

RUN = 'target = "y"\nfeature = ["x"]\nepochs = 2\nrules = 2\nseed = 0\n'


def settings(run: Run, *flags: str) -> dict[str, Any]:
    result = run("train", "plant.csv", "--config", "run.toml", "--json", "--force", *flags)
    return dict(json.loads(result.stdout)["settings"])


@pytest.fixture
def config(folder: Path) -> Callable[[str], None]:
    """Writes run.toml."""
    return lambda text: (folder / "run.toml").write_text(text, encoding="utf-8") and None


def test_every_setting_of_the_estimators_has_an_option() -> None:
    assert set(ESTIMATOR_SETTINGS.values()) == set(FLSRegressor().get_params()) - {"warm_start", "verbose"}


@pytest.mark.parametrize("names", [KINDS, SCALINGS, tuple(DTYPES), SCHEDULES, CENTERS, CONSEQUENTS, tuple(LOSSES)], ids=str)
def test_help_names_every_choice(run: Run, names: tuple[str, ...]) -> None:
    words = run("train", "--help").stdout.replace("│", " ").replace(",", " ").replace(".", " ").replace(";", " ").split()
    assert set(names) <= set(words)


def test_config_gives_settings_and_flags_win(run: Run, config: Callable[[str], None]) -> None:
    config(RUN + 'kind = "t1"\n')
    assert settings(run)["kind"] == "t1"
    chosen = settings(run, "--kind", "it2", "--rules", "3")
    assert (chosen["kind"], chosen["n_rules"], chosen["epochs"]) == ("it2", 3, 2)


def test_config_may_hold_the_whole_run(run: Run, config: Callable[[str], None], folder: Path) -> None:
    config(RUN + 'data = "plant.csv"\nout = "m.fls"\ntest_fraction = 0.25\n')
    run("train", "--config", "run.toml")
    assert (folder / "m.fls").is_file()


def test_config_table_of_the_command_wins_over_the_top(run: Run, config: Callable[[str], None]) -> None:
    config("rules = 5\nridge = 1\n[predict]\nanything = 1\n[train]\n" + RUN)
    chosen = settings(run)
    assert (chosen["n_rules"], chosen["ridge"]) == (2, 1)


def test_config_takes_names_of_flags_and_of_the_estimators(run: Run, config: Callable[[str], None]) -> None:
    config(RUN + 'batch-size = 8\nlearning_rate = 0.5\ntype_reduction = "nt"\nloss = "huber"\nloss_options = {delta = 2}\n')
    chosen = settings(run)
    assert (chosen["batch_size"], chosen["learning_rate"], chosen["type_reduction"]) == (8, 0.5, "nt")
    assert chosen["loss_options"] == {"delta": 2}


def test_config_switch_is_turned_off_by_a_flag(run: Run, config: Callable[[str], None], refused: Refused) -> None:
    config(RUN.replace('["x"]', '["x", "color"]') + "one_hot = true\n")
    run("train", "plant.csv", "--config", "run.toml")
    assert "'color'" in refused("train", "plant.csv", "--config", "run.toml", "--no-one-hot", "--force", code=1)
    assert list(load("model.fls").feature_names_in_) == ["x", "color=blue", "color=green", "color=red"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epocs = 3\n", "'run.toml' has the key 'epocs', which train does not take. Did you mean 'epochs'?"),
        ("[train]\nn_rulez = 3\n", "'run.toml' has the key 'n_rulez', which train does not take. Did you mean 'n_rules'?"),
        ("zebra = 3\n", "'run.toml' has the key 'zebra', which train does not take."),
        ("[tarin]\nrules = 3\n", "'run.toml' has the key 'tarin', which train does not take. Did you mean 'start'?"),
        ("quiet = true\n", "'run.toml' has the key 'quiet', which train does not take."),
        ("'\\u001b[31m' = 3\n", "'run.toml' has the key '\\\\u001b[31m', which train does not take."),
        ('patience = "many"\n', "'patience' in 'run.toml' must be an integer, got 'many'."),
        ("patience = 2.5\n", "'patience' in 'run.toml' must be an integer, got 2.5."),
        ("patience = true\n", "'patience' in 'run.toml' must be an integer, got True."),
        ("gradient-clip = 'big'\n", "'gradient-clip' in 'run.toml' must be a number, got 'big'."),
        ("kind = 2\n", "'kind' in 'run.toml' must be text, got 2."),
        ("target = [1]\n", "'target' in 'run.toml' must be a list of text, got [1]."),
        ("one_hot = 'yes'\n", "'one_hot' in 'run.toml' must be true or false, got 'yes'."),
        ("batch_size = 1.5\n", "'batch_size' in 'run.toml' must be text or an integer, got 1.5."),
        ("out = 3\n", "'out' in 'run.toml' must be text, got 3."),
        ("loss_options = 3\n", "'loss_options' in 'run.toml' must be a list of text or a table, got 3."),
        ("rules = 2\nn_rules = 3\n", "'run.toml' gives 'rules' twice, once as 'n_rules'."),
    ],
    ids=lambda value: str(value)[:12],
)
def test_wrong_config_is_told(refused: Refused, config: Callable[[str], None], text: str, message: str) -> None:
    config(text)
    assert refused("train", "plant.csv", "--config", "run.toml", code=2) == message


def test_config_that_is_no_toml_is_told(refused: Refused, config: Callable[[str], None]) -> None:
    config("rules 3\n")
    assert refused("train", "plant.csv", "--config", "run.toml", code=2).startswith("'run.toml' is not valid TOML: ")


def test_missing_config_is_told(refused: Refused, config: Callable[[str], None]) -> None:
    config("")
    message = "There is no file 'rnu.toml'. Did you mean 'run.toml'?"
    assert refused("train", "plant.csv", "--config", "rnu.toml", code=2) == message
    assert refused("train", "plant.csv", "--config", ".", code=2) == "'.' cannot be read: Is a directory."
