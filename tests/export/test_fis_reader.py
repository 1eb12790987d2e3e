"""Rules from .fis files: predictions of the file, training that continues from it, and errors that name the line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepfls import FLSRegressor, load
from deepfls.export import FisFileError, read_fis

VALVE = """% written by an expert
[System]
Name='valve'
Type='sugeno'
Version=2.0
NumInputs=2
NumOutputs=1
NumRules=3
AndMethod='prod'
OrMethod='probor'
ImpMethod='prod'
AggMethod='sum'
DefuzzMethod='wtaver'

[Input1]
Name='heat'
Range=[0 100]
NumMFs=2
MF1='low':'gaussmf',[20 0]
MF2='high':'gaussmf',[20 100]

[Input2]
Name='flow'
Range=[0 10]
NumMFs=2
MF1='low':'gaussmf',[2 0]
MF2='high':'gaussmf',[2 10]

[Output1]
Name='opening'
Range=[0 1]
NumMFs=3
MF1='shut':'constant',[0.1]
MF2='half':'constant',[0.5]
MF3='open':'linear',[0.001 0.02 0.7]

[Rules]
1 1, 1 (1) : 1
2 0, 2 (1) : 1
2 2, 3 (1) : 1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "valve.fis"
    path.write_text(VALVE)
    return path


def by_hand(heat: float, flow: float) -> float:
    """The formula of the file, without code of the package."""

    def grade(x: float, sigma: float, center: float) -> float:
        return float(np.exp(-((x - center) ** 2) / (2 * sigma**2)))

    firing = [
        grade(heat, 20, 0) * grade(flow, 2, 0),
        grade(heat, 20, 100),
        grade(heat, 20, 100) * grade(flow, 2, 10),
    ]
    outputs = [0.1, 0.5, 0.001 * heat + 0.02 * flow + 0.7]
    return sum(f * y for f, y in zip(firing, outputs, strict=True)) / sum(firing)


def test_estimator_has_the_predictions_of_the_file(file: Path) -> None:
    model = read_fis(file, names=False)
    points = np.array([[0, 0], [50, 5], [90, 8], [100, 10], [10, 9]], dtype=float)
    # The set of an input that a rule leaves out is 10,000 ranges wide: its grade is 1 within 1e-8.
    np.testing.assert_allclose(model.predict(points), [by_hand(*point) for point in points], rtol=1e-6)
    assert model.target_names_ == ("opening",)
    assert model.n_rules == 3
    assert model.order == 1


def test_training_continues_from_the_file(file: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"heat": rng.uniform(0, 100, 300), "flow": rng.uniform(0, 10, 300)})
    truth = np.clip(frame["heat"] / 120 + frame["flow"] / 40, 0, 1)
    start = read_fis(file, epochs=20, random_state=0, learning_rate=0.01)
    before = np.sqrt(np.mean((start.predict(frame) - truth) ** 2))
    start.save(tmp_path / "start.fls")
    start.fit(frame, truth)
    after = np.sqrt(np.mean((start.predict(frame) - truth) ** 2))
    assert after < 0.7 * before
    # Training started from the file: centers moved by less than a tenth of a range.
    centers = start.x_scaling_.invert(start.system_.centers.numpy())
    assert np.abs(centers[0] - [0, 0]).max() < 10
    again = load(tmp_path / "start.fls")
    np.testing.assert_allclose(again.predict(frame), read_fis(file).predict(frame))


