"""A trained system as an ONNX graph: scaling inside, dynamic batch, compared in onnxruntime before it is written.

The graph is written node by node in standard operators, so it does not depend on the tracing of a torch version. The end
points of the type-reduced set come from a sort and cumulative sums: a graph has no early exit, which makes sweeps cheap.
"""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepfls import __version__
from deepfls._checks.arguments import check_option
from deepfls._checks.values import Array, softmax
from deepfls._files import write_whole
from deepfls.export.centered import CenteredTables
from deepfls.export.targets import ColumnForm, check_type_reduction, rows_for
from deepfls.functional.constants import LOG_FLOORS
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.plain_model import AnyModel

DTYPES = {"float64": np.float64, "float32": np.float32}
# Largest accepted errors, relative to the spread of the outputs over the compared rows. float32 also rounds the firing.
_LIMITS = {"float64": 1e-5, "float32": 1e-3}
_FLOORS = {name: LOG_FLOORS[name] for name in ("float64", "float32")}
_OPSET, _IR_VERSION = 18, 9
# Timed runs, of which the median is reported.
_REPEATS = 20


class OnnxReport(NamedTuple):
    """The file, its bytes, microseconds for one row alone and per row in a batch of 1,000, error by the outputs' spread."""

    path: str
    size: int
    microseconds_alone: float
    microseconds_in_batch: float
    error: float

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.size:,} bytes; {self.microseconds_alone:.0f} µs for one row, "
            f"{self.microseconds_in_batch:.2f} µs a row in batches of 1,000; within {self.error:.1g} of the outputs' spread"
        )


def write_onnx(path: str | os.PathLike[str], plain: AnyModel, *, dtype: str = "float64", rows: Any = None) -> OnnxReport:
    """Write a system as an ONNX model, completely or not at all; :meth:`FLSRegressor.to_onnx` has the parameters.

    The input is ``x`` (batch, features) in float32; the outputs are ``y`` and, for Interval Type-2 systems, ``y_left`` and
    ``y_right``, each (batch, outputs) in float32. ``y`` of a classifier are probabilities; its ends are those of logits.
    float64 arithmetic agrees to the rounding of the outputs; float32 is for devices without float64.
    """
    check_option("dtype", dtype, tuple(DTYPES))
    missing = [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(f"ONNX export needs {' and '.join(missing)}: pip install 'deepfls[onnx]'.")
    content = onnx_bytes(plain, dtype)
    x = rows_for(plain, rows, 1_000).astype(np.float32)
    form = ColumnForm.of(plain)
    if form is not None:
        x = form.columns(x.astype(np.float64)).astype(np.float32)
    if plain.missing and rows is None:
        x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    alone, in_batch, errors = _compared(content, plain, x)
    error = max(errors)
    if not error <= _LIMITS[dtype]:
        raise ValueError(
            f"The ONNX model must agree with the estimator to {_LIMITS[dtype]:g} of the output's spread, got {error:.3g}."
        )
    write_whole(Path(path), content)
    return OnnxReport(str(path), len(content), alone, in_batch, error)


def onnx_bytes(plain: AnyModel, dtype: str = "float64") -> bytes:
    """The model that :func:`write_onnx` writes."""
    import onnx
    from onnx import TensorProto, helper

    check_type_reduction("An ONNX model", plain)
    graph = _Graph(dtype)
    form = ColumnForm.of(plain)
    columns = plain.feature_names if form is None else form.names
    _model(graph, plain, form)
    outputs = ["y"] if plain.kind == "t1" else ["y", "y_left", "y_right"]
    made = helper.make_graph(
        graph.nodes,
        "deepfls",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", len(columns)])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", plain.n_outputs]) for name in outputs],
        graph.constants,
    )
    model = helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="deepfls",
        producer_version=__version__,
    )
    props = {key: "\n".join(value) for key, value in (("inputs", columns), ("outputs", plain.output_names))}
    if form is not None:
        named = {columns[column]: list(values) for column, values in form.categories.items()}
        props["categories"] = json.dumps(named, ensure_ascii=True)  # the value of such a column is the index in its list
    helper.set_model_props(model, props)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


