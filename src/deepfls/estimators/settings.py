"""The settings of the estimators. A field of a dataclass below is the one declaration of a setting.

The dataclasses make the constructors: an estimator inherits the fields and the ``__init__`` of its settings, which
scikit-learn, ``help`` and the command line read. The fit pipeline gets a copy of the settings, never the estimator.
A new setting is a field in its section, an entry in ``SETTINGS_TEXT``, and its use in the step that the section names.
"""

# Without `from __future__ import annotations`: signatures then show types instead of text.

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch

from deepfls._checks.arguments import check_count, check_number, check_option, did_you_mean
from deepfls.functional.losses import LOSSES
from deepfls.training import recipe
from deepfls.training.recipe import TrainConfig

SCALINGS = ("standard", "none")
MISSING = ("auto", "error")
DTYPES = {"float32": torch.float32, "float64": torch.float64}

_Made = TypeVar("_Made")


def _named(cls: type[_Made]) -> type[_Made]:
    """A dataclass of settings whose errors of mistyped arguments name the estimator, and the nearest argument."""
    made: Any = cls.__init__

    @functools.wraps(made)
    def init(self: Any, *given: Any, **settings: Any) -> None:
        estimator = type(self).__name__
        if given:
            raise TypeError(f"{estimator} takes arguments by name alone, such as n_rules=10, got {given[0]!r}.")
        known = [field.name for field in dataclasses.fields(self)]
        for name in settings:
            if name not in known:
                hint = did_you_mean(name, known)
                raise TypeError(f"{estimator} got an unexpected keyword argument {name!r}.{hint}")
        made(self, **settings)

    cls.__init__ = init  # type: ignore[method-assign]  # the signature is that of the dataclass
    return cls


@dataclass(kw_only=True, eq=False, repr=False)
class Settings:
    """The settings of both estimators; :data:`SETTINGS_TEXT` explains each."""

    # The system: `structure.structure_for`
    kind: str = "it2"
    n_rules: int | str = 10
    n_systems: int = 1
    order: int = 1
    uncertainty: str = "hs"
    type_reduction: str = "km"
    n_planes: int = 3
    shared_spread: bool = False
    tnorm: str = "auto"
    centers_within: str = "data"
    n_terms: int | Sequence[int] | None = None
    max_conditions: int | None = None
    words: Mapping[str, Sequence[str]] | None = None
    # Training: `train_config`
    loss: str | Callable[..., torch.Tensor] = "l2"
    loss_options: Mapping[str, Any] | None = None
    optimizer: str | type[torch.optim.Optimizer] = "adam"
    optimizer_options: Mapping[str, Any] | None = None
    learning_rate: float | str = "auto"
    schedule: str = "auto"
    weight_decay: float | str = "auto"
    gradient_clip: float | None = None
    epochs: int | str = "auto"
    batch_size: int | str = "auto"
    # The starting point: `system_training.first_system`
    centers: str = "kmeans"
    consequents: str = "ridge"
    width: float | str = "auto"
    ridge: float = 1e-4
    # The data: `ColumnSettings`, `DataPlan`
    categorical: str | int | Sequence[str | int] | None = None
    min_category_rows: int = 5
    missing: str = "auto"
    missing_values: Sequence[str] | None = None
    decimal: str = "auto"
    outliers: str = "clip"
    scaling: str = "standard"
    extrapolation: str = "linear"
    # Prediction intervals and sets of classes: `intervals`
    coverage: float | None = None
    calibration: str | None = "split"
    calibration_fraction: float | str = "auto"
    refit: bool | str = "auto"
    group_calibration: str | int | Sequence[str | int] | None = None
    # The run: `fit`
    validation_fraction: float = 0.1
    patience: int | None = None
    frozen_rules: Sequence[int] | None = None
    frozen_terms: Mapping[str, Sequence[int | str]] | Sequence[str | int] | bool | None = None
    warm_start: bool = False
    random_state: int | np.random.RandomState | None = None
    device: str = "auto"
    dtype: str = "float32"
    verbose: int = 0

    _classifies: ClassVar[bool]
    _losses: ClassVar[tuple[str, ...]]
    _calibrations: ClassVar[tuple[str, ...]]


