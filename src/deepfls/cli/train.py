"""``deepfls train``: learn a model from a table, in memory or read by row groups, and save it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepfls._checks.arguments import counted, did_you_mean, quoted
from deepfls.cli import options as o
from deepfls.cli.evaluate import Scores, interval_scores_of, print_interval_scores, print_scores, scores_of
from deepfls.cli.export import check_start, features_of_start, started_from
from deepfls.cli.output import INTERRUPT, CommandOutput, UsageError, shown, started_processes

if TYPE_CHECKING:
    from deepfls._checks.values import Array
    from deepfls.cli.opening import Model
    from deepfls.data.layout import Layout
    from deepfls.data.sources import ParquetSource
    from deepfls.data.tables import DataTable
    from deepfls.estimators import FLSClassifier, FLSRegressor
    from deepfls.training.distributed import Group

_TASKS = ("auto", "regression", "classification")
_OF_STREAMS = ("buffer_rows", "checkpoint_dir", "checkpoint_every", "resume")
# Largest number of different whole numbers, and least number of rows, of a target that may hold classes.
_FEW_VALUES, _FEW_ROWS = 10, 20
# Training rows of a stream that are measured: more would take longer than an epoch, and change no digit that is printed.
_MEASURED_ROWS = 2**20


@o.command
def train(
    output: CommandOutput,
    data: Annotated[str | None, o.DATA_ARGUMENT] = None,
    target: Annotated[o.Names, o.option("Column to predict; repeat for several.")] = None,
    feature: Annotated[o.Names, o.option("Column to learn from; repeat for several.", "all others")] = None,
    drop: Annotated[o.Names, o.option("Column to leave out; repeat for several.")] = None,
    weight: Annotated[str | None, o.option("Column of sample weights.")] = None,
    task: Annotated[str | None, o.option("regression or classification; auto: by the type of the target.", "auto")] = None,
    test_fraction: Annotated[float | None, o.option("Share of the rows held out to measure the error on.", "0")] = None,
    stream: o.Stream = None,
    nulls: o.Nulls = None,
    buffer_rows: Annotated[int | None, o.option("Rows of a stream that are mixed at a time.", "about a million")] = None,
    config: Annotated[
        Path | None,
        o.run_option("TOML file with any of these options; options win.", callback=o.read_config, is_eager=True),
    ] = None,
    start: Annotated[Path | None, o.run_option("Continue from the rules of a .fis file, or from a model file.")] = None,
    checkpoint_dir: Annotated[str | None, o.run_option("Folder for the state of a stream.", metavar="PATH")] = None,
    checkpoint_every: Annotated[str | None, o.run_option("Steps, or a time such as 30s.", "200")] = None,
    resume: Annotated[bool | None, o.run_option("Continue from the newest checkpoint, if there is one.")] = None,
    engine: o.Engine = None,
    ray_address: o.RayAddress = None,
    num_workers: o.NumWorkers = None,
    out: Annotated[Path, o.output_option("Model file to write.", "model.fls")] = Path("model.fls"),
    force: o.Force = False,
    **settings: Any,
) -> None:
    """Learn a model from a table and save it.

    Settings that are given neither here nor in the file of --config are the defaults of FLSRegressor and FLSClassifier.
    """
    named = {name: value for name, value in {**locals(), **settings}.items() if name not in ("output", "settings")}
    given = {name: value for name, value in named.items() if value is not None and value != []}
    if _run(given, output):
        raise typer.Exit(INTERRUPT)


@dataclass(frozen=True)
class _Rows:
    """Rows to train on and to test on, in memory or on disk."""

    layout: Layout
    arguments: dict[str, Any]  # of the estimator
    classes: bool
    files: list[str]
    group: Group
    n_rows: dict[str, int]  # of the part "train" and, with --test-fraction, of "test"
    fit: Callable[[Any], object]
    chunks: Callable[[str], Iterable[tuple[Any, Array]]]  # inputs and targets of a part, piece by piece
    in_memory: bool = True
    start: FLSRegressor | None = None
    measured_share: float = 1.0  # of the training rows


def _run(given: Mapping[str, Any], output: CommandOutput) -> bool:
    """Train, save, measure and print; True if the user interrupted the training."""
    on_ray = o.check_engine(given.get("engine"), **{name: given.get(name) for name in ("ray_address", "num_workers")})
    streamed = bool(given.get("stream")) or on_ray or started_processes() > 1
    _check(given, streamed=streamed)
    arguments = {name: setting.value(given[name]) for name, setting in o.all_settings().items() if name in given}
    with (_open_stream if streamed else _open_table)(given, arguments, output) as rows:
        from deepfls import FLSClassifier, FLSRegressor
        from deepfls.cli.opening import Model

        _announce(output, rows)
        began = time.perf_counter()
        with o.errors_by_option(o.all_settings()):
            made = FLSClassifier if rows.classes else FLSRegressor
            estimator: FLSRegressor | FLSClassifier = rows.start or made(**rows.arguments)
            rows.fit(estimator.set_params(verbose=int(output.bars)))
        estimator.set_params(verbose=0)
        seconds = time.perf_counter() - began
        estimator.table_ = rows.layout.as_dict()
        # Saved before the errors are measured: an interrupt in between must not lose the model.
        with rows.group.together():
            if rows.group.leads:
                estimator.save(given["out"])
        model = Model(estimator, rows.layout, given["out"])
        intervals: dict[str, Scores] = {}
        try:
            with output.working("measuring"):
                scores = {part: scores_of(model, rows.chunks(part), rows.group) for part in rows.n_rows}
                if rows.in_memory and estimator.calibration_ is not None:
                    intervals = {part: interval_scores_of(model, *next(iter(rows.chunks(part)))) for part in rows.n_rows}
        except KeyboardInterrupt:
            warnings.warn(f"The model is saved as {quoted(model.path)}; measuring its error was interrupted.", stacklevel=2)
            return True
        if rows.group.leads:
            _print_summary(output, model, rows, scores, intervals, seconds)
    return bool(estimator.stopped_by_ == "interrupt")


def _check(given: Mapping[str, Any], *, streamed: bool) -> None:
    """Refuse options that no estimator checks."""
    if "data" not in given:
        raise UsageError("DATA, a CSV or Parquet file, must be given. See 'deepfls train --help'.")
    from deepfls.cli.opening import check_model_ending, check_target_given

    check_target_given(given)
    check_model_ending(given["out"])
    o.check_choice("--task", given.get("task", "auto"), _TASKS)
    fraction, seed = given.get("test_fraction", 0.0), given.get("random_state", 0)
    if not 0.0 <= fraction < 1.0:
        raise UsageError(f"--test-fraction must be at least 0 and less than 1, got {fraction}.")
    if not 0 <= seed < 2**32:
        raise UsageError(f"--random-state must be between 0 and {2**32 - 1}, got {seed}.")
    check_start(given, streamed=streamed)
    of_streams = [name for name in _OF_STREAMS if given.get(name) not in (None, False)]
    if of_streams and not streamed:
        raise UsageError(f"{o.option_of(of_streams[0])} must be given with --stream.")
    of_checkpoints = [name for name in of_streams if name in ("resume", "checkpoint_every")]
    if of_checkpoints and "checkpoint_dir" not in given:
        raise UsageError(f"{o.option_of(of_checkpoints[0])} must be given with --checkpoint-dir.")


@contextmanager
def _open_table(given: Mapping[str, Any], arguments: Mapping[str, Any], output: CommandOutput) -> Iterator[_Rows]:
    """A table in memory. Errors in its columns are raised before torch is imported, which takes seconds."""
    from deepfls.cli.opening import check_output
    from deepfls.data.layout import inputs, learn_layout, table_decimal, targets, warn_of_copies, weights, with_targets
    from deepfls.data.tables import read_table

    check_output(
        given["out"], force=given["force"], inputs=[given["data"], *([given["config"]] if "config" in given else [])]
    )
    with output.working("reading the table"):
        table = read_table(given["data"])
        start = started_from(given["start"], arguments) if "start" in given else None
    if arguments.get("decimal", "auto") == "auto" and (decimal := table_decimal(table)) != "auto":
        arguments = {**arguments, "decimal": decimal}
    columns = _columns(given) if start is None else _columns(given) | {"features": features_of_start(start, given)}
    layout, classes = _with_task(learn_layout(table, **columns, **_written(arguments)), given, arguments)
    table = with_targets(table, layout, o.check_choice("--nulls", given.get("nulls", "drop"), o.NULLS))
    x, y = inputs(table, layout), targets(table, layout, classes=classes)
    warn_of_copies(x, y)
    if not classes and given.get("task", "auto") == "auto":
        _hint_at_classes(y)
    weight = weights(table, layout)
    parts = split_rows(table, given.get("test_fraction", 0.0), given.get("random_state", 0), y if classes else None)
    pieces = {part: (x.take(rows) if len(parts) > 1 else x, y[rows]) for part, rows in parts.items()}
    with output.working("starting"):
        from deepfls.training.distributed import Group
    yield _Rows(
        layout,
        dict(arguments),
        classes,
        [str(file) for file in table.files],
        Group(),
        {part: len(rows) for part, rows in parts.items()},
        fit=lambda estimator: estimator.fit(*pieces["train"], None if weight is None else weight[parts["train"]]),
        chunks=lambda part: [pieces[part]],
        start=start,
    )


@contextmanager
def _open_stream(given: Mapping[str, Any], arguments: Mapping[str, Any], output: CommandOutput) -> Iterator[_Rows]:
    """A table that is read by row groups, by this process or by all that torchrun started."""
    with output.working("starting"):
        from deepfls.cli.opening import check_output
        from deepfls.data.sources import ParquetSource
        from deepfls.training.checkpoint import Checkpoints
        from deepfls.training.distributed import process_group

    resume, checkpoints, on_ray = bool(given.get("resume")), None, given.get("engine") == "ray"
    with o.errors_by_option(("checkpoint_every",)):
        if "checkpoint_dir" in given:
            checkpoints = Checkpoints(given["checkpoint_dir"], given.get("checkpoint_every", 200), resume=resume)
    with process_group() as group:
        with group.together(), o.errors_by_option(("nulls", "buffer_rows")):
            local = [given[name] for name in ("data", "config") if "://" not in str(given.get(name, "://"))]
            # A resumed run may have written its model before it was stopped.
            check_output(given["out"] if group.leads else None, force=given["force"] or resume, inputs=local)
            how = {name: given[name] for name in ("nulls", "buffer_rows") if name in given}
            source = ParquetSource(given["data"], **_columns(given), **how, verbose=int(output.bars))
            layout, classes = _with_task(source.layout, given, arguments)
            source = (source if classes else source.with_numbers()).with_layout(**_written(arguments))
        fraction, seed, n_rows = given.get("test_fraction", 0.0), given.get("random_state", 0), source.files.n_rows
        trained = source.part(seed, fraction, 1.0) if fraction > 0 else source
        share = min(1.0, _MEASURED_ROWS / n_rows)
        measured = {"train": trained if share == 1.0 else trained.part(seed + 7, 0.0, share)}
        sizes = {"train": n_rows - round(fraction * n_rows)}
        if fraction > 0:
            measured["test"], sizes["test"] = source.part(seed, 0.0, fraction), n_rows - sizes["train"]
        yield _Rows(
            layout,
            dict(arguments),
            classes,
            [str(file) for file in source.files.files],
            group,
            sizes,
            fit=lambda estimator: (
                _fit_on_ray(estimator, trained, given) if on_ray else estimator.fit(trained, checkpoints=checkpoints)
            ),
            chunks=lambda part: measured[part].tables(range(group.rank, source.n_groups, group.size), classes=classes),
            in_memory=False,
            measured_share=share,
        )


def _columns(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a layout or a source that name columns."""
    chosen = {"target": "target", "features": "feature", "drop": "drop", "weight": "weight"}
    return {name: given[option] for name, option in chosen.items() if option in given}


