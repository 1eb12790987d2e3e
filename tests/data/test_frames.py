"""Tables of any library as raw columns, and the refusal of what is no table."""

from __future__ import annotations

import warnings
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch
from pyarrow import dataset
from scipy.sparse import csr_matrix

from deepfls import FLSClassifier, FLSRegressor, load
from deepfls.data.frames import as_table, kind_of, number_array, raw_table, raw_values

N = 40
X = np.random.default_rng(0).normal(size=(N, 2))
Y = X[:, 0] - X[:, 1]
LABELS = np.where(Y > 0, "up", "down")
QUICK = {"n_rules": 2, "epochs": 1, "random_state": 0}

NO_TABLES: dict[str, tuple[Any, str]] = {
    "None": (None, "got None."),
    "path": ("t.csv", "got 't.csv': read the file first, for example with pandas.read_csv."),
    "dict": ({"a": [1.0]}, "got a dict: pandas.DataFrame(X) makes a table of it"),
    "list of dicts": ([{"a": 1.0}], "got a dict: pandas.DataFrame(X) makes a table of it"),
    "generator": ((row for row in X), "got an iterator: list(X) makes a table of it."),
    "lazy frame": (pl.DataFrame({"a": [1.0]}).lazy(), "got a lazy frame: X.collect() reads it."),
    "dataset": (dataset.dataset(pa.table({"a": [1.0]})), "got a lazy frame: X.to_table() reads it."),
    "reader": (pa.table({"a": [1.0]}).to_reader(), "got a lazy frame: X.read_all() reads it."),
    "tensor without values": (
        torch.zeros(3, 1, device="meta"),
        "A tensor must have values that NumPy can hold, got",
    ),
    "structured array": (
        np.zeros(3, dtype=[("a", float)]),
        "got a structured array: pandas.DataFrame(X) makes a table of it.",
    ),
    "ragged lists": ([[1.0, 2.0], [3.0]], "X must have rows of the same length"),
    "names twice": (pd.DataFrame(X, columns=["a", "a"]), "X must have distinct column names, got 'a' more than once"),
    "arrow names twice": (
        pa.table([[1.0], [2.0]], names=["a", "a"]),
        "X must have distinct column names, got 'a' more than",
    ),
    "no columns": (pd.DataFrame(index=range(3)), "X must have rows and columns, got shape (3, 0)."),
    "complex frame": (pd.DataFrame({"a": [1j]}), "X must hold real numbers, got: Complex data not supported."),
    "complex array": (X * 1j, "X must hold real numbers, got: Complex data not supported."),
}


@pytest.mark.parametrize("name", NO_TABLES)
def test_what_is_no_table_is_refused_with_what_to_do(name: str) -> None:
    table, message = NO_TABLES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((TypeError, ValueError)) as caught:
            as_table(table)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(X, requires_grad=True),
        torch.tensor(X).bfloat16(),
        torch.tensor(X).to_sparse(),
        torch.tensor(10 * X).long(),
        torch.tensor(X) > 0,
    ],
    ids=["with a gradient", "bfloat16", "sparse", "integers", "booleans"],
)
def test_tensor_is_the_array_of_its_values(tensor: torch.Tensor) -> None:
    values = tensor.detach().to_dense().double().numpy()
    np.testing.assert_array_equal(as_table(tensor), values)
    model = FLSRegressor(**QUICK).fit(tensor, torch.tensor(Y, requires_grad=True))
    expected = FLSRegressor(**QUICK).fit(as_table(tensor), Y)
    np.testing.assert_array_equal(model.predict(tensor), expected.predict(as_table(tensor)))
    assert FLSClassifier(**QUICK).fit(tensor, torch.tensor(Y > 0)).classes_.tolist() == [False, True]


