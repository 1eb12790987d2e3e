"""The paper's protocol: its splits, starting values, and three IT2 systems that are one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import _protocol as protocol
from _protocol import Split, TrainingRun
from deepfls.data.datasets import load_dataset
from deepfls.nn import IT2FLS


@pytest.fixture
def split() -> Split:
    """A small set."""
    return protocol.protocol_split(load_dataset("diabetes", n_rows=250), seed=0)


def test_split_is_70_percent_in_z_units() -> None:
    data = load_dataset("diabetes")
    split = protocol.protocol_split(data, seed=3)
    assert len(split.x) == round(0.7 * len(data.x))
    together = np.concatenate([split.x, split.x_test])
    np.testing.assert_allclose(together.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(together.std(axis=0, ddof=1), 1)
    assert not np.array_equal(split.x, protocol.protocol_split(data, seed=4).x)


def test_constant_column_has_z_scores_of_zero() -> None:
    np.testing.assert_array_equal(protocol.z_scores(np.full((5, 1), 3.0)), 0)


def test_starting_values_are_the_papers(split: Split) -> None:
    system = protocol.new_system("it2", split, rules=4, seed=0)
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


def test_three_systems_take_the_same_steps(split: Split) -> None:
    """From one seed the classic algorithm, the enumeration and ours have equal errors after the same steps."""
    runs = {name: protocol.run("boston", split, 4, name, 1, epochs=4) for name in ("it2-km", "it2-fkm", "it2")}
    assert {run.steps for run in runs.values()} == {2 * 4}
    reference = runs["it2"].rmse
    assert reference is not None
    for run in runs.values():
        np.testing.assert_allclose(run.rmse, reference, rtol=1e-4)
    other_seed = protocol.run("boston", split, 4, "it2", 2, epochs=4).rmse
    assert other_seed != pytest.approx(reference, rel=1e-4)


def test_timed_steps_are_extrapolated_to_the_complete_run(split: Split) -> None:
    run = protocol.run("boston", split, 3, "it2-km", 0, epochs=50, timed_steps=2)
    assert run.extrapolated
    assert run.rmse is None
    assert run.steps == len(split.x) // 64 * 50
    assert run.seconds > 0


@pytest.mark.parametrize("system", ["t1", "it2"])
def test_training_on_inputs_of_few_values_stays_finite(tables: Path, system: str) -> None:
    split = protocol.protocol_split(load_dataset("enb", data_dir=tables), seed=0)
    run = protocol.run("enb", split, 5, system, 0, epochs=15)
    assert run.rmse is not None
    assert all(0 < error < 1 for error in run.rmse)


def test_summary_has_a_row_per_output_beside_the_papers_figures(tables: Path) -> None:
    data = load_dataset("enb", data_dir=tables)
    runs = [TrainingRun(2.0, 100, False, (0.1, 0.2)), TrainingRun(4.0, 100, False, (0.3, 0.2))]
    first, second = protocol.summary_rows(data, 15, "it2", runs)
    assert (first["output"], second["output"]) == ("Y1", "Y2")
    assert first["rmse_mean"] == pytest.approx(0.2)
    assert first["rmse_std"] == pytest.approx(np.std([0.1, 0.3], ddof=1))
    assert (first["seconds"], first["ms_per_step"], first["steps"]) == (3.0, 30.0, 100)
    assert (first["paper_rmse"], second["paper_rmse"], first["paper_seconds"]) == (0.149, 0.204, 45.0)


def test_time_of_a_cell_is_the_median_over_its_seeds() -> None:
    runs = [TrainingRun(seconds, 10, False, (error,)) for seconds, error in ((1.0, 0.1), (9.0, 0.3), (2.0, 0.2))]
    (row,) = protocol.summary_rows(load_dataset("diabetes", n_rows=10), 5, "t1", runs)
    assert (row["seconds"], row["ms_per_step"]) == (2.0, 200.0)
    assert row["rmse_mean"] == pytest.approx(0.2)


def test_rules_the_paper_did_not_try_have_no_figures() -> None:
    assert protocol.paper_rmse("ccpp", 7, "t1", 0) is None
    assert protocol.paper_seconds("ccpp", 7, "t1") is None
    assert protocol.paper_seconds("ccpp", 15, "it2-km") == 57 * 3600 + 11 * 60


def test_table_without_a_file_names_the_places(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"must have the file naval\.csv, naval\.csv\.gz or extra/naval\.csv\.gz"):
        protocol.read_table("naval", tmp_path)
