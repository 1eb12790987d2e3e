"""The model card: rules, measures with their rows, calibration, as HTML and Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deepfls import FLSClassifier, FLSRegressor
from inspection_cases import HOSTILE, LABELS, X, Y, classifier, hostile_regressor


def test_card_holds_what_a_reader_asks_for(tmp_path: Path) -> None:
    model = FLSRegressor(n_rules=3, n_terms=2, coverage=0.8, epochs=3, random_state=0).fit(X, Y[:, 0])
    text = model.to_card(tmp_path / "card.md", X, Y[:, 0], title="Plant").read_text(encoding="utf-8")
    assert text.startswith("# Plant\n")
    for part in (
        "## Measures",
        "On 150 rows",
        "covered",
        "Intervals of coverage 80 %",
        "## Vocabulary",
        "## Rules",
        "x1 is",
    ):
        assert part in text
    page = model.to_card(tmp_path / "card.html", X, Y[:, 0]).read_text(encoding="utf-8")
    assert "data:image/png;base64," in page
    assert "<script" not in page
    assert len(page) < 600_000


def test_card_without_rows_says_so(tmp_path: Path) -> None:
    text = classifier().to_card(tmp_path / "card.md").read_text(encoding="utf-8")
    assert "no rows with true values" in text
    assert "no calibrated sets of classes" in text
    measured = classifier().to_card(tmp_path / "card.md", X, LABELS).read_text(encoding="utf-8")
    assert "accuracy" in measured


def test_names_cannot_become_markup(tmp_path: Path) -> None:
    page = hostile_regressor().to_card(tmp_path / "card.html").read_text(encoding="utf-8")
    assert HOSTILE[0] not in page
    assert "<img src=x" not in page


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the ending of path must be one of"):
        classifier().to_card(tmp_path / "card.pdf", np.zeros((1, 4)))


def test_card_of_many_inputs_and_classes_reads_well(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, 10))
    model = FLSClassifier(n_rules=2, epochs=1, random_state=0).fit(x, np.array(["a", "b", "c"])[np.arange(40) % 3])
    text = model.to_card(tmp_path / "card.md").read_text(encoding="utf-8")
    assert text.startswith("# a, b and c\n")
    assert "more conditions, then" in text
    assert "and and" not in text


def test_vocabulary_leaves_out_the_inputs_of_categories(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"size": X[:, 0], "color": pd.Categorical(np.array(["red", "blue", "green"])[np.arange(len(X)) % 3])}
    )
    model = FLSRegressor(n_rules=3, n_terms=2, epochs=2, random_state=0).fit(table, Y[:, 0])
    text = model.to_card(tmp_path / "card.md").read_text(encoding="utf-8")
    assert "| size | " in text.split("## Vocabulary")[1]
    assert "| color=" not in text
    assert model.plot_memberships().names == ["size"]


def test_card_of_many_inputs_and_rules_is_one_page(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [f"concentration of substance {place}" for place in range(20)]
    table = pd.DataFrame(rng.normal(size=(120, 20)), columns=names)
    model = FLSClassifier(n_rules=12, epochs=1, random_state=0).fit(table, np.array(["a", "b", "c"])[np.arange(120) % 3])
    context = browser.new_context()
    page = context.new_page()
    page.goto(model.to_card(tmp_path / "card.html", table, model.predict(table)).as_uri())
    printed = page.pdf(prefer_css_page_size=True)
    context.close()
    assert printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") == 1