@_named
@dataclass(kw_only=True, eq=False, repr=False)
class RegressorSettings(Settings):
    """The settings of FLSRegressor."""

    calibration: str | None = "auto"
    interval_weight: float = 1.0
    normalized_scores: bool = True

    _classifies = False
    _losses = (*(name for name in LOSSES if name != "cross-entropy"), "quantiles")
    _calibrations = ("auto", "cqr", "split", "alpha")


@_named
@dataclass(kw_only=True, eq=False, repr=False)
class ClassifierSettings(Settings):
    """The settings of FLSClassifier."""

    loss: str | Callable[..., torch.Tensor] = "cross-entropy"
    extrapolation: str = "clip"
    class_weight: str | Mapping[Any, float] | None = None

    _classifies = True
    _losses = ("cross-entropy",)
    _calibrations = ("split", "aps")


SETTINGS_TEXT = """
    Parameters
    ----------
    kind : {"it2", "t1", "gt2"}
        Interval Type-2, Type-1, or General Type-2 sets: nested interval systems around a Type-1 system.
    n_rules : int or "auto"
        Number of rules. "auto": the fewest of 3, 6, 12, 25, 50 and 100 that are nearly as good as the best of them on
        training rows held out in turn.
    n_systems : int
        Systems of the model, trained in parallel threads from different starts; predictions are their means, and so are the
        ends of their sets. More systems are more accurate, and take longer to read.
    order : {1, 0}
        Linear or constant consequents.
    uncertainty : {"hs", "h", "s"}
        What is uncertain in an IT2 set: height and width, height, or width. Ignored for "t1" and "gt2".
    type_reduction : {"km", "nt", "bmm", "sm"}
        How the crisp output of an IT2 system is formed. Ignored for "t1" and "gt2".
    n_planes : int
        Planes whose mean, weighted by their levels, is the crisp output of "gt2", at least 2. Ignored for the others.
    shared_spread : bool
        Whether a "gt2" system has one pair of spreads, as published, or one for every rule and input.
    tnorm : {"auto", "htsk", "product"}
        Geometric mean of the grades of a rule, or their product (the paper). "auto" is "htsk".
    centers_within : {"data", "free"}
        "data": the center of every set stays within the range of its input in the training data, and its width between a
        twentieth of the spacing of the data and four ranges. "free": no limits.
    n_terms : int or list of int, optional
        Sets of every input, or of the inputs of each column of X, that all rules share: a rule has one of them, or none.
        None: every rule has sets of its own.
    max_conditions : int, optional
        Largest number of conditions of a rule: those that matter least are left out while the system trains. None: a
        condition on every input, or, with ``n_terms``, as many as help.
    words : dict, optional
        Names of the terms of an input, from low to high, by the name of the input: ``{"AT": ["cold", "mild", "hot"]}``.
        None: low, medium, high and so on. They are used in text, plots and pages, with ``n_terms``.
<loss>
    loss_options : dict, optional
        Options of the loss: ``quantile`` of "pinball", ``delta`` of "huber". None: its defaults.
    optimizer : str or torch.optim class
        Any of torch's, by name in any case or as a class.
    optimizer_options : dict, optional
        Options of the optimiser, such as ``momentum``. None: its defaults.
    learning_rate : float or "auto"
        The peak where the schedule moves it. "auto": 0.05 times (500 / rows) to the power of 1/5, from 0.01 to 0.05,
        and for more than 64 inputs times 64 / inputs; or, with ``epochs="auto"``, three times or a third of that, if it is
        better on training rows held out in turn.
    schedule : {"auto", "averaged", "onecycle", "cosine", "constant"}
        How the learning rate moves over the run. "averaged": it does not, and the parameters after the epochs are averaged,
        the last ones most; "onecycle": a short rise and a long fall; "cosine": a fall alone; "constant": not at all.
        "auto": "averaged" for arrays, "onecycle" for a source.
    weight_decay : float or "auto"
        Decoupled decay of the slopes of the consequents towards their mean over the rules, whatever the optimiser. "auto":
        350 / rows, at most 1; with ``epochs="auto"`` a hundred times that, less beyond 1,000 rows, and less or none where
        there is little noise. A ``weight_decay`` among the ``optimizer_options`` is torch's, of all parameters towards 0,
        and comes on top.
    gradient_clip : float, optional
        Largest norm of a gradient. None: no limit.
    epochs : int or "auto"
        Passes over the rows. "auto": as many as give about 600 steps times the fourth root of the number of rows, but 5
        to 400; or fewer, or twice as many, if that is better on training rows held out in turn. Then a share of a linear
        model may be mixed into the consequents as well: where rows are noisy a system becomes a line, not worse than one.
        ``chosen_`` has what was chosen. A number, ``patience``, a warm start, a source and fewer than 12 rows go without
        all this.
    batch_size : int or "auto"
        Rows of a step. "auto": about thirteen batches to the epoch, a power of two from 32 to 4,096.
    centers : {"kmeans", "kmeans-per-input", "grid"}
        Where the sets start: joint k-means, k-means of each input (the paper), or evenly over the range.
    consequents : {"ridge", "random"}
        How the consequents start: ridge regression on the normalised firing, or small random values (the paper).
    width : float or "auto"
        Starting widths of the sets, in standard deviations of their input. "auto": (500 / rows) to the power of 1/4, from
        0.3 to 1.
    ridge : float
        Penalty of the ridge start, per row.
    categorical : str, int or list of them, optional
        Columns of numbers, by name or place, that are categories. Text and booleans are categories anyway.
    min_category_rows : int
        Rows that a category must have to be one of its own; rarer ones count together as "other". A column of more than
        ten categories, none of which has twice so many rows, is left out.
    missing : {"auto", "error"}
        Whether missing values in X are accepted, where an unknown input drops out of the rules, or an error.
    missing_values : list of str, optional
        Texts and numbers that mean a missing value. None: empty, n/a, NA, nan, null, ?, - and the like.
    decimal : {"auto", ".", ","}
        Decimal mark of numbers that are written as text, where the texts leave it open. "auto": by the other columns.
    outliers : {"clip", "keep"}
        Whether single values far beyond all others, in X or y, are clipped, with a warning, or used as they are.
    scaling : {"standard", "none"}
        Whether inputs and targets are scaled to mean 0 and standard deviation 1 inside. It travels with the model.
    extrapolation : {"linear", "clip"}
        Beyond the range of an input in the training data: rules extrapolate, or the value counts as the nearest one
        within the range. For classes the default is "clip": a row unlike all others gives no probability near 1 by its
        distance alone.
<coverage>
    calibration_fraction : float or "auto"
        Share of the rows held out for calibration. "auto": a fifth, less from 5,000 rows on, and at least what ``coverage``
        needs.
    refit : bool or "auto"
        Whether the rows held out for calibration are trained on after all: a model without them gives the intervals, and
        another one, trained on all rows, the predictions and the rules. "auto": up to 5,000 rows, where a fifth of the rows
        improves the model and a second training takes little time.
    group_calibration : str, int or list of them, optional
        Columns of X, by name or place, whose values make groups: each is calibrated on rows of its own, and keeps the
        coverage by itself. None: all rows are one group.
    validation_fraction : float
        Share of the rows held out to watch for early stopping; used only with ``patience``.
    patience : int, optional
        Epochs without a better validation loss before training stops and the best parameters are restored. None: all
        epochs, and the last parameters.
    frozen_rules : list of int, optional
        Rules, from 0, that stay as they are, sets and consequents, while the others learn. None: none.
    frozen_terms : list, dict or True, optional
        Sets that stay as they are while the rest learns: those of the inputs of a list, by name or place; of a dict of
        inputs, the terms with these numbers, from 0, or words; True: all. None: none.
    warm_start : bool
        Whether another ``fit`` continues from the fitted system.
    random_state : int, RandomState or None
        Seed of everything random. An integer makes the run repeatable; None gives another run every time.
    device : str
        Where training runs, such as "cpu" or "cuda". "auto": a CUDA device where there is one.
    dtype : {"float32", "float64"}
        Precision of the training. Predictions are always computed in float64.
    verbose : int
        1 shows a progress bar on standard error.

    Attributes
    ----------
    system_ : T1FLS, IT2FLS or GT2FLS
        The trained system, a torch module in scaled units, in float64.
    systems_ : list of T1FLS or IT2FLS
        All ``n_systems`` systems; ``system_`` is the first.
    history_ : list of dict
        Of the first system: one row per epoch: epoch, loss, learning_rate, seconds, and validation_loss with ``patience``.
    stopped_by_ : str
        "epochs", "patience", "interrupt" or "divergence".
    n_epochs_ : int
        Epochs trained, all warm starts together.
    columns_ : Columns
        What each column of X is, and how it becomes inputs of the system.
    n_features_in_ : int
        Number of columns of X; the system may have more inputs, or fewer.
    feature_names_in_ : ndarray of str
        Only where X had column names that are strings.
    input_range_ : ndarray, shape (2, features)
        Smallest and largest value of every input of the system in the training data.
    rule_shares_ : ndarray, shape (rules,)
        Share of the firing that every rule had, on average over the training data; they add up to 1.
    feature_importances_ : ndarray, shape (features,)
        Mean absolute push of every input on the predictions of training rows, as shares that add up to 1; on probabilities
        for a classifier.
    chosen_ : dict
        What ``epochs="auto"`` and ``n_rules="auto"`` chose from the training rows: n_rules, epochs, learning_rate and
        weight_decay, width (times the usual starting width), tree (whether the training started at the leaves of a tree of
        lines, from 4,000 rows on and up to 10 inputs), corrected (whether most of several systems are
        corrections of the first ones), system_share and line_share (the weights of the trained system and of a linear model
        in every output), plane_share (the share of their trained widths that planes keep with corrections), loss and
        line_loss (on the rows held out; None without), n_held_out. Only where something was chosen.
    calibration_ : Calibration or None
        Scores of the rows held out for calibration; None without ``coverage``.
    interval_model_ : FLSRegressor, FLSClassifier or None
        With ``refit`` the model that was trained without the rows held out, from which calibrated intervals come.
    familiar_firing_ : ndarray, shape (systems,)
        How strongly the best-fitting rule of each system fires for the median training row.
    initial_sets_ : ndarray, shape (4, rules, features)
        Centers, lower widths, upper widths and heights of the sets that training began with, in the units of the data.
    x_scaling_, y_scaling_ : Scaling
        The affine maps between the units of the data and those of the system.
"""
_REGRESSOR_LOSS = """    loss : {"l2", "l1", "huber", "log-cosh", "pinball", "quantiles"} or callable
        What training minimises: a name, or ``f(y, target)`` that gives (rows, ...) or a scalar. "quantiles" trains the
        planes of "gt2" as quantiles of all levels at once, for :meth:`predict_quantiles`."""