def _written(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the estimator that state how a table writes its targets."""
    return {name: arguments[name] for name in ("missing_values", "decimal") if name in arguments}


def _fit_on_ray(estimator: FLSRegressor | FLSClassifier, source: ParquetSource, given: Mapping[str, Any]) -> None:
    from deepfls.engines import ray as engine

    with o.errors_by_option(("num_workers", "checkpoint_every")):
        engine.fit(
            estimator,
            source,
            num_workers=given.get("num_workers", 1),
            storage_path=given.get("checkpoint_dir"),
            checkpoint_every=given.get("checkpoint_every", "30s"),
            resume=bool(given.get("resume")),
            address=given.get("ray_address"),
        )


def _hint_at_classes(y: Array) -> None:
    """Warn that a target of few whole numbers may hold classes. For 0 and 1 alone the estimator warns."""
    import numpy as np

    values = np.unique(y) if y.ndim == 1 and len(y) >= _FEW_ROWS else y[:0]
    if 2 < len(values) <= _FEW_VALUES and (values == np.rint(values)).all():
        words = f"{len(values)} different values, all whole numbers: --task classification takes them as classes"
        warnings.warn(f"The target has {words}.", stacklevel=2)


def _with_task(layout: Layout, given: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[Layout, bool]:
    """The layout for the task, and True for classification; refuses what the task or the columns do not have."""
    from deepfls.data.tables import TableError

    task = given.get("task", "auto")  # which classifies a target of text or of true and false
    classes = task == "classification" or (task == "auto" and layout.target_kind != "number")
    if classes and len(layout.targets) > 1:
        raise UsageError(f"Classification takes one --target, got {len(layout.targets)}.")
    if classes and "start" in given:
        raise UsageError("--start must be given with a target of numbers, got one of classes.")
    for name in arguments:
        if name not in o.settings_of("ClassifierSettings" if classes else "RegressorSettings"):
            words = "for numbers only, got a target of classes" if classes else "with classes, got a target of numbers"
            raise UsageError(f"{o.option_of(name)} must be given {words}.")
    for column in (*arguments.get("group_calibration", ()), *arguments.get("categorical", ())):
        if column not in layout.features:
            hint = did_you_mean(column, layout.features)
            raise TableError(
                f"Column {quoted(column)} must be an input of the model to group by or to be a category.{hint}"
            )
    # As numbers, true and false are 1 and 0, and text is an error that names its row.
    return (layout if classes else replace(layout, target_kind="number")), classes


def split_rows(table: DataTable, fraction: float, seed: int, classes: Array | None) -> dict[str, Array]:
    """Sorted rows of the parts "train" and "test", by class for classes; a class of one row is trained on."""
    import numpy as np

    from deepfls.data.tables import TableError

    rows = np.arange(table.n_rows)
    if fraction == 0:
        return {"train": rows}
    from sklearn.model_selection import train_test_split

    single = np.zeros(0, dtype=int)
    if classes is not None:
        _, first, counts = np.unique(classes, return_index=True, return_counts=True)
        single = first[counts == 1]
        rows = np.delete(rows, single)
    try:
        by_class = None if classes is None else classes[rows]
        train, test = train_test_split(rows, test_size=fraction, random_state=seed, stratify=by_class)
    except ValueError as error:
        enough = "enough rows" if classes is None else "enough rows of every class"
        raise TableError(
            f"{table.label} must have {enough} to hold a share of {fraction:g} out, got {counted(table.n_rows, 'row')}; "
            "train without --test-fraction."
        ) from error
    return {"train": np.sort(np.concatenate([train, single])), "test": np.sort(test)}


def _announce(output: CommandOutput, rows: _Rows) -> None:
    """Print the files, the number of rows, and the columns."""
    files = shown(Path(rows.files[0]).name, "bold") if len(rows.files) == 1 else counted(len(rows.files), "file")
    n_trained, n_rows = rows.n_rows["train"], sum(rows.n_rows.values())
    size = counted(n_rows, "row") if n_trained == n_rows else f"{n_trained:,} of {counted(n_rows, 'row')}"
    targets = rows.layout.targets
    names = [part for name in targets for part in (", ", shown(name, "bold", width=40))][1:]
    about = f": {size}, {counted(len(rows.layout.features), 'input')}, target{'s' * (len(targets) > 1)} "
    output.line("Training on ", files, about, *names)


def _print_summary(
    output: CommandOutput,
    model: Model,
    rows: _Rows,
    scores: dict[str, Scores],
    intervals: dict[str, Scores],
    seconds: float,
) -> None:
    """Print the measures and what was saved, or both as JSON."""
    estimator = model.estimator
    output.line()
    print_scores(output, scores)
    output.line()
    if intervals:
        print_interval_scores(output, intervals)
    if rows.measured_share < 1.0:
        output.line(f"Of the training rows, a share of {rows.measured_share:.2g} was measured.", style="dim")
    if "test" not in scores:
        output.line("Measured on the training rows; --test-fraction 0.2 would hold rows out.", style="dim")
    ends = {"patience": ", stopped early", "divergence": ", the last finite state"}
    ends["interrupt"] = ", as it was when training was interrupted"
    size = f"{estimator.kind}, {counted(estimator.system_.n_rules, 'rule')}, {counted(estimator.n_epochs_, 'epoch')}"
    chosen = getattr(estimator, "chosen_", None)
    if chosen is not None and any(chosen["line_share"]):
        size += f", {sum(chosen['line_share']) / len(chosen['line_share']):.0%} of a linear model mixed in"
    output.line("Saved ", shown(model.path, "bold"), f": {size}, {seconds:.1f} s{ends.get(estimator.stopped_by_, '')}")
    output.result(
        {
            "command": "train",
            "model": str(model.path),
            "data": rows.files,
            "task": model.task,
            "targets": list(rows.layout.targets),
            "classes": model.classes,
            "inputs": estimator.columns_.input_names,
            "rows": {"train": rows.n_rows["train"], "test": rows.n_rows.get("test", 0)},
            "processes": rows.group.size,
            "settings": {name: value for name, value in estimator.get_params().items() if name != "verbose"},
            "epochs": estimator.n_epochs_,
            "stopped_by": estimator.stopped_by_,
            "chosen": chosen,
            "seconds": round(seconds, 3),
            "scores": scores,
            "intervals": intervals or None,
        }
    )
