"""The page as a file: complete, small, and closed by its policy to everything but its own script and style."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from deepfls import FLSRegressor
from deepfls.functional import constants
from deepfls.inspection import report_html
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.report_page import payload_of
from inspection_cases import HOSTILE, LABELS, X, Y, classifier, hostile_regressor, regressor


def payload(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="system">(.*?)</script>', page, flags=re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_page_carries_the_system_to_the_last_bit() -> None:
    model = regressor("km")
    content, plain = payload(report_html(model)), PlainSystem.of(model)
    for name in ("centers", "lower_sigmas", "upper_sigmas", "log_heights", "intercepts", "slopes"):
        np.testing.assert_array_equal(np.array(content["systems"][0][name]), getattr(plain, name))


@pytest.mark.parametrize("name", ["t1", "km", "one-rule"])
def test_page_carries_the_table_of_numerical_constants(name: str) -> None:
    assert payload(report_html(regressor(name)))["constants"] == {
        "log_floor": constants.LOG_FLOOR,
        "tolerance": constants.TOLERANCE,
        "max_sweeps": constants.max_sweeps(regressor(name).system_.n_rules),
    }


def test_page_is_closed_to_everything_but_its_own_script_and_style() -> None:
    page = report_html(regressor("km"))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; ")
    assert "unsafe" not in policy[1]
    for tag in ("script", "style"):
        blocks = re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.DOTALL)
        assert len(blocks) == 1
        digest = base64.b64encode(hashlib.sha256(blocks[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert "innerHTML" not in page
    assert "insertAdjacentHTML" not in page


def test_names_never_become_markup() -> None:
    page = report_html(hostile_regressor(), title="<script>bad()</script>")
    assert payload(page)["inputs"]["names"] == HOSTILE
    assert "<script>bad" not in page
    assert "<img" not in page
    assert page.count("<script") == 2
    assert "&lt;script&gt;bad()" in page


def test_half_a_surrogate_pair_does_not_stop_the_page(tmp_path: Path) -> None:
    model = FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(X, Y[:, 0])
    model.feature_names_in_ = np.array(["\ud83d", "a", "b", "c"], dtype=object)
    path = model.to_report(tmp_path / "half.html", title="\ud83d")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_page_for_50_inputs_30_rules_2_outputs_is_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 50)) * 123.456
    model = FLSRegressor(n_rules=30, epochs=1, random_state=0).fit(x, x[:, :2])
    assert model.to_report(tmp_path / "large.html", x, x[:, :2]).stat().st_size < 2_000_000


def test_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    with pytest.raises(ValueError, match=r"y must be finite"):
        regressor("km").to_report(path, X, np.full_like(Y, np.nan))
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_measures_are_those_of_the_estimator() -> None:
    model = regressor("km", 1)
    content = payload_of(model, X, Y[:, 0])
    values = content["data"]["metrics"][0]["values"]
    assert values["R²"] == pytest.approx(model.score(X, Y[:, 0]), rel=1e-9)
    sample, truth = np.array(content["data"]["sample"]), np.array(content["data"]["truth"])
    places = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in sample]
    np.testing.assert_array_equal(truth[:, 0], Y[places, 0])


def test_one_row_has_no_r2() -> None:
    values = payload_of(regressor("km", 1), X[:1], Y[:1, 0])["data"]["metrics"][0]["values"]  # a warning is an error here
    assert list(values) == ["RMSE", "MAE"]


def test_classes_are_measured_and_named() -> None:
    content = payload_of(classifier(), X, LABELS)
    assert content["data"]["metrics"][0]["values"]["accuracy"] == pytest.approx(classifier().score(X, LABELS))
    assert set(np.ravel(content["data"]["truth"])) <= set(LABELS)


def test_learning_curve_is_thinned_and_keeps_its_ends() -> None:
    model = FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(X, Y[:, 0])
    model.history_ = [{"epoch": float(e), "loss": float("nan") if e == 1 else 1.0 / e} for e in range(1, 2001)]
    history = payload_of(model)["history"]
    assert len(history) <= 400
    assert history[0] == {"epoch": 1.0, "loss": None}
    assert history[-1]["epoch"] == 2000.0


def test_page_refuses_true_values_without_rows(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"X must be given with y, got y alone\."):
        regressor("km").to_report(tmp_path / "r.html", y=Y)


def test_page_is_named_after_its_outputs() -> None:
    assert "<title>y0 and y1</title>" in report_html(regressor("km"))
    assert "<title>Plant</title>" in report_html(regressor("km"), title="Plant")


def test_rows_with_unknown_inputs_are_measured_and_shown() -> None:
    x = X.copy()
    x[::3, 1] = np.nan
    model = FLSRegressor(n_rules=3, epochs=2, random_state=0).fit(x, Y[:, 0])
    content = payload_of(model, x, Y[:, 0])["data"]
    assert content["rows"] == len(x)
    assert [row[1] is None for row in content["sample"]] == [bool((place - 1) % 3 == 0) for place in content["places"]]
    assert content["metrics"][0]["values"]["RMSE"] is not None
    json.dumps(content, allow_nan=False)


def test_input_that_no_row_has_is_reported_without_numbers(tmp_path: Path) -> None:
    model = FLSRegressor(n_rules=3, epochs=2, random_state=0).fit(X, Y[:, 0])
    x = X.copy()
    x[:, 1] = np.nan
    summary = payload_of(model, x, Y[:, 0])["data"]["summary"]
    for name, expected in (
        ("least", x.min(axis=0)),
        ("largest", x.max(axis=0)),
        ("mean", x.mean(axis=0)),
        ("spread", x.std(axis=0)),
    ):
        assert summary[name][1] is None
        assert summary[name][0] == pytest.approx(expected[0])
    model.to_card(tmp_path / "card.html", x, Y[:, 0])
    assert model.explain_data(x, Y[:, 0]).gradient[1] == 0.0


def test_page_has_calibrated_intervals_at_any_point_and_for_its_rows() -> None:
    for refit in (False, True):
        model = FLSRegressor(n_rules=3, epochs=3, coverage=0.8, refit=refit, random_state=0).fit(X, Y[:, 0])
        content = payload_of(model, X, Y[:, 0])
        lower, upper = model.predict_interval(X)
        places = np.array(content["data"]["places"]) - 1
        np.testing.assert_allclose(content["data"]["intervals"], np.stack([lower, upper], axis=1)[places, :, None])
        part = PlainSystem.of(model.interval_model_ if refit else model)
        left, right, y = part.output(X)
        gain, reach = content["interval"]["gain"][0], content["interval"]["reach"][0]
        crisp = model.predict(X)
        np.testing.assert_allclose(np.minimum((y - gain * (y - left) - reach)[:, 0], crisp), lower, rtol=1e-9)
        np.testing.assert_allclose(np.maximum((y + gain * (right - y) + reach)[:, 0], crisp), upper, rtol=1e-9)
        assert (content["interval"]["systems"] is not None) == refit
        assert content["data"]["metrics"][0]["values"]["covered"] == pytest.approx(
            ((lower <= Y[:, 0]) & (Y[:, 0] <= upper)).mean()
        )


def test_page_has_words_and_conditions_that_were_left_out() -> None:
    model = FLSRegressor(n_rules=3, n_terms=3, max_conditions=2, epochs=4, random_state=0).fit(X, Y[:, 0])
    content = payload_of(model, X, Y[:, 0])
    assert np.array(content["systems"][0]["active"]).sum(axis=1).max() <= 2
    system = content["systems"][0]
    assert {word for row in system["terms"] for word in row} <= {"low", "medium", "high"}
    conditions = system["sentences"][0]["conditions"]
    assert len(conditions) <= 2
    assert all(word in {"low", "medium", "high"} and numbers == "" for _, word, numbers in conditions)
    json.dumps(content, allow_nan=False)


def test_sentences_name_categories_and_leave_out_sets_that_say_nothing() -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame({"a": random.normal(size=80), "colour": random.choice(["red", "green", "blue"], size=80)})
    model = FLSRegressor(kind="t1", n_rules=2, epochs=3, centers_within="free", random_state=0).fit(table, table["a"])
    model.system_.sigmas = torch.full_like(model.system_.sigmas, 100.0)
    for sentence in payload_of(model)["systems"][0]["sentences"]:
        assert sentence["conditions"] == []
        assert sentence["any"] == ["a", "colour"]
