"""Flags, configuration files, and their way into the estimators."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from deepfls import FLSClassifier, FLSRegressor
from deepfls.cli import options
from deepfls.cli.output import RENAMED, CommandOutput, UsageError, in_options
from deepfls.cli.train import train

Run = Callable[..., Any]
Refused = Callable[..., str]

RUN = 'target = "y"\nfeature = ["x"]\nepochs = 2\nn-rules = 2\nrandom_state = 0\n'


def settings(run: Run, *flags: str) -> dict[str, Any]:
    result = run("train", "plant.csv", "--config", "run.toml", "--json", "--force", *flags)
    return dict(json.loads(result.stdout)["settings"])


@pytest.fixture
def config(folder: Path) -> Callable[[str], None]:
    """Writes run.toml."""
    return lambda text: (folder / "run.toml").write_text(text, encoding="utf-8") and None


# Options from the constructor


def test_every_setting_of_the_estimators_is_an_option() -> None:
    settings = {*FLSRegressor().get_params(), *FLSClassifier().get_params()} - {"warm_start", "verbose"}
    assert set(options.all_settings()) == settings
    assert settings <= set(inspect.signature(train).parameters)


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("kind", (str,)),
        ("n_rules", (int, str)),
        ("epochs", (int, str)),
        ("learning_rate", (float, str)),
        ("gradient_clip", (float,)),
        ("patience", (int,)),
        ("random_state", (int,)),
        ("normalized_scores", (bool,)),
        ("refit", (bool, str)),
        ("loss", (str,)),
        ("optimizer", (str,)),
        ("loss_options", (list,)),
        ("group_calibration", (list,)),
        ("n_terms", (list,)),
        ("words", (list,)),
    ],
)
def test_type_of_an_option_is_that_of_the_constructor(name: str, types: tuple[type, ...]) -> None:
    assert options.all_settings()[name].types == types


SOURCE = """
@dataclass(kw_only=True)
class Settings:
    n_rules: int = 10
    smoothness: float | str = "auto"
    on_epoch: Callable[[float], None] | None = None
    losses: ClassVar[int] = 3

@dataclass(kw_only=True)
class RegressorSettings(Settings):
    robust: bool = False

