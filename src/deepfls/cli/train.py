"""``deepfls train``: learn a model from a table and save it."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepfls.cli import settings as s
from deepfls.cli.errors import INTERRUPT, UsageError
from deepfls.cli.output import Output, started_processes
from deepfls.cli.start import check_start, features_of, started_from
from deepfls.cli.training import announce, check_training, close, refuse_without_stream, with_task

if TYPE_CHECKING:
    from deepfls.data.layout import Array, Layout
    from deepfls.data.tables import DataTable

_OUT = Path("model.fls")


def train(
    ctx: typer.Context,
    data: Annotated[str | None, s.DATA_ARGUMENT] = None,
    target: s.Target = None,
    feature: s.Feature = None,
    drop: s.Drop = None,
    one_hot: s.OneHot = None,
    weight: s.Weight = None,
    task: s.Task = None,
    test_fraction: s.TestFraction = None,
    stream: s.Stream = None,
    nulls: s.Nulls = None,
    buffer_rows: s.BufferRows = None,
    config: s.Config = None,
    kind: s.Kind = None,
    rules: s.Rules = None,
    order: s.Order = None,
    uncertainty: s.Uncertainty = None,
    reduction: s.Reduction = None,
    tnorm: s.Tnorm = None,
    scaling: s.Scaling = None,
    epochs: s.Epochs = None,
    batch_size: s.BatchSize = None,
    loss: s.Loss = None,
    loss_option: s.LossOption = None,
    optimizer: s.Optimizer = None,
    optimizer_option: s.OptimizerOption = None,
    learning_rate: s.LearningRate = None,
    schedule: s.Schedule = None,
    weight_decay: s.WeightDecay = None,
    gradient_clip: s.GradientClip = None,
    patience: s.Patience = None,
    validation: s.Validation = None,
    seed: s.Seed = None,
    device: s.Device = None,
    dtype: s.Dtype = None,
    start: s.Start = None,
    centers: s.Centers = None,
    consequents: s.Consequents = None,
    width: s.Width = None,
    ridge: s.Ridge = None,
    coverage: s.Coverage = None,
    calibration: s.Calibration = None,
    interval_weight: s.IntervalWeight = None,
    calibration_fraction: s.CalibrationFraction = None,
    normalized_scores: s.NormalizedScores = None,
    refit: s.Refit = None,
    group_calibration: s.GroupCalibration = None,
    checkpoint_dir: s.CheckpointDir = None,
    checkpoint_every: s.CheckpointEvery = None,
    resume: s.Resume = None,
    out: Annotated[
        Path | None, s.option("--out", "Model file to write; model.fls by default.", s.OUTPUT, metavar="FILE")
    ] = None,
    force: s.Force = False,
    quiet: s.Quiet = False,
    json: s.Json = False,
    debug: s.Debug = False,
) -> None:
    """Learn a model from a table and save it.

    Settings that are given neither here nor in the file of --config are the defaults of FLSRegressor and FLSClassifier.
    """
    given = s.settings_of(ctx, train)
    output = Output(quiet=quiet, json=json)
    with output.shown_warnings():
        interrupted = _run(given, output, force=force)
    if interrupted:
        raise typer.Exit(INTERRUPT)


def _run(given: dict[str, Any], output: Output, *, force: bool) -> bool:
    """Train as told; whether the user stopped it early."""
    from deepfls.cli.interval_scores import interval_scores_of, json_interval_scores, print_interval_scores
    from deepfls.cli.models import Model, check_output
    from deepfls.cli.scores import json_scores, print_scores, scores_of
    from deepfls.data.layout import inputs, learn_layout, numbers, targets
    from deepfls.data.tables import find_files, quoted, read_table

    for name in ("data", "target"):
        if name not in given:
            missing = "DATA, a CSV or Parquet file," if name == "data" else "--target, the column to predict,"
            raise UsageError(f"{missing} must be given. See 'deepfls train --help'.")
    arguments = s.estimator_settings(given)
    task, fraction, seed = given.get("task", "auto"), given.get("test_fraction", 0.0), given.get("seed", 0)
    check_training(task, fraction, seed)
    out = given.get("out", _OUT)
    check_start(given)
    if given.get("stream") or started_processes() > 1:
        from deepfls.cli.stream import train_from_stream

        return train_from_stream(given, arguments, out, output, force=force)
    refuse_without_stream(given)
    find_files(given["data"])  # a missing table is told before anything about the model file
    check_output(out, force=force, inputs=[given["data"]])

    with output.working("reading the table"):
        table = read_table(given["data"])
        starting = started_from(given["start"], arguments) if "start" in given else None
    layout = learn_layout(
        table,
        given["target"],
        features=given.get("feature") if starting is None else features_of(starting, given),
        drop=given.get("drop", ()),
        weight=given.get("weight"),
        one_hot=given.get("one_hot", False),
    )
    layout, classes = with_task(layout, task)
    if starting is not None and classes:
        raise UsageError("--start must come with a target of numbers, got one of classes.")
    arguments |= _interval_settings(arguments, layout, classes=classes)
    x, y = inputs(table, layout), targets(table, layout, classes=classes)
    weight = numbers(table, given["weight"]) if "weight" in given else None
    trained, tested = split_rows(table, fraction, seed, y if classes else None)
    x_trained, x_tested = (x.take(trained), x.take(tested)) if len(tested) else (x, x)
    announce(output, table.files, layout, len(trained), len(tested))

    with output.working("starting"):  # importing torch takes seconds
        from deepfls import FLSClassifier, FLSRegressor

    began = time.perf_counter()
    with s.settings_errors_as_usage():
        if starting is not None:
            estimator: FLSRegressor | FLSClassifier = starting.set_params(verbose=int(output.bars))
        else:
            estimator = (FLSClassifier if classes else FLSRegressor)(**arguments, verbose=int(output.bars))
        estimator.fit(x_trained, y[trained], None if weight is None else weight[trained])
    estimator.set_params(verbose=0)
    seconds = time.perf_counter() - began
    estimator.table_ = layout.as_dict()
    # Before anything else: measuring the error must not cost a trained model.
    estimator.save(out)
    model = Model(estimator, layout, out)
    try:
        groups = [("train", scores_of(model, x_trained, y[trained]))]
        covered = []
        if estimator.calibration_ is not None:
            covered.append(("train", interval_scores_of(model, x_trained, y[trained])))
        if len(tested):
            groups.append(("test", scores_of(model, x_tested, y[tested])))
            if estimator.calibration_ is not None:
                covered.append(("test", interval_scores_of(model, x_tested, y[tested])))
    except KeyboardInterrupt:
        warnings.warn(f"The model is saved as {quoted(out)}; measuring its error was interrupted.", stacklevel=2)
        return True
    output.line()
    print_scores(output, groups)
    output.line()
    print_interval_scores(output, covered)
    close(output, model, seconds, measured_on_test=len(tested) > 0)
    output.result(
        {
            "command": "train",
            "model": str(out),
            "data": [str(file) for file in table.files],
            "task": "classification" if classes else "regression",
            "targets": list(layout.targets),
            "classes": model.classes,
            "inputs": layout.input_names,
            "rows": {"train": len(trained), "test": len(tested)},
            "settings": {name: value for name, value in estimator.get_params().items() if name != "verbose"},
            "epochs": estimator.n_epochs_,
            "stopped_by": estimator.stopped_by_,
            "seconds": round(seconds, 3),
            "scores": {group: json_scores(scores) for group, scores in groups},
            "intervals": {group: json_interval_scores(scores) for group, scores in covered} or None,
        }
    )
    return bool(estimator.stopped_by_ == "interrupt")


def _interval_settings(arguments: dict[str, Any], layout: Layout, *, classes: bool) -> dict[str, Any]:
    """Groups by the inputs that a column became; settings of intervals alone are refused for classes."""
    from deepfls.data.tables import TableError, nearest, quoted

    for name in ("interval_weight", "normalized_scores"):
        if classes and name in arguments:
            raise UsageError(f"--{name.replace('_', '-')} must be given for numbers only, got a target of classes.")
    columns = []
    for column in arguments.get("group_calibration", ()):
        if column not in layout.features:
            raise TableError(
                f"Column {quoted(column)} must be an input of the model to group by.{nearest(column, layout.features)}"
            )
        columns += [f"{column}={value}" for value in layout.categories.get(column, ())] or [column]
    return {"group_calibration": columns} if columns else {}


def split_rows(table: DataTable, fraction: float, seed: int, classes: Array | None) -> tuple[Array, Array]:
    """Sorted rows to train on and to test on; of every class, at least one row is trained on."""
    import numpy as np

    from deepfls.data.tables import TableError

    order = np.random.default_rng(seed).permutation(table.n_rows)
    groups = [order] if classes is None else [order[classes[order] == name] for name in np.unique(classes)]
    sizes = [min(round(fraction * len(group)), len(group) - 1) for group in groups]
    tested = np.sort(np.concatenate([group[:size] for group, size in zip(groups, sizes, strict=True)]))
    trained = np.sort(np.concatenate([group[size:] for group, size in zip(groups, sizes, strict=True)]))
    if fraction > 0 and not len(tested):
        raise TableError(f"{table.label} must have enough rows to hold a share of {fraction:g} out, got {table.n_rows}.")
    return trained, tested
