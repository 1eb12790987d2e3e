"""``deepfls predict``: write the predictions of a model for a table, to a file or to a folder of parts."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deepfls._checks.arguments import counted, printable, quoted
from deepfls.cli import options as o
from deepfls.cli.output import CommandOutput, UsageError, shown, started_processes

if TYPE_CHECKING:
    import pyarrow as pa


@o.command
def predict(
    output: CommandOutput,
    model: Annotated[Path, o.MODEL_ARGUMENT],
    data: Annotated[str, o.DATA_ARGUMENT],
    out: Annotated[Path | None, o.output_option("CSV or Parquet file, or folder of parts.", "standard output")] = None,
    keep: Annotated[o.Names, o.output_option("Column of DATA to copy to the output; repeat for several.")] = None,
    interval: Annotated[float | None, o.output_option("Add the ends of intervals of this coverage, such as 0.9.")] = None,
    quantiles: Annotated[str | None, o.output_option("Add quantiles of these levels, such as 0.05,0.5,0.95.")] = None,
    familiarity: Annotated[
        bool, o.flag("--familiarity", text="Add the familiarity of each row, 0 to 1: how near it is to training rows.")
    ] = False,
    prefix: Annotated[str, o.output_option("Begins the names of predictions.")] = "",
    nulls: Annotated[str | None, o.option("Rows with a missing value: keep, or drop to leave them out.", "keep")] = None,
    engine: o.Engine = None,
    ray_address: o.RayAddress = None,
    num_workers: o.NumWorkers = None,
    resume: Annotated[bool, o.flag("--resume", text="Continue a folder of parts that an earlier run began.")] = False,
    force: o.Force = False,
) -> None:
    """Write the predictions of a model for the rows of a table.

    A classifier gives the class and, in columns TARGET=CLASS, the probability of each. --interval adds the columns
    TARGET_lower and TARGET_upper or, for a classifier, TARGET_set: the classes of the set, joined by |. --quantiles adds a
    column such as TARGET_q0.05 for every level. A folder as --out takes tables of any size, row group by row group, and
    several processes share the work.
    """
    out = None if out is None or str(out) == "-" else out
    if output.json and out is None:
        raise UsageError("--json must be given with --out, because predictions would fill standard output.")
    if interval is not None and not 0.0 < interval < 1.0:
        raise UsageError(f"--interval must be greater than 0 and less than 1, got {interval}.")
    about: dict[str, Any] = {"keep": keep or [], "prefix": prefix, "interval": interval}
    if quantiles is not None:
        about["quantiles"] = _levels(quantiles)
    if familiarity:
        about["familiarity"] = True

    if o.check_engine(engine, ray_address=ray_address, num_workers=num_workers):
        if nulls is not None or resume:
            raise UsageError(f"{'--resume' if resume else '--nulls'} must be given without --engine ray.")
        run: dict[str, Any] = {"num_workers": num_workers or 1, "address": ray_address, "verbose": output.bars}
        written = _write_parts_on_ray(model, data, out, about, output, run, force=force)
    elif out is not None and (out.is_dir() or not out.suffix):
        nulls = o.check_choice("--nulls", nulls or "keep", ("keep", "drop"))
        written = _write_parts(model, data, out, about, output, nulls=nulls, resume=resume, force=force)
    elif nulls is not None or resume or started_processes() > 1:
        name = "--nulls" if nulls is not None else "--resume" if resume else "torchrun"
        raise UsageError(f"{name} must be used with a folder as --out, got {str(out or '-')!r}.")
    else:
        written = _write_file(model, data, out, about, output, force=force)
    if written is not None:
        output.line(f"Wrote {counted(written['rows'], 'prediction')} to {written.pop('where', '')}", shown(out, "bold"))
        output.result({"command": "predict", "model": str(model), **written})


def _levels(text: str) -> list[float]:
    """The levels of ``--quantiles``."""
    try:
        levels = [float(part) for part in text.split(",")]
    except ValueError:
        levels = []
    if not levels or not all(0.0 < level < 1.0 for level in levels):
        raise UsageError(f"--quantiles must be levels greater than 0 and less than 1, such as 0.05,0.95, got {text!r}.")
    names = [f"{level:g}" for level in levels]  # of the columns
    if len(set(names)) < len(names):
        raise UsageError(f"--quantiles must be levels that differ in six digits, got {text!r}.")
    return levels


# Each of the next three writes predictions, ``about`` being the arguments of TableModel.predicted, and returns what the
# command prints: the JSON object, and in "where" the number of parts. None where nothing is to be printed.
_Written = dict[str, Any] | None


def _write_file(
    path: Path, source: str, out: Path | None, about: dict[str, Any], output: CommandOutput, *, force: bool
) -> _Written:
    """Write predictions for a table in memory to a file, or as CSV to standard output."""
    from deepfls.cli.opening import check_ending, check_output, csv_bytes, open_model, write_table
    from deepfls.data.tables import find_files

    files = find_files(source)
    if out is None and sys.stdout is None:
        raise UsageError("--out must be given, because standard output is closed.")
    if out is not None:
        check_ending(out)
        check_output(out, force=force, inputs=[path, source])
    with output.working("predicting"):
        predictions = _light_predictions(path, source, about)
        if predictions is None:
            model = open_model(path)
            predictions = model.predicted(model.table(source), **about)
    if out is not None:
        write_table(out, predictions)
        result = {"data": list(map(str, files)), "predictions": str(out)}
        return {**result, "rows": predictions.num_rows, "columns": predictions.schema.names}
    sys.stdout.flush()
    content = csv_bytes(predictions)
    if sys.stdout.isatty():
        content = "\n".join(map(printable, content.decode().split("\n"))).encode()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
    return None


def _light_predictions(path: Path, source: str, about: dict[str, Any]) -> pa.Table | None:
    """Predictions of few rows without the estimator, whose imports take seconds; None where it is needed."""
    if about["interval"] is not None or "quantiles" in about or "familiarity" in about or not path.is_file():
        return None
    from deepfls.cli.opening import Model
    from deepfls.estimators.light import NotLightError, light_model
    from deepfls.estimators.table_model import layout_of

    light: Any = light_model(path)
    if light is None:
        return None
    model = Model(light, layout_of(light), path)
    try:
        return model.predicted(model.table(source), **about)
    except NotLightError:
        return None


def _write_parts(path: Path, source: str, out: Path, about: dict[str, Any], output: CommandOutput, **how: Any) -> _Written:
    """Write a folder of predictions for a table that is read by row groups; ``how`` are options of :func:`write_parts`."""
    with output.working("starting"):
        from deepfls.cli.opening import open_model
        from deepfls.estimators.table_model import write_parts
        from deepfls.training.distributed import process_group
        from deepfls.training.progress import ReadingBar

    import hashlib

    with process_group() as group:
        with group.together():
            if out.exists() and not out.is_dir():
                raise UsageError(f"--out must be a folder for predictions in parts, got the file {quoted(out)}.")
            if not out.parent.is_dir():
                raise UsageError(f"--out must be in a folder that exists, got {quoted(out)}.")
            model = open_model(path)
            files, columns = model.stream(source, about["keep"], output)
        with contextlib.ExitStack() as stack:
            step = None
            if output.bars and group.leads:
                step = stack.enter_context(ReadingBar(files.n_rows // group.size, "predicting")).step
            mark = {"model": hashlib.sha256(path.read_bytes()).hexdigest(), **about}
            n_rows, n_parts, n_found = write_parts(
                files, columns, lambda data: model.predicted(data, **about), out, about=mark, group=group, step=step, **how
            )
    if not group.leads:
        return None
    where = f"{counted(n_parts, 'part')}{f' ({n_found} existed)' if n_found else ''} in "
    result = {"where": where, "data": list(files.files), "predictions": str(out)}
    return {**result, "rows": n_rows, "parts": n_parts, "processes": group.size}


def _write_parts_on_ray(
    path: Path,
    source: str,
    out: Path | None,
    about: dict[str, Any],
    output: CommandOutput,
    run: dict[str, Any],
    *,
    force: bool,
) -> _Written:
    """Write a folder of predictions by the workers of a Ray cluster; ``run`` are options of the engine."""
    with output.working("starting"):
        from deepfls.cli.opening import open_model
        from deepfls.engines import ray as engine

    if out is None or out.suffix or out.is_file() or not out.parent.is_dir():
        raise UsageError(f"--out must be a folder for predictions in parts, got {quoted(out or '-')}.")
    if out.is_dir() and any(out.iterdir()) and not force:
        raise UsageError(f"{quoted(out)} already has files: replace them with --force, or give another --out.")
    model = open_model(path)
    files, columns = model.stream(source, about["keep"], output)
    with o.errors_by_option(("num_workers",)):
        engine.write_predictions(model.estimator, files, columns, out, coverage=about.pop("interval"), **about, **run)
    n_parts = len(list(out.glob("*.parquet")))
    result = {"where": f"{counted(n_parts, 'part')} in ", "data": list(files.files), "predictions": str(out)}
    return {**result, "rows": files.n_rows, "parts": n_parts, "processes": run["num_workers"]}
