"""``deepfls explain``, ``report`` and ``simplify``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyarrow import csv

from deepfls import FLSRegressor, load

FAST = ("--epochs", "3", "--n-rules", "4", "--random-state", "0")

Run = Callable[..., Any]
Refused = Callable[..., str]


@pytest.fixture
def model(run: Run) -> str:
    """A model of y from x and z."""
    run("train", "plant.csv", "--target", "y", "--feature", "x", "--feature", "z", *FAST, "--out", "m.fls")
    return "m.fls"


def test_explain_prints_the_rules(run: Run, model: str) -> None:
    result = run("explain", model, "--top", "2", "--digits", "3")
    assert result.stdout == load(model).rules_as_text(top=2, digits=3)
    assert run("explain", model, "--format", "markdown").stdout == load(model).rules_as_text(format="markdown")
    assert run("explain", model, "--exact").stdout == load(model).rules_as_text(digits=None)
    assert run("explain", model, "--format", "table").stdout.split()[:4] == ["rule", "firing", "IF", "THEN"]


def test_explain_measures_on_a_table(run: Run, model: str) -> None:
    result = run("explain", model, "plant.csv", "--drop")
    assert "RMSE" in result.stdout
    assert "Rules on 40 rows" in result.stdout
    content = json.loads(run("explain", model, "plant.csv", "--json").stdout)
    table = csv.read_csv("plant.csv")
    expected = load(model).explain_data(table.select(["x", "z"]), table.column("y").to_numpy())
    assert content["usage"] == expected.to_dict()
    assert [rule["rule"] for rule in content["rules"]] == [
        rule + 1 for rule in load(model).rules(table.select(["x", "z"])).order
    ]


def test_explain_tells_the_effect_of_dropped_sets_below_a_table(run: Run, model: str) -> None:
    shown = run("explain", model, "--drop", "--format", "table").stdout
    assert shown.endswith(f"\n{load(model).rules(drop=True).effect}\n")


def test_explain_explains_a_row(run: Run, model: str) -> None:
    result = run("explain", model, "plant.csv", "--row", "5")
    assert result.stdout.startswith("y is predicted to be ")
    assert result.stdout.endswith("True: 0.16\n")
    content = json.loads(run("explain", model, "plant.csv", "--row", "5", "--json").stdout)
    table = csv.read_csv("plant.csv").select(["x", "z"])
    assert content["outputs"][0]["y"] == pytest.approx(load(model).predict(table)[4], rel=1e-9)
    assert content["true"] == [0.16]


def test_explain_counts_rows_as_the_file_does(run: Run, model: str, folder: Path) -> None:
    (folder / "new.csv").write_text("x,z,y\n1,-10,\n2,-20,4\n")
    first, second = (json.loads(run("explain", model, "new.csv", "--row", row, "--json").stdout) for row in (1, 2))
    assert first["true"] is None
    assert second["true"] == [4.0]
    (folder / "second.csv").write_text("x,z\n2,-20\n")
    alone = json.loads(run("explain", model, "second.csv", "--row", 1, "--json").stdout)
    assert second["outputs"] == alone["outputs"]
    run("explain", model, "new.csv", "--out", "pushes.csv")
    assert set(csv.read_csv(folder / "pushes.csv")["row"].to_pylist()) == {1, 2}


def test_explain_works_for_classes_and_categories(run: Run) -> None:
    run(
        "train",
        "plant.csv",
        "--target",
        "label",
        "--feature",
        "x",
        "--feature",
        "color",
        *FAST,
        "--out",
        "c.fls",
    )
    result = run("explain", "c.fls", "plant.csv", "--row", "1")
    assert "score of down" in result.stdout
    assert "True: down" in result.stdout
    assert re.search(r"color is \w+ \(1\.0\) or \w+ \(0\.\d\)", run("explain", "c.fls").stdout)


def test_explain_takes_a_table_without_targets(run: Run, model: str, folder: Path) -> None:
    (folder / "new.csv").write_text("x,z\n1,2\n2,3\n")
    content = json.loads(run("explain", model, "new.csv", "--json").stdout)
    assert content["usage"]["measure"] == "change"


def test_explain_takes_a_model_trained_in_python(run: Run, folder: Path) -> None:
    frame = pd.read_csv("plant.csv")
    FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(frame[["x"]], frame["y"]).save("p.fls")
    assert json.loads(run("explain", "p.fls", "plant.csv", "--json").stdout)["usage"]["measure"] == "rmse"
    x = np.linspace(0, 1, 20).reshape(-1, 2)
    FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(x, x[:, 0]).save("q.fls")
    (folder / "two.csv").write_text("a,b\n0,1\n1,0\n")
    assert run("explain", "q.fls", "two.csv", "--row", "2").stdout.startswith("y is predicted to be ")


def test_explain_writes_the_pushes_of_all_rows(run: Run, refused: Refused, model: str) -> None:
    assert "Wrote 80 lines to" in run("explain", model, "plant.csv", "--out", "pushes.csv").output
    table = csv.read_csv("pushes.csv")
    assert table.column_names == ["row", "input", "value", "push", "strongest_rule", "familiarity"]
    assert table.column("row").to_pylist()[:3] == [1, 1, 2]
    explained = load(model).explain(csv.read_csv("plant.csv").select(["x", "z"]).slice(4, 1))
    np.testing.assert_allclose(table.column("push").to_numpy()[8:10], explained.pushes.y[:, 0], rtol=1e-9)
    assert refused("explain", model, "--out", "new.csv", code=2) == "--out must be given with DATA and without --row."


def test_explain_quiet_is_quiet(run: Run, model: str) -> None:
    assert run("explain", model, "plant.csv", "--quiet").output == ""


def test_explain_tells_what_is_wrong(refused: Refused, model: str) -> None:
    assert refused("explain", model, "--row", "1", code=2) == "--row must be given with DATA."
    assert refused("explain", model, "--target", "y", code=2) == "--target must be given with DATA."
    assert (
        refused("explain", model, "--format", "html", code=2)
        == "--format must be one of 'text', 'table', 'markdown', got 'html'."
    )
    message = "--row must be at most 40, the rows of 'plant.csv', got 41."
    assert refused("explain", model, "plant.csv", "--row", "41", code=2) == message
    assert refused("explain", "n.fls", code=1) == "There is no model file 'n.fls'. Did you mean 'm.fls'?"


def test_explain_treats_the_rules_of_all_systems_alike(run: Run) -> None:
    run("train", "plant.csv", "--target", "y", "--feature", "x", "--n-systems", "2", *FAST, "--out", "m.fls")
    found = json.loads(run("explain", "m.fls", "--top", "1", "--json").stdout)
    assert [len(part["rules"]) for part in found["systems"]] == [1, 1]
    table = run("explain", "m.fls", "--top", "1", "--format", "table").stdout
    assert table.index("System 1 of 2") < table.index("System 2 of 2")


# Report


def test_report_writes_a_page(run: Run, model: str, folder: Path) -> None:
    result = run("report", model, "plant.csv", "--out", "plant.html", "--title", "The plant")
    assert result.stdout.startswith("Wrote plant.html: 1")
    assert "<title>The plant</title>" in (folder / "plant.html").read_text(encoding="utf-8")
    content = json.loads(run("report", model, "--json").stdout)
    assert content["report"] == "m.html"
    assert content["bytes"] == (folder / "m.html").stat().st_size


def test_card_is_html_or_markdown(refused: Refused, model: str) -> None:
    message = "--out must end in .html or .md with --card, got 'card.txt'."
    assert refused("report", model, "--card", "--out", "card.txt", code=2) == message


def test_report_replaces_nothing_unasked(run: Run, refused: Refused, model: str, folder: Path) -> None:
    (folder / "m.html").write_text("mine")
    message = "'m.html' already exists: replace it with --force, or give another --out."
    assert refused("report", model, code=2) == message
    assert (folder / "m.html").read_text() == "mine"
    run("report", model, "--force")
    assert refused("report", model, "--target", "y", code=2) == "--target must be given with DATA."
    assert refused("report", model, "plant.csv", "--out", "plant.csv", "--force", code=2).startswith("--out must not be")


# Simplify


def test_simplify_saves_a_smaller_model(run: Run, model: str) -> None:
    result = run("simplify", model, "plant.csv", "--tolerance", "0.5", "--out", "small.fls")
    small = load("small.fls")
    assert result.stdout.splitlines()[0].startswith(f"4 rules became {small.n_rules}: RMSE ")
    assert result.stdout.endswith("Saved small.fls\n")
    content = json.loads(run("simplify", model, "plant.csv", "--out", "s2.fls", "--json").stdout)
    scores = json.loads(run("evaluate", "s2.fls", "plant.csv", "--json").stdout)["scores"]
    assert content["error_after"] == pytest.approx(scores["y"]["rmse"], rel=1e-9)


def test_simplify_needs_true_values(refused: Refused, model: str, folder: Path) -> None:
    (folder / "new.csv").write_text("x,z\n1,2\n2,3\n")
    message = "'new.csv' has no column 'y' to compare with."
    assert refused("simplify", model, "new.csv", "--out", "s.fls", code=1).startswith(message)
    assert not (folder / "s.fls").exists()


@pytest.mark.parametrize("option", [("--top", "2"), ("--exact",), ("--drop",), ("--format", "table")])
def test_explain_refuses_options_of_rules_for_rows(refused: Refused, model: str, option: tuple[str, ...]) -> None:
    for more in (("--row", "1"), ("--out", "pushes.csv")):
        message = f"{option[0]} must be given without {more[0]}, because it is about the rules."
        assert refused("explain", model, "plant.csv", *more, *option, code=2) == message


def test_explain_escapes_the_true_class(run: Run, folder: Path) -> None:
    table = (folder / "plant.csv").read_text().replace("up", "\x1b[31mup")
    (folder / "red.csv").write_text(table)
    run("train", "red.csv", "--target", "label", "--feature", "x", *FAST, "--out", "c.fls")
    assert run("explain", "c.fls", "red.csv", "--row", "30").stdout.endswith("True: \\x1b[31mup\n")


def test_report_refuses_an_ending_that_no_browser_opens(refused: Refused, model: str) -> None:
    message = "--out must end in .html or .htm without --card, got 'card.md'."
    assert refused("report", model, "--out", "card.md", code=2) == message


def test_simplify_refuses_a_tolerance_that_is_not_finite(refused: Refused, model: str) -> None:
    message = "--tolerance must be at least 0 and finite, got inf."
    assert refused("simplify", model, "plant.csv", "--out", "s.fls", "--tolerance", "inf", code=2) == message
    message = "--out must be a model file, such as s.fls, got 's.csv'."
    assert refused("simplify", model, "plant.csv", "--out", "s.csv", code=2) == message
