"""The text of a rule names the sets that were not left out, and states how to compute with them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.words import (
    clauses,
    consequent_texts,
    how_to_read,
    lower_firing_factor,
    short_clauses,
    short_consequent_texts,
    system_line,
)
from inspection_cases import SYSTEMS, classifier, regressor


def without_set(s: PlainSystem, rule: int, feature: int) -> PlainSystem:
    """The system with one set infinitely wide."""
    lower, upper = s.lower_sigmas.copy(), s.upper_sigmas.copy()
    lower[rule, feature] = upper[rule, feature] = np.inf
    return replace(s, lower_sigmas=lower, upper_sigmas=upper)


def test_clauses_skip_sets_left_out() -> None:
    s = without_set(PlainSystem.of(regressor("km")), rule=1, feature=2)
    assert [clause.feature for clause in clauses(s, 0, 4)] == [0, 1, 2, 3]
    assert [clause.feature for clause in clauses(s, 1, 4)] == [0, 1, 3]
    assert [name for name, *_ in short_clauses(s, 1, 4)] == ["x0", "x1", "x3"]


@pytest.mark.parametrize("name", ["t1", "km", "heights"])
def test_heights_of_sets_left_out_stay_in_the_lower_firing(name: str) -> None:
    s = PlainSystem.of(regressor(name))
    assert lower_firing_factor(s, 1) == 1.0
    expected = math.exp(s.log_heights[1, 2] * (1.0 if s.tnorm == "product" else 1.0 / 4.0))
    assert lower_firing_factor(without_set(s, rule=1, feature=2), 1) == pytest.approx(expected, rel=1e-12)


def test_short_consequents_keep_the_terms_of_the_largest_effect() -> None:
    s = PlainSystem.of(regressor("km", 1))
    wide = replace(
        s,
        slopes=np.arange(12.0).reshape(1, 1, 12),
        centers=np.zeros((1, 12)),
        input_range=None,
        feature_names=tuple(f"v{m}" for m in range(12)),
    )
    text = short_consequent_texts(wide, 0, 4)[0]
    assert [word for word in text.split(" ") if word.startswith("v")] == [f"v{m}" for m in range(4, 12)]
    assert text.endswith(" + 4 more terms")
    ranges = np.stack([np.zeros(12), np.where(np.arange(12) == 1, 1e6, 1.0)])
    assert " v1 " in short_consequent_texts(replace(wide, input_range=ranges), 0, 4)[0]


def test_constant_consequents_have_no_terms() -> None:
    s = PlainSystem.of(regressor("t1-constant", 1))
    (text,) = consequent_texts(s, 0, None, str)
    assert text == f"{s.output_names[0]} = {float(s.intercepts[0, 0])!r}"


def test_scores_of_classes_are_named() -> None:
    texts = consequent_texts(PlainSystem.of(classifier()), 0, 4, str)
    assert [text.split(" = ")[0] for text in texts] == ["score of cold", "score of mild", "score of warm"]


def test_system_line_counts_rules_inputs_and_outputs() -> None:
    assert system_line(PlainSystem.of(regressor("one-rule", 1))) == "Interval Type-2 system: 1 rule, 4 inputs, 1 output."
    assert system_line(PlainSystem.of(classifier("t1"))) == "Type-1 system: 4 rules, 4 inputs, 3 classes."


@pytest.mark.parametrize("name", SYSTEMS)
def test_reading_notes_name_widths_heights_and_power(name: str) -> None:
    s = PlainSystem.of(regressor(name))
    grades, firing = how_to_read(s, 4)
    assert ("height h" in grades) == ("h" in s.uncertainty)
    assert ("±s to t" in grades) == ("s" in s.uncertainty)
    assert ("power 1/4" in firing) == (s.tnorm == "htsk")
