"""The whole distribution, not only its middle

How much stock is enough for nineteen weeks out of twenty? The answer is a quantile, and one fit
of a general type-2 system gives all of them: its nested planes are trained as the quantiles of
the target. Rows that are held out calibrate the planes, so that the quantiles keep their promise.

What to see: on the left, fans of 50, 80 and 95 % around the median; they follow a scatter that
grows and is skewed upwards. On the right, the share of new values below each quantile lies close
to the diagonal, where it should be.
"""

import matplotlib.pyplot as plt
import numpy as np

from deepfls import FLSRegressor, metrics

# %%
# Demand over the weeks of a year: seasonal, and skewed, as demand is.
random = np.random.default_rng(0)
week = random.uniform(0, 52, size=(3000, 1))
season = 100 + 40 * np.sin(2 * np.pi * week[:, 0] / 52)
demand = season + (0.1 + week[:, 0] / 100) * 20 * (random.gamma(2.0, 1.0, 3000) - 2.0)
X_train, X_test, y_train, y_test = week[:2000], week[2000:], demand[:2000], demand[2000:]

# %%
model = FLSRegressor(
    kind="gt2",
    n_rules=8,
    epochs=40,
    loss="quantiles",
    coverage=0.9,
    calibration="alpha",
    random_state=0,
).fit(X_train, y_train)
levels = np.arange(1, 20) / 20
quantiles = model.predict_quantiles(X_test, levels)  # (rows, levels)
print(f"CRPS {metrics.crps(y_test, quantiles, levels):.2f}")
stock = model.predict_quantiles([[45.0]], [0.95])[0, 0]
print(f"stock for nineteen weeks of twenty, in week 45: {stock:.0f}")

# %%
grid = np.linspace(0, 52, 200)[:, None]
fan = model.predict_quantiles(grid, [0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975])
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4), layout="constrained", width_ratios=[1.6, 1]
)
left.scatter(X_test[:, 0], y_test, s=4, color="#666666", alpha=0.6)
for outer, alpha in ((0, 0.2), (1, 0.3), (2, 0.4)):
    left.fill_between(
        grid[:, 0], fan[:, outer], fan[:, 6 - outer], color="#0072B2", alpha=alpha, linewidth=0
    )
left.plot(grid[:, 0], fan[:, 3], color="black", linewidth=1.2)
left.set(xlabel="week", ylabel="demand", title="median, and the middle 50, 80 and 95 %")
right.plot([0, 1], [0, 1], color="#666666", linestyle=":")
right.plot(levels, (y_test[:, None] <= quantiles).mean(axis=0), "o", color="#0072B2")
right.set(xlabel="level", ylabel="share of new values below the quantile", aspect="equal")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
figure.savefig("distributions.png")
