"""A chaotic time series from its own past

The Mackey-Glass equation describes a delayed feedback, once proposed for the production of blood
cells, and is the classic test of fuzzy prediction. Four values of the past, 18, 12, 6 and 0 steps
ago, are the inputs; the value 6 steps ahead is the target. The first half of the series is used
for training, the rest for the test.

What to see: the prediction covers the true series so well that the lower panel shows its error on
a scale of its own, together with the calibrated 90 % interval around it. The interval is wider in
some parts of the series than in others, as the errors are.
"""

import matplotlib.pyplot as plt
import numpy as np

from deepfls import FLSRegressor, metrics

# %%
# Mackey-Glass with a delay of 17, by Euler steps of 0.1; one value per unit of time is kept.
values = np.full(200 + 13_000, 1.2)
for i in range(200, len(values) - 1):
    delayed = values[i - 170]
    values[i + 1] = values[i] + 0.1 * (0.2 * delayed / (1 + delayed**10) - 0.1 * values[i])
series = values[1200::10]

# %%
lags, ahead = np.array([18, 12, 6, 0]), 6
times = np.arange(lags.max(), len(series) - ahead)
X = series[times[:, None] - lags]  # (rows, lags)
y = series[times + ahead]
half = len(y) // 2
model = FLSRegressor(kind="it2", n_rules=16, epochs=150, coverage=0.9, random_state=0).fit(
    X[:half], y[:half]
)
predicted = model.predict(X[half:])
lower, upper = model.predict_interval(X[half:])
error = predicted - y[half:]
repeated = X[half:, -1] - y[half:]
print(
    f"RMSE {np.sqrt(np.mean(error**2)):.4f}; of the last value {np.sqrt(np.mean(repeated**2)):.4f}"
)
print(f"{metrics.picp(y[half:], lower, upper):.1%} inside the 90 % intervals")

# %%
shown = slice(0, 300)
figure, (top, bottom) = plt.subplots(
    2, 1, figsize=(9, 5), layout="constrained", sharex=True, height_ratios=[1.5, 1]
)
top.plot(
    times[half:][shown], y[half:][shown], color="black", linewidth=2.5, alpha=0.35, label="true"
)
top.plot(
    times[half:][shown],
    predicted[shown],
    color="#0072B2",
    linewidth=1.2,
    label="predicted 6 steps ahead",
)
top.set_ylabel("value")
top.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
band = (lower - y[half:])[shown], (upper - y[half:])[shown]
bottom.fill_between(
    times[half:][shown], *band, color="#0072B2", alpha=0.25, linewidth=0, label="90 % interval"
)
bottom.plot(times[half:][shown], error[shown], color="#0072B2", linewidth=1, label="error")
bottom.axhline(0, color="black", linewidth=0.8)
bottom.set(xlabel="time", ylabel="minus the true value")
bottom.legend(frameon=False, ncols=2)
figure.savefig("time_series.png")