@pytest.mark.parametrize(("labels", "kind"), [([0, 1, 2], "i"), ([0.0, 1.0, 2.0], "f")], ids=["integers", "floats"])
def test_numbers_among_python_objects_are_classes(labels: list[float], kind: str) -> None:
    y = np.array(labels, dtype=object)[np.arange(len(X)) % 3]
    model = FLSClassifier(**QUICK).fit(X, y)
    assert model.classes_.tolist() == labels
    assert model.classes_.dtype.kind == kind
    with pytest.raises(ValueError, match=r"^y must hold classes, got numbers with fractions such as 0.5 "):
        FLSClassifier(**QUICK).fit(X, np.where(y == 0, 0.5, y))


def test_record_batch_of_arrow_is_a_table_with_names() -> None:
    batch = pa.RecordBatch.from_pydict({"a": X[:, 0], "b": X[:, 1]})
    model = FLSRegressor(**QUICK).fit(batch, Y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(model.predict(batch), model.predict(pa.Table.from_batches([batch])))
    with pytest.raises(ValueError, match="must be in the same order"):
        model.predict(batch.select(["b", "a"]))


class Colour(str, Enum):
    RED, BLUE = "red", "blue"


class OwnType(pa.ExtensionType):
    """An extension of arrow's types."""

    def __init__(self) -> None:
        super().__init__(pa.int8(), "deepfls.test")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


class OtherFrame:
    """A frame of a library that is not known here, but has Arrow's C interface."""

    def __init__(self, table: pa.Table) -> None:
        self.table, self.columns, self.shape = table, table.column_names, table.shape

    columns: list[str] = []  # noqa: RUF012

    def __getitem__(self, name: str) -> Any:
        return self.table[name]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def test_complex_numbers_among_python_objects_are_refused() -> None:
    with pytest.raises(ValueError, match="Complex data not supported"):
        FLSRegressor(**QUICK).fit((X * 1j).astype(object), Y)


def test_frame_of_another_library_is_read_by_arrow() -> None:
    table = pa.table({"a": X[:, 0], "b": X[:, 1]})
    model = FLSRegressor(**QUICK).fit(OtherFrame(table), Y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(model.predict(OtherFrame(table)), model.predict(table))


def test_python_objects_in_a_frame_of_polars_are_their_values() -> None:
    table = pl.DataFrame({"a": X[:, 0], "b": pl.Series([Fraction(float(v)) for v in X[:, 1]], dtype=pl.Object)})
    np.testing.assert_array_equal(raw_table(table, ["a", "b"]).values[1], X[:, 1])


def test_masked_values_are_missing() -> None:
    masked = np.ma.array(X, mask=X > 1.0)
    with_nan = np.where(X > 1.0, np.nan, X)
    np.testing.assert_array_equal(as_table(masked), with_nan)
    with pytest.raises(ValueError, match=r"^y must be finite, got NaN in row"):
        FLSRegressor(**QUICK).fit(X, np.ma.array(Y, mask=Y > 1.0))
    with pytest.raises(ValueError, match=r"^y must have a class in every row, got none in row"):
        FLSClassifier(**QUICK).fit(X, np.ma.array(LABELS, mask=Y > 1.0))
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        FLSRegressor(**QUICK).fit(X, Y, sample_weight=np.ma.array(np.ones(N), mask=Y > 1.0))


@pytest.mark.parametrize("values", [np.array(["2024-01-01", "2024-01-02"], "M8[ns]"), np.array([1, 2], "m8[ns]")])
def test_masked_dates_and_durations_stay_such(values: Any) -> None:
    found = as_table(np.ma.array(values[:, None], mask=[[True], [False]]))
    assert found.dtype == values.dtype
    assert np.isnat(found).tolist() == [[True], [False]]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (np.array(["2024-01-02"], dtype="M8[D]"), pd.Timestamp("2024-01-02")),
        (pd.Series(pd.PeriodIndex(["2024-01"], freq="M")), pd.Timestamp("2024-01-01")),
        (pd.Series(pd.arrays.IntervalArray.from_breaks([0, 1])), "(0, 1]"),
        (pd.Series(pd.cut([0.5], [0, 1])), "(0, 1]"),
        (np.array([b"x"]), "x"),
        (pc.run_end_encode(pa.array([1.5])), 1.5),
        (np.array([36], dtype="m8[h]"), 1.5),
        (pa.array([[1]]), [1]),
        (np.array([Fraction(3, 2), None]), 1.5),
        (pa.ExtensionArray.from_storage(OwnType(), pa.array([1], pa.int8())), 1.0),
    ],
    ids=["days", "periods", "intervals", "cut", "bytes", "runs", "hours", "lists", "fractions", "extension"],
)
def test_column_of_any_type_is_read(column: Any, expected: object) -> None:
    found = raw_values(column).tolist()[0]
    assert getattr(found, "date", lambda: found)() == getattr(expected, "date", lambda: expected)()


