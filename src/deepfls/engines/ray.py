"""Fits on Ray Train and predictions on Ray Data, for one machine or many. Needs the extra ``deepfls[ray]``.

The workers of a fit form the process group that Ray Train opens, and take the steps that processes of torchrun take: every
row group belongs to one worker, and the gradients of a step are summed as one vector. The first worker reports checkpoints
to Ray, which stores them under ``storage_path`` and starts the workers again from the newest one when some are lost.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from deepfls._files import write_whole
from deepfls.data.sources import ParquetSource
from deepfls.engines.ray_workers import BatchPredictor, ReportedCheckpoints, trained
from deepfls.estimators import FLSClassifier, FLSRegressor, load
from deepfls.estimators.table_model import MANIFEST, check_folder_of_parts
from deepfls.training.checkpoint import CheckpointError

if TYPE_CHECKING:
    from deepfls.data.parquet import ParquetFiles

_Estimator = TypeVar("_Estimator", FLSRegressor, FLSClassifier)

# Rows of a row group of a dataset that is stored for training, and rows that a worker predicts at a time.
_GROUP_ROWS = _BATCH_ROWS = 65_536


class ClusterError(OSError):
    """A run that a cluster could not finish."""


def fit(
    estimator: _Estimator,
    source: Any,
    *,
    num_workers: int | tuple[int, int] = 1,
    resources: Mapping[str, float] | None = None,
    storage_path: str | os.PathLike[str] | None = None,
    name: str = "fit",
    checkpoint_every: int | str = "30s",
    resume: bool = False,
    max_failures: int = 3,
    address: str | None = None,
    **columns: Any,
) -> _Estimator:
    """Fit an estimator on a Ray cluster, to a table that its workers read in parts.

    Parameters
    ----------
    estimator : FLSRegressor or FLSClassifier
        Gets the fitted attributes. ``verbose=1`` prints a line on standard error at every checkpoint.
    source : ParquetSource, path, or ray.data.Dataset
        Rows to learn from. Every machine must be able to read the files under the same path or address. A dataset is
        first written to Parquet files under ``storage_path``.
    num_workers : int or (int, int)
        Number of workers. With a pair the run goes on with fewer workers, at least the first number, when machines are
        lost, and with more when they come back.
    resources : mapping, optional
        Resources of each worker, such as ``{"CPU": 4}`` or ``{"CPU": 4, "GPU": 1}``; one CPU by default. A worker computes
        with as many threads as it has CPUs.
    storage_path : path or address, optional
        Folder for checkpoints that all machines see, such as a network drive or ``"s3://bucket/runs"``. By default a
        temporary folder, which serves on one machine only.
    name : str
        Folder of this run under ``storage_path``.
    checkpoint_every : int or str
        Steps between two checkpoints, or a time: 200, "30s", "5min". Ray may take two seconds to accept one.
    resume : bool
        Whether to continue a run of this name that was stopped.
    max_failures : int
        How often the run continues from its newest checkpoint after losing a worker.
    address : str, optional
        Cluster to connect to, unless the program is connected: ``"auto"`` or ``"ray://host:10001"``. By default Ray is
        started on this machine for the time of the fit.
    **columns
        ``target``, ``features``, ``drop``, ``weight`` and ``nulls`` of :class:`ParquetSource`, with a path or a dataset.

    Returns
    -------
    FLSRegressor or FLSClassifier
        The estimator.
    """
    _require_ray()
    from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer
    from ray.train.v2.api.exceptions import TrainingFailedError

    least, most = (num_workers, num_workers) if isinstance(num_workers, int) else num_workers
    if not 1 <= least <= most:
        raise ValueError(f"num_workers must be at least 1, or a pair of increasing numbers, got {num_workers!r}.")
    each = dict(resources or {"CPU": 1})
    verbose = bool(estimator.verbose)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_connected(address, least, each, verbose=verbose))
        if storage_path is None:
            storage_path = stack.enter_context(tempfile.TemporaryDirectory(prefix="deepfls-ray-"))
        storage = str(storage_path) if "://" in str(storage_path) else str(Path(storage_path).absolute())
        folder = f"{storage}/{name}"
        # Ray would continue an earlier run in any case.
        if not resume and any("checkpoint" in Path(info.path).name for info in _files_in(folder)):
            raise CheckpointError(
                f"storage_path must hold no earlier run of the same name, got {folder!r}: continue it with resume=True "
                "(--resume), or give another folder."
            )
        rows = _parquet_source(source, f"{storage}/{name}-rows", columns, resume=resume)
        checkpoints = ReportedCheckpoints("", checkpoint_every, resume=True)
        work = {"estimator": estimator, "source": rows, "checkpoints": checkpoints}
        with_gpu = each.get("GPU", 0) > 0
        trainer = TorchTrainer(
            trained,
            train_loop_config=work,
            torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if with_gpu else "gloo"),
            scaling_config=ScalingConfig(num_workers=num_workers, use_gpu=with_gpu, resources_per_worker=each),
            run_config=RunConfig(
                name=name,
                storage_path=storage,
                failure_config=FailureConfig(max_failures=max_failures),
                checkpoint_config=CheckpointConfig(num_to_keep=2),
                callbacks=[_progress_printer()] if verbose else None,
            ),
        )
        try:
            with _long_start_timeout() if least == most else contextlib.nullcontext():
                fitted = trainer.fit().return_value
        except TrainingFailedError as error:
            raise ClusterError(f"The fit on Ray failed: {_reason(error)}.") from error
    if isinstance(fitted, Exception):
        raise fitted
    settings = estimator.get_params()
    estimator.__dict__.update({key: value for key, value in vars(fitted).items() if key not in settings})
    return estimator


def predict(
    model: FLSRegressor | FLSClassifier | str | os.PathLike[str],
    dataset: Any,
    *,
    keep: Sequence[str] | None = None,
    prefix: str = "",
    coverage: float | None = None,
    quantiles: Sequence[float] = (),
    familiarity: bool = False,
    batch_size: int = _BATCH_ROWS,
    num_workers: int | tuple[int, int] | None = None,
    resources: Mapping[str, float] | None = None,
) -> Any:
    """Predictions of a model for a Ray dataset, as a dataset.

    Nothing is computed before the result is read. Batches pass through the workers, of which each loads the model once, so
    that the dataset may be larger than memory. Ray keeps the order of rows only where its context says so.

    Parameters
    ----------
    model : FLSRegressor, FLSClassifier, or path of a model file
    dataset : ray.data.Dataset
        With the columns of the inputs.
    keep : sequence of str, optional
        Columns to copy to the result; by default all that do not have the name of a prediction.
    prefix : str
        Begins the names of predictions, which are those of the targets: ``y`` for a model that was fitted to arrays. A
        classifier also gives the probability of each class, as TARGET=CLASS.
    coverage : float, optional
        Adds the ends of intervals of this coverage as TARGET_lower and TARGET_upper or, for a classifier, the classes of
        the set as TARGET_set.
    quantiles : sequence of float
        Adds quantiles of these levels, as TARGET_q0.05 and so on.
    familiarity : bool
        Whether to add the familiarity of each row.
    batch_size : int
        Rows that a worker predicts at a time.
    num_workers : int or (int, int), optional
        Largest number of workers, or least and largest; by default as many as there is room for.
    resources : mapping, optional
        Resources of each worker, such as ``{"CPU": 2}``. By default half a CPU, so that the tasks that read and write have
        room beside the workers; none on a cluster of one CPU.

    Returns
    -------
    ray.data.Dataset
    """
    _require_ray()
    import ray
    import ray.data

    least, most = num_workers if isinstance(num_workers, tuple) else (1, num_workers)
    how = {"prefix": prefix, "interval": coverage, "quantiles": tuple(quantiles), "familiarity": familiarity}
    estimator = load(model) if isinstance(model, (str, os.PathLike)) else model
    each = dict(resources or {"CPU": 0.5 if ray.cluster_resources().get("CPU", 0) > 1 else 0})
    return dataset.map_batches(
        BatchPredictor,
        fn_constructor_args=(estimator, keep, how),
        batch_format="pyarrow",
        batch_size=batch_size,
        compute=ray.data.ActorPoolStrategy(min_size=least, max_size=most),
        num_cpus=each.pop("CPU", None),
        num_gpus=each.pop("GPU", None),
        resources=each or None,
    )


def write_predictions(
    model: FLSRegressor | FLSClassifier,
    files: ParquetFiles,
    columns: Sequence[str],
    out: Path,
    *,
    num_workers: int = 1,
    address: str | None = None,
    verbose: bool = False,
    **how: Any,
) -> None:
    """Write predictions for some columns of Parquet files to a folder of parts, in the order of the rows.

    The arguments are those of :func:`fit` and, in ``how``, of :func:`predict`. Parts of an earlier run are replaced.
    """
    _require_ray()
    import ray.data
    from ray.data.datasource import FilenameProvider

    class PartNames(FilenameProvider):  # type: ignore[misc]  # untyped
        def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
            return f"part-{task_index:06d}-{write_uuid}.parquet"

    filesystem, paths = files.locations()
    check_folder_of_parts(out, files.files)
    for old in out.glob("part-*.parquet"):
        old.unlink()
    out.mkdir(exist_ok=True)
    write_whole(out / MANIFEST, b"{}")  # tells a later run that the files are predictions
    with _connected(address, verbose=verbose):
        context = ray.data.DataContext.get_current()
        before = context.execution_options.preserve_order, context.enable_progress_bars
        context.execution_options.preserve_order, context.enable_progress_bars = True, verbose
        try:
            rows = ray.data.read_parquet(paths, filesystem=filesystem, columns=list(columns))
            made = predict(model, rows, num_workers=num_workers, **how)
            made.write_parquet(str(out.absolute()), filename_provider=PartNames())
        except ray.exceptions.RayError as error:
            raise ClusterError(f"The predictions on Ray failed: {_one_line(_cause(error))}.") from error
        finally:
            context.execution_options.preserve_order, context.enable_progress_bars = before


def _require_ray() -> None:
    try:
        import ray.data
        import ray.train  # noqa: F401
    except ImportError as error:
        raise ImportError("The engine ray needs the package ray: pip install 'deepfls[ray]'.") from error


@contextlib.contextmanager
def _connected(
    address: str | None, n_workers: int = 1, each: Mapping[str, float] = types.MappingProxyType({}), *, verbose: bool
) -> Iterator[None]:
    """A connection to a cluster: that of the program, else one for the time of the fit.

    A machine that has not the resources ``each`` of all workers is refused.
    """
    import ray

    if ray.is_initialized():
        yield
        return
    try:
        ray.init(address=address or "local", log_to_driver=verbose, logging_level="WARNING")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ClusterError(f"No Ray cluster can be reached at {address!r}: {_one_line(error)}.") from error
    try:
        if address is None:
            for resource, needed in each.items():
                free = ray.cluster_resources().get(resource, 0.0)
                if n_workers * needed > free:
                    raise ValueError(
                        f"num_workers must be at most {int(free // needed)} on this machine, which has {free:g} "
                        f"{resource}, got {n_workers}; address connects to a cluster."
                    )
        yield
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _long_start_timeout() -> Iterator[None]:
    """Let Ray wait ten minutes for the resources of a fixed number of workers, unless the user has set a time.

    Ray's minute is short on a busy machine. It stays where the run may go on with fewer workers: Ray notices a removed
    machine later than the loss of its worker, waits for it that long, and then takes those that are left.
    """
    name = "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"
    before = os.environ.get(name)
    os.environ.setdefault(name, "600")
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)


def _files_in(folder: str) -> list[Any]:
    """The files of a folder or address; none where it does not exist."""
    from pyarrow import fs

    system, path = fs.FileSystem.from_uri(folder)
    return list(system.get_file_info(fs.FileSelector(path, allow_not_found=True)))


def _parquet_source(source: Any, folder: str, columns: dict[str, Any], *, resume: bool) -> ParquetSource:
    """The rows of a fit as a table of Parquet files."""
    import ray.data

    if isinstance(source, ParquetSource):
        if columns:
            raise ValueError(f"{next(iter(columns))} must not be given beside a ParquetSource, which has its columns.")
        return source
    if "target" not in columns:
        raise ValueError("target must be given with a path or a dataset: the column to predict.")
    if not isinstance(source, ray.data.Dataset):
        return ParquetSource(source, **columns)
    if not (resume and _files_in(folder)):
        source.write_parquet(folder, row_group_size=_GROUP_ROWS)
    return ParquetSource(f"{folder}/*.parquet", **columns)


def _progress_printer() -> Any:
    """A callback of Ray's controller, whose standard error Ray shows in the driver."""
    from ray.train import UserCallback

    class ProgressPrinter(UserCallback):  # type: ignore[misc]  # untyped
        def after_report(self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any) -> None:
            row = metrics[0]
            loss = "" if row["loss"] is None else f", loss {row['loss']:.4g}"
            print(f"step {row['step']:,}, {row['epoch']} epochs done{loss}", file=sys.stderr, flush=True)

    return ProgressPrinter()


def _reason(error: Exception) -> str:
    """The first failure of a worker, in one line."""
    failures = getattr(error, "worker_failures", None) or {}
    causes = [getattr(failure, "_base_exc", failure) for _, failure in sorted(failures.items())]
    own = [cause for cause in causes if isinstance(cause, (ValueError, TypeError))]
    return _one_line((own or causes or [error])[0])


def _cause(error: BaseException) -> BaseException:
    """The error of a worker behind the error that Ray raises."""
    inner = getattr(error, "cause", None) or error.__cause__
    return error if not isinstance(inner, BaseException) else _cause(inner)


def _one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".:")
