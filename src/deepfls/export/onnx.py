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

    from deepfls import __version__

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
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.dtype = dtype
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


def _inputs(g: _Graph, plain: AnyModel, form: ColumnForm | None, inner: Any) -> str:
    """Inputs of the system from the columns x: categories encoded, wild values clipped."""
    x = g.node("Cast", "x", to=inner)
    if form is not None:
        values = g.node("Gather", x, g.constant("sources", form.sources, np.int64), axis=1)
        encoded = g.node("Cast", g.node("Equal", values, g.constant("codes", form.codes)), to=inner)
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
    from onnx import TensorProto

    g.constant("axis_1", [1], np.int64)
    g.constant("axis_2", [2], np.int64)
    inner = TensorProto.DOUBLE if g.dtype == "float64" else TensorProto.FLOAT
    x = _inputs(g, model, form, inner)
    each = []
    for number, system in enumerate(model.systems):
        g.prefix = f"system{number}_" if len(model.systems) > 1 else ""
        each.append(_system(g, system, x, inner, sets=model.kind != "t1"))
    g.prefix = ""

    def mean(values: Sequence[str]) -> str:
        if len(values) == 1:
            return values[0]
        shares = [g.constant(f"system_share_{len(g.constants)}", share) for share in model.shares]
        return g.node("Sum", *(g.node("Mul", *pair) for pair in zip(values, shares, strict=True)))

    _finish(g, model, [mean(values) for values in zip(*each, strict=True)])


class _RuleNames(NamedTuple):
    """Names of the values of the rules: log-firing, each (batch, rules), and consequents (batch, rules, outputs).

    ``lower`` is empty for Type-1 systems.
    """

    lower: str
    upper: str
    peak: str  # the largest upper log-firing of each row, (batch, 1)
    consequents: str


def _system(g: _Graph, plain: PlainSystem, x: str, inner: Any, *, sets: bool) -> list[str]:
    """Crisp output and, where there are ``sets``, their ends of a system, from its inputs."""
    t = CenteredTables.of(plain)
    rules = _rule_values(g, plain, t, x, inner)
    if plain.kind == "t1":
        y = _average(g, _firing(g, rules.upper, rules.peak), rules.consequents)
        outputs = [y] * 3 if sets else [y]
    else:
        outputs = _interval_outputs(g, plain, rules)
    offset = g.constant("offsets", t.offsets)
    return [g.node("Add", value, offset) for value in outputs]


def _rule_values(g: _Graph, plain: PlainSystem, t: CenteredTables, x: str, inner: Any) -> _RuleNames:
    """Log-firing and consequents of the rules."""
    offset = g.node("Sub", x, g.constant("origin", t.origin))
    z = g.node("Mul", offset, g.constant("per_unit", 1.0 / t.units))
    z = g.node("Clip", z, g.constant("nearest", -t.farthest), g.constant("farthest", t.farthest))
    known = ""
    if plain.missing:
        known = g.node("Cast", g.node("Not", g.node("IsNaN", x)), to=inner)
        z = g.node("Where", g.node("IsNaN", x), g.constant("zero", 0.0), z)
    distances = g.node("Sub", g.node("Unsqueeze", z, "axis_1"), g.constant("centers", t.centers[np.newaxis]))
    squares = g.node("Mul", distances, distances)
    if known:
        squares = g.node("Mul", squares, g.node("Unsqueeze", known, "axis_1"))

    def exponents(name: str, weights: Array) -> str:
        # The minus sign belongs to the weights.
        product = g.node("Mul", squares, g.constant(name, -weights[np.newaxis]))
        return g.node("ReduceSum", product, "axis_2", keepdims=0)

    upper = exponents("upper_weights", t.upper_weights)
    g.constant("floor", _FLOORS[g.dtype])
    peak = g.node("ReduceMax", upper, "axis_1", keepdims=1)
    shape = g.constant("rules_and_outputs", [-1, plain.n_rules, plain.n_outputs], np.int64)
    slopes = np.moveaxis(t.slopes, 2, 0).reshape(plain.n_features, -1)
    linear = g.node("MatMul", z, g.constant("slopes", slopes))
    if known:
        # A rule takes the center of its set in place of an unknown input.
        fills = np.moveaxis(t.slopes * t.centers[:, np.newaxis], 2, 0).reshape(plain.n_features, -1)
        unknown = g.node("Sub", g.constant("one", 1.0), known)
        linear = g.node("Add", linear, g.node("MatMul", unknown, g.constant("fills", fills)))
    linear = g.node("Reshape", linear, shape)
    consequents = g.node("Add", linear, g.constant("intercepts", t.intercepts[np.newaxis]))
    if plain.kind == "t1":
        return _RuleNames("", upper, peak, consequents)
    if known and plain.alphas is None:
        heights = g.node("MatMul", known, g.constant("each_log_height", plain.grade_power * plain.log_heights.T))
    else:
        heights = g.constant("log_heights", t.log_heights)
    lower = g.node("Add", exponents("lower_weights", t.lower_weights), heights)
    return _RuleNames(g.node("Min", lower, upper), upper, peak, consequents)