@pytest.mark.parametrize(
    ("column_type", "kind"),
    [
        (pa.int8(), "number"),
        (pa.uint64(), "number"),
        (pa.float16(), "number"),
        (pa.decimal128(5, 2), "number"),
        (pa.bool_(), "boolean"),
        (pa.string(), "text"),
        (pa.large_string(), "text"),
        (pa.dictionary(pa.int8(), pa.string()), "category"),
        (pa.date32(), "date"),
        (pa.timestamp("us", "UTC"), "date"),
        (pa.duration("s"), "date"),
        (pa.null(), "empty"),
        (pa.binary(), "bytes"),
        (pa.month_day_nano_interval(), "interval"),
        (pa.list_(pa.float64()), "nested"),
        (pa.struct({"a": pa.int8()}), "nested"),
    ],
    ids=str,
)
def test_every_type_has_a_kind(column_type: pa.DataType, kind: str) -> None:
    assert kind_of(column_type) == kind


def test_categories_that_are_lists_are_left_out() -> None:
    pairs = pd.Categorical.from_codes(np.arange(N) % 2, pd.Index([(1, 2), (3, 4)], tupleize_cols=False))
    with pytest.warns(UserWarning, match=r"^Column 'c' holds lists or records and is left out\.$"):
        model = FLSRegressor(**QUICK).fit(pd.DataFrame({"a": X[:, 0], "c": pairs}), Y)
    assert model.system_.n_features == 1


def test_intervals_of_months_and_days_are_left_out() -> None:
    column = pa.array([(1, 2, 3)] * N, pa.month_day_nano_interval())
    with pytest.warns(UserWarning, match=r"^Column 'c' holds intervals of months and days and is left out\.$"):
        FLSRegressor(**QUICK).fit(pa.table({"a": X[:, 0], "c": column}), Y)


