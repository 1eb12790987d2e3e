"""A plain is the same system in the units of the data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from deepfls import FLSClassifier, FLSRegressor
from deepfls.inspection.plain import PlainSystem

RNG = np.random.default_rng(0)
# Far from zero and on scales of their own, so that a scaling folded wrongly shows.
X = RNG.normal([1e3, -4.0, 0.02], [30.0, 2.0, 1e-3], (150, 3))
Y = np.stack([500 + X[:, 0] * 0.3 + np.sin(X[:, 1]), 1e-3 * X[:, 2]], axis=1)
SYSTEMS = [
    {"kind": "t1"},
    {"kind": "t1", "order": 0, "tnorm": "product"},
    *({"kind": "it2", "type_reduction": name} for name in ("km", "nt", "bmm", "sm")),
    {"kind": "it2", "uncertainty": "h", "tnorm": "product"},
    {"kind": "it2", "uncertainty": "s", "scaling": "none"},
]


@pytest.mark.parametrize("settings", SYSTEMS, ids=str)
def test_plain_system_predicts_what_the_estimator_predicts(settings: dict[str, object]) -> None:
    model = FLSRegressor(n_rules=4, epochs=3, random_state=0, **settings).fit(X, Y)  # type: ignore[arg-type]
    plain = PlainSystem.of(model)
    new = RNG.normal(X.mean(axis=0), 2 * X.std(axis=0), (100, 3))
    output = plain.output(new)
    np.testing.assert_allclose(output.y, model.predict(new), rtol=1e-9)
    assert (output.y_left <= output.y).all()
    assert (output.y <= output.y_right).all()


def test_plain_system_of_a_classifier_gives_its_logits() -> None:
    labels = np.where(X[:, 1] > -4, "warm", "cold")
    model = FLSClassifier(n_rules=3, epochs=3, random_state=0).fit(X, labels)
    plain = PlainSystem.of(model)
    assert plain.output_names == ("cold", "warm")
    logits = plain.output(X).y
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), model.predict_proba(X), rtol=1e-9)


def test_plain_system_carries_names_ranges_and_shares(tmp_path: object) -> None:
    frame = pd.DataFrame(X, columns=["power", "heat", "flow"])
    model = FLSRegressor(n_rules=4, epochs=2, random_state=0).fit(frame, pd.Series(Y[:, 0], name="load"))
    path = f"{tmp_path}/model.fls"
    model.save(path)
    from deepfls import load

    for plain in (PlainSystem.of(model), PlainSystem.of(load(path))):
        assert plain.feature_names == ("power", "heat", "flow")
        assert plain.output_names == ("load",)
        assert plain.input_range is not None
        np.testing.assert_array_equal(plain.input_range, [X.min(axis=0), X.max(axis=0)])
        assert plain.rule_shares is not None
        assert plain.rule_shares.sum() == pytest.approx(1.0)
        assert (plain.rule_shares > 0).all()
