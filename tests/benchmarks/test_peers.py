"""The comparison with peers, without a network: none of them is installed here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import peers
from _report import Row, Target
from _timing import Effort
from peers import FitWork, PeerError

SMALL = FitWork(60, 3, 3, 1, 32, {"pytsk": Target(">=", 4)}, {"pytsk": Target(">=", 1)})
ONCE = Effort(windows=1, seconds=0.0, min_windows=1)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEEPFLS_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def commands(cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands of the installation, not run; the one that installs highfis fails."""
    found: list[list[str]] = []

    def run(command: list[str]) -> None:
        found.append(command)
        if "venv" in command:
            (cache / "peers").mkdir()
        if any("highfis" in part for part in command):
            raise PeerError("ERROR: No matching distribution found for highfis")

    monkeypatch.setattr(peers, "_run", run)
    return found


def test_environment_is_made_in_the_users_cache_with_torch_pinned(cache: Path, commands: list[list[str]]) -> None:
    python, failed = peers.install()
    assert commands[0] == [sys.executable, "-m", "venv", str(cache / "peers")]
    assert python.is_relative_to(cache / "peers")
    assert all(any(part.startswith("torch==") for part in command) for command in commands[1:])
    assert not any("+" in part for command in commands[1:] for part in command)
    assert failed == {
        "highfis": "highfis==0.36.0 could not be installed: ERROR: No matching distribution found for highfis"
    }


def test_environment_is_found_again_but_tried_again_where_a_peer_failed(
    commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    peers.install()
    first = len(commands)
    peers.install()
    assert len(commands) == 2 * first

    def run(command: list[str]) -> None:
        commands.append(command)
        if "venv" in command:
            Path(command[-1]).mkdir()

    monkeypatch.setattr(peers, "_run", run)
    assert peers.install()[1] == {}
    before = len(commands)
    assert peers.install()[1] == {}
    assert len(commands) == before


def test_missing_installer_is_reported_and_nothing_else_measured(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str]) -> None:
        raise PeerError("No module named venv")

    monkeypatch.setattr(peers, "_run", run)
    (row,) = peers.measure(quick=True)
    assert row == Row("no environment for the peers: No module named venv", None, "x")
    assert row.holds is None


def test_ours_and_peers_are_timed_in_processes_and_a_broken_peer_has_a_reason() -> None:
    seconds, failed = peers.seconds_of_fits(Path(sys.executable), ["pytsk"], SMALL, ONCE)
    assert set(seconds) == {"ours T1", "ours IT2"}
    assert all(value > 0 for value in seconds.values())
    assert failed == {"pytsk": "pytsk failed: ModuleNotFoundError: No module named 'pytsk'"}


def test_ratios_stand_beside_their_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"ours T1": 0.1, "ours IT2": 0.2, "pytsk": 0.5}
    monkeypatch.setattr(peers, "install", lambda: (Path(sys.executable), {"highfis": "highfis: none"}))
    monkeypatch.setattr(peers, "WORKS", (SMALL,))
    monkeypatch.setattr(peers, "seconds_of_fits", lambda *args: (times, {"endgame": "endgame failed: x"}))
    rows = list(peers.measure())
    judged = {row.work.split(",")[0]: (row.value, row.holds) for row in rows if row.target is not None}
    assert judged == {"pytsk / ours T1": (5.0, True), "pytsk / ours IT2": (2.5, True)}
    assert [row.work for row in rows if row.value is None] == [
        "highfis: highfis: none",
        f"endgame, {SMALL}: endgame failed: x",
    ]


def test_long_fit_is_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_LONG", 0.0)
    asked: list[str] = []

    class Process:
        returncode = None

        class stdin:  # noqa: N801
            write = staticmethod(asked.append)
            flush = staticmethod(lambda: None)

    worker = object.__new__(peers.Worker)
    worker._process, worker._long = Process(), None  # type: ignore[assignment]
    monkeypatch.setattr(peers.Worker, "_answer", lambda self: "1.5")
    assert [worker(), worker(), worker()] == [1.5] * 3
    assert asked == ["fit\n"]


def test_process_without_an_answer_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr(peers, "WORKER", sleeper)
    monkeypatch.setattr(peers, "_TIMEOUT", 0.2)
    with pytest.raises(PeerError, match="pytsk failed: no answer within 0 s"):
        peers.Worker(Path(sys.executable), "pytsk", tmp_path / "rows.npz", SMALL)


def test_works_and_targets_are_those_of_the_comparison() -> None:
    sizes = [(w.n_rows, w.n_features, w.n_rules, w.epochs, w.batch) for w in peers.WORKS]
    assert sizes == [(354, 13, 15, 60, 64), (6_698, 4, 15, 20, 512), (20_000, 90, 50, 2, 4096)]
    assert [w.t1_targets["pytsk"].limit for w in peers.WORKS] == [15, 30, 45]
    assert [w.it2_targets["pytsk"].limit for w in peers.WORKS] == [10, 18, 1]
    assert peers.WORKS[2].it2_targets["endgame"].limit == 300
