"""Training, predicting and measuring on tables larger than memory, by one process or by all that torchrun started."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepfls.cli import settings as s
from deepfls.cli.errors import UsageError
from deepfls.cli.models import Model, check_output
from deepfls.cli.output import Output, shown
from deepfls.cli.scores import Scores, json_scores, print_scores
from deepfls.cli.training import announce, close, with_task
from deepfls.data.tables import find_files, listed, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from deepfls.data.parquet import ParquetFiles
    from deepfls.data.sources import ParquetSource
    from deepfls.data.tables import DataTable
    from deepfls.training.distributed import Group

# Training rows that are measured at the end: more would take longer than an epoch, and change no digit that is shown.
_MEASURED_ROWS = 2**20
_NULLS = ("error", "drop")


def check_nulls(nulls: str) -> str:
    """Refuse another rule than the two."""
    if nulls not in _NULLS:
        raise UsageError(f"--nulls must be one of {', '.join(_NULLS)}, got {nulls!r}.")
    return nulls


def train_from_stream(given: dict[str, Any], arguments: dict[str, Any], out: Path, output: Output, *, force: bool) -> bool:
    """Train as told; whether the user stopped it early."""
    with output.working("starting"):  # importing torch takes seconds
        from deepfls import FLSClassifier, FLSRegressor
        from deepfls.data.sources import ParquetSource
        from deepfls.training.checkpoint import Checkpoints
        from deepfls.training.distributed import process_group

    if given.get("one_hot"):
        raise UsageError("--one-hot must come without --stream: encode text columns before.")
    task, fraction, seed = given.get("task", "auto"), given.get("test_fraction", 0.0), given.get("seed", 0)
    nulls = check_nulls(given.get("nulls", "error"))
    if given.get("buffer_rows", 1) < 1:
        raise UsageError(f"--buffer-rows must be at least 1, got {given['buffer_rows']}.")
    checkpoints = None
    if "checkpoint_dir" in given:
        with _as_usage("checkpoint_every", "--checkpoint-every"):
            checkpoints = Checkpoints(
                given["checkpoint_dir"], given.get("checkpoint_every", 200), resume=bool(given.get("resume"))
            )
    elif given.get("resume") or "checkpoint_every" in given:
        name = "--resume" if given.get("resume") else "--checkpoint-every"
        raise UsageError(f"{name} must come with --checkpoint-dir, got it without.")
    with process_group() as group:
        with group.together():
            inputs = [] if "://" in given["data"] else [given["data"]]
            for path in inputs:
                find_files(path)  # a missing table is told before anything about the model file
            if group.leads:
                # A run that goes on may have written its model before it was stopped.
                check_output(out, force=force or bool(given.get("resume")), inputs=inputs)
            source = ParquetSource(
                given["data"],
                target=given["target"],
                features=given.get("feature"),
                drop=given.get("drop", ()),
                weight=given.get("weight"),
                nulls=nulls,
                buffer_rows=given.get("buffer_rows", "auto"),
                verbose=int(output.bars),
            )
            layout, classes = with_task(source.layout, task)
            source = source if classes else source.with_numbers()
        tested = source.part(seed, 0.0, fraction) if fraction > 0 else None
        trained = source.part(seed, fraction, 1.0) if fraction > 0 else source
        n_tested = round(fraction * source.files.n_rows)
        announce(output, [Path(file) for file in source.files.files], layout, source.files.n_rows - n_tested, n_tested)
        began = time.perf_counter()
        with s.settings_errors_as_usage():
            estimator = (FLSClassifier if classes else FLSRegressor)(**arguments, verbose=int(output.bars))
            estimator.fit(trained, checkpoints=checkpoints)
        estimator.set_params(verbose=0)
        seconds = time.perf_counter() - began
        estimator.table_ = layout.as_dict()
        # Before anything else: measuring the error must not cost a trained model.
        with group.together():
            if group.leads:
                estimator.save(out)
        model = Model(estimator, layout, out)
        share = min(1.0, _MEASURED_ROWS / source.files.n_rows)
        try:
            with output.working("measuring"):
                measured = trained if share == 1.0 else trained.part(seed + 7, 0.0, share)
                groups = [("train", _source_scores(model, measured, group))]
                if tested is not None:
                    groups.append(("test", _source_scores(model, tested, group)))
        except KeyboardInterrupt:
            warnings.warn(f"The model is saved as {quoted(out)}; measuring its error was interrupted.", stacklevel=2)
            return True
        if group.leads:
            output.line()
            print_scores(output, groups)
            output.line()
            if share < 1.0:
                output.line(f"Of the training rows, a share of {share:.2g} was measured.", style="dim")
            close(output, model, seconds, measured_on_test=tested is not None)
            n_rows = {"train": source.files.n_rows - n_tested, "test": n_tested}
            output.result(
                {
                    "command": "train",
                    "model": str(out),
                    "data": list(source.files.files),
                    "task": "classification" if classes else "regression",
                    "targets": list(layout.targets),
                    "classes": model.classes,
                    "inputs": layout.input_names,
                    "rows": n_rows,
                    "processes": group.size,
                    "settings": {name: value for name, value in estimator.get_params().items() if name != "verbose"},
                    "epochs": estimator.n_epochs_,
                    "stopped_by": estimator.stopped_by_,
                    "seconds": round(seconds, 3),
                    "scores": {name: json_scores(scores) for name, scores in groups},
                }
            )
    return bool(estimator.stopped_by_ == "interrupt")


def _source_scores(model: Model, source: ParquetSource, group: Group) -> Scores:
    """Measures over the rows of a source, every process reading its share of the row groups."""
    import pyarrow as pa

    mine = range(group.rank, source.n_groups, group.size)

    def pairs() -> Iterator[tuple[Any, Any]]:
        for _, rows in source.all_rows(mine, classes=model.classes is not None):
            yield pa.table(dict(zip(source.layout.input_names, rows.x.T.copy(), strict=True))), rows.y

    return _scores(model, pairs(), group)


def _scores(model: Model, pairs: Iterator[tuple[Any, Any]], group: Group) -> Scores:
    from deepfls.estimators.prediction import ClassScores, NumberScores, merged_scores

    names = model.target_names
    classes = model.classes
    scores: dict[str, Any] = {name: NumberScores() if classes is None else ClassScores(classes) for name in names}
    with group.together():
        for x, y in pairs:
            if len(y) == 0:
                continue
            if classes is None:
                predicted = model.estimator.predict(x).reshape(len(y), -1)
                for place, name in enumerate(names):
                    scores[name].update(y.reshape(len(y), -1)[:, place], predicted[:, place])
            else:
                scores[names[0]].update(y, model.estimator.predict_proba(x))
    merged_scores(scores, group)
    unknown = [value for score in scores.values() for value in getattr(score, "unknown", [])]
    if unknown and group.leads:
        warnings.warn(f"The model does not know the class {listed(unknown)}: rows of it count as wrong.", stacklevel=2)
    return {name: score.values() for name, score in scores.items()}


def open_files(source: str, model: Model, output: Output, columns: list[str]) -> ParquetFiles:
    """The files of a table for a model, after checking that all have the columns."""
    from deepfls.data.parquet import ParquetFiles
    from deepfls.data.tables import DataTable

    files = ParquetFiles(source, text_columns=model.layout.text_columns, bar=output.bars)
    DataTable(files.schema.empty_table(), files.label, (), ()).require(columns, why=" that is needed")
    files.check_alike(columns)
    return files


def columns_read(model: Model, source: str, output: Output, extra: list[str]) -> tuple[ParquetFiles, list[str]]:
    """The files of a table, and the columns that a model reads in them: those it names, or all."""
    named = list(model.layout.features)
    files = open_files(source, model, output, [*named, *extra])
    if not named:
        named = [name for name in files.names if name not in extra]
    return files, list(dict.fromkeys([*named, *extra]))


def evaluate_stream(path: Path, source: str, target: list[str], nulls: str, output: Output) -> None:
    """Measure a model on a table a row group at a time."""
    with output.working("starting"):
        from deepfls.cli.models import open_model
        from deepfls.data.layout import targets
        from deepfls.estimators.prediction import tables_of
        from deepfls.training.distributed import process_group

    check_nulls(nulls)
    with process_group() as group:
        with group.together():
            model = open_model(path, targets=target)
            if not model.layout.targets:
                raise UsageError("--target must be given for a model that was trained in Python.")
            files, columns = columns_read(model, source, output, list(model.layout.targets))
        mine = range(group.rank, len(files.groups), group.size)
        n_rows = 0

        def pairs() -> Iterator[tuple[Any, Any]]:
            nonlocal n_rows
            for data in tables_of(files, mine, columns, nulls):
                n_rows += data.n_rows
                if data.n_rows:
                    yield model.inputs(data), targets(data, model.layout, classes=model.classes is not None)

        with output.working("measuring"):
            scores = _scores(model, pairs(), group)
        import torch

        n_rows = int(group.total(torch.tensor(n_rows)))
        if group.leads:
            output.line(shown(path.name, "bold"), " on ", shown(source, "bold"), f": {n_rows:,} rows")
            output.line()
            print_scores(output, [("", scores)])
            output.result(
                {
                    "command": "evaluate",
                    "model": str(path),
                    "data": list(files.files),
                    "task": "regression" if model.classes is None else "classification",
                    "rows": n_rows,
                    "processes": group.size,
                    "scores": json_scores(scores),
                }
            )


def predict_stream(
    places: tuple[Path, str, Path],
    keep: list[str],
    predicted: Callable[[Model, DataTable], pa.Table],
    output: Output,
    *,
    about: dict[str, Any],
    nulls: str,
    resume: bool,
    force: bool,
) -> None:
    """Write a folder of predictions, part by part; ``places`` are model, table and folder."""
    path, source, out = places
    with output.working("starting"):
        from deepfls.cli.models import open_model
        from deepfls.estimators.prediction import write_parts
        from deepfls.training.distributed import process_group
        from deepfls.training.progress import ReadingBar

    import hashlib

    check_nulls(nulls)
    with process_group() as group:
        with group.together():
            if out.exists() and not out.is_dir():
                raise UsageError(f"--out must be a folder for predictions in parts, got the file {quoted(out)}.")
            if not out.parent.is_dir():
                raise UsageError(f"--out must be in a folder that exists, got {quoted(out)}.")
            model = open_model(path)
            files, columns = columns_read(model, source, output, keep)
        with contextlib.ExitStack() as stack:
            step = None
            if output.bars and group.leads:
                bar = stack.enter_context(ReadingBar(files.n_rows // group.size, "predicting"))
                step = bar.step
            written = write_parts(
                files,
                columns,
                lambda data: predicted(model, data),
                out,
                about={"model": hashlib.sha256(path.read_bytes()).hexdigest(), "keep": keep, **about},
                nulls=nulls,
                resume=resume,
                force=force,
                group=group,
                step=step,
            )
        if group.leads:
            found = f", {written.n_found} of them there already" if written.n_found else ""
            parts = f"{written.n_parts} part{'s' * (written.n_parts != 1)}{found}"
            output.line(f"Wrote {written.n_rows:,} predictions to {parts} in ", shown(out, "bold"))
            output.result(
                {
                    "command": "predict",
                    "model": str(path),
                    "data": list(files.files),
                    "predictions": str(out),
                    "rows": written.n_rows,
                    "parts": written.n_parts,
                    "processes": group.size,
                }
            )


@contextlib.contextmanager
def _as_usage(name: str, flag: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error).replace(name, flag, 1)) from error
