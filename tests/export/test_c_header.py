"""C headers of every number format: prefix, sizes, margins, and compilation in several files."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from deepfls.export.c_header import c_header, write_c
from export_cases import WARNINGS, compiled, inputs_of, needs_gcc, random_plain_system, run_c


@needs_gcc
@pytest.mark.parametrize("number", ["float", "q15", "q31"])
def test_header_compiles_as_cpp_and_in_two_files(number: str, tmp_path: Path) -> None:
    header = c_header(random_plain_system(1), prefix="plant", number=number).text
    scalar = {"float": "float", "q15": "int16_t", "q31": "int32_t"}[number]
    (tmp_path / "plant.h").write_text(header)
    other = f'#include "plant.h"\n{scalar} other(const {scalar} *x, {scalar} *y);\n'
    other += f"{scalar} other(const {scalar} *x, {scalar} *y) {{ plant_predict(x, y); return y[0]; }}\n"
    (tmp_path / "other.c").write_text(other)
    (tmp_path / "main.c").write_text(
        f'#include "plant.h"\n#include "plant.h"\nextern {scalar} other(const {scalar} *x, {scalar} *y);\n'
        f"int main(void) {{ {scalar} x[PLANT_INPUTS] = {{0}}, y[PLANT_OUTPUTS], z[PLANT_OUTPUTS]; plant_predict(x, y); "
        "return other(x, z) == y[0] ? 0 : 1; }\n"
    )
    subprocess.run(["gcc", *WARNINGS, "main.c", "other.c", "-o", "program", "-lm"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "program"], check=True)
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed: only C was compiled")
    (tmp_path / "main.cpp").write_text('#define PLANT_WITH_FLOAT\n#include "plant.h"\n')
    subprocess.run(["g++", "-std=c++11", *WARNINGS[1:], "-fsyntax-only", "main.cpp"], cwd=tmp_path, check=True)


@needs_gcc
def test_margin_widens_the_interval(tmp_path: Path) -> None:
    for kind in ("t1", "it2"):
        plain = random_plain_system(2, kind=kind, n_outputs=2)
        x = inputs_of(plain, 100)
        header = c_header(plain, prefix="plant", margin=[0.5, 2.0]).text
        got, truth = run_c(compiled(tmp_path, header), x, 2), plain.output(x)
        margin = np.array([0.5, 2.0])
        np.testing.assert_allclose(got.y_left, truth.y_left - margin, rtol=1e-5)
        np.testing.assert_allclose(got.y_right, truth.y_right + margin, rtol=1e-5)
    with pytest.raises(ValueError, match=r"margin must be a number or have shape \(2,\), got shape \(3,\)\."):
        c_header(plain, prefix="plant", margin=[1, 2, 3])
    with pytest.raises(ValueError, match=r"margin must be at least 0, got -1\.0\."):
        c_header(plain, prefix="plant", margin=-1)


@pytest.mark.parametrize(
    ("prefix", "suggestion"),
    [("my-plant", "my_plant"), ("2plants", "model_2plants"), ("_x", "x"), ("", "model"), ("a b", "a_b"), ("größe", "gr_e")],
)
def test_illegal_prefix_is_an_error_with_a_suggestion(prefix: str, suggestion: str) -> None:
    with pytest.raises(ValueError, match="prefix must be a C identifier") as error:
        c_header(random_plain_system(0), prefix=prefix)
    assert str(error.value).endswith(f"got {prefix!r}: try prefix={suggestion!r}.")
    assert c_header(random_plain_system(0), prefix=suggestion).text.startswith("/*")


def test_prefix_of_another_type_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"prefix must be a string, got 3\."):
        c_header(random_plain_system(0), prefix=3)  # type: ignore[arg-type]


def test_large_system_is_refused_with_its_size_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "plant.h"
    header = c_header(random_plain_system(0, n_rules=10_000, n_features=4, n_outputs=1), prefix="plant")
    message = (
        r"The header must fit 32,768 bytes of flash and 8,192 bytes of RAM, got about 1,8\d\d,\d\d\d and 200,\d\d\d: "
        r"train fewer rules, state a larger part with flash= and ram=, or take force=True \(--force\)"
    )
    with pytest.raises(ValueError, match=message):
        write_c(path, header, flash=32_768, ram=8_192)
    assert not path.exists()
    assert write_c(path, header, flash=32_768, ram=8_192, force=True).flash_bytes > 1_800_000


def test_limits_are_those_of_the_part(tmp_path: Path) -> None:
    header = c_header(random_plain_system(0, n_rules=200, n_features=4, n_outputs=1), prefix="plant")
    for flash, ram in ((10_000, 8_192), (32_768, 1_000)):
        with pytest.raises(ValueError, match="The header must fit"):
            write_c(tmp_path / "plant.h", header, flash=flash, ram=ram)
    write_c(tmp_path / "plant.h", header, flash=40_000, ram=5_000)


def test_every_name_of_a_header_has_its_prefix() -> None:
    for number in ("float", "q15"):
        text = re.sub(
            r"/\*.*?\*/", "", c_header(random_plain_system(0), prefix="pump", number=number).text, flags=re.DOTALL
        )
        defined = re.findall(r"^(?:static (?:inline|const) \w+|#define|typedef \w+) (\w+)", text, flags=re.MULTILINE)
        assert defined
        assert all(name.lower().startswith("pump_") for name in defined)
        assert "fls" not in text.lower()
