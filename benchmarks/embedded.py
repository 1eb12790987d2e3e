"""What does an exported system cost on a microcontroller? Flash, stack and instructions on an emulated Cortex-M.

    python benchmarks/embedded.py [--rows N] [--markdown FILE]

Compiles exported headers with Debian's gcc-arm-none-eabi and runs them in qemu-system-arm, which counts instructions: with
``-icount shift=0`` one instruction takes one nanosecond of the time that the SysTick timer measures. Cycles of a real part
differ: loads, divisions and flash waits take more than one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from _report import markdown_table, option_parser, positive, write_results
from deepfls import FLSRegressor
from deepfls.export.c_header import c_header
from deepfls.export.fixed_point import FixedPoint
from deepfls.inspection.plain import PlainSystem

SOURCES = Path(__file__).parent / "cortex_m"
TOOLS = ("arm-none-eabi-gcc", "arm-none-eabi-size", "qemu-system-arm")
PACKAGES = "gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
# Emulated boards, and the flags of their core. Both run at 25 MHz: a tick of the timer is 40 instructions.
CORES = {
    "Cortex-M4": ("mps2-an386", "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"),
    "Cortex-M3": ("mps2-an385", "-mcpu=cortex-m3 -mthumb -mfloat-abi=soft"),
}
CASES = [
    ("Cortex-M4", "float", "libm"),
    ("Cortex-M4", "float", "builtin"),
    ("Cortex-M3", "q31", "libm"),
    ("Cortex-M3", "q15", "libm"),
]
INSTRUCTIONS_PER_TICK, REPEATS = 40, 50
TYPES = {"float": ("float", np.float32), "q15": ("int16_t", np.int16), "q31": ("int32_t", np.int32)}


class EmulatedRun(NamedTuple):
    """Outputs (rows, outputs) of an emulated core, bytes of flash and stack, and instructions of one prediction."""

    y: Any
    y_left: Any
    y_right: Any
    flash: int
    stack: int
    instructions: Any


def missing_tools() -> list[str]:
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def _run(*command: object, timeout: float = 300) -> str:
    # Semihosting writes to standard error.
    done = subprocess.run(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stdout}")
    return done.stdout


def emulate(header: str, x: Any, n_outputs: int, *, number: str = "float", core: str = "Cortex-M4") -> EmulatedRun:
    """Compile a header with prefix ``plant`` for a core, and run it on the rows x in the number type of the header."""
    machine, flags = CORES[core]
    scalar, dtype = TYPES[number]
    values = np.ascontiguousarray(x, dtype=dtype)
    words = values.view(np.uint32 if values.itemsize == 4 else np.uint16)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "plant.h").write_text(header)
        rows = ",\n".join("{" + ",".join(map(str, row)) + "}" for row in words)
        unsigned = f"uint{8 * values.itemsize}_t"
        (folder / "vectors.h").write_text(
            f"static const union {{ {unsigned} words[{len(x)}][{x.shape[1]}]; T rows[{len(x)}][{x.shape[1]}]; }} given = "
            f"{{{{{rows}}}}};\n#define inputs given.rows\n"
        )
        common = [*flags.split(), "-std=c99", "-O2", "-ffunction-sections", "-fdata-sections", f"-I{folder}"]
        common += [f"-DT={scalar}", f"-DOUTPUTS={n_outputs}", f"-DROWS={len(x)}", f"-DREPEATS={REPEATS}"]
        common += ["-include", "stdint.h", *(["-DINTERVAL"] if "plant_predict_interval" in header else [])]
        objects = []
        for source in ("main", "model", "nothing"):
            objects.append(folder / f"{source}.o")
            _run("arm-none-eabi-gcc", *common, "-c", SOURCES / f"{source}.c", "-o", objects[-1])
        program = folder / "program.elf"
        linker = ["-nostartfiles", "-Wl,--gc-sections", f"-T{SOURCES / 'link.ld'}", "-lm", "--specs=nano.specs"]
        _run("arm-none-eabi-gcc", *flags.split(), *objects, "-o", program, *linker)
        sizes = _run("arm-none-eabi-size", folder / "model.o").splitlines()[1].split()
        printed = _run(
            "qemu-system-arm", "-M", machine, "-icount", "shift=0", "-nographic", "-monitor", "none", "-serial", "none",
            "-semihosting-config", "enable=on,target=native", "-kernel", program,
        )  # fmt: skip
    if "FAULT" in printed or not re.fullmatch(r"[0-9a-f \n]+", printed):
        raise RuntimeError(f"the emulated core printed {printed[-200:]!r}")
    lines = [np.array([int(word, 16) for word in line.split()], dtype=np.uint32) for line in printed.splitlines()]
    table = np.stack(lines[:-1])
    words = np.ascontiguousarray(table[:, :-2])
    outputs = (words.view(np.float32) if number == "float" else words.astype(dtype)).reshape(len(x), n_outputs, 3)
    instructions = (table[:, -2].astype(np.int64) - table[:, -1].astype(np.int64)) * INSTRUCTIONS_PER_TICK / REPEATS
    kind: Any = np.float64 if number == "float" else np.int64
    y, y_left, y_right = np.moveaxis(outputs.astype(kind), 2, 0)
    # text holds code and constants; data and bss, which would be RAM, must be empty.
    assert sizes[1:3] == ["0", "0"], f"the header has static RAM: {sizes}"
    return EmulatedRun(y, y_left, y_right, int(sizes[0]), int(lines[-1][0]), instructions)


def trained(kind: str, n_rules: int = 5) -> PlainSystem:
    """A system of 4 inputs, trained on a smooth function of them, on scales of their own."""
    rng = np.random.default_rng(0)
    x = rng.uniform([0.0, 20.0, 990.0, 25.0], [40.0, 80.0, 1030.0, 100.0], (500, 4))
    y = 480.0 - 1.5 * x[:, 0] - 0.2 * x[:, 1] + 10.0 * np.sin(x[:, 0] / 8.0) + 0.05 * x[:, 3]
    return PlainSystem.of(FLSRegressor(kind=kind, n_rules=n_rules, epochs=30, random_state=0, device="cpu").fit(x, y))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = option_parser(__doc__, "markdown")
    parser.add_argument("--rows", type=positive, default=200, help="inputs of each system; 200 by default")
    given = parser.parse_args(arguments)
    if missing_tools():
        print(f"{', '.join(missing_tools())} must be installed: apt-get install {PACKAGES}", file=sys.stderr)
        return 1
    head = ["core", "number", "exp", "system", "flash B", "tables B", "stack B", "instructions", "most", "× T1"]
    lines = []
    for core, number, exp in CASES:
        base = None
        for kind, system in (("t1", "T1"), ("it2", "IT2, km")):
            plain = trained(kind)
            header = c_header(plain, prefix="plant", number=number, exp=exp)
            assert plain.input_range is not None
            x = np.random.default_rng(1).uniform(*plain.input_range, (given.rows, plain.n_features))
            x = x if number == "float" else FixedPoint(plain, number).quantized(x)
            run = emulate(header.text, x, plain.n_outputs, number=number, core=core)
            mean = float(run.instructions.mean())
            base = base or mean
            counts = (run.flash, header.table_bytes, run.stack, mean, run.instructions.max())
            cells = [f"{count:,.0f}" for count in counts]
            lines.append([core, number, exp if number == "float" else "-", system, *cells, f"{mean / base:.2f}"])
    text = markdown_table(head, lines)
    print(text)
    if given.markdown:
        versions = "; ".join(_run(tool, "--version").splitlines()[0] for tool in ("arm-none-eabi-gcc", "qemu-system-arm"))
        intro = (
            "Systems of 4 inputs, 5 rules and 1 output, exported to C, compiled with -O2 and run on an emulated core. "
            "Flash is code and tables of `predict` and `predict_interval` together, without libm (expf) and libgcc (64-bit "
            "division); there is no static RAM; stack is the deepest of a prediction, found by painting it. Instructions "
            f"of one `predict`, all calls included, mean and most over {given.rows} inputs from the range of the training "
            "data; a loop around an empty call is taken off."
        )
        write_results(given.markdown, "embedded", "On a microcontroller", "embedded.py", intro, text, foot=f"{versions}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