@pytest.mark.parametrize(
    ("lower", "message"),
    [
        ("[1],[0.1 0.1]", r"LowerLag must be 0, got \[0\.1 0\.1\]; deepfls cannot represent another value"),
        ("[0],[0 0]", r"LowerScale must be one number greater than 0 and at most 1, got \[0\]"),
        ("[0.5 0.5],[0 0]", r"LowerScale must be one number greater than 0 and at most 1, got \[0\.5 0\.5\]"),
        ("[0.5]", "MF1 must be 'NAME':'TYPE',"),
    ],
)
def test_lower_sets_that_cannot_be_represented_are_an_error(lower: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "v.fis"
    path.write_text(VALVE.replace("'gaussmf',[20 0]", f"'gaussmf',[20 0],{lower}"))
    with pytest.raises(FisFileError, match=rf"v\.fis, line 19: {message}"):
        read_fis(path)


def test_lower_sets_of_a_type_2_file_are_scaled(tmp_path: Path) -> None:
    path = tmp_path / "v.fis"
    path.write_text(VALVE.replace("'gaussmf',[20 0]", "'gaussmf',[20 0],[0.4],[0 0]"))
    model = read_fis(path, names=False)
    heights = np.ones((3, 2))
    # Only the first rule uses that set; a set without a scale has the height 1.
    heights[0, 0] = 0.4
    np.testing.assert_allclose(model.system_.heights.numpy(), heights, rtol=1e-12)


def test_other_sets_are_approximated_only_when_asked(tmp_path: Path) -> None:
    text = VALVE.replace("MF1='low':'gaussmf',[20 0]", "MF1='low':'trimf',[-40 0 40]")
    text = text.replace("MF2='high':'gaussmf',[2 10]", "MF2='high':'gbellmf',[2.3548 3 10]").replace("'prod'", "'min'", 1)
    path = tmp_path / "v.fis"
    path.write_text(text)
    with pytest.raises(FisFileError, match=r"v\.fis, line 9: AndMethod must be 'prod', got 'min'; approximate=True takes"):
        read_fis(path)
    path.write_text(text.replace("'min'", "'prod'", 1))
    message = r"v\.fis, line 19: a set must be 'gaussmf', got 'trimf'; approximate=True takes a Gaussian"
    with pytest.raises(FisFileError, match=message):
        read_fis(path)
    path.write_text(text)
    model = read_fis(path, approximate=True, names=False)
    sigmas = model.system_.sigmas.numpy() * model.x_scaling_.scale
    assert sigmas[0, 0] == pytest.approx(40 / 2.35482, rel=1e-5)
    assert sigmas[2, 1] == pytest.approx(2.0, rel=1e-4)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Type='sugeno'", "Type='mamdani'", "line 4: Type must be 'sugeno', got 'mamdani'"),
        ("NumRules=3", "NumRules=4", "line 37: NumRules says 4 rules, got 3"),
        ("NumInputs=2", "NumInputs=999999", "line 6: numinputs must be between 1 and 10,000, got '999999'"),
        ("NumInputs=2", "NumInputs=__import__('os')", "line 6: numinputs must be between 1 and 10,000"),
        ("NumInputs=2", "NumInputs=3", "must have a section [Input3]: the file is truncated"),
        ("[20 0]", "[0 0]", "line 19: a set must have a positive width"),
        ("[20 0]", "[nan 0]", "line 19: numbers are expected, got 'nan 0'"),
        ("[20 0]", "[1e999 0]", "line 19: numbers must be within ±1e100"),
        ("[20 0]", "[system('x')]", "line 19: numbers are expected"),
        ("'gaussmf',[20 0]", "'evil',[20 0]", "line 19: a set must be 'gaussmf' of 2 numbers, got 'evil' of 2"),
        ("Range=[0 100]", "Range=[100 0]", "line 17: Range must be [smallest largest]"),
        ("1 1, 1 (1) : 1", "1 1, 1 (0.5) : 1", "line 38: the weight of a rule must be 1, got 0.5"),
        ("1 1, 1 (1) : 1", "1 1, 1 (1) : 2", "line 38: sets must be joined by AND (connection 1), got OR"),
        ("1 1, 1 (1) : 1", "-1 1, 1 (1) : 1", "line 38: sets must be positive whole numbers"),
        ("1 1, 1 (1) : 1", "0 0, 1 (1) : 1", "line 38: a rule must use at least one input"),
        ("1 1, 1 (1) : 1", "7 1, 1 (1) : 1", "line 38: the input 'heat' has no set 7"),
        ("1 1, 1 (1) : 1", "1 1, 9 (1) : 1", "line 38: output 1 has no function 9"),
        ("1 1, 1 (1) : 1", "1, 1 (1) : 1", "line 38: a rule must have 2 sets and 1 output,"),
        ("1 1, 1 (1) : 1", "what?", "line 38: a rule must be 'SETS, OUTPUTS (WEIGHT) : CONNECTION', got 'what?'"),
        (
            "'linear',[0.001 0.02 0.7]",
            "'linear',[0.001]",
            "line 35: an output must be 'constant' of 1 or 'linear' of 3 numbers, got 'linear' of 1",
        ),
        ("DefuzzMethod='wtaver'", "DefuzzMethod='wtsum'", "line 13: DefuzzMethod must be 'wtaver', got 'wtsum'"),
        ("[Input2]", "[Input1]", "line 22: the section [Input1] occurs twice"),
        ("Version=2.0", "nonsense", "line 5: a line must be [SECTION] or KEY=VALUE, got 'nonsense'"),
    ],
)
def test_file_that_does_not_fit_is_an_error_naming_the_line(file: Path, old: str, new: str, message: str) -> None:
    assert old in VALVE
    file.write_text(VALVE.replace(old, new, 1))
    with pytest.raises(FisFileError) as error:
        read_fis(file)
    assert message in str(error.value)
    assert str(error.value).endswith(".")


