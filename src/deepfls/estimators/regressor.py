"""FLSRegressor and FLSClassifier: fuzzy systems as scikit-learn estimators."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from deepfls._checks import (
    check_absent,
    check_alone,
    check_finite_table,
    check_number_targets,
    check_same_length,
    check_targets_given,
    check_unchanged,
)
from deepfls._files import ModelFileError, read_model
from deepfls.estimators import model_file
from deepfls.estimators.base import Array, FLSEstimator, is_source
from deepfls.estimators.interval_methods import INTERVAL_SETTINGS, SET_SETTINGS, PredictsIntervals, PredictsSets
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training.checkpoint import Checkpoints

CheckpointsOrPath = Checkpoints | str | os.PathLike[str]

_SETTINGS = """
    Parameters
    ----------
    kind : {"it2", "t1"}
        Interval Type-2 or Type-1 sets.
    n_rules : int
    order : {1, 0}
        Linear or constant consequents.
    uncertainty : {"hs", "h", "s"}
        What is uncertain in an IT2 set: height and width, height, or width. Ignored for "t1".
    type_reduction : {"km", "nt", "bmm", "sm"}
        How the crisp output of an IT2 system is formed. Ignored for "t1".
    tnorm : {"auto", "htsk", "product"}
        Geometric mean of the grades of a rule, or their product (the paper). "auto" is "htsk".
    loss : {loss}
    loss_options : dict, optional
        Options of the loss: ``quantile`` of "pinball", ``delta`` of "huber".
    optimizer : str or torch.optim class
        Any of torch's, by name in any case or as a class.
    optimizer_options : dict, optional
    learning_rate : float or "auto"
        The peak where the schedule moves it. "auto": 0.05 times (500 / rows) to the power of 1/5, from 0.01 to 0.05.
    schedule : {"onecycle", "cosine", "constant"}
    weight_decay : float or "auto"
        Decoupled decay of the slopes of the consequents towards their mean over the rules, whatever the optimiser. "auto":
        350 / rows, at most 1. A ``weight_decay`` among the ``optimizer_options`` is torch's, of all parameters towards 0,
        and comes on top.
    gradient_clip : float, optional
        Largest norm of a gradient.
    epochs : int or "auto"
        "auto": as many as give about 600 steps times the fourth root of the number of rows, but 5 to 400.
    batch_size : int or "auto"
        "auto": about thirteen batches to the epoch, a power of two from 32 to 4,096.
    centers : {"kmeans", "kmeans-per-input", "grid"}
        Where the sets start: joint k-means, k-means of each input (the paper), or evenly over the range.
    consequents : {"ridge", "random"}
        How the consequents start: ridge regression on the normalised firing, or small random values (the paper).
    width : float or "auto"
        Starting widths of the sets, in standard deviations of their input. "auto": (500 / rows) to the power of 1/4, from
        0.3 to 1.
    ridge : float
        Penalty of the ridge start, per row.
    scaling : {"standard", "none"}
        Whether inputs and targets are scaled to mean 0 and standard deviation 1 inside. It travels with the model.
{intervals}    validation_fraction : float
        Share of the rows held out to watch for early stopping; used only with ``patience``.
    patience : int, optional
        Epochs without a better validation loss before training stops and the best parameters are restored.
    warm_start : bool
        Whether another ``fit`` goes on from the fitted system.
    random_state : int, RandomState or None
    device : str
        "auto" takes a CUDA device where there is one.
    dtype : {"float32", "float64"}
        Precision of the training. Predictions are always computed in float64.
    verbose : int
        1 shows a progress bar on standard error.

    Attributes
    ----------
    system_ : T1FLS or IT2FLS
        The trained system, a torch module in scaled units, in float64.
    history_ : list of dict
        One row per epoch: epoch, loss, learning_rate, seconds, and validation_loss with ``patience``.
    stopped_by_ : str
        "epochs", "patience", "interrupt" or "divergence".
    n_epochs_ : int
        Epochs trained, all warm starts together.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names that are strings.
    input_range_ : ndarray, shape (2, features)
        Smallest and largest value of every input in the training data.
    rule_shares_ : ndarray, shape (rules,)
        Share of the firing that every rule had, on average over the training data; they add up to 1.
    calibration_ : Calibration or None
        Scores of the rows held out for calibration; None without ``coverage``.
    interval_model_ : FLSRegressor, FLSClassifier or None
        With ``refit`` the model that was trained without the rows held out, from which calibrated intervals come.
    initial_sets_ : ndarray, shape (4, rules, features)
        Centers, lower widths, upper widths and heights of the sets that training began with, in the units of the data.
    x_scaling_, y_scaling_ : Scaling
        The affine maps between the units of the data and those of the system.
