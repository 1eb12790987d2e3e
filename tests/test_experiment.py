"""The paper's experiment: its protocol, and the three IT2 systems that are one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from deepfls import experiment
from deepfls.data.datasets import load_dataset
from deepfls.nn import IT2FLS


@pytest.fixture
def split() -> experiment.Split:
    """A small set, so that every system takes real steps in a moment."""
    return experiment.protocol_split(load_dataset("diabetes", n_rows=250), seed=0)


def test_split_is_70_percent_in_z_units() -> None:
    data = load_dataset("diabetes")
    split = experiment.protocol_split(data, seed=3)
    assert len(split.x) == round(0.7 * len(data.x))
    together = np.concatenate([split.x, split.x_test])
    np.testing.assert_allclose(together.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(together.std(axis=0, ddof=1), 1)
    assert not np.array_equal(split.x, experiment.protocol_split(data, seed=4).x)


def test_starting_values_are_the_papers(split: experiment.Split) -> None:
    system = experiment.new_system("it2", split, rules=4, seed=0)
    assert isinstance(system, IT2FLS)
    deviation = torch.tensor(split.x.std(axis=0, ddof=1), dtype=torch.float32)
    half = (system.upper_sigmas - system.lower_sigmas).detach() / 2
    torch.testing.assert_close((system.upper_sigmas - half).detach(), deviation.expand(4, -1), rtol=1e-4, atol=1e-4)
    assert (half > 0).all()
    assert (half <= 0.0101).all()
    assert (system.heights >= 0.5).all()
    assert (system.heights <= 1 / (1 + np.exp(-1))).all()
    for values in (system.slopes, system.intercepts):
        assert (values >= 0).all()
        assert (values <= 0.01).all()


def test_three_systems_take_the_same_steps(split: experiment.Split) -> None:
    """From one seed the classic algorithm, the enumeration and ours are one system: equal errors after the same steps."""
    runs = {name: experiment.run("boston", split, 4, name, 1, epochs=4) for name in ("it2-km", "it2-fkm", "it2")}
    assert {run.steps for run in runs.values()} == {2 * 4}
    reference = runs["it2"].rmse
    assert reference is not None
    for run in runs.values():
        np.testing.assert_allclose(run.rmse, reference, rtol=1e-4)
    other_seed = experiment.run("boston", split, 4, "it2", 2, epochs=4).rmse
    assert other_seed != pytest.approx(reference, rel=1e-4)


def test_timed_steps_are_extrapolated_to_the_whole_run(split: experiment.Split) -> None:
    run = experiment.run("boston", split, 3, "it2-km", 0, epochs=50, timed_steps=2)
    assert run.extrapolated
    assert run.rmse is None
    assert run.steps == len(split.x) // 64 * 50
    assert run.seconds > 0


@pytest.mark.parametrize("system", ["t1", "it2"])
def test_paper_protocol_stays_finite_where_its_parameterisation_would_not(shared_data: Path, system: str) -> None:
    split = experiment.protocol_split(load_dataset("enb", data_dir=shared_data), seed=0)
    run = experiment.run("enb", split, 5, system, 0, epochs=15)
    assert run.rmse is not None
    assert all(0 < error < 1 for error in run.rmse)


def test_summary_has_a_row_per_output_beside_the_papers_figures(shared_data: Path) -> None:
    data = load_dataset("enb", data_dir=shared_data)
    runs = [experiment.Run(2.0, 100, False, (0.1, 0.2)), experiment.Run(4.0, 100, False, (0.3, 0.2))]
    first, second = experiment.summary_rows(data, 15, "it2", runs)
    assert (first["output"], second["output"]) == ("Y1", "Y2")
    assert first["rmse_mean"] == pytest.approx(0.2)
    assert first["rmse_std"] == pytest.approx(np.std([0.1, 0.3], ddof=1))
    assert (first["seconds"], first["ms_per_step"], first["steps"]) == (3.0, 30.0, 100)
    assert (first["paper_rmse"], second["paper_rmse"], first["paper_seconds"]) == (0.149, 0.204, 45.0)


def test_rules_the_paper_did_not_try_have_no_figures() -> None:
    assert experiment.paper_rmse("ccpp", 7, "t1", 0) is None
    assert experiment.paper_seconds("ccpp", 7, "t1") is None
    assert experiment.paper_seconds("ccpp", 15, "it2-km") == 57 * 3600 + 11 * 60