class _Graph:
    """Nodes and constants of a graph under construction; values are identified by their names.

    ``prefix`` begins the names of the constants of one of several systems.
    """

    def __init__(self, dtype: str) -> None:
        from onnx import TensorProto

        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.dtype = dtype
        self.kind = TensorProto.DOUBLE if dtype == "float64" else TensorProto.FLOAT
        self.prefix = ""
        self._n_made = 0

    def constant(self, name: str, value: Any, kind: Any = None) -> str:
        from onnx import numpy_helper

        array = np.asarray(value, dtype=DTYPES[self.dtype] if kind is None else kind)
        self.constants.append(numpy_helper.from_array(array, f"{self.prefix}{name}"))
        return f"{self.prefix}{name}"

    def node(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        self._n_made += 1
        output = output or f"{operator.lower()}_{self._n_made}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output


def _inputs(g: _Graph, plain: AnyModel, form: ColumnForm | None) -> str:
    """Inputs of the system from the columns x: categories encoded, wild values clipped."""
    x = g.node("Cast", "x", to=g.kind)
    if form is not None:
        values = g.node("Gather", x, g.constant("sources", form.sources, np.int64), axis=1)
        encoded = g.node("Cast", g.node("Equal", values, g.constant("codes", form.codes)), to=g.kind)
        kept = g.constant("are_numbers", form.codes[np.newaxis] < 0, np.bool_)
        encoded = g.node("Where", kept, values, encoded)
        x = g.node("Where", g.node("IsNaN", values), g.constant("not_known", np.nan), encoded)
    if plain.bounds is not None:
        # Where, because minimum and maximum may drop NaN.
        low, high = (g.constant(name, bound) for name, bound in zip(("low", "high"), plain.bounds, strict=True))
        x = g.node("Where", g.node("Less", x, low), low, x)
        x = g.node("Where", g.node("Greater", x, high), high, x)
    return x


def _model(g: _Graph, model: AnyModel, form: ColumnForm | None) -> None:
    """All nodes from x to the outputs, which are means over the systems."""
    g.constant("axis_1", [1], np.int64)
    g.constant("axis_2", [2], np.int64)
    x = _inputs(g, model, form)
    each = []
    for number, system in enumerate(model.systems):
        g.prefix = f"system{number}_" if len(model.systems) > 1 else ""
        each.append(_SystemNodes(g, system, x).outputs(sets=model.kind != "t1"))
    g.prefix = ""

    def mean(values: Sequence[str]) -> str:
        if len(values) == 1:
            return values[0]
        shares = [g.constant(f"system_share_{len(g.constants)}", share) for share in model.shares]
        return g.node("Sum", *(g.node("Mul", *pair) for pair in zip(values, shares, strict=True)))

    _finish(g, model, [mean(values) for values in zip(*each, strict=True)])


class _SystemNodes:
    """The nodes of one system. Attributes are names of its values: log-firing ``lower`` (empty for Type-1 systems) and
    ``upper``, each (batch, rules), the ``peak`` of each row (batch, 1), and ``consequents`` (batch, rules, outputs)."""

    def __init__(self, g: _Graph, plain: PlainSystem, x: str) -> None:
        self.g, self.plain, self.tables = g, plain, CenteredTables(plain)
        t = self.tables
        offset = g.node("Sub", x, g.constant("origin", t.origin))
        z = g.node("Mul", offset, g.constant("per_unit", 1.0 / t.units))
        z = g.node("Clip", z, g.constant("nearest", -t.farthest), g.constant("farthest", t.farthest))
        known = ""
        if plain.missing:
            known = g.node("Cast", g.node("Not", g.node("IsNaN", x)), to=g.kind)
            z = g.node("Where", g.node("IsNaN", x), g.constant("zero", 0.0), z)
        distances = g.node("Sub", g.node("Unsqueeze", z, "axis_1"), g.constant("centers", t.centers[np.newaxis]))
        squares = g.node("Mul", distances, distances)
        if known:
            squares = g.node("Mul", squares, g.node("Unsqueeze", known, "axis_1"))

        def exponents(name: str, weights: Array) -> str:
            # The minus sign belongs to the weights.
            product = g.node("Mul", squares, g.constant(name, -weights[np.newaxis]))
            return g.node("ReduceSum", product, "axis_2", keepdims=0)

        self.lower, self.upper = "", exponents("upper_weights", t.upper_weights)
        self.floor = g.constant("floor", _FLOORS[g.dtype])
        self.peak = g.node("ReduceMax", self.upper, "axis_1", keepdims=1)
        shape = g.constant("rules_and_outputs", [-1, plain.n_rules, plain.n_outputs], np.int64)
        slopes = np.moveaxis(t.slopes, 2, 0).reshape(plain.n_features, -1)
        linear = g.node("MatMul", z, g.constant("slopes", slopes))
        if known:
            # A rule takes the center of its set in place of an unknown input.
            fills = np.moveaxis(t.slopes * t.centers[:, np.newaxis], 2, 0).reshape(plain.n_features, -1)
            unknown = g.node("Sub", g.constant("one", 1.0), known)
            linear = g.node("Add", linear, g.node("MatMul", unknown, g.constant("fills", fills)))
        linear = g.node("Reshape", linear, shape)
        self.consequents = g.node("Add", linear, g.constant("intercepts", t.intercepts[np.newaxis]))
        if plain.kind == "t1":
            return
        if known and plain.alphas is None:
            heights = g.node("MatMul", known, g.constant("each_log_height", plain.grade_power * plain.log_heights.T))
        else:
            heights = g.constant("log_heights", t.log_heights)
        lower = g.node("Add", exponents("lower_weights", t.lower_weights), heights)
        self.lower = g.node("Min", lower, self.upper)

    def outputs(self, *, sets: bool) -> list[str]:
        """Crisp output and, where there are ``sets``, their ends: those of the type-reduced set, or of the widest plane."""
        if self.plain.kind == "t1":
            found = [self.average(self.firing(self.upper, self.peak))] * (3 if sets else 1)
        else:
            found = self.interval_outputs()
        offset = self.g.constant("offsets", self.tables.offsets)
        return [self.g.node("Add", value, offset) for value in found]

    def firing(self, logs: str, peak: str) -> str:
        """Firing relative to a peak, held above the floor."""
        return self.g.node("Exp", self.g.node("Max", self.g.node("Sub", logs, peak), self.floor))

    def average(self, weights: str) -> str:
        """Mean of the consequents with weights (batch, rules)."""
        g = self.g
        weighted = g.node("Mul", g.node("Unsqueeze", weights, "axis_2"), self.consequents)
        total = g.node("ReduceSum", weights, "axis_1", keepdims=1)
        return g.node("Div", g.node("ReduceSum", weighted, "axis_1", keepdims=0), total)

    def interval_outputs(self) -> list[str]:
        g, plain = self.g, self.plain
        low, up = self.firing(self.lower, self.peak), self.firing(self.upper, self.peak)
        self.order_rules()
        left, right = self.end_points(low, up)
        if plain.alphas is not None:
            y = self.mean_of_planes()
        elif plain.type_reduction == "km":
            y = g.node("Mul", g.node("Add", left, right), g.constant("half", 0.5))
        elif plain.type_reduction == "nt":
            y = self.average(g.node("Add", low, up))
        else:
            mix = np.full(plain.n_outputs, 0.5) if plain.mix is None else plain.mix
            own_peak = g.node("ReduceMax", self.lower, "axis_1", keepdims=1)
            own = self.average(self.firing(self.lower, own_peak))
            y = g.node("Mul", own, g.constant("mix", mix))
            y = g.node("Add", y, g.node("Mul", self.average(up), g.constant("rest", 1.0 - mix)))
        if plain.type_reduction != "km":
            # Rounding, and firing below the floor, may place y outside the ends: clipped as in IT2FLS.reduce.
            y = g.node("Min", g.node("Max", y, left), right)
        return [y, left, right]

    def mean_of_planes(self) -> str:
        """The middles of the planes of a General Type-2 system, weighted by their levels."""
        # Log-firing of a plane is linear in its width, from that of the primary grades to that of the widest plane.
        g = self.g
        primary = g.node("Sub", self.lower, f"{g.prefix}log_heights")
        y = ""
        for k, (share, plane_t) in enumerate(self.plain.plane_shares()):
            width = g.constant(f"width_{k}", plane_t)
            steps = (g.node("Mul", g.node("Sub", bound, primary), width) for bound in (self.lower, self.upper))
            low, up = (g.node("Add", primary, step) for step in steps)
            peak = g.node("ReduceMax", up, "axis_1", keepdims=1)
            plane = self.end_points(self.firing(low, peak), self.firing(up, peak))
            part = g.node("Mul", g.node("Add", *plane), g.constant(f"share_{k}", 0.5 * share))
            y = g.node("Add", y, part) if y else part
        return y

    def order_rules(self) -> None:
        """The consequents in rising order for each output, and what orders firing in the same way."""
        from onnx import helper

        g = self.g
        count = g.constant("n_rules", [self.plain.n_rules], np.int64)
        self.rising, self.order = f"{g.prefix}ordered", f"{g.prefix}order"
        names = [self.rising, self.order]
        g.nodes.append(helper.make_node("TopK", [self.consequents, count], names, axis=1, largest=0, sorted=1))
        self.shape = g.node("Shape", self.consequents)
        self.dimension = g.constant("rules_dimension", 1, np.int64)

    def end_points(self, low: str, up: str) -> tuple[str, str]:
        """Ends of the type-reduced set: the extremes over the switch points of the ordered rules.

        At switch point k the left mean takes the upper firing of the first k rules and the lower firing of the others, the
        right mean the reverse. The switch points "all lower" and "all upper" are never the only extremes, so P of them
        suffice.
        """
        g = self.g

        def ordered(firing: str) -> str:
            columns = g.node("Expand", g.node("Unsqueeze", firing, "axis_2"), self.shape)
            return g.node("GatherElements", columns, self.order, axis=1)

        def means(inner: str, outer: str, *, left: bool) -> str:
            # Sums from both sides: "total minus prefix" cancels.
            def both(below: str, above: str) -> str:
                begin = g.node("CumSum", below, self.dimension, exclusive=0 if left else 1)
                rest = g.node("CumSum", above, self.dimension, exclusive=1 if left else 0, reverse=1)
                return g.node("Add", begin, rest)

            weighted = (g.node("Mul", firing, self.rising) for firing in (inner, outer))
            return g.node("Div", both(*weighted), both(inner, outer))

        low, up = ordered(low), ordered(up)
        y_left = g.node("ReduceMin", means(up, low, left=True), "axis_1", keepdims=0)
        y_right = g.node("ReduceMax", means(low, up, left=False), "axis_1", keepdims=0)
        return y_left, g.node("Max", y_left, y_right)


def _finish(g: _Graph, plain: AnyModel, outputs: Sequence[str]) -> None:
    """NaN for rows with NaN, probabilities, and float32 outputs."""
    from onnx import TensorProto

    # Minimum and maximum may drop NaN, so NaN is restored at the end.
    broken = g.node("Cast", g.node("IsInf" if plain.missing else "IsNaN", "x"), to=TensorProto.FLOAT)
    broken = g.node("Greater", g.node("ReduceMax", broken, "axis_1", keepdims=1), g.constant("none", 0.0, np.float32))
    nan = g.constant("nan", np.nan, np.float32)
    for name, value in zip(("y", "y_left", "y_right"), outputs, strict=False):
        value = g.node("Softmax", value, axis=1) if plain.classes is not None and name == "y" else value
        g.node("Where", broken, nan, g.node("Cast", value, to=TensorProto.FLOAT), output=name)


def _compared(content: bytes, plain: AnyModel, x: Array) -> tuple[float, float, list[float]]:
    """Microseconds of one row, per row in a batch, and the error of every output relative to its spread over the rows."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    form = ColumnForm.of(plain)
    truth = plain.output(x.astype(np.float64) if form is None else form.inputs(x.astype(np.float64)))
    expected = {"y": truth.y, "y_left": truth.y_left, "y_right": truth.y_right}
    if plain.classes is not None:
        expected["y"] = softmax(truth.y)
    names = [output.name for output in session.get_outputs()]
    got = dict(zip(names, session.run(names, {"x": x}), strict=True))
    errors = []
    for name in names:
        spread = np.maximum(expected[name].std(axis=0), 1e-2 * np.abs(expected[name]).max(axis=0))
        errors.append(float((np.abs(got[name] - expected[name]) / np.maximum(spread, 1e-30)).max()))
    many = np.resize(x, (1_000, x.shape[1]))
    return _microseconds(session, many[:1]), _microseconds(session, many) / len(many), errors


def _microseconds(session: Any, x: Array) -> float:
    seconds = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        session.run(None, {"x": x})
        seconds.append(time.perf_counter() - began)
    return 1e6 * float(np.median(seconds))