"""


def _settings(loss: str, intervals: str) -> str:
    return _SETTINGS.replace("{loss}", loss).replace("{intervals}", intervals)


class FLSRegressor(RegressorMixin, PredictsIntervals, FLSEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    __doc__ = f"""A Type-1 or Interval Type-2 fuzzy system learned from data, for one or several targets.
{_settings('{"l2", "l1", "huber", "log-cosh", "pinball"} or callable', INTERVAL_SETTINGS)}    target_names_ : tuple of str
        Names of the targets: those of the columns of y where it has names, else y, or y0, y1 and so on.

    Notes
    -----
    Rows of equal inputs and targets are merged before training (up to 20,000 rows, and not for a callable loss), so a
    sample weight of k is exactly k equal rows, and the order of the rows does not matter.

    Examples
    --------
    >>> import numpy as np
    >>> from deepfls import FLSRegressor
    >>> X = np.linspace(-3, 3, 200).reshape(-1, 1)
    >>> model = FLSRegressor(n_rules=5, epochs=30, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[1.5]])[0] - 0.997) < 0.05)
    True
    """

    target_names_: tuple[str, ...]
    _LOSSES = ("l1", "l2", "huber", "log-cosh", "pinball")
    _CALIBRATIONS = ("cqr", "split")

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoints: CheckpointsOrPath | None = None,
    ) -> FLSRegressor:
        """Learn from rows X (rows, features) and targets y (rows,) or (rows, outputs), or from a source of both.

        Parameters
        ----------
        X : array or frame, shape (rows, features), or ParquetSource
            Numbers; NaN is an error. Names of columns are kept and checked in predictions.
        y : array or frame, shape (rows,) or (rows, outputs)
            None beside a source, which names its targets and weights itself.
        sample_weight : array, shape (rows,), optional
        checkpoints : Checkpoints or path, optional
            How, or in which folder, a run on a source keeps its state, to go on after it was stopped.

        Returns
        -------
        FLSRegressor
            Itself.
        """
        if is_source(X):
            check_absent("y", y, "a source", "it names its target itself")
            check_absent("sample_weight", sample_weight, "a source", "it names a column of weights itself")
            with self._whole_or_not_at_all():
                self._fit_source(X.with_numbers(), checkpoints)
                self.target_names_ = X.layout.targets
                self._single_target_ = len(self.target_names_) == 1
            return self
        check_alone("checkpoints", checkpoints, "a source such as ParquetSource")
        with self._whole_or_not_at_all():
            x = self._validated_x(X, reset=not self._continues)
            targets = check_number_targets(y)
            check_same_length(x, targets)
            check_finite_table("y", targets)
            self._fit_arrays(x, targets.reshape(len(targets), -1), sample_weight, target_scaling="standard")
            self._single_target_ = targets.ndim == 1
            self.target_names_ = _names_of_targets(y, self.system_.n_outputs)
            self._name_interval_model()
        return self

    def predict(self, X: Any) -> Array:
        """Predictions in the units of y: (rows,) where y was a vector, else (rows, outputs)."""
        outputs = self._raw_outputs(X)
        y = self.y_scaling_.invert(outputs)
        return y[:, 0] if self._single_target_ else y

    def _own_description(self) -> dict[str, Any]:
        return {"single_target": self._single_target_, "target_names": list(self.target_names_)}

    def _restore_own(self, description: dict[str, Any]) -> None:
        self._single_target_ = bool(description["single_target"])
        names = description.get("target_names", _names_of_targets(None, self.system_.n_outputs))
        if len(names) != self.system_.n_outputs:
            raise ValueError(f"{len(names)} names of targets for {self.system_.n_outputs} outputs")
        self.target_names_ = tuple(map(str, names))

    def _n_scaled_targets(self, system: T1FLS | IT2FLS) -> int:
        return system.n_outputs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class FLSClassifier(ClassifierMixin, PredictsSets, FLSEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    __doc__ = f"""A Type-1 or Interval Type-2 fuzzy system learned from data, for two or more classes.

    The system has one output per class; their softmax are the probabilities.
{_settings('"cross-entropy" or callable', SET_SETTINGS)}
    classes_ : ndarray
        The classes, in the order of the probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from deepfls import FLSClassifier
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> model = FLSClassifier(n_rules=3, epochs=20, random_state=0).fit(X, np.where(X[:, 0] > 0, "up", "down"))
    >>> str(model.predict([[0.5]])[0])
    'up'
    """

    classes_: Array
    _LOSSES = ("cross-entropy",)
    _CALIBRATIONS = ("split", "aps")

    def __init__(
        self,
        *,
        kind: str = "it2",
        n_rules: int = 10,
        order: int = 1,
        uncertainty: str = "hs",
        type_reduction: str = "km",
        tnorm: str = "auto",
        loss: str | Callable[..., torch.Tensor] = "cross-entropy",
        loss_options: Mapping[str, Any] | None = None,
        optimizer: str | type[torch.optim.Optimizer] = "adam",
        optimizer_options: Mapping[str, Any] | None = None,
        learning_rate: float | str = "auto",
        schedule: str = "onecycle",
        weight_decay: float | str = "auto",
        gradient_clip: float | None = None,
        epochs: int | str = "auto",
        batch_size: int | str = "auto",
        centers: str = "kmeans",
        consequents: str = "ridge",
        width: float | str = "auto",
        ridge: float = 1e-4,
        scaling: str = "standard",
        coverage: float | None = None,
        calibration: str | None = "split",
        calibration_fraction: float | str = "auto",
        refit: bool | str = "auto",
        group_calibration: str | int | Sequence[str | int] | None = None,
        validation_fraction: float = 0.1,
        patience: int | None = None,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
        dtype: str = "float32",
        verbose: int = 0,
    ) -> None:
        # Spelled out again because scikit-learn reads the settings off this signature, and the loss has another default.
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        super().__init__(**given)

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoints: CheckpointsOrPath | None = None,
    ) -> FLSClassifier:
        """Learn from rows X (rows, features) and classes y (rows,), or from a source of both.

        Parameters
        ----------
        X : array or frame, shape (rows, features), or ParquetSource
            Numbers; NaN is an error. Names of columns are kept and checked in predictions.
        y : array, shape (rows,)
            Classes: text, integers or booleans. None beside a source, which names its target itself.
        sample_weight : array, shape (rows,), optional
        checkpoints : Checkpoints or path, optional
            How, or in which folder, a run on a source keeps its state, to go on after it was stopped.

        Returns
        -------
        FLSClassifier
            Itself.
        """
        if is_source(X):
            check_absent("y", y, "a source", "it names its target itself")
            check_absent("sample_weight", sample_weight, "a source", "it names a column of weights itself")
            with self._whole_or_not_at_all():
                self.classes_ = self._fit_source(X, checkpoints, classes=True).classes
            return self
        check_alone("checkpoints", checkpoints, "a source such as ParquetSource")
        with self._whole_or_not_at_all():
            x = self._validated_x(X, reset=not self._continues)
            check_targets_given(y)
            labels = column_or_1d(y, warn=True)
            check_same_length(x, labels)
            if labels.dtype.kind == "f":
                check_finite_table("y", labels)
            check_classification_targets(labels)
            classes, index = np.unique(labels, return_inverse=True)
            if self._continues:
                check_unchanged({"classes": self.classes_.tolist()}, {"classes": classes.tolist()})
            logits = self._start_targets(len(classes))
            targets = index.reshape(-1, 1).astype(np.float64)
            self._fit_arrays(x, targets, sample_weight, target_scaling="none", start_targets=logits)
            self.classes_ = classes
            self._name_interval_model()
        return self

    @staticmethod
    def _start_targets(n_classes: int) -> Array:
        """What the ridge start aims at: logits of +2 for the class and -2 / (classes - 1) for the others."""
        return 2.0 * (np.eye(n_classes) * n_classes - 1.0) / max(n_classes - 1, 1)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (rows, classes), in the order of ``classes_``."""
        logits = self._raw_outputs(X)
        logits = logits - logits.max(axis=1, keepdims=True)
        odds = np.exp(logits)
        return odds / odds.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Array:
        """The most probable class of each row, (rows,)."""
        outputs = self._raw_outputs(X)
        return self.classes_[outputs.argmax(axis=1)]

    def _own_description(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist(), "classes_dtype": self.classes_.dtype.kind}

    def _restore_own(self, description: dict[str, Any]) -> None:
        classes = description["classes"]
        kind = description["classes_dtype"]
        if len(classes) != self.system_.n_outputs:
            raise ValueError(f"{len(classes)} classes for {self.system_.n_outputs} outputs")
        self.classes_ = np.array(classes, dtype=object if kind == "O" else None)

    def _n_scaled_targets(self, system: T1FLS | IT2FLS) -> int:
        return 1  # the index of the class


