"""From Python to a microcontroller

A trained system is a few hundred numbers, small enough for the cheapest chips. `to_c` writes one
C99 header without memory allocation; `number="q15"` makes one that uses integers alone, for chips
without floating point. Here both are compiled and called on 500 rows. Where Debian's compiler and
emulator for ARM are installed (`make test-embedded`), a Cortex-M4 predicts the first 100 of them.

What to see: the float header gives the predictions of Python to about seven digits, on this machine
and, where it could be emulated, on the chip; the 16-bit one to a hundredth of a percent of the
output's range. Both need a few kilobytes.
"""

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from deepfls import FLSRegressor

# %%
random = np.random.default_rng(0)
X = random.uniform([0, 25, 990, 25], [40, 80, 1035, 100], size=(1500, 4))
y = 495 - 1.9 * X[:, 0] - 0.2 * X[:, 1] + 6 * np.sin(X[:, 0] / 6)
model = FLSRegressor(kind="it2", n_rules=5, epochs=40, random_state=0).fit(X[:1000], y[:1000])
print(model.to_c("plant.h"))
print(model.to_c("plant_q15.h", number="q15", X=X[:1000]))

# %%
source = """
#define PLANT_Q15_WITH_FLOAT
#include "plant.h"
#include "plant_q15.h"
void both(const float *x, float *y, float *y_q15)
{
    int16_t q[PLANT_Q15_INPUTS], out[PLANT_Q15_OUTPUTS];
    plant_predict(x, y);
    for (int m = 0; m < PLANT_Q15_INPUTS; m++) q[m] = plant_q15_quantized(m, x[m]);
    plant_q15_predict(q, out);
    *y_q15 = plant_q15_value(0, out[0]);
}
"""
Path("plant.c").write_text(source)
compiler = shutil.which("cc") or shutil.which("gcc") or "cc"
flags = "-std=c99 -O2 -shared -fPIC plant.c -o plant.so -lm"
subprocess.run([compiler, *flags.split()], check=True)
both = ctypes.CDLL("./plant.so").both
rows = X[1000:].astype(np.float32)
result = np.empty((2, len(rows)), dtype=np.float32)
pointer = ctypes.POINTER(ctypes.c_float)
for i, row in enumerate(rows):
    both(*(part.ctypes.data_as(pointer) for part in (row, result[0, i:], result[1, i:])))
series = {"float": result[0], "integers, 16 bits (q15)": result[1]}

# %%
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))  # of a clone of the repository
if shutil.which("qemu-system-arm") and shutil.which("arm-none-eabi-gcc"):
    from embedded import emulate

    chip = emulate(Path("plant.h").read_text(), rows[:100], 1)
    series["float, emulated Cortex-M4"] = chip.y[:, 0]
    print(f"Cortex-M4: {chip.instructions.mean():,.0f} instructions for a prediction")

# %%
expected = model.predict(rows)
figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
for (name, y), color in zip(series.items(), ("#0072B2", "#D55E00", "#009E73")):
    error = np.maximum(np.abs(y - expected[: len(y)]) / np.ptp(expected), 1e-9)
    label = f"{name}: at most {error.max():.1e}"
    ax.hist(error, bins=np.logspace(-9, -3, 61), color=color, alpha=0.7, label=label)
ax.set(xscale="log", xlabel="difference from Python, as a share of the range", ylabel="rows")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
figure.savefig("on_a_microcontroller.png")
