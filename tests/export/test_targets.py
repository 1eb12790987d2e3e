"""Numbers and names in exported text are read back unchanged; templates have no undefined variables."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from deepfls.export.c_header import c_header
from deepfls.export.onnx import onnx_bytes
from deepfls.export.targets import CTable, identifiers, literal, one_line, quoted, render, spaced
from export_cases import WARNINGS, compiled, needs_gcc, random_plain_system


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float_literal_identifies_its_float32(value: float) -> None:
    text = literal(value, "float")
    assert np.float32(text.removesuffix("f")) == np.float32(value)
    assert re.fullmatch(r"-?\d+(\.\d+)?(e[+-]\d+)?f", text)
    assert "." in text or "e" in text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_double_literal_identifies_its_float64(value: float) -> None:
    assert float(literal(value)) == value


def test_texts_are_those_of_other_languages() -> None:
    values = [(0.1, "float"), (3, "float"), (0.1, "double"), (-5, "int64_t"), (7, "int32_t")]
    assert [literal(*value) for value in values] == ["0.100000001f", "3.0f", "0.1", "-5LL", "7"]
    assert spaced([1, 0.5]) == "1.0 0.5"
    assert quoted("flow */ system(1);") == '"flow \\u002a\\u002f system(1);"'
    assert one_line("heat 'in'\n[Rules]") == "heat _in__[Rules]"
    assert identifiers(["heat", "heat", "2nd", "°C"], "x") == ["heat", "heat_1", "x2nd", "x_C"]


@needs_gcc
@pytest.mark.parametrize("kind", ["float", "int16_t", "int32_t", "int64_t"])
def test_table_is_read_back_exactly_by_the_compiler(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    if kind == "float":
        values = (rng.normal(size=500) * 10.0 ** rng.integers(-37, 38, 500)).astype(np.float32)
    else:
        dtype = np.dtype(kind.removesuffix("_t"))
        values = rng.integers(np.iinfo(dtype).min + 1, np.iinfo(dtype).max, 500).astype(dtype)
    table = CTable(values.reshape(10, 5, 10), kind)
    assert table.n_bytes == values.nbytes
    (tmp_path / "main.c").write_text(
        f"#include <stdint.h>\n#include <stdio.h>\nstatic const {kind} table{table.text};\n"
        "int main(void) { fwrite(table, sizeof table, 1, stdout); return 0; }\n"
    )
    subprocess.run(["gcc", *WARNINGS, "main.c", "-o", "program"], cwd=tmp_path, check=True)
    got = subprocess.run([tmp_path / "program"], capture_output=True, check=True).stdout
    assert got == values.tobytes()


def test_integers_are_split_in_halves() -> None:
    table = CTable(np.array([5, -5, 1 << 40]), "halves", 29)
    assert table.text == "[3] = {{0, 5}, {-1, 536870907}, {2048, 0}}"
    assert table.n_bytes == 24


@given(st.text())
def test_names_cannot_leave_a_comment(name: str) -> None:
    text = quoted(name)
    assert text.isascii()
    assert text.isprintable()
    assert not re.search(r"\*|/|\?", text)


@needs_gcc
def test_hostile_names_compile(tmp_path: Path) -> None:
    names = ("*/ #error x", "/* ??/\n", "ü\\")
    plain = dataclasses.replace(random_plain_system(1, n_features=3), feature_names=names)
    text = c_header(plain, prefix="plant").text
    assert 'x[0]  "\\u002a\\u002f #error x"  ' in text
    compiled(tmp_path, text)


def test_name_from_data_keeps_the_placeholder_of_the_prefix() -> None:
    plain = dataclasses.replace(random_plain_system(1, n_features=1), feature_names=("fls_heat FLS_X",))
    text = c_header(plain, prefix="pump").text
    assert 'x[0]  "fls_heat FLS_X"  ' in text
    assert "pump_heat" not in text


def test_template_without_a_variable_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'plain' is undefined"):
        render("float.h", prefix="plant")


def test_identifiers_are_distinct_and_legal() -> None:
    made = identifiers(["a", "A", "a", "", "1", "and", "é"], "x", ["and"])
    assert len({name.lower() for name in made}) == 7
    assert all(name.isascii() and name.isidentifier() for name in made)
    assert "and" not in made


@pytest.mark.parametrize("number", ["float", "q15"])
def test_c_refuses_a_type_reduction_that_it_does_not_have(number: str) -> None:
    plain = dataclasses.replace(random_plain_system(0), type_reduction="new")
    with pytest.raises(ValueError, match="A C header cannot express this system: its type reduction is 'new'"):
        c_header(plain, prefix="plant", number=number)


def test_onnx_refuses_a_type_reduction_that_it_does_not_have() -> None:
    plain = dataclasses.replace(random_plain_system(0), type_reduction="new")
    with pytest.raises(ValueError, match="An ONNX model cannot express this system: its type reduction is 'new'"):
        onnx_bytes(plain)