def _names_of_targets(y: Any, n_outputs: int) -> tuple[str, ...]:
    """The names a frame or a series gives its columns, else y, or y0, y1 and so on."""
    names = getattr(y, "columns", None)
    if names is None:
        names = [getattr(y, "name", None)]
    if len(names) == n_outputs and all(isinstance(name, str) for name in names):
        return tuple(map(str, names))
    return ("y",) if n_outputs == 1 else tuple(f"y{k}" for k in range(n_outputs))


_CLASSES = {"FLSRegressor": FLSRegressor, "FLSClassifier": FLSClassifier}


def load(path: str | os.PathLike[str]) -> FLSRegressor | FLSClassifier:
    """Read a model file written by ``save``.

    Parameters
    ----------
    path : path

    Returns
    -------
    FLSRegressor or FLSClassifier
        Fitted, with the settings it was trained with; those that are no plain values (a callable loss) are the defaults.
    """
    description, arrays = read_model(path)
    try:
        cls = _CLASSES[description["class"]]
        known = cls().get_params()
        estimator = cls(**{name: value for name, value in description["settings"].items() if name in known})
        model_file.restore(estimator, description, arrays)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise ModelFileError(f"{str(path)!r} is damaged: its parts do not fit together ({error}).") from error
    return estimator
