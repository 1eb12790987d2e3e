"""What the two estimators share: settings, the way from arrays to a trained system and back to numbers, files."""

from __future__ import annotations

import abc
import contextlib
import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from deepfls._checks import (
    check_count,
    check_device,
    check_finite_table,
    check_number,
    check_number_or_auto,
    check_option,
    check_unchanged,
    name_text_columns,
)
from deepfls._files import write_model
from deepfls.data.arrays import Samples, weighted_samples
from deepfls.data.scaling import Scaling
from deepfls.estimators import intervals, model_file
from deepfls.estimators.calibration import Calibration
from deepfls.estimators.exporting import ExportDoors
from deepfls.estimators.reading import ReadingDoors
from deepfls.kernels import compiled_outputs
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training import recipe
from deepfls.training.batches import Rows
from deepfls.training.checkpoint import Checkpoints
from deepfls.training.config import TrainConfig
from deepfls.training.loop import TrainResult, train
from deepfls.training.progress import TrainingBar
from deepfls.training.start import initialize_system

Array = np.ndarray[Any, np.dtype[Any]]

KINDS = ("t1", "it2")
SCALINGS = ("standard", "none")
DTYPES = {"float32": torch.float32, "float64": torch.float64}
# Rows that pass through a system at a time in predictions.
_PREDICTION_CHUNK = 65_536
# Rows, evenly spaced, from which the shares of the rules are known well enough.
_SUMMARY_ROWS = 8_192


class FiringStrengths(NamedTuple):
    """Lower and upper firing strength of every rule, each (rows, rules); equal for Type-1 systems."""

    lower: Array
    upper: Array


