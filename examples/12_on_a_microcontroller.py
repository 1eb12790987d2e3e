"""From Python to a microcontroller

A trained system is a few hundred numbers, small enough for the cheapest chips. `to_c` writes one
C99 header without memory allocation; `number="q15"` makes one that uses integers alone, for chips
without floating point. Here both are compiled with the compiler of this machine and called on 500
rows; the tests of deepfls run the same headers on an emulated Cortex-M.

What to see: the float header gives the predictions of Python to about seven digits, the 16-bit
one to a fraction of a percent of the output's range. Both need a few kilobytes.
"""

import ctypes
import shutil
import subprocess
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from deepfls import FLSRegressor

compiler = shutil.which("cc") or shutil.which("gcc")
if compiler is None:
    raise SystemExit("This example needs a C compiler: cc or gcc.")

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
subprocess.run(
    [compiler, "-std=c99", "-O2", "-shared", "-fPIC", "plant.c", "-o", "plant.so", "-lm"],
    check=True,
)
both = ctypes.CDLL("./plant.so").both
rows = X[1000:].astype(np.float32)
result = np.empty((2, len(rows)), dtype=np.float32)
pointer = ctypes.POINTER(ctypes.c_float)
for i, row in enumerate(rows):
    both(
        row.ctypes.data_as(pointer),
        result[0, i:].ctypes.data_as(pointer),
        result[1, i:].ctypes.data_as(pointer),
    )

# %%
expected = model.predict(rows)
errors = np.maximum(np.abs(result - expected) / np.ptp(expected), 1e-9)
figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
bins = np.logspace(-9, -3, 61)
for name, error, color in zip(
    ("float, 32 bits", "integers, 16 bits (q15)"), errors, ("#0072B2", "#D55E00")
):
    ax.hist(error, bins=bins, color=color, alpha=0.7, label=f"{name}: at most {error.max():.1e}")
ax.set(
    xscale="log", xlabel="difference from Python, as a share of the output's range", ylabel="rows"
)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
figure.savefig("on_a_microcontroller.png")
