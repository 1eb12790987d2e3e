"""Settings: declared once, complete in signatures and docstrings, and refused where they make no sense."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

from deepfls import FLSClassifier, FLSRegressor
from deepfls.estimators.settings import DTYPES, SCALINGS, RegressorSettings, train_config
from deepfls.estimators.structure import KINDS, TNORMS, structure_of
from deepfls.functional.losses import LOSSES
from deepfls.functional.reduction import REDUCTIONS
from deepfls.training.partition import CENTERS
from deepfls.training.recipe import SCHEDULES
from deepfls.training.start import CONSEQUENTS
from estimator_cases import LABELS, X, Y, classifier, regressor

CLASSES = [FLSRegressor, FLSClassifier]


def documented(cls: type) -> dict[str, tuple[str, str]]:
    """Type and description of every entry in the section Parameters of a docstring."""
    section = inspect.getdoc(cls).split("Parameters\n----------\n")[1].split("\nAttributes\n")[0]  # type: ignore[union-attr]
    entries = re.findall(r"^(\w+) : (.+)\n((?:    .+\n)*)", section, flags=re.MULTILINE)
    return {name: (kind, " ".join(text.split())) for name, kind, text in entries}


@pytest.mark.parametrize("cls", CLASSES)
def test_every_setting_has_a_type_and_a_description_in_the_docstring(cls: type) -> None:
    entries = documented(cls)
    assert set(entries) == set(inspect.signature(cls).parameters)
    assert [name for name, (_, text) in entries.items() if not text.endswith(".")] == []


@pytest.mark.parametrize("cls", CLASSES)
def test_docstring_names_every_choice(cls: Any) -> None:
    choices = {
        "kind": KINDS,
        "uncertainty": ("h", "s", "hs"),
        "type_reduction": tuple(REDUCTIONS),
        "tnorm": TNORMS,
        "loss": cls._losses,
        "schedule": ("auto", *SCHEDULES),
        "centers": CENTERS,
        "consequents": CONSEQUENTS,
        "scaling": SCALINGS,
        "calibration": cls._calibrations,
        "dtype": tuple(DTYPES),
    }
    for name, expected in choices.items():
        braces = re.match(r"\{(.*?)\}", documented(cls)[name][0])
        assert braces, name
        assert set(re.findall(r'"([^"]+)"', braces[1])) == set(expected), name


def test_losses_of_both_estimators_are_all_there_are() -> None:
    assert {*FLSRegressor._losses, *FLSClassifier._losses} == {*LOSSES, "quantiles"}


@pytest.mark.parametrize("cls", CLASSES)
def test_constructor_has_keywords_with_types_and_defaults(cls: type) -> None:
    for parameter in inspect.signature(cls).parameters.values():
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert parameter.default is not parameter.empty
        assert not isinstance(parameter.annotation, str)  # a type, not its text


def test_settings_of_learned_ends_belong_to_the_regressor() -> None:
    parameters = [set(inspect.signature(cls).parameters) for cls in CLASSES]
    assert parameters[0] - parameters[1] == {"interval_weight", "normalized_scores"}
    assert parameters[1] - parameters[0] == {"class_weight"}
    with pytest.raises(TypeError, match="unexpected keyword argument 'interval_weight'"):
        FLSClassifier(interval_weight=1.0)  # type: ignore[call-arg]


@pytest.mark.parametrize("cls", CLASSES)
def test_constructor_stores_what_it_gets(cls: Any) -> None:
    options = {"momentum": 0.9}
    model = cls(n_rules=7, optimizer_options=options, epochs="nonsense")
    assert vars(model) == model.get_params()
    assert model.optimizer_options is options
    assert clone(model).get_params() == model.get_params()
    assert repr(model) == f"{cls.__name__}(epochs='nonsense', n_rules=7, optimizer_options={{'momentum': 0.9}})"


def test_structure_makes_the_system_of_the_settings() -> None:
    settings = RegressorSettings(kind="it2", n_rules=6, order=0, uncertainty="h", type_reduction="nt", tnorm="product")
    system: Any = structure_of(settings, n_features=3, n_outputs=2).new_system()
    sizes = (system.n_features, system.n_outputs, system.n_rules, system.order)
    assert sizes == (3, 2, 6, 0)
    assert (system.uncertainty, system.type_reduction, system.tnorm) == ("h", "nt", "product")


def test_automatic_settings_follow_from_the_number_of_rows() -> None:
    few, many = (train_config(RegressorSettings(), n_rows) for n_rows in (200, 1_000_000))
    assert few.batch_size < many.batch_size
    assert few.learning_rate > many.learning_rate
    assert few.weight_decay > many.weight_decay
    given = train_config(RegressorSettings(batch_size=5, epochs=6, learning_rate=0.7, weight_decay=0.8), 200)
    assert (given.batch_size, given.epochs, given.learning_rate, given.weight_decay) == (5, 6, 0.7, 0.8)


@pytest.mark.parametrize(
    ("options", "coverage"),
    [
        ({}, None),
        ({"coverage": 0.9}, 0.9),
        ({"coverage": 0.9, "calibration": None}, 0.9),
        ({"coverage": 0.9, "calibration": "split"}, None),
        ({"coverage": 0.9, "calibration": "split", "kind": "t1"}, None),
    ],
    ids=str,
)
def test_ends_are_trained_only_where_the_interval_comes_from_them(options: dict[str, Any], coverage: float | None) -> None:
    assert train_config(RegressorSettings(**options), 200).coverage == coverage


# Refused settings

BAD_SETTINGS = [
    ({"kind": "type-2"}, ValueError, "kind must be one of 't1', 'it2', 'gt2', got 'type-2'."),
    ({"kind": "T1"}, ValueError, "kind must be one of 't1', 'it2', 'gt2', got 'T1'. Did you mean 't1'?"),
    ({"n_rules": 0}, ValueError, "n_rules must be at least 1, got 0."),
    ({"order": 2}, ValueError, "order must be between 0 and 1, got 2."),
    ({"uncertainty": "sh"}, ValueError, "uncertainty must be one of 'h', 's', 'hs', got 'sh'. Did you mean 's'?"),
    (
        {"type_reduction": "kmm"},
        ValueError,
        "type_reduction must be one of 'km', 'nt', 'bmm', 'sm', got 'kmm'. Did you mean 'km'?",
    ),
    ({"tnorm": "prod"}, ValueError, "tnorm must be one of 'auto', 'product', 'htsk', got 'prod'. Did you mean 'product'?"),
    (
        {"loss": "cross-entropy"},
        ValueError,
        "loss must be one of 'l1', 'l2', 'huber', 'log-cosh', 'pinball', 'quantiles', got 'cross-entropy'.",
    ),
    ({"centers": "random"}, ValueError, "centers must be one of 'kmeans', 'kmeans-per-input', 'grid', got 'random'."),
    (
        {"scaling": "standart"},
        ValueError,
        "scaling must be one of 'standard', 'none', got 'standart'. Did you mean 'standard'?",
    ),
    (
        {"validation_fraction": 1.0},
        ValueError,
        "validation_fraction must be greater than 0 and less than 1, got 1.0.",
    ),
    ({"dtype": "float16"}, ValueError, "dtype must be one of 'float32', 'float64', got 'float16'. Did you mean 'float64'?"),
    ({"device": "meta"}, ValueError, "device must be 'auto' or a torch device of this machine, got 'meta'."),
    ({"device": "gpu"}, ValueError, "device must be 'auto' or a torch device of this machine, got 'gpu'."),
    ({"patience": 0}, ValueError, "patience must be at least 1, got 0."),
    ({"epochs": "many"}, ValueError, "epochs must be a number or 'auto', got 'many'."),
    ({"learning_rate": None}, TypeError, "learning_rate must be a number, got None."),
    ({"batch_size": "all"}, ValueError, "batch_size must be a number or 'auto', got 'all'."),
    ({"n_terms": 3.0}, ValueError, "n_terms must be a number or have one for each of 3 columns, got 3.0."),
    (
        {"n_terms": 3, "words": {"x0": 3}},
        ValueError,
        "words must have 3 different words for 'x0', which has 3 terms, got 3.",
    ),
    ({"frozen_rules": 1.5}, TypeError, "frozen_rules must be an integer, got 1.5."),
    (
        {"loss": torch.nn.MSELoss},
        TypeError,
        "loss must be a name or a function f(y, target), got the class MSELoss: MSELoss() may be one.",
    ),
    ({"learning_rate": "aut"}, ValueError, "learning_rate must be a number or 'auto', got 'aut'. Did you mean 'auto'?"),
]


@pytest.mark.parametrize(
    ("options", "error", "message"), BAD_SETTINGS, ids=[str(options) for options, _, _ in BAD_SETTINGS]
)
def test_bad_setting_is_refused_at_fit_and_an_earlier_fit_stays(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    model = regressor().fit(X, Y)
    before = model.predict(X)
    with pytest.raises(error) as caught:
        model.set_params(**options).fit(X, Y)
    assert str(caught.value) == message
    np.testing.assert_array_equal(model.predict(X), before)


def test_places_may_be_numbers_and_arrays_of_numpy() -> None:
    rows = np.round(X)
    model = regressor(frozen_rules=np.int64(0), coverage=0.5, group_calibration=np.array([0])).fit(rows, Y)
    same = regressor(frozen_rules=[0], coverage=0.5, group_calibration=[0]).fit(rows, Y)
    np.testing.assert_array_equal(model.predict_interval(rows), same.predict_interval(rows))


def test_classifier_refuses_a_loss_of_numbers() -> None:
    with pytest.raises(ValueError, match=r"^loss must be one of 'cross-entropy', got 'l2'\.$"):
        classifier(loss="l2").fit(X, LABELS)


@pytest.mark.parametrize("cls", CLASSES)
def test_unknown_argument_names_the_estimator_and_the_nearest_argument(cls: type) -> None:
    with pytest.raises(TypeError) as caught:
        cls(n_rule=5)
    assert str(caught.value) == f"{cls.__name__} got an unexpected keyword argument 'n_rule'. Did you mean 'n_rules'?"
    with pytest.raises(TypeError, match=rf"^{cls.__name__} takes arguments by name alone, such as n_rules=10, got 5\.$"):
        cls(5)
