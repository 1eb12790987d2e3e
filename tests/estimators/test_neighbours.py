"""The state of the process is the same before and after a call: threads, warnings, signals, random numbers, dtype."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from deepfls import FLSClassifier, FLSRegressor, load
from stream_cases import columns, regression, write

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(400, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
SMALL: dict[str, Any] = {"n_rules": 3, "epochs": 3, "batch_size": 64}


def process_state() -> dict[str, Any]:
    """All that a library may change for its neighbours by mistake."""
    generator = np.random.get_state()  # noqa: NPY002  # the global generator is what is looked at
    return {
        "torch threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "threads": sorted((pool["filepath"], pool["num_threads"]) for pool in threadpool_info()),
        "warnings": (list(warnings.filters), warnings.showwarning),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)],
        "random": random.getstate(),
        "numpy": (generator[1].tolist(), generator[2:]),  # type: ignore[union-attr,index]  # a tuple
        "numpy errors": np.geterr(),
        "torch": torch.random.get_rng_state().tolist(),
        "dtype": torch.get_default_dtype(),
        "torch modes": (torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled()),
        "environment": dict(os.environ),
        "folder": Path.cwd(),
        "logging": (logging.root.level, list(logging.root.handlers)),
    }


def fitted(**settings: Any) -> FLSRegressor:
    return FLSRegressor(**{**SMALL, **settings}).fit(X, Y)


def used(folder: Path) -> None:
    """What a model can do after its fit."""
    model = fitted(coverage=0.9, random_state=0)
    model.predict(X)
    model.predict_interval(X)
    model.firing_strengths(X)
    model.rules_as_text()
    model.explain(X[:1])
    model.simplify(X, Y)
    model.save(folder / "model.fls")
    load(folder / "model.fls").to_report(folder / "page.html", X, Y)
    model.to_c(folder / "model.h")


def streamed(folder: Path) -> None:
    rows = write(folder / "rows", columns(200))
    FLSRegressor(**SMALL, patience=2).fit(regression(rows), checkpoints=folder / "run")


class FailureError(Exception):
    """Of a loss."""


def fails(error: type[BaseException]) -> Callable[[Any, Any], Any]:
    left = [5]

    def loss(y: Any, target: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise error
        return (y - target).square()

    return loss


def raises(folder: Path) -> None:
    with pytest.raises(FailureError):
        fitted(loss=fails(FailureError))


def refuses(folder: Path) -> None:
    with pytest.raises(ValueError, match="kind must be"):
        fitted(kind="it3")


def interrupted(folder: Path) -> None:
    with pytest.warns(UserWarning, match="interrupted"):
        fitted(loss=fails(KeyboardInterrupt))


CALLS: dict[str, Callable[[Path], Any]] = {
    "fit": lambda folder: fitted(),
    "float64": lambda folder: fitted(dtype="float64", kind="t1", random_state=0),
    "classes": lambda folder: FLSClassifier(**SMALL, coverage=0.8).fit(X, Y > 0).predict_set(X),
    "autograd": lambda folder: fitted(loss=lambda y, target: (y - target).abs()),
    "use": used,
    "stream": streamed,
    "error": raises,
    "refusal": refuses,
    "interrupt": interrupted,
}


@pytest.fixture(autouse=True)
def loaded() -> None:
    """Libraries that are imported late add thread pools and filters of their own: import them before the first look."""
    fitted(coverage=0.9).predict_interval(X)


@pytest.mark.parametrize("name", CALLS)
def test_call_leaves_the_process_as_it_was(name: str, tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    CALLS[name](folders[0])  # once before, for what is imported or compiled late
    before = process_state()
    CALLS[name](folders[1])
    after = process_state()
    assert [part for part in before if before[part] != after[part]] == []


def test_overlapping_calls_leave_the_process_as_it_was(tmp_path: Path) -> None:
    together = threading.Barrier(4, timeout=60)

    def work(place: int) -> None:
        together.wait()
        for turn in range(3):
            if (place + turn) % 4 == 3:
                with pytest.raises(FailureError):
                    fitted(loss=fails(FailureError))
            else:
                fitted(coverage=0.9 if turn else None, calibration="split", random_state=place).predict(X)

    before = process_state()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    after = process_state()
    assert [part for part in before if before[part] != after[part]] == []


def test_fit_never_sets_a_generator_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Saved and restored, a generator would repeat the numbers that other threads drew in between."""

    def refused(*_: Any) -> None:
        raise AssertionError

    for place in ("torch.set_rng_state", "torch.random.set_rng_state", "numpy.random.set_state", "random.setstate"):
        monkeypatch.setattr(place, refused)
    fitted(coverage=0.9, random_state=0).predict(X)


@contextlib.contextmanager
def by_default(choose: Callable[[Any], None], value: object, usual: object) -> Iterator[None]:
    choose(value)
    try:
        yield
    finally:
        choose(usual)


STATES: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "no gradients": torch.no_grad,
    "inference mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "half precision by default": lambda: by_default(torch.set_default_dtype, torch.float16, torch.float32),
    # In place of a GPU: a tensor that is made without a device has no values.
    "another device by default": lambda: by_default(torch.set_default_device, "meta", None),
}


@pytest.mark.parametrize("name", STATES)
def test_state_of_torch_changes_no_model(name: str, tmp_path: Path) -> None:
    def made() -> list[Any]:
        by_autograd = fitted(random_state=0, loss=lambda y, target: (y - target).abs())
        model = fitted(kind="gt2", consequents="random", random_state=0)
        model.save(tmp_path / "model.fls")
        loaded = load(tmp_path / "model.fls")
        return [by_autograd.predict(X), loaded.predict(X), model.explain_data(X, Y).gradient, model.rules_as_text()]

    expected = made()
    with STATES[name]():
        found = made()
    for values, same in zip(found, expected, strict=True):
        np.testing.assert_array_equal(values, same)


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_predictions_of_many_threads_are_the_same_bits(kind: str) -> None:
    model = fitted(kind=kind, random_state=0)
    rows = np.random.default_rng(1).normal(size=(5_000, 3))
    # By number of rows: the products of another number of rows may round in another order.
    expected = {n_rows: model.predict(rows[:n_rows]) for n_rows in (1, 7, 400, 5_000)}

    def predicted(n_rows: int) -> bool:
        return np.array_equal(model.predict(rows[:n_rows]), expected[n_rows])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(predicted, list(expected) * 16))