def test_byte_order_mark_is_read_over(file: Path) -> None:
    expected = read_fis(file)
    file.write_text(VALVE, encoding="utf-8-sig")
    np.testing.assert_array_equal(read_fis(file).system_.centers, expected.system_.centers)


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FisFileError, match=r"path must be a \.fis file, got "):
        read_fis(tmp_path)
    path = tmp_path / "x.fis"
    path.write_bytes(bytes(range(256)) * 10)
    with pytest.raises(FisFileError):
        read_fis(path)
    path.write_bytes(b"")
    with pytest.raises(FisFileError, match=r"x\.fis must have the sections \[System\] and \[Rules\]"):
        read_fis(path)
    path.write_bytes(b" " * 10_000_001)
    with pytest.raises(FisFileError, match="is larger than 10,000,000 bytes"):
        read_fis(path)
    x = np.random.default_rng(0).normal(size=(30, 2))
    FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(x, x[:, 0]).to_fis(tmp_path / "x.t2fis")
    with pytest.raises(FisFileError, match=r"^x\.t2fis, line \d+: a \.t2fis file of the IT2-FLS toolbox cannot be read; "):
        read_fis(tmp_path / "x.t2fis")


@given(st.integers(0, len(VALVE) - 1), st.text(alphabet="0123456789[]'=,:;.-\n eE\x00", max_size=4))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_damaged_file_is_read_or_refused(file: Path, place: int, text: str) -> None:
    file.write_text(VALVE[:place] + text + VALVE[place + 3 :])
    try:
        model = read_fis(file, names=False)
    except ValueError:  # the system raises ValueError for a set that is too narrow or too wide
        return
    assert np.isfinite(model.predict(np.full((1, model.n_features_in_), 5.0))).all()


def test_a_set_outside_the_range_of_its_input_widens_the_range(tmp_path: Path) -> None:
    path = tmp_path / "valve.fis"
    path.write_text(VALVE.replace("[20 100]", "[20 130]"))
    model = read_fis(path)
    assert model.input_range_[:, 0].tolist() == [0.0, 130.0]
    rows = np.column_stack([np.linspace(0, 100, 60), np.linspace(0, 10, 60)[::-1]])
    model.set_params(epochs=3).fit(pd.DataFrame(rows, columns=["heat", "flow"]), rows.sum(axis=1))
    assert model.input_range_[:, 0].tolist() == [0.0, 130.0]