_CLASSIFIER_LOSS = """    loss : {"cross-entropy"} or callable
        What training minimises: a name, or ``f(logits, classes)`` that gives (rows, ...) or a scalar.
    class_weight : "balanced", dict or None
        Weights of the classes: by their names, or so that all count alike. They multiply ``sample_weight``."""
_REGRESSOR_COVERAGE = """    coverage : float, optional
        Share of the targets that prediction intervals are to hold, within (0, 1). An IT2 system is then trained for its
        type-reduced set to be that interval, and :meth:`predict_interval` gives calibrated ones of this and any other
        coverage. None: no intervals, but 0.9 with ``calibration="alpha"``.
    calibration : {"auto", "cqr", "split", "alpha", None}
        "cqr": the learned ends are calibrated on held-out rows (conformalised quantile regression; not "t1"). "split": ends
        around the crisp output, which alone is trained, calibrated likewise. "alpha": the level of a plane is ("gt2" only).
        None: the learned set as it is (not "t1"). "auto": "split" for "t1", "alpha" for ``loss="quantiles"``, else "cqr".
    interval_weight : float
        Weight of the pinball losses of the ends in training, beside the loss, in scaled units.
    normalized_scores : bool
        Whether the correction by the calibration is in proportion to a local scale (the learned widths, or for "split" a
        fuzzy model of the residuals with the same sets) instead of the same for all rows."""