@dataclass(kw_only=True)
class ClassifierSettings(Settings): ...
"""


def test_new_field_of_the_settings_is_a_new_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "settings.py").write_text(SOURCE)
    monkeypatch.setattr(options, "_SOURCE", tmp_path / "settings.py")
    options.settings_of.cache_clear()
    found = {}

    @options.command
    def learn(output: CommandOutput, **settings: Any) -> None:
        found.update(settings)

    app = typer.Typer()
    app.command()(learn)
    done = CliRunner().invoke(app, ["--smoothness", "0.5", "--robust"])
    options.settings_of.cache_clear()
    assert done.exit_code == 0, done.output
    assert found == {"n_rules": None, "smoothness": "0.5", "robust": True}


def help_of(run: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The entry of an option in the help of train, in one line."""
    monkeypatch.setenv("COLUMNS", "1000")
    lines = run("train", "--help").stdout.splitlines()
    return next(" ".join(line.strip("│ ").split()) for line in lines if line.startswith(f"│ {name} "))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("--order", "--order N Linear or constant consequents. One of 1, 0. [default: 1]"),
    ],
)
def test_help_is_the_docstring(run: Run, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert help_of(run, name, monkeypatch) == text


def test_help_names_choices_and_defaults_of_both_estimators(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = help_of(run, "--loss", monkeypatch)
    assert text.endswith(
        "l2, l1, huber, log-cosh, pinball, quantiles, cross-entropy. [default: l2; for classes cross-entropy]"
    )
    text = help_of(run, "--calibration", monkeypatch)
    assert "One of auto, cqr, split," in text
    assert text.endswith("aps. [default: auto; for classes split]")


def test_help_names_other_settings_by_their_options(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "used only with --patience" in help_of(run, "--validation-fraction", monkeypatch)
    assert "`" not in run("train", "--help").stdout


def test_help_gives_the_default_of_every_setting(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FLSRegressor().get_params().items():
        if name in options.all_settings():
            assert f"[default: {str(value).lower()}" in help_of(run, options.option_of(name), monkeypatch)


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("--type-reduction", "km, nt, bmm, sm"),
        ("--tnorm", "auto, htsk, product"),
        ("--schedule", "auto, averaged, onecycle, cosine, constant"),
        ("--centers", "kmeans, kmeans-per-input, grid"),
        ("--consequents", "ridge, random"),
        ("--scaling", "standard, none"),
        ("--dtype", "float32, float64"),
    ],
)
def test_help_names_every_choice(run: Run, name: str, choices: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f" One of {choices}. [default: {choices.split(',')[0]}]" in help_of(run, name, monkeypatch)


# Mistyped and renamed options


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("--n-rulez", " Did you mean --n-rules?"),
        ("--nrules", " Did you mean --n-rules?"),
        ("--batchsize", " Did you mean --batch-size?"),
        ("--learning_rate", " Did you mean --learning-rate?"),
        ("--targt", " Did you mean --target?"),
        ("--no-refti", " Did you mean --no-refit?"),
        ("--zebra", ""),
        ("--x", ""),
    ],
)
def test_mistyped_option_suggests_the_nearest(refused: Refused, name: str, hint: str) -> None:
    message = refused("train", "plant.csv", name, "3", code=2)
    assert message == f"There is no option {name}.{hint} See 'deepfls train --help'."


def test_several_values_behind_one_option_are_told(refused: Refused) -> None:
    told = "An option takes one value, so repeat it for several; put quotes around a pattern or a name with blanks."
    assert told in refused("train", "plant.csv", "--target", "y", "--feature", "x", "z", code=2)
    assert refused("train", "plant.csv", "--target", "y", "--feature", "x,z", code=1).endswith("Name 'x', 'z' one by one.")


def test_home_folder_is_found_where_no_shell_expands_it(
    run: Run, config: Callable[[str], None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    config(RUN + 'data = "~/plant.csv"\n')
    run("train", "--config", "run.toml", "--out=~/home.fls")
    assert (folder / "home.fls").is_file()


def test_settings_that_contradict_each_other_are_wrong_use(refused: Refused) -> None:
    message = "--loss quantiles must come with --kind gt2, whose planes are quantiles, got --kind it2."
    assert refused("train", "plant.csv", "--target", "y", "--feature", "x", "--loss", "quantiles", code=2) == message


@pytest.mark.parametrize("value", ["betas=[0.9]", "betas=[2,3]", "eps=abc", "amsgrad=5", "differentiable=true"])
def test_value_that_the_optimizer_does_not_take_is_told(refused: Refused, value: str) -> None:
    arguments = ("train", "plant.csv", "--target", "y", "--feature", "x", "--optimizer-options", value)
    assert refused(*arguments, code=2).startswith("--optimizer-options must be values that the optimizer takes, got {'")


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_renamed_option_is_refused_with_its_name(refused: Refused, old: str, new: str) -> None:
    message = refused("train", "plant.csv", old, "3", code=2)
    assert message == f"{old} is now called {new}. See 'deepfls train --help'."


def test_old_name_is_not_suggested_where_the_new_one_is_unknown(refused: Refused) -> None:
    message = refused("predict", "m.fls", "plant.csv", "--seed", "3", code=2)
    assert message == "There is no option --seed. See 'deepfls predict --help'."


# The file of --config


def test_config_gives_settings_and_flags_win(run: Run, config: Callable[[str], None]) -> None:
    config(RUN + 'kind = "t1"\n')
    assert settings(run)["kind"] == "t1"
    chosen = settings(run, "--kind", "it2", "--n-rules", "3")
    assert (chosen["kind"], chosen["n_rules"], chosen["epochs"]) == ("it2", 3, 2)


def test_config_may_hold_the_whole_run(run: Run, config: Callable[[str], None], folder: Path) -> None:
    config(RUN + 'data = "plant.csv"\nout = "m.fls"\ntest_fraction = 0.25\n')
    run("train", "--config", "run.toml")
    assert (folder / "m.fls").is_file()


def test_config_table_of_the_command_wins_over_the_top(run: Run, config: Callable[[str], None]) -> None:
    config("n_rules = 5\nridge = 1\n[predict]\nanything = 1\n[train]\n" + RUN)
    chosen = settings(run)
    assert (chosen["n_rules"], chosen["ridge"]) == (2, 1)


def test_config_takes_names_of_flags_and_of_the_estimators(run: Run, config: Callable[[str], None]) -> None:
    config(RUN + 'batch-size = 8\nlearning_rate = 0.5\ntype_reduction = "nt"\nloss = "huber"\nloss_options = {delta = 2}\n')
    chosen = settings(run)
    assert (chosen["batch_size"], chosen["learning_rate"], chosen["type_reduction"]) == (8, 0.5, "nt")
    assert chosen["loss_options"] == {"delta": 2}


def test_config_switch_is_turned_off_by_a_flag(run: Run, config: Callable[[str], None], refused: Refused) -> None:
    config(RUN + "stream = true\nbuffer_rows = 9\n")
    run("train", "plant.csv", "--config", "run.toml")
    message = refused("train", "plant.csv", "--config", "run.toml", "--no-stream", "--force", code=2)
    assert message == "--buffer-rows must be given with --stream."


def test_config_takes_every_form_of_a_value(run: Run, config: Callable[[str], None]) -> None:
    config(
        RUN.replace("epochs = 2\n", "")
        + 'patience = 5\nepochs = "auto"\nrefit = "auto"\nnormalized_scores = false\ncalibration = "none"\n'
        'coverage = 0.8\nloss_options = ["delta=2"]\nloss = "huber"\noptimizer_options = {betas = [0.8, 0.9]}\n'
    )
    chosen = settings(run, "--epochs", "2")
    assert (chosen["patience"], chosen["epochs"], chosen["refit"], chosen["calibration"]) == (5, 2, "auto", None)
    assert chosen["normalized_scores"] is False
    assert chosen["loss_options"] == {"delta": 2}
    assert chosen["optimizer_options"] == {"betas": [0.8, 0.9]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epocs = 3\n", "'run.toml' has the key 'epocs', which train does not take. Did you mean 'epochs'?"),
        ("[train]\nn_rulez = 3\n", "'run.toml' has the key 'n_rulez', which train does not take. Did you mean 'n_rules'?"),
        ("zebra = 3\n", "'run.toml' has the key 'zebra', which train does not take."),
        ("[tarin]\nrules = 3\n", "'run.toml' has the key 'tarin', which train does not take. Did you mean 'start'?"),
        ("quiet = true\n", "'run.toml' has the key 'quiet', which stands on the command line only: --quiet."),
        ("verbose = 1\n", "'run.toml' has the key 'verbose', which train does not take."),
        ("'\\u001b[31m' = 3\n", "'run.toml' has the key '\\\\u001b[31m', which train does not take."),
        ("rules = 3\n", "'run.toml' has the key 'rules', which is now called 'n_rules'."),
        ("loss-option = ['delta=1']\n", "'run.toml' has the key 'loss-option', which is now called 'loss_options'."),
        ("n-rules = 2\nn_rules = 3\n", "'run.toml' gives 'n-rules' twice, once as 'n_rules'."),
        ("kind = ['t1']\n", "'kind' in 'run.toml' cannot be ['t1']: one value is expected."),
        ("batch_size = 1.5\n", "--batch-size must be an integer or auto, got '1.5'."),
        ("loss_options = 3\n", "--loss-options must be NAME=VALUE, got '3'."),
        # The option parser words the rest, differently in its versions.
        ('patience = "many"\n', "'patience' in 'run.toml' cannot be 'many': "),
        ("patience = 2.5\n", "'patience' in 'run.toml' cannot be 2.5: "),
        ("patience = true\n", "'patience' in 'run.toml' cannot be True: "),
        ("gradient-clip = 'big'\n", "'gradient-clip' in 'run.toml' cannot be 'big': "),
        ("stream = 'maybe'\n", "'stream' in 'run.toml' cannot be 'maybe': "),
        ("one_hot = true\n", "'run.toml' has the key 'one_hot', no longer needed: text columns are categories without it."),
    ],
    ids=lambda value: str(value)[:12],
)
def test_wrong_config_is_told(refused: Refused, config: Callable[[str], None], text: str, message: str) -> None:
    config(text)
    got = refused("train", "plant.csv", "--target", "y", "--config", "run.toml", code=2)
    assert got.startswith(message) if message.endswith(": ") else got == message


@pytest.mark.parametrize("flags", [(), ("--stream",)])
def test_config_is_not_replaced_by_the_model(
    refused: Refused, config: Callable[[str], None], folder: Path, flags: tuple[str, ...]
) -> None:
    config(RUN)
    arguments = ("train", "plant.csv", "--config", "run.toml", "--out", "run.toml", "--force", *flags)
    assert refused(*arguments, code=2) == "--out must not be a file that is read, got 'run.toml'."
    assert (folder / "run.toml").read_text() == RUN


def test_config_with_a_byte_order_mark_or_a_date_is_read(
    run: Run, refused: Refused, config: Callable[[str], None], folder: Path
) -> None:
    config("\ufeff" + RUN)
    assert settings(run)["n_rules"] == 2
    config('target = "y"\nstart = 2024-01-31\n')
    message = "There is no file of rules '2024-01-31'."
    assert refused("train", "plant.csv", "--config", "run.toml", "--out", "d.fls", code=2) == message


def test_config_that_is_no_toml_is_told(refused: Refused, config: Callable[[str], None]) -> None:
    config("n_rules 3\n")
    assert refused("train", "plant.csv", "--config", "run.toml", code=2).startswith("'run.toml' is not valid TOML: ")


def test_missing_config_is_told(refused: Refused, config: Callable[[str], None]) -> None:
    config("")
    message = "There is no file 'rnu.toml'. Did you mean 'run.toml'?"
    assert refused("train", "plant.csv", "--config", "rnu.toml", code=2) == message
    assert refused("train", "plant.csv", "--config", ".", code=2) == "'.' cannot be read: Is a directory."


@pytest.mark.parametrize("name", ["n_terms", "frozen_rules"])
def test_several_integers_are_one_number_or_a_list(name: str) -> None:
    setting = options.all_settings()[name]
    assert setting.value(["3"]) == 3
    assert setting.value(["3", "4"]) == [3, 4]
    with pytest.raises(
        UsageError, match=f"{options.option_of(name)} must be an integer, or several by repeating it, got 'x'"
    ):
        setting.value(["x"])


def test_mapping_is_given_by_pairs_or_by_its_name() -> None:
    settings = options.all_settings()
    assert settings["class_weight"].value(["balanced"]) == "balanced"
    assert settings["optimizer_options"].value(["betas=[0.8, 0.9]", "mode=fast"]) == {"betas": [0.8, 0.9], "mode": "fast"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train with kind='t1', or margin=None.", "train with --kind t1, or --margin none."),
        ("got coverage=None; train again with coverage=0.9.", "got --coverage none; train again with --coverage 0.9."),
        ("export one with plane=.", "export one with --plane."),
        ("outliers='keep' (--outliers keep) uses it.", "--outliers keep uses it."),
        ("categorical=['a b'] (--categorical 'a b') takes it.", "--categorical 'a b' takes it."),
        ("for example: --target=--y", "for example: --target=--y"),
        ("Column 'colour=red' is left as it is.", "Column 'colour=red' is left as it is."),
    ],
)
def test_messages_of_the_library_name_options(text: str, shown: str) -> None:
    assert in_options(text, {*options.all_settings(), "margin", "plane"}) == shown