def test_dates_of_any_unit_are_the_same_inputs() -> None:
    days = np.datetime64("2024-01-01") + np.arange(2 * N).reshape(N, 2)
    model = FLSRegressor(**QUICK).fit(days, Y)
    np.testing.assert_array_equal(model.predict(days.astype("M8[ns]")), model.predict(days))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (pd.date_range("2024", periods=N), "y must hold numbers, got dates or durations"),
        ([object()] * N, "y must hold numbers, got values of the type object"),
        ([1.0, object()] * (N // 2), "y must hold numbers, got values of the type object"),
        (np.array([pd.NA, *Y[1:]], dtype=object), r"y must be finite, got NaN in row 0 \(1 such value in all\)"),
        ([10**400] * N, r"y must be within ±1e\+150, got a whole number of more digits than a float holds\."),
        (["p" * 3000] * N, r"y must hold numbers, got text \('p{1,80}…'\); FLSClassifier learns classes\."),
        (LABELS.astype("S4"), r"y must hold numbers, got text \('\w+'\); FLSClassifier"),
    ],
)
def test_target_without_numbers_is_refused(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        FLSRegressor(**QUICK).fit(X, y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            np.where(Y > 1, None, LABELS),
            r"y must have a class in every row, got none in row \d+ \(\d+ such rows in all\)\.",
        ),
        (
            pd.array([pd.NA, *LABELS[1:]], dtype="string"),
            r"y must have a class in every row, got none in row 0 \(1 such row in",
        ),
        (np.array([1, "x"] * (N // 2), dtype=object), "y must hold classes of one type, got int and str"),
        ([1, "x"] * (N // 2), "y must hold classes of one type, got int and str"),
        ([Colour.RED, Colour.BLUE] * (N // 2), "y must hold text, .* as classes, got values of the type Colour"),
        (
            pd.date_range("2024", periods=N),
            r"y must hold text, numbers or booleans as classes, got dates \(Unknown label type: ",
        ),
        (np.arange(N).astype("m8[h]"), "y must hold text, numbers or booleans as classes, got durations"),
        (
            [Decimal(1), Decimal(2)] * (N // 2),
            "y must hold text, numbers or booleans as classes, got values of the type Decimal",
        ),
        ([10**30, 10**31] * (N // 2), "y must hold text, .* as classes, got values of the type int"),
    ],
    ids=["None", "NA", "two types", "list of two types", "own texts", "dates", "durations", "decimals", "large numbers"],
)
def test_classes_that_are_none_are_refused(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        FLSClassifier(**QUICK).fit(X, y)


def test_bytes_are_classes_of_text(tmp_path: Path) -> None:
    model = FLSClassifier(**QUICK).fit(X, LABELS.astype("S4"))
    assert model.classes_.tolist() == ["down", "up"]
    model.save(tmp_path / "m.fls")
    np.testing.assert_array_equal(load(tmp_path / "m.fls").predict(X), model.predict(X))


@pytest.mark.parametrize("dtype", ["boolean", "bool[pyarrow]", "Int64", "int64[pyarrow]"])
@pytest.mark.parametrize("made", [pd.array, pd.Series], ids=["array", "series"])
def test_nullable_classes_have_their_own_type(dtype: str, made: Any) -> None:
    kind = bool if dtype.startswith("bool") else np.int64
    model = FLSClassifier(**QUICK).fit(X, made((Y > 0).astype(kind), dtype=dtype))
    assert model.classes_.dtype == kind
    assert model.classes_.tolist() == [0, 1]


def test_sparse_targets_are_refused() -> None:
    with pytest.raises(TypeError, match=r"^y must be dense, got a sparse matrix: y\.toarray\(\) makes an array of it\.$"):
        FLSRegressor(**QUICK).fit(X, csr_matrix(Y[:, None]))


def test_missing_error_names_the_column_of_the_table() -> None:
    table = pd.DataFrame({"x": X[:, 0], "colour": [None, "red", "blue", "green"] * 10})
    with pytest.raises(
        ValueError, match=r"^X must have no missing value with missing='error', got one in row 0, column 'colour' "
    ):
        FLSRegressor(**QUICK, missing="error").fit(table, Y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sample_weight": ["a"] * N}, r"sample_weight must hold numbers, got text \('a'\)\."),
        ({"sample_weight": np.ones(N) * 1j}, r"sample_weight must hold real numbers, got complex128\."),
        ({"eval_set": [(X, Y), (X, Y)]}, r"eval_set must be \(X, y\), or a list of one such pair\."),
    ],
)
def test_other_arguments_of_fit_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        FLSRegressor(**QUICK).fit(X, Y, **arguments)


def test_negative_class_weight_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^class_weight must be at least 0, got -2\.$"):
        FLSClassifier(**QUICK, class_weight={"up": -2}).fit(X, LABELS)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1, None, 3]), [1, np.nan, 3]),
        (pa.chunked_array([[1.5, 2.0], [None]])[1:], [2.0, np.nan]),
        (pa.array([*range(9), None, 10])[7:], [7, 8, np.nan, 10]),
        (pa.array([True, None, False]), [1, np.nan, 0]),
        (pa.nulls(2), [np.nan] * 2),
        (pa.chunked_array([], pa.int64()), []),
    ],
    ids=str,
)
def test_number_array_has_nan_for_nulls(values: Any, expected: list[float]) -> None:
    np.testing.assert_array_equal(number_array(values), np.array(expected, dtype=float))