def _firing(g: _Graph, logs: str, peak: str) -> str:
    """Firing relative to a peak, held above the floor."""
    return g.node("Exp", g.node("Max", g.node("Sub", logs, peak), f"{g.prefix}floor"))


def _average(g: _Graph, weights: str, consequents: str) -> str:
    """Mean of the consequents with weights (batch, rules)."""
    weighted = g.node("Mul", g.node("Unsqueeze", weights, "axis_2"), consequents)
    total = g.node("ReduceSum", weights, "axis_1", keepdims=1)
    return g.node("Div", g.node("ReduceSum", weighted, "axis_1", keepdims=0), total)


def _interval_outputs(g: _Graph, plain: PlainSystem, rules: _RuleNames) -> list[str]:
    """Crisp output and both ends of the type-reduced set, or of the widest plane."""
    low, up = _firing(g, rules.lower, rules.peak), _firing(g, rules.upper, rules.peak)
    ordered = _ordered_rules(g, rules.consequents, plain.n_rules)
    left, right = _end_points(g, low, up, ordered)
    if plain.alphas is not None:
        y = _mean_of_planes(g, plain, rules, ordered)
    elif plain.type_reduction == "km":
        y = g.node("Mul", g.node("Add", left, right), g.constant("half", 0.5))
    elif plain.type_reduction == "nt":
        y = _average(g, g.node("Add", low, up), rules.consequents)
    else:
        mix = np.full(plain.n_outputs, 0.5) if plain.mix is None else plain.mix
        own_peak = g.node("ReduceMax", rules.lower, "axis_1", keepdims=1)
        own = _average(g, _firing(g, rules.lower, own_peak), rules.consequents)
        y = g.node("Mul", own, g.constant("mix", mix))
        y = g.node("Add", y, g.node("Mul", _average(g, up, rules.consequents), g.constant("rest", 1.0 - mix)))
    if plain.type_reduction != "km":
        # Rounding, and firing below the floor, may place y outside the ends: clipped as in IT2FLS.reduce.
        y = g.node("Min", g.node("Max", y, left), right)
    return [y, left, right]


def _mean_of_planes(g: _Graph, plain: PlainSystem, rules: _RuleNames, ordered: _Ordered) -> str:
    """The middles of the planes of a General Type-2 system, weighted by their levels."""
    # Log-firing of a plane is linear in its width, from that of the primary grades to that of the widest plane.
    primary = g.node("Sub", rules.lower, f"{g.prefix}log_heights")
    y = ""
    for k, (share, plane_t) in enumerate(plain.plane_shares()):
        width = g.constant(f"width_{k}", plane_t)
        bounds = [
            g.node("Add", primary, g.node("Mul", g.node("Sub", bound, primary), width))
            for bound in (rules.lower, rules.upper)
        ]
        peak = g.node("ReduceMax", bounds[1], "axis_1", keepdims=1)
        plane = _end_points(g, _firing(g, bounds[0], peak), _firing(g, bounds[1], peak), ordered)
        part = g.node("Mul", g.node("Add", *plane), g.constant(f"share_{k}", 0.5 * share))
        y = g.node("Add", y, part) if y else part
    return y


class _Ordered(NamedTuple):
    """Names of the consequents in rising order, of the order, and of the shape and the dimension to order firing by."""

    y: str
    order: str
    shape: str
    dimension: str


def _ordered_rules(g: _Graph, consequents: str, n_rules: int) -> _Ordered:
    """The consequents in rising order for each output."""
    from onnx import helper

    count = g.constant("n_rules", [n_rules], np.int64)
    y, order = f"{g.prefix}ordered", f"{g.prefix}order"
    g.nodes.append(helper.make_node("TopK", [consequents, count], [y, order], axis=1, largest=0, sorted=1))
    return _Ordered(y, order, g.node("Shape", consequents), g.constant("rules_dimension", 1, np.int64))


def _end_points(g: _Graph, low: str, up: str, rules: _Ordered) -> tuple[str, str]:
    """Ends of the type-reduced set: the extremes over the switch points of the ordered rules.

    At switch point k the left mean takes the upper firing of the first k rules and the lower firing of the others, the
    right mean the reverse. The switch points "all lower" and "all upper" are never the only extremes, so P of them suffice.
    """
    y, order, shape, first = rules

    def ordered(firing: str) -> str:
        return g.node("GatherElements", g.node("Expand", g.node("Unsqueeze", firing, "axis_2"), shape), order, axis=1)

    def means(inner: str, outer: str, *, left: bool) -> str:
        # Sums from both sides: "total minus prefix" cancels.
        def both(below: str, above: str) -> str:
            begin = g.node("CumSum", below, first, exclusive=0 if left else 1)
            rest = g.node("CumSum", above, first, exclusive=1 if left else 0, reverse=1)
            return g.node("Add", begin, rest)

        return g.node("Div", both(g.node("Mul", inner, y), g.node("Mul", outer, y)), both(inner, outer))

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