class FLSEstimator(ReadingDoors, ExportDoors, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Base of FLSRegressor and FLSClassifier, which document the settings."""

    system_: T1FLS | IT2FLS
    x_scaling_: Scaling
    y_scaling_: Scaling
    history_: list[dict[str, float]]
    input_range_: Array
    rule_shares_: Array
    calibration_: Calibration | None
    interval_model_: FLSEstimator | None
    initial_sets_: Array
    _structure_: dict[str, Any]

    # The settings that shape the system: a warm start cannot change them.
    _STRUCTURE = ("kind", "n_rules", "order", "uncertainty", "type_reduction", "tnorm", "scaling")
    _LOSSES: tuple[str, ...]
    _CALIBRATIONS: tuple[str, ...]

    def __init__(
        self,
        *,
        kind: str = "it2",
        n_rules: int = 10,
        order: int = 1,
        uncertainty: str = "hs",
        type_reduction: str = "km",
        tnorm: str = "auto",
        loss: str | Callable[..., torch.Tensor] = "l2",
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
        calibration: str | None = "cqr",
        interval_weight: float = 1.0,
        calibration_fraction: float | str = "auto",
        normalized_scores: bool = True,
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
        self.kind = kind
        self.n_rules = n_rules
        self.order = order
        self.uncertainty = uncertainty
        self.type_reduction = type_reduction
        self.tnorm = tnorm
        self.loss = loss
        self.loss_options = loss_options
        self.optimizer = optimizer
        self.optimizer_options = optimizer_options
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.gradient_clip = gradient_clip
        self.epochs = epochs
        self.batch_size = batch_size
        self.centers = centers
        self.consequents = consequents
        self.width = width
        self.ridge = ridge
        self.scaling = scaling
        self.coverage = coverage
        self.calibration = calibration
        self.interval_weight = interval_weight
        self.calibration_fraction = calibration_fraction
        self.normalized_scores = normalized_scores
        self.refit = refit
        self.group_calibration = group_calibration
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.dtype = dtype
        self.verbose = verbose

    # From arrays to a trained system

    @contextlib.contextmanager
    def _whole_or_not_at_all(self) -> Iterator[None]:
        """A fit that fails leaves an earlier one as it was."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    @property
    def _continues(self) -> bool:
        """Whether a fit goes on from an earlier one."""
        return bool(self.warm_start) and hasattr(self, "system_")

    def _validated_x(self, X: Any, *, reset: bool) -> Array:
        with name_text_columns(X):
            x = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite=False)
        check_finite_table("X", x, getattr(self, "feature_names_in_", None))
        return x

    def _fit_arrays(
        self, x: Array, y: Array, sample_weight: Any, *, target_scaling: str, start_targets: Array | None = None
    ) -> None:
        """Train on checked arrays: y (rows, outputs) numbers, or (rows, 1) class indices with ``start_targets``."""
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, x, ensure_non_negative=True)
        n_outputs = y.shape[1] if start_targets is None else start_targets.shape[0]
        continued = self._continues
        if continued:
            check_unchanged(self._structure_, self._structure(x.shape[1], n_outputs))
        self._check_settings()
        intervals.check_settings(self, x.shape[1], continued=continued)
        dtype = DTYPES[self.dtype]
        random = check_random_state(self.random_state)
        # The rows that calibrate are lost to training. A model of its own learns from the others and gives the intervals,
        # so that this one learns from all.
        interval_model, interrupted = intervals.fit_on_part(self, x, y, weight, target_scaling, start_targets)
        if interrupted:
            return
        parts = None if interval_model is not None else intervals.hold_out(self, x, weight, random)
        calibrating = None
        if parts is not None:
            trained, held = parts
            calibrating = (x[held], y[held], None if weight is None else weight[held])
            x, y, weight = x[trained], y[trained], None if weight is None else weight[trained]
        # A callable may average over its batch, where a merged row would count once.
        samples = weighted_samples(x, y, weight, merged=not callable(self.loss))
        config = intervals.set_objective(self, self._config(samples.n_rows))
        held_out = None
        if self.patience is not None:
            samples, held_out = samples.split(self.validation_fraction, random)
        if continued:
            system = copy.deepcopy(self.system_).requires_grad_(True)
            x_scaling, y_scaling = self.x_scaling_, self.y_scaling_
        else:
            standard = self.scaling == "standard"
            x_scaling = Scaling.standard(samples.x, samples.weight) if standard else Scaling.identity(x.shape[1])
            y_scaling = Scaling.identity(y.shape[1])
            if standard and target_scaling == "standard":
                y_scaling = Scaling.standard(samples.y, samples.weight)
            system = self._new_system(x.shape[1], n_outputs)
        device = check_device(self.device)
        system.to(device=device, dtype=dtype)
        rows = _as_rows(samples, x_scaling, y_scaling, device, dtype)
        validation = None if held_out is None else _as_rows(held_out, x_scaling, y_scaling, device, dtype)
        if not continued:
            targets = rows.target
            if start_targets is not None:
                targets = torch.from_numpy(start_targets).to(rows.x)[rows.target[:, 0].long()]
            initialize_system(
                system,
                rows.x,
                targets,
                centers=self.centers,
                consequents=self.consequents,
                width=recipe.width(samples.n_rows) if self.width == "auto" else self.width,  # type: ignore[arg-type]
                ridge=self.ridge,
                sample_weight=rows.weight,
                random_state=random,
            )
            self.initial_sets_ = model_file.sets_of(system, x_scaling)
        generator = torch.Generator().manual_seed(int(random.randint(2**31 - 1)))
        with contextlib.ExitStack() as stack:
            bar = stack.enter_context(TrainingBar(config.epochs, len(rows))) if self.verbose else None
            result = train(system, rows, config, generator=generator, validation=validation, progress=bar)
        self._adopt(system, x_scaling, y_scaling, result)
        self._summarize(samples.x)
        self.interval_model_ = interval_model
        if interval_model is not None:
            self.calibration_ = interval_model.calibration_
        else:
            self.calibration_ = intervals.calibrate(self, samples.x, samples.y, calibrating)
        self.__dict__.pop("table_", None)  # of an earlier fit to a table

    def _fit_source(self, source: Any, checkpoints: Any, *, classes: bool = False) -> Any:
        """Train on a source of rows that need not fit into memory."""
        from deepfls.estimators.stream_fit import fit_source  # here: it needs pyarrow, which arrays do without

        if isinstance(checkpoints, (str, os.PathLike)):
            checkpoints = Checkpoints(checkpoints)
        fitted = fit_source(self, source, classes=classes, checkpoints=checkpoints)
        self.n_features_in_ = len(source.layout.features)
        self.feature_names_in_ = np.array(source.layout.input_names, dtype=object)
        self.calibration_, self.interval_model_ = fitted.calibration, None
        self.__dict__.pop("initial_sets_", None)
        self.table_ = source.layout.as_dict()  # commands find the columns of a table by it
        return fitted

    def _check_settings(self) -> None:
        """Refuse settings that nothing below would."""
        if not callable(self.loss):
            check_option("loss", self.loss, self._LOSSES)
        check_option("scaling", self.scaling, SCALINGS)
        check_number("validation_fraction", self.validation_fraction, above=0.0, below=1.0)
        check_option("dtype", self.dtype, tuple(DTYPES))

    def _adopt(self, system: T1FLS | IT2FLS, x_scaling: Scaling, y_scaling: Scaling, result: TrainResult) -> None:
        """Take over a trained system and the record of its training."""
        earlier = self.history_ if self._continues else []
        # Trained in `dtype`, kept in float64: predictions then do not depend on how rows are cut into batches.
        self.system_ = system.to(dtype=torch.float64).requires_grad_(False)
        self.x_scaling_, self.y_scaling_ = x_scaling, y_scaling
        first = earlier[-1]["epoch"] if earlier else 0.0
        self.history_ = [*earlier, *({**row, "epoch": first + row["epoch"]} for row in result.history)]
        self.n_epochs_ = len(self.history_)
        self.stopped_by_ = result.stopped_by
        self._structure_ = self._structure(system.n_features, system.n_outputs)

    def _name_interval_model(self) -> None:
        """Tell the model that gives the intervals what it predicts."""
        for name in ("_single_target_", "target_names_", "classes_"):
            if self.interval_model_ is not None and hasattr(self, name):
                setattr(self.interval_model_, name, getattr(self, name))

    def _summarize(self, x: Array) -> None:
        """Keep what rules, plots and exports need to know about the data: ranges, and how much every rule fires."""
        self.input_range_ = np.stack([x.min(axis=0), x.max(axis=0)])
        sample = x[:: -(-len(x) // _SUMMARY_ROWS)]
        with torch.no_grad():
            firing = self.system_.firing(torch.from_numpy(self.x_scaling_.apply(sample)).to(self.system_.centers.device))
        weight = firing.lower + firing.upper if isinstance(firing, tuple) else firing
        self.rule_shares_ = (weight / weight.sum(dim=1, keepdim=True)).mean(dim=0).cpu().numpy()

    def _structure(self, n_features: int, n_outputs: int) -> dict[str, Any]:
        settings = {name: getattr(self, name) for name in self._STRUCTURE}
        return {**settings, "n_features": n_features, "n_outputs": n_outputs}

    def _config(self, n_rows: int) -> TrainConfig:
        """The settings of training; "auto" ones by the number of rows, as docs/recipe.md explains."""
        for name in ("batch_size", "epochs", "learning_rate", "weight_decay", "width"):
            check_number_or_auto(name, getattr(self, name))
        batch_size: Any = recipe.batch_size(n_rows) if self.batch_size == "auto" else self.batch_size
        epochs: Any = self.epochs
        if epochs == "auto":
            epochs = recipe.epochs(n_rows, check_count("batch_size", batch_size))
        learning_rate: Any = recipe.learning_rate(n_rows) if self.learning_rate == "auto" else self.learning_rate
        weight_decay: Any = recipe.weight_decay(n_rows) if self.weight_decay == "auto" else self.weight_decay
        return TrainConfig(
            loss=self.loss,
            loss_options=self.loss_options or {},
            optimizer=self.optimizer,
            optimizer_options=self.optimizer_options or {},
            learning_rate=learning_rate,
            schedule=self.schedule,
            weight_decay=weight_decay,
            gradient_clip=self.gradient_clip,
            epochs=epochs,
            batch_size=batch_size,
            patience=self.patience,
        )

    def _new_system(self, n_features: int, n_outputs: int) -> T1FLS | IT2FLS:
        """A system of the given settings; its starting values are replaced, so torch's generator is left as it was."""
        check_option("kind", self.kind, KINDS)
        check_count("n_rules", self.n_rules)
        check_option("tnorm", self.tnorm, ("auto", "product", "htsk"))
        tnorm = "htsk" if self.tnorm == "auto" else self.tnorm
        with torch.random.fork_rng(devices=[]):
            if self.kind == "t1":
                return T1FLS(n_features, n_outputs, n_rules=self.n_rules, order=self.order, tnorm=tnorm)
            return IT2FLS(
                n_features,
                n_outputs,
                n_rules=self.n_rules,
                order=self.order,
                uncertainty=self.uncertainty,
                type_reduction=self.type_reduction,
                tnorm=tnorm,
            )

    # From a trained system to numbers

    def _scaled_x(self, X: Any) -> torch.Tensor:
        check_is_fitted(self, "system_")
        return torch.from_numpy(self.x_scaling_.apply(self._validated_x(X, reset=False)))

    def _raw_outputs(self, X: Any) -> Array:
        """Outputs of the system in scaled units, (rows, outputs), a chunk of rows at a time."""
        check_is_fitted(self, "system_")
        x = self._validated_x(X, reset=False)
        forward = compiled_outputs(self.system_)
        outputs = np.empty((len(x), self.system_.n_outputs))
        for first in range(0, len(x), _PREDICTION_CHUNK):
            part = slice(first, first + _PREDICTION_CHUNK)
            z = self.x_scaling_.apply(x[part])
            if forward is not None:
                outputs[part] = forward(z)[:, 2]
            else:
                with torch.no_grad():
                    outputs[part] = self.system_(torch.from_numpy(z).to(self.system_.centers.device)).cpu().numpy()
        return outputs

    def firing_strengths(self, X: Any) -> FiringStrengths:
        """How strongly every rule fires for every row.

        Returns
        -------
        FiringStrengths
            Named tuple (lower, upper), each (rows, rules), in [0, 1]; equal for Type-1 systems.
        """
        x = self._scaled_x(X)
        with torch.no_grad():
            firing = self.system_.antecedents(x.to(self.system_.centers.device))
        lower, upper = firing if isinstance(firing, tuple) else (firing, firing)
        # At a center rounding may leave the logarithm a little above 0.
        return FiringStrengths(*(log.clamp(max=0.0).exp().cpu().numpy() for log in (lower, upper)))

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one safetensors file, whole or not at all; :func:`load` reads it back."""
        check_is_fitted(self, "system_")
        write_model(path, *model_file.of(self))

    def _own_description(self) -> dict[str, Any]:
        """What one kind of estimator adds to the description in its file."""
        return {}

    def _restore_own(self, description: dict[str, Any]) -> None:
        """Take back what :meth:`_own_description` gave."""

    @abc.abstractmethod
    def _n_scaled_targets(self, system: T1FLS | IT2FLS) -> int:
        """Columns that ``y_scaling_`` has: one per target, or one for the index of a class."""


def is_source(X: Any) -> bool:
    """Whether X is a source of rows rather than the rows themselves; asked without importing pyarrow."""
    return hasattr(X, "all_rows") and hasattr(X, "layout")


def _as_rows(samples: Samples, x_scaling: Scaling, y_scaling: Scaling, device: torch.device, dtype: torch.dtype) -> Rows:
    def tensor(values: Array) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    weight = None if samples.weight is None else tensor(samples.weight)
    return Rows.of(tensor(x_scaling.apply(samples.x)), tensor(y_scaling.apply(samples.y)), weight)