_CLASSIFIER_COVERAGE = """    coverage : float, optional
        Share of the rows whose class the sets of :meth:`predict_set` are to hold, within (0, 1). None: no sets.
    calibration : {"split", "aps"}
        Scores of the classes in the calibration on held-out rows: "split" gives the smallest sets on average, "aps" larger
        ones where classes are close and smaller ones where not."""
REGRESSOR_TEXT = SETTINGS_TEXT.replace("<loss>", _REGRESSOR_LOSS).replace("<coverage>", _REGRESSOR_COVERAGE)
CLASSIFIER_TEXT = SETTINGS_TEXT.replace("<loss>", _CLASSIFIER_LOSS).replace("<coverage>", _CLASSIFIER_COVERAGE)


def check_settings(settings: Settings) -> None:
    """Refuse the settings that no later step checks."""
    if isinstance(settings.loss, type):
        name = settings.loss.__name__
        raise TypeError(f"loss must be a name or a function f(y, target), got the class {name}: {name}() may be one.")
    if not callable(settings.loss):
        check_option("loss", settings.loss, settings._losses)
    if settings.loss == "quantiles" and settings.kind != "gt2":
        raise ValueError(
            f"loss='quantiles' must come with kind='gt2', whose planes are quantiles, got kind={settings.kind!r}."
        )
    check_option("scaling", settings.scaling, SCALINGS)
    check_option("extrapolation", settings.extrapolation, ("linear", "clip"))
    check_count("n_systems", settings.n_systems)
    check_option("outliers", settings.outliers, ("clip", "keep"))
    check_number("validation_fraction", settings.validation_fraction, above=0.0, below=1.0)
    check_option("dtype", settings.dtype, tuple(DTYPES))


