"""The command as a whole: start, help, exit codes of real processes, hostile names."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import csv

import deepfls
from deepfls import load
from deepfls._checks.arguments import printable

FAST = ("--epochs", "2", "--n-rules", "2", "--random-state", "0")
COMMANDS = ("train", "predict", "evaluate", "explain", "simplify", "report", "export", "import", "demo")
HOSTILE = [
    "[red]x[/red]",
    "[/]",
    "=cmd()",
    "-2+3",
    "🦉 Σ",
    "x" * 200,
    "\x1b[31mred\x1b[0m",
    "\x9b31m",
    "\u202etxet",
    "a,b",
    'say "hi"',
    "two\nlines",
    "ta\tb",
    "{0}%s",
    "--target",
]

Run = Callable[..., Any]


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "deepfls", *arguments], capture_output=True, text=True, **options)


def test_version_is_the_package_version(run: Run) -> None:
    assert run("--version").stdout == f"deepfls {deepfls.__version__}\n"


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)], ids=str)
def test_help_lists_the_commands(run: Run, arguments: tuple[str, ...]) -> None:
    text = run(*arguments).stdout
    assert all(f" {name} " in text for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(run: Run, command: str) -> None:
    text = run(command, "-h").stdout
    assert all(name in text for name in ("--quiet", "--json", "--debug"))


def test_mistyped_command_suggests_the_nearest(run: Run) -> None:
    assert run("tran", code=2).stderr == "Error: No such command 'tran'. Did you mean 'train'? See 'deepfls --help'.\n"


def test_missing_argument_is_told(run: Run) -> None:
    assert run("predict", code=2).stderr == "Error: Missing argument 'MODEL'. See 'deepfls predict --help'.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("trian",),
        ("predict", "--help"),
        ("train", "--n-rulez", "3"),
        ("train", "--rules", "3"),
    ],
    ids=" ".join,
)
def test_help_and_mistyped_names_import_nothing_heavy(arguments: tuple[str, ...]) -> None:
    source = (
        "import sys, json\n"
        f"sys.argv = ['deepfls', *{arguments}]\n"
        "from deepfls.cli.app import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    pass\n"
        "heavy = ['torch', 'sklearn', 'numpy', 'pyarrow', 'numba', 'pandas', 'matplotlib']\n"
        "print(json.dumps([name for name in heavy if name in sys.modules]), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert json.loads(done.stderr.splitlines()[-1]) == []


def test_mistyped_name_does_not_wait_for_torch(folder: Path) -> None:
    source = (
        "import sys\n"
        "sys.argv = ['deepfls', 'train', 'plant.csv', '--target', 'Y']\n"
        "from deepfls.cli.app import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    print(end.code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1 False\n"), done.stderr


def test_process_ends_with_one_line_and_a_code(folder: Path) -> None:
    done = process("train", "plant.csv", "--target", "Y")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: 'plant.csv' has no column 'Y' to be the target. Did you mean 'y'?\n"


def test_process_shows_the_traceback_with_debug(folder: Path) -> None:
    done = process("train", "plant.csv", "--target", "Y", "--debug")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert "TableError: 'plant.csv' has no column 'Y'" in done.stderr


def test_process_trains_and_predicts(folder: Path) -> None:
    arguments = ("--target", "y", "--feature", "x", "--kind", "t1", *FAST, "--out", "m.fls")
    done = process("train", "plant.csv", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    done = process("predict", "m.fls", "plant.csv")
    predicted = load("m.fls").predict(csv.read_csv("plant.csv").select(["x"]))
    assert [float(line) for line in done.stdout.splitlines()[1:]] == predicted.tolist()
    assert (done.returncode, done.stderr) == (0, "")


def test_closed_pipe_is_no_error(run: Run, folder: Path) -> None:
    run("train", "plant.csv", "--target", "y", "--feature", "x", "--kind", "t1", *FAST, "--out", "m.fls")
    (folder / "long.csv").write_text("x\n" + "1\n" * 20_000)
    command = f"{sys.executable} -m deepfls predict m.fls long.csv | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("y\n", "")


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_interrupt_in_a_terminal_saves_the_model(folder: Path) -> None:
    import pty

    parent, child = pty.openpty()
    arguments = (
        "train",
        "plant.csv",
        "--target",
        "y",
        "--feature",
        "x",
        "--epochs",
        "10000000",
        "--kind",
        "t1",
        "--out",
        "m.fls",
    )
    running = subprocess.Popen(
        [sys.executable, "-m", "deepfls", *arguments],
        stdin=child,
        stdout=child,
        stderr=child,
        # A shell lets what it runs in the background ignore Ctrl-C, and so would this child.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    os.close(child)
    shown = b""
    try:
        while b"epoch 1" not in shown:  # ends with the process: reading then fails
            shown += os.read(parent, 4096)
        running.send_signal(signal.SIGINT)
        while running.poll() is None:
            shown += os.read(parent, 4096)
    except OSError:  # the terminal of a process that has ended
        pass
    finally:
        running.kill()
        os.close(parent)
    assert running.wait() == 130, shown.decode()
    assert b"as it was when training was interrupted" in shown
    assert load("m.fls").stopped_by_ == "interrupt"


def safe(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize("name", HOSTILE, ids=[ascii(name)[:20] for name in HOSTILE])
def test_hostile_names_pass_through_everything(run: Run, folder: Path, name: str) -> None:
    header = '"' + name.replace('"', '""') + '"'
    rows = "".join(f"{i},{i % 3},{header}\n" for i in range(12))
    (folder / "t.csv").write_text(f"{header},x,c\n{rows}", encoding="utf-8")
    trained = run("train", "t.csv", f"--target={name}", *FAST, "--out", "m.fls")
    assert safe(trained.output)
    assert printable(name)[:30] in trained.stdout
    assert load("m.fls").table_["targets"] == [name]
    assert safe(run("evaluate", "m.fls", "t.csv").output)
    run("predict", "m.fls", "t.csv", "--out", "p.csv", "--keep", "c")
    written = csv.read_csv("p.csv", parse_options=csv.ParseOptions(newlines_in_values=True))
    assert written.schema.names == ["c", name]
    assert written.column("c").to_pylist() == [name] * 12
    content = json.loads(run("train", "t.csv", f"--target={name}", *FAST, "--json", "--force").stdout)
    assert content["targets"] == [name]
    wrong = run("train", "t.csv", f"--target={name}", "--drop=z", "--force", code=1)
    assert wrong.stderr.count("\n") == 1
    assert safe(wrong.stderr)
    wrong = run("predict", f"./{name}.fls", "t.csv", code=1)
    assert wrong.stderr.count("\n") == 1
    assert safe(wrong.stderr)


def test_hostile_classes_pass_through_everything(run: Run, folder: Path) -> None:
    classes = [name for name in HOSTILE if name.strip()]
    quoted = ['"' + name.replace('"', '""') + '"' for name in classes]
    (folder / "t.csv").write_text("x,y\n" + "".join(f"{i},{name}\n" for i, name in enumerate(quoted)), encoding="utf-8")
    assert safe(run("train", "t.csv", "--target", "y", *FAST, "--out", "m.fls").output)
    run("predict", "m.fls", "t.csv", "--out", "p.csv")
    names = csv.read_csv("p.csv", parse_options=csv.ParseOptions(newlines_in_values=True)).schema.names
    assert sorted(names) == sorted(["y", *(f"y={name}" for name in classes)])


def test_interrupt_while_the_command_is_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from deepfls.__main__ import main

    class Interrupted:
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "deepfls.cli.app", Interrupted())  # type: ignore[arg-type]  # in place of the module
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
    assert capsys.readouterr().err == "Stopped: interrupted.\n"
