"""A table that is streamed from disk

A table need not fit into memory. Parquet files are read row group by row group, in another random
order in every epoch, while the next ones are fetched in the background. This script writes 60,000
rows in four files and trains on them as a stream; the same code serves a table a thousand times
as large, and `torchrun` spreads it over many processes.

What to see: on the left, the loss falls within a few passes, as with rows in memory. On the
right, the surface that the rules learned: a spiral that no straight line could follow.
"""

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from deepfls import FLSRegressor
from deepfls.data.sources import ParquetSource
from deepfls.inspection import LearningCurveDisplay, ResponseSurfaceDisplay


def spiral(east: np.ndarray, north: np.ndarray) -> np.ndarray:
    return np.sin(2 * np.hypot(east, north) - np.arctan2(north, east)) * np.tanh(
        np.hypot(east, north)
    )


# %%
random = np.random.default_rng(0)
for part in range(4):
    x = random.uniform(-3, 3, size=(15_000, 2))
    y = spiral(*x.T) + 0.1 * random.normal(size=15_000)
    table = pa.table({"east": x[:, 0], "north": x[:, 1], "height": y})
    parquet.write_table(table, f"rows-{part}.parquet", row_group_size=5_000)

# %%
source = ParquetSource("rows-*.parquet", target="height")
model = FLSRegressor(kind="t1", n_rules=40, epochs=8, random_state=0).fit(source)
x = random.uniform(-3, 3, size=(5_000, 2))
test = pa.table({"east": x[:, 0], "north": x[:, 1]})
error = model.predict(test) - spiral(*x.T)
print(f"{model.n_epochs_} passes over {4 * 15_000:,} rows with a noise of 0.1")
print(f"error of the surface: {np.sqrt(np.mean(error**2)):.3f}")

# %%
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.8), layout="constrained", width_ratios=[1, 1.2]
)
LearningCurveDisplay.from_estimator(model, ax=left)
ResponseSurfaceDisplay.from_estimator(model, ("east", "north"), ax=right)
figure.savefig("large_table.png")