def check_number_or_auto(name: str, value: Any) -> None:
    """Refuse text other than "auto" for a setting that is a number or "auto"; numbers are checked where they are used."""
    if isinstance(value, str) and value != "auto":
        raise ValueError(f"{name} must be a number or 'auto', got {value!r}.{did_you_mean(value, ('auto',))}")


def train_config(settings: Settings, n_rows: int, n_features: int = 1, *, streamed: bool = False) -> TrainConfig:
    """The settings of the training loop; "auto" ones follow from the size of the table, as docs/recipe.md explains."""
    for name in ("n_rules", "batch_size", "epochs", "learning_rate", "weight_decay", "width"):
        check_number_or_auto(name, getattr(settings, name))
    names = {field.name for field in dataclasses.fields(TrainConfig)} & set(settings_by_name(settings))
    chosen: dict[str, Any] = {name: getattr(settings, name) for name in names - {"coverage", "interval_weight"}}
    chosen |= {name: chosen[name] or {} for name in ("loss_options", "optimizer_options")}
    if chosen["learning_rate"] == "auto":
        chosen["learning_rate"] = recipe.learning_rate(n_rows, n_features)
    for name in ("batch_size", "weight_decay"):
        if chosen[name] == "auto":
            chosen[name] = getattr(recipe, name)(n_rows)
    if chosen["schedule"] == "auto":
        chosen["schedule"] = "onecycle" if streamed else "averaged"
    if chosen["epochs"] == "auto":
        chosen["epochs"] = recipe.epochs(n_rows, check_count("batch_size", chosen["batch_size"]))
    if isinstance(settings, RegressorSettings) and settings.kind != "t1" and settings.calibration != "split":
        chosen |= {"coverage": settings.coverage, "interval_weight": settings.interval_weight}
    return TrainConfig(**{name: value.item() if isinstance(value, np.generic) else value for name, value in chosen.items()})


def settings_by_name(settings: Settings) -> dict[str, Any]:
    """Every setting by its name."""
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}


def is_plain(value: Any) -> bool:
    """Whether JSON can hold a setting; it cannot hold a callable or a random generator."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and is_plain(v) for key, v in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(is_plain, value))
    return value is None or isinstance(value, (str, bool, int, float, np.bool_, np.integer, np.floating))


def plain_value(value: Any) -> Any:
    """The same value in types that JSON has."""
    if isinstance(value, Mapping):
        return {key: plain_value(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value
