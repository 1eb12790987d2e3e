"""``deepfls predict``: write a model's predictions for a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deepfls.cli import settings as s
from deepfls.cli.errors import UsageError
from deepfls.cli.output import Output, printable, shown, started_processes

if TYPE_CHECKING:
    import pyarrow as pa

    from deepfls.cli.models import Model
    from deepfls.data.tables import DataTable

_ENDINGS = (".csv", ".parquet", ".pq")


def predict(
    model: Annotated[Path, s.MODEL_ARGUMENT],
    data: Annotated[str, s.DATA_ARGUMENT],
    out: Annotated[
        Path | None,
        s.option("--out", "CSV or Parquet file, or folder of parts; standard output by default.", s.OUTPUT, metavar="FILE"),
    ] = None,
    keep: Annotated[
        list[str] | None, s.option("--keep", "Column of DATA to carry along; repeat for several.", s.OUTPUT, metavar="COL")
    ] = None,
    interval: Annotated[
        float | None,
        s.option("--interval", "Add the ends of intervals of this coverage, such as 0.9.", s.OUTPUT, metavar="SHARE"),
    ] = None,
    prefix: Annotated[str, s.option("--prefix", "Put before the names of predictions.", s.OUTPUT, metavar="TEXT")] = "",
    nulls: s.Nulls = None,
    resume: Annotated[bool, s.flag("--resume", text="Go on with a folder of parts where an earlier run stopped.")] = False,
    force: s.Force = False,
    quiet: s.Quiet = False,
    json: s.Json = False,
    debug: s.Debug = False,
) -> None:
    """Write a model's predictions for the rows of a table.

    A classifier gives the class and, in columns TARGET=CLASS, the probability of each. --interval adds the columns
    TARGET_lower and TARGET_upper or, for a classifier, TARGET_set: the classes of the set, joined by |. A folder as --out
    takes tables of any size, row group by row group, and several processes share it.
    """
    output = Output(quiet=quiet, json=json)
    out = None if out is None or str(out) == "-" else out
    if json and out is None:
        raise UsageError("--json must come with --out, because predictions would fill standard output.")
    if interval is not None and not 0.0 < interval < 1.0:
        raise UsageError(f"--interval must be greater than 0 and less than 1, got {interval}.")
    with output.shown_warnings():
        if out is not None and (out.is_dir() or not out.suffix):
            from deepfls.cli.stream import predict_stream

            predict_stream(
                (model, data, out),
                keep or [],
                lambda opened, table: predicted_columns(opened, table, keep or [], prefix, interval),
                output,
                about={"prefix": prefix, "interval": interval},
                nulls=nulls or "error",
                resume=resume,
                force=force,
            )
            return
        if nulls is not None or resume or started_processes() > 1:
            name = "--nulls" if nulls is not None else "--resume" if resume else "torchrun"
            raise UsageError(f"{name} must come with a folder as --out, got {str(out or '-')!r}.")
        _run(model, data, out, keep or [], prefix, interval, output, force=force)


def _run(
    path: Path,
    source: str,
    out: Path | None,
    keep: list[str],
    prefix: str,
    interval: float | None,
    output: Output,
    *,
    force: bool,
) -> None:
    from deepfls.cli.models import check_output, open_data, open_model
    from deepfls.data.tables import find_files

    files = find_files(source)
    if out is not None:
        if not out.name.lower().endswith(_ENDINGS):
            raise UsageError(f"--out must end in {', '.join(_ENDINGS)}, got {str(out)!r}.")
        check_output(out, force=force, inputs=[path, source] if path.exists() else [source])
    with output.working("predicting"):
        model = open_model(path)
        table = open_data(source, model)
        predictions = predicted_columns(model, table, keep, prefix, interval)
    if out is None:
        sys.stdout.flush()
        content = csv_bytes(predictions)
        if sys.stdout.isatty():
            content = "\n".join(map(printable, content.decode().split("\n"))).encode()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    from deepfls._files import write_whole

    write_whole(out, csv_bytes(predictions) if out.name.lower().endswith(".csv") else parquet_bytes(predictions))
    count = f"{predictions.num_rows:,} prediction{'s' * (predictions.num_rows != 1)}"
    output.line(f"Wrote {count} to ", shown(out, "bold"))
    output.result(
        {
            "command": "predict",
            "model": str(path),
            "data": [str(file) for file in files],
            "predictions": str(out),
            "rows": predictions.num_rows,
            "columns": predictions.schema.names,
        }
    )


def predicted_columns(
    model: Model, table: DataTable, keep: list[str], prefix: str, interval: float | None = None
) -> pa.Table:
    """Kept columns, then a column for each target and, for a classifier, the probability of each class.

    With an ``interval`` the ends of that coverage follow each target, or the set of classes follows the class.
    """
    import pyarrow as pa

    from deepfls.data.tables import TableError, quoted

    table.require(keep, why=" to keep")
    x = model.inputs(table)
    columns: dict[str, Any] = {name: table.column(name) for name in dict.fromkeys(keep)}
    made = [(prefix + name, values) for name, values in _predictions(model, x, table.n_rows, interval)]
    names = [name for name, _ in made]
    both = [name for name in names if name in columns]
    if both:
        raise TableError(f"Column {quoted(both[0])} is both kept and predicted: name the latter with --prefix predicted_.")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise TableError(f"Column {quoted(twice[0])} would be written twice, as a target and as an end of an interval.")
    return pa.table({**columns, **{name: pa.array(values) for name, values in made}})


def _predictions(model: Model, x: Any, n_rows: int, interval: float | None) -> list[tuple[str, Any]]:
    estimator: Any = model.estimator
    names = model.target_names
    if model.classes is None:
        made = dict(zip(names, estimator.predict(x).reshape(n_rows, -1).T, strict=True))
        if interval is None:
            return list(made.items())
        ends = [end.reshape(n_rows, -1).T for end in estimator.predict_interval(x, coverage=interval)]
        columns: list[tuple[str, Any]] = []
        for name, lower, upper in zip(names, *ends, strict=True):
            columns += [(name, made[name]), (f"{name}_lower", lower), (f"{name}_upper", upper)]
        return columns
    values = estimator.predict_proba(x)
    columns = [(names[0], model.classes[values.argmax(axis=1)])]
    if interval is not None:
        sets = estimator.predict_set(x, coverage=interval)
        columns.append((f"{names[0]}_set", ["|".join(map(str, model.classes[row])) for row in sets]))
    return [*columns, *((f"{names[0]}={name}", values[:, place]) for place, name in enumerate(model.classes))]


def csv_bytes(table: pa.Table) -> bytes:
    """A table as CSV with as few quotes as its content allows; numbers read back exactly."""
    import csv
    import io

    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv as arrow_csv

    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(table.schema.names)
    columns = []
    special = False
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            special |= bool(pc.any(pc.match_substring_regex(column, '[",\r\n]')).as_py())
        columns.append(column)
    body = io.BytesIO()
    options = arrow_csv.WriteOptions(include_header=False, quoting_style="needed" if special else "none")
    arrow_csv.write_csv(pa.Table.from_arrays(columns, names=table.schema.names), body, options)
    return header.getvalue().encode() + body.getvalue()


def parquet_bytes(table: pa.Table) -> bytes:
    """A table as a Parquet file."""
    import io

    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()
